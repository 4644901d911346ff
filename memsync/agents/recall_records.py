"""Records what agents recalled, in the state of the user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from memsync.model.text import count
from memsync.notes.attributes import without_marks
from memsync.notes.entry_text import said
from memsync.system import clock
from memsync.system.state_file import state_of_user
from memsync.system.user_folders import digest_of

CANARY = "memsync-agents-check-"
"""The id of a trial session of `memsync agents check` begins with this. Hooks answer it with a fixed text."""
SESSION_KEYS = ("session_id", "sessionId", "conversation_id", "sessionKey")
"""Under one of these keys, an agent names the session in its JSON."""
DELIVERED = "delivered"
"""The event of a record that confirms another one."""
TOO_LATE = "the hook did not print it"
KEPT_SECONDS = 30 * 86_400.0
MAX_PROMPT_CHARS = 200
_SESSIONS = "SELECT agent, session FROM recall WHERE ?1 IN ('', agent) GROUP BY agent, session ORDER BY max(id) DESC"
_DISCARD_OLD = """DELETE FROM recall WHERE (agent, session) IN (
    SELECT agent, session FROM recall GROUP BY agent, session HAVING max(at) < ?
)"""


class RecalledLine(Struct, frozen=True):
    """One line of memory that matched a prompt; `held` says why it was held back, and is empty if it was recalled."""

    citation: str
    score: float
    held: str = ""


class Recall(Struct, frozen=True):
    """memsync's answer to one event of a session.

    `begins` is true if the agent's context began empty, so that earlier lines are no longer in it. `shown` has the
    digests of the recalled lines. `tokens` is the length of the answer. `reason` says why lines or all of it are
    missing. `failed` is true if nothing was recalled because of a fault. An answer with a `receipt` counts only if a
    record of the event DELIVERED has the receipt, too: the hook printed it.
    """

    time: str
    agent: str
    session: str
    event: str
    folder: str
    prompt: str = ""
    lines: tuple[RecalledLine, ...] = ()
    shown: tuple[str, ...] = ()
    tokens: int = 0
    milliseconds: float = 0.0
    begins: bool = False
    reason: str = ""
    failed: bool = False
    receipt: str = ""


def now() -> str:
    """Return the current time as ISO 8601 in UTC, to the second."""
    return clock.utc().isoformat(timespec="seconds")


def recorded(agent: str, session: str) -> list[Recall]:
    """Return the recorded answers of a session, oldest first. Raises MemsyncError."""
    return _read(agent, _key(session))


def in_context(recalls: Sequence[Recall]) -> frozenset[str]:
    """Return the digests of the lines that were recalled since the agent's context began."""
    first = max((number for number, recall in enumerate(recalls) if recall.begins), default=0)
    return frozenset(digest for recall in recalls[first:] for digest in recall.shown)


def digests(text: str) -> tuple[str, ...]:
    """Return a digest of what each line of a text says, however a context or a recall shows it; none of blank lines."""
    lines = (" ".join(line.split()) for line in said(without_marks(text)).split("\n"))
    return tuple(digest_of(line.encode("utf-8", "surrogatepass"))[:16] for line in lines if line)


def record(recall: Recall) -> None:
    """Record an answer. Raises MemsyncError."""
    at = clock.seconds()
    with state_of_user().writing() as database:
        if recall.begins:
            database.execute(_DISCARD_OLD, (at - KEPT_SECONDS,))
        row = (recall.agent, _key(recall.session), at, msgspec.json.encode(recall))
        database.execute("INSERT INTO recall (agent, session, at, record) VALUES (?, ?, ?, ?)", row)


def sessions(agent: str = "") -> Iterator[list[Recall]]:
    """Yield the recorded answers of each session of an agent (default: of all agents), latest session first.

    Raises MemsyncError.
    """
    for one, session in state_of_user().rows(_SESSIONS, (agent,)):
        yield _read(one, session)


def last_delivered(agent: str) -> Recall | None:
    """Return the last answer to an agent that was not empty; None if there is none."""
    return next((recall for recalls in sessions(agent) for recall in reversed(recalls) if recall.tokens), None)


def failures() -> str:
    """Return a sentence about the answers of the last day that failed; empty for none."""
    since = (clock.utc() - timedelta(days=1)).isoformat(timespec="seconds")
    failed = [one for recalls in sessions() for one in recalls if one.failed and one.time >= since]
    if not failed:
        return ""
    last = max(failed, key=lambda one: one.time)
    number = count(len(failed), "hook was", "hooks were")
    return (
        f"{number} silent because of a fault in the last day, the last one ({last.agent}, {last.time}): {last.reason}"
    )


def _read(agent: str, session: str) -> list[Recall]:
    of_session = "SELECT record FROM recall WHERE agent = ? AND session = ? ORDER BY id"
    rows = state_of_user().rows(of_session, (agent, session))
    recalls = [msgspec.json.decode(record, type=Recall) for (record,) in rows]
    confirmed = {recall.receipt for recall in recalls if recall.event == DELIVERED} | {""}
    heard = (recall for recall in recalls if recall.event != DELIVERED)
    return [recall if recall.receipt in confirmed else _undelivered(recall) for recall in heard]


def _undelivered(recall: Recall) -> Recall:
    lines = tuple(replace(line, held=line.held or TOO_LATE) for line in recall.lines)
    return replace(recall, lines=lines, shown=(), tokens=0, reason=TOO_LATE)


def _key(session: str) -> str:
    return digest_of(session.encode("utf-8", "surrogatepass"))[:32]
