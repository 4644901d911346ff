"""Memories for benchmarks, each with its index under the benchmark's own state folder."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from memsync.memory import Memory
from memsync.notes.chunk import ChunkLimits
from memsync.notes.parse import NoteReader
from memsync.notes.rules import PathRules
from memsync.ports import Embedder
from memsync.settings.load import DEFAULT_KINDS, DEFAULT_TIERS, SETTINGS, Settings, load_settings
from memsync.wiring import connect_here, make_index, make_token_counter


def index_dir(root: Path, state: Path) -> Path:
    """Return the folder of a root's index."""
    return state / f"{root.name}-{hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:8]}"


def own_variables(root: Path, state: Path) -> dict[str, str]:
    """Return the variables that keep a root's index in `state`, and the user's own vectors out of what is measured."""
    return {"MEMSYNC_INDEX_DIR": str(index_dir(root, state)), "MEMSYNC_INDEX_VECTOR_CACHE_MB": "0"}


def _settings(root: Path, state: Path, settings: dict[str, str]) -> Settings:
    environ = {f"MEMSYNC_{name.upper()}": value for name, value in settings.items()}
    environ.update(own_variables(root, state))
    return load_settings(root=root, environ=environ, cwd=state)


def opened(root: Path, state: Path, **settings: str) -> Memory:
    """Open `root` with default settings and its index in `state`; `settings` are MEMSYNC_* variables' values."""
    return connect_here(_settings(root, state, settings))


def connected(root: Path, state: Path, embedder: Embedder) -> Memory:
    """Open `root` with an embedder of the benchmark's own."""
    settings = _settings(root, state, {})
    return Memory(settings, make_index(settings), make_token_counter(), lambda: embedder, lambda space: embedder)


def note_reader() -> NoteReader:
    """Return what reads notes under default settings."""
    defaults = {setting.name: setting.default for setting in SETTINGS}
    limits = ("max_tokens", "small_tokens", "run_tokens", "window_entries", "window_stride")
    return NoteReader(
        make_token_counter().count,
        PathRules(DEFAULT_KINDS, DEFAULT_TIERS),
        ChunkLimits(*(defaults[f"chunks.{name}"] for name in limits)),
        defaults["files.max_structured_bytes"],
    )
