"""kill -9 at any moment of `memsync forget`: no text is lost, and the command can be run again."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from memsync.edit.run_records import Work
from memsync.errors import UsageError
from memsync.memory import Memory
from tests.support.killed import Killer

SHARED = "## user {user=ada}\n\nAda's.\n\n## user {user=bob}\n\nBob's.\n"
NOTES = {
    "threads/a.md": "---\nuser: ada\n---\n\n## user\n\nHello.\n",
    "threads/b.md": SHARED,
    "threads/c.md": "---\nuser: bob\n---\n\n## user\n\nHello.\n",
}
AFTER = {"threads/b.md": "## user {user=bob}\n\nBob's.\n", "threads/c.md": NOTES["threads/c.md"]}


def notes_in(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*.md"))}


def begin(root: Path, *, apply: bool) -> None:
    """Write the notes anew, with nothing to undo, or after the user was forgotten."""
    for name, content in NOTES.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(content)
    with Memory.open(root) as memory:
        memory.purge_forgotten()
        if apply:
            memory.forget(user="ada", apply=True)


@pytest.mark.slow
def test_killed_apply_loses_nothing_and_continues(root: Path, killer: Killer) -> None:
    """Whenever it was killed, an undo gives every byte, and applying again finishes the work."""
    for step, is_finished in killer.moments(lambda: begin(root, apply=False), "forget"):
        with Memory.open(root) as memory:
            try:
                assert memory.undo_forget().failed == ()
            except UsageError:  # it was killed before it changed anything
                assert not is_finished
            assert notes_in(root) == NOTES, step
            killer.finishes("forget", step)
            assert memory.forget(user="ada", apply=True).failed == ()
            assert notes_in(root) == AFTER, step
            assert memory.undo_forget().failed == ()
            assert notes_in(root) == NOTES, step


@pytest.mark.slow
@pytest.mark.parametrize(("operation", "after"), [("undo forget", NOTES), ("purge", AFTER)])
def test_killed_undo_and_purge_continue(root: Path, killer: Killer, operation: str, after: dict[str, str]) -> None:
    """Whenever it was killed, another one does the rest, and no half of a run is ever put back."""
    for step, _ in killer.moments(lambda: begin(root, apply=True), operation):
        with Memory.open(root) as memory, suppress(UsageError):  # it may have been killed after it had done all
            if operation == "purge":
                assert notes_in(root) == after, step
                memory.purge_forgotten()
            else:
                assert memory.undo_forget().failed == ()
        assert notes_in(root) == after, step
        with Memory.open(root) as memory:
            assert not memory.writer.runs.steps(Work.FORGET), step
