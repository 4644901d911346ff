"""Notes parsed by several processes: the same index, whatever happens to the processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memsync.index.rows import note_rows
from memsync.index.sqlite.index import SqliteIndex
from memsync.memory import Memory
from memsync.model.vocabulary import NotePath
from memsync.notes.parse import NoteReader
from memsync.settings.load import Settings
from memsync.sync import indexer, workers
from memsync.sync.gate import Stopped
from memsync.sync.workers import NoteParser, NoteWorkers
from memsync.system import child
from memsync.system.child import Child
from tests.conftest import COUNTER, DEADLINE, FakeEmbedder, Patch, Write
from tests.daemon.test_isolated import is_alive
from tests.support.index_checks import dump

OpenWith = Callable[[int], Memory]
LISTS = "\n".join(
    f"- [Heron {n}](https://heron.example/{n}) - Nests in alder {n}, near the *pond* #birds." for n in range(90)
)


@pytest.fixture(autouse=True)
def _always_worth_it(monkeypatch: Patch) -> None:
    monkeypatch.setattr(workers, "WORTH_BYTES", 0)


@pytest.fixture
def notes(write: Write) -> int:
    """Write notes of every kind, a file that is none among them; return how many are notes."""
    for number in range(30):
        write(
            f"{number:02d}.md",
            f"---\ntags: [a, b{number}]\n---\n# Note {number}\n\n{LISTS[: 400 * number]}\n\n用SQLite {number}\n",
        )
    write("daily/2026-11-21.md", "# Log\n\n- 10:02 The heron came {#x cost=0.1}\n- 11:00 It left\n")
    write("threads/t.md", "# T\n\n## user @ 2026-11-21 10:02 {in=3}\n\nWho nests?\n\n## assistant\n\nThe heron.\n")
    write("large.md", f"# Large\n\n{LISTS * 20}\n")
    write("quotes.md", ">" * 3_000 + " deep\n")
    write("binary.md", bytes(range(32)) * 100)
    return 34


@pytest.fixture
def open_with(settings: Settings, tmp_path: Path, embedder: FakeEmbedder) -> Iterator[OpenWith]:
    """Open the root with so many processes, each time with an index of its own."""
    opened: list[Memory] = []

    def open_memory(processes: int) -> Memory:
        index = SqliteIndex(tmp_path / f"index-{len(opened)}" / "index.db")
        opened.append(
            Memory(
                settings,
                index,
                COUNTER,
                lambda: embedder,
                lambda space: embedder,
                processes=processes,
                deadline=DEADLINE,
            )
        )
        return opened[-1]

    yield open_memory
    for memory in opened:
        memory.close()


def processes_seen(monkeypatch: Patch, at_start: Callable[[int], None] = lambda process: None) -> list[int]:
    """Return a list that each process that is started is added to; `at_start` is called with its id."""
    seen: list[int] = []
    real = Child.__init__

    def begin(child: Child, *arguments: Any, **more: Any) -> None:
        real(child, *arguments, **more)
        seen.append(child.process.pid)
        at_start(child.process.pid)

    monkeypatch.setattr(Child, "__init__", begin)
    return seen


@pytest.mark.slow
def test_index_is_the_same_however_many_processes_read(open_with: OpenWith, notes: int, monkeypatch: Patch) -> None:
    """The canonical dump, the report and the failures do not tell who parsed a note."""
    seen = processes_seen(monkeypatch)
    alone = open_with(1)
    expected = alone.sync()
    assert seen == []
    for count in (2, 3):
        memory = open_with(count)
        report = memory.sync()
        assert (report.added, report.failed) == (notes, expected.failed)
        assert dump(memory) == dump(alone)
        assert memory.verify() is None
    assert not any(is_alive(process) for process in seen)
    assert len(seen) == 2 * (2 + 3)  # verify starts as many again


@pytest.mark.slow
def test_killed_process_costs_nothing(open_with: OpenWith, notes: int, monkeypatch: Patch) -> None:
    """What it was at, and what no other process is left to do, is done in this one."""
    asked: list[str] = []
    real = Child.ask

    def ask(child: Child, name: str, path: str, content: bytes) -> Any:
        asked.append(path)
        if len(asked) in (7, 15):
            child.process.kill()
            child.process.wait()
        return real(child, name, path, content)

    monkeypatch.setattr(Child, "ask", ask)
    alone, several = open_with(1), open_with(2)
    alone.sync()
    report = several.sync()
    assert (report.added, [failure.path for failure in report.failed]) == (notes, ["binary.md"])
    assert 15 <= len(asked) <= notes + 1
    assert dump(several) == dump(alone)


def test_process_that_hangs_is_ended(open_with: OpenWith, notes: int, monkeypatch: Patch) -> None:
    """A load does not wait for it without end; what it was to do is done in this process."""
    monkeypatch.setattr(workers, "PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(child, "SEND_SECONDS", 1)
    seen = processes_seen(monkeypatch, lambda process: os.kill(process, signal.SIGSTOP))
    assert open_with(2).sync().added == notes
    assert len(seen) == 2
    assert not any(is_alive(process) for process in seen)


@pytest.mark.slow
def test_processes_that_cannot_be_started_are_not_missed(open_with: OpenWith, notes: int, monkeypatch: Patch) -> None:
    """No interpreter to start, none that starts, or one that is no Python: this process does it all."""
    for executable in ("", "/nowhere/python", "/bin/true"):
        monkeypatch.setattr(sys, "executable", executable)
        assert open_with(2).sync().added == notes


def test_stop_ends_the_processes(open_with: OpenWith, notes: int, monkeypatch: Patch) -> None:
    """When the gate is closed in the midst of a load, nothing goes on in the background."""
    memory = open_with(2)
    seen = processes_seen(monkeypatch)

    def stop(done: int, pending: int) -> None:
        memory.syncer.gate.stop()

    with pytest.raises(Stopped):
        memory.syncer.refresh(on_commit=stop)
    assert len(seen) == 2
    assert not any(is_alive(process) for process in seen)


def test_vectors_wait_until_many_notes_are_loaded(
    open_with: OpenWith, notes: int, embedder: FakeEmbedder, monkeypatch: Patch
) -> None:
    """Words take seconds and vectors minutes: what embeds in the background leaves the processors to what parses."""
    memory = open_with(2)
    monkeypatch.setattr(indexer, "BATCH_NOTES", 5)
    embedding = threading.Thread(target=memory.syncer.embed_in_background)
    seen: list[int] = []

    def committed(done: int, pending: int) -> None:
        if not seen:
            embedding.start()
        time.sleep(0.1)
        seen.append(len(embedder.seen))

    memory.syncer.refresh(on_commit=committed)
    embedding.join(120)
    assert len(seen) >= 7
    assert set(seen) == {0}
    assert embedder.seen


def test_large_note_is_parsed_by_another_process(open_with: OpenWith, write: Write, monkeypatch: Patch) -> None:
    """Also for a search: Python's lock would make others wait. A search parses all others itself, to save time."""
    monkeypatch.setattr(workers, "LARGE_BYTES", 1_000)
    write("a.md", "The quokka smiles.\n")
    write("b.md", "The heron nests.\n\n" * 99)
    parsed: list[str] = []
    real = NoteReader.read

    def reading(reader: NoteReader, path: NotePath, content: bytes) -> Any:
        parsed.append(path)
        return real(reader, path, content)

    monkeypatch.setattr(NoteReader, "read", reading)
    seen = processes_seen(monkeypatch)
    memory = open_with(1)
    memory.syncer.refresh(for_search=True)
    assert (parsed, len(seen), memory.status().notes) == (["a.md"], 1, 2)
    assert not any(is_alive(process) for process in seen)


