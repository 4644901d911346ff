"""What a note said, commit by commit, and who wrote which of its lines."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import dropwhile, islice, takewhile
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from memsync.errors import NoSuchNote, NoteError
from memsync.model.answer import Excerpt
from memsync.model.commits import Blame, BlamedLine, Commit, Version, Versions
from memsync.model.vocabulary import NotePath
from memsync.notes.commit_dates import MAX_LOG_BYTES, REGULAR, parts
from memsync.notes.decode import BinaryFileError, decode
from memsync.notes.files import MAX_NOTE_BYTES
from memsync.notes.ignore import is_note_name
from memsync.notes.revisions import COMMIT, GIT_SECONDS, Blob, Revisions, read_commit, split_location
from memsync.operation import Cli, Command, operation
from memsync.search.excerpt import Location, find_place, lines_of, parse_location

if TYPE_CHECKING:
    from memsync.notes.git import Git
    from memsync.workspace import Workspace

SECTION = "History"

MAX_VERSIONS = 5_000
"""How many versions of a note are compared to find those that changed a part of it."""
MAX_COMPARED = 1_000_000
"""Changed lines of one version times those of the other that are compared; longer changes count as one."""
CUT = "The repository is a shallow clone: what is older counts as of its first commit."
_NOW = Commit()
_START = b"\x01"
_HEAD = re.compile(rb"[0-9a-f]{40,64} \d+ \d+( \d+)?")
"""What precedes a line that git blames; the line itself begins with a tab."""

Span = tuple[int, int]
"""The first and the last of some lines, from 1."""


@operation(
    Command(
        "history",
        help="Print the versions of LOCATION, newest first; without LOCATION, the commits that changed notes.",
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
) -> Versions:
    """Return what LOCATION said, commit by commit, newest first; without one, the commits that changed notes.

    Raises UsageError if the notes are in no repository, NoSuchNote.
    """
    revisions = Revisions.of(memory.settings.root)
    head = revisions.resolve("HEAD").name
    is_cut = (CUT,) if revisions.is_shallow() else ()
    with revisions.git(GIT_SECONDS) as git:
        if not location:
            return Versions(tuple(islice(_commits(git, revisions, head), limit)), is_cut)
        place, revision = _place(memory, location)
        commit = revisions.resolve(revision).name if revision else head
        versions = _versions(memory, git, revisions, place.path, commit)
        texts = _texts(memory, git, revisions, place.path, versions, is_now=not revision)
        found = tuple(islice(_changes(memory, place, texts), limit))
    if not found:
        raise NoSuchNote(f"{place.path} was never committed", hint="Commit it, and its history begins.")
    return Versions(found, is_cut)


def _commits(git: Git, revisions: Revisions, head: str) -> Iterator[Version]:
    """Yield the commits that changed notes, with how many."""
    for commit, changed in _log(git, head, "--", revisions.folder or "."):
        notes = {path for path, _, _ in changed if is_note_name(path.rpartition("/")[2])}
        if notes:
            yield Version(commit, notes=len(notes))


def _place(memory: Workspace, location: str) -> tuple[Location, str]:
    """Return the place that a location names, also in a note that was deleted, and the revision in it, if any."""
    try:
        return find_place(memory.files, location, memory.fresh_search.titled)[0], ""
    except NoSuchNote:
        path, revision, rest = split_location(location)
        place = parse_location(path + rest)
        if memory.files.leaves_out(place.path):
            raise
        return place, revision


@dataclass(frozen=True, slots=True)
class _Past:
    """A version of a note: the commit, the note's path in it, and its content there."""

    commit: Commit
    path: str
    blob: str


def _versions(memory: Workspace, git: Git, revisions: Revisions, path: NotePath, commit: str) -> list[_Past]:
    """Return the versions of a note until a commit, newest first, under all names that a search would not leave out."""
    found: list[_Past] = []
    name = revisions.folder + path
    for commit_of, changed in islice(_log(git, "--follow", "-M", commit, "--", name), MAX_VERSIONS):
        for before, after, blob in changed:
            if after == name:
                found.append(_Past(commit_of, after.removeprefix(revisions.folder), blob))
                name = before
    hidden = {name for name in {past.path for past in found} if memory.files.leaves_out(NotePath(name))}
    return list(takewhile(lambda past: past.path not in hidden, found))


def _log(git: Git, *arguments: str) -> Iterator[tuple[Commit, list[tuple[str, str, str]]]]:
    """Yield each commit that `git log` prints, with (path before, path after, blob after) of its changes.

    A merge counts as one commit, with what it changed in its first parent. The blob of anything but a regular file, or
    of none, is empty.
    """
    shown = ("--first-parent", "-m", "--raw", "-z", "--no-abbrev", f"--format=%x01{COMMIT}")
    commit, changed = _NOW, list[tuple[str, str, str]]()
    printed = parts(git.stream("log", *shown, *arguments, max_bytes=MAX_LOG_BYTES))
    for part in printed:
        text = part.lstrip(b"\n")
        if text.startswith(_START):
            if commit is not _NOW:
                yield commit, changed
            commit, changed = read_commit([text[1:], *islice(printed, 3)]), []
        elif text.startswith(b":"):
            _, mode, _, blob, status = text.split(b" ")
            before = after = os.fsdecode(next(printed, b""))
            if status[:1] in (b"R", b"C"):
                after = os.fsdecode(next(printed, b""))
            changed.append((before, after, blob.decode() if mode in REGULAR else ""))
    if commit is not _NOW:
        yield commit, changed


# ---------------------------------------------------------------------------------------------- what changed


