"""Finds and parses config.toml files."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from memsync.errors import ConfigError
from memsync.model.text import did_you_mean, quoted
from memsync.system.user_folders import Stamp, config_folder, filesystem_errors, other_writer, replace_file, stamp_of

NAME = "config.toml"
MAX_BYTES = 1_000_000
_HOW_TO_OWN = "Give it to yourself alone (chown, chmod go-w)"
_HAS_OUR_TABLE = re.compile(rb"^(?:\xef\xbb\xbf)?[ \t]*\[[ \t]*memsync[ \t]*\]", re.MULTILINE)


class ConfigFile(NamedTuple):
    """One parsed config.toml. `path` is absolute; it is a str because importing pathlib would slow every command."""

    path: str
    tables: Mapping[str, Any]

    def table(self, name: str) -> Mapping[str, Any]:
        """Return one table, empty if the file lacks it. Raises ConfigError if the name is not a table."""
        value = self.tables.get(name, {})
        if not isinstance(value, dict):
            hint = "Write its name in brackets, and its settings below."
            raise ConfigError(f"{self.path}: {quoted(name)} must be a table", hint=hint)
        return value

    def settings(self, known: Sequence[str], free_tables: Sequence[str]) -> Iterator[tuple[str, Any]]:
        """Yield (`table.key`, value) in order, without `free_tables`. Raises ConfigError for a name not in `known`."""
        tables = {name.split(".")[0] for name in known} | set(free_tables)
        for table in self.tables:
            if table not in tables:
                hint = nearest(table, sorted(tables))
                raise ConfigError(f"{self.path}: unknown table {quoted(table)}", hint=hint)
            if table in free_tables:
                continue
            for key, value in self.table(table).items():
                name = f"{table}.{key}"
                if name not in known:
                    own = [other.split(".")[1] for other in known if other.startswith(f"{table}.")]
                    raise ConfigError(f"{self.path}: unknown setting {quoted(name)}", hint=nearest(key, own))
                yield name, value


def parse_config(path: str) -> ConfigFile:
    """Read one config file. Raises ConfigError if it does not exist, cannot be read or is not TOML."""
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file", hint="Name an existing config.toml, or run memsync init.") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}", hint="Check its permissions.") from error
    return _parse(path, content)


def _parse(path: str, content: bytes) -> ConfigFile:
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{path}: too large for a config file", hint="Is this the file you meant?")
    import tomllib

    try:
        text = content.decode("utf-8-sig")
        return ConfigFile(path if os.path.isabs(path) else os.path.join(os.getcwd(), path), tomllib.loads(text))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid TOML{_place_of(error)}", hint="Correct that line.") from error


def _place_of(error: Exception) -> str:
    """Return where a file is not TOML; the rest of the message may have words of the file."""
    found = re.search(r" \(at (?:line \d+, column \d+|end of document)\)$", str(error))
    return found[0] if found else ""


def found_above(start: str, ignored: list[str], parsed: Mapping[str, ConfigFile] | None = None) -> Iterator[ConfigFile]:
    """Yield the config files of memory roots in `start` and the folders above it, nearest first.

    Skips files of other programs, even if they are not TOML. Also skips links and files that another user can write;
    `ignored` gets a sentence about each of these. Files in `parsed`, by their path, are not read again.
    """
    for path in paths_above(start):
        if parsed is not None and path in parsed:
            yield parsed[path]
            continue
        content, fault = _read_found(path)
        if fault:
            ignored.append(f"{path} is ignored: {fault}")
        elif content:
            yield _parse(path, content)


def paths_above(folder: str) -> Iterator[str]:
    """Yield where a config file may be: in a folder and in those above it, nearest first."""
    yield os.path.join(folder, NAME)
    if (above := os.path.dirname(folder)) != folder:
        yield from paths_above(above)


def _read_found(path: str) -> tuple[bytes, str]:
    """Return (content, reason not to use it) of a memsync config file; two empty values for any other file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b"", ""
    try:
        status = os.fstat(descriptor)
        content = os.read(descriptor, MAX_BYTES + 1) if stat.S_ISREG(status.st_mode) else b""
    finally:
        os.close(descriptor)
    if not _HAS_OUR_TABLE.search(content):
        return b"", ""
    if writer := other_writer(status, path):
        return b"", f"{writer} can change it. {_HOW_TO_OWN}, or name it with --config."
    if os.path.islink(path):
        return b"", "it is a symbolic link. Name the file itself with --config."
    return content, ""


def without_our_table(folder: str) -> str:
    """Return the path of a config file in a folder that is not memsync's, or empty: its user may have meant it."""
    path = os.path.join(folder, NAME)
    return path if os.path.isfile(path) and not any(_read_found(path)) else ""


def users_own(ignored: list[str]) -> ConfigFile | None:
    """Return the config file in the user's config folder, if it exists. Raises ConfigError if it is not valid.

    The file may set everything, so it is skipped if another user can write it; `ignored` then gets a sentence.
    """
    path = os.path.join(config_folder(), NAME)
    if not os.path.isfile(path):
        return None
    if writer := other_writer(os.stat(path), path):
        ignored.append(f"{path} is ignored: {writer} can change it. {_HOW_TO_OWN}.")
        return None
    return parse_config(path)


def stamps_of(named: str | os.PathLike[str], folder: str) -> dict[str, Stamp]:
    """Return the stamps of all config files that may count: named, the user's own, or in or above a folder."""
    own = [os.path.abspath(os.path.expanduser(named)) if named else "", os.path.join(config_folder(), NAME)]
    return {path: stamp_of(path) for path in (*own, *paths_above(folder))}


def nearest(name: str, names: Sequence[str]) -> str:
    """Return `Did you mean …?` with the most similar of `names`, or the list of all names."""
    return did_you_mean(name, names, f"Known names: {', '.join(names)}.", 0.5)


def set_in_user_file(table: str, values: Mapping[str, Any]) -> None:
    """Set values (booleans, texts and lists of texts) in one table of the user's own file; nothing else of it changes.

    Raises ConfigError if they cannot be set in lines of their own, FilesystemError.
    """
    import json
    import tomllib

    path = os.path.realpath(os.path.join(config_folder(), NAME))  # it may be a link to where the user keeps it
    text = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8", newline="") as file:
            text = file.read()
    parts = re.split(rf"(?m)^(\[{table}\][^\n]*\n)", text, maxsplit=1)
    before, header, rest = parts if len(parts) > 1 else (text, "", "")
    inner, *others = re.split(r"(?m)^(?=\[)", rest, maxsplit=1)
    kept = re.sub(rf"(?m)^(?:{'|'.join(values)})\s*=.*\n?", "", inner)
    lines = "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items())
    joint = "" if header or not before else "\n" if before.endswith("\n") else "\n\n"
    new = f"{before}{joint}{header or f'[{table}]{chr(10)}'}{lines}{kept}{''.join(others)}"
    try:
        tables = tomllib.loads(text)
        is_set = tomllib.loads(new) == {**tables, table: {**tables.get(table, {}), **values}}
    except tomllib.TOMLDecodeError:
        is_set = False
    if not is_set:
        raise ConfigError(f"{path} cannot be changed", hint=f"Write under [{table}]: {'; '.join(lines.splitlines())}")
    with filesystem_errors(f"{path} cannot be written"):
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        replace_file(path, new.encode())
