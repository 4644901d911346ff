"""Register a memory root: what needs its settings."""

from __future__ import annotations

import os
import shlex

from memsync.errors import RootError
from memsync.settings.load import settings_of_root
from memsync.settings.paths import expanded
from memsync.settings.roots import FILE_NAME, RegisteredRoot, add, check_name


def add_root(name: str, folder: str, only: tuple[str, ...] = ()) -> RegisteredRoot:
    """Register the memory root at `folder` under a name, after all others, and return the entry.

    With `only`, it belongs to another program, needs no config.toml, and only files that match a pattern are notes.
    Raises UsageError for a name that is not allowed or taken and for a folder that is registered already, RootError for
    a folder that is not a memory root, ConfigError, FilesystemError.
    """
    check_name(name)
    path = _memory_root(folder, is_in_place=bool(only))
    added = RegisteredRoot(name, path, only=only)
    add(added)
    return added


def _memory_root(folder: str, *, is_in_place: bool) -> str:
    """Return the absolute path of a memory root, without links. Raises RootError if the folder is not one."""
    folder = os.path.realpath(expanded(folder, "PATH"))
    if not os.path.isdir(folder):
        raise RootError.absent(folder)
    settings, has_config = settings_of_root(folder)
    path = settings.root_name
    try:
        path.encode()
    except UnicodeEncodeError:
        raise RootError(f"{path!r} is not UTF-8, so {FILE_NAME} cannot name it", hint="Rename the folder.") from None
    if not is_in_place and not has_config and not os.path.isdir(settings.index_name):
        hint = f"Make it one: memsync init {shlex.quote(path)}"
        raise RootError(f"{path} is not a memory root: it has no config.toml and no index", hint=hint)
    return path
