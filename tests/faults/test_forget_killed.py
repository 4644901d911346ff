"""kill -9 at any moment of `memsync forget`: no text is lost, and the command can be run again."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

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
from memsync.edit import note_file

root, what, left = sys.argv[1], sys.argv[2], int(sys.argv[3])
memory = Memory.open(root)
memory.files.scan()

def counted(module, name):
    real = getattr(module, name)
    def call(*arguments, **options):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return real(*arguments, **options)
    setattr(module, name, call)

for name in ("fsync", "rename", "replace", "unlink"):
    counted(os, name)
counted(note_file, "rename_new")
counted(note_file, "exchange")
counting = lambda *_: None
counted(sys.modules[__name__], "counting")

def hook(database):
    if database.filename.endswith("kept.db"):
        database.exec_trace = lambda *_: counting() is None

apsw.connection_hooks.append(hook)
if what == "apply":
    memory.forget(user="ada", apply=True)
elif what == "undo":
    memory.undo_forget()
else:
    memory.purge_forgotten()
os.write(1, b"finished")
os._exit(0)
"""
SHARED = "## user {user=ada}\n\nAda's.\n\n## user {user=bob}\n\nBob's.\n"
NOTES = {
    "threads/a.md": "---\nuser: ada\n---\n\n## user\n\nHello.\n",
    "threads/b.md": SHARED,
    "threads/c.md": "---\nuser: bob\n---\n\n## user\n\nHello.\n",
}
AFTER = {"threads/b.md": "## user {user=bob}\n\nBob's.\n", "threads/c.md": NOTES["threads/c.md"]}


def notes_in(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*.md"))}


def runs_until_killed(root: Path, what: str, step: int) -> bool:
    """Run an operation that is killed before its disk call number `step`; return whether it finished before that."""
    command = [sys.executable, "-c", _SCRIPT, str(root), what, str(step)]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert done.returncode in (0, -9), done.stderr.decode()
    return done.stdout == b"finished"


def begin(root: Path) -> None:
    for name, content in NOTES.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(content)


def steps(root: Path, what: str) -> int:
    """Return a number of disk calls that the operation surely does not reach."""
    return next(step for step in range(32, 400, 32) if _finishes(root, what, step))


def _finishes(root: Path, what: str, step: int) -> bool:
    begin(root)
    with Memory.open(root) as memory:
        memory.purge_forgotten()
        if what != "apply":
            memory.forget(user="ada", apply=True)
    return runs_until_killed(root, what, step)


def test_killed_apply_loses_nothing_and_continues(root: Path) -> None:
    """Whenever it was killed, an undo gives every byte, and applying again finishes the work."""
    for step in sampled(range(steps(root, "apply")), 6, 30):
        begin(root)
        with Memory.open(root) as memory:
            memory.purge_forgotten()
        is_finished = runs_until_killed(root, "apply", step)
        with Memory.open(root) as memory:
            try:
                assert memory.undo_forget().failed == ()
            except UsageError:  # it was killed before it changed anything
                assert not is_finished
            assert notes_in(root) == NOTES, step
            runs_until_killed(root, "apply", step)
            assert memory.forget(user="ada", apply=True).failed == ()
            assert notes_in(root) == AFTER, step
            assert memory.undo_forget().failed == ()
            assert notes_in(root) == NOTES, step
        if is_finished:
            return


def test_killed_undo_continues(root: Path) -> None:
    """Whenever it was killed, another undo puts back the rest."""
    for step in sampled(range(steps(root, "undo")), 6, 30):
        begin(root)
        with Memory.open(root) as memory:
            memory.purge_forgotten()
            memory.forget(user="ada", apply=True)
        is_finished = runs_until_killed(root, "undo", step)
        with Memory.open(root) as memory:
            with suppress(UsageError):  # it was killed after it had put back everything
                assert memory.undo_forget().failed == ()
            assert notes_in(root) == NOTES, step
            assert not memory.writer.kept.steps(Work.FORGET), step
        if is_finished:
            return


def test_killed_purge_continues(root: Path) -> None:
    """Whenever it was killed, another purge deletes the rest, and no half of a run is ever put back."""
    for step in sampled(range(steps(root, "purge")), 6, 30):
        begin(root)
        with Memory.open(root) as memory:
            memory.purge_forgotten()
            memory.forget(user="ada", apply=True)
        is_finished = runs_until_killed(root, "purge", step)
        assert notes_in(root) == AFTER
        with Memory.open(root) as memory:
            memory.purge_forgotten()
            assert not memory.writer.kept.steps(Work.FORGET), step
        if is_finished:
            return
