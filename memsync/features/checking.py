"""Check the notes: dead links, unclear names, what cannot be read, what has expired, secrets."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

from msgspec import Meta
from msgspec.structs import replace

from memsync.edit.note_paths import note_path
from memsync.edit.relinking import NoteText
from memsync.errors import MemsyncError, NoteError, UsageError, WriteRefused
from memsync.model.note import Link, Note
from memsync.model.query import IndexedNote
from memsync.model.status import Failure
from memsync.model.text import count, listed, quoted
from memsync.model.upkeep import Checked, Finding
from memsync.model.vocabulary import Kind, NotePath, told_origin, trust
from memsync.notes import secrets
from memsync.notes.attributes import cut_attributes
from memsync.notes.copies import copies_of
from memsync.notes.decode import BinaryFileError, decode
from memsync.notes.ignore import is_note_name
from memsync.notes.ignore_pattern import as_bytes, read_pattern
from memsync.notes.links import CITATION, Anchors, Linked, is_external, outside_code
from memsync.notes.naming import folded
from memsync.notes.parse import parse_note
from memsync.notes.validity_marks import SUPERSEDES, VALID_UNTIL, marks_of, reference_of, statements
from memsync.operation import At, Cli, Command, one_of, operation
from memsync.ports import Progress, no_progress
from memsync.search.validity import Validity, today

if TYPE_CHECKING:
    from memsync.ports import IndexReader
    from memsync.workspace import Workspace

SECTION = "Upkeep"

RULES = (
    "links", "anchors", "names", "titles", "front-matter", "conflicts", "copies", "text", "citations", "expired",
    "secrets", "ignored",
)  # fmt: skip
FORMATS = ("text", "github")
MAX_NAMED = 3
DRAWING = "excalidraw-plugin"
"""The key in the front matter of a drawing."""
_DAY_NOTE = re.compile(
    r"(?i)(?=.*(?:19|20)\d\d)(?=.*[a-z]|(?:\D*\d){5})(?:[-_., ]|[wq]?(?<!\d)\d{1,8}(?!\d)(?:st|nd|rd|th)?|week|"
    r"(?:mon|tue|wed|thu|fri|sat|sun|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)(?:s?|nes|rs|ur)"
    r"(?:day|r?uary|ch|il|e|y|ust|t|t?ember|ober)?)+"
)
"""The name of a note of a day, week or month: links to it are made before the note."""
_WORDS = {0: "the owner's words", -1: "an agent's", -2: "an import"}
MANY = 1_000
"""For so many notes it pays to load the scanner for secrets, even if no text may have one."""
_LINE = re.compile(r"line (\d+)")


@operation(
    Command(
        "check",
        help="Find faults in the notes (index verify: in the index; doctor: on this machine).",
        notes=f"By default it applies all RULES: {', '.join(RULES)}. They find links and anchors that lead nowhere, "
        "names that several notes have, front matter that cannot be read, "
        "git's conflict markers, copies that sync clients made, citations of lines that are not there, facts that have "
        "expired, secrets, and links to files that no search finds. It leaves out what [check] ignore names. Exits "
        "with 1 if it finds anything. --fix repairs links to notes that were moved.",
        examples=("memsync check", "memsync check links anchors --fix", "memsync check --format github"),
        first=10,
    ),
    writes=True,
    is_slow=True,
)
def check(
    memory: Workspace,
    rules: Annotated[tuple[str, ...], Meta(description="Only these rules."), Cli(metavar="RULES")] = (),
    *,
    fix: Annotated[bool, Meta(description="Repair what is certain.", extra={"writes": True})] = False,
    format: Annotated[str, one_of(FORMATS, "How to print it: text, or github (annotations).")] = "text",  # noqa: A002 (because the option is called so)
    at: At = "",
    progress: Progress = no_progress,
) -> Checked:
    """Return what is wrong in the notes, by path and line. Raises UsageError for an unknown rule."""
    if unknown := [rule for rule in rules if rule not in RULES]:
        raise UsageError(f"there is no rule {quoted(unknown[0])}", hint=f"Rules: {', '.join(RULES)}.")
    with memory.as_of_now() as (reader, pending):
        checking = _Checking(memory, reader, rules or RULES)
    found, ignored = checking.listed(progress)
    if fix:
        fixed = checking.mended(set(found))
        found = [replace(one, is_fixed=one in fixed) for one in found]
    failed = [Failure(path, reason) for path, reason in checking.failed.items()]
    return Checked(tuple(found), len(checking.notes), format, tuple(failed), pending, ignored)


@operation(is_quick=True)
def check_text(
    memory: Workspace,
    note: Annotated[str, Meta(description="The path of the note.")],
    text: Annotated[str, Meta(description="What an editor holds of it, saved or not.")],
) -> Checked:
    """Return what `check` would find in one note if it had this text. Raises UsageError for a wrong path."""
    path, content = note_path(note), text.encode("utf-8", "surrogatepass")
    try:
        only = parse_note(path, content, memory.reader.rules)
    except BinaryFileError as error:
        return Checked((), 0, failed=(Failure(path, str(error)),))
    with memory.as_of_now() as (reader, pending):
        checking = _Checking(memory, reader, RULES, only, content)
    found, ignored = checking.listed(no_progress)
    return Checked(tuple(found), 1, pending_text=pending, ignored=ignored)


def _is_ignored(one: Finding, entries: Sequence[str]) -> bool:
    """Tell whether `[check] ignore` leaves a finding out by its rule or a pattern; secrets only by their rule."""
    patterns = () if one.rule == "secrets" else filter(None, (read_pattern(as_bytes(entry)) for entry in entries))
    return one.rule in entries or any(pattern.holds(as_bytes(one.path)) for pattern in patterns)


class _Repair(NamedTuple):
    """The new target of a link."""

    finding: Finding
    link: Link
    new: str


class _Checking:
    """The notes of a memory that are not archived, and what is wrong with them: with `only`, in a text of that note.

    Other notes are then read only as far as that text names them.
    """

    def __init__(
        self, memory: Workspace, reader: IndexReader, rules: Sequence[str], only: Note | None = None, text: bytes = b""
    ) -> None:
        self._memory = memory
        self._rules = rules
        self._only, self._text = only, text
        notes = reader.notes()
        if only is not None:
            others = (note for note in notes if note.path != only.path)
            notes = sorted([_indexed(only), *others], key=lambda note: note.path)
        self.notes = [note for note in notes if not note.archived and DRAWING not in note.front_matter]
        self.failed = {failure.path: failure.reason for failure in memory.syncer.known_failures()}
        self._linked = Linked(notes, memory.files.other_files)
        self._links = reader.links() if only is None else [(only.path, link) for link in only.links]
        self._validity = Validity.of(reader, memory.reader.usual_origin)
        self._warnings = reader.warnings() if only is None else [(str(only.path), text) for text in only.warnings]
        self._repairs: dict[NotePath, list[_Repair]] = {}
        # What the text of a note decides is collected first, so that each note is read once.
        self._anchored: dict[str, list[tuple[NotePath, Link]]] = {}
        self._cited: list[tuple[NotePath, int, str, int]] = []
        self._lengths: dict[str, int] = {}
        self._kinds = {note.path: note.kind for note in self.notes}
        self._digests = cache(lambda path: {one.digest for one in statements(memory.chunks_of(path)[0])})

    def listed(self, progress: Progress) -> tuple[list[Finding], int]:
        """Return what is wrong by the rules, by path and line, and how many more findings the settings leave out."""
        found = [one for one in self.findings(progress) if one.rule in self._rules]
        if self._only is not None:
            found = [one for one in found if one.path == self._only.path]
        found.sort(key=lambda one: (one.path, one.line, one.rule, one.message))
        shown = [one for one in found if not _is_ignored(one, self._memory.settings["check.ignore"])]
        return shown, len(found) - len(shown)

    def findings(self, progress: Progress) -> Iterator[Finding]:
        """Yield what is wrong; notes that cannot be read are in `failed` afterwards."""
        if "secrets" in self._rules and len(self.notes) > MANY and self._only is None:
            secrets.load()
        yield from self._of_names()
        if "citations" in self._rules:
            yield from self._of_void_marks()
        for path, warning in self._warnings:
            if path in self._kinds:
                yield self._of_warning(NotePath(path), warning)
        for source, link in self._links:
            # Threads quote anything.
            if self._kinds.get(source, Kind.THREAD) is not Kind.THREAD and not is_external(link):
                yield from self._of_link(source, link)
        for number, note in enumerate(self._read(), 1):
            yield from _of_time(note.path, 1, marks_of(note.front_matter))
            yield from self._of_text(note.path, self._content(note.path))
            progress("checking notes", number, len(self.notes))
        for path, line, cited, last in self._cited:
            if last > self._lengths.get(cited, last):
                size = count(self._lengths[cited], "line")
                yield Finding(path, line, "citations", f"{cited} has {size}, not {last:,}")

    # ------------------------------------------------------------------------------------------------ rules

    def _of_names(self) -> Iterator[Finding]:
        """Yield the copies that sync clients made, and the notes of one folder with the same title."""
        folder = None if self._only is None else posixpath.dirname(self._only.path)
        notes = [note for note in self.notes if folder in (None, posixpath.dirname(note.path))]
        copies = dict(copies_of(self._memory.files, {note.path for note in notes}))
        for copy, original in copies.items():
            message = f"a sync client or git made this copy of {original}: merge what differs, then delete it"
            yield Finding(NotePath(copy), 1, "copies", message)
        titles: dict[tuple[str, str], NotePath] = {}
        for note in notes:
            if note.kind in (Kind.NOTE, Kind.MEMORY) and note.title != "README" and note.path not in copies:
                first = titles.setdefault((posixpath.dirname(note.path), folded(note.title)), note.path)
                if first != note.path:
                    yield Finding(note.path, 1, "titles", f"has the same title as {first}")

    def _read(self) -> Iterator[IndexedNote]:
        """Yield the notes whose text decides: all, or the only one and then those that it names."""
        if self._only is None:
            yield from self.notes
            return
        yield from (note for note in self.notes if note.path == self._only.path)
        named = {*self._anchored, *(cited for _, _, cited, _ in self._cited)} - {self._only.path}
        yield from (note for note in self.notes if note.path in named)

    def _of_void_marks(self) -> Iterator[Finding]:
        """Yield the marks that count for nothing: their text is older, or trusted less, than what they name."""
        for pair in self._validity.void:
            day = pair.old.time[:10] or "by its path"
            message = f"supersedes {pair.old.citation}, which is newer ({day}): this counts for nothing"
            yield Finding(pair.new.path, max(pair.new.first, 1), "citations", message)
        for place, pair, origin in self._validity.all_refused(self._memory.chunks_of):
            # People paste what others wrote, so the role of a message does not say whose a mark is.
            is_said = self._kinds.get(pair.mark.path) is Kind.THREAD
            text = "text in a conversation" if is_said else f"text ({told_origin(pair.by)})"
            rule = f"{text} may not supersede {_WORDS[trust(origin)]}"
            message = f"supersedes {place.citation}: this counts for nothing, because {rule}"
            yield Finding(pair.mark.path, max(pair.mark.first, 1), "citations", message)

    def _of_warning(self, path: NotePath, warning: str) -> Finding:
        found = _LINE.match(warning)
        line, rule = int(found[1]) if found else 1, "front-matter" if "front matter" in warning else "text"
        if "conflict markers" in warning:
            lines = self._memory.chunks_of(path)[0] if self._only is None else self._only.lines
            marked = (n for n, text in enumerate(lines, 1) if text.startswith(("<<<<<<<", ">>>>>>>")))
            line, rule = next(marked, 1), "conflicts"
        return Finding(path, line, rule, warning)

    def _of_link(self, source: NotePath, link: Link) -> Iterator[Finding]:
        found = self._linked.meant(link, source)
        written = f"[[{link.target}]]" if link.wiki else f"({link.target})"
        if not found:
            if not self._is_elsewhere(source, link):
                yield self._dead(source, link, written)
        elif len(found) > 1:
            yield Finding(source, link.line, "names", f"{written} may mean {listed(found, MAX_NAMED, ' or ')}")
        elif found[0] not in self._linked.notes and self._is_left_out(found[0]):
            yield Finding(source, link.line, "ignored", f"no search finds {found[0]}: .gitignore or [files] exclude")
        elif link.anchor:
            self._anchored.setdefault(found[0], []).append((source, link))

    def _is_left_out(self, path: str) -> bool:
        return is_note_name(path.rpartition("/")[2]) and self._memory.files.leaves_out(NotePath(path))

    def _is_elsewhere(self, source: NotePath, link: Link) -> bool:
        """Tell whether a link that means no file leads to a folder, a hidden file, or the note of a day to be written.

        Nor is a link out of the root dead, unless it names a file of the root: memsync does not look there.
        """
        target = link.target.partition("?")[0].strip("/")
        name, beside = posixpath.basename(target), posixpath.normpath(f"{posixpath.dirname(source) or '.'}/{target}")
        if any(_DAY_NOTE.fullmatch(day.removesuffix(".md")) for day in (name, target.replace("/", "-"))):
            return True
        if beside.partition("/")[0] == "..":
            return not self._linked.meant(Link(name, "", "", 0, wiki=True), source, by_title=False)
        return any(map(self._memory.files.exists, (posixpath.normpath(target), beside)))

    def _of_text(self, path: NotePath, content: bytes) -> Iterator[Finding]:
        try:
            lines = decode(content).lines
            seeks = "secrets" in self._rules and (self._only is None or path == self._only.path)
            for place, kind, digest in secrets.places(content) if seeks else ():
                yield Finding(path, place, "secrets", f"seems to contain a secret: {kind}, {digest}")
        except (BinaryFileError, NoteError) as error:
            self.failed[path] = str(error)
            return
        self._lengths[path] = len(lines)
        if path in self._anchored:
            anchors = Anchors(lines)
            for source, link in self._anchored[path]:
                if not anchors.have(link.anchor):
                    yield Finding(source, link.line, "anchors", f"{path} has no {quoted(f'#{link.anchor}')}")
        if b"valid" in content or b"supersedes" in content:
            for number, line in enumerate(lines, 1):
                marks = marks_of(cut_attributes(line)[1])
                yield from _of_time(path, number, marks)
                yield from self._of_marks(path, number, marks.get(SUPERSEDES, ()))
        if b".md" in content or b".markdown" in content:
            for number, line in outside_code(lines):
                found = CITATION.finditer(line) if ".m" in line else ()
                self._cited += [(path, number, cited[1], int(cited[3] or cited[2])) for cited in found]

    def _of_marks(self, path: NotePath, number: int, marks: Iterable[str]) -> Iterator[Finding]:
        """Yield the marks of what is superseded whose text is nowhere."""
        for mark in marks:
            place = reference_of(mark)
            target = self._linked.target(Link(place.name, "", "", 0, wiki=True), path) if place.name else path
            if not target:
                yield Finding(path, number, "citations", f"supersedes {quoted(place.name)}, which does not exist")
            elif place.digest and place.digest not in self._digests(NotePath(target)):
                message = f"supersedes {target}:{place.first}, whose text has changed"
                yield Finding(path, number, "citations", message)

    # -------------------------------------------------------------------------------------------- repairs

    def _dead(self, source: NotePath, link: Link, written: str) -> Finding:
        """Return the finding for a dead link. If one file has its name, it was moved: then the link can be repaired."""
        name = link.target.rpartition("/")[2]
        moved = self._linked.meant(Link(name, "", "", 0, wiki=True), source, by_title=False) if name else ()
        new = self._linked.spelled(link, source, moved[0], by_title=False) if len(moved) == 1 else None
        hint = f": {moved[0]} has this name" if new else ""
        finding = Finding(source, link.line, "links", f"{written} leads nowhere{hint}")
        if new:
            self._repairs.setdefault(source, []).append(_Repair(finding, link, new))
        return finding

    def mended(self, wanted: Set[Finding]) -> Set[Finding]:
        """Repair what can be repaired of these findings; return those that were."""
        fixed = set[Finding]()
        for path, repairs in self._repairs.items():
            chosen = [repair for repair in repairs if repair.finding in wanted]
            edit = partial(self._repaired, path, chosen)
            try:
                if chosen:
                    self._memory.write("check", f"repair {path}", partial(self._memory.writer.rewrite, path, edit))
                    fixed |= {repair.finding for repair in chosen}
            except (MemsyncError, FileNotFoundError, BinaryFileError) as error:
                self.failed[path] = str(error)
        return fixed

    def _repaired(self, path: NotePath, repairs: Sequence[_Repair], content: str) -> str:
        rules = self._memory.reader.rules
        text = NoteText.of(path, content.encode("utf-8", "surrogateescape"), rules)
        new = {repair.link: repair.new for repair in repairs}

        def renamed(link: Link) -> tuple[str, str]:
            return new.get(link, link.target), link.anchor

        lines = text.relinked(renamed)
        if fault := text.fault(lines, path, renamed, rules):
            raise WriteRefused(f"{fault}: repair it by hand")
        return text.with_lines(lines).decode("utf-8", "surrogateescape")

    def _content(self, path: NotePath) -> bytes:
        if self._only is not None and path == self._only.path:
            return self._text
        try:
            return self._memory.files.read(path)[0]
        except (FileNotFoundError, NoteError) as error:
            self.failed[path] = str(error)
            return b""


def _indexed(note: Note) -> IndexedNote:
    """Return a note as an index has it, without what only files tell."""
    head = note.front_matter
    return IndexedNote(
        note.path, note.kind, note.tier, note.title, note.date, "", note.pinned, note.archived, head, 0, 0
    )


def _of_time(path: NotePath, line: int, marks: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    for until in marks.get(VALID_UNTIL, ()):
        if until < today()[: len(until)]:
            yield Finding(path, line, "expired", f"was valid until {until}")