def test_little_is_read_by_one_process(reader: NoteReader, monkeypatch: Patch) -> None:
    """Starting others takes longer than they would save; on one processor they save nothing."""
    monkeypatch.setattr(workers, "WORTH_BYTES", 1_000)
    assert not NoteWorkers(reader, note_rows, 2).pool(999).is_bulk
    assert NoteWorkers(reader, note_rows, 2).pool(1_000).is_bulk
    assert not NoteWorkers(reader, note_rows, 1).pool(10**9).is_bulk
    monkeypatch.setattr(workers, "_processors", lambda: 1)
    assert not NoteWorkers(reader, note_rows).pool(10**9).is_bulk


def test_process_with_another_version_of_the_parser_parses_nothing(reader: NoteReader) -> None:
    """After an upgrade below a running daemon: this process then parses as it did."""
    with pytest.raises(RuntimeError, match="another version"):
        NoteParser(reader, note_rows, "0:old")


SCRIPT = """
import os, signal, sys
from memsync import Memory
from memsync.sync import workers
from memsync.system.child import Child
workers.WORTH_BYTES = 0
real = Child.ask
def ask(child, *request):
    os.write(1, f"{child.process.pid}\\n".encode())
    return real(child, *request)
Child.ask = ask
def committed(done, pending):
    if "die" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
memory = Memory.open(sys.argv[1])
memory.syncer.refresh(on_commit=committed)
"""


@pytest.mark.parametrize("fate", ["live", "die"])
def test_library_use_needs_no_main_guard_and_leaves_no_process(root: Path, notes: int, fate: str) -> None:
    """In a program without `if __name__ == "__main__"`, killed at any moment, in a folder of a stranger's."""
    (root / "json.py").write_text("raise SystemExit('a module of the folder was loaded')")
    program = [sys.executable, "-P", "-c", SCRIPT, str(root), fate]
    done = subprocess.run(program, cwd=root, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == (-signal.SIGKILL if fate == "die" else 0), done.stderr
    parsed_by = {int(line) for line in done.stdout.split()}
    assert 1 <= len(parsed_by) <= 4
    limit = time.monotonic() + 120
    while any(is_alive(process) for process in parsed_by) and time.monotonic() < limit:
        time.sleep(0.02)
    assert not any(is_alive(process) for process in parsed_by)
