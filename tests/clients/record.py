"""Write what a client sent and wrote to `tests/agents/recorded/`, with a neutral home and with long values cut."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from memsync.agents import agent_named

MAX_CHARS = 120
MAX_RECALL_CHARS = 500
"""What a hook answered stays whole, wherever the client repeats it."""
MAX_ITEMS = 4
KEPT_ITEMS = 2
NEUTRAL_HOME = "/home/user"
TABLES = ("session", "message", "part")
"""Of OpenCode's database, the tables that make up a conversation."""


def record(name: str, version: str, home: Path, payloads: Path, to: Path) -> None:
    """Write the payloads of the hooks and the transcripts of the one session in a home."""
    to.mkdir(parents=True, exist_ok=True)
    for payload in payloads.glob("*.json"):
        _write(to / payload.name, [_cut(json.loads(payload.read_text()))], home)
    (to / "version").write_text(f"{version}\n")
    for transcript in _transcripts(name, home):
        if transcript.suffix == ".db":
            (to / "session.sql").write_text(_dumped(transcript).replace(str(home), NEUTRAL_HOME))
        else:
            lines = [json.loads(line) for line in transcript.read_text().splitlines()]
            _write(to / "session.jsonl", [_cut(line) for line in lines], home)


def _transcripts(name: str, home: Path) -> list[Path]:
    agent = agent_named(name)
    folder = home / agent.home().relative_to(Path.home())
    return [path for pattern in agent.sessions for path in folder.glob(pattern)]


def _dumped(database: Path) -> str:
    """Return the rows of a conversation as SQL statements."""
    with closing(sqlite3.connect(database)) as connection:
        statements = [
            sql
            for table in TABLES
            for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", [table])
        ]
        for table in TABLES:
            cursor = connection.execute(f"SELECT * FROM {table}")  # noqa: S608 (because TABLES is above)
            columns = ", ".join(f'"{column[0]}"' for column in cursor.description)
            for row in cursor:
                values = ", ".join(
                    connection.execute("SELECT quote(?)", [_cut_text(value)]).fetchone()[0] for value in row
                )
                statements.append(f"INSERT INTO {table} ({columns}) VALUES ({values})")
    return "".join(f"{statement};\n" for statement in statements)


def _write(path: Path, values: list[Any], home: Path) -> None:
    text = "".join(f"{json.dumps(value, ensure_ascii=False, separators=(',', ':'))}\n" for value in values)
    path.write_text(text.replace(str(home), NEUTRAL_HOME).replace(str(home).replace("/", "-"), "-home-user"))


def _cut_text(value: Any) -> Any:
    """Cut a text of a database; JSON stays JSON."""
    try:
        return json.dumps(_cut(json.loads(value)), ensure_ascii=False)
    except (TypeError, ValueError):
        return _cut(value)


def _cut(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _cut(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_cut(each) for each in (value if len(value) <= MAX_ITEMS else value[:KEPT_ITEMS])]
    if isinstance(value, str):
        limit = MAX_RECALL_CHARS if "memsync-recall" in value[:MAX_RECALL_CHARS] else MAX_CHARS
        return value if len(value) <= limit else f"{value[:limit]}…"
    return value
