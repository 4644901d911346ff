"""What a note said, commit by commit, and who wrote which of its lines."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from memsync.errors import NoSuchNote, NoteError
from memsync.model.answer import Excerpt
from memsync.model.past import Blame, BlamedLine, Commit, History, Version, split_location
from memsync.model.vocabulary import NotePath
from memsync.notes.decode import BinaryFileError, decode
from memsync.notes.files import MAX_NOTE_BYTES
from memsync.notes.history import parts
from memsync.notes.ignore import is_hidden, is_note_name
from memsync.notes.revisions import COMMIT, Blob, Revisions, read_commit
from memsync.operation import Cli, Command, operation
from memsync.search.excerpt import Location, lines_of, parse_location

if TYPE_CHECKING:
    from memsync.notes.git import Git
    from memsync.workspace import Workspace

SECTION = "Search"

MAX_VERSIONS = 5_000
"""How many versions of a note are compared to find those that changed a part of it."""
MAX_COMPARED = 25_000_000
"""Lines of one version times those of the other that are compared; longer changes count as one."""
MAX_LOG_BYTES = 1_000_000_000
_NOW = Commit()
_START = b"\x01"
_HEAD = re.compile(r"[0-9a-f]{40,64} \d+ \d+( \d+)?")
"""What precedes a line that git blames; the line itself begins with a tab."""

Span = tuple[int, int]
"""The first and the last of some lines, from 1."""


@operation(
    Command(
        "history",
        help="Print what LOCATION said, commit by commit, newest first; without one, the commits of the memory.",
        notes="It follows a note that was renamed, and lines that moved. Lines that were added begin with +, removed "
        "ones with -. A change that is not committed comes first.",
        examples=(
            "memsync history MEMORY.md",
            "memsync history projects/store.md#decision",
            "memsync history projects/store.md:12",
            "memsync history -n 50",
        ),
    ),
    is_slow=True,
)
def history(
    memory: Workspace,
    location: Annotated[
        str, Meta(description="PATH, PATH:LINE or PATH#heading; default: all notes."), Cli(names="location")
    ] = "",
    *,
    limit: Annotated[int, Meta(ge=1, le=MAX_VERSIONS, description="Maximum number of versions."), Cli(("-n",))] = 20,
) -> History:
    """Return what LOCATION said, commit by commit, newest first; without one, the commits that changed notes.

    Raises UsageError if the notes are in no repository, NoSuchNote.
    """
    revisions = memory.past.revisions()
    is_cut = ("The repository is a shallow clone: older commits are missing.",) if revisions.is_shallow() else ()
    with revisions.git() as git:
        if not location:
            return History(tuple(islice(_commits(git, revisions), limit)), is_cut)
        place = _place(memory, location)
        versions = _versions(git, revisions, place.path)
        found = tuple(islice(_changes(memory, git, revisions, place, versions), limit))
    if not found:
        raise NoSuchNote(f"{place.path} was never committed", hint="Commit it, and its history begins.")
    return History(found, is_cut)


def _commits(git: Git, revisions: Revisions) -> Iterator[Version]:
    """Yield the commits that changed notes, with how many."""
    for commit, changed in _log(git, "--first-parent", "-m", "HEAD", "--", revisions.folder or "."):
        notes = {path for path, _, _ in changed if is_note_name(path.rpartition("/")[2])}
        if notes:
            yield Version(commit, notes=len(notes))


def _place(memory: Workspace, location: str) -> Location:
    """Return the place that a location names now, or in the last version of a note that was deleted."""
    try:
        excerpt = memory.excerpt(location)
    except NoSuchNote:
        place = parse_location(location)
        if is_hidden(place.path) or not is_note_name(place.path.rpartition("/")[2]):
            raise
        return place
    place = parse_location(location)
    return Location(excerpt.path, place.first and excerpt.start_line, place.last and excerpt.end_line, place.heading)


@dataclass(frozen=True, slots=True)
class _Past:
    """A version of a note: the commit, the note's path in it, and its content there."""

    commit: Commit
    path: str
    blob: str


def _versions(git: Git, revisions: Revisions, path: NotePath) -> list[_Past]:
    """Return the versions of a note, newest first, under all of its names."""
    found: list[_Past] = []
    name = revisions.folder + path
    for commit, changed in _log(git, "--follow", "-M", "HEAD", "--", name):
        for before, after, blob in changed:
            if after == name and len(found) < MAX_VERSIONS:
                found.append(_Past(commit, after.removeprefix(revisions.folder), blob))
                name = before
    return [past for past in found if is_note_name(past.path.rpartition("/")[2])]


