"""What daemon and client agree on: where the socket is, how a message looks, which error is which.

JSON-RPC 2.0, one message a line (docs/protocol.md). Only the standard library and only light parts of it are imported
here: every command of the command line pays for them.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Mapping
from typing import Any

from memsync import errors
from memsync.errors import DaemonUnavailable, MemsyncError
from memsync.system.user_folders import digest_of

PROTOCOL = 2
MAX_REQUEST_BYTES = 1_000_000
MAX_SOCKET_PATH_BYTES = 100
"""The system's own limit is 108 on Linux, 104 on macOS, with the ending NUL."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
OTHER_PROTOCOL = -32001
STOPPING = -32002


def socket_path(index_dir: str) -> str:
    """Return the path of the socket of the index in `index_dir`: inside it, or elsewhere if that would be too long."""
    path = os.path.join(index_dir, "daemon.sock")
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES:
        return path
    return os.path.join(runtime_folder(), f"{digest_of(os.fsencode(index_dir))[:32]}.sock")


def runtime_folder() -> str:
    """Return a folder with a short name that only this user can write: the session's own, or one in /tmp."""
    session = os.environ.get("XDG_RUNTIME_DIR", "")
    if session and len(os.fsencode(session)) < MAX_SOCKET_PATH_BYTES // 2:
        return os.path.join(session, "memsync")
    return f"/tmp/memsync-{os.getuid()}"  # noqa: S108 (because require_private checks whose it is)


def require_private(folder: str) -> None:
    """Raise DaemonUnavailable unless `folder` is a real folder of this user's that nobody else can write."""
    try:
        found = os.lstat(folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DaemonUnavailable(f"{folder} cannot be looked at: {error.strerror}", hint="Check its mode.") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise DaemonUnavailable(
            f"{folder} is not a folder that only you can write", hint="Remove it, or set its mode to 0700."
        )


def settings_digest(settings: Any) -> str:
    """Return what is equal for equal settings, those of the daemon and of the command line aside."""
    return _digest(
        [
            settings.root_name,
            settings.index_name,
            {name: value for name, value in settings.values.items() if not name.startswith(("daemon.", "cli."))},
            list(settings.kinds.items()),
            list(settings.tiers.items()),
        ]
    )


def daemon_settings_digest(settings: Any) -> str:
    """Return what is equal for equal settings of the daemon's own."""
    return _digest({name: value for name, value in settings.values.items() if name.startswith("daemon.")})


def _digest(relevant: Any) -> str:
    text = json.dumps(relevant, sort_keys=True).encode("utf-8", "surrogatepass")
    return digest_of(text)[:32]


def encode(message: Mapping[str, Any]) -> bytes:
    """Return one message as a line. Text that is no Unicode (a lone surrogate) is escaped."""
    message = {"jsonrpc": "2.0", **message}
    try:
        return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Any:
    """Return what a line holds. Raises ValueError with the reason, which quotes nothing of it, if that is not JSON."""
    try:
        return json.loads(line.decode(), parse_constant=_no_number, parse_float=_finite)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError:  # a whole number of thousands of digits, too
        raise ValueError("a number that JSON does not have, or too large a one") from None


def _no_number(name: str) -> float:
    raise ValueError(name)


def _finite(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise ValueError(digits)
    return number


def error_message(error: MemsyncError) -> dict[str, Any]:
    """Return an error of memsync's as JSON-RPC has it; its code is the command line's exit code."""
    return {
        "code": error.exit_code,
        "message": error.message,
        "data": {"type": type(error).__name__, "hint": error.hint},
    }


def failure(code: int, message: str, *, hint: str = "") -> dict[str, Any]:
    """Return an error of the protocol's own as a reply has it."""
    return {"error": {"code": code, "message": message, **({"data": {"hint": hint}} if hint else {})}}


def error_of(message: Mapping[str, Any]) -> MemsyncError:
    """Return the error that a reply tells of, as the class that was raised."""
    about = message.get("data") or {}
    kind = getattr(errors, str(about.get("type", "")), MemsyncError)
    if not (isinstance(kind, type) and issubclass(kind, MemsyncError)):
        kind = MemsyncError
    return kind(str(message.get("message", "the daemon failed")), hint=str(about.get("hint", "")))
