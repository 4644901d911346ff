"""Finds the transcripts of agents, and opens them. Inside an agent's folder, it follows no link."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import quote
from zlib import crc32

from memsync.agents import agent_named, agent_names, agents
from memsync.agents.agent import Agent
from memsync.agents.events import About, Record, SessionEvent, Who, at, moment_of, text_at
from memsync.errors import FilesystemError, UsageError
from memsync.model.text import quoted, whole_characters
from memsync.system.user_folders import digest_of

MAX_LINE_BYTES = 8_000_000
"""A longer line is skipped, because parsing takes up to ten times its size in memory."""
MAX_DOCUMENT_BYTES = 32_000_000
MAX_CONTAINERS = 200_000
MAX_NAME_CHARS = 100
MAX_TORN = 50
"""How many beginnings of a record are tried in a line that is not JSON."""
_OTHER = re.compile(r"[^A-Za-z0-9_-]+")
_SESSION_ID = re.compile(r"((?:[0-9a-f]+-){4}[0-9a-f]{12})(?:\.jsonl|/subagents/[^/]+|/events\.jsonl)$")
_COPIES = re.compile(r"\.checkpoint\.|/agent-a(?:compact|prompt_suggestion)-[^/]*$")
"""Transcripts that repeat another one. Claude Code compacts a conversation by an agent that reads all of it."""
_TRIED_RECORDS = 50
_MOST_COPIES = 10_000
"""How many records at the beginning of a fork are looked at."""
_decode = json.JSONDecoder().raw_decode
Dump = Callable[[sqlite3.Connection, sqlite3.Row, BinaryIO], None]
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
SELECT ifnull(event_json, iif(json_valid(navigation_json), json_set(json_extract(navigation_json, '$.model'),
    '$.message.content', (
    SELECT c0 FROM session_transcript_fts_rows AS place JOIN session_transcript_fts_content USING (id)
    WHERE place.session_id = event.session_id AND message_id = json_extract(navigation_json, '$.model.id'))), NULL))
FROM transcript_events AS event WHERE session_id = ? ORDER BY seq
"""


class Transcript(NamedTuple):
    """One transcript. `session` is the session's id if `path` is a database."""

    agent: Agent
    path: str
    session: str = ""

    @property
    def key(self) -> str:
        """A text that no other transcript has."""
        return f"{self.agent.name}\n{self.path}\n{self.session}"

    @property
    def label(self) -> str:
        """Its path and session, for messages."""
        return quoted(self.path, 300) + (f", session {quoted(self.session)}" if self.session else "")

    @property
    def name(self) -> str:
        """The session's name, in characters that every file name may have."""
        return _OTHER.sub("-", self.session or self.agent.session_name(self.path))[:MAX_NAME_CHARS] or "session"

    @property
    def session_id(self) -> str:
        """The session's id, if the path ends in one. A fork and a resumed session begin with records of another."""
        found = _SESSION_ID.search(self.path)
        return self.session or (found[1] if found else "")

    @property
    def is_document(self) -> bool:
        """True if the file is read whole each time, because it is replaced and not appended to."""
        return bool(self.session) or self.path.endswith(".json")


def sources_of(agent: Agent) -> Iterator[Transcript]:
    """Yield the transcripts in an agent's folder."""
    for pattern in agent.sessions:
        folder = os.path.realpath((agent.data or agent.home)())
        yield from (Transcript(agent, path) for path in _matching(folder, pattern))


def _matching(folder: str, pattern: str) -> Iterator[str]:
    """Yield the files in a folder that match a pattern, except files behind a link."""
    real = cache(os.path.realpath)  # cached, because one folder has many transcripts
    for path in sorted(map(str, Path(folder).glob(pattern))):
        has_link = os.path.islink(path) or real(os.path.dirname(path)) != os.path.dirname(path)
        is_text = path == whole_characters(path)
        if is_text and not _COPIES.search(path) and not has_link and os.path.isfile(path):
            yield path


def named_sources(name: str) -> Iterator[Transcript]:
    """Yield the transcripts of an agent, of a file, or of a folder. Raises UsageError, FilesystemError."""
    if name in agent_names():
        yield from sources_of(agent_named(name))
        return
    path = os.path.realpath(name)
    if not os.path.exists(path):
        hint = f"Agents: {', '.join(agent_names())}."
        raise UsageError(f"{quoted(name)} is neither an agent nor a file or folder", hint=hint)
    paths = [path] if os.path.isfile(path) else _matching(path, "**/*.*")
    found = [Transcript(agent, path) for path in paths if path.endswith(_ENDINGS) and (agent := _agent_of(path))]
    if not found and os.path.isfile(path):
        hint = f"Known agents: {', '.join(agent_names())}. For exports of chats, run: memsync thread import FILE"
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
        about = About()
        with suppress(Exception):  # a fault of one agent's reader
            folded = agent.fold(records) if agent.fold else records
            events = (event for record in folded for event in events_in(agent, record, about) or ())
            return sum(event.who in (Who.USER, Who.ASSISTANT) and bool(event.text) for event in events)
        return 0

    agent = max(agents(), key=messages)
    return agent if messages(agent) else None


