"""config.toml as a file: found, parsed, and able to say on which line a setting stands."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from memsync.errors import ConfigError
from memsync.user_folders import config_folder

NAME = "config.toml"
MAX_BYTES = 1_000_000


class ConfigFile(NamedTuple):
    """One parsed config.toml. `path` is absolute; text, because pathlib is too dear for every command to load."""

    path: str
    text: str
    tables: Mapping[str, Any]

    def table(self, name: str) -> Mapping[str, Any]:
        """Return one table, empty when the file has none. Raises ConfigError when the name is no table."""
        value = self.tables.get(name, {})
        if not isinstance(value, dict):
            raise ConfigError(
                f"{self.where(name)}: {name} must be a table", hint=f"Write [{name}] and its settings below."
            )
        return value

    def settings(self, known: Sequence[str], free_tables: Sequence[str]) -> Iterator[tuple[str, Any]]:
        """Yield (`table.key`, value) in the file's order. Raises ConfigError for a name that is not in `known`."""
        tables = {name.split(".")[0] for name in known} | set(free_tables)
        for table in self.tables:
            if table not in tables:
                raise ConfigError(f"{self.where(table)}: no such table [{table}]", hint=nearest(table, sorted(tables)))
            if table in free_tables:
                continue
            for key, value in self.table(table).items():
                name = f"{table}.{key}"
                if name not in known:
                    own = [other.split(".")[1] for other in known if other.startswith(f"{table}.")]
                    raise ConfigError(f"{self.where(name)}: no such setting {name}", hint=nearest(key, own))
                yield name, value

    def where(self, name: str) -> str:
        """Return `path:line` of `table.key` or `table`; the path alone when the line cannot be told."""
        table, _, key = name.partition(".")
        line = _line_of(self.text, table, key)
        return f"{self.path}:{line}" if line else self.path


def parse_config(path: str) -> ConfigFile:
    """Read one config file. Raises ConfigError when it is absent, unreadable or no TOML."""
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file", hint="Name an existing config.toml, or run memsync init.") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}", hint="Check its permissions.") from error
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{path}: too large for a config file", hint="Is this the file you meant?")
    import tomllib

    try:
        text = content.decode("utf-8-sig")
        return ConfigFile(os.path.join(os.getcwd(), path), text, tomllib.loads(text))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}", hint="Correct that line.") from error


def discover(start: str) -> ConfigFile | None:
    """Return the nearest config.toml with a [memsync] table at or above `start`, else the user's own, else None.

    A config.toml of another program on the way is passed over, also when it is no TOML.
    """
    folder = start
    while True:
        candidate = os.path.join(folder, NAME)
        if os.path.isfile(candidate) and _mentions_memsync(candidate):
            return parse_config(candidate)
        above = os.path.dirname(folder)
        if above == folder:
            break
        folder = above
    own = _users_own()
    return parse_config(own) if os.path.isfile(own) else None


def is_users_own(file: ConfigFile) -> bool:
    """Tell whether a file is the one in the user's config folder, which nobody else writes."""
    return file.path == _users_own()


def _users_own() -> str:
    return os.path.join(config_folder(), NAME)


def nearest(name: str, names: Sequence[str]) -> str:
    """Return `Did you mean …?` with the nearest of `names`, or the list of them."""
    import difflib

    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"Did you mean {close[0]}?" if close else f"Known are {', '.join(names)}."


def _mentions_memsync(path: str) -> bool:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return re.search(r"^[ \t]*\[[ \t]*memsync[ \t]*\]", stream.read(MAX_BYTES), re.MULTILINE) is not None
    except OSError:
        return False


def _line_of(text: str, table: str, key: str) -> int:
    """Return the line on which a key (or the table's header) stands, 0 if it is written in some rarer way."""
    current, header = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if found := re.match(r"\[\s*\"?([^\]\"]+)\"?\s*\]", stripped):
            current = found.group(1).strip()
            if current == table:
                header = number
                if not key:
                    return number
            continue
        name = re.match(r"(?:\"([^\"]*)\"|'([^']*)'|([\w.-]+))\s*[=.]", stripped)
        if name is None:
            continue
        written = next(part for part in name.groups() if part is not None)
        if (current == table and written == key) or (not current and written in (table, f"{table}.{key}")):
            return number
    return header
