"""Disks that fail on demand beneath SQLite: one through APSW's VFS, one through the system calls of SQLite's own VFS.

`FaultyDisk` can fail every write, truncate and sync; an error that SQLite itself would overlook (a checkpoint after a
commit, the one of the last close) APSW raises all the same, so it is the louder of the two. `FaultyCalls` fails writes
and truncates in the kernel's place: SQLite says what it would say on a real disk, silence included, and the memory that
connections share (-shm) is in it as well. It cannot fail a sync.
"""

from __future__ import annotations

import ctypes
import errno
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import apsw

Kind = Literal["write", "sync", "truncate"]
Name = str | apsw.URIFilename | None

_IO_ERRORS: dict[Kind, int] = {
    "write": apsw.SQLITE_IOERR_WRITE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong at the call of this number (from 1): once, or from then on."""

    at: int
    is_full: bool
    lasts: bool

    def __str__(self) -> str:
        return f"{'disk full' if self.is_full else 'I/O error'} {'from' if self.lasts else 'at'} call {self.at}"


class Disk(Protocol):
    """A disk with a fault that can be set and healed; `calls` counts what could have failed since."""

    calls: int
    struck: int

    def fail(self, fault: Fault | None) -> None:
        """Set or heal the fault, and count from 0 again."""


class _Faults:
    """Counts calls and tells which of them fail; `struck` counts those that did."""

    def __init__(self) -> None:
        self.fail(None)

    def fail(self, fault: Fault | None) -> None:
        self._fault = fault
        self.calls = self.struck = 0

    def strike(self) -> Fault | None:
        """Count a call and return the fault that it is to meet."""
        self.calls += 1
        fault = self._fault
        if fault is None or self.calls < fault.at or (self.calls > fault.at and not fault.lasts):
            return None
        self.struck += 1
        return fault


# ------------------------------------------------------------------------------------------------ through APSW's VFS


class _FaultyFile(apsw.VFSFile):
    def __init__(self, disk: FaultyDisk, name: Name, flags: list[int]) -> None:
        super().__init__(disk.base, name, flags)
        self._disk = disk

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802 because SQLite names it
        write = super().xWrite
        self._disk.strike_at("write", lambda: write(data[: len(data) // 2], offset))
        write(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 because SQLite names it
        self._disk.strike_at("truncate")
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802 because SQLite names it
        """Sync nothing in truth: these tests lose no power, and a sync takes longer than all the rest."""
        self._disk.strike_at("sync")


class FaultyDisk(apsw.VFS, _Faults):
    """SQLite's VFS for this system, as the default one, with faults."""

    def __init__(self) -> None:
        self.base = apsw.vfs_names()[0]
        apsw.VFS.__init__(self, "faulty", self.base, makedefault=True)
        _Faults.__init__(self)

    def xOpen(self, name: Name, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 because SQLite names it
        return _FaultyFile(self, name, flags)

    def strike_at(self, kind: Kind, do_half: Callable[[], None] = lambda: None) -> None:
        """Count a call and raise the fault that it meets; a full disk takes the first half of what is written."""
        fault = self.strike()
        if fault is None:
            return
        if fault.is_full:
            do_half()
        raise apsw.exception_for(apsw.SQLITE_FULL if fault.is_full else _IO_ERRORS[kind])


@contextmanager
def faulty_disk() -> Iterator[FaultyDisk]:
    """Open every database through a FaultyDisk for the time of the block."""
    disk = FaultyDisk()
    try:
        yield disk
    finally:
        disk.unregister()


# ---------------------------------------------------------------------------------------------- through system calls

_PWRITE = ctypes.CFUNCTYPE(
    ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, use_errno=True
)
_FTRUNCATE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int64, use_errno=True)


class FaultyCalls(_Faults):
    """The system calls of SQLite's own VFS, with faults. Linux only: their names differ elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        libc: Any = ctypes.CDLL(None, use_errno=True)
        self._pwrite, self._ftruncate = libc.pwrite64, libc.ftruncate64
        self._pwrite.restype, self._pwrite.argtypes = ctypes.c_ssize_t, _PWRITE._argtypes_
        self._ftruncate.restype, self._ftruncate.argtypes = ctypes.c_int, _FTRUNCATE._argtypes_
        self._callbacks = {"pwrite64": _PWRITE(self._write), "ftruncate": _FTRUNCATE(self._truncate)}  # kept alive

    def put_in_place(self) -> None:
        """Make SQLite use these calls."""
        vfs = apsw.VFS("system calls", "unix")
        for name, callback in self._callbacks.items():
            address = ctypes.cast(callback, ctypes.c_void_p).value
            assert address is not None
            assert vfs.xSetSystemCall(name, address)
        vfs.unregister()

    def take_away(self) -> None:
        """Give SQLite its own calls back."""
        vfs = apsw.VFS("system calls", "unix")
        for name in self._callbacks:
            vfs.xSetSystemCall(name, 0)
        vfs.unregister()

    def _write(self, descriptor: int, data: int, size: int, offset: int) -> int:
        fault = self.strike()
        if fault is None:
            return int(self._pwrite(descriptor, data, size, offset))
        if fault.is_full and size > 1 and self._pwrite(descriptor, data, size // 2, offset) < 0:
            return -1
        ctypes.set_errno(errno.ENOSPC if fault.is_full else errno.EIO)
        return -1

    def _truncate(self, descriptor: int, size: int) -> int:
        fault = self.strike()
        if fault is None:
            return int(self._ftruncate(descriptor, size))
        ctypes.set_errno(errno.ENOSPC if fault.is_full else errno.EIO)
        return -1


@contextmanager
def faulty_calls() -> Iterator[FaultyCalls]:
    """Let SQLite call FaultyCalls for the time of the block."""
    assert sys.platform == "linux"
    disk = FaultyCalls()
    disk.put_in_place()
    try:
        yield disk
    finally:
        disk.take_away()
