"""Write what a client gave to hooks, and its transcript: with a neutral home, and with long values cut."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from memsync.agents import agent_named

MAX_CHARS, MAX_RECALL_CHARS, MAX_ITEMS = 80, 360, 4
"""What a hook answered is kept longer, wherever the client repeats it."""
MAX_LINE, FEW_CHARS, FEW_ITEMS = 600, 28, 2
"""Of a longer line less is kept."""
END_CHARS = 20
"""So that a tag that the client puts around a text ends."""
NEUTRAL_HOME = "/home/user"
TABLES = {
    "opencode.db": ("session", "message", "part"),
    "openclaw-agent.sqlite": (
        "session_windows",
        "transcript_events",
        "session_transcript_fts_rows",
        "session_transcript_fts_content",
    ),
}
"""Of an agent's database, the tables that make up a conversation."""


def record(name: str, home: Path, payloads: Path, to: Path) -> None:
    """Write the payloads of the hooks and the transcript of the one session in a home."""
    to.mkdir(parents=True, exist_ok=True)
    for payload in payloads.glob("*.json"):
        _write(to / payload.name, [payload.read_text()], home)
    agent = agent_named(name)
    folder = home / agent.home().relative_to(Path.home())
    for transcript in (path for pattern in agent.sessions for path in folder.glob(pattern)):
        if transcript.name in TABLES:
            _write(to / "session.sql", _dumped(transcript), home)
        else:
            _write(
                to / "session.jsonl",
                [_short(line) for line in _neutral(transcript.read_text(), home).splitlines()],
                home,
            )


def _dumped(database: Path) -> list[str]:
    """Return the rows of a conversation as SQL statements."""
    statements = []
    with closing(sqlite3.connect(database)) as connection:
        for table in TABLES[database.name]:
            rows = connection.execute(f"SELECT * FROM {table}")
            statements.append(f"CREATE TABLE {table} ({', '.join(column for column, *_ in rows.description)})")
            for row in rows:
                quoted = connection.execute(f"SELECT {', '.join(['quote(?)'] * len(row))}", [*map(_short, row)])
                statements.append(f"INSERT INTO {table} VALUES ({', '.join(quoted.fetchone())})")
    return [f"{statement};" for statement in statements]


def _write(path: Path, lines: list[str], home: Path) -> None:
    path.write_text(_neutral("".join(f"{line.strip()}\n" for line in lines), home))


def _neutral(text: str, home: Path) -> str:
    return text.replace(str(home), NEUTRAL_HOME).replace(re.sub(r"\W", "-", str(home)), NEUTRAL_HOME.replace("/", "-"))


def _short(text: Any) -> Any:
    """Return JSON with its long texts and lists cut, no bytes, and anything else as it is."""
    if isinstance(text, bytes):
        return b""
    try:
        value = json.loads(text)
    except (TypeError, ValueError):
        return text
    line = _compact(_cut(value, MAX_CHARS, MAX_ITEMS))
    return line if len(line) <= MAX_LINE else _compact(_cut(value, FEW_CHARS, FEW_ITEMS))


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _cut(value: Any, chars: int, items: int) -> Any:
    if isinstance(value, dict):
        return {key: _cut(each, chars, items) for key, each in value.items()}
    if isinstance(value, list):
        return [_cut(each, chars, items) for each in (value if len(value) <= items else value[:FEW_ITEMS])]
    if isinstance(value, str):
        limit = MAX_RECALL_CHARS if "memsync-recall" in value[:MAX_RECALL_CHARS] else chars
        return value if len(value) <= limit + END_CHARS else f"{value[:limit]}…{value[-END_CHARS:]}"
    return value
