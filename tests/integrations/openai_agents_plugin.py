"""OpenAI Agents' tests of sessions, with threads in the place of SQLite."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import agents

from memsync import Memory
from memsync.integrations.openai_agents import MemsyncSession

_opened: dict[str, Memory] = {}


class Session(MemsyncSession):
    """Is made as SQLiteSession is: one memory for each database."""

    def __init__(self, session_id: str, db_path: str | Path = "", *, session_settings: Any = None) -> None:
        folder = f"{db_path}.notes" if db_path and str(db_path) != ":memory:" else tempfile.mkdtemp()
        Path(folder).mkdir(exist_ok=True)
        if folder not in _opened:
            _opened[folder] = Memory.open(folder)
        super().__init__(session_id, _opened[folder], session_settings)

    def close(self) -> None:
        """Do nothing: who opened a memory closes it."""


agents.SQLiteSession = Session
