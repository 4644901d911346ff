"""The connection to PostgreSQL is lost at any statement: a right answer or a clear error; the next sync converges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from memsync.errors import IndexFailure, MemsyncError
from memsync.memory import Memory
from memsync.model.vocabulary import NotePath
from memsync.settings.load import Settings
from tests.conftest import Patch, Write
from tests.support.cut_connections import BEFORE, UNHEARD, Cutter, cut_connections
from tests.support.index_checks import dump, without_words
from tests.support.postgres_memory import PASSWORD, assert_converges, assert_helpful, memories, new_dump
from tests.support.postgres_server import execute, own_database
from tests.support.sampling import each, fewer
from tests.sync.test_syncer import git

THREAD = "## user @ 2026-11-21 10:02\n\nWhere is the heron?\n\n## assistant @ 2026-11-21 10:03\n\nIn the alder.\n"


class Notes:
    """A handful of notes in one of two states: `turn` edits one, deletes one and adds one, or undoes that."""

    def __init__(self, root: Path, write: Write) -> None:
        self._root = root
        self._write = write
        self.state = 0
        write("birds.md", "---\ntags: [birds]\n---\n# Birds\n\nThe heron nests. See [[boats]].\n")
        write("threads/talk.md", THREAD)
        self.turn(0)

    def turn(self, state: int) -> None:
        self.state = state
        gone, here = ("new.md", "old.md") if state == 0 else ("old.md", "new.md")
        (self._root / gone).unlink(missing_ok=True)
        self._write(here, f"# {here}\n\nThe tern of {here} dives. {{emotion=joy}}\n")
        self._write("boats.md", f"# Boats\n\nThe ketch lies here.\n\n## State\n\nIn state {state} it leaks.\n")


class Scene:
    """Notes, a memory on a database whose connections can be cut, and the dump of each state of the notes."""

    def __init__(self, notes: Notes, memory: Memory, dsn: str, cutter: Cutter, dumps: list[list[str]]) -> None:
        self.notes, self.memory, self.dsn, self.cutter, self.dumps = notes, memory, dsn, cutter, dumps

    def cut_everywhere(
        self, work: Callable[[], object], check: Callable[[], object] = lambda: None, every: int = 1
    ) -> int:
        """Do `work` again and again, cut before each `every`th statement and at each commit whose answer is then lost.

        Each time it must end well or with a helpful error, and a sync must converge. `check` is called after work that
        ended well although it was cut. Returns how often the work failed.
        """
        failed = 0
        for mode, only in ((BEFORE, b""), (UNHEARD, b"COMMIT")):
            for at in each(1, 1) if only else each(every, 12):
                self.notes.turn(1 - self.notes.state)
                self.cutter.begin(at, mode, only)
                error = self._error_of(work)
                was_cut = self.cutter.struck
                self.cutter.begin(0, mode)
                if error is None:
                    check()
                else:
                    assert_helpful(error, self.dsn)
                    failed += 1
                assert_converges(self.memory, self.dumps[self.notes.state])
                if not was_cut:
                    break
        return failed

    def _error_of(self, work: Callable[[], object]) -> MemsyncError | None:
        try:
            work()
        except MemsyncError as error:
            return error
        return None

    def assert_equal(self) -> None:
        """Check that the index is equal to a new one, without a sync."""
        assert without_words(dump(self.memory)) == self.dumps[self.notes.state]

    def search(self) -> None:
        """Ask for a note that is there in one state only, and check the answer."""
        name = ("old.md", "new.md")[self.notes.state]
        assert [hit.path for hit in self.memory.search("tern dives", limit=1).hits] == [name]


@pytest.fixture
def scene(root: Path, write: Write, settings: Settings, tmp_path: Path, monkeypatch: Patch) -> Iterator[Scene]:
    notes = Notes(root, write)
    dumps: list[list[str]] = []
    for state in (1, 0):
        notes.turn(state)
        dumps.insert(0, new_dump(settings, tmp_path / f"new {state}"))
    with own_database("faults") as plain, cut_connections(monkeypatch) as cutter, memories(settings) as open_memory:
        dsn = make_conninfo(plain, password=PASSWORD)
        memory = open_memory(dsn)
        memory.sync()
        yield Scene(notes, memory, dsn, cutter, dumps)


@pytest.mark.slow
def test_sync_cut_at_every_statement(scene: Scene) -> None:
    """The index is that of the notes, or the error says what to do and the next sync converges."""
    assert scene.cut_everywhere(scene.memory.sync, scene.assert_equal) > fewer(100, 5)


@pytest.mark.slow
def test_search_cut_at_every_statement(scene: Scene) -> None:
    """The answer is right, or the error says what to do; a search also indexes what has changed."""
    assert scene.cut_everywhere(scene.search, every=2) > fewer(30, 5)


@pytest.mark.slow
def test_rebuild_cut_at_every_statement(scene: Scene) -> None:
    """The old index or the new one is in use, never half of each, and nothing of the other one stays for ever."""
    assert scene.cut_everywhere(scene.memory.rebuild, scene.assert_equal, every=5) > 20
    scene.memory.rebuild()
    assert execute(scene.dsn, "SELECT name FROM memory") == [("fault",)]


@pytest.mark.slow
def test_verify_cut_at_every_statement(scene: Scene) -> None:
    """A lost connection is not a difference."""

    def verify() -> None:
        assert scene.memory.verify() is None

    assert scene.cut_everywhere(verify, every=4) > fewer(20, 5)


@pytest.mark.slow
def test_history_that_only_this_machine_has_survives_a_commit_in_doubt(scene: Scene, root: Path) -> None:
    """Git's history is in a file next to the database: the one that belongs to what was committed is used at once."""
    git(root, "init")
    for work in (scene.memory.sync, scene.memory.rebuild):
        for mode in (BEFORE, UNHEARD):
            for at in count(1):
                before = histories(scene.memory)
                (root / "birds.md").write_text(f"# Birds\n\nThe heron nests, {mode} {at} {work.__name__}.\n")
                git(root, "add", ".")
                git(root, "commit", "-m", "birds")
                scene.cutter.begin(at, mode, b"COMMIT")
                with suppress(IndexFailure):
                    work()
                was_cut = scene.cutter.struck
                scene.cutter.begin(0, mode)
                known = histories(scene.memory)
                scene.memory.sync()
                after = histories(scene.memory)
                assert known in (before, after)
                assert before != after
                assert len(after) == 4
                if not was_cut:
                    break


def histories(memory: Memory) -> dict[NotePath, tuple[bytes, int]]:
    """Return git's history as the index has it."""
    with memory.index.reading() as reader:
        return dict(reader.history())
