"""A disk that writes down all that SQLite and memsync do to the files of an index: contents, names and syncs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import apsw

from tests.support.faulty_database import Name

_WITH_FOLDER = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes written to a file."""

    path: str
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    """A file cut or extended to a size."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Sync:
    """A file, or the folder itself (an empty path)."""

    path: str


@dataclass(frozen=True, slots=True)
class Named:
    """A name that was made (`old` empty), changed, or removed (`new` empty)."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A state of the index at `path` that was committed before this moment; empty for an index of nothing."""

    path: str
    state: str


Event = Write | Truncate | Sync | Named | Mark


class _RecordedFile(apsw.VFSFile):
    def __init__(self, disk: RecordingDisk, name: Name, flags: list[int]) -> None:
        self._path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        self._record = disk.record
        known = not self._path or os.path.exists(self._path)
        super().__init__(disk.base, name, flags)
        if not known:
            self._record(Named("", self._path))
        # What SQLite's VFS for Unix does at the first sync of a journal it was to create.
        self._syncs_folder = bool(flags[0] & apsw.SQLITE_OPEN_CREATE and flags[0] & _WITH_FOLDER)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802 because SQLite names it
        super().xWrite(data, offset)
        self._record(Write(self._path, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 because SQLite names it
        super().xTruncate(newsize)
        self._record(Truncate(self._path, newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802 because SQLite names it
        """Record the sync; this machine is to keep its power."""
        self._record(Sync(self._path))
        if self._syncs_folder:
            self._record(Sync(""))
            self._syncs_folder = False


class RecordingDisk(apsw.VFS):
    """SQLite's VFS for this system, as the default one; what happens in `folder` is added to `events`."""

    def __init__(self, folder: Path) -> None:
        self.base = apsw.vfs_names()[0]
        self.folder = str(folder)
        self.events: list[Event] = []
        super().__init__("recording", self.base, makedefault=True)

    def xOpen(self, name: Name, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 because SQLite names it
        return _RecordedFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 because SQLite names it
        super().xDelete(filename, syncdir)
        self.record(Named(filename, ""))
        if syncdir:
            self.record(Sync(""))

    def record(self, event: Event) -> None:
        paths = (event.old, event.new) if isinstance(event, Named) else (event.path,)
        if any(os.path.dirname(path) == self.folder for path in paths) or event == Sync(""):
            self.events.append(event)


@contextmanager
def recording_disk(folder: Path) -> Iterator[RecordingDisk]:
    """Record what happens to the files in `folder` for the time of the block, through SQLite and through `os`."""
    disk = RecordingDisk(folder)
    try:
        with ExitStack() as stack:
            for name, record in _watched(disk).items():
                stack.enter_context(patch.object(os, name, _recorded(getattr(os, name), record)))
            yield disk
    finally:
        disk.unregister()


def _recorded(real: Callable[..., Any], record: Callable[..., Callable[[], None]]) -> Callable[..., Any]:
    def call(*arguments: Any, **keywords: Any) -> Any:
        then = record(*arguments)
        result = real(*arguments, **keywords)
        then()
        return result

    return call


def _watched(disk: RecordingDisk) -> dict[str, Callable[..., Callable[[], None]]]:
    """Return for each function of `os` that changes names what looks at its arguments before, and records after."""

    def nothing() -> None:
        pass

    def opened(path: Any, flags: int = 0, *rest: Any) -> Callable[[], None]:
        if not flags & os.O_CREAT or os.path.exists(path):
            return nothing
        return lambda: disk.record(Named("", str(path)))

    def renamed(old: Any, new: Any) -> Callable[[], None]:
        return lambda: disk.record(Named(str(old), str(new)))

    def removed(path: Any, *rest: Any) -> Callable[[], None]:
        return lambda: disk.record(Named(str(path), ""))

    def synced(descriptor: int) -> Callable[[], None]:
        if os.fstat(descriptor).st_ino != os.stat(disk.folder).st_ino:
            return nothing
        return lambda: disk.record(Sync(""))

    return {"open": opened, "rename": renamed, "replace": renamed, "unlink": removed, "fsync": synced}
