"""What must hold, whatever happened."""

from __future__ import annotations

import threading
from pathlib import Path

import apsw

from memsync.memory import Memory
from memsync.model.answer import Hit, SearchResult
from memsync.model.status import Status
from memsync.model.vocabulary import Mode, NotePath
from memsync.notes.decode import BinaryFileError, decode
from memsync.notes.files import NoteFiles
from tests.convergence import texts
from tests.convergence.divergence import Divergence, require
from tests.convergence.tree import Tree
from tests.support import index_checks
from tests.support.index_checks import dump, without_words


def thread_count() -> int:
    return threading.active_count()


def failures(status: Status) -> list[tuple[str, str]]:
    """Return what the index says of files that cannot be indexed."""
    return sorted((failure.path, failure.reason) for failure in status.failures)


def dumps(live: Memory, fresh: Memory) -> tuple[list[str], list[str]]:
    """Return the dumps of both; without words if they are of two backends."""
    have, want = dump(live), dump(fresh)
    return (have, want) if type(live.index) is type(fresh.index) else (without_words(have), without_words(want))


def assert_same(live: Memory, fresh: Memory) -> None:
    """Compare an index, and what it knows it lacks, with one that never saw anything but the files as they are."""
    have, want = dumps(live, fresh)
    missing, surplus = sorted(set(want) - set(have)), sorted(set(have) - set(want))
    require(have == want, f"missing: {missing[:5]}\nsurplus: {surplus[:5]}")
    mine, other = live.status(), fresh.status()
    require(failures(mine) == failures(other), f"failures: {failures(mine)}, and not {failures(other)}")
    require(mine.warnings == other.warnings, f"warnings: {mine.warnings}, and not {other.warnings}")
    require(mine.pending_vectors == 0, f"{mine.pending_vectors} passages have no vector")


def assert_told(live: Memory, tree: Tree) -> None:
    """Exactly the notes that are no text are reported as failed."""
    found = {path: tree.note_at(path) or b"" for path in NoteFiles(tree.root).scan().files}
    told = {path for path, _ in failures(live.status())}
    no_text = {path for path, content in found.items() if not is_text(content)}
    require(told == no_text, f"reported as failed: {told}, and not {no_text}")


def is_text(content: bytes) -> bool:
    """Tell whether a note can be indexed."""
    try:
        decode(content)
    except BinaryFileError:
        return False
    return True


def markers(tree: Tree) -> dict[str, list[str]]:
    """Return the marks that stand in notes at this moment, by the note's path; nothing of what cannot be read."""
    found: dict[str, list[str]] = {}
    for path in NoteFiles(tree.root).scan().files:
        content = tree.note_at(path)
        if content is not None and is_text(content) and not tree.is_denied(path):
            found[path] = texts.marks(content)
    return found


def find(memory: Memory, mark: str, fresh: str, mode: Mode) -> SearchResult:
    """Ask for one mark."""
    return memory.search(mark, mode=mode, fresh=fresh, limit=60, archived=True)


def tells_of(result: SearchResult, path: str) -> bool:
    """Tell whether a result admits that something about `path` is not in it."""
    if result.freshness.pending_text:
        return True
    places = [path, *(f"{folder}/" for folder in Path(path).parents)]
    begins = tuple(f"{place}{end}" for place in places for end in (":", " "))
    return any(warning.startswith(begins) for warning in result.warnings)


def places_of(hit: Hit) -> list[tuple[str, int, int]]:
    """Return path, first line and last line of a hit, and of each equal passage that it names."""
    places: list[tuple[str, int, int]] = [(hit.path, hit.start_line, hit.end_line)]
    for citation in hit.also:
        path, _, lines = citation.rpartition(":")
        first, _, last = lines.partition("-")
        places.append((path, int(first), int(last or first)))
    return places


def assert_finds(result: SearchResult, mark: str, path: str) -> None:
    """Check that what stood in a note before a search began is in its result, or the result says what it lacks."""
    found = [path for hit in result.hits if mark in hit.text for path, *_ in places_of(hit)]
    require(path in found or tells_of(result, path), f"{mark} of {path} is neither found nor missed: {result}")


def assert_quotes(tree: Tree, result: SearchResult) -> None:
    """Check that each file has the text of a hit at the lines that the hit names, those of equal passages too."""
    for hit in result.hits:
        for path, first, last in places_of(hit):
            content = tree.note_at(NotePath(path))
            if content is None:
                raise Divergence(f"{hit.citation} quotes {path}, which is not there")
            lines = decode(content).lines[first - 1 : last]
            require(hit.text in "\n".join(lines), f"{path}:{first} does not say {hit.text!r}")


def assert_sound(memory: Memory) -> None:
    """Check the database itself, see index_checks."""
    try:
        index_checks.check_sound(memory)
    except (AssertionError, apsw.Error) as error:
        raise Divergence(f"the database is not sound: {error}") from error
