"""The database that the settings name, for the commands that manage it."""

from __future__ import annotations

import os
from contextlib import closing

from memsync.index.postgres import access, migrate
from memsync.index.postgres.connections import Connections
from memsync.index.postgres.opening import dsn_of, machine_id, name_of, open_postgres
from memsync.index.postgres.refusals import OWN_SOURCE
from memsync.model.status import HeldByIndex
from memsync.settings.load import Settings
from memsync.settings.settings_list import DSN
from memsync.system.user_folders import config_folder


class Database:
    """A database, and in it the memory of the settings' root, whose name is `name`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connections = Connections(dsn_of(settings), own=settings.sources[DSN])
        self.name = name_of(settings)

    def migrate(self) -> bool:
        """Make the tables, see `migrate.migrate`."""
        return migrate.migrate(self._connections)

    def status(self) -> access.DatabaseStatus:
        """Return what the database holds."""
        return access.status(self._connections)

    def claim(self, *, take_over: bool) -> str:
        """Make this machine and folder the writer of the memory, see `PostgresIndex.claim`."""
        with closing(open_postgres(self._settings)) as index:
            return index.claim(take_over=take_over)

    def grant(self, role: str) -> None:
        """Let a database role read the memory."""
        access.grant(self._connections, self.name, role)

    def revoke(self, role: str) -> bool:
        """Take back the right to read the memory; return whether the role had it."""
        return access.revoke(self._connections, self.name, role)

    def close(self) -> None:
        """Close every connection."""
        self._connections.close()


def status_of(dsn: str, source: str = "") -> access.DatabaseStatus:
    """Return what the database of a connection string holds; `source` is as in `refusal_of`. Raises IndexFailure."""
    with closing(Connections(dsn, source=source, own=_own_source())) as connections:
        return access.status(connections)


def forget_memory(dsn: str, memory: str, *, apply: bool, take_over: bool = False, source: str = "") -> HeldByIndex:
    """Return what a database has of a memory; delete it if `apply`, see `access.forget`.

    `source` is as in `refusal_of`. Raises UsageError if the database has no such memory, IndexFailure.
    """
    with closing(Connections(dsn, source=source, own=_own_source())) as connections:
        return access.forget(connections, memory, machine_id(), apply=apply, take_over=take_over)


def _own_source() -> str:
    """Return where the user's connection string for work outside of memory roots is from."""
    return OWN_SOURCE if OWN_SOURCE in os.environ else os.path.join(config_folder(), "config.toml")
