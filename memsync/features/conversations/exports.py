"""Read one conversation of a ChatGPT or Claude export. Everything in it is untrusted data.

All text is kept; thinking, tool calls and attachments become quotations under a label. Images and files without text
are named in the message. A value of the wrong type makes the conversation unusable: memsync does not guess
who said what, or in which order.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from memsync.features.conversations import ConversationText, Turn, Unusable
from memsync.model.vocabulary import JsonValue

CHATGPT, CLAUDE = "chatgpt", "claude"
MAX_ID_CHARS = 200
MAX_TITLE_CHARS = 500
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".heic", ".bmp")
_SENDERS = {"human": "user", "assistant": "assistant"}
_FIRST_TIME, _LAST_TIME = 946_684_800, 4_102_444_800
"""The years 2000 to 2100: nobody talked to a model at any other time."""
NO_EXPORT = "neither a ChatGPT nor a Claude export"


def read_export(value: Any, place: str) -> ConversationText:
    """Read one conversation of either export. Raises Unusable with the reason."""
    if isinstance(value, dict) and "mapping" in value:
        conversation = _chatgpt(value)
    elif isinstance(value, dict) and "chat_messages" in value:
        conversation = _claude(value)
    else:
        raise Unusable(NO_EXPORT)
    ids = Counter(turn.attributes["id"] for turn in conversation.turns if "id" in turn.attributes)
    repeated = next((name for name, times in ids.items() if times > 1), None)
    if repeated is not None:
        raise Unusable(f"two messages have the id {repeated!r}")
    conversation.place = place
    return conversation


# ------------------------------------------------------------------------------------------------ ChatGPT


def _chatgpt(export: Mapping[str, Any]) -> ConversationText:
    """Read the branch that was shown last from a conversation's tree of messages."""
    name = _id(export.get("conversation_id") or export.get("id"), "the conversation")
    conversation = _begun(export.get("title"), export.get("create_time"), f"{CHATGPT}:{name}")
    nodes = _object(export["mapping"], "mapping")
    for key in _branch(export, nodes):
        message = nodes[key].get("message")
        if message is not None:
            message = _object(message, f"message {key[:MAX_ID_CHARS]}")
            conversation.turns += _about(f"message {key}", _chatgpt_turn, key, message)
    return conversation


def _branch(export: Mapping[str, Any], nodes: Mapping[str, Any]) -> Sequence[str]:
    """Return the keys of the branch's messages, in order."""
    for key, node in nodes.items():
        _object(node, f"message {key[:MAX_ID_CHARS]}")
    leaf = export.get("current_node")
    if leaf is None:
        leaf = next((key for key, node in nodes.items() if not node.get("children")), None)
    branch: dict[str, None] = {}
    while leaf is not None:
        if not isinstance(leaf, str) or leaf not in nodes:
            raise Unusable(f"a message follows {str(leaf)[:MAX_ID_CHARS]!r}, which is missing")
        if leaf in branch:
            raise Unusable("its messages follow each other in a circle")
        branch[leaf] = None
        leaf = nodes[leaf].get("parent")
    return list(branch)[::-1]


def _chatgpt_turn(key: str, message: Mapping[str, Any]) -> Sequence[Turn]:
    author = _object(message.get("author"), "its author")
    role = author.get("role")
    if not isinstance(role, str):
        raise Unusable(f"its role is {str(role)[:MAX_ID_CHARS]!r}")
    metadata = _object(message.get("metadata") or {}, "its metadata")
    content = _object(message.get("content"), "its content")
    recipient = message.get("recipient")
    to = f" to {recipient}" if isinstance(recipient, str) and recipient not in ("all", "") else ""
    by = f" of {author['name']}" if isinstance(author.get("name"), str) and author["name"] else ""
    pieces = list(_content(content, f"{by}{to}"))
    for attachment in _list(metadata.get("attachments") or [], "its attachments"):
        mime_type = _first(_object(attachment, "an attachment"), "mime_type")
        kind = "image" if mime_type.startswith("image/") else "file"
        pieces.append(_name(kind, _first(attachment, "name", "id")))
    attributes = {"id": _id(message.get("id") or key, "it")}
    model = metadata.get("model_slug")
    if isinstance(model, str) and model:
        attributes["model"] = model
    return _turn(role, pieces, _moment(message.get("create_time")), attributes)


