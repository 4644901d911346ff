"""What the memory learnt and dropped from one state to another: statements, by note and heading."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from memsync.errors import NoteError
from memsync.model.answer import SearchResult
from memsync.model.commits import Changed, Commit, Diff, Digest, Stated, cited_at
from memsync.model.grouped import grouped
from memsync.model.query import SearchRequest
from memsync.model.text import count, printable
from memsync.model.vocabulary import NotePath, citation
from memsync.notes.commit_files import notes_of
from memsync.notes.decode import BinaryFileError
from memsync.notes.files import NoteFiles
from memsync.notes.git_files import is_bare
from memsync.notes.revisions import GIT_SECONDS, IGNORE_FILE, Blob, Revisions
from memsync.notes.validity_marks import statements
from memsync.operation import Cli, Command, operation
from memsync.past import past_of
from memsync.ports import Progress, no_progress
from memsync.system import clock

if TYPE_CHECKING:
    from memsync.notes.git import Git
    from memsync.workspace import Workspace

SECTION = "History"

ASKED = 200
"""With a query, only changes within this many hits of one of the states are left."""
_DEFINITION = re.compile(
    r""" {0,3}\[(?!\^|\s*\])[^\]]{1,999}\]:[ \t]*(?:[\w+.-]+://|mailto:|[#./])\S*(?:[ \t]+["'(].*)?\s*"""
)
"""A line that only says where links lead: outside of the notes, or to a heading or a path."""
_MARKER = re.compile(r"^(?:[-+*]|\d{1,9}[.)])\s+")
_BLOCK = re.compile(r"#{1,6}(?=\s|$)|>|(?:[-+*]|\d{1,9}[.)])(?=\s|$)|[-*_] ?[-*_] ?[-*_]|`{3}|&#126;|~|\[[^\]]*\]:")
"""What would begin a block of Markdown at the beginning of a text; `[name]:` would change links elsewhere."""
_HTML = re.compile(r"<(?=[A-Za-z/!?])")
BEFORE = "The earlier state: before this day, or at this commit or tag: monday, 2026-11-01, main~20."


_Blobs = Mapping[str, Blob]


@dataclass(frozen=True, slots=True)
class _Said:
    """A statement of a note, with its heading path; `words` are equal for statements that say the same."""

    path: NotePath
    heading_path: tuple[str, ...]
    stated: Stated
    words: str


@operation(
    Command(
        "history diff",
        help="Print what the memory learnt and dropped from one state to another, by note and heading.",
        notes="A date means the end of that day. Statements that only moved are left out, and lines that only say "
        "where links lead. With QUERY, print only what a search for it finds in one of the states.",
        examples=(
            "memsync history diff 2026-11-01",
            "memsync history diff v1 v2",
            "memsync history diff main~20 main which store did we choose",
        ),
    ),
    is_slow=True,
)
def diff(
    memory: Workspace,
    before: Annotated[str, Meta(description="The earlier state: a commit, a tag or a date.")],
    after: Annotated[str, Meta(description="The later state; default: the files as they are now.")] = "",
    query: Annotated[str, Meta(description="Only what a search for this finds."), Cli(is_text=True)] = "",
    *,
    progress: Progress = no_progress,
) -> Diff:
    """Return what the memory learnt and dropped from one state to another. Raises UsageError."""
    return _difference(memory, Revisions.of(memory.settings.root).resolve(before), after, query, progress)


@operation(
    Command(
        "history digest",
        help="Print what the memory learnt and dropped since a day, as Markdown.",
        examples=(
            "memsync history digest --since monday",
            "memsync history digest --since 2026-11-01 --until 2026-11-08",
        ),
        prints="text",
    ),
    is_slow=True,
)
def digest(
    memory: Workspace,
    *,
    since: Annotated[str, Meta(description=BEFORE)] = "monday",
    until: Annotated[str, Meta(description="The later state; default: the files as they are now.")] = "",
) -> Digest:
    """Return what the memory learnt and dropped since the beginning of a day, as Markdown. Raises UsageError."""
    found = _difference(memory, Revisions.of(memory.settings.root).resolve(since, before=True), until)
    learnt, dropped = (sum(len(getattr(change, name)) for change in found.changes) for name in ("learnt", "dropped"))
    return Digest(_markdown(found, since, learnt, dropped), found.before, found.after, learnt, dropped, found.warnings)


def _difference(
    memory: Workspace, first: Commit, after: str, query: str = "", progress: Progress = no_progress
) -> Diff:
    """Return the difference from a commit to the state `after`; an empty text is the files as they are now.

    A bare repository has no files: there it is HEAD.
    """
    after = after or ("HEAD" if is_bare(memory.settings.root) else "")
    revisions, failed = Revisions.of(memory.settings.root), list[str]()
    last = revisions.resolve(after) if after else Commit()
    with revisions.git(GIT_SECONDS) as git:
        old = revisions.files(git, first.name)
        new = revisions.files(git, last.name) if last.name else _blobs_now(memory, failed, old)
        earlier = list(_said_at(memory, revisions, git, first, old, new))
        later = list(_said_at(memory, revisions, git, last, new, old))
    learnt, dropped = _without(later, earlier), _without(earlier, later)
    if query:
        ask, past = methodcaller("answer", SearchRequest(query, ASKED)), past_of(memory)
        found = past.asked(last.name, ask, progress) if last.name else ask(memory)
        learnt, dropped = _asked(learnt, found), _asked(dropped, past.asked(first.name, ask, progress))
    return Diff(first, last, tuple(_grouped(learnt, dropped)), tuple(failed))


