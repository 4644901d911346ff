"""Read the lines named by `PATH`, `PATH:LINE`, `PATH:LINE:COUNT`, `PATH:FIRST-LAST`, `PATH#heading` or `[[a link]]`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from msgspec import structs

from memsync.errors import NoSuchNote, NoteError, UsageError
from memsync.model.answer import Excerpt
from memsync.model.note import Note
from memsync.model.text import count, did_you_mean, listed
from memsync.model.vocabulary import NotePath
from memsync.notes.conflict_marks import conflict_in
from memsync.notes.decode import BinaryFileError, decode
from memsync.notes.ignore import is_note_name
from memsync.notes.inline import wiki_parts
from memsync.notes.links import block_line, names_place
from memsync.notes.naming import spellings
from memsync.notes.rules import ARCHIVE_FOLDER
from memsync.notes.validity_marks import statements

if TYPE_CHECKING:
    from memsync.notes.files import NoteFiles
    from memsync.notes.parse import NoteReader
    from memsync.settings.load import Settings

MAX_NAMED = 10
"""How many of the notes with one title an error names."""
_HEADING_OF_NOTE = re.compile(r"(.+?\.(?:md|markdown|mdc))#(.+)", re.DOTALL)
_LINES = re.compile(r"(?P<path>.+?):(?P<first>\d{1,9})(?:-(?P<last>\d{1,9})|:(?P<count>\d{1,9}))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a note: lines `first`..`last` (0: from the start or to the end), or a heading, or a block (`^id`)."""

    path: NotePath
    first: int = 0
    last: int = 0
    heading: str = ""
    is_link: bool = False


def parse_location(text: str) -> Location:
    """Parse a location as search results print it. Raises UsageError."""
    if text.startswith("[[") and text.endswith("]]"):
        target, anchor, _ = wiki_parts(text[2:-2])
        return Location(NotePath(target), heading=anchor, is_link=True)
    match = _LINES.fullmatch(text)
    if match is None:
        named = _HEADING_OF_NOTE.fullmatch(text)
        path, hash_mark, heading = (named[1], "#", named[2]) if named else text.rpartition("#")
        if hash_mark and path and heading:
            return Location(NotePath(path), heading=heading.strip())
        return Location(NotePath(text))
    first = int(match["first"])
    last = int(match["last"]) if match["last"] else first + int(match["count"]) - 1 if match["count"] else first
    if first < 1 or last < first:
        raise UsageError(
            f"{text!r} names no lines", hint="Lines count from 1: PATH:LINE, PATH:LINE:COUNT or PATH:FIRST-LAST."
        )
    return Location(NotePath(match["path"]), first, last)


def read_excerpt(
    files: NoteFiles, reader: NoteReader, location: str, titled: Callable[[str], Sequence[NotePath]]
) -> Excerpt:
    """Return the lines that `location` names, from the file as it is now.

    Tries the whole text as a path first, exactly as it is, because a path may contain a colon or a hash; then the
    parsed path, then the whole text with another ending, then a title. If the parsed path is the whole name of a note,
    `MEMORY.md:3` for example, it is a citation: nothing called `MEMORY.md:3.md`, or with this title, answers for it.
    `titled` returns the notes with a title. Raises NoteError, UsageError if several notes have that title.
    """
    return _excerpt(*find_place(files, location, titled), reader)


def excerpt_at(settings: Settings, reader: NoteReader, location: str) -> Excerpt:
    """Return the lines that `PATH@REVISION:LINE` names, as they are in that commit. Raises NoSuchNote, UsageError.

    Writes only this note, and what may hide it, to a folder.
    """
    from memsync.notes.commit_files import notes_of
    from memsync.notes.revisions import IGNORE_FILE, Revisions, split_location

    path, revision, place = split_location(location)
    revisions = Revisions.of(settings.root)
    commit = revisions.resolve(revision)
    path, *others = spellings(settings.root, path)
    names = {spelling.rpartition("/")[2] for spelling in (path, *others)} | {IGNORE_FILE}
    with revisions.git() as git:
        files = revisions.files(git, commit.name)
        near = {name: blob for name, blob in files.items() if name.rpartition("/")[2] in names}
        with notes_of(settings, revisions, git, commit, near) as notes:
            try:
                excerpt = read_excerpt(notes, reader, path + place, lambda _: ())
            except NoSuchNote as error:
                raise NoSuchNote(f"{path} does not exist in {commit.short}", hint=error.hint) from error
    return structs.replace(excerpt, at=commit.short)


