"""Decides which settings a config file may set, depending on where the file comes from. No other module decides this.

A file may set everything if the user named it (--config, MEMSYNC_CONFIG) or keeps it in their own config folder. Any
other file was found automatically and may have come with a stranger's notes, so it may only set HARMLESS settings, a
memory root in its own folder, and the settings that the user trusted with `memsync trust`, with exactly these values.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from memsync.settings.config_file import ConfigFile
from memsync.settings.paths import is_inside, root_of
from memsync.system.state_file import state_of_user

HARMLESS = frozenset(
    {
        "files.exclude", "privacy.local_only", "search.limit", "search.mode", "prune.task_days",
        "check.ignore", "usage.count", "daemon.use", "cli.pager",
    }
)  # fmt: skip
"""Settings that name no path, address or program, and that make memsync store or consume nothing elsewhere."""

_WITHHOLDING = ("files.exclude", "privacy.local_only")
"""Lists of what memsync must not read or send. Trust in a file ends if it loses one of their patterns."""


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
    trusted = _record(file)
    now = _to_record(file, risky)
    withholds = all(_withholds_as_much(trusted.get(name), now.pop(name)) for name in _WITHHOLDING)
    return withholds and now.items() <= trusted.items()


def trust(file: ConfigFile, risky: Mapping[str, Any]) -> None:
    """Let a file set these settings to these values. Raises FilesystemError, IndexBusy."""
    record = json.dumps(_to_record(file, risky))
    state_of_user().write("REPLACE INTO trusted VALUES (?, ?)", (_key(file.path), record), waits=True)


def revoke(path: str) -> bool:
    """Revoke the trust in a file; return whether it was trusted. Raises FilesystemError, IndexBusy."""
    return state_of_user().write("DELETE FROM trusted WHERE path = ?", (_key(path),), waits=True) > 0


def trusted_paths() -> list[str]:
    """Return the sorted absolute paths of all trusted files, including those that have changed since."""
    return sorted(os.fsdecode(path) for (path,) in state_of_user().rows("SELECT path FROM trusted"))


def _record(file: ConfigFile) -> dict[str, Any]:
    """Return what the user trusts in a file; nothing if the user never did."""
    rows = state_of_user().rows("SELECT settings FROM trusted WHERE path = ?", (_key(file.path),))
    return dict(json.loads(rows[0][0])) if rows else {}


def _key(path: str) -> bytes:
    return os.fsencode(os.path.realpath(path))


def _to_record(file: ConfigFile, risky: Mapping[str, Any]) -> dict[str, Any]:
    """Return what trust in these settings of a file covers: their values, where its root is, what it withholds."""
    lists = {name: file.table(name.split(".")[0]).get(name.split(".")[1], []) for name in _WITHHOLDING}
    return {**risky, "memsync.root": os.path.realpath(root_of(file)), **lists}


def _withholds_as_much(trusted: Any, now: list[str]) -> bool:
    """Tell whether a list has all its trusted patterns, in this order, and no new one that takes files out again."""
    if not isinstance(trusted, list) or now[: len(trusted)] != trusted:
        return False
    return not any(pattern.startswith("!") for pattern in now[len(trusted) :])
