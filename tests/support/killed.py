"""Operations of a memory that are killed -9 before a given step: a call that changes a disk, or one to state.db.

One process imports memsync and forks for each step, which costs a tenth of starting a program: `python -m` runs it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw

from memsync.edit import note_file, note_paths
from memsync.memory import Memory
from tests.support.sampling import sampled

OPERATIONS: dict[str, Callable[..., Any]] = {
    "forget": lambda memory: memory.forget(user="ada", apply=True),
    "undo forget": Memory.undo_forget,
    "purge": Memory.purge_forgotten,
    "move": lambda memory, what: memory.move(*what.split(" to ")),
    "undo move": Memory.undo_move,
}
DISK_CALLS = [(os, name) for name in ("fsync", "mkdir", "rename", "replace", "rmdir", "unlink")] + [
    (note_file, "rename_new"),
    (note_file, "exchange"),
    (note_paths, "rename_new"),
]


class Killer:
    """Runs operations on one root, each in a process of its own that may be killed."""

    def __init__(self, root: Path) -> None:
        self._command = subprocess.Popen(
            [sys.executable, "-m", __name__, str(root)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def finishes(self, operation: str, step: int, *arguments: str) -> bool:
        """Run an operation that is killed before a step; return whether it finished before that."""
        assert self._command.stdin is not None and self._command.stdout is not None
        print(operation, step, *arguments, sep="\t", file=self._command.stdin, flush=True)
        code = self._command.stdout.readline().strip()
        assert code in ("0", "-9"), code
        return code == "0"

    def close(self) -> None:
        """End the process."""
        self._command.communicate()

    def moments(self, begin: Callable[[], object], operation: str, *arguments: str) -> Iterator[tuple[int, bool]]:
        """Kill an operation at drawn steps, after `begin`; yield each step, and whether it had finished before that."""

        def finishes(step: int) -> bool:
            begin()
            return self.finishes(operation, step, *arguments)

        enough = next(step for step in range(32, 800, 32) if finishes(step))
        for step in sampled(range(enough), 6, 30):
            is_finished = finishes(step)
            yield step, is_finished
            if is_finished:
                return


def _run(root: str, operation: str, left: int, *arguments: str) -> None:
    memory = Memory.open(root)
    memory.sync()

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
            return real(*arguments, **options)

        return call

    for module, name in DISK_CALLS:
        setattr(module, name, counted(getattr(module, name)))
    count = counted(lambda: True)

    def hook(database: apsw.Connection) -> None:
        if database.filename.endswith("state.db"):
            database.exec_trace = lambda *_: count()

    apsw.connection_hooks.append(hook)
    OPERATIONS[operation](memory, *arguments)
    os._exit(0)


def _serve(root: str) -> Iterator[int]:
    """Fork for each line of standard input; yield the exit codes."""
    for line in sys.stdin:
        operation, step, *arguments = line.rstrip("\n").split("\t")
        if (child := os.fork()) == 0:
            try:
                _run(root, operation, int(step), *arguments)
            finally:
                os._exit(1)
        yield os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    for code in _serve(sys.argv[1]):
        sys.stdout.write(f"{code}\n")
        sys.stdout.flush()
