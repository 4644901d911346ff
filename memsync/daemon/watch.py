"""Watch a memory root with watchdog, and detect when its reports of changes are no longer reliable.

A report only says where to look, not what changed. Reports can get lost: the queue overflows, the system has too few
watches, a thread dies, the root is replaced. None of these raises an error, so this module checks for each of them.
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
from typing import Any, Protocol

from watchdog import events
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver
from watchdog.utils import BaseThread

from memsync.notes.ignore import is_hidden


class Watching(Protocol):
    """Reports the paths of files that may have changed."""

    def start(self) -> None:
        """Start watching. Raises OSError."""

    def stop(self) -> None:
        """Stop watching."""

    def fault(self) -> str:
        """Return why reports are no longer reliable; empty text if they are."""

    def unwatched(self, folder_inodes: list[int]) -> int | None:
        """Return how many of these folders are not watched; None if the system cannot tell."""


MakeWatcher = Callable[[Callable[[str], None], Callable[[str], None]], Watching]
"""Makes a watcher of two callbacks: one takes each reported path, the other the reason why reports were lost."""


_EVENTS: list[type[events.FileSystemEvent]] = [
    # Before version 7, watchdog reports a folder's new mode like any change in it, and a file's as a change.
    getattr(events, "DirAttribEvent", events.DirModifiedEvent),
    events.DirCreatedEvent,
    events.DirDeletedEvent,
    events.DirMovedEvent,
    getattr(events, "FileAttribEvent", events.FileModifiedEvent),
    events.FileClosedEvent,
    events.FileCreatedEvent,
    events.FileDeletedEvent,
    events.FileModifiedEvent,
    events.FileMovedEvent,
]
STOP_SECONDS = 2.0


class Watcher:
    """Watches one memory root.

    `on_path` is called with each root-relative path that may have changed (empty for the root itself); `on_lost` is
    called with the reason when reports were lost. Both run on watchdog's threads and must return at once.
    """

    def __init__(self, root: Path, on_path: Callable[[str], None], on_lost: Callable[[str], None]) -> None:
        self._root = root
        self._on_path = on_path
        self._complaints = _Complaints(on_lost)
        self._observer: BaseObserver | None = None
        self._identity: tuple[int, int] | None = None

    def start(self) -> None:
        """Start watching. Raises OSError if the root is gone or the system has no watches left."""
        self._identity = _identity_of(self._root)
        observer = Observer()
        root = os.fspath(self._root)
        observer.schedule(_Handler(root, self._on_path), root, recursive=True, event_filter=_EVENTS)
        logging.getLogger("watchdog").addHandler(self._complaints)
        try:
            observer.start()
        except BaseException:
            logging.getLogger("watchdog").removeHandler(self._complaints)
            _end(observer)  # it may already have started threads
            raise
        self._observer = observer

    def stop(self) -> None:
        """Stop watching; do not wait longer than STOP_SECONDS for a thread that hangs."""
        logging.getLogger("watchdog").removeHandler(self._complaints)
        observer, self._observer = self._observer, None
        if observer is not None:
            ending = threading.Thread(target=_end, args=(observer,), name="watch-end", daemon=True)
            ending.start()
            ending.join(STOP_SECONDS)

    def fault(self) -> str:
        """Return why reports are no longer reliable; empty text if they are."""
        observer = self._observer
        if observer is None:
            return "nothing watches the memory root"
        if not all(thread.is_alive() for thread in _threads(observer)):
            return "the thread that watches the memory root has died"
        if _identity_of(self._root) != self._identity:
            return "the memory root was replaced"
        return ""

    def unwatched(self, folder_inodes: Iterable[int]) -> int | None:
        """Return how many of these folders are not watched; None if the system cannot tell."""
        watched = _watched_inodes()
        return None if watched is None else sum(inode not in watched for inode in folder_inodes)


class _Handler(events.FileSystemEventHandler):
    """Passes on the path of each event, except hidden files and folders: they contain no notes."""

    def __init__(self, root: str, on_path: Callable[[str], None]) -> None:
        self._prefix = root.rstrip("/") + "/"
        self._on_path = on_path

    def on_any_event(self, event: events.FileSystemEvent) -> None:
        for event_path in (event.src_path, event.dest_path):
            path = os.fsdecode(event_path)
            if path.startswith(self._prefix):
                relative = path[len(self._prefix) :]
                folder, _, name = relative.rpartition("/")
                relative = folder if name == ".gitignore" else relative
                if not is_hidden(relative):
                    self._on_path(relative)


class _Complaints(logging.Handler):
    """Treats each warning of watchdog as lost reports: a warning is its only sign of an overflowing queue.

    Before version 7 there is none: the next full comparison finds what was lost.
    """

    def __init__(self, on_lost: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._on_lost = on_lost

    def emit(self, record: logging.LogRecord) -> None:
        self._on_lost("the queue of reports overflowed" if "overflow" in record.msg else "watchdog reported a fault")


def _threads(observer: BaseObserver) -> list[BaseThread]:
    """Return the threads that read reports from the kernel, sort them and deliver them; all of them must be alive.

    The reader has no public name, and macOS has none. It dies silently when watchdog loses track of folders that were
    moved to the same path.
    """
    parts = [(observer, "_inotify_fd"), *((emitter, "_inotify") for emitter in observer.emitters)]  # since 7; before it
    readers = [getattr(part, name, None) for part, name in parts]
    return [*(reader for reader in readers if isinstance(reader, BaseThread)), *observer.emitters, observer]


def _end(observer: BaseObserver) -> None:
    """Stop every thread of an observer, even if watchdog's own tables are wrong and it raises KeyError."""
    threads = _threads(observer)
    tables: list[Any] = [getattr(thread, "_inotify", None) for thread in threads]
    tables = [table for table in tables if hasattr(table, "deactivate")]
    for thread in threads:
        with suppress(KeyError):
            thread.stop()
    for table in tables:
        while True:  # each KeyError removes one wrong entry; only the call that succeeds releases waiting threads
            with suppress(KeyError):
                table.deactivate()
                break
    for thread in threads:
        if thread.ident is not None:
            thread.join()


def _identity_of(root: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(root)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _watched_inodes() -> set[int] | None:
    """Return the inodes that this process watches through inotify, read from /proc; None if they cannot be read."""
    if sys.platform != "linux":
        return None
    watched: set[int] = set()
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:  # the process has no file descriptor left
        return None
    for name in names:
        with suppress(OSError):  # closed in the meantime
            if os.readlink(f"/proc/self/fd/{name}") == "anon_inode:inotify":
                lines = Path(f"/proc/self/fdinfo/{name}").read_text()
                inodes = re.findall(r"^inotify wd:\S+ ino:(\w+)", lines, re.MULTILINE)
                watched.update(int(inode, 16) for inode in inodes)
    return watched
