"""Sync a memory root with the fake model on a PostgreSQL index, as a process of its own that a test may kill.

python -m tests.support.sync_process ROOT INDEX_FOLDER DSN NAME: prints a line, and begins when it has read one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memsync.settings.load import Settings, load_settings


@contextmanager
def waiting(settings: Settings, dsn: str, name: str = "fault") -> Iterator[subprocess.Popen[str]]:
    """Yield a process that is about to sync and waits for `release`; it has ended afterwards."""
    words = [str(settings.root), str(settings.index_dir), dsn, name]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.sync_process", *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def release(process: subprocess.Popen[str]) -> None:
    """Let a process that is about to sync begin."""
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def _main(root: str, folder: str, dsn: str, name: str) -> None:
    from tests.support.postgres_memory import memories

    settings = load_settings(root=root, environ={}, cwd=Path(root))
    settings.index_name = folder
    with memories(settings, name) as open_memory:
        memory = open_memory(dsn)
        os.write(1, b"ready\n")
        sys.stdin.readline()
        assert memory.sync().failed == ()


if __name__ == "__main__":
    _main(*sys.argv[1:])
