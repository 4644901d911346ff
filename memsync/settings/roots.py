"""The user's list of memories, roots.toml in the config folder: each has a name, by which searches cover it.

    [roots.work]
    path = "/home/me/work-notes"

    [roots.team]
    dsn = "postgresql://reader:password@host/memories"
    memory = "team-notes"

`default = true` marks the folder that commands use outside of every memory root. A folder with
`only = ["CLAUDE.md", "projects/*/memory/**/*.md"]` belongs to another program: only files that match are notes, and
memsync writes none of them.

Only the user's commands change this list. Nothing in a memory root can: the file is read from the config folder alone.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from memsync.errors import ConfigError, IndexBusy, RootError, UsageError
from memsync.model.text import did_you_mean
from memsync.settings.config_file import parse_config
from memsync.settings.connection_string import server_in
from memsync.settings.paths import expanded, folder_identity, is_inside, keep_identity, kept_identity
from memsync.system.user_folders import config_folder, filesystem_errors, other_writer, replace_file, state_folder

FILE_NAME = "roots.toml"
MAX_NAME_CHARS = 64
LOCK_SECONDS = 5.0
NO_MEMORY = "no memory is used in this folder: memsync roots add NAME FOLDER, then memsync roots default NAME"
TRANSCRIPTS = "transcripts"
"""The name of the memory that agents' conversations are kept in."""
OWN_MEMORY = "-memory"
"""Ends the name of a memory that an agent keeps outside its own folder."""
_TABLE = "roots"
_NAME = re.compile(rf"[a-z0-9_-]{{1,{MAX_NAME_CHARS}}}")
_HOW_TO_NAME = f"Use lower-case letters, digits, - and _, at most {MAX_NAME_CHARS} characters."


class RegisteredRoot(NamedTuple):
    """One registered memory: its name, and the absolute path of its folder; or a database and its name there.

    `memory` is empty if its name in the database is `name`, too. The fields after `name` are the keys of its table in
    roots.toml; each has a default, and a table may leave it out.
    """

    name: str
    path: str = ""
    dsn: str = ""
    memory: str = ""
    default: bool = False
    only: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Where it is, without a password: a folder, or a server with the memory's name there."""
        if not self.dsn:
            return self.path
        return f"{server_in(self.dsn)}, memory {self.memory or self.name}"

    @property
    def source(self) -> str:
        """Where its connection string comes from, for messages."""
        return f"the dsn of [{_TABLE}.{self.name}] in {roots_path()}"

    @property
    def identity(self) -> tuple[str, str, str]:
        """Its folder, or connection string and name in the database; `place` may be the same for two databases."""
        return self.path, self.dsn, self.dsn and (self.memory or self.name)

    def __repr__(self) -> str:
        return f"RegisteredRoot({self.name!r}, {self.place!r})"


_KEYS = RegisteredRoot._fields[1:]


def roots_path() -> str:
    """Return the path of the list, whether or not it exists."""
    return os.path.join(config_folder(), FILE_NAME)


def is_root_name(text: str) -> bool:
    """Tell whether a text may be the name of a registered memory."""
    return _NAME.fullmatch(text) is not None


def registered_roots() -> dict[str, RegisteredRoot]:
    """Return the registered memories by name, in the order of the file; empty without the file.

    Raises ConfigError if the file is not valid, or if another user can change it.
    """
    path = roots_path()
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}", hint="Check its permissions.") from error
    if writer := other_writer(status, path):
        raise ConfigError(f"{path}: {writer} can change it", hint="Give it to yourself alone (chown, chmod go-w).")
    tables = parse_config(path).tables
    for table in tables:
        if table != _TABLE:
            raise ConfigError(f"{path}: unknown table or key {table!r}", hint=f"Write [{_TABLE}.NAME] for each memory.")
    entries = tables.get(_TABLE, {})
    if not isinstance(entries, dict):
        raise ConfigError(f"{path}: {_TABLE} must be a table", hint=f"Write [{_TABLE}.NAME] for each memory.")
    return {name: _entry(path, name, entry) for name, entry in entries.items()}


def default_root() -> RegisteredRoot | None:
    """Return the memory that commands use outside of every memory root; None without one. Raises ConfigError."""
    return next((root for root in registered_roots().values() if root.default), None)


