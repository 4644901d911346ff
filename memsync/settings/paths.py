"""Settings that are paths, and to which folder relative ones refer.

Uses str and os.path, because importing pathlib would take a tenth of the start of every command.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress

from memsync.errors import ConfigError, MemsyncError, RootError
from memsync.model.text import quoted
from memsync.settings.config_file import ConfigFile, paths_above, without_our_table
from memsync.system.birth import birth
from memsync.system.user_folders import STATE, digest_of, state_folder

_IDENTITY = "identity"
_ADD_PLACE = "INSERT INTO place SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM place WHERE folder = ?1)"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def current_folder() -> str:
    """Return the current folder; `/` if it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return "/"


def expanded(text: str, where: str) -> str:
    """Return a path with `~` replaced. Raises ConfigError for an impossible path or an unknown user."""
    path = os.path.expanduser(require_clean(text, where))
    if path.startswith("~"):
        raise ConfigError(f"{where}: {quoted(text)}: unknown user", hint="Write the full path.")
    return path


def require_clean(path: str, where: str) -> str:
    """Return a path. Raises ConfigError if it has a control character, which could begin a line of a service file."""
    if _CONTROL.search(path):
        reason = f"{where}: {quoted(path, 200)} is not a path: it has a control character"
        raise ConfigError(reason, hint="Rename or move the folder.")
    return path


def is_inside(path: str, folder: str) -> bool:
    """Tell whether a path is equal to a folder or inside it; both are absolute."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def real_places(places: Iterable[str]) -> list[str]:
    """Return places that a setting names, after all links. `~` and relative places are in the home."""
    home = os.path.expanduser("~")
    return [os.path.realpath(os.path.join(home, os.path.expanduser(place))) for place in places]


def is_in_any(folder: str, places: Iterable[str]) -> bool:
    """Tell whether a folder is inside one of the places that a setting names, where links lead to."""
    real = os.path.realpath(folder)
    return any(is_inside(real, place) for place in real_places(places))


def root_of(file: ConfigFile) -> str:
    """Return the memory root that a config file names, even if another setting overrides it."""
    named = os.path.expanduser(str(file.table("memsync").get("root", ".")))
    return os.path.join(os.path.dirname(file.path), named)


def resolve_root(named: str, where: str, base: str) -> str:
    """Return the memory root: an absolute path without links. `named` may be relative to `base`.

    `where` is the setting's source, for messages. Raises RootError if the root is not a folder.
    """
    written = os.path.join(base, expanded(named, where))
    root = require_clean(os.path.realpath(written), where)
    is_folder = os.path.isdir(root)
    if not is_folder and os.path.isabs(where):  # a file, which a stranger may have written
        reason = "is not a folder" if os.path.exists(root) else "does not exist"
        raise RootError(f"{where}: the memory root {quoted(named)} {reason}", hint="Mount it, or correct that file.")
    if not os.path.exists(root):
        raise RootError.absent(root, where)
    if not is_folder:
        raise RootError(f"{where}: the memory root {root} is not a folder", hint="Name the folder of your notes.")
    place = os.path.normpath(written)  # unless there are links before `..`: that path was never a root's real one
    known = kept_identity(place) if ".." not in written.split("/") and place != root else ""
    if known and not is_identity(folder_identity(root), known):
        reason = f"{where}: {place} was a memory root, and now a link leads from there to {root}"
        raise RootError(reason, hint="If you made the link, name the folder that it leads to.")
    return root


def index_dir(root: str) -> str:
    """Return the folder of a memory root's index."""
    return os.path.join(state_folder(), _state_name(root))


def keep_dir(root: str) -> str:
    """Return the folder for a memory root's data that outlives its index: the writers' lock and the journal."""
    return os.path.join(state_folder(), "kept", _state_name(root))


def folder_identity(root: str) -> str:
    """Return what tells a folder from another one at the same path. Raises OSError.

    That is its device and inode; the number of the file system, because two disks that are mounted in turn may share
    the other two; and when it was made, because a new folder often gets the inode of a deleted one.
    """
    status = os.stat(root)
    return f"{status.st_dev}:{status.st_ino}:{os.statvfs(root).f_fsid:x}:{birth(root)}"


def is_identity(identity: str, known: str) -> bool:
    """Tell whether a folder is the one that was known; earlier versions and some systems tell only the first parts."""
    shorter, longer = sorted((f"{identity.rstrip(':')}:", f"{known.rstrip(':')}:"), key=len)
    return bool(known) and longer.startswith(shorter)


def kept_identity(root: str) -> str:
    """Return the identity of the folder that was the memory root at this path; empty if none was."""
    folder = keep_dir(root)
    if os.path.exists(os.path.join(folder, STATE)):
        from memsync.system.state_file import state_of_root  # here, because few commands ask

        with suppress(MemsyncError):  # because a search answers even if the state is damaged
            return str(state_of_root(folder).single(_IDENTITY) or "")
    return ""


def made_by_init(folder: str) -> str:
    """Return the nearest memory root, from a folder upwards, whose config.toml belongs to another program.

    `memsync init` has left its identity. Empty if a config.toml of memsync is nearer, or if there is none.
    """
    for place in paths_above(folder):
        folder = os.path.dirname(place)
        if without_our_table(folder):
            known = kept_identity(os.path.realpath(folder))
            if known and is_identity(folder_identity(folder), known):
                return folder
        elif os.path.isfile(place):
            break
    return ""


def keep_identity(root: str, identity: str) -> None:
    """Remember which folder is the memory root at this path, and the path itself, even without its index.

    Raises FilesystemError, IndexBusy.
    """
    from memsync.system.state_file import state_of_root, state_of_user  # here, because few commands write

    state_of_root(keep_dir(root)).keep_single(_IDENTITY, identity)
    with suppress(MemsyncError):  # a folder that is known at another path was moved, see `sync.moved_root`
        state_of_user().write(_ADD_PLACE, (":".join(identity.split(":")[:2]), os.fsencode(root)))


def _state_name(root: str) -> str:
    """Return the name of a root's folders: the root's own name for people, and a digest that nobody can forge."""
    label = re.sub(r"[^\w.-]", "_", os.path.basename(root))[:40] or "root"
    return f"{label}-{digest_of(os.fsencode(root))[:32]}"
