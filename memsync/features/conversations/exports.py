"""One conversation of a ChatGPT or a Claude export -> its messages. Everything in it is a stranger's data.

What has text is kept: what is not said to the other side (thinking, tools, attachments) as a quotation below a label.
What has none (an image, a file) is named in the message and counted. What is not of its type makes the conversation
unusable: nothing is guessed about who said what, or in which order.
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
_ROLES = ("user", "assistant", "system", "tool")
_SENDERS = {"human": "user", "assistant": "assistant"}
_FIRST_TIME, _LAST_TIME = 946_684_800, 4_102_444_800
"""The years 2000 to 2100: no other time is one at which somebody talked to a model."""
NO_EXPORT = "neither a ChatGPT nor a Claude export"


def read_export(value: Any, place: str) -> ConversationText:
    """Read one conversation of either export. Raises Unusable with the reason."""
    if isinstance(value, dict) and "mapping" in value:
        found = _chatgpt(value)
    elif isinstance(value, dict) and "chat_messages" in value:
        found = _claude(value)
    else:
        raise Unusable(NO_EXPORT)
    ids = Counter(turn.attributes["id"] for turn in found.turns if "id" in turn.attributes)
    twice = next((name for name, times in ids.items() if times > 1), None)
    if twice is not None:
        raise Unusable(f"two messages are called {twice!r}")
    found.place = place
    return found


# ------------------------------------------------------------------------------------------------ ChatGPT


def _chatgpt(one: Mapping[str, Any]) -> ConversationText:
    """Read one conversation of a ChatGPT export: a tree, of which the branch that was shown last is taken."""
    name = _id(one.get("conversation_id") or one.get("id"), "the conversation")
    found = _begun(one.get("title"), one.get("create_time"), f"{CHATGPT}:{name}")
    nodes = _object(one["mapping"], "mapping")
    for key in _branch(one, nodes):
        message = nodes[key].get("message")
        if message is not None:
            message = _object(message, f"message {key[:MAX_ID_CHARS]}")
            found.turns += _about(f"message {key}", _chatgpt_turn, key, message, found.named)
    return found


def _branch(one: Mapping[str, Any], nodes: Mapping[str, Any]) -> Sequence[str]:
    """Return the keys of the messages that were shown last, in their order."""
    for key, node in nodes.items():
        _object(node, f"message {key[:MAX_ID_CHARS]}")
    leaf = one.get("current_node")
    if leaf is None:
        leaf = next((key for key, node in nodes.items() if not node.get("children")), None)
    branch: dict[str, None] = {}
    while leaf is not None:
        if not isinstance(leaf, str) or leaf not in nodes:
            raise Unusable(f"a message names {str(leaf)[:MAX_ID_CHARS]!r} before it, which is not there")
        if leaf in branch:
            raise Unusable("its messages follow each other in a circle")
        branch[leaf] = None
        leaf = nodes[leaf].get("parent")
    return list(branch)[::-1]


def _chatgpt_turn(key: str, message: Mapping[str, Any], named: Counter[str]) -> Sequence[Turn]:
    author = _object(message.get("author"), "its author")
    role = author.get("role")
    if role not in _ROLES:
        raise Unusable(f"its role is {str(role)[:MAX_ID_CHARS]!r}")
    metadata = _object(message.get("metadata") or {}, "its metadata")
    content = _object(message.get("content"), "its content")
    asked = message.get("recipient")
    to = f" to {asked}" if isinstance(asked, str) and asked not in ("all", "") else ""
    by = f" of {author['name']}" if isinstance(author.get("name"), str) and author["name"] else ""
    pieces = list(_content(content, f"{by}{to}", named))
    attachments = _list(metadata.get("attachments") or [], "its attachments")
    pieces += [_name(_attachment_kind(one), _first(one, "name", "id"), named) for one in attachments]
    model = metadata.get("model_slug")
    attributes = {"id": _id(message.get("id") or key, "it")}
    if isinstance(model, str) and model:
        attributes["model"] = model
    return _turn(role, pieces, _moment(message.get("create_time")), attributes)


def _content(content: Mapping[str, Any], about: str, named: Counter[str]) -> Iterator[str]:
    """Yield the pieces of a message: its own words as they are, anything else quoted below a label."""
    kind = content.get("content_type")
    kind = kind if isinstance(kind, str) and kind else "text"
    if kind in ("text", "multimodal_text"):
        words = [*_parts(content, named)]
        yield from words if not about else (_quoted(f"text{about}", word) for word in words if word.strip())
    elif kind == "code":
        language = content.get("language")
        label = f"code in {language}" if isinstance(language, str) and language not in ("", "unknown") else "code"
        yield _quoted(f"{label}{about}", _text(content.get("text"), "its code"))
    elif kind == "thoughts":
        for thought in _list(content.get("thoughts") or [], "its thoughts"):
            thought = _object(thought, "a thought")
            yield _quoted("thinking", _strings(thought, ("summary", "content")))
    else:
        told = _strings(content, ("title", "name", "url", "domain", "summary", "result", "content", "text", "snippet"))
        told = "\n".join(filter(None, (told, *(_parts(content, named) if "parts" in content else ()))))
        context = _strings(content, ("user_profile", "user_instructions", "model_set_context", "output_str"))
        told = "\n".join(filter(None, (told, context)))
        yield _quoted(f"{kind.replace('_', ' ')}{about}", told) if told.strip() else _name(kind, "", named)


def _parts(content: Mapping[str, Any], named: Counter[str]) -> Iterator[str]:
    """Yield the parts of a message that mixes text with what has none."""
    if "parts" not in content and isinstance(content.get("text"), str):
        yield content["text"]
        return
    for part in _list(content.get("parts") or [], "its parts"):
        if part is None or isinstance(part, str):
            yield part or ""
            continue
        part = _object(part, "one of its parts")
        told = _strings(part, ("text",))
        kind = str(part.get("content_type") or "attachment")
        if told.strip():
            yield _quoted(kind.replace("_", " "), told)
        else:
            yield _name(_media_kind(kind), _first(part, "name", "file_name", "asset_pointer"), named)


def _media_kind(kind: str) -> str:
    """Return what a part is, in a word: `image` for an image_asset_pointer."""
    return next((word for word in ("image", "audio", "video") if word in kind), kind)


def _attachment_kind(attached: Any) -> str:
    kind = _object(attached, "an attachment").get("mime_type")
    return "image" if isinstance(kind, str) and kind.startswith("image/") else "file"


# ------------------------------------------------------------------------------------------------- Claude


def _claude(one: Mapping[str, Any]) -> ConversationText:
    """Read one conversation of a Claude export."""
    name = _id(one.get("uuid"), "the conversation")
    found = _begun(one.get("name"), one.get("created_at"), f"{CLAUDE}:{name}")
    for number, message in enumerate(_list(one["chat_messages"], "chat_messages"), 1):
        message = _object(message, f"message {number}")
        found.turns += _about(f"message {number}", _claude_turn, message, found.named)
    return found


def _claude_turn(message: Mapping[str, Any], named: Counter[str]) -> Sequence[Turn]:
    sender = message.get("sender")
    if not isinstance(sender, str) or sender not in _SENDERS:
        raise Unusable(f"its sender is {str(sender)[:MAX_ID_CHARS]!r}")
    blocks = _list(message.get("content") or [], "its content")
    pieces = [piece for block in blocks for piece in _claude_block(_object(block, "a part of it"), named)]
    if not any(piece.strip() for piece in pieces):
        pieces = [_text(message.get("text"), "its text")]
    for attached in _list(message.get("attachments") or [], "its attachments"):
        attached = _object(attached, "an attachment")
        name = _first(attached, "file_name", "name", "id")
        extracted = attached.get("extracted_content")
        if isinstance(extracted, str) and extracted.strip():
            pieces.append(_quoted(f"attachment {name}".rstrip(), extracted))
        else:
            pieces.append(_name("file", name, named))
    names = [_file_name(one) for key in ("files", "files_v2") for one in _list(message.get(key) or [], f"its {key}")]
    pieces += [_name(_kind_of_file(name), name, named) for name in dict.fromkeys(names)]
    attributes = {"id": _id(message["uuid"], "it")} if message.get("uuid") is not None else {}
    return _turn(_SENDERS[sender], pieces, _moment(message.get("created_at")), attributes)


def _claude_block(block: Mapping[str, Any], named: Counter[str]) -> Iterator[str]:
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
        inner = [content] if isinstance(content, str) else _list(content or [], "the result of a tool")
        for one in inner:
            if isinstance(one, str):
                yield _quoted(label, one)
                continue
            one = _object(one, "the result of a tool")
            told = _strings(one, ("title", "url", "text"))
            yield _quoted(label, told) if told.strip() else _name(str(one.get("type") or "result"), "", named)
    else:
        told = _strings(block, ("title", "text", "content"))
        word = str(kind or "attachment").replace("_", " ")
        yield _quoted(word, told) if told.strip() else _name(word, _first(block, "file_name", "name", "title"), named)


def _arguments(given: Any) -> str:
    """Return what a tool was given: a line for each argument, texts as they are."""
    if not isinstance(given, dict):
        return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return "\n".join(
        f"{key}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, value in given.items()
    )


def _file_name(one: Any) -> str:
    return _first(_object(one, "a file"), "file_name", "name", "file_uuid", "uuid")


def _kind_of_file(name: str) -> str:
    return "image" if name.lower().endswith((".png", ".jpg", ".jpeg", ".gif", ".webp", ".heic", ".bmp")) else "file"


# ------------------------------------------------------------------------------------------------- common


def _begun(title: Any, time: Any, source: str) -> ConversationText:
    """Return a conversation without its messages yet."""
    name = " ".join(_text(title, "its title").split())[:MAX_TITLE_CHARS] or "Untitled"
    created = _moment(time)
    head: dict[str, JsonValue] = {"title": name, **({"created": created} if created else {})}
    return ConversationText(name, head, source=source)


def _about(what: str, read: Callable[..., Sequence[Turn]], *arguments: Any) -> Sequence[Turn]:
    """Read one message, and say of which one it is when that fails."""
    try:
        return read(*arguments)
    except Unusable as error:
        raise Unusable(f"{what[:MAX_ID_CHARS]}: {error}") from error


def _turn(role: str, pieces: Sequence[str], time: str, attributes: dict[str, str]) -> Sequence[Turn]:
    """Return a message as a list of one; of none where nothing is said."""
    text = "\n\n".join(piece for piece in pieces if piece.strip())
    return [Turn(role, text, time, attributes)] if text else []


def _quoted(label: str, text: str) -> str:
    """Return text as a quotation below a label; empty without any text."""
    if not text.strip():
        return ""
    lines = (f"> {line}" if line else ">" for line in text.strip("\n").split("\n"))
    return "\n".join([f"[{' '.join(label.split())[:MAX_ID_CHARS]}]", *lines])


def _name(kind: str, name: str, named: Counter[str]) -> str:
    """Return how what has no text is named in a message, and count it."""
    kind = " ".join(kind.replace("_", " ").split())[:MAX_ID_CHARS] or "attachment"
    named[kind] += 1
    shown = " ".join(name.split())[:MAX_ID_CHARS]
    return f"[{kind}: {shown}]" if shown else f"[{kind}]"


def _first(value: Mapping[str, Any], *keys: str) -> str:
    """Return the first text under these keys, empty without any."""
    return next((value[key] for key in keys if isinstance(value.get(key), str) and value[key].strip()), "")


def _strings(value: Mapping[str, Any], keys: Sequence[str]) -> str:
    """Return the texts under these keys, each on lines of its own."""
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
    """Return a text, which may be missing."""
    if value is not None and not isinstance(value, str):
        raise Unusable(f"{what} is not text")
    return value or ""


def _id(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > MAX_ID_CHARS:
        raise Unusable(f"{what} has no id that can be used")
    return value


def _moment(value: Any) -> str:
    """Return a Unix time or an ISO 8601 moment as threads have it: to the second, in UTC; empty without one."""
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
