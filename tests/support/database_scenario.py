"""A small life of an index, from nothing to a rebuild, run over a disk that fails, and what must be true of it.

Every step either does its work or raises a MemsyncError. A search that says that nothing is missing from its answer
answers as it would on a sound disk; a sync without complaint leaves the index it would leave there. After the fault is
healed one sync makes the index equal to one built from nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from memsync.errors import MemsyncError
from memsync.index.sqlite.index import SqliteIndex
from memsync.memory import Memory
from memsync.model.answer import SearchResult
from memsync.model.status import SyncReport
from memsync.settings.load import Settings, load_settings
from memsync.system import clock
from tests.conftest import COUNTER, FakeEmbedder
from tests.support.descriptors import open_descriptors
from tests.support.faulty_database import Disk, Fault
from tests.support.index_checks import assert_sound, database, dump

NOTES = {
    "a.md": "---\ntitle: Boats\n---\n# Boats\n\nThe ketch lies in the harbour. #boat\n\n- one\n- two\n",
    "b.md": "# Birds\n\nThe heron nests in the alder, see [[a]].\n\n## Owls\n\nThe owl sleeps.\n",
    "c.md": "The tide turns at noon.\n",
    "daily/2026-11-21.md": "- 10:02 saw the heron\n- 11:15 rope bought\n",
    "threads/t.md": "## user @ 2026-11-21 10:02\n\nWhere is the heron?\n",
}
QUERY = "heron alder"
FAR_NS = 60_000_000_000
"""How far ahead the clock is: what was just saved is neither waited for nor read again for its youth."""
Outcome = SearchResult | SyncReport | None
Step = Callable[["Life"], Outcome]


class Divergence(AssertionError):
    """What must not be was seen."""


@dataclass(slots=True)
class Life:
    """One memory root with its index, in a folder of its own."""

    folder: Path
    memory: Memory | None = None
    settings: Settings = field(init=False)

    def __post_init__(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.root.mkdir(parents=True)
        self.settings = load_settings(root=self.root, environ={}, cwd=self.root)
        self.settings.index_name = str(self.folder / "index")
        shutil.rmtree(self.settings.keep_dir, ignore_errors=True)  # an earlier life had another folder here

    @property
    def root(self) -> Path:
        return self.folder / "notes"

    def opened(self) -> Memory:
        """Return the memory, opened if it is not."""
        if self.memory is None:
            self.memory = open_memory(self.settings)
        return self.memory

    def close(self) -> None:
        memory, self.memory = self.memory, None
        if memory is not None:
            memory.close()

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def open_memory(settings: Settings) -> Memory:
    """Return a memory of these settings with a model that costs nothing."""
    embedder = FakeEmbedder()
    index = SqliteIndex(settings.index_dir / "index.db")
    return Memory(settings, index, COUNTER, lambda: embedder, lambda space: embedder)


# ------------------------------------------------------------------------------------------------------------ steps


def _sync(life: Life) -> Outcome:
    return life.opened().sync()


def _search(life: Life) -> Outcome:
    return life.opened().search(QUERY)


def _by_words(life: Life) -> Outcome:
    return life.opened().search(QUERY, mode="keyword")


def _rebuild(life: Life) -> Outcome:
    return life.opened().rebuild()


def _verify(life: Life) -> Outcome:
    difference = life.opened().verify()
    if difference is not None:
        raise Divergence(f"verify found {difference}")
    return None


def _tidy(life: Life) -> Outcome:
    life.opened().syncer.tidy(bulk=True)
    return None


def _reopen(life: Life) -> Outcome:
    life.close()
    life.opened()
    return None


def _begin(life: Life) -> None:
    for name, text in NOTES.items():
        life.write(name, text)


def _edit(life: Life) -> None:
    life.write("b.md", NOTES["b.md"].replace("owl sleeps", "owl hunts the heron"))
    life.write("d.md", "# Nets\n\nThe heron fishes by the alder.\n")
    (life.root / "c.md").unlink()


def _rename(life: Life) -> None:
    (life.root / "a.md").rename(life.root / "moved.md")


def _edit_again(life: Life) -> None:
    life.write("b.md", NOTES["b.md"].replace("The owl sleeps", "\n\n".join(f"Heron {n} nests" for n in range(30))))


def _append(life: Life) -> None:
    with (life.root / "threads/t.md").open("a") as file:
        file.write("\n## agent\n\nIn the alder.\n")


def _empty(life: Life) -> None:
    for name in ("moved.md", "daily/2026-11-21.md", "threads/t.md"):
        (life.root / name).unlink()
    life.write("e.md", "An eel, a heron.\n")


BY_WORDS = ("search that finds edits", "search after deletions")
STEPS: tuple[tuple[str, Callable[[Life], None] | None, Step], ...] = (
    ("first sync", _begin, _sync),
    ("search", None, _search),
    (BY_WORDS[0], _edit, _by_words),
    ("search by meaning after edits", None, _search),
    ("sync after a rename", _rename, _sync),
    ("rebuild after edits", _edit_again, _rebuild),
    ("sync after an append", _append, _sync),
    ("reopening", None, _reopen),
    (BY_WORDS[1], _empty, _by_words),
    ("tidying up", None, _tidy),
    ("verify", None, _verify),
    ("last sync", None, _sync),
)


# -------------------------------------------------------------------------------------------------------- running it


@dataclass(frozen=True, slots=True)
class Clean:
    """What a run on a sound disk gave: hits and dump after each step, and how many calls could have failed."""

    hits: dict[str, tuple[str, ...]]
    dumps: dict[str, list[str]]
    calls: int

    @property
    def last(self) -> list[str]:
        return self.dumps[STEPS[-1][0]]


class Met(NamedTuple):
    """How many calls failed in a run, and how many steps raised for it."""

    struck: int
    refused: int


@contextmanager
def clock_ahead() -> Iterator[None]:
    """Set the clock by which files are judged young or settled ahead, so that every run does the same."""
    real = clock.time_ns
    with patch("memsync.notes.files.clock.time_ns", lambda: real() + FAR_NS):
        yield


def run_clean(disk: Disk, folder: Path) -> Clean:
    """Run all steps on a sound disk."""
    life = Life(folder)
    hits: dict[str, tuple[str, ...]] = {}
    dumps: dict[str, list[str]] = {}
    disk.fail(None)
    with clock_ahead():
        for name, prepare, step in STEPS:
            if prepare is not None:
                prepare(life)
            outcome = step(life)
            if isinstance(outcome, SearchResult):
                hits[name] = _citations(outcome)
            dumps[name] = dump(life.opened())
        life.close()
    assert all(hits.values())
    return Clean(hits, dumps, disk.calls)


def run_with_fault(disk: Disk, fault: Fault, folder: Path, clean: Clean, *, reopens: bool) -> Met:
    """Run all steps with one fault, heal it, sync, and check; return what was met on the way.

    Raises Divergence, or whatever a step raised that is no MemsyncError. `reopens`: the program ends before the fault
    is healed, else it goes on. A fault that the run does not reach, or that harms nothing, is no failure.
    """
    life = Life(folder)
    descriptors = open_descriptors()
    refused = 0
    disk.fail(fault)
    try:
        with clock_ahead():
            for name, prepare, step in STEPS:
                if prepare is not None:
                    prepare(life)
                try:
                    _judge(name, step(life), life, clean)
                except MemsyncError as error:
                    refused += 1
                    if not error.hint:
                        raise Divergence(f"{name}: no hint with {error}") from error
            if reopens:
                life.close()
            met = Met(disk.struck, refused)
            disk.fail(None)
            _converge(life, clean)
    finally:
        disk.fail(None)
        life.close()
    if open_descriptors() != descriptors:
        raise Divergence(f"{open_descriptors() - descriptors} descriptors leaked")
    return met


def _judge(name: str, outcome: Outcome, life: Life, clean: Clean) -> None:
    """Hold what a step says to have done against a run on a sound disk."""
    if isinstance(outcome, SearchResult) and not outcome.freshness.pending_text:
        is_whole = name in BY_WORDS or not outcome.freshness.pending_vectors
        if is_whole and sorted(_citations(outcome)) != sorted(clean.hits[name]):
            raise Divergence(f"{name}: answered {_citations(outcome)}, not {clean.hits[name]}, {outcome.warnings}")
    if isinstance(outcome, SyncReport) and not outcome.failed and not outcome.vectors_pending:
        with suppress(MemsyncError):  # the fault may last
            if dump(life.opened()) != clean.dumps[name]:
                raise Divergence(f"{name}: reported success and left another index")


def _converge(life: Life, clean: Clean) -> None:
    """One sync makes all well."""
    report = life.opened().sync()
    if report.failed or report.vectors_pending:
        raise Divergence(f"sync on a healed disk: {report}")
    if dump(life.opened()) != clean.last:
        raise Divergence("the index differs from one built from nothing")
    life.close()
    assert_sound(database(open_and_close(life)))
    names = {path.name for path in life.settings.index_dir.iterdir()}
    left = {name for name in names if not name.startswith(".memsync-")} - {"index.db", "sync.lock"}
    if left:
        raise Divergence(f"left behind: {sorted(left)}")


def open_and_close(life: Life) -> Memory:
    """Return a closed memory of a life, for where its files are."""
    memory = open_memory(life.settings)
    memory.close()
    return memory


def _citations(result: SearchResult) -> tuple[str, ...]:
    return tuple(hit.citation for hit in result.hits)
