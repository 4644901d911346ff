"""Items of a session, any JSON, as messages of a thread, and back to the letter.

An item that is only a role and a text is a message that a person reads and edits. Any other is a block of JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from memsync.errors import NoteError
from memsync.model.conversation import NewMessage, ThreadMessage

ROLES = ("user", "assistant", "system")
MAX_INDENTED_CHARS = 20_000
"""A longer item is one line: its long texts stay as hard to read, and indenting takes seconds."""
_FORM = {"item": "json"}
_BLOCK = re.compile(r"```json\n(.*)\n```", re.DOTALL)


def message_of(item: Any) -> NewMessage:
    """Return a JSON value as a message."""
    role, text = (item.get("role"), item.get("content")) if isinstance(item, dict) else (None, None)
    if isinstance(text, str) and role in ROLES and [*item] == ["role", "content"] and _is_whole(text):
        return NewMessage(str(role), text)
    line = json.dumps(item, ensure_ascii=False)
    written = json.dumps(item, ensure_ascii=not _is_whole(line), indent=2 if len(line) <= MAX_INDENTED_CHARS else None)
    return NewMessage(_role_of(item), f"```json\n{written}\n```", attributes=_FORM)


def item_of(message: ThreadMessage) -> Any:
    """Return the JSON value that a message holds. Raises NoteError if somebody's edit has broken it."""
    if message.attributes.get("item") != "json":
        return {"role": message.role, "content": message.text}
    block = _BLOCK.fullmatch(message.text)
    try:
        return json.loads(block[1] if block else message.text)
    except ValueError as error:
        place = f"{message.path}:{message.start_line}"
        raise NoteError(f"{place} is no JSON any more: {error}", hint="Correct it, or delete the message.") from error


def items_of(messages: Iterable[ThreadMessage]) -> list[Any]:
    """Return the JSON values of messages, in order. Raises NoteError."""
    return [item_of(message) for message in messages]


def _role_of(item: Any) -> str:
    """Return who says an item: its role, its type or that of a message in it; otherwise it is a tool's."""
    inner = item.get("message") if isinstance(item, dict) else None
    values = [one.get(key) for one in (item, inner) if isinstance(one, dict) for key in ("role", "type")]
    return next((str(value) for value in values if value in ROLES), "tool")


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which no file can store
        return False
    return True
