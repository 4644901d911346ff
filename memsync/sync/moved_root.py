"""Recognises a memory root that was moved or renamed, and keeps its index, journal, counts and records.

That data is in folders named after the root's path. For the identity of every root folder (device and
inode), the state of the user has its path, so that one lookup finds the old path. Systems reuse inodes, so the
identity alone proves nothing. In addition the old path must no longer lead to the folder, the old index must be of
that identity, and at least one indexed note must be in the folder with the same stamp and content. The content of
notes and config files has no influence.

Each folder is moved in one rename, the index last. So a process that was killed in between leaves a root without an
index, and the next one goes on from there. Another root may have been at the new path before and have moved, too. Its
folders are then renamed: its identity is added to their names, so that it finds them again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from memsync.errors import MemsyncError
from memsync.settings.paths import index_dir, is_identity, keep_dir
from memsync.system.state_file import state_of_user
from memsync.system.user_folders import filesystem_errors, own_folder, sync_folder, user_folder

if TYPE_CHECKING:
    from pathlib import Path

    from memsync.ports import Index, IndexReader

WAIT_SECONDS = 10.0
COMPARED_NOTES = 1_000


class MovedRoot(NamedTuple):
    """The former path of a root, and whether a daemon still served it there and was stopped."""

    before: str
    was_served: bool


def recognise(root: str, index_file: str, open_index: Callable[[Path], Index]) -> MovedRoot | None:
    """Move the data of this root from its old path to the current one, and remember the current path.

    Returns None if nothing was moved. Raises IndexBusy while another process uses the old data, FilesystemError, and
    the errors of opening the old index.
    """
    moved = None
    if before := _former_path(root):
        moved = _Move(before, root, index_file, open_index).make()
    _remember(root)
    return moved


class _Move:
    """Moves the data of a root that was at `before` and is now at `root`."""

    def __init__(self, before: str, root: str, index_file: str, open_index: Callable[[Path], Index]) -> None:
        from pathlib import Path

        from memsync.notes.files import NoteFiles

        self._before = before
        self._root = root
        self._index_file = index_file
        self._open_index = open_index
        self._files = NoteFiles(Path(root))
        self._identity = self._files.root_identity()
        self._old_index = _left(index_dir(before), self._identity)
        self._new_index = index_dir(root)
        self._old_keep = _left(keep_dir(before), self._identity)
        self._new_keep = keep_dir(root)
        self._displaced = ""
        """The identity of the root that was at this path before; empty if its index is gone."""

    def folders(self) -> list[tuple[str, str]]:
        """Return (old, new) of each folder to move, in order; empty if the root already has its own index.

        An index at the new path that belongs to another folder, which was there before, does not count.
        """
        if not os.path.exists(f"{self._old_index}/{self._index_file}"):
            return []
        if os.path.exists(f"{self._new_index}/{self._index_file}"):
            with self._read(self._new_index) as reader:
                self._displaced = reader.meta("root")
            if not self._displaced or is_identity(self._identity, self._displaced):
                return []
        kept = [(self._old_keep, self._new_keep)] if os.path.isdir(self._old_keep) else []
        return [*kept, (self._old_index, self._new_index)]

    @contextmanager
    def _read(self, folder: str) -> Iterator[IndexReader]:
        from pathlib import Path

        with closing(self._open_index(Path(folder) / self._index_file)) as index, index.reading() as reader:
            yield reader

    def is_of_this_root(self) -> bool:
        """Tell whether the old index belongs to this folder: at least one note must be as it was indexed."""
        from memsync.errors import NoteError

        with self._read(self._old_index) as reader:
            if not is_identity(self._identity, reader.meta("root")):
                return False
            known = list(islice(reader.stamps().items(), COMPARED_NOTES))
        for path, stamp in known:
            if self._files.identity(path) == tuple(stamp[:4]):
                with suppress(FileNotFoundError, NoteError):  # `read` follows no links, unlike `identity`
                    current = self._files.read(path)[1]
                    if current.identity == tuple(stamp[:4]) and current.digest == stamp.digest:
                        return True
        return False

    def make(self) -> MovedRoot | None:
        """Wait until no process uses the folders, then move them.

        Return None if there is nothing to move, or if another process has moved it.
        """
        from pathlib import Path

        from memsync.system.file_lock import file_lock

        with ExitStack() as locks:
            locks.enter_context(file_lock(Path(user_folder(), "moving.lock"), WAIT_SECONDS, self._busy))
            if not self.folders() or not self.is_of_this_root():
                return None
            was_served = locks.enter_context(unused(self._old_index, self._old_keep, self._busy))
            folders = self.folders()
            for old, new in folders:
                own_folder(old)
                _rename(old, new, self._displaced)
            return MovedRoot(self._before, was_served) if folders else None

    def _busy(self, holder: str = "another process") -> MemsyncError:
        from memsync.errors import IndexBusy

        return IndexBusy(
            f"{holder} still uses the memsync data of {self._before}, which was moved to {self._root}",
            hint="End the memsync processes that were started for the old path, then try again.",
        )


@contextmanager
def unused(index: str, keep: str, busy: Callable[[], MemsyncError]) -> Iterator[bool]:
    """Keep all processes from a root's index and records; yield whether a daemon served it, which was ended.

    Raises `busy()` if that takes too long.
    """
    from memsync.sync.without_daemon import held, without_daemon

    with (
        without_daemon(index, busy) as was_served,
        held(f"{index}/sync.lock", busy, WAIT_SECONDS),
        held(f"{keep}/write.lock", busy, WAIT_SECONDS),
    ):
        yield was_served


def _left(folder: str, identity: str) -> str:
    """Return the path of a root's folder: `folder`, or the name it got when another root took that path."""
    aside = _aside(folder, identity)
    return aside if os.path.isdir(aside) else folder