def _content(content: Mapping[str, Any], direction: str) -> Iterator[str]:
    """Yield the pieces of a message: its own words as they are, anything else quoted under a label."""
    kind = content.get("content_type")
    kind = kind if isinstance(kind, str) and kind else "text"
    if kind in ("text", "multimodal_text"):
        words = [*_parts(content)]
        yield from words if not direction else (_quoted(f"text{direction}", word) for word in words if word.strip())
    elif kind == "code":
        language = content.get("language")
        label = f"code in {language}" if isinstance(language, str) and language not in ("", "unknown") else "code"
        yield _quoted(f"{label}{direction}", _text(content.get("text"), "its code"))
    elif kind == "thoughts":
        for thought in _list(content.get("thoughts") or [], "its thoughts"):
            yield _quoted("thinking", _strings(_object(thought, "a thought"), ("summary", "content")))
    else:
        text = _strings(content, ("title", "name", "url", "domain", "summary", "result", "content", "text", "snippet"))
        parts = _parts(content) if "parts" in content else ()
        context = _strings(content, ("user_profile", "user_instructions", "model_set_context", "output_str"))
        text = "\n".join(filter(None, (text, *parts, context)))
        yield _quoted(f"{kind.replace('_', ' ')}{direction}", text) if text.strip() else _name(kind, "")


