"""Open the PostgreSQL index that the settings name, as the machine and folder that this process works for."""

from __future__ import annotations

import getpass
import os
import secrets
import socket
from pathlib import Path

from memsync.errors import ConfigError
from memsync.index.postgres.index import Claim, PostgresIndex
from memsync.index.postgres.kept_claim import KeptClaim, read_claim
from memsync.settings.load import Settings
from memsync.settings.settings_list import DSN
from memsync.system.state_file import state_of_user
from memsync.system.user_folders import filesystem_errors, own_folder

MAX_NAME = 200
_MACHINE = "machine"


def open_postgres(settings: Settings) -> PostgresIndex:
    """Return the index of the settings' memory root, not connected yet. Raises ConfigError, FilesystemError."""
    with filesystem_errors(f"{settings.index_dir} cannot be used", "Check its permissions."):
        own_folder(settings.index_dir)
    kept, machine = read_claim(settings.index_dir), machine_id()
    is_ours = kept is not None and kept.writer.startswith(f"{machine}:")  # not one that came with a copied folder
    writer = kept.writer if kept and is_ours else f"{machine}:{settings.index_name}"
    return PostgresIndex(
        dsn_of(settings),
        name_of(settings),
        settings.index_dir,
        Claim(writer, f"{_person()}, folder {settings.root_name}"),
        former_name=kept.name if kept and is_ours else "",
        stores_text=settings["index.store_text"],
        own=settings.sources[DSN],
    )


def open_moved(settings: Settings, file: Path) -> PostgresIndex:
    """Return the index of a root at its old path, given the file of its claim there. Raises ConfigError."""
    kept = read_claim(file.parent) or KeptClaim("", "")
    claim = Claim(kept.writer, "")
    return PostgresIndex(dsn_of(settings), kept.name, file.parent, claim, own=settings.sources[DSN])


def dsn_of(settings: Settings) -> str:
    """Return the connection string. Raises ConfigError if none is set."""
    dsn = str(settings[DSN])
    if not dsn:
        raise ConfigError(
            "index.backend is postgres, but no connection string is set",
            hint="Set MEMSYNC_INDEX_DSN=postgresql://user:password@host/database, or dsn under [index] in your own"
            " config.toml",
        )
    return dsn


def name_of(settings: Settings) -> str:
    """Return the memory's name in the database: a moved root keeps its own. Raises ConfigError if it cannot be one."""
    name = str(settings["index.name"])
    if not name:
        kept = read_claim(settings.index_dir)
        name = kept.name if kept else os.path.basename(settings.root_name)
    if not name.isprintable() or not 0 < len(name) <= MAX_NAME or "(" in name or name != name.strip():
        raise ConfigError(
            f"{name!r} cannot be the name of a memory",
            hint=f"Set name under [index] to up to {MAX_NAME} printable characters, without parentheses and without"
            " blanks at its ends.",
        )
    return name


def machine_id() -> str:
    """Return a random id of this user's account on this machine, made at its first use. Raises FilesystemError."""
    state = state_of_user()
    if not state.single(_MACHINE):
        made = (_MACHINE, secrets.token_hex(16))
        state.write("INSERT OR IGNORE INTO single VALUES (?, ?)", made, waits=True)  # unless another process was faster
    return str(state.single(_MACHINE))


def _person() -> str:
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):  # a user without a name
        return socket.gethostname()
