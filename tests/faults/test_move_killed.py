"""kill -9 at any moment of `memsync mv`: an undo gives every file back, and nothing half written is left."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from memsync.edit.kept import Work
from memsync.errors import UsageError
from memsync.memory import Memory
from tests.support.sampling import sampled

# Runs one operation of a memory, and kills its own process before the given one of the calls that change a disk, or of
# the statements to the database of what is kept.
_SCRIPT = """
import os, signal, sys
import apsw
from memsync.memory import Memory
from memsync.edit import note_file, note_paths

root, what, left = sys.argv[1], sys.argv[2], int(sys.argv[3])
memory = Memory.open(root)
memory.sync()

def counted(module, name):
    real = getattr(module, name)
    def call(*arguments, **options):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return real(*arguments, **options)
    setattr(module, name, call)

for name in ("fsync", "mkdir", "rename", "replace", "rmdir", "unlink"):
    counted(os, name)
counted(note_file, "rename_new")
counted(note_file, "exchange")
counted(note_paths, "rename_new")
counting = lambda *_: None
counted(sys.modules[__name__], "counting")

def hook(database):
    if database.filename.endswith("kept.db"):
        database.exec_trace = lambda *_: counting() is None

apsw.connection_hooks.append(hook)
if what == "undo":
    memory.undo_move()
else:
    memory.move(*what.split(" to "))
os.write(1, b"finished")
os._exit(0)
"""
NOTES = {
    "p/a.md": b"# A\r\n\r\n[b](b.md) [[up]] ![](i.png)\r\n",
    "p/b.md": b"[[p/a#A]] and p/a.md:3",
    "p/i.png": b"\x89PNG\xff\x00",
    "up.md": b"\xef\xbb\xbf[[p/a]] [t](p/b.md#x) ![](p/i.png) p/a.md:1\n",
}
MOVES = {
    "p to q/r": {
        "q/r/a.md": b"# A\r\n\r\n[b](b.md) [[up]] ![](i.png)\r\n",
        "q/r/b.md": b"[[q/r/a#A]] and q/r/a.md:3",
        "q/r/i.png": NOTES["p/i.png"],
        "up.md": b"\xef\xbb\xbf[[q/r/a]] [t](q/r/b.md#x) ![](q/r/i.png) q/r/a.md:1\n",
    },
    "p/a.md#A to B": {
        **NOTES,
        "p/a.md": b"# B\r\n\r\n[b](b.md) [[up]] ![](i.png)\r\n",
        "p/b.md": b"[[p/a#B]] and p/a.md:3",
    },
}


def files_in(root: Path) -> dict[str, bytes]:
    """Return all files, those included that a killed process was just writing."""
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def finishes(root: Path, what: str, step: int) -> bool:
    """Run an operation that is killed before its disk call number `step`; return whether it finished before that."""
    command = [sys.executable, "-c", _SCRIPT, str(root), what, str(step)]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert done.returncode in (0, -9), done.stderr.decode()
    return done.stdout == b"finished"


def begin(root: Path, what: str = "") -> None:
    """Write the notes anew, with nothing to undo, or after a move."""
    for folder in ("p", "q"):
        shutil.rmtree(root / folder, ignore_errors=True)
    for name, content in NOTES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    with Memory.open(root) as memory:
        for kept in memory.writer.kept.steps(Work.MOVE):
            memory.writer.kept.drop(kept.run, [kept.path])
        if what:
            memory.move(*what.split(" to "))


def steps(root: Path, what: str, before: str = "") -> int:
    """Return a number of disk calls that the operation surely does not reach."""
    for step in range(32, 800, 32):
        begin(root, before)
        if finishes(root, what, step):
            return step
    raise AssertionError(f"{what} does not end")


@pytest.mark.parametrize("what", MOVES)
def test_killed_move_is_undone_byte_for_byte(root: Path, what: str) -> None:
    """Whenever it was killed; or it had not begun, and moving again does all of it."""
    for step in sampled(range(steps(root, what)), 6, 30):
        begin(root)
        is_finished = finishes(root, what, step)
        assert not is_finished or files_in(root) == MOVES[what]
        with Memory.open(root) as memory:
            try:
                assert memory.undo_move().failed == (), step
            except UsageError:  # it was killed before it changed anything
                assert not is_finished
            assert files_in(root) == NOTES, step
            assert memory.move(*what.split(" to ")).failed == (), step
            assert files_in(root) == MOVES[what], step
        if is_finished:
            return


@pytest.mark.parametrize("what", MOVES)
def test_killed_undo_continues(root: Path, what: str) -> None:
    """Whenever it was killed, another undo puts back the rest."""
    for step in sampled(range(steps(root, "undo", what)), 6, 30):
        begin(root, what)
        is_finished = finishes(root, "undo", step)
        with Memory.open(root) as memory:
            with suppress(UsageError):  # it was killed after it had put back everything
                assert memory.undo_move().failed == (), step
            assert files_in(root) == NOTES, step
            assert not memory.writer.kept.steps(Work.MOVE), step
        if is_finished:
            return
