"""Decides which settings a config file may set, depending on where the file comes from. No other module decides this.

A file may set everything if the user named it (--config, MEMSYNC_CONFIG) or keeps it in their own config folder. Any
other file was found automatically and may have come with a stranger's notes, so it may only set HARMLESS settings, a
memory root in its own folder, and the settings that the user trusted with `memsync trust`, with exactly these values.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from memsync.settings.config_file import ConfigFile
from memsync.settings.paths import is_inside, root_of
from memsync.system.user_folders import digest_of, filesystem_errors, other_writer, trust_folder, write_own_file

HARMLESS = frozenset(
    {
        "files.exclude", "privacy.local_only", "search.limit", "search.mode", "prune.task_days",
        "check.ignore", "usage.count", "daemon.use", "cli.pager",
    }
)  # fmt: skip
"""Settings that name no path, address or program, and that make memsync store or consume nothing elsewhere."""

_WITHHOLDING = ("files.exclude", "privacy.local_only")
"""Lists of what memsync must not read or send. Trust in a file ends if it loses one of their patterns."""
_MAX_RECORD_BYTES = 8_000_000


def risky_settings(file: ConfigFile, values: Mapping[str, Any], without_file: Mapping[str, Any]) -> list[str]:
    """Return the names of the settings in a file that need the user's trust, in the file's order.

    `values` holds the file's settings, `without_file` the values without the file; equal values need no trust.
    """
    leads_out = not is_inside(os.path.realpath(root_of(file)), os.path.realpath(os.path.dirname(file.path)))
    return [
        name
        for name, value in values.items()
        if (leads_out if name == "memsync.root" else name not in HARMLESS and value != without_file[name])
    ]


def is_trusted(file: ConfigFile, risky: Mapping[str, Any]) -> bool:
    """Tell whether the user has trusted these settings of a file, each with this value."""
    path = os.path.realpath(file.path)
    recorded_path, trusted = _record(_place(path)) or ("", {})
    now = _to_record(file, risky)
    withholds = all(_withholds_as_much(trusted.get(name), now.pop(name)) for name in _WITHHOLDING)
    return withholds and recorded_path == path and now.items() <= trusted.items()


def trust(file: ConfigFile, risky: Mapping[str, Any]) -> None:
    """Let a file set these settings to these values. Raises FilesystemError."""
    path = os.path.realpath(file.path)
    place = _place(path)
    record = json.dumps({"path": path, "settings": _to_record(file, risky)})
    with filesystem_errors(f"{place} cannot be written", "Check its folder."):
        write_own_file(place, record.encode())


def revoke(path: str) -> bool:
    """Revoke the trust in a file; return whether it was trusted. Raises FilesystemError."""
    place = _place(os.path.realpath(path))
    with filesystem_errors(f"{place} cannot be removed", "Check its folder."), suppress(FileNotFoundError):
        os.unlink(place)
        return True
    return False


def trusted_paths() -> list[str]:
    """Return the sorted absolute paths of all trusted files, including those that have changed since."""
    try:
        names = os.listdir(trust_folder())
    except OSError:
        return []
    records = (_record(os.path.join(trust_folder(), name)) for name in names)
    return sorted(record[0] for record in records if record is not None)


def _record(place: str) -> tuple[str, dict[str, Any]] | None:
    """Return (path, settings) of a record; None if it is missing, damaged or writable by another user."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        with open(place, "rb") as stream:
            if other_writer(os.fstat(stream.fileno()), place):
                return None
            record = json.loads(stream.read(_MAX_RECORD_BYTES))
        path, settings = record["path"], dict(record["settings"])
        if _place(path) == place:
            return path, settings
    return None


def _to_record(file: ConfigFile, risky: Mapping[str, Any]) -> dict[str, Any]:
    """Return what trust in these settings of a file covers: their values, where its root is, what it withholds."""
    lists = {name: file.table(name.split(".")[0]).get(name.split(".")[1], []) for name in _WITHHOLDING}
    return {**risky, "memsync.root": os.path.realpath(root_of(file)), **lists}


def _withholds_as_much(trusted: Any, now: list[str]) -> bool:
    """Tell whether a list has all its trusted patterns, in this order, and no new one that takes files out again."""
    if not isinstance(trusted, list) or now[: len(trusted)] != trusted:
        return False
    return not any(pattern.startswith("!") for pattern in now[len(trusted) :])


def _place(path: str) -> str:
    return os.path.join(trust_folder(), f"{digest_of(os.fsencode(path))}.json")