def root_for(folder: str) -> RegisteredRoot | None:
    """Return the registered memory that contains a folder, the innermost; otherwise the default one.

    An agent's own memory is none: OpenClaw always works in a folder of its own.
    """
    place = os.path.realpath(folder)
    own = [root for root in registered_roots().values() if root.path and not root.only]
    around = [root for root in own if is_inside(place, root.path)]
    return max(around, key=lambda root: len(root.path), default=default_root())


def folder_named(name: str) -> str:
    """Return the folder of the registered memory NAME; empty if there is none. Raises UsageError, ConfigError."""
    root = registered_roots().get(name) if is_root_name(name) else None
    return _with_folder(root).path if root is not None else ""


def named_folder(name: str) -> str:
    """Return the folder that `--root NAME` means: of the registered memory, otherwise the one here of this name.

    Raises RootError if there is neither, ConfigError if there are both, UsageError.
    """
    folder = folder_named(name)
    if not folder and not os.path.exists(expanded(name, "--root")):
        hint = f"Registered: {', '.join(registered_roots()) or 'none'}. To make a folder: memsync init ./{name}"
        raise RootError(f"--root {name[:100]} is no folder here and no registered memory", hint=hint)
    if folder and os.path.isdir(name) and os.path.realpath(folder) != os.path.realpath(name):  # perhaps from a clone
        hint = f"Write ./{name} for the folder, or {folder} for the memory."
        raise ConfigError(f"--root {name} is both a folder here and a registered memory", hint=hint)
    return folder or name


def _with_folder(root: RegisteredRoot) -> RegisteredRoot:
    """Return a registered memory that has its files here. Raises UsageError for one of a database."""
    if root.dsn:
        hint = f"Search it with: memsync search --roots {root.name} …"
        raise UsageError(f"{root.name} is a memory of a database, without a folder here", hint=hint)
    return root


def _entry(file: str, name: str, entry: Any) -> RegisteredRoot:
    """Return an entry of the list. Raises ConfigError for a wrong name, an unknown key and a wrong value."""
    if not is_root_name(name):
        raise ConfigError(f"{file}: {name[:100]!r} is not a name for a memory", hint=_HOW_TO_NAME)
    where = f"{file}: [{_TABLE}.{name}]"
    if not isinstance(entry, dict):
        raise ConfigError(f"{where} must be a table", hint='Write below it: path = "/the/folder"')
    entry = {key: _frozen(value) for key, value in entry.items()}
    for key in entry:
        if key not in _KEYS:
            raise ConfigError(f"{where}: unknown key {key[:100]!r}", hint=f"Known keys: {', '.join(_KEYS)}.")
    for key, value in entry.items():
        if type(value) is not type(RegisteredRoot._field_defaults[key]):
            wanted = {"default": "true or false", "only": "a list of patterns"}.get(key, "text")
            raise ConfigError(f"{where}: {key} must be {wanted}", hint='Write text in quotes: path = "/the/folder"')
    if entry.get("dsn"):
        if entry.keys() & {"path", "default", "only"}:
            raise ConfigError(f"{where} has dsn and path, default or only", hint="Keep the dsn, or the others.")
        return RegisteredRoot(name, "", entry["dsn"], entry.get("memory", ""))
    path = expanded(entry.get("path", ""), where)
    if not os.path.isabs(path) or "memory" in entry:
        raise ConfigError(f"{where}: path must be an absolute path", hint="Write the path of the memory's folder.")
    return RegisteredRoot(name, path, default=entry.get("default", False), only=entry.get("only", ()))


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) and all(isinstance(item, str) for item in value) else value


def read_in_place(path: str) -> tuple[tuple[str, ...], str]:
    """Return `only` and the name of the registered memory at a path; both empty if it has none. Raises ConfigError."""
    with suppress(OSError), open(roots_path(), "rb") as file:
        if b"only" not in file.read():  # parsing would cost every command more than this
            return (), ""
    roots = (root for root in registered_roots().values() if root.only and os.path.realpath(root.path) == path)
    return next(((root.only, root.name.removesuffix(OWN_MEMORY)) for root in roots), ((), ""))


def chosen_roots(names: tuple[str, ...] = ()) -> dict[str, RegisteredRoot]:
    """Return the registered memories with these names (default: all), each once, in the order of the list.

    Raises UsageError for an unknown name, ConfigError if no memory is registered.
    """
    registered = registered_roots()
    if not registered:
        hint = "Register one: memsync roots add NAME PATH"
        raise ConfigError("no memory is registered", hint=hint)
    return named_roots(names, registered)


