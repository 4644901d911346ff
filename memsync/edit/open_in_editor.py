"""Refuses to write notes that are open in vim (by its swap file) or in emacs (by its lock link)."""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress

from memsync.errors import WriteRefused
from memsync.model.vocabulary import NotePath

_SWAP_BYTES = 108
"""vim's block 0 up to the host name: see `struct block0` in vim's memline.c."""


def refuse_open_in_editor(folder: int, path: NotePath) -> None:
    """Raise WriteRefused if an editor that still runs has a note in `folder` (a descriptor) open."""
    name = path.rpartition("/")[2]
    editor = _vim_of(folder, f".{name}.swp") or _emacs_of(folder, f".#{name}")
    if editor:
        raise WriteRefused(
            f"{path} is open in {editor}",
            hint="Save and close it there, or write anyway with --force: the editor will ask about the change.",
        )


def _vim_of(folder: int, name: str) -> str:
    """Return the vim that has a swap file of this name; empty if there is none."""
    with suppress(OSError):
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            block = os.read(descriptor, _SWAP_BYTES)
        finally:
            os.close(descriptor)
        if len(block) == _SWAP_BYTES and block.startswith(b"b0"):
            (process,) = struct.unpack_from("<i", block, 24)
            host = block[68:].split(b"\0")[0].decode("utf-8", "replace")
            return _unless_ended("vim", process, host)
    return ""


def _emacs_of(folder: int, name: str) -> str:
    """Return the emacs that has a lock link of this name; empty if there is none."""
    with suppress(OSError, ValueError):
        owner = os.readlink(name, dir_fd=folder)  # user@host.process:boot
        host, _, process = owner.partition("@")[2].partition(":")[0].rpartition(".")
        return _unless_ended("emacs", int(process), host)
    return ""


def _unless_ended(editor: str, process: int, host: str) -> str:
    """Return the editor's name for messages; empty if it ran on this machine and its process has ended."""
    if host and host.split(".")[0] != socket.gethostname().split(".")[0]:
        return f"{editor} on another machine"  # a clone may have the file, and its name for the machine any text
    try:
        if process <= 0:
            return ""
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return ""
    except PermissionError:  # the process exists and belongs to another user
        pass
    return f"{editor} (process {process})"
