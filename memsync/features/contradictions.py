"""Find statements of the notes that are about the same thing and differ."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import cache, partial
from itertools import islice, product
from typing import TYPE_CHECKING, Annotated, NamedTuple

from msgspec import Meta

from memsync.edit.run_records import Work
from memsync.errors import MemsyncError, NoteError, UsageError
from memsync.model.answer import holds
from memsync.model.json import to_json
from memsync.model.status import Failure
from memsync.model.upkeep import Contradiction, Contradictions, Side
from memsync.model.vocabulary import Kind, NotePath, Origin, is_remembered
from memsync.notes.contradicting import FramedStatement, opposed, said_in
from memsync.notes.decode import BinaryFileError, decode
from memsync.notes.files import open_folder
from memsync.notes.frontmatter import read_head
from memsync.notes.revisions import DISMISSED
from memsync.notes.validity_marks import statements
from memsync.operation import At, Cli, Command, Tool, operation
from memsync.ports import Progress, no_progress
from memsync.search.validity import MarkedLines, Read, Validity, today
from memsync.system.ask import ask_program
from memsync.system.user_folders import digest_of, filesystem_errors

if TYPE_CHECKING:
    from memsync.model.note import Chunk
    from memsync.model.query import IndexedNote
    from memsync.workspace import Workspace

SECTION = "Upkeep"

_FOLDER, _NAME = DISMISSED.split("/")
MAX_PLACES = 50
"""Of the places that say the same, so many of the last ones are compared."""
ID_CHARS = 8
_MARKED = re.compile(r"\s*[\"']?(?:superse|status)", re.IGNORECASE)


class _Place(NamedTuple):
    note: IndexedNote
    said: FramedStatement


@operation(
    Command(
        "contradictions",
        help="Print pairs of statements that are about the same thing and differ, the newer one last.",
        notes="Another value of a key, another number or name, or a negation in a sentence that is otherwise the same. "
        "It leaves out superseded statements. Exits with 1 if there are any.",
        examples=("memsync contradictions", "memsync contradictions --dismiss 1a2b3c4d"),
        runs_here=True,
        first=10,
    ),
    tool=Tool(
        "memory_contradictions",
        "List contradictions",
        "List pairs of statements in the notes that differ about the same thing, the newer one last. Use it before you "
        "rely on a number, a date or a choice, or to ask the user which one holds.",
        (),
    ),
    is_slow=True,
)
def contradictions(
    memory: Workspace,
    *,
    dismiss: Annotated[
        tuple[str, ...],
        Meta(description="Do not show this contradiction again.", extra={"writes": True}),
        Cli(metavar="ID"),
    ] = (),
    at: At = "",
    progress: Progress = no_progress,
) -> Contradictions:
    """Return pairs of statements that differ, by path; each pair once, without those that were dismissed.

    Dismissed ids are kept in `.memsync/dismissed` in the memory root. Raises UsageError for an unknown
    id, FilesystemError.
    """
    with memory.as_of_now() as (reader, pending):
        notes = [note for note in reader.notes() if not note.archived]
        validity = Validity.of(reader, memory.reader.usual_origin)
    failed: list[Failure] = []
    places = _places(memory, notes, failed, progress)
    read = cache(memory.chunks_of)
    found = {}
    for pair in _differing(places):
        sides = [side for place in pair if (side := _side(place, *read(place.note.path), validity))]
        if len(sides) == 2 and not any(side.origin == Origin.TOOL for side in sides):
            found[_id(sides)] = _contradiction(sides)
    if judge := memory.settings["curator.judge"]:
        paths = {side.path for one in found.values() for side in (one.older, one.newer)}
        private = {path for path in paths if any(chunk.local_only for chunk in read(path)[1])}
        found = _judged(judge, found, private)
    known_pairs = set(map(_lines_of, found.values()))
    refused = _refused({note.path: note for note in notes}, read, validity)
    found |= {one.id: one for one in refused if _lines_of(one) not in known_pairs}
    known = _dismissed(memory)
    if unknown := [name for name in dismiss if name not in found and name not in known]:
        raise UsageError(
            f"there is no contradiction {unknown[0][: ID_CHARS * 2]!r}", hint="memsync contradictions prints the ids."
        )
    if new := [name for name in dismiss if name not in known]:
        _dismiss(memory, [found[name] for name in new])
        memory.runs(Work.ACCEPT).commit([NotePath(DISMISSED)], "memsync contradictions --dismiss")
    shown = [contradiction for contradiction in found.values() if contradiction.id not in {*known, *dismiss}]
    shown.sort(key=lambda one: (one.older.path, one.older.line, one.newer.path, one.newer.line))
    return Contradictions(tuple(shown), len(notes), len(found) - len(shown), tuple(failed), pending)


def _contradiction(sides: Sequence[Side]) -> Contradiction:
    return Contradiction(_id(sides), *sorted(sides, key=lambda side: (side.date, side.path, side.line)))


def _lines_of(one: Contradiction) -> Set[tuple[NotePath, int]]:
    return frozenset({(one.older.path, one.older.line), (one.newer.path, one.newer.line)})


def _refused(notes: Mapping[NotePath, IndexedNote], read: Read, validity: Validity) -> Iterator[Contradiction]:
    """Yield a contradiction for each text that would replace one that is trusted more."""
    for old, pair, _ in validity.all_refused(read):
        claims = [_claim(notes[one.path], one, read(one.path)[0]) for one in (old, pair.mark) if one.path in notes]
        sides = [side for place in claims if (side := _side(place, *read(place.note.path), validity))]
        if len(sides) == 2:
            yield _contradiction(sides)


def _claim(note: IndexedNote, place: MarkedLines, lines: Sequence[str]) -> _Place:
    """Return the first statement of a place or, of a whole note, what its front matter says from the first mark on."""
    first = place.first or next((number for number, line in enumerate(lines, 1) if _MARKED.match(line)), 1)
    said = next(statements(lines[first - 1 : place.last], first), None)
    return _Place(note, FramedStatement(said.first if said else first, "", said.text if said else ""))


def _judged(
    command: Sequence[str], found: Mapping[str, Contradiction], private: Set[NotePath]
) -> dict[str, Contradiction]:
    """Return the contradictions that a program of the user's confirms; it never gets those of local-only notes.

    It reads `{"pairs": [{"id", "older", "newer"}, …]}` and answers `{"contradictions": [id, …]}`. Raises MemsyncError.
    """
    own = {name: one for name, one in found.items() if not private & {one.older.path, one.newer.path}}
    pairs = [{"id": name, "older": to_json(one.older), "newer": to_json(one.newer)} for name, one in own.items()]
    answer = ask_program(command, {"pairs": pairs}) if pairs else {}
    confirmed = answer.get("contradictions") if isinstance(answer, dict) else None
    if pairs and not isinstance(confirmed, list):
        raise MemsyncError(f"{command[0]} did not name the contradictions", hint="See docs/vault.md.")
    return {name: one for name, one in found.items() if name not in own or name in (confirmed or ())}


def _places(
    memory: Workspace, notes: Sequence[IndexedNote], failed: list[Failure], progress: Progress
) -> Iterator[_Place]:
    """Yield the statements of notes, as their files are now."""
    for number, note in enumerate(notes, 1):
        try:
            lines = decode(memory.files.read(note.path)[0]).lines
        except FileNotFoundError:
            continue
        except (NoteError, BinaryFileError) as error:
            failed.append(Failure(note.path, str(error)))
            continue
        head = read_head(lines).line_count
        found = said_in(lines[head:], head + 1, note.path, is_log=note.kind is Kind.DAILY)
        yield from (_Place(note, said) for said in found)
        progress("reading notes", number, len(notes))


def _differing(places: Iterable[_Place]) -> Iterator[tuple[_Place, _Place]]:
    """Yield pairs of contradicting statements, without the fields of records: several keys that two notes share."""
    found: list[tuple[_Place, _Place]] = []
    for left, right in opposed((place.said, place) for place in places):
        pairs = product(reversed(left[-MAX_PLACES:]), reversed(right[-MAX_PLACES:]))
        found += islice((pair for pair in pairs if _may_contradict(*pair)), 1)
    fields = Counter(_records(pair) for pair in found)
    yield from (pair for pair in found if not (records := _records(pair)) or fields[records] == 1)


def _records(pair: tuple[_Place, _Place]) -> Set[NotePath]:
    """Return the two notes of a folder, or of one name, if both statements are `key: value`."""
    left, right = (place.note.path for place in pair)
    folders, names = zip(left.rpartition("/")[::2], right.rpartition("/")[::2], strict=True)
    is_alike = folders[0] == folders[1] != "" or names[0] == names[1]
    return frozenset((left, right) if is_alike and all(place.said.is_field for place in pair) else ())


def _may_contradict(left: _Place, right: _Place) -> bool:
    """Tell whether two statements may be meant at once: those of one document or of two people are not compared."""
    if left.note.path != right.note.path:
        return True
    are_parts = bool(left.said.heading and right.said.heading) and left.said.heading != right.said.heading
    return not are_parts and is_remembered(left.note.kind, left.note.tier)


def _side(place: _Place, lines: Sequence[str], chunks: Sequence[Chunk], validity: Validity) -> Side | None:
    """Return a statement with its date and origin; None if it does not hold."""
    note, said = place
    for chunk in chunks:
        for entry in chunk.entries:
            if entry.start_line <= said.line <= entry.end_line:
                text = partial("\n".join, lines[entry.start_line - 1 : entry.end_line])
                if not holds(validity.reason(note.path, entry, text, today(), chunk.origin)):
                    return None
                return Side(note.path, said.line, entry.time or note.date, chunk.origin, said.text)
    return None


def _id(sides: Sequence[Side]) -> str:
    """Return the id of a contradiction, which depends on both texts only: lines move."""
    return digest_of("\n".join(sorted(side.text for side in sides)).encode("utf-8", "surrogatepass"))[:ID_CHARS]


def _dismissed(memory: Workspace) -> set[str]:
    """Return the ids of the dismissed contradictions."""
    with suppress(FileNotFoundError, NoteError):
        content = memory.files.read(NotePath(DISMISSED))[0]
        return {line[:ID_CHARS] for line in content.decode("utf-8", "replace").splitlines()}
    return set()


def _dismiss(memory: Workspace, found: Sequence[Contradiction]) -> None:
    lines = [f"{one.id}  {one.older.citation}  {one.newer.citation}\n" for one in found]
    with (
        filesystem_errors(f"{DISMISSED} cannot be written"),
        open_folder(memory.files.root, [_FOLDER], create=True) as folder,
    ):
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        with os.fdopen(os.open(_NAME, flags, 0o644, dir_fd=folder), "r+b") as stream:
            end = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, end - 1))
            joint = b"\n" if end and stream.read(1) != b"\n" else b""
            stream.write(joint + "".join(lines).encode("utf-8", "surrogateescape"))