def named_roots(names: Collection[str], roots: Mapping[str, RegisteredRoot]) -> dict[str, RegisteredRoot]:
    """Return the memories with these names, all without any, in their order. Raises UsageError for an unknown name."""
    for name in names:
        if name not in roots:
            raise unknown_root(name, roots)
    return {name: root for name, root in roots.items() if not names or name in names}


def unknown_root(name: str, registered: Mapping[str, RegisteredRoot]) -> UsageError:
    """Return the error for a name that no registered memory has."""
    known = ", ".join(registered) or "none"
    hint = did_you_mean(name, registered, f"Registered: {known}. See: memsync roots list", 0.5)
    return UsageError(f"no memory is registered as {name[:100]!r}", hint=hint)


# ------------------------------------------------------------------------------------------------- changes


def check_name(name: str) -> None:
    """Raise UsageError unless a text may be the name of a registered memory."""
    if not is_root_name(name):
        raise UsageError(f"{name[:100]!r} is not a name for a memory", hint=_HOW_TO_NAME)


def add(added: RegisteredRoot) -> None:
    """Write an entry after all others, unless the same folder has this name already.

    Raises UsageError if its name is taken, or its memory has another name.
    """
    check_name(added.name)
    with _locked():
        roots = registered_roots()
        known = roots.get(added.name)
        if known and added.path and known._replace(default=False) == added:
            return
        if added.name in roots:
            hint = f"Choose another name, or run first: memsync roots remove {added.name}"
            raise UsageError(f"{added.name} is registered already, for {roots[added.name].place}", hint=hint)
        for other in roots.values():
            if other.identity == added.identity:
                hint = f"Use that name, or run first: memsync roots remove {other.name}"
                raise UsageError(f"{added.place} is registered already, as {other.name}", hint=hint)
        if not added.dsn and not kept_identity(added.path):  # so that a link in its place is not followed
            keep_identity(added.path, folder_identity(added.path))
        _write({**roots, added.name: added})


def add_database(name: str, dsn: str, memory: str) -> RegisteredRoot:
    """Register a memory of a database under a name, after all others, and return the entry.

    The caller has tried to reach it. Raises UsageError for a name that is not allowed or taken, ConfigError,
    FilesystemError.
    """
    added = RegisteredRoot(name, "", dsn, "" if memory == name else memory)
    add(added)
    return added


def remove_root(name: str) -> RegisteredRoot:
    """Take a memory off the list and return its entry; its files and its index stay. Raises UsageError, ConfigError."""
    with _locked():
        roots = registered_roots()
        if name not in roots:
            raise unknown_root(name, roots)
        removed = roots.pop(name)
        _write(roots)
    return removed


def set_default(name: str) -> None:
    """Make a registered folder the default memory; without a name, none. Raises UsageError, ConfigError."""
    with _locked():
        roots = registered_roots()
        if name and name not in roots:
            raise unknown_root(name, roots)
        default = _with_folder(roots[name]) if name else None
        _write({key: root._replace(default=root is default) for key, root in roots.items()})


@contextmanager
def _locked() -> Iterator[None]:
    """Hold the lock of everyone who changes the list. Raises IndexBusy, FilesystemError."""
    from pathlib import Path

    from memsync.system.file_lock import file_lock

    def busy(holder: str) -> IndexBusy:
        return IndexBusy(f"{holder} is changing {roots_path()}", hint="Try again.")

    with file_lock(Path(state_folder()) / "registered" / "lock", LOCK_SECONDS, busy):
        yield


def _write(roots: Mapping[str, RegisteredRoot]) -> None:
    """Replace the list in one step; only the user may read it. If the file is a link, the link stays."""
    path = os.path.realpath(roots_path())
    with filesystem_errors(f"{path} cannot be written", "Check its folder."):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        replace_file(path, "\n".join(map(_table, roots.values())).encode(), sync=True)


def _table(root: RegisteredRoot) -> str:
    """Return an entry as TOML, with the keys that it has. JSON is TOML, except that it may have a plain DEL."""
    values = {key: json.dumps(value, ensure_ascii=False) for key in _KEYS if (value := getattr(root, key))}
    lines = [f"[{_TABLE}.{root.name}]\n", *(f"{key} = {value}\n" for key, value in values.items())]
    return "".join(lines).replace("\x7f", "\\u007f")
