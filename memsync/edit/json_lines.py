"""Files of JSON objects, one a line, that only ever grow: a process may die over any of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

from memsync.errors import FilesystemError


def append_line(path: Path, value: object, *, sync: bool = False) -> None:
    """Append one object to a file, made with its folder, for their owner alone; with `sync` the disk is waited for.

    The line begins with a line end, whatever half a line a process that died has left. Raises FilesystemError.
    """
    content = b"\n" + json.dumps(value, ensure_ascii=True).encode() + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            if os.write(descriptor, content) != len(content):
                raise FilesystemError(f"{path} cannot be written: no space left", hint="Free some space.")
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise FilesystemError(f"{path} cannot be written: {error.strerror}", hint="Free some space.") from error