def _blobs_now(memory: Workspace, failed: list[str], known: Mapping[str, Blob]) -> dict[str, Blob]:
    """Return git's name for the content of each note as it is now; one that cannot be read counts as unchanged."""
    scan, blobs, unread = memory.files.scan(), dict[str, Blob](), set[str]()
    failed += [f"{failure.path}: {failure.reason}" for failure in scan.failures]
    for path in scan.files:
        try:
            stamp = memory.files.read(path)[1]
        except FileNotFoundError:
            continue
        except NoteError as error:
            unread.add(path)
            failed.append(f"{path} cannot be compared: {error}")
        else:
            is_same = path in known and stamp.is_blob(known[path].name)
            blobs[path] = known[path] if is_same else Blob(stamp.blob[:20].hex(), stamp.size)
    same = {path: blob for path, blob in known.items() if path in unread or scan.is_unknown(NotePath(path))}
    return {**blobs, **same}


def _said_at(
    memory: Workspace, revisions: Revisions, git: Git, commit: Commit, files: _Blobs, others: _Blobs
) -> Iterator[_Said]:
    """Yield what those notes of a state say that another state does not have like this."""
    paths = {path for path, _ in files.items() - others.items()}
    if not commit.name:
        yield from _said_in(memory, memory.files, sorted(paths))
        return
    wanted = {path: blob for path, blob in files.items() if path in paths or path.endswith(IGNORE_FILE)}
    with notes_of(memory.settings, revisions, git, commit, wanted) as notes:
        yield from _said_in(memory, notes, sorted(path for path in notes.scan().files if path in paths))


def _said_in(memory: Workspace, files: NoteFiles, paths: Iterable[str]) -> Iterator[_Said]:
    for path in map(NotePath, paths):
        try:
            note, _ = memory.reader.read(path, files.read(path)[0])
        except (FileNotFoundError, NoteError, BinaryFileError):
            continue
        head = [(number, line) for number, line in enumerate(note.lines[: note.head_lines], 1) if line.strip("-+ ")]
        for number, line in head:
            yield _Said(path, (), Stated(number, number, line.strip()), line.strip())
        for section in note.sections:
            first = max(section.start_line, note.head_lines + 1)
            for one in statements(note.lines[first - 1 : section.end_line], first):
                text = _MARKER.sub("", one.text)
                if not all(map(_DEFINITION.fullmatch, note.lines[one.first - 1 : one.last])):
                    yield _Said(path, section.heading_path, Stated(one.first, one.last, text), one.digest)


def _without(said: Sequence[_Said], other: Sequence[_Said]) -> list[_Said]:
    """Return the statements that one state has more often than the other, wherever they are in the notes."""
    known = Counter(one.words for one in other)
    rest = []
    for one in said:
        if known[one.words]:
            known[one.words] -= 1
        else:
            rest.append(one)
    return rest


def _asked(said: Sequence[_Said], result: SearchResult) -> list[_Said]:
    """Return the statements that are in a hit."""
    found = grouped((hit.path, (hit.start_line, hit.end_line)) for hit in result.hits)

    def is_found(one: _Said) -> bool:
        lines = found.get(one.path, ())
        return any(first <= one.stated.end_line and one.stated.start_line <= last for first, last in lines)

    return list(filter(is_found, said))


def _grouped(learnt: Sequence[_Said], dropped: Sequence[_Said]) -> Iterator[Changed]:
    """Yield the changes by note and heading, in the order of the later state."""
    groups: dict[tuple[NotePath, tuple[str, ...]], tuple[list[Stated], list[Stated]]] = {}
    for position, said in enumerate((learnt, dropped)):
        for one in said:
            groups.setdefault((one.path, one.heading_path), ([], []))[position].append(one.stated)
    for place, (new, old) in sorted(groups.items(), key=lambda group: group[0][0]):
        yield Changed(*place, tuple(new), tuple(old))


def _markdown(found: Diff, since: str, learnt: int, dropped: int) -> str:
    until = found.after.time[:10] or clock.today().isoformat()
    notes = count(len({change.path for change in found.changes}), "note")
    lines = [f"# What changed since {_escaped(since)}", ""]
    lines += [f"{count(learnt, 'statement')} learnt, {dropped:,} dropped, in {notes}."]
    lines += [f"Compared: the commit {found.before.short} of {found.before.time[:10]} with the notes of {until}."]
    path = ""
    for change in found.changes:
        if change.path != path:
            path = change.path
            lines += ["", f"## {_escaped(path)}"]
        if change.heading_path:
            lines += ["", f"### {_escaped(' › '.join(change.heading_path))}"]
        lines.append("")
        for strike, commit, changed in (("", found.after, change.learnt), ("~~", found.before, change.dropped)):
            for stated in changed:
                place = cited_at(citation(path, stated.start_line, stated.end_line), commit.name)
                lines.append(f"- {strike}{_item(stated.text)}{strike}  ({_escaped(place)})")
    return "\n".join(lines) + "\n"


def _item(text: str) -> str:
    """Return a statement as the text of a list item; it begins no other block."""
    text = _escaped(text).replace("~~", "&#126;&#126;")
    return f"&#{ord(text[0])};{text[1:]}" if _BLOCK.match(text) else text


def _escaped(text: str) -> str:
    """Return text of a note without HTML and images, on one line: what shows the digest may load or run these."""
    return _HTML.sub("&lt;", printable(text)).replace("![", "&#33;[")
