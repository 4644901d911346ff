"""Finds the transcripts of agents, and opens them. Inside an agent's folder, it follows no link."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast
from urllib.parse import quote

from memsync.agents import NAMES, agent_named, agents
from memsync.agents.events import About, Event, Record, Who
from memsync.agents.port import Agent
from memsync.errors import FilesystemError, UsageError
from memsync.model.text import quoted, whole_characters

MAX_LINE_BYTES = 8_000_000
"""A longer line is skipped, because parsing takes up to ten times its size in memory."""
MAX_DOCUMENT_BYTES = 32_000_000
MAX_CONTAINERS = 200_000
MAX_NAME_CHARS = 100
_OTHER = re.compile(r"[^A-Za-z0-9_-]+")
_TRIED_RECORDS = 50
_ENDINGS = (".jsonl", ".json", ".db", ".sqlite")
_SESSIONS = """
SELECT *, (SELECT ifnull(max(time_updated), 0) FROM message WHERE session_id = session.id) AS message_at,
    (SELECT ifnull(max(time_updated), 0) + count(*) FROM part WHERE session_id = session.id) AS part_at
FROM session
"""
_MESSAGES = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
_PARTS = "SELECT data FROM part WHERE message_id = ? ORDER BY id"
_WINDOWS = """
SELECT session_id AS id, ifnull(transcript_updated_at, updated_at) AS message_at, (SELECT count(*)
    FROM session_transcript_fts_rows AS place WHERE place.session_id = session_windows.session_id) AS part_at
FROM session_windows
"""
# OpenClaw compresses long events (Zstandard, which Python reads from 3.14 on). Their text is read from its own index.
_EVENTS = """
SELECT ifnull(event_json, json_set(json_extract(navigation_json, '$.model'), '$.message.content', (
    SELECT c0 FROM session_transcript_fts_rows AS place JOIN session_transcript_fts_content USING (id)
    WHERE place.session_id = event.session_id AND message_id = json_extract(navigation_json, '$.model.id'))))
FROM transcript_events AS event WHERE session_id = ? ORDER BY seq
"""


class Source(NamedTuple):
    """One transcript. `session` is the session's id if `path` is a database."""

    agent: Agent
    path: str
    session: str = ""

    @property
    def key(self) -> str:
        """A text that no other transcript has."""
        return f"{self.agent.name}\n{self.path}\n{self.session}"

    @property
    def name(self) -> str:
        """The session's name, in characters that every file name may have."""
        return _OTHER.sub("-", self.session or self.agent.session_name(self.path))[:MAX_NAME_CHARS] or "session"

    @property
    def is_document(self) -> bool:
        """True if the file is read whole each time, because it is replaced and not appended to."""
        return bool(self.session) or self.path.endswith(".json")


def sources_of(agent: Agent) -> Iterator[Source]:
    """Yield the transcripts in an agent's folder."""
    for pattern in agent.sessions:
        folder = os.path.realpath((agent.data or agent.home)())
        yield from (Source(agent, path) for path in _matching(folder, pattern))


def _matching(folder: str, pattern: str) -> Iterator[str]:
    """Yield the files in a folder that match a pattern, except files behind a link."""
    real = cache(os.path.realpath)  # cached, because one folder has many transcripts
    for path in sorted(map(str, Path(folder).glob(pattern))):
        has_link = os.path.islink(path) or real(os.path.dirname(path)) != os.path.dirname(path)
        is_text = path == whole_characters(path)
        if is_text and ".checkpoint." not in path and not has_link and os.path.isfile(path):
            yield path


def named_sources(name: str) -> Iterator[Source]:
    """Yield the transcripts of an agent, of a file, or of a folder. Raises UsageError, FilesystemError."""
    if name in NAMES:
        yield from sources_of(agent_named(name))
        return
    path = os.path.realpath(name)
    if not os.path.exists(path):
        hint = f"Agents: {', '.join(NAMES)}."
        raise UsageError(f"{quoted(name)} is neither an agent nor a file or folder", hint=hint)
    paths = [path] if os.path.isfile(path) else _matching(path, "**/*.*")
    found = [Source(agent, path) for path in paths if path.endswith(_ENDINGS) and (agent := _agent_of(path))]
    if not found and os.path.isfile(path):
        hint = f"Known agents: {', '.join(NAMES)}. For exports of chats, run: memsync import FILE"
        raise UsageError(f"{quoted(name)} is not a transcript of an agent that memsync knows", hint=hint)
    yield from found


def _agent_of(path: str) -> Agent | None:
    """Return the agent whose format gives the most messages in a file's first records; None if none gives any."""
    if not path.endswith((".jsonl", ".json")):
        return agent_named(DATABASES[os.path.basename(path)][0]) if is_database(path) else None
    try:
        with opened(path) as file:
            lines = islice(lines_of(file, 0, 2**62), _TRIED_RECORDS)
            records = [record for _, line in lines if (record := record_of(line)) is not None]
            records = records or [document_of(file) or {}]
    except OSError as error:
        hint = "Check its permissions, or name other files."
        raise FilesystemError(f"{quoted(path, 300)} cannot be read: {error.strerror}", hint=hint) from error

    def messages(agent: Agent) -> int:
        about, folded = About(), agent.fold(records) if agent.fold else records
        events = (event for record in folded for event in events_in(agent, record, about) or ())
        return sum(event.who in (Who.USER, Who.ASSISTANT) and bool(event.text) for event in events)

    agent = max(agents(), key=messages)
    return agent if messages(agent) else None


