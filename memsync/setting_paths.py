"""Settings that are paths: where they count from, and what a config.toml that was only found may not decide.

Text and os.path throughout: loading pathlib would cost every command of the command line a tenth of its start.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from typing import Any

from memsync.config_file import ConfigFile, is_users_own
from memsync.errors import ConfigError, RootError
from memsync.user_folders import state_folder


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


def resolve_root(values: Mapping[str, Any], sources: Mapping[str, str], file: ConfigFile | None, root: str) -> str:
    """Return the memory root: `root` if it was named, else what the settings say, relative to the file that says it.

    Raises RootError when it is no folder.
    """
    if root:
        found, where = root, "--root"
    else:
        where = sources["memsync.root"]
        base = os.path.dirname(file.path) if file is not None and where != "MEMSYNC_ROOT" else os.getcwd()
        found = os.path.join(base, expanded(values["memsync.root"], where))
    found = real(found)
    if not os.path.exists(found):
        raise RootError.absent(found, where)
    if not os.path.isdir(found):
        raise RootError(f"{where}: the memory root {found} is not a folder", hint="Name the folder of your notes.")
    return found


def check_trust(file: ConfigFile, root: str, root_source: str) -> None:
    """Refuse what a config.toml that was only found, and may have come with a stranger's notes, must not decide."""
    folder = real(os.path.dirname(file.path))
    hint = "Set it in your own config file, in the environment, or name this file with --config."
    if root_source.startswith(file.path) and not is_beneath(root, folder) and not is_users_own(file):
        raise ConfigError(f"{root_source}: a file that was only found may name no folder above or beside it", hint=hint)
    if not is_beneath(folder, root):
        return
    if file.table("index").get("dir"):
        where = file.where("index.dir")
        raise ConfigError(f"{where}: index.dir may not be set by a file inside the memory root", hint=hint)
    if str(file.table("embedder").get("model", "")).startswith("openai:"):
        where = file.where("embedder.model")
        raise ConfigError(f"{where}: a file inside the memory root may not name an endpoint", hint=hint)


def resolve_index_dir(setting: str, root: str, source: str, file: ConfigFile | None) -> str:
    """Return the folder of the index; a relative one counts from the config file that names it, else from here."""
    if setting:
        named_by_file = file is not None and source.startswith(file.path)
        base = os.path.dirname(file.path) if file is not None and named_by_file else os.getcwd()
        return real(os.path.join(base, expanded(setting, source or "index.dir")))
    return os.path.join(state_folder(), _state_name(root))


def keep_dir(root: str) -> str:
    """Return the folder of what is kept about a memory root whatever becomes of its index: writers' lock, journal."""
    return os.path.join(state_folder(), "kept", _state_name(root))


def _state_name(root: str) -> str:
    name = os.fsencode(root)
    digest = f"{zlib.crc32(name):08x}{zlib.crc32(name[::-1]):08x}"
    return f"{os.path.basename(root) or 'root'}-{digest}"
