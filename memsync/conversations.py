"""Conversations from elsewhere: memsync's own JSON Lines, the exports of ChatGPT and Claude, read into one shape.

The JSON Lines format is in docs/conversations.md. A line or a conversation that cannot be used is told with its place;
the others are read all the same.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memsync.errors import UsageError
from memsync.model import JsonValue

CHATGPT, CLAUDE = "chatgpt", "claude"
MAX_ZIPPED_BYTES = 2_000_000_000
_SENDERS = {"human": "user", "assistant": "assistant"}


@dataclass(slots=True)
class Turn:
    """One message: `time` as it is written in the thread, empty for none; `attributes` are texts."""

    role: str
    text: str
    time: str = ""
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class ConversationText:
    """One conversation. `source` tells where it is from, and so finds it again; empty for memsync's own format."""

    name: str
    head: dict[str, JsonValue] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)
    source: str = ""


class Unusable(Exception):
    """One line or conversation cannot be used, for this reason."""


def read_conversations(path: Path) -> tuple[list[ConversationText], list[str]]:
    """Return the conversations of a file and what is wrong with those that are left out. Raises UsageError.

    A `.zip` is an export as it was downloaded; else the first character tells JSON from JSON Lines.
    """
    try:
        if path.suffix.lower() == ".zip":
            return _from_export(json.loads(_unzipped(path)))
        with path.open(encoding="utf-8-sig") as file:
            if file.read(1) == "[":
                file.seek(0)
                return _from_export(json.load(file))
            file.seek(0)
            return _from_lines(file)
    except (OSError, UnicodeDecodeError, zipfile.BadZipFile) as error:
        raise UsageError(
            f"{path} cannot be read: {error}", hint="Name a .jsonl, conversations.json or .zip."
        ) from error
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}:{error.lineno}: {error.msg}", hint="See docs/conversations.md.") from error
    except RecursionError as error:
        raise UsageError(f"{path} is nested too deeply", hint="See docs/conversations.md.") from error


def _unzipped(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.rpartition("/")[2] == "conversations.json"]
        if not names:
            raise UsageError(f"{path} holds no conversations.json", hint="Name the export as it was downloaded.")
        if archive.getinfo(names[0]).file_size > MAX_ZIPPED_BYTES:
            raise UsageError(f"{path} unpacks to over {MAX_ZIPPED_BYTES:,} bytes", hint="Unpack it and import parts.")
        return archive.read(names[0])


# ---------------------------------------------------------------------------------------------- own lines


def _from_lines(lines: Iterable[str]) -> tuple[list[ConversationText], list[str]]:
    found: dict[str, ConversationText] = {}
    wrong: list[str] = []
    for number, line in enumerate(lines, 1):
        if line.isspace():
            continue
        try:
            _add_line(json.loads(line), found)
        except (ValueError, RecursionError) as error:
            wrong.append(f"line {number}: not JSON: {error}")
        except Unusable as error:
            wrong.append(f"line {number}: {error}")
    return list(found.values()), wrong


def _add_line(line: Any, found: dict[str, ConversationText]) -> None:
    if not isinstance(line, dict) or not isinstance(line.get("thread"), str) or not line["thread"]:
        raise Unusable("a line is an object that names its thread")
    name, head, role = line["thread"], line.get("head", {}), line.get("role")
    if not isinstance(head, dict):
        raise Unusable("head is an object")
    turn = None
    if role is not None:
        turn = Turn(role, line.get("text", ""), line.get("time", ""), line.get("attributes", {}))
        if not (isinstance(role, str) and isinstance(turn.text, str) and isinstance(turn.time, str)):
            raise Unusable("role, text and time are texts")
        if not isinstance(turn.attributes, dict):
            raise Unusable("attributes are an object")
        if not all(isinstance(value, str) for value in turn.attributes.values()):
            turn.attributes = _texts(turn.attributes)
    conversation = found.get(name)
    if conversation is None:
        conversation = found[name] = ConversationText(name)
    conversation.head.update(head)
    if turn is not None:
        conversation.turns.append(turn)