def _log(git: Git, *arguments: str) -> Iterator[tuple[Commit, list[tuple[str, str, str]]]]:
    """Yield each commit that `git log` prints, with (path before, path after, blob after) of its changes."""
    shown = ("--raw", "-z", "--no-abbrev", f"--format=%x01{COMMIT.replace('%x00', '%x1f')}")
    commit, changed = _NOW, list[tuple[str, str, str]]()
    printed = parts(git.stream("log", *shown, *arguments, max_bytes=MAX_LOG_BYTES))
    for part in printed:
        text = part.lstrip(b"\n")
        if text.startswith(_START):
            if commit is not _NOW:
                yield commit, changed
            commit, changed = read_commit(text[1:].decode("utf-8", "replace").replace("\x1f", "\0")), []
        elif text.startswith(b":"):
            *_, blob, status = text.split(b" ")
            before = after = os.fsdecode(next(printed, b""))
            if status[:1] in (b"R", b"C"):
                after = os.fsdecode(next(printed, b""))
            changed.append((before, after, blob.decode()))
    if commit is not _NOW:
        yield commit, changed


# ---------------------------------------------------------------------------------------------- what changed


def _changes(
    memory: Workspace, git: Git, revisions: Revisions, place: Location, versions: Sequence[_Past]
) -> Iterator[Version]:
    """Yield the versions that changed a place, newest first."""
    texts = _texts(memory, git, revisions, place.path, versions)
    newer = next(texts, None)
    while newer is not None and _is_part(place) and not newer[1]:  # the note was deleted: begin with its last text
        newer = next(texts, None)
    span = _span(memory, place, newer[1]) if newer is not None else None
    while newer is not None and span is not None:
        past, lines = newer
        older = next(texts, None)
        before = _in_older(memory, place, span, lines, older[1]) if older is not None else None
        said, earlier = _cut(lines, span), _cut(older[1], before) if older is not None and before is not None else []
        added, removed = _different(earlier, said)
        if added or removed:
            text, (first, last) = ("\n".join(said), span) if _is_part(place) else ("", (0, 0))
            yield Version(past.commit, NotePath(past.path), first, last, text, added, removed)
        newer, span = older, before


def _is_part(place: Location) -> bool:
    return bool(place.heading or place.first)


def _span(memory: Workspace, place: Location, lines: Sequence[str]) -> Span:
    """Return the lines of a place in a version. Raises NoteError if it has no such heading or line."""
    if not _is_part(place):
        return 1, len(lines)
    return lines_of(place, lines, "\n".join(lines).encode(), memory.reader)


def _in_older(
    memory: Workspace, place: Location, span: Span, lines: Sequence[str], older: Sequence[str]
) -> Span | None:
    """Return the lines of an older version that became those of a span; None if there are none."""
    if not _is_part(place):
        return 1, len(older)
    if place.heading:
        try:
            return _span(memory, place, older)
        except NoteError:  # the heading was another one
            pass
    return _mapped(older, lines, span)


def _mapped(older: Sequence[str], newer: Sequence[str], span: Span) -> Span | None:
    first, last = span[0] - 1, span[1]
    found: list[int] = []
    for kind, old_start, old_end, start, end in _opcodes(older, newer):
        if kind == "delete" and first < start < last:
            found += [old_start, old_end - 1]
        elif kind in ("equal", "replace") and start < last and first < end:
            # Of changed lines, the one at the same place is the one that was changed.
            found += [min(old_start + max(first - start, 0), old_end - 1)]
            found += [min(old_start + min(last, end) - 1 - start, old_end - 1)]
    return (min(found) + 1, max(found) + 1) if found else None


