"""What the daemon and its clients share: the format of messages, the error codes.

The protocol is JSON-RPC 2.0 with one message per line (docs/programs.md). This module imports only light parts of the
standard library, because every command imports it.
"""

from __future__ import annotations

import _socket  # because `socket` takes as long as a question
import json
import math
import os
import struct
import sys
from collections.abc import Mapping

from memsync import errors
from memsync.errors import MemsyncError
from memsync.system.user_folders import digest_of

TYPE_CHECKING = False  # and not typing's, because importing it would take a tenth of the time of a served search
if TYPE_CHECKING:
    from typing import Any

PROTOCOL = 2
MAX_REQUEST_BYTES = 16_000_000

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
OTHER_PROTOCOL = -32001
STOPPING = -32002


def peer_of(connection: _socket.socket) -> tuple[int, int]:
    """Return the process and the user at the other end, as the kernel knows them; -1 if it does not tell."""
    if sys.platform == "linux":
        option = struct.Struct("3i")
        process, user, _ = option.unpack(connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, option.size))
    elif sys.platform == "darwin":
        local_peercred, local_peerpid = 0x001, 0x002  # struct xucred: version, uid, …
        _, user = struct.unpack("2I", connection.getsockopt(0, local_peercred, struct.calcsize("2I")))
        process = connection.getsockopt(0, local_peerpid)
    else:
        process = user = -1
    return process, user


def is_own_user(connection: _socket.socket) -> bool:
    """Return whether the process at the other end runs as the same user."""
    return peer_of(connection)[1] == os.getuid()


def settings_digest(settings: Any) -> str:
    """Return a digest of all settings except those under [daemon] and [cli]."""
    return _digest(settings.decisive())


def daemon_settings_digest(settings: Any) -> str:
    """Return a digest of the settings under [daemon]."""
    return _digest({name: value for name, value in settings.values.items() if name.startswith("daemon.")})


def _digest(relevant: Any) -> str:
    return digest_of(json.dumps(relevant, sort_keys=True).encode("utf-8", "surrogatepass"))[:32]


def encode(message: Mapping[str, Any]) -> bytes:
    """Return one message as a line of JSON; escape text that is not valid Unicode (a lone surrogate)."""
    message = {"jsonrpc": "2.0", **message}
    try:
        return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Any:
    """Return the JSON value of a line. Raises ValueError if it is invalid; its message quotes nothing of the line."""
    try:
        return json.loads(line.decode(), parse_constant=_no_number, parse_float=_finite)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError:  # NaN, Infinity, or a number with too many digits
        raise ValueError("a number that is too large or not allowed in JSON") from None


def _no_number(name: str) -> float:
    raise ValueError(name)


def _finite(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise ValueError(digits)
    return number


def error_message(error: MemsyncError) -> dict[str, Any]:
    """Return a memsync error as a JSON-RPC error object; its code is the exit code of the command line."""
    return {
        "code": error.exit_code,
        "message": error.message,
        "data": {"type": type(error).__name__, "hint": error.hint},
    }


def failure(code: int, message: str, *, hint: str = "") -> dict[str, Any]:
    """Return a reply with an error of the protocol itself."""
    return {"error": {"code": code, "message": message, **({"data": {"hint": hint}} if hint else {})}}


def error_of(message: Mapping[str, Any]) -> MemsyncError:
    """Return the error of a reply as an exception of the class that the daemon raised."""
    details = message.get("data") or {}
    kind = getattr(errors, str(details.get("type", "")), MemsyncError)
    if not (isinstance(kind, type) and issubclass(kind, MemsyncError)):
        kind = MemsyncError
    return kind(str(message.get("message", "the daemon failed")), hint=str(details.get("hint", "")))
