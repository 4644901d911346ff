"""Messages of JSON-RPC as MCP sends them: read, checked and written; and the error for a wrong one."""

from __future__ import annotations

import json
from typing import Any

from memsync.client.wire import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, decode
from memsync.model.text import json_line

SCHEME = "memory://"
MARKDOWN = "text/markdown"
MAX_MESSAGE_BYTES = 16_000_000
Message = dict[str, Any]
Id = str | int


class Refused(Exception):
    """A request that gets an error of JSON-RPC."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, **({"data": data} if data is not None else {})}


def text_in(params: Message, name: str) -> str:
    """Return a parameter that must be a text. Raises Refused."""
    value = params.get(name)
    if not isinstance(value, str):
        raise Refused(INVALID_PARAMS, f"{name} must be a text")
    return value


def parsed(line: bytes) -> Any:
    """Return the JSON value of a message. Raises Refused."""
    if len(line) > MAX_MESSAGE_BYTES:
        raise Refused(INVALID_REQUEST, f"a message may have {MAX_MESSAGE_BYTES:,} bytes")
    try:
        return decode(line)
    except ValueError as error:
        raise Refused(PARSE_ERROR, f"not JSON: {error}") from None


def reply(number: Id | None, **content: Any) -> Message:
    """Return a reply; its `content` is a `result` or an `error`."""
    return {"jsonrpc": "2.0", "id": number, **content}


def line_of(replies: Any) -> bytes:
    """Return replies as a line of JSON, with each invisible character written as an escape."""
    return json_line(json.dumps(replies, ensure_ascii=False)).encode() + b"\n"


def id_of(message: Any) -> Id | None:
    """Return the id of a message; None if it has none that may be used."""
    number = message.get("id") if isinstance(message, dict) else None
    return number if isinstance(number, (str, int)) and not isinstance(number, bool) else None
