"""The indexes in this user's state folder: of which folder each is, and what removes one."""

from __future__ import annotations

import os
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from memsync.errors import IndexBusy
from memsync.settings.paths import index_dir
from memsync.sync.moved_root import recorded_roots
from memsync.sync.without_daemon import held, without_daemon
from memsync.system.user_folders import own_folder, state_folder

_FILES = ("index.db", "local.json", "sync.lock")
_NAME = re.compile(r".+-[0-9a-f]{32}(\.(of|before)-[\w-]+)?")


class IndexFolder(NamedTuple):
    """The folder of an index, and `kept`, the folder of what outlives it: the journal and the copies of `forget`.

    `root` is the folder of notes. It is empty if it is unknown, as it is for an index that was set aside for another
    root at the same path. `gone` tells whether no folder is at `root`.
    """

    root: str
    folder: str
    kept: str
    gone: bool
    bytes: int
    last_written: str


def stored_indexes() -> list[IndexFolder]:
    """Return the indexes in the state folder."""
    roots = {index_dir(root): root for root in recorded_roots()}
    found = []
    for folder in sorted(Path(state_folder()).glob("*")):
        files = [path.stat() for path in map(folder.joinpath, _FILES) if path.is_file()]
        if files and _NAME.fullmatch(folder.name):
            root, kept = roots.get(str(folder), ""), folder.parent / "kept" / folder.name
            is_gone = root != "" and not os.path.isdir(root)
            size, written = sum(file.st_size for file in files), max(file.st_mtime for file in files)
            moment = datetime.fromtimestamp(written, UTC).isoformat(timespec="seconds")
            found.append(IndexFolder(root, str(folder), str(kept), is_gone, size, moment))
    return found


def remove(index: IndexFolder) -> None:
    """Delete an index folder; a daemon whose folder of notes is gone is stopped.

    Raises IndexBusy while another daemon or a sync uses the index, FilesystemError, OSError.
    """
    folder, name = index.folder, index.root or index.folder
    own_folder(folder)
    busy = IndexBusy(
        f"a daemon or a sync uses the index of {name}", hint="Run memsync daemon stop there, and try again."
    )
    ended = without_daemon(folder, lambda: busy) if index.gone else held(f"{folder}/daemon.lock", lambda: busy, 0.0)
    with ended, held(f"{folder}/sync.lock", lambda: busy, 0.0):
        shutil.rmtree(folder)
