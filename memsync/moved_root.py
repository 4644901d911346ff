"""A memory root that was moved or renamed keeps what memsync has of it: index, journal, counts, records.

All of that is in folders that are named after the root's path. Which path a folder had is written down by its identity
(device and inode), one small file each, so that finding it again costs one look, however many roots there are. Inodes
are used again, so the identity alone proves nothing: the old path must not lead to the folder any more, its index must
be of that identity, and one of its notes must be in the folder with the same stamp and content. Nothing that is written
in notes or config files counts.

Each folder is moved in one rename, the index last. So a process that was killed in between leaves a root without an
index, and the next one goes on from there. Another root may have been at the new path before and have moved, too. Its
folders are then renamed: its identity is added to their names, so that it finds them again.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from memsync.errors import FilesystemError
from memsync.setting_paths import default_index_dir, keep_dir
from memsync.user_folders import own_folder, state_folder

if TYPE_CHECKING:
    from pathlib import Path

    from memsync.errors import MemsyncError
    from memsync.ports import Index, IndexReader

WAIT_SECONDS = 10.0
POLL_SECONDS = 0.02
COMPARED_NOTES = 1_000
MOST_PATH_BYTES = 16_384


class Moved(NamedTuple):
    """Where a root was before, and whether a daemon was stopped that still served it there."""

    before: str
    was_served: bool


def recognise(
    root: str, index_dir: str, index_file: str, open_index: Callable[[Path], Index], *, is_placed: bool
) -> Moved | None:
    """Take over what was kept of this root under its old path, and remember its path.

    `index_dir` is the folder of its index, which stays where it is if a setting placed it there (`is_placed`). Returns
    None if nothing was taken over. Raises IndexBusy while another process holds what is to be moved, FilesystemError,
    and what opening the old index raises.
    """
    moved = None
    if before := _former_path(root):
        moved = _Move(before, root, index_dir, index_file, open_index, is_placed=is_placed).make()
    _remember(root)
    return moved


class _Move:
    """What is to be moved for a root that was at `before` and is at `root` now."""

    def __init__(
        self,
        before: str,
        root: str,
        index_dir: str,
        index_file: str,
        open_index: Callable[[Path], Index],
        *,
        is_placed: bool,
    ) -> None:
        self._before = before
        self._root = root
        self._index_file = index_file
        self._open_index = open_index
        own = self._identity()
        self._old_index = index_dir if is_placed else _left(default_index_dir(before), own)
        self._new_index = index_dir
        self._old_keep = _left(keep_dir(before), own)
        self._new_keep = keep_dir(root)
        self._displaced = ""
        """The identity of the root that was at this path before; empty if its index is gone."""

    def folders(self) -> list[tuple[str, str]]:
        """Return (old, new) of each folder that is to be moved, in order; none if the root has an index of its own.

        An index of the new path that is of another folder, which was there before, does not count.
        """
        is_placed = self._old_index == self._new_index
        if not os.path.exists(f"{self._old_index}/{self._index_file}"):
            return []
        if not is_placed and os.path.exists(f"{self._new_index}/{self._index_file}"):
            with self._read(self._new_index) as reader:
                self._displaced = reader.meta("root")
            if self._displaced in ("", self._identity()):
                return []
        kept = [(self._old_keep, self._new_keep)] if os.path.isdir(self._old_keep) else []
        return [*kept, *([] if is_placed else [(self._old_index, self._new_index)])]

    @contextmanager
    def _read(self, folder: str) -> Iterator[IndexReader]:
        """Yield a view of the index in a folder."""
        from pathlib import Path

        index = self._open_index(Path(folder) / self._index_file)
        try:
            with index.reading() as reader:
                yield reader
        finally:
            index.close()

    def _identity(self) -> str:
        from pathlib import Path

        from memsync.notes.files import NoteFiles

        return NoteFiles(Path(self._root)).root_identity()

    def is_of_this_root(self) -> bool:
        """Tell whether the index at the old place is this very folder's: some note is as it was indexed."""
        from pathlib import Path

        from memsync.errors import NoteError
        from memsync.notes.files import NoteFiles

        files = NoteFiles(Path(self._root))
        with self._read(self._old_index) as reader:
            if reader.meta("root") != files.root_identity():
                return False
            known = list(islice(reader.stamps().items(), COMPARED_NOTES))
        for path, stamp in known:
            if files.identity(path) == tuple(stamp[:4]):
                with suppress(FileNotFoundError, NoteError):  # opened without following links, unlike what `stat` saw
                    found = files.read(path)[1]
                    if found.identity == tuple(stamp[:4]) and found.digest == stamp.digest:
                        return True
        return False

    def make(self) -> Moved | None:
        """Wait until no process uses the folders, then move them.

        Return None if there is nothing to move, or if another process has moved it.
        """
        from pathlib import Path

        from memsync.file_lock import file_lock

        with ExitStack() as held:
            lock = Path(f"{_place(os.stat(self._root))}.lock")
            held.enter_context(file_lock(lock, WAIT_SECONDS, self._busy, poll_seconds=POLL_SECONDS))
            if not self.folders() or not self.is_of_this_root():
                return None
            was_served = False
            if self._old_index != self._new_index:
                was_served = held.enter_context(self._without_daemon())
                held.enter_context(self._held(f"{self._old_index}/sync.lock"))
            held.enter_context(self._held(f"{self._old_keep}/write.lock"))
            folders = self.folders()
            for old, new in folders:
                own_folder(old)
                _rename(old, new, self._displaced)
            return Moved(self._before, was_served) if folders else None

    @contextmanager
    def _without_daemon(self) -> Iterator[bool]:
        """Keep daemons away from the old index; one that serves a root that is gone is asked to end."""
        from memsync.daemon import client, wire
        from memsync.errors import DaemonUnavailable

        path = f"{self._old_index}/daemon.lock"
        with ExitStack() as held:
            try:
                held.enter_context(self._held(path, 0.0))
            except BlockingIOError:
                with suppress(DaemonUnavailable):
                    client.end(wire.socket_path(self._old_index))
                held.enter_context(self._held(path))
                yield True
            else:
                yield False

    @contextmanager
    def _held(self, path: str, wait_seconds: float = WAIT_SECONDS) -> Iterator[None]:
        """Hold a kernel lock on an existing file. Without the file, hold nothing and do not create it."""
        import fcntl
        import time

        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            yield
            return
        try:
            limit = time.monotonic() + wait_seconds
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if not wait_seconds:
                        raise
                    if time.monotonic() >= limit:
                        raise self._busy("another process") from None
                    time.sleep(POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def _busy(self, holder: str) -> MemsyncError:
        from memsync.errors import IndexBusy

        return IndexBusy(
            f"{holder} still uses what memsync keeps of {self._before}, which is {self._root} now",
            hint="End the memsync processes that were started for the old path, then try again.",
        )


def _left(folder: str, identity: str) -> str:
    """Return the path of a root's folder: `folder`, or the name it got when another root took that path."""
    aside = _aside(folder, identity)
    return aside if os.path.isdir(aside) else folder


def _aside(folder: str, identity: str) -> str:
    return f"{folder}.of-{identity.replace(':', '-')}"


def _rename(old: str, new: str, displaced: str) -> None:
    """Move a folder to a name. A folder that has that name already gets its root's identity added to its name."""
    import time

    try:
        with suppress(OSError):  # it is not there, or not empty
            os.rmdir(new)
        if os.path.lexists(new):
            aside = _aside(new, displaced)
            if not displaced or os.path.lexists(aside):
                aside = f"{new}.before-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}"
            os.rename(new, aside)
        os.rename(old, new)
        descriptor = os.open(os.path.dirname(new), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise FilesystemError(
            f"{old} cannot be renamed to {new}: {error.strerror}", hint="Check its folder."
        ) from error


# ----------------------------------------------------------------------------------- which path it had


def _former_path(root: str) -> str:
    """Return the former path of this memory root; empty if the path has not changed.

    A link that was left at the old path leads to the folder, but roots go by their real paths.
    """
    try:
        found = os.stat(root)
    except OSError:
        return ""
    before = _recorded(_place(found))
    if before in ("", root):
        return ""
    try:
        there = os.stat(before)
    except (FileNotFoundError, NotADirectoryError):
        return before
    except OSError:  # nobody can tell what is there
        return ""
    is_there = (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino)
    return "" if is_there and os.path.realpath(before) == before else before


def _remember(root: str) -> None:
    """Write down the path of this folder, unless it is known, or has another real one.

    What cannot be written costs no more than that a moved root is not recognised.
    """
    with suppress(OSError, FilesystemError):
        place = _place(os.stat(root))
        known = _recorded(place)
        if known == root or (known and not _former_path(root)):
            return
        own_folder(os.path.dirname(place))
        aside = f"{place}.{os.getpid()}"
        with open(aside, "wb", opener=_private) as stream:
            stream.write(os.fsencode(root))
        os.replace(aside, place)


def _recorded(place: str) -> str:
    """Return the path that is written down at a place, empty if there is none, or it is not this user's own."""
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            return ""
        path = os.fsdecode(os.read(descriptor, MOST_PATH_BYTES))
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    return path if os.path.isabs(path) and "\0" not in path else ""


def _place(found: os.stat_result) -> str:
    """Return where the path of a folder is written down; spread over folders, because listing a long one takes time."""
    return os.path.join(state_folder(), "roots", f"{found.st_ino & 0xFF:02x}", f"{found.st_dev}-{found.st_ino}")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