def events_in(agent: Agent, record: Record, about: About) -> list[Event] | None:
    """Return the events of a record; None if the record is not in the agent's format."""
    try:
        return list(agent.read(record, about))
    except (TypeError, ValueError, AttributeError, LookupError, RecursionError):
        return None


def opened(path: str) -> BinaryIO:
    """Open a regular file to read it, and follow no link. Raises OSError."""
    file = open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb")  # noqa: SIM115 (because the caller closes it)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path} is not a regular file")
    return file


def whole_end(file: BinaryIO, start: int, size: int) -> int:
    """Return the offset after the last complete line. A last line without a newline is complete if it is an object.

    If the last line is too long and has no newline yet, return `start`: the lines before it wait until it has one.
    """
    start_of_block = file.seek(max(start, size - MAX_LINE_BYTES))
    whole, newline, rest = file.read(size - start_of_block).rpartition(b"\n")
    if record_of(rest) is not None:
        return size
    return start_of_block + len(whole) + 1 if newline else start


def lines_of(file: BinaryIO, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, line) of each line; a line that is too long is empty."""
    file.seek(start)
    while start < end and (line := file.readline(MAX_LINE_BYTES)):
        length = len(line)
        is_too_long = length == MAX_LINE_BYTES and not line.endswith(b"\n")
        while is_too_long and not line.endswith(b"\n") and (line := file.readline(1_000_000)):
            length += len(line)
        yield start, b"" if is_too_long else line
        start += length


def record_of(line: bytes, max_bytes: int = MAX_LINE_BYTES) -> Record | None:
    """Return a line as a JSON object; None if it is not one, or if it would take too much memory."""
    if len(line) > max_bytes or line.count(b"{") + line.count(b"[") > MAX_CONTAINERS:
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def document_of(file: BinaryIO) -> Record | None:
    """Return a file as a JSON object; None if it is not one, or is too large."""
    file.seek(0)
    return record_of(file.read(MAX_DOCUMENT_BYTES + 1), MAX_DOCUMENT_BYTES)


def sessions_of(path: str, is_wanted: Callable[[str, list[int]], bool]) -> Iterator[tuple[str, list[int], BinaryIO]]:
    """Yield (session, stamp, rows as JSON Lines) of each wanted session in an agent's database. Raises OSError.

    The database is opened read-only, and as immutable if it has no write-ahead log: otherwise SQLite would create one.
    """
    opened(path).close()
    _, sessions, dump = DATABASES[os.path.basename(path)]
    has_log = os.path.exists(f"{path}-wal")
    uri = f"file:{quote(path)}?mode=ro" + "&immutable=1" * (not has_log)
    try:
        with closing(sqlite3.connect(uri, uri=True)) as database:
            database.row_factory = sqlite3.Row
            database.execute("PRAGMA trusted_schema = OFF")
            for row in database.execute(sessions).fetchall():
                stamp = [int(row["message_at"]), int(row["part_at"]), 0, 0]
                if is_wanted(str(row["id"]), stamp):
                    with tempfile.SpooledTemporaryFile(MAX_DOCUMENT_BYTES) as spooled:
                        file = cast("BinaryIO", spooled)
                        dump(database, row, file)
                        yield str(row["id"]), stamp, file
    except (sqlite3.Error, IndexError, ValueError) as error:
        raise OSError(f"the database cannot be read: {error}") from error


def _dump_opencode(database: sqlite3.Connection, session: sqlite3.Row, file: BinaryIO) -> None:
    known = {key: session[key] for key in session.keys() if not key.endswith("_at")}  # noqa: SIM118 (because a Row yields values)
    file.write(_line({"session": known}))
    for message in database.execute(_MESSAGES, (session["id"],)):
        parts = [record_of(_bytes(part[0])) for part in database.execute(_PARTS, (message["id"],))]
        file.write(_line({"id": message["id"], "data": record_of(_bytes(message["data"])), "parts": parts}))


def _dump_openclaw(database: sqlite3.Connection, session: sqlite3.Row, file: BinaryIO) -> None:
    for event in database.execute(_EVENTS, (session["id"],)):
        file.write(_bytes(event[0]).replace(b"\n", b" ") + b"\n")


DATABASES = {
    "opencode.db": ("opencode", _SESSIONS, _dump_opencode),
    "openclaw-agent.sqlite": ("openclaw", _WINDOWS, _dump_openclaw),
}
"""By the file name of a database: its agent, the query that lists its sessions, and the function that writes one."""


def is_database(path: str) -> bool:
    """Tell whether a file is an agent's database."""
    return os.path.basename(path) in DATABASES


def _line(row: object) -> bytes:
    return json.dumps(row, default=str).encode() + b"\n"


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