def _changes(memory: Workspace, place: Location, texts: Iterator[tuple[_Past, Sequence[str]]]) -> Iterator[Version]:
    """Yield the versions that changed a place, newest first."""
    is_part = bool(place.heading or place.first)
    if is_part:  # of a note that was deleted, begin with its last text
        texts = dropwhile(lambda version: not version[1], texts)
    newer = next(texts, None)
    span = _span(memory, place, newer[1]) if newer else None
    while newer and span:
        (past, lines), older = newer, next(texts, None)
        before = _in_older(memory, place, span, lines, older[1]) if older else None
        said, earlier = _cut(lines, span), _cut(older[1], before) if older and before else []
        added, removed = _different(earlier, said)
        if added or removed:
            text, (first, last) = ("\n".join(said), span) if is_part else ("", (0, 0))
            yield Version(past.commit, NotePath(past.path), first, last, text, added, removed)
        newer, span = older, before


def _span(memory: Workspace, place: Location, lines: Sequence[str]) -> Span:
    """Return the lines of a place in a version. Raises NoteError if it has no such heading or line."""
    return lines_of(place, lines, "\n".join(lines).encode(), memory.reader)


def _in_older(
    memory: Workspace, place: Location, span: Span, lines: Sequence[str], older: Sequence[str]
) -> Span | None:
    """Return the lines of an older version that became those of a span; None if there are none."""
    if not place.first:  # a section or the whole note
        with suppress(NoteError):  # the heading was another one
            return _span(memory, place, older)
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
        for kind, old_start, old_end, new_start, new_end in difflib.SequenceMatcher(None, old, new).get_opcodes():
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
    memory: Workspace, git: Git, revisions: Revisions, path: NotePath, versions: Sequence[_Past], *, is_now: bool
) -> Iterator[tuple[_Past, Sequence[str]]]:
    """Yield each version of a note with its lines, newest first; with `is_now` first the file, if it is another one."""
    with suppress(FileNotFoundError, NoteError):
        content, stamp = memory.files.read(path)
        if is_now and versions and not stamp.is_blob(versions[0].blob):
            time = datetime.fromtimestamp(stamp.mtime_ns // 10**9).astimezone().isoformat(timespec="seconds")
            yield _Past(Commit(time=time), path, ""), _lines(content)
    sizes = revisions.sizes(git, {past.blob for past in versions if past.blob})
    blobs = {name: Blob(name, size) for name, size in sizes.items() if size <= MAX_NOTE_BYTES}
    contents = revisions.contents(git, [blobs[past.blob] for past in versions if past.blob in blobs])
    for past in versions:
        if past.blob in blobs or not past.blob:  # one that is too large would look as if it said nothing
            yield past, _lines(next(contents)[1]) if past.blob else ()


def _lines(content: bytes) -> Sequence[str]:
    try:
        return decode(content).lines
    except BinaryFileError:
        return ()


# ------------------------------------------------------------------------------------------- who wrote a line


@operation(
    Command(
        "history blame",
        help="Print the commit and day of each line of LOCATION, and who wrote it.",
        notes="The writer (an agent's name, tool, import, web) and the session of a line are those that search prints.",
        examples=(
            "memsync history blame MEMORY.md",
            "memsync history blame MEMORY.md:12",
            "memsync history blame MEMORY.md@v1",
        ),
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
    path, revisions = excerpt.path, Revisions.of(memory.settings.root)
    with revisions.git() as git:
        commit = revisions.resolve(excerpt.at).name if excerpt.at else ""  # a branch may have moved meanwhile
        if commit:
            ((_, content),) = revisions.contents(git, [revisions.files(git, commit)[path]])
        else:
            content, _ = memory.files.read(path)
        written = _blamed(git, revisions, excerpt, content, commit)
        commits = revisions.commits(git, {name for name in written.values() if name.strip("0")})
    origins = _origins(memory, path, content)
    lines = (
        BlamedLine(number, text, commits.get(written.get(number, ""), _NOW), *origins.get(number, ()))
        for number, text in enumerate(excerpt.text.split("\n"), excerpt.start_line)
    )
    is_cut = (CUT,) if revisions.is_shallow() else ()
    return Blame(path, tuple(lines), excerpt.at, is_cut)


def _blamed(git: Git, revisions: Revisions, excerpt: Excerpt, content: bytes, commit: str) -> dict[int, str]:
    """Return the name of the commit that wrote each line; zeros, or nothing, for one that is not committed.

    Raises NoteError if git counts other lines than memsync.
    """
    path = revisions.folder + excerpt.path
    if not content or git.run("cat-file", "-e", f"{commit or 'HEAD'}:{path}").returncode:
        return {}
    if excerpt.line_count != content.count(b"\n") + (not content.endswith(b"\n")):
        raise NoteError(f"{excerpt.path} has line ends that git does not know", hint="Save it as UTF-8 with LF.")
    span = f"-L{excerpt.start_line},{excerpt.end_line}"
    given = [commit] if commit else ["--contents", "-"]
    asked = ("blame", "--porcelain", span, *given, "--", path)
    printed = b"".join(git.stream(*asked, max_bytes=MAX_LOG_BYTES, given=content))
    heads = (line.decode().split(" ") for line in printed.split(b"\n") if _HEAD.fullmatch(line))
    return {int(final): name for name, _, final, *_ in heads}


def _origins(memory: Workspace, path: NotePath, content: bytes) -> dict[int, tuple[str, str]]:
    """Return the origin and the session of each line that a search can find."""
    note, chunks = memory.reader.read(path, content)
    found: dict[int, tuple[str, str]] = {}
    for chunk in chunks:
        for entry in chunk.entries:
            session = entry.attributes.get("session", note.session)
            for line in range(entry.start_line, entry.end_line + 1):
                found.setdefault(line, (chunk.origin, session))
    return found