def events_in(agent: Agent, record: Record, about: About) -> list[SessionEvent] | None:
    """Return the events of a record; None if the record is not in the agent's format."""
    try:
        return list(agent.read(record, about))
    except Exception:  # noqa: BLE001 (because a reader's fault costs its record only)
        return None


def begun_at(source: Transcript) -> str:
    """Return the time of the first record that is no copy of another session's, as ISO 8601; `~` if none tells it.

    A copy says so, or names the other session. `~` is later than any time.
    """
    with suppress(OSError), opened(source.path) as file:
        for _, line in islice(lines_of(file, 0, 2**62), _MOST_COPIES):
            record = record_of(line) or {}
            named = text_at(record, "sessionId") or source.session_id
            is_copy = "forkedFrom" in record or source.session_id not in ("", named)
            if not is_copy and (moment := moment_of(record.get("timestamp"))):
                return moment
    return "~"


def keys_of(record: Record, before: str) -> Iterator[str]:
    """Yield the keys of a record, which only its copies in other transcripts of the agent have, too.

    They come from its id and from its message. Most records of Codex have no id: the key of such a record is the digest
    of its content and of `before`, the key of the record before it.
    """
    payload, message_id = record.get("payload"), text_at(record, "message", "id")
    if own := text_at(record, "uuid"):
        yield own
    elif own := text_at(record, "id"):  # OpenClaw's are short
        yield f"{own} {record.get('timestamp')}"
    elif own := text_at(payload, "forked_from_id") or text_at(payload, "id") or text_at(payload, "call_id"):
        yield f"{text_at(payload, 'type')} {own}"
    elif before and record.get("type") == "response_item":
        yield digest_of(f"{before} {json.dumps(payload)}".encode("utf-8", "surrogatepass"))
    if message_id:
        yield f"{message_id} {json.dumps(at(record, 'message', 'content'))}"


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


def records_in(line: bytes) -> list[Record]:
    """Return the records in a line: one, or those after a part of one, which a killed agent left without its end.

    A record ends the line, or another one follows it: an object within a record may be what a tool printed.
    """
    record = record_of(line)
    if record is not None or len(line) > MAX_LINE_BYTES or line.count(b"{") + line.count(b"[") > MAX_CONTAINERS:
        return [] if record is None else [record]
    text, start, records = line.decode("utf-8", "replace"), 0, list[Record]()
    for _ in range(MAX_TORN):
        start = text.find('{"', start)
        if start < 0:
            break
        try:
            value, end = _decode(text, start)
        except (ValueError, RecursionError):
            start += 1
            continue
        if text[end : end + 1].strip() in ("", "{"):
            records.append(value)
        start = end
    return records


def document_of(file: BinaryIO) -> Record | None:
    """Return a file as a JSON object; None if it is not one, or is too large."""
    file.seek(0)
    return record_of(file.read(MAX_DOCUMENT_BYTES + 1), MAX_DOCUMENT_BYTES)


def sessions_of(path: str) -> Iterator[tuple[str, list[int], Callable[[BinaryIO], None]]]:
    """Yield the id, the stamp and a writer of the rows as JSON Lines of each session in a database. Raises OSError.

    A writer raises OSError, too. A value may have any type, and a text may not be UTF-8. The database is opened
    read-only, and as immutable if it has no write-ahead log: otherwise SQLite would create one.
    """
    opened(path).close()
    _, sessions, dump = DATABASES[os.path.basename(path)]
    has_log = os.path.exists(f"{path}-wal")
    uri = f"file:{quote(path)}?mode=ro" + "&immutable=1" * (not has_log)
    with _readable(), closing(sqlite3.connect(uri, uri=True)) as database:
        database.row_factory = sqlite3.Row
        database.execute("PRAGMA trusted_schema = OFF")
        database.text_factory = lambda text: text.decode("utf-8", "replace")
        for row in database.execute(sessions).fetchall():
            stamp = [_number(row["message_at"]), _number(row["part_at"]), 0, 0]
            yield str(row["id"]), stamp, _readable()(partial(dump, database, row))


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, IndexError) as error:
        raise OSError(f"the database cannot be read: {error}") from error


def _number(value: object) -> int:
    """Return a whole number of a database; for any other value, one that changes with it."""
    return value if isinstance(value, int) else crc32(repr(value).encode("utf-8", "replace"))


def _dump_opencode(database: sqlite3.Connection, session: sqlite3.Row, file: BinaryIO) -> None:
    known = {key: session[key] for key in session.keys() if not key.endswith("_at")}  # noqa: SIM118 (because a Row yields values)
    file.write(_line({"session": known}))
    for message in database.execute(_MESSAGES, (session["id"],)):
        parts = [record_of(_bytes(part[0])) for part in database.execute(_PARTS, (message["id"],))]
        file.write(_line({"id": message["id"], "data": record_of(_bytes(message["data"])), "parts": parts}))


def _dump_openclaw(database: sqlite3.Connection, session: sqlite3.Row, file: BinaryIO) -> None:
    for event in database.execute(_EVENTS, (session["id"],)):
        file.write(_bytes(event[0]).replace(b"\n", b" ") + b"\n")


DATABASES: dict[str, tuple[str, str, Dump]] = {
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
