"""Move a note or a folder, or give a heading another name, and repair all links to it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta
from msgspec.structs import replace

from memsync.edit.markdown import one_line
from memsync.edit.note_paths import new_note_path
from memsync.edit.relinking import NoteText, recited
from memsync.edit.run_records import Work
from memsync.edit.runs import NoteChange
from memsync.errors import NoteError, UsageError, WriteRefused
from memsync.model.note import Link
from memsync.model.query import IndexedNote
from memsync.model.text import count, listed, quoted
from memsync.model.upkeep import ChangedLine, MovedFile, Moving
from memsync.model.vocabulary import NotePath
from memsync.notes.attributes import cut_attributes
from memsync.notes.files import is_below_root
from memsync.notes.ignore import is_hidden, is_note_name
from memsync.notes.links import Linked, heading_paths, is_path_from, names_heading, names_place, slug
from memsync.notes.parse import NOT_SEARCHED
from memsync.operation import Cli, Command, operation
from memsync.search.excerpt import parse_location, read_excerpt

if TYPE_CHECKING:
    from memsync.edit.runs import Outcome
    from memsync.ports import IndexReader
    from memsync.workspace import Workspace

SECTION = "Notes"

MAX_NAMED = 5
"""How many places that cannot be repaired an error names."""
NOT_IN_ANCHOR = re.compile(r"[#|^\[\]]+")
_MARKER = re.compile(r" {0,3}#{1,6}[ \t]+")
_CLOSING = re.compile(r"(?<![ \t])[ \t]+#+[ \t]*$")


@operation(
    Command(
        "mv",
        help="Move the note or folder OLD to NEW, or rename the heading PATH#OLD, and repair the links to it.",
        notes="It repairs wiki links, Markdown links, embeds, supersedes and citations (PATH:LINE), and refuses what "
        "it cannot repair. --dry-run prints each line that would change.",
        examples=(
            "memsync mv projects/store.md decisions/store.md --dry-run",
            "memsync mv projects/ archive/projects/",
            "memsync mv 'projects/store.md#Open questions' 'Answered questions'",
            "memsync mv --undo",
        ),
    ),
    writes=True,
    is_slow=True,
)
def move(
    memory: Workspace,
    old: Annotated[str, Meta(description="The note, folder or PATH#heading."), Cli(names="location")] = "",
    new: Annotated[str, Meta(description="Its new path, a folder, or the new heading."), Cli(names="note")] = "",
    *,
    dry_run: Annotated[bool, Meta(description="Only show what would change.")] = False,
    undo: Annotated[bool, Meta(description="Undo the last move.")] = False,
) -> Moving:
    """Move a note, a folder or a heading's name, and repair the links to it in all notes.

    Nothing is changed if a link cannot be repaired. With `undo` it is `undo_move`. Raises NoSuchNote, UsageError,
    WriteRefused.
    """
    if undo:
        if old or new or dry_run:
            raise UsageError("undo takes no other arguments", hint="Write: memsync mv --undo")
        return undo_move.function(memory)
    if not old or not new:
        raise UsageError("mv needs two names", hint="Write: memsync mv OLD NEW")
    with nullcontext() if dry_run else memory.writer.lock():
        with memory.as_of_now() as (reader, pending):
            if pending:
                reason = f"{count(pending, 'file is', 'files are')} not indexed yet, and may have links"
                raise WriteRefused(reason, hint="Run: memsync sync")
            renaming = _Renaming(memory, reader, old, new)
        lines, changes = renaming.lines(), renaming.changes()
        moves = tuple(MovedFile(NotePath(path), NotePath(target)) for path, target in renaming.moved.items())
        plan = Moving(moves, tuple(lines))
        if dry_run:
            return plan
        outcome = memory.runs(Work.MOVE).carry_out(changes, f"memsync mv: {old} to {new}")
        files = renaming.moved.values() if outcome.failed else renaming.moved
        _remove_empty(memory, {os.path.dirname(path) for path in files})
        if outcome.failed:
            reasons = [*map(str, outcome.failed)]
            raise WriteRefused(f"not moved: {listed(reasons, MAX_NAMED, '; ')}", hint="Correct this, and try again.")
    return _done(memory, plan, outcome)


@operation(writes=True, is_slow=True)
def undo_move(memory: Workspace) -> Moving:
    """Undo the last move, with the links that it rewrote. A note that was changed after it keeps its text.

    Raises UsageError when there is nothing to undo.
    """
    runs = memory.runs(Work.MOVE)
    steps = memory.writer.runs.steps(Work.MOVE)
    outcome = runs.undo()
    ours = (step for step in steps if step.run == steps[0].run and step.path != step.other)
    moves = [MovedFile(s.other, s.path) for s in ours if not os.path.lexists(memory.files.root / s.other)]
    _remove_empty(memory, {os.path.dirname(moved.path) for moved in moves})
    return _done(memory, Moving(tuple(moves), (), undone=True), outcome)


def _done(memory: Workspace, plan: Moving, outcome: Outcome) -> Moving:
    with memory.as_of_now() as (_, pending):
        warnings = tuple(filter(None, [outcome.complaint]))
    return replace(plan, failed=tuple(outcome.failed), warnings=warnings, pending_text=pending, applied=True)


def _remove_empty(memory: Workspace, folders: Iterable[str]) -> None:
    """Remove the folders that a move has left empty, and those above them."""
    for folder in sorted(folders, key=len, reverse=True):
        while folder:
            with suppress(OSError):
                os.rmdir(memory.files.root / folder)
            folder = os.path.dirname(folder)


class _Renaming:
    """What a move changes: `moved` has the new path of each file, `heading` the old and the new one of a note.

    Raises UsageError, NoSuchNote and WriteRefused if that is impossible.
    """

    def __init__(self, memory: Workspace, reader: IndexReader, old: str, new: str) -> None:
        self._memory = memory
        self._notes = reader.notes()
        self._links = reader.links()
        self._unsearched = [NotePath(path) for path, warning in reader.warnings() if NOT_SEARCHED in warning]
        self.moved: dict[str, str] = {}
        self._heading = ("", "")
        self._headings: list[tuple[int, tuple[str, ...]]] = []
        self._renamed_line = 0
        self._of = NotePath("")
        place = parse_location(old)
        if place.heading and not _is_file(memory, old):
            self._rename_heading(old, place.heading, one_line(new.lstrip("#")))
        else:
            self._move(old, new)
        self._before = Linked(self._notes, lambda: self._files)
        self._after = Linked(map(self._renamed, self._notes), lambda: [self.moved.get(one, one) for one in self._files])

    # ------------------------------------------------------------------------------------------- what moves

    def _move(self, old: str, new: str) -> None:
        memory = self._memory
        is_folder = is_below_root(old.rstrip("/")) and os.path.isdir(memory.files.root / old)
        if not is_folder:
            old = read_excerpt(memory.files, memory.reader, old, memory.fresh_search.titled).path
        old = os.path.normpath(old)
        into = new.endswith("/") or os.path.isdir(memory.files.root / new)
        new = os.path.normpath(os.path.join(new, os.path.basename(old)) if into else new)
        if not is_below_root(new) or is_hidden(new) or is_hidden(old):
            raise UsageError(f"{quoted(new)} is not a place for notes", hint="Name a path under the memory root.")
        if new == old or (is_folder and f"{new}/".startswith(f"{old}/")):
            raise UsageError(f"{old} cannot be moved to {new}", hint="Name another place.")
        target = new if is_folder or memory.files.is_note_name(os.path.basename(new)) else new_note_path(new)
        self.moved = dict(_files_in(memory, old, target)) if is_folder else {old: target}
        for path, place in self.moved.items():
            if os.path.lexists(memory.files.root / place):
                raise WriteRefused(f"{place} already exists", hint="Name another place, or move that first.")
            if is_note_name(path.rpartition("/")[2]):
                memory.writer.refuse_to_publish(NotePath(path), NotePath(place))
                if memory.files.leaves_out(NotePath(place)) and not memory.files.leaves_out(NotePath(path)):
                    problem = f"{place} would not be a note: .gitignore or [files] exclude leaves it out"
                    raise UsageError(problem, hint="Name another place.")

    def _rename_heading(self, location: str, old: str, new: str) -> None:
        memory = self._memory
        self._of = read_excerpt(memory.files, memory.reader, location, memory.fresh_search.titled).path
        text = self._text(self._of)
        head = text.note.head_lines
        self._headings = [
            (number + head, tuple(map(_plain, path))) for number, path in heading_paths(text.lines[head:])
        ]
        same = [heading for heading in self._headings if names_place(old, heading[1])]
        if not new or len(same) != 1:
            problem = "the new heading is empty" if not new else f"{self._of} has {count(len(same), 'heading')} {old!r}"
            raise UsageError(problem, hint="Name one heading, and its new text.")
        self._renamed_line, path = same[0]
        if not names_heading(new, path[-1]) and any(names_heading(new, other[-1]) for _, other in self._headings):
            raise WriteRefused(f"{self._of} already has a heading {new!r}", hint="Choose another one.")
        self._heading = (path[-1], new)

    def _renamed(self, note: IndexedNote) -> IndexedNote:
        """Return a note as it is called afterwards."""
        path = NotePath(self.moved.get(note.path, note.path))
        stem = os.path.splitext(os.path.basename(note.path))[0]
        title = os.path.splitext(os.path.basename(path))[0] if note.title == stem else note.title
        if note.path == self._of and names_heading(self._heading[0], title):
            title = self._heading[1]
        return note._replace(path=path, title=title)

    @cached_property
    def _files(self) -> Sequence[str]:
        return list(self._memory.files.other_files())

    # ---------------------------------------------------------------------------------------- what changes

    def lines(self) -> Iterator[ChangedLine]:
        """Yield each line that changes. Raises WriteRefused if a link cannot be repaired."""
        for path, (text, lines) in self._changed.items():
            pairs = enumerate(zip(text.lines, lines, strict=True), 1)
            yield from (ChangedLine(path, number, old, new) for number, (old, new) in pairs if old != new)

    def changes(self) -> list[NoteChange]:
        """Return the changes of notes: first those that stay, then the moves."""
        contents = {path: (text.content, text.with_lines(lines)) for path, (text, lines) in self._changed.items()}
        return [
            NoteChange(NotePath(path), NotePath(self.moved.get(path, path)), *contents.get(NotePath(path), ()))
            for path in sorted({*self._changed, *self.moved}, key=lambda path: (path in self.moved, path))
        ]

    @cached_property
    def _changed(self) -> Mapping[NotePath, tuple[NoteText, list[str]]]:
        """The notes whose text changes, with their new lines."""
        changed, broken = dict[NotePath, tuple[NoteText, list[str]]](), list(self._maybe_linking())
        rules = self._memory.reader.rules
        linking = {source for source, link in self._links if self._new(source, link) != (link.target, link.anchor)}
        naming = self._naming()
        for path in sorted({*linking, *naming, *filter(None, [self._of])}):
            text, renamed = self._text(path), partial(self._new, path)
            lines = text.relinked(renamed)
            lines = recited(lines, text.note.head_lines, self.moved) if path in naming else lines
            if path == self._of:
                self._retitle(lines)
            broken += filter(None, [text.fault(lines, NotePath(self.moved.get(path, path)), renamed, rules)])
            lost = (link for link in text.note.links if self._is_lost(path, link))
            broken += [f"{path}:{link.line}, the link to {link.target}" for link in lost]
            broken += [
                f"{path}:{number}, what it supersedes"
                for number, (old, new) in enumerate(zip(text.lines, lines, strict=True), 1)
                if old != new and not _marks_alike(old, new)
            ]
            if lines != text.lines:
                changed[path] = text, lines
        if broken:
            reason = f"cannot be repaired: {listed(broken, MAX_NAMED, '; ')}"
            raise WriteRefused(reason, hint="Nothing was changed. Write these by hand first, or choose another name.")
        return changed

    def _new(self, source: NotePath, link: Link) -> tuple[str, str]:
        """Return a link's target and anchor as they are written afterwards."""
        target = self._before.target(link, source)
        if not target:
            return link.target, link.anchor
        place, old, new = NotePath(self.moved.get(source, source)), *self._heading
        written = link.target
        if link.target:
            is_name = bool(self._before.meant(link, source, by_title=False))
            new_target = self.moved.get(target, target)
            relative = not link.wiki and is_path_from(source, link.target, target)
            after = self._after.spelled(link, place, new_target, by_title=not is_name, is_relative=relative)
            written = link.target if after is None else after
        anchor = link.anchor
        if target == self._of and self._is_under_renamed(anchor):
            parts = anchor.split("#")
            renamed = " ".join(NOT_IN_ANCHOR.sub(" ", new).split())
            new_parts = [
                (slug(new) if part == slug(old) and part != old else renamed) if names_heading(part, old) else part
                for part in parts
            ]
            anchor = "#".join(new_parts)
        return written, anchor

    def _is_under_renamed(self, anchor: str) -> bool:
        """Tell whether an anchor names the heading that gets another name, or one below it."""
        renamed = next((path for number, path in self._headings if number == self._renamed_line), ())
        number, path = next((heading for heading in self._headings if names_place(anchor, heading[1])), (0, ()))
        return bool(renamed) and number >= self._renamed_line and path[: len(renamed)] == renamed

    def _naming(self) -> set[NotePath]:
        """Return the notes with the path of a moved note in their text."""
        old = [path for path in self.moved if is_note_name(path.rpartition("/")[2])]
        names, prefix = [path.encode() for path in old], os.path.commonpath(old or [""]).encode()
        found = set()
        for note in self._notes if names else ():
            with suppress(FileNotFoundError, NoteError):
                content = self._memory.files.read(note.path)[0]
                if prefix in content and any(name in content for name in names):
                    found.add(note.path)
        return found

    def _maybe_linking(self) -> Iterator[str]:
        """Yield the notes with a paragraph that was not searched for links, and the name of what is renamed."""
        paths = [*self.moved, *filter(None, [self._of])]
        stems = [os.path.splitext(os.path.basename(path))[0].casefold() for path in paths]
        for path in self._unsearched:
            with suppress(FileNotFoundError, NoteError):
                content = self._memory.files.read(path)[0].decode("utf-8", "replace").casefold()
                if any(f"[[{stem}" in content or f"{stem}.md" in content for stem in stems):
                    yield f"{path}, which has a paragraph too long to be searched for links"

    def _retitle(self, lines: list[str]) -> None:
        """Write the new heading."""
        new, number = self._heading[1], self._renamed_line
        line = lines[number - 1]
        marker = _MARKER.match(line)
        column = cut_attributes(line)[0]
        closing = _CLOSING.search(line[:column])
        lines[number - 1] = f"{marker[0] if marker else ''}{new}{closing[0] if closing else ''}{line[column:]}"

    def _is_lost(self, source: NotePath, link: Link) -> bool:
        """Tell whether a link would mean another file."""
        target = self._before.target(link, source)
        new = Link(*self._new(source, link), "", 0, link.wiki)
        place = NotePath(self.moved.get(source, source))
        return bool(target) and self._after.target(new, place) != self.moved.get(target, target)

    def _text(self, path: NotePath) -> NoteText:
        return NoteText.of(path, self._memory.files.read(path)[0], self._memory.reader.rules)


def _marks_alike(old: str, new: str) -> bool:
    """Tell whether two lines have the same attributes, with as many citations in each."""
    before, after = ({key: value.count(",") for key, value in cut_attributes(line)[1].items()} for line in (old, new))
    return before == after


def _plain(heading: str) -> str:
    return heading[: cut_attributes(heading)[0]]


def _is_file(memory: Workspace, path: str) -> bool:
    return is_below_root(path) and os.path.lexists(memory.files.root / path)


def _files_in(memory: Workspace, folder: str, target: str) -> Iterator[tuple[str, str]]:
    """Yield the files of a folder with their new paths. Raises WriteRefused for what cannot be moved one by one."""
    root = memory.files.root
    for place, folders, names in os.walk(root / folder):
        for name in (*folders, *names):
            path = os.path.join(place, name)
            mode = os.lstat(path).st_mode
            if name == ".git" or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                shown = os.path.relpath(path, root)
                raise WriteRefused(f"{shown} is a link or a repository", hint="Move the folder by hand.")
            if stat.S_ISREG(mode):
                below = os.path.relpath(path, root / folder)
                yield f"{folder}/{below}", f"{target}/{below}"
