"""The indexes in this user's state folder: of which folder each is, and what removes one."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from datetime import UTC, datetime
from typing import NamedTuple

from memsync.errors import FilesystemError, IndexBusy
from memsync.settings.paths import default_index_dir
from memsync.sync.moved_root import recorded_roots
from memsync.sync.without_daemon import held, without_daemon
from memsync.system.user_folders import own_folder, state_folder

_NAME = re.compile(r".+-[0-9a-f]{32}(\.(of|before)-[\w-]+)?")
_OWN_FILES = {"index.db", "sync.lock"}


class StoredIndex(NamedTuple):
    """An index folder, and whether no folder of notes is at `root` any more.

    `root` is empty if it is unknown. That is so for an index that was set aside for another root at the same path.
    """

    root: str
    folder: str
    gone: bool
    bytes: int
    last_written: str

    @property
    def kept(self) -> str:
        """The folder of what outlives this index, which `remove` leaves alone."""
        return os.path.join(state_folder(), "kept", os.path.basename(self.folder))


def stored_indexes() -> list[StoredIndex]:
    """Return the indexes in the state folder. An index that `index.dir` placed elsewhere is not among them."""
    roots = {default_index_dir(root): root for root in recorded_roots()}
    top = state_folder()
    found = []
    for name in sorted(os.listdir(top) if os.path.isdir(top) else ()):
        folder = os.path.join(top, name)
        if _NAME.fullmatch(name) and os.path.isdir(folder) and not _OWN_FILES.isdisjoint(os.listdir(folder)):
            root = roots.get(folder, "")
            states = [entry.stat(follow_symlinks=False) for entry in os.scandir(folder)]
            written = datetime.fromtimestamp(max(state.st_mtime for state in states), UTC).isoformat(timespec="seconds")
            found.append(StoredIndex(root, folder, _is_gone(root), sum(state.st_size for state in states), written))
    return found


def _is_gone(root: str) -> bool:
    """Tell whether no folder is at a path; False if that is unknown, for example without permission."""
    try:
        os.stat(f"{root}/")
    except OSError as error:
        return root != "" and isinstance(error, (FileNotFoundError, NotADirectoryError))
    return False


def remove(index: StoredIndex) -> None:
    """Delete an index folder; a daemon whose folder of notes is gone is stopped.

    Raises IndexBusy while another daemon or a sync uses the index, FilesystemError.
    """
    hint = f"Run: memsync --root {shlex.quote(index.root)} stop" if index.root else "Try again when it has ended."
    busy = IndexBusy(f"a daemon or a sync uses the index of {index.root or index.folder}", hint=hint)
    try:
        own_folder(index.folder)
        daemon = f"{index.folder}/daemon.lock"
        ended = without_daemon(index.folder, lambda: busy) if index.gone else held(daemon, lambda: busy, 0.0)
        with ended, held(f"{index.folder}/sync.lock", lambda: busy, 0.0):
            shutil.rmtree(index.folder)
    except OSError as error:
        raise FilesystemError(f"{error.filename}: {error.strerror}", hint="Check its folder.") from error
