"""The file system as memsync's reading side meets it: real files, with the world's stamps, refusals and bad moments."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from memsync.notes import files, unfinished_saves
from memsync.search import anchor
from tests.convergence.clock import SimulatedClock


@dataclass(frozen=True, slots=True)
class SimulatedStat:
    """A stat result with the world's stamps."""

    st_dev: int
    st_ino: int
    st_mode: int
    st_size: int
    st_mtime_ns: int
    st_ctime_ns: int


class SimulatedEntry:
    """One entry of a listing, looked at when asked, as os.DirEntry does."""

    def __init__(self, system: SimulatedFileSystem, entry: os.DirEntry[str]) -> None:
        self._system = system
        self._entry = entry
        self.name = entry.name
        self.path = entry.path

    def stat(self, *, follow_symlinks: bool = True) -> SimulatedStat:
        return self._system.stat(self.path, follow_symlinks=follow_symlinks)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._entry.is_dir(follow_symlinks=follow_symlinks)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._entry.is_file(follow_symlinks=follow_symlinks)

    def is_symlink(self) -> bool:
        return self._entry.is_symlink()

    def inode(self) -> int:
        return self._entry.inode()


class SimulatedFileSystem:
    """Stands where memsync.notes.files looks for `os`.

    `stamps` are (mtime, ctime) by inode; `denied` inodes cannot be opened, listed or passed through (what chmod 000
    does to anybody but root); `ambush` makes something happen in the middle of memsync's own calls.
    """

    def __init__(self, clock: SimulatedClock) -> None:
        self._clock = clock
        self._ambush: tuple[int, Callable[[], None]] | None = None
        self.stamps: dict[int, tuple[int, int]] = {}
        self.denied: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def time_ns(self) -> int:
        """Stand in for clock.time_ns."""
        return self._clock.time_ns()

    def monotonic(self) -> float:
        """Stand in for time.monotonic."""
        return self._clock.monotonic()

    def sleep(self, seconds: float) -> None:
        """Stand in for time.sleep."""
        self._clock.sleep(seconds)

    def ambush(self, calls: int, action: Callable[[], None]) -> None:
        """Let `action` happen at the so-many-th call from now on."""
        self._ambush = (calls, action)

    def disarm(self) -> None:
        """Call an ambush off."""
        self._ambush = None

    def scandir(self, path: str) -> list[SimulatedEntry]:
        self._deny(path)
        if self.denied and os.stat(path).st_ino in self.denied:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        with os.scandir(path) as listing:
            entries = [SimulatedEntry(self, entry) for entry in sorted(listing, key=lambda entry: entry.name)]
        self._called()
        return entries

    def stat(self, path: Any, *, follow_symlinks: bool = True) -> SimulatedStat:
        self._called()
        self._deny(path)
        return self._seen(os.stat(path, follow_symlinks=follow_symlinks))

    def fstat(self, descriptor: int) -> SimulatedStat:
        self._called()
        return self._seen(os.fstat(descriptor))

    def open(self, path: Any, flags: int, *, dir_fd: int | None = None) -> int:
        self._called()
        if self.denied:
            found = os.stat(path, dir_fd=dir_fd, follow_symlinks=False)
            if found.st_ino in self.denied and not stat.S_ISLNK(found.st_mode):
                raise PermissionError(errno.EACCES, "Permission denied", path)
        return os.open(path, flags, dir_fd=dir_fd)

    def read(self, descriptor: int, size: int) -> bytes:
        self._called()
        return os.read(descriptor, size)

    def _seen(self, found: os.stat_result) -> SimulatedStat:
        mtime, ctime = self.stamps.get(found.st_ino, (0, 0))
        return SimulatedStat(found.st_dev, found.st_ino, found.st_mode, found.st_size, mtime, ctime)

    def _deny(self, path: Any) -> None:
        """Refuse what lies beneath a denied folder."""
        folder = os.path.dirname(os.fspath(path).rstrip("/"))
        while self.denied and len(folder) > 1:
            if os.path.exists(folder) and os.stat(folder).st_ino in self.denied:
                raise PermissionError(errno.EACCES, "Permission denied", path)
            folder = os.path.dirname(folder)

    def _called(self) -> None:
        if self._ambush is None:
            return
        calls, action = self._ambush
        self._ambush = (calls - 1, action) if calls > 0 else None
        if calls == 0:
            action()


@contextmanager
def mounted(system: SimulatedFileSystem) -> Iterator[None]:
    """Let memsync see files and time as the world has them."""
    with ExitStack() as stack:
        for module, name in ((files, "clock"), (unfinished_saves, "clock"), (anchor, "time")):
            stack.enter_context(mock.patch.object(module, name, system))
        stack.enter_context(mock.patch.object(files, "os", system))
        yield