def _opcodes(older: Sequence[str], newer: Sequence[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield what turns one list of lines into another, as difflib does; very long changes are one replacement."""
    shortest = min(len(older), len(newer))
    start = next((i for i in range(shortest) if older[i] != newer[i]), shortest)
    end = next((i for i in range(shortest - start) if older[-1 - i] != newer[-1 - i]), shortest - start)
    old, new = older[start : len(older) - end], newer[start : len(newer) - end]
    yield "equal", 0, start, 0, start
    if len(old) * len(new) > MAX_COMPARED:
        yield "replace", start, start + len(old), start, start + len(new)
    else:
        for kind, old_start, old_end, new_start, new_end in difflib.SequenceMatcher(
            None, old, new, autojunk=False
        ).get_opcodes():
            yield kind, old_start + start, old_end + start, new_start + start, new_end + start
    yield "equal", len(older) - end, len(older), len(newer) - end, len(newer)


def _different(older: Sequence[str], newer: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the lines that were added, and those that were removed."""
    changes = [change for change in _opcodes(older, newer) if change[0] != "equal"]
    added = [line for _, _, _, start, end in changes for line in newer[start:end]]
    removed = [line for _, start, end, _, _ in changes for line in older[start:end]]
    return tuple(added), tuple(removed)


def _cut(lines: Sequence[str], span: Span) -> Sequence[str]:
    return lines[span[0] - 1 : span[1]]


def _texts(
    memory: Workspace, git: Git, revisions: Revisions, path: NotePath, versions: Sequence[_Past]
) -> Iterator[tuple[_Past, Sequence[str]]]:
    """Yield each version of a note with its lines, newest first; first the file now, if it is not committed so."""
    committed = versions[0].blob if versions else ""
    with suppress(FileNotFoundError, NoteError):
        content, stamp = memory.files.read(path)
        if versions and committed not in (stamp.blob[:20].hex(), stamp.blob[20:].hex()):
            time = datetime.fromtimestamp(stamp.mtime_ns // 10**9).astimezone().isoformat(timespec="seconds")
            yield _Past(Commit(time=time), path, ""), _lines(content)
    present = [past for past in versions if past.blob.strip("0")]
    contents = revisions.contents(git, [Blob(past.blob, MAX_NOTE_BYTES) for past in present])
    for past in versions:
        yield past, _lines(next(contents)[1]) if past.blob.strip("0") else ()


def _lines(content: bytes) -> Sequence[str]:
    try:
        return decode(content).lines
    except BinaryFileError:
        return ()


# ------------------------------------------------------------------------------------------- who wrote a line


@operation(
    Command(
        "blame",
        help="Print for each line of LOCATION the commit that wrote it, its day, and from whom it is.",
        notes="The origin and the session of a line are what search says about it: an agent's name, tool, import, web.",
        examples=("memsync blame MEMORY.md", "memsync blame MEMORY.md:12", "memsync blame MEMORY.md@v1"),
    )
)
def blame(
    memory: Workspace,
    location: Annotated[str, Meta(description="PATH, PATH:LINE, PATH#heading or PATH@REV."), Cli(names="location")],
) -> Blame:
    """Return the commit, the day, the origin and the session of each line that LOCATION names.

    Raises NoSuchNote, NoteError, UsageError if the notes are in no repository.
    """
    excerpt = memory.excerpt(location)
    revisions, revision = memory.past.revisions(), split_location(location)[1] if excerpt.at else ""
    with revisions.git() as git:
        commit = memory.past.resolve(revision).name if revision else ""
        whole = excerpt if revision else memory.excerpt(excerpt.path)
        written = _blamed(git, revisions, excerpt, whole, commit)
        commits = {name: revisions.commit(git, name) for name in set(written.values()) if name.strip("0")}
    origins = _origins(memory, excerpt.path, memory.past.excerpt(f"{excerpt.path}@{commit}") if commit else whole)
    lines = (
        BlamedLine(number, text, commits.get(written.get(number, ""), _NOW), *origins.get(number, ()))
        for number, text in enumerate(excerpt.text.split("\n"), excerpt.start_line)
    )
    return Blame(excerpt.path, tuple(lines), excerpt.at)


def _blamed(git: Git, revisions: Revisions, excerpt: Excerpt, whole: Excerpt, commit: str) -> dict[int, str]:
    """Return the name of the commit that wrote each line; zeros, or nothing, for one that is not committed."""
    span = f"-L{excerpt.start_line},{max(excerpt.end_line, excerpt.start_line)}"
    given = [commit] if commit else ["--contents", "-"]
    text = "" if commit else f"{whole.text}\n"
    path = revisions.folder + excerpt.path
    printed = git.run("--literal-pathspecs", "blame", "--porcelain", span, *given, "--", path, given=text)
    heads = (line.split(" ") for line in printed.stdout.split("\n") if _HEAD.match(line))
    return {int(final): name for name, _, final, *_ in heads}


def _origins(memory: Workspace, path: NotePath, whole: Excerpt) -> dict[int, tuple[str, str]]:
    """Return the origin and the session of each line that a search can find."""
    note, chunks = memory.reader.read(path, whole.text.encode("utf-8", "replace"))
    found: dict[int, tuple[str, str]] = {}
    for chunk in chunks:
        for entry in chunk.entries:
            session = entry.attributes.get("session", note.session)
            for line in range(entry.start_line, entry.end_line + 1):
                found.setdefault(line, (chunk.origin, session))
    return found
