"""Reports of changed files, by watchdog, and whether they can be relied on.

A report is a hint: it says where to look, never what is there. That reports can get lost (an overflowing queue, too
few watches, a dead thread, a replaced root) raises no error anywhere, so this module looks for the signs.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from watchdog.events import (
    DirAttribEvent,
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileAttribEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver
from watchdog.utils import BaseThread


class Watching(Protocol):
    """Reports where something may have changed."""

    def start(self) -> None:
        """Begin to watch. Raises OSError."""

    def stop(self) -> None:
        """End watching."""

    def fault(self) -> str:
        """Return why reports can no longer be relied on, or empty text."""

    def unwatched(self, folder_inodes: list[int]) -> int | None:
        """Return how many folders no watch is on."""


MakeWatcher = Callable[[Callable[[str], None], Callable[[str], None]], Watching]
"""Given where to report a path to, and where to tell why reports were lost."""


_EVENTS: list[type[FileSystemEvent]] = [
    DirAttribEvent,
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileAttribEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
]
STOP_SECONDS = 2.0


class Watcher:
    """Watches one memory root: `on_path` is called with each root-relative path, `on_lost` when reports were lost.

    The path of the root itself is empty. Both are called on watchdog's threads and must return at once.
    """

    def __init__(self, root: Path, on_path: Callable[[str], None], on_lost: Callable[[str], None]) -> None:
        self._root = root
        self._on_path = on_path
        self._complaints = _Complaints(on_lost)
        self._observer: BaseObserver | None = None
        self._identity: tuple[int, int] | None = None

    def start(self) -> None:
        """Begin to watch. Raises OSError when the system refuses: the root is gone, or there are no watches left."""
        self._identity = _identity_of(self._root)
        observer = Observer()
        observer.schedule(
            _Handler(os.fspath(self._root), self._on_path), os.fspath(self._root), recursive=True, event_filter=_EVENTS
        )
        logging.getLogger("watchdog").addHandler(self._complaints)
        try:
            observer.start()
        except BaseException:
            logging.getLogger("watchdog").removeHandler(self._complaints)
            _end(observer)  # it has opened and started things already
            raise
        self._observer = observer

    def stop(self) -> None:
        """End watching; a thread that hangs is left behind."""
        logging.getLogger("watchdog").removeHandler(self._complaints)
        observer, self._observer = self._observer, None
        if observer is not None:
            ending = threading.Thread(target=_end, args=(observer,), name="watch-end", daemon=True)
            ending.start()
            ending.join(STOP_SECONDS)

    def fault(self) -> str:
        """Return why reports can no longer be relied on, or empty text."""
        observer = self._observer
        if observer is None:
            return "nothing watches the memory root"
        if not all(thread.is_alive() for thread in _threads(observer)):
            return "the thread that watches the memory root has died"
        if _identity_of(self._root) != self._identity:
            return "the memory root was replaced"
        return ""

    def unwatched(self, folder_inodes: Iterable[int]) -> int | None:
        """Return how many of these folders no watch is on; None where the system does not tell."""
        watched = _watched_inodes()
        return None if watched is None else sum(inode not in watched for inode in folder_inodes)


class _Handler(FileSystemEventHandler):
    """Passes on where something happened, and leaves out what no note can be beneath: hidden files and folders."""

    def __init__(self, root: str, on_path: Callable[[str], None]) -> None:
        self._prefix = root.rstrip("/") + "/"
        self._on_path = on_path

    def on_any_event(self, event: FileSystemEvent) -> None:
        for place in (event.src_path, event.dest_path):
            path = os.fsdecode(place)
            if path.startswith(self._prefix):
                relative = path[len(self._prefix) :]
                folder, _, name = relative.rpartition("/")
                relative = folder if name == ".gitignore" else relative
                if not any(part.startswith(".") for part in relative.split("/")):
                    self._on_path(relative)


class _Complaints(logging.Handler):
    """Takes whatever watchdog warns of for a loss: that is all it does when the system's queue overflows."""

    def __init__(self, on_lost: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._on_lost = on_lost

    def emit(self, record: logging.LogRecord) -> None:
        self._on_lost("the queue of reports overflowed" if "overflow" in record.msg else "watchdog reported a fault")


def _threads(observer: BaseObserver) -> list[BaseThread]:
    """Return the threads that must live for reports to come: who takes them from the kernel, sorts and delivers them.

    The first dies unseen when watchdog loses count of the folders that were moved to one path; no public name leads to
    it. On macOS there is none.
    """
    reader = getattr(observer, "_inotify_fd", None)
    return [*([reader] if isinstance(reader, BaseThread) else []), *observer.emitters, observer]


def _end(observer: BaseObserver) -> None:
    """Stop every thread of an observer, also when watchdog fails on its own books (KeyError) while it does."""
    threads = _threads(observer)
    books = [found for found in (getattr(thread, "_inotify", None) for thread in threads) if found is not None]
    for thread in threads:
        with suppress(KeyError):
            thread.stop()
    for book in books:
        while True:  # each failure takes one wrong entry out; only at the end are those who wait for reports let go
            with suppress(KeyError):
                book.deactivate()
                break
    for thread in threads:
        if thread.ident is not None:
            thread.join()


def _identity_of(root: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(root)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _watched_inodes() -> set[int] | None:
    """Return the inodes that this process has inotify watches on, as the kernel tells it; None on other systems."""
    if sys.platform != "linux":
        return None
    watched: set[int] = set()
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:  # no descriptor left to look with
        return None
    for name in names:
        try:
            if os.readlink(f"/proc/self/fd/{name}") == "anon_inode:inotify":
                lines = Path(f"/proc/self/fdinfo/{name}").read_text()
                watched.update(
                    int(inode, 16) for inode in re.findall(r"^inotify wd:\S+ ino:(\w+)", lines, re.MULTILINE)
                )
        except OSError:  # closed meanwhile
            continue
    return watched
