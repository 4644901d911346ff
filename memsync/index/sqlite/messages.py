"""Write and read the messages of threads as rows of the index, and sum their tokens and costs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import apsw

from memsync.errors import UsageError
from memsync.model.conversation import Cost, Thread, ThreadMessage, Usage
from memsync.model.note import Message
from memsync.model.vocabulary import NotePath

MOST_TOKENS = 10**12
MOST_DOLLARS = 10**6
NANOS = 10**9

_FIELD = "coalesce(CAST(n.front_matter ->> '{name}' AS TEXT), '')"
_OLD = """
SELECT role, time, start_line, end_line, model, tokens_in, tokens_out, cost_nanos, attributes
FROM message WHERE note = ? ORDER BY ordinal
"""
_INSERT = "INSERT INTO message VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

# (path, title, session, user, project, status, archived, last time, source, messages, tokens in, tokens out, nanos) of
# each thread, by path. Messages without a time are counted, too.
THREADS = f"""
SELECT n.path, n.title, n.session, {_FIELD.format(name="user")}, {_FIELD.format(name="project")},
       {_FIELD.format(name="status")}, n.archived, coalesce(max(m.time), ''),
       {_FIELD.format(name="source")},
       count(m.note), coalesce(sum(m.tokens_in), 0), coalesce(sum(m.tokens_out), 0), coalesce(sum(m.cost_nanos), 0)
FROM note n LEFT JOIN message m ON m.note = n.id
WHERE n.kind = 'thread' AND (:path IS NULL OR n.path = :path)
GROUP BY n.id ORDER BY n.path
"""

# (path, session, first line, last line, role, time, attributes) of the messages of a role, newest first. The role
# `agent` means every agent.
MESSAGES = """
SELECT n.path, n.session, m.start_line, m.end_line, m.role, m.time, m.attributes
FROM message m JOIN note n ON n.id = m.note
WHERE (m.role = :role OR substr(m.role, 1, length(:role) + 1) = :role || ':')
  AND (:session = '' OR n.session = :session)
ORDER BY m.time DESC, n.path, m.ordinal DESC
"""

# (key, messages, tokens in, tokens out, nanos) of the messages since a moment that have tokens or a cost, by one of
# `_KEYS`.
COSTS = """
SELECT {key}, count(*), sum(m.tokens_in), sum(m.tokens_out), sum(m.cost_nanos)
FROM message m JOIN note n ON n.id = m.note
WHERE m.time >= :since AND (m.tokens_in OR m.tokens_out OR m.cost_nanos)
GROUP BY 1 ORDER BY {order}
"""
_KEYS = {
    "session": ("n.session", "5 DESC, 3 + 4 DESC, 1"),
    "model": ("m.model", "5 DESC, 3 + 4 DESC, 1"),
    "agent": ("CASE WHEN m.role LIKE 'agent:%' THEN substr(m.role, 7) ELSE m.role END", "5 DESC, 3 + 4 DESC, 1"),
    "day": ("substr(m.time, 1, 10)", "1"),
}

DUMP_MESSAGES = """
SELECT 'message', n.path, m.ordinal, m.role, m.time, m.start_line, m.end_line, m.model, m.tokens_in, m.tokens_out,
       m.cost_nanos, m.attributes
FROM message m JOIN note n ON n.id = m.note ORDER BY n.path, m.ordinal
"""


def put_messages(database: apsw.Connection, note_id: int, rows: Sequence[tuple[Any, ...]]) -> None:
    """Replace a note's message rows from the first message that changed on."""
    old = list(database.execute(_OLD, (note_id,)))
    same = next((i for i, (a, b) in enumerate(zip(old, rows, strict=False)) if a != b), min(len(old), len(rows)))
    if same < len(old):
        database.execute("DELETE FROM message WHERE note = ? AND ordinal >= ?", (note_id, same))
    database.executemany(_INSERT, [(note_id, same + i, *row) for i, row in enumerate(rows[same:])])


def message_row(message: Message) -> tuple[Any, ...]:
    """Return the columns of a message's row after its note and ordinal."""
    says = message.attributes
    return (
        message.role, message.time, message.start_line, message.end_line, says.get("model", ""),
        _tokens(says.get("in", "")), _tokens(says.get("out", "")), _nanos(says.get("cost", "")),
        json.dumps(dict(says), ensure_ascii=False, separators=(",", ":"), sort_keys=True),
    )  # fmt: skip


def _tokens(text: str) -> int:
    """Return a number of tokens, at most MOST_TOKENS; 0 if the text is not a number."""
    return min(int(text), MOST_TOKENS) if text.isascii() and text.isdigit() and len(text) < 16 else 0


def _nanos(text: str) -> int:
    try:
        dollars = Decimal(text) if len(text) < 32 else Decimal(0)
    except InvalidOperation:
        return 0
    return int(dollars * NANOS) if dollars.is_finite() and 0 < dollars < MOST_DOLLARS else 0


class ThreadReader:
    """The part of the reader for threads."""

    _db: apsw.Connection

    def threads(self, path: NotePath | None = None) -> list[Thread]:
        """Return every thread, or one, by path."""
        return [
            Thread(NotePath(name), title, session, user, project, status, bool(archived), last, _usage(usage), source)
            for name, title, session, user, project, status, archived, last, source, *usage in self._db.execute(
                THREADS, {"path": path}
            )
        ]

    def messages(self, role: str, session: str = "") -> list[ThreadMessage]:
        """Return the messages of a role, without their text, newest first."""
        try:
            (role + session).encode()
        except UnicodeEncodeError:  # lone surrogates, which no note has and SQLite does not accept
            return []
        return [
            ThreadMessage(NotePath(path), of, start, end, name, time, json.loads(says))
            for path, of, start, end, name, time, says in self._db.execute(MESSAGES, {"role": role, "session": session})
        ]

    def costs(self, by: str, since: str) -> list[Cost]:
        """Return tokens and costs since a moment by session, model, agent or day. Raises UsageError for other keys."""
        if by not in _KEYS:
            raise UsageError(f"costs by {by!r} are not known", hint=f"Write {', '.join(_KEYS)}.")
        key, order = _KEYS[by]
        rows = self._db.execute(COSTS.format(key=key, order=order), {"since": since})
        return [Cost(name, _usage(usage)) for name, *usage in rows]


def _usage(row: Sequence[int]) -> Usage:
    messages, tokens_in, tokens_out, nanos = row
    return Usage(messages, tokens_in, tokens_out, nanos / NANOS)
