"""The events of a transcript, in one form for all agents. Records are untrusted: a field may have any type."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

Record = Mapping[str, Any]
_INJECTED = re.compile(
    r"(?:^[ \t]*|(?<=>))<(memsync-recall|system-reminder|user-prompt-submit-hook|hook_context|session_context"
    r"|task-notification|local-command-(?:stdout|stderr|caveat)|environment_context|user_instructions"
    r"|permissions instructions|bash-stdout|bash-stderr|user_shell_command|turn_aborted|INSTRUCTIONS)>",
    re.MULTILINE,
)
_TEXTS = ("text", "input_text", "output_text")
_YEARS = range(2000, 2101)


class Who(StrEnum):
    """The author of an event, or USAGE or UNSEEN.

    USAGE counts the tokens of the message `id`. UNSEEN is text that threads leave out, such as thinking and the output
    of the tool call `id`.
    """

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"
    USAGE = "usage"
    UNSEEN = "unseen"


class Event(NamedTuple):
    """A message, tool call or token count. `agent` names the subagent it is from; `used` are tokens in, out, cached."""

    who: Who
    text: str = ""
    time: Any = ""
    id: str = ""
    tool: str = ""
    agent: str = ""
    used: tuple[int, int, int] = (0, 0, 0)
    cost: float = 0.0


@dataclass(slots=True)
class About:
    """The facts about a session that were read from its transcript so far."""

    session: str = ""
    cwd: str = ""
    model: str = ""
    branch: str = ""
    parent: str = ""
    origin: str = ""
    title: str = ""
    total: int = 0

    def learn(self, **facts: Any) -> None:
        """Store the facts that are texts and not empty, up to 1,000 characters each."""
        for name, value in facts.items():
            if isinstance(value, str) and value:
                setattr(self, name, value[:1000])


def at(value: Any, *keys: str) -> Any:
    """Return the value under nested keys of a record; None if a key is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def text_at(value: Any, *keys: str) -> str:
    """Return the text under nested keys of a record; empty if there is no text."""
    found = at(value, *keys)
    return found if isinstance(found, str) else ""


def count_at(value: Any, *keys: str) -> int:
    """Return the whole number under nested keys of a record; 0 if there is none from 0 to 2**53."""
    found = at(value, *keys)
    return found if type(found) is int and 0 <= found < 2**53 else 0


def parts_of(content: Any) -> Iterator[dict[str, Any]]:
    """Yield the parts of a message's content; a text is one part."""
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, dict):
            yield part
        elif isinstance(part, str):
            yield {"type": "text", "text": part}


def words_of(content: Any) -> str:
    """Return the text of a message's content; parts without a type are texts, too."""
    return "\n\n".join(
        text for part in parts_of(content) if part.get("type", "text") in _TEXTS and (text := text_at(part, "text"))
    )


def call(name: Any, given: Any, time: Any, call_id: Any, **more: Any) -> Event:
    """Return the event of a tool call; its arguments are JSON or a text."""
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False) if given is not None else ""
    return Event(Who.TOOL, text, time, tool=str(name or "tool")[:100], id=str(call_id or "")[:200], **more)


def spent(message_id: str, used: tuple[int, int, int], cost: Any = None) -> Event:
    """Return the event that counts what a message used: tokens in, out and cached, and dollars."""
    return Event(
        Who.USAGE, id=message_id, used=used, cost=cost if type(cost) in (int, float) and 0 <= cost < 1e6 else 0
    )


def without_injected(text: str) -> str:
    """Return a user's text without the blocks that hooks and the agent itself added."""
    kept: list[str] = []
    end = 0
    unclosed: set[str] = set()
    for match in _INJECTED.finditer(text):
        if match.start() < end or match[1] in unclosed:
            continue
        mark = f"</{match[1]}>"
        closed = text.find(mark, match.end())
        if closed < 0:
            unclosed.add(match[1])
            continue
        kept.append(text[end : match.start()])
        end = closed + len(mark)
    return "".join([*kept, text[end:]]).strip("\n") if kept else text


def moment_of(value: Any) -> str:
    """Return a Unix time (s or ms) or an ISO 8601 time as ISO 8601 in UTC, to the second; empty for anything else."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value[:40]).astimezone(UTC)
        else:
            moment = datetime.fromtimestamp(float(value) / (1000 if float(value) > 1e11 else 1), UTC)
    except (ValueError, TypeError, OverflowError, OSError):
        return ""
    return moment.isoformat(timespec="seconds") if moment.year in _YEARS else ""
