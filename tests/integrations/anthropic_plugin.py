"""Anthropic's tests of its memory tool, with notes in the place of its own files."""

from __future__ import annotations

import os
from pathlib import Path

import anthropic.lib.tools._beta_builtin_memory_tool as theirs
from anyio import Path as AsyncPath

from memsync.integrations.anthropic import AsyncMemsyncMemoryTool, MemsyncMemoryTool
from memsync.memory import Memory, Through, open_memory
from memsync.settings.load import load_settings


def _memory(base: str | Path) -> Memory:
    """Return a memory whose folder `memories` is the one that the tests look into."""
    (Path(base) / "memories").mkdir(parents=True, exist_ok=True)
    environ = {"HOME": os.environ["HOME"], "MEMSYNC_FILES_SUFFIXES": ".txt,.csv,.bin,.log,.json"}
    return open_memory(load_settings(root=base, environ=environ, cwd=Path(base)), Through.HERE)


class Tool(MemsyncMemoryTool):
    """Is made as the SDK's own class is."""

    def __init__(self, base_path: str = "./memory") -> None:
        super().__init__(_memory(base_path), "memories")
        self.base_path = Path(base_path)
        self.memory_root = self.base_path / "memories"


class AsyncTool(AsyncMemsyncMemoryTool):
    """Is made as the SDK's own class is."""

    def __init__(self, base_path: str = "./memory") -> None:
        super().__init__(_memory(base_path), "memories")
        self.base_path = AsyncPath(base_path)
        self.memory_root = self.base_path / "memories"

    async def _ensure_memory_root(self) -> None:
        """Do nothing: the folder is there."""


theirs.BetaLocalFilesystemMemoryTool = Tool
theirs.BetaAsyncLocalFilesystemMemoryTool = AsyncTool