def _parts(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield the parts of a message that may mix text with images and files."""
    if "parts" not in content and isinstance(content.get("text"), str):
        yield content["text"]
        return
    for part in _list(content.get("parts") or [], "its parts"):
        if part is None or isinstance(part, str):
            yield part or ""
            continue
        text = _strings(_object(part, "one of its parts"), ("text",))
        kind = str(part.get("content_type") or "attachment")
        if text.strip():
            yield _quoted(kind.replace("_", " "), text)
        else:
            medium = next((word for word in ("image", "audio", "video") if word in kind), kind)
            yield _name(medium, _first(part, "name", "file_name", "asset_pointer"))


# ------------------------------------------------------------------------------------------------- Claude


def _claude(export: Mapping[str, Any]) -> ConversationText:
    name = _id(export.get("uuid"), "the conversation")
    conversation = _begun(export.get("name"), export.get("created_at"), f"{CLAUDE}:{name}")
    for number, message in enumerate(_list(export["chat_messages"], "chat_messages"), 1):
        message = _object(message, f"message {number}")
        conversation.turns += _about(f"message {number}", _claude_turn, message)
    return conversation


def _claude_turn(message: Mapping[str, Any]) -> Sequence[Turn]:
    sender = message.get("sender")
    if not isinstance(sender, str) or sender not in _SENDERS:
        raise Unusable(f"its sender is {str(sender)[:MAX_ID_CHARS]!r}")
    blocks = _list(message.get("content") or [], "its content")
    pieces = [piece for block in blocks for piece in _claude_block(_object(block, "a part of it"))]
    if not any(piece.strip() for piece in pieces):
        pieces = [_text(message.get("text"), "its text")]
    for attached in _list(message.get("attachments") or [], "its attachments"):
        attached = _object(attached, "an attachment")
        name = _first(attached, "file_name", "name", "id")
        extracted = attached.get("extracted_content")
        if isinstance(extracted, str) and extracted.strip():
            pieces.append(_quoted(f"attachment {name}".rstrip(), extracted))
        else:
            pieces.append(_name("file", name))
    files = [file for key in ("files", "files_v2") for file in _list(message.get(key) or [], f"its {key}")]
    names = [_first(_object(file, "a file"), "file_name", "name", "file_uuid", "uuid") for file in files]
    for name in dict.fromkeys(names):
        pieces.append(_name("image" if name.lower().endswith(_IMAGES) else "file", name))
    attributes = {"id": _id(message["uuid"], "it")} if message.get("uuid") is not None else {}
    return _turn(_SENDERS[sender], pieces, _moment(message.get("created_at")), attributes)


def _claude_block(block: Mapping[str, Any]) -> Iterator[str]:
    kind = block.get("type")
    if kind == "text":
        yield _text(block.get("text"), "its text")
    elif kind == "thinking":
        yield _quoted("thinking", _text(block.get("thinking"), "its thinking"))
    elif kind == "tool_use":
        yield _quoted(f"call of {_first(block, 'name') or 'a tool'}", _arguments(block.get("input")))
    elif kind == "tool_result":
        label = f"result of {_first(block, 'name') or 'a tool'}"
        content = block.get("content")
        for part in [content] if isinstance(content, str) else _list(content or [], "the result of a tool"):
            if isinstance(part, str):
                yield _quoted(label, part)
                continue
            text = _strings(_object(part, "the result of a tool"), ("title", "url", "text"))
            yield _quoted(label, text) if text.strip() else _name(str(part.get("type") or "result"), "")
    else:
        text = _strings(block, ("title", "text", "content"))
        word = str(kind or "attachment").replace("_", " ")
        yield _quoted(word, text) if text.strip() else _name(word, _first(block, "file_name", "name", "title"))


def _arguments(given: Any) -> str:
    """Return the arguments of a tool call, one a line, texts as they are."""
    if isinstance(given, dict):
        return "\n".join(f"{key}: {_as_text(value)}" for key, value in given.items())
    return _as_text(given)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# ------------------------------------------------------------------------------------------------- common


def _begun(title: Any, time: Any, source: str) -> ConversationText:
    """Return a conversation without messages."""
    name = " ".join(_text(title, "its title").split())[:MAX_TITLE_CHARS] or "Untitled"
    created = _moment(time)
    head: dict[str, JsonValue] = {"title": name, **({"created": created} if created else {})}
    return ConversationText(name, head, source=source)


def _about(what: str, read: Callable[..., Sequence[Turn]], *arguments: Any) -> Sequence[Turn]:
    """Read one message; if that fails, name the message in the error."""
    try:
        return read(*arguments)
    except Unusable as error:
        raise Unusable(f"{what[:MAX_ID_CHARS]}: {error}") from error


def _turn(role: str, pieces: Sequence[str], time: str, attributes: dict[str, str]) -> Sequence[Turn]:
    """Return a list of the message, empty if that has no text."""
    text = "\n\n".join(piece for piece in pieces if piece.strip())
    return [Turn(role, text, time, attributes)] if text else []


def _quoted(label: str, text: str) -> str:
    """Return text as a quotation under a label; empty without any text."""
    if not text.strip():
        return ""
    lines = (f"> {line}" if line else ">" for line in text.strip("\n").split("\n"))
    return "\n".join([f"[{' '.join(label.split())[:MAX_ID_CHARS]}]", *lines])


def _name(kind: str, name: str) -> str:
    """Return how a message names a thing without text, such as an image."""
    kind = " ".join(kind.replace("_", " ").split())[:MAX_ID_CHARS] or "attachment"
    shown = " ".join(name.split())[:MAX_ID_CHARS]
    return f"[{kind}: {shown}]" if shown else f"[{kind}]"


def _first(value: Mapping[str, Any], *keys: str) -> str:
    """Return the first text under these keys, empty without any."""
    return next((value[key] for key in keys if isinstance(value.get(key), str) and value[key].strip()), "")


def _strings(value: Mapping[str, Any], keys: Sequence[str]) -> str:
    """Return the texts under these keys, joined by line ends."""
    return "\n".join(value[key] for key in keys if isinstance(value.get(key), str) and value[key].strip())


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Unusable(f"{what} is not an object")
    return value


def _list(value: Any, what: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise Unusable(f"{what} is not a list")
    return value


def _text(value: Any, what: str) -> str:
    """Return a text; empty if the value is None."""
    if value is not None and not isinstance(value, str):
        raise Unusable(f"{what} is not text")
    return value or ""


def _id(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > MAX_ID_CHARS:
        raise Unusable(f"{what} has no id that can be used")
    return value


def _moment(value: Any) -> str:
    """Return a Unix time or an ISO 8601 time as threads write it: to the second, in UTC; empty for None."""
    if value is None:
        return ""
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            seconds = float(value)
        elif isinstance(value, str):
            seconds = datetime.fromisoformat(value).astimezone(UTC).timestamp()
        else:
            raise Unusable("its time is neither a number nor text")
        if not _FIRST_TIME <= seconds < _LAST_TIME:
            raise Unusable(f"its time is {value!r}"[:MAX_ID_CHARS])
    except (ValueError, OverflowError, OSError) as error:
        raise Unusable(f"its time is {value!r}"[:MAX_ID_CHARS]) from error
    return datetime.fromtimestamp(int(seconds), UTC).isoformat(timespec="seconds")