def _texts(attributes: Mapping[str, Any]) -> dict[str, str]:
    texts = {}
    for key, value in attributes.items():
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise Unusable(f"attribute {key} is neither text nor a number")
        texts[key] = str(value)
    return texts


# ------------------------------------------------------------------------------------------------- exports


def _from_export(value: Any) -> tuple[list[ConversationText], list[str]]:
    found, wrong = [], []
    for number, one in enumerate(value if isinstance(value, list) else [value], 1):
        try:
            if isinstance(one, dict) and isinstance(one.get("mapping"), dict):
                found.append(_chatgpt(one))
            elif isinstance(one, dict) and isinstance(one.get("chat_messages"), list):
                found.append(_claude(one))
            else:
                raise Unusable("neither ChatGPT's nor Claude's")
        except Unusable as error:
            wrong.append(f"conversation {number}: {error}")
    return found, wrong


def _chatgpt(one: Mapping[str, Any]) -> ConversationText:
    """Read one conversation of a ChatGPT export: a tree, of which the branch that was shown last is taken."""
    name = str(one.get("conversation_id") or one.get("id") or "")
    if not name:
        raise Unusable("it has no id")
    title = str(one.get("title") or "") or "Untitled"
    head: dict[str, JsonValue] = {"title": title, "created": _moment(one.get("create_time"))}
    return ConversationText(title, head, [*_chatgpt_turns(one)], f"{CHATGPT}:{name}")


def _chatgpt_turns(one: Mapping[str, Any]) -> Iterator[Turn]:
    nodes, branch = one["mapping"], []
    node = one.get("current_node") or next((key for key, n in nodes.items() if not (n or {}).get("children")), None)
    while node in nodes and node not in branch:
        branch.append(node)
        node = (nodes[node] or {}).get("parent")
    for key in reversed(branch):
        message = (nodes[key] or {}).get("message") or {}
        role = (message.get("author") or {}).get("role")
        text = _parts(message.get("content") or {})
        if role in ("user", "assistant", "system", "tool") and text.strip():
            model = str((message.get("metadata") or {}).get("model_slug") or "")
            attributes = {"id": str(message.get("id") or key), **({"model": model} if model else {})}
            yield Turn(role, text, _moment(message.get("create_time")), attributes)


def _parts(content: Mapping[str, Any]) -> str:
    """Return the text of a message; what is no text, an image say, is named by its kind."""
    parts = content.get("parts")
    if not isinstance(parts, list):
        return str(content.get("text") or "")
    named = (part if isinstance(part, str) else f"[{(part or {}).get('content_type', 'attachment')}]" for part in parts)
    return "\n\n".join(named)


def _claude(one: Mapping[str, Any]) -> ConversationText:
    """Read one conversation of a Claude export."""
    name = str(one.get("uuid") or "")
    if not name:
        raise Unusable("it has no uuid")
    title = str(one.get("name") or "") or "Untitled"
    turns = []
    for message in one["chat_messages"]:
        if not isinstance(message, dict) or message.get("sender") not in _SENDERS:
            continue
        blocks = message.get("content")
        blocks = blocks if isinstance(blocks, list) else []
        texts = [str(block["text"]) for block in blocks if isinstance(block, dict) and block.get("text")]
        text = "\n\n".join(texts) or str(message.get("text") or "")
        if text.strip():
            attributes = {"id": str(message["uuid"])} if message.get("uuid") else {}
            turns.append(Turn(_SENDERS[message["sender"]], text, _moment(message.get("created_at")), attributes))
    head: dict[str, JsonValue] = {"title": title, "created": _moment(one.get("created_at"))}
    return ConversationText(title, head, turns, f"{CLAUDE}:{name}")


def _moment(value: Any) -> str:
    """Return a Unix time or an ISO 8601 moment as threads have it: to the second, in UTC."""
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            moment = datetime.fromtimestamp(value, UTC)
        elif isinstance(value, str):
            moment = datetime.fromisoformat(value).astimezone(UTC)
        else:
            return ""
    except (ValueError, OverflowError, OSError):
        return ""
    return moment.isoformat(timespec="seconds")
