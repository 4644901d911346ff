"""Messages of JSON-RPC, and the error for a wrong one."""

from __future__ import annotations

from typing import Any

from memsync.client.wire import INVALID_PARAMS

SCHEME = "memory://"
MARKDOWN = "text/markdown"
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
