"""Settings that are paths, and where relative ones count from.

Text and os.path throughout: loading pathlib would cost every command of the command line a tenth of its start.
"""

from __future__ import annotations

import os
import re

from memsync.errors import ConfigError, RootError
from memsync.settings.config_file import ConfigFile
from memsync.system.user_folders import digest_of, state_folder


def expanded(text: str, where: str) -> str:
    """Return a path with `~` replaced. Raises ConfigError for what no path can be."""
    if "\0" in text:
        raise ConfigError(f"{where}: {text!r} is no path", hint="Write the path of a folder.")
    found = os.path.expanduser(text)
    if found.startswith("~"):
        raise ConfigError(f"{where}: {text}: there is no such user", hint="Write the path in full.")
    return found


def real(path: str) -> str:
    """Return an absolute path without links, dots and doubled slashes."""
    return os.path.realpath(path)


def is_beneath(path: str, folder: str) -> bool:
    """Tell whether a path is a folder or lies in it; both are absolute."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def root_of(file: ConfigFile) -> str:
    """Return the root that a config file names, whatever else may overrule it."""
    named = os.path.expanduser(str(file.table("memsync").get("root", ".")))
    return os.path.join(os.path.dirname(file.path), named)


def resolve_root(named: str, where: str, base: str) -> str:
    """Return the memory root: an absolute path without links. A relative name counts from `base`.

    `where` says who named it. Raises RootError when it is no folder.
    """
    found = real(os.path.join(base, expanded(named, where)))
    if not os.path.exists(found):
        raise RootError.absent(found, where)
    if not os.path.isdir(found):
        raise RootError(f"{where}: the memory root {found} is not a folder", hint="Name the folder of your notes.")
    return found


def resolve_index_dir(named: str, where: str, base: str, root: str) -> str:
    """Return the folder of the index of `root`: an absolute path without links. A relative name counts from `base`.

    Raises ConfigError where the root lies in it.
    """
    if not named:
        return default_index_dir(root)
    found = real(os.path.join(base, expanded(named, where)))
    if is_beneath(root, found):
        raise ConfigError(f"the memory root {root} lies inside the index {found}", hint="Set index.dir elsewhere.")
    return found


def default_index_dir(root: str) -> str:
    """Return the folder of a memory root's index where no setting names another."""
    return os.path.join(state_folder(), _state_name(root))


def keep_dir(root: str) -> str:
    """Return the folder of what is kept about a memory root whatever becomes of its index: writers' lock, journal."""
    return os.path.join(state_folder(), "kept", _state_name(root))


def _state_name(root: str) -> str:
    """Return the name of a root's folders: its own name for people, and a digest that nobody can forge."""
    label = re.sub(r"[^\w.-]", "_", os.path.basename(root))[:40] or "root"
    return f"{label}-{digest_of(os.fsencode(root))[:32]}"