def _aside(folder: str, identity: str) -> str:
    return f"{folder}.of-{identity.replace(':', '-')}"


def _rename(old: str, new: str, displaced: str) -> None:
    """Move a folder to a name. A folder that has that name already gets its root's identity added to its name."""
    with filesystem_errors(f"{old} cannot be renamed to {new}", "Check its folder."):
        with suppress(OSError):  # it does not exist or is not empty
            os.rmdir(new)
        set_aside(new, displaced)
        os.rename(old, new)
        sync_folder(os.path.dirname(new))


def set_aside(folder: str, identity: str) -> None:
    """Rename a folder of a root that was at this path before, so that the root of this identity finds it again.

    Raises OSError.
    """
    from memsync.system import clock

    if os.path.lexists(folder):
        aside = _aside(folder, identity)
        if not identity or os.path.lexists(aside):
            aside = f"{folder}.before-{clock.now():%Y%m%dT%H%M%S}-{os.getpid()}"
        os.rename(folder, aside)


# --------------------------------------------------------------------------------------- former paths


def _former_path(root: str) -> str:
    """Return the former path of this memory root; empty if the path has not changed.

    A link at the old path that leads to the folder does not count, because roots are known by their real paths.
    """
    try:
        status = os.stat(root)
    except OSError:
        return ""
    before = _recorded(status)
    if before in ("", root):
        return ""
    try:
        at_old_path = os.stat(before)
    except (FileNotFoundError, NotADirectoryError):
        return before
    except OSError:  # unknown whether the folder is still there
        return ""
    is_same = (at_old_path.st_dev, at_old_path.st_ino) == (status.st_dev, status.st_ino)
    return "" if is_same and os.path.realpath(before) == before else before


def _remember(root: str) -> None:
    """Store the path of this folder, unless it is stored already or the stored path still leads to the folder.

    Ignores errors: the only effect is that the root will not be recognised after a move.
    """
    with suppress(OSError, MemsyncError):
        status = os.stat(root)
        known = _recorded(status)
        if known == root or (known and not _former_path(root)):
            return
        state_of_user().write("REPLACE INTO place VALUES (?, ?)", (_folder_of(status), os.fsencode(root)))


def recorded_roots() -> set[str]:
    """Return the paths of all memory roots that this user has or had, as far as they are stored."""
    return {os.fsdecode(path) for (path,) in state_of_user().rows("SELECT path FROM place")}


def _recorded(status: os.stat_result) -> str:
    """Return the path at which a folder was last; empty if it is not known."""
    known = "SELECT path FROM place WHERE folder = ? ORDER BY rowid DESC LIMIT 1"
    with suppress(MemsyncError):
        for (path,) in state_of_user().rows(known, (_folder_of(status),)):
            return os.fsdecode(path)
    return ""


def _folder_of(status: os.stat_result) -> str:
    return f"{status.st_dev}:{status.st_ino}"
