"""Replaced versions of notes that another program holds open: what it writes there goes into the journal.

A rewrite makes a new file, so a program that appends to an open file goes on writing to the old one, which has no name
any more. Such a file gets a hidden name next to its note, until nobody has it open for writing.

The coarse rule would be to refuse the rewrite. Then a logger that never closes its file would end all rewrites of it.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from memsync.edit import note_file
from memsync.edit.journal import Journal
from memsync.edit.note_paths import folder_of
from memsync.errors import MemsyncError
from memsync.model.text import whole_characters
from memsync.model.vocabulary import NotePath
from memsync.system.user_folders import write_own_file

MAX_LATE_BYTES = 1_000_000
"""How much of a file to take into the journal at once; the next look takes more."""


class _Held(Struct):
    """A kept file next to the note at `path`: its `name`, and how much of it is known."""

    path: NotePath
    name: str
    size: int


class HeldOpen:
    """The kept files of one memory root; `keep` has the record of them. The caller holds the writers' lock."""

    def __init__(self, root: Path, keep: Path, journal: Journal) -> None:
        self._root = root
        self._record = keep / "held.json"
        self._journal = journal

    def keep(self, path: NotePath, size: int, folder: int, aside: str) -> None:
        """Keep a replaced file of `size` bytes, which has the name `aside` now, if another program may write to it."""
        with suppress(MemsyncError, OSError), note_file.opened(folder, path, aside) as descriptor:
            if _is_open_elsewhere(descriptor):
                name = f".memsync-kept-{time.time_ns():x}"
                self._save([*self._held(), _Held(path, name, size)])
                os.rename(aside, name, src_dir_fd=folder, dst_dir_fd=folder)

    def collect(self, *, drops: bool = False) -> None:
        """Journal what was written to kept files, and delete those that no program has open.

        With `drops`, no kept file keeps any text: it is deleted, or emptied if a program has it open.
        """
        if held := self._held():
            self._save([file for file in held if self._is_kept(file, drops=drops)])

    def _is_kept(self, file: _Held, *, drops: bool) -> bool:
        """Journal the new text of one file. Delete the file if it has none and no program can write more."""
        try:
            with folder_of(self._root, file.path) as folder:
                with note_file.opened(folder, file.path, file.name) as descriptor:
                    is_open = _is_open_elsewhere(descriptor)  # before reading: a program may write, then close
                    late = os.pread(descriptor, MAX_LATE_BYTES, file.size)
                text = whole_characters(late.decode("utf-8", "replace").replace("\r\n", "\n").strip("\0\n"))
                if text:
                    self._journal.append(file.path, text)
                file.size += len(late)
                if drops and is_open:
                    os.close(os.open(file.name, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, dir_fd=folder))
                    file.size = 0
                elif drops or not (late or is_open):
                    os.unlink(file.name, dir_fd=folder)
                    return False
        except FileNotFoundError:
            return False
        except (MemsyncError, OSError):  # a full disk, for example: the next look takes the text
            pass
        return True

    def _held(self) -> list[_Held]:
        with suppress(OSError, msgspec.DecodeError):
            return msgspec.json.decode(self._record.read_bytes(), type=list[_Held])
        return []

    def _save(self, held: list[_Held]) -> None:
        with suppress(OSError, MemsyncError):
            write_own_file(str(self._record), msgspec.json.encode(held))


def _is_open_elsewhere(descriptor: int) -> bool:
    """Tell whether a program may have a file open for writing; False on systems without leases (only Linux has them).

    The kernel grants a read lease on a file only if nobody has it open for writing, and only to the file's owner.
    """
    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except (BlockingIOError, PermissionError):
        return True
    except OSError:
        pass
    return False
