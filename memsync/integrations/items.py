"""Items of a session, any JSON, as messages of a thread, and back to the letter.

The text of an item is Markdown that a person reads and edits. Its other fields are a block of JSON below it, in
which the text is empty; the heading says where it belongs. An item that is only a role and a text needs no block.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from memsync.errors import NoteError, UsageError
from memsync.model.conversation import NewMessage, ThreadMessage

ROLES = ("user", "assistant", "system")
MAX_INDENTED_CHARS = 20_000
"""A longer item is one line: its long texts stay as hard to read, and indenting takes seconds."""
Place = tuple[str | int, ...]
PLACES: dict[str, Place] = {
    ".".join(map(str, place)): place
    for place in (
        ("content",), ("content", 0, "text"), ("message", "content"), ("message", "content", 0, "text"),
        ("data", "content"),
    )
}  # fmt: skip
"""Where frameworks keep the text of an item, by the name of the place in a heading."""
_FORM, _ALL, _CONTENT_FIRST = "item", "json", "content first"
_BEGIN, _END = "```json\n", "\n```"
_HALF = re.compile(r"[\ud800-\udfff]")
"""Halves of surrogate pairs, which no file can store."""


def message_of(item: Any) -> NewMessage:
    """Return a JSON value as a message. Raises UsageError if it is no JSON."""
    role, keys = _role_of(item), [*item] if isinstance(item, dict) else []
    texts = {name: _at(item, place) for name, place in PLACES.items()}
    name = next((name for name, text in texts.items() if isinstance(text, str) and not _HALF.search(text)), "")
    text = texts.get(name, "")
    if sorted(keys) == ["content", "role"] and name == "content" and item["role"] == role != "tool":
        return NewMessage(role, text, attributes={_FORM: _CONTENT_FIRST} if keys[0] == "content" else {})
    if not text.strip():
        return NewMessage(role, f"{_BEGIN}{dumped(item)}{_END}", attributes={_FORM: _ALL})
    rest = dumped(_with(item, PLACES[name], ""))
    return NewMessage(role, f"{text}\n\n{_BEGIN}{rest}{_END}", attributes={_FORM: name})


def item_of(message: ThreadMessage) -> Any:
    """Return the JSON value that a message holds. Raises NoteError if somebody's edit has broken it."""
    form, text = message.attributes.get(_FORM, ""), message.text
    if form in ("", _CONTENT_FIRST):
        item = {"role": message.role, "content": text}
        return dict(reversed(item.items())) if form else item
    before, begin, block = text.rpartition(_BEGIN)
    line = message.start_line + before.count("\n") + 3
    if not begin or not block.endswith(_END) or form not in (_ALL, *PLACES):
        reason = f"{message.path}:{message.start_line}: this message has no ```json block at its end"
        raise NoteError(reason, hint="Restore it in an editor, or delete the message.")
    item = read_json(block.removesuffix(_END), message.path, line)
    if form == _ALL:
        return item
    if not isinstance(_at(item, PLACES[form]), str):
        raise NoteError(f"{message.path}:{line}: {form} is missing", hint="Restore it in an editor.")
    return _with(item, PLACES[form], before.removesuffix("\n\n"))


def items_of(messages: Iterable[ThreadMessage]) -> list[Any]:
    """Return the JSON values of messages, in order. Raises NoteError."""
    return [item_of(message) for message in messages]


def dumped(value: Any, odd: re.Pattern[str] = _HALF) -> str:
    """Return a value as JSON for a note, escaped if it has characters that match `odd`. Raises UsageError."""
    try:
        line = json.dumps(value, ensure_ascii=False)
        indent = 2 if len(line) <= MAX_INDENTED_CHARS else None
        return json.dumps(value, ensure_ascii=odd.search(line) is not None, indent=indent)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"a value is no JSON: {error}", hint="Pass dicts, lists, texts and numbers.") from error


def read_json(text: str, path: str, line: int) -> Any:
    """Return JSON that begins on a line of a note. Raises NoteError that names the line, if a person has broken it."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        at = line + getattr(error, "lineno", 1) - 1
        raise NoteError(f"{path}:{at}: broken JSON: {error}", hint="Correct it in an editor.") from error


def _role_of(item: Any) -> str:
    """Return who says an item: its role, its type or that of a message in it; otherwise it is a tool's."""
    inner = item.get("message") if isinstance(item, dict) else None
    values = [one.get(key) for one in (item, inner) if isinstance(one, dict) for key in ("role", "type")]
    return next((str(value) for value in values if value in ROLES), "tool")


def _at(value: Any, place: Place) -> Any:
    try:
        for part in place:
            value = value[part]
    except (IndexError, KeyError, TypeError):
        return None
    return value


def _with(value: Any, place: Place, text: str) -> Any:
    """Return a value with another text at a place."""
    if not place:
        return text
    copied = value.copy()
    copied[place[0]] = _with(value[place[0]], place[1:], text)
    return copied
