"""Records what agents recalled: one file of JSON Lines for each session, in the user's state folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from memsync.model.text import count
from memsync.system import clock
from memsync.system.user_folders import digest_of, open_private, own_folder, state_folder

CANARY = "memsync-agents-check-"
"""The id of a trial session of `memsync agents check` begins with this. Hooks answer it with a fixed text."""
SESSION_KEYS = ("session_id", "sessionId", "conversation_id", "sessionKey")
"""Under one of these keys, an agent names the session in its JSON."""
DELIVERED = "delivered"
"""The event of a record that confirms another one."""
TOO_LATE = "the hook did not print it"
KEPT_SECONDS = 30 * 86_400.0
MAX_PROMPT_CHARS = 200


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
    """Return the recorded answers of a session, oldest first."""
    return _read(_path(agent, session))


def in_context(recalls: Sequence[Recall]) -> frozenset[str]:
    """Return the digests of the lines that were recalled since the agent's context began."""
    first = max((number for number, recall in enumerate(recalls) if recall.begins), default=0)
    return frozenset(digest for recall in recalls[first:] for digest in recall.shown)


def digests(text: str) -> tuple[str, ...]:
    """Return a digest of each line of a text. Blank lines are left out, and runs of spaces count as one."""
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return tuple(digest_of(line.encode("utf-8", "surrogatepass"))[:16] for line in lines if line)


def record(recall: Recall) -> None:
    """Append an answer to the file of its session. Raises OSError, FilesystemError."""
    path = _path(recall.agent, recall.session)
    own_folder(path.parent)
    if recall.begins:
        _discard_old()
    with open(path, "ab", opener=open_private) as stream:
        stream.write(msgspec.json.encode(recall) + b"\n")


def sessions(agent: str = "*") -> Iterator[list[Recall]]:
    """Yield the recorded answers of each session of an agent (default: of all agents), latest session first."""
    found = []
    for path in _folder().glob(f"{agent}/*.jsonl"):
        with suppress(OSError):
            found.append((path.stat().st_mtime_ns, path))
    for _, path in sorted(found, reverse=True):
        if recalls := _read(path):
            yield recalls


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


def _read(path: Path) -> list[Recall]:
    recalls = []
    with suppress(OSError):
        for line in path.read_bytes().splitlines():
            with suppress(msgspec.DecodeError):  # cut off by a power failure
                recalls.append(msgspec.json.decode(line, type=Recall))
    confirmed = {recall.receipt for recall in recalls if recall.event == DELIVERED} | {""}
    heard = (recall for recall in recalls if recall.event != DELIVERED)
    return [recall if recall.receipt in confirmed else _undelivered(recall) for recall in heard]


def _undelivered(recall: Recall) -> Recall:
    lines = tuple(replace(line, held=line.held or TOO_LATE) for line in recall.lines)
    return replace(recall, lines=lines, shown=(), tokens=0, reason=TOO_LATE)


def _discard_old() -> None:
    """Remove the files of sessions whose last event is more than KEPT_SECONDS ago."""
    for path in _folder().glob("*/*.jsonl"):
        with suppress(OSError):
            if clock.file_seconds() - path.stat().st_mtime > KEPT_SECONDS:
                path.unlink()


def _path(agent: str, session: str) -> Path:
    return _folder() / agent / f"{digest_of(session.encode('utf-8', 'surrogatepass'))[:32]}.jsonl"


def _folder() -> Path:
    return Path(os.path.join(state_folder(), "recall"))
