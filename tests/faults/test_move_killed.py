"""kill -9 at any moment of `memsync mv`: an undo gives every file back, and nothing half written is left."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from memsync.edit.run_records import Work
from memsync.errors import UsageError
from memsync.memory import Memory
from tests.support.killed import Killer

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


def begin(root: Path, what: str = "") -> None:
    """Write the notes anew, with nothing to undo, or after a move."""
    for folder in ("p", "q"):
        shutil.rmtree(root / folder, ignore_errors=True)
    for name, content in NOTES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    with Memory.open(root) as memory:
        for kept in memory.writer.runs.steps(Work.MOVE):
            memory.writer.runs.drop(kept.run, [kept.path])
        if what:
            memory.move(*what.split(" to "))


@pytest.mark.slow
@pytest.mark.parametrize("what", MOVES)
def test_killed_move_is_undone_byte_for_byte(root: Path, killer: Killer, what: str) -> None:
    """Whenever it was killed; or it had not begun, and moving again does all of it."""
    for step, is_finished in killer.moments(lambda: begin(root), "move", what):
        assert not is_finished or files_in(root) == MOVES[what]
        with Memory.open(root) as memory:
            try:
                assert memory.undo_move().failed == (), step
            except UsageError:  # it was killed before it changed anything
                assert not is_finished
            assert files_in(root) == NOTES, step
            assert memory.move(*what.split(" to ")).failed == (), step
            assert files_in(root) == MOVES[what], step


@pytest.mark.slow
@pytest.mark.parametrize("what", MOVES)
def test_killed_undo_continues(root: Path, killer: Killer, what: str) -> None:
    """Whenever it was killed, another undo puts back the rest."""
    for step, _ in killer.moments(lambda: begin(root, what), "undo move"):
        with Memory.open(root) as memory:
            with suppress(UsageError):  # it was killed after it had put back everything
                assert memory.undo_move().failed == (), step
            assert files_in(root) == NOTES, step
            assert not memory.writer.runs.steps(Work.MOVE), step
