"""Memories for benchmarks, each with its index under the benchmark's own state folder."""

from __future__ import annotations

import os
from pathlib import Path

from memsync.memory import Memory
from memsync.settings import load_settings
from memsync.wiring import connect


def opened(root: Path, state: Path, **settings: str) -> Memory:
    """Open `root` with default settings and its index in `state`; `settings` are MEMSYNC_* variables' values."""
    environ = {f"MEMSYNC_{name.upper()}": value for name, value in settings.items()}
    environ["MEMSYNC_INDEX_DIR"] = str(state / os.fsencode(root.resolve()).hex()[-40:])
    return connect(load_settings(root=root, environ=environ, cwd=state))
