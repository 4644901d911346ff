"""What a served command needs to know of the settings, kept from one command to the next.

Parsing config.toml takes longer than asking the daemon. What is kept counts while the config files, the user's trust in
them and the environment are as they were, so it can be deleted at any time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress

from memsync import __version__
from memsync.client import wire
from memsync.errors import FilesystemError
from memsync.system.user_folders import (
    STATE,
    cache_folder,
    deciding_variables,
    digest_of,
    socket_path,
    stamp_of,
    user_folder,
    write_own_file,
)

TYPE_CHECKING = False  # and not typing's, because importing it would take a tenth of the time of a served search
if TYPE_CHECKING:
    from typing import Any

    from memsync.settings.load import Settings

MOST = 50
"""For how many folders something is kept."""


class Served:
    """How to ask the daemon of a memory: its socket, the digest of the settings, and how to print what it answers."""

    def __init__(self, socket: str, digest: str, open_with: str, uses_pager: bool) -> None:
        self.socket = socket
        self.digest = digest
        self.open_with = open_with
        self.uses_pager = uses_pager

    @classmethod
    def by(cls, settings: Settings) -> Served:
        """Return what these settings say."""
        socket, digest = socket_path(settings.index_name), wire.settings_digest(settings)
        return cls(socket, digest, settings["cli.open_with"], settings["cli.pager"])


def kept(root: str = "") -> Served | None:
    """Return what was kept for the current folder, or for a root that an option names, if it is as it was."""
    try:
        entry = _read()[_key(root)]
        if entry["environment"] == _environment() and all(
            stamp_of(path) == tuple(stamp) for path, stamp in entry["stamps"].items()
        ):
            return Served(*entry["served"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # it is not there, or not what was written
        pass
    return None


def keep(settings: Settings, served: Served, root: str = "") -> None:
    """Keep what was read in the current folder, or with a root that an option names.

    Nothing is kept if more decides than files with stamps, such as links, names of memories, and folders that `memsync
    init` knows. So the nearest config.toml must be that of the memory root; or the option names the root's own path.
    """
    with suppress(OSError, ValueError, FilesystemError):
        key, own = _key(root), os.path.join(settings.root_name, "config.toml")
        found = list(filter(settings.stamps.get, _places_from(root or key)))
        if root and found not in ([], [own]):
            return
        if not root and not found[:1] == [own] == [settings.sources["memsync.root"]]:
            return
        stamps, database = dict(settings.stamps), os.path.join(user_folder(), STATE)
        if settings.asks_trust:
            stamps |= {path: stamp_of(path) for path in (database, f"{database}-wal")}
        given = [served.socket, served.digest, served.open_with, served.uses_pager]
        entries = _read()
        entries[key] = {"environment": _environment(), "stamps": stamps, "served": given}
        write_own_file(_file(), json.dumps(dict(list(entries.items())[-MOST:])).encode())


def _key(root: str) -> str:
    """Return under what something is kept. Raises ValueError for an option that is not the path of a folder itself."""
    if not root:
        return os.getcwd()
    if not os.path.isabs(root) or os.path.realpath(root) != root:
        raise ValueError(root)
    return f"--root {root}"


def _places_from(folder: str) -> Iterator[str]:
    while True:
        yield os.path.join(folder, "config.toml")
        if folder == (folder := os.path.dirname(folder)):
            return


def _file() -> str:
    return os.path.join(cache_folder(), "served.json")


def _read() -> dict[str, Any]:
    """Return what is kept, by key; nothing if the file is not there or damaged."""
    with suppress(OSError, ValueError), open(_file(), "rb") as stream:
        entries = json.load(stream)
        return entries if isinstance(entries, dict) else {}
    return {}


def _environment() -> str:
    """Return a digest of what decides besides files; a variable may have a password."""
    decisive = [__version__, os.path.expanduser("~"), deciding_variables(os.environ)]
    return digest_of(json.dumps(decisive).encode("utf-8", "surrogatepass"))