def find_place(files: NoteFiles, location: str, titled: Callable[[str], Sequence[NotePath]]) -> tuple[Location, bytes]:
    """Return the place that `location` names, and the content of its note, see `read_excerpt`."""
    whole, place = Location(NotePath(location)), parse_location(location)
    places = (place,) if place.is_link or is_note_name(place.path.rpartition("/")[2]) else (place, whole)
    fault: NoteError | None = None
    exact = islice(spellings(files.root, location), 1)
    for place, names in ((whole, exact), *((place, spellings(files.root, place.path)) for place in places)):
        for path in names:
            try:
                content = content_of(files, path)
            except FileNotFoundError:
                continue
            except NoteError as error:
                fault = fault or error
                continue
            return replace(place, path=path), content
    for place in reversed(places):
        paths = titled(f"[[{place.path}]]" if place.is_link else place.path)
        if len(paths) > 1:
            raise UsageError(f"several notes are called {place.path!r}", hint=_one_of(paths))
        if paths:
            return replace(place, path=paths[0]), content_of(files, paths[0])
    if fault is not None:
        raise fault
    path = next(spellings(files.root, places[0].path))
    raise NoSuchNote(f"{path} does not exist", hint=_similar(files, path))


def _one_of(paths: Sequence[NotePath]) -> str:
    return f"Name one: {listed(paths, MAX_NAMED)}"


def read_note(files: NoteFiles, reader: NoteReader, path: NotePath) -> Note:
    """Return a note from the file as it is now. Raises NoSuchNote, NoteError."""
    try:
        return reader.read(path, content_of(files, path))[0]
    except FileNotFoundError as error:
        raise NoSuchNote(f"{path} does not exist", hint="Name it as search results do.") from error
    except BinaryFileError as error:
        raise NoteError(f"{path} is {error}") from error


def content_of(files: NoteFiles, path: NotePath) -> bytes:
    """Return the bytes of a note. Raises FileNotFoundError, and NoteError also for a file that is not a note."""
    content, _ = files.read(path)
    if not files.holds(path):
        if not files.leaves_out(path):
            raise FileNotFoundError(path)  # deleted meanwhile
        raise NoteError(
            f"not a note: {path} is hidden, left out by .gitignore or [files] exclude, or not Markdown",
            hint="Name a note.",
        )
    return content


def _excerpt(place: Location, content: bytes, reader: NoteReader) -> Excerpt:
    try:
        lines = decode(content).lines
    except BinaryFileError as error:
        raise NoteError(f"{place.path} is {error}") from error
    first, last = lines_of(place, lines, content, reader)
    text, warnings = "\n".join(lines[first - 1 : last]), conflict_in(place.path, lines)
    return Excerpt(place.path, first, last, len(lines), text, warnings=warnings)


def lines_of(place: Location, lines: Sequence[str], content: bytes, reader: NoteReader) -> tuple[int, int]:
    """Return the first and the last line of a place in a note, of which these are the lines. Raises NoteError."""
    first, last = place.first or 1, place.last or len(lines)
    if place.heading.startswith("^"):
        first, last = _block_lines(place, lines)
    elif place.heading:
        first, last = _section_lines(reader.read(place.path, content)[0], place.heading)
    if first > max(len(lines), 1):
        size = count(len(lines), "line")
        raise NoteError(f"{place.path} has {size}, not {first}", hint="If the file has changed, search again.")
    return first, min(last, len(lines))


def _section_lines(note: Note, heading: str) -> tuple[int, int]:
    """Return the lines of the first section with this heading, including its subsections."""
    headed = [section for section in note.sections if section.heading_path]
    named = (s for s in headed if names_place(heading, s.heading_path) or s.attributes.get("id") == heading)
    chosen = next(named, None)
    if chosen is None:
        hint = did_you_mean(heading, (section.heading_path[-1] for section in headed), "", form="#{}")
        raise NoteError(f"{note.path} has no heading {heading!r}", hint=hint)
    path = chosen.heading_path
    later = (section for section in note.sections if section.start_line > chosen.start_line)
    under = takewhile(lambda section: section.heading_path[: len(path)] == path != section.heading_path, later)
    return chosen.start_line, max([chosen.end_line, *(section.end_line for section in under)])


def _block_lines(place: Location, lines: Sequence[str]) -> tuple[int, int]:
    """Return the lines of the block `^id`: what ends with it, or what is above it if it is on a line of its own."""
    end = block_line(lines, place.heading[1:])
    if not end:
        raise NoteError(f"{place.path} has no block {place.heading}", hint="Its last line ends with that name.")
    found = [one for one in statements(lines) if one.first <= end]
    if len(found) > 1 and lines[found[-1].first - 1].strip().startswith("^"):
        found.pop()
    return (found[-1].first, found[-1].last) if found else (end, end)


def _similar(files: NoteFiles, path: str) -> str:
    retired = NotePath(f"{ARCHIVE_FOLDER}{path}")
    if files.holds(retired):
        return f"It was archived as {retired}."
    paths = list(files.scan().files)
    by_name = {one.rpartition("/")[2]: one for one in paths}
    named = difflib.get_close_matches(path.rpartition("/")[2], by_name, n=1)
    found = difflib.get_close_matches(path, paths, n=1) or [by_name[name] for name in named]
    return f"Did you mean {found[0]}?" if found else "Paths are relative to the memory root."
