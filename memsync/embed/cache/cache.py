"""The vector cache as syncs and searches use it. A fault in the cache costs time, but no sync or search fails.

A damaged database is moved aside and replaced by an empty one. A database that cannot be used now (a full disk) is
tried again at the next use. Each fault gives one warning; a lock of another process gives none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import apsw

from memsync.embed.cache.cache_database import VectorDatabase, value_bytes
from memsync.errors import EmbedderError, FilesystemError, IndexTooNew
from memsync.index.vectors import are_unit, to_float16
from memsync.model.query import EmbeddingSpace
from memsync.system import database_files

if TYPE_CHECKING:
    from memsync.ports import Vector

MAX_BYTES = 512_000_000
"""The size of the cache of all memory roots: the oldest vectors go first."""
BUSY_MS = 250
KEPT_DAMAGED = 1
_DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.ConstraintError, apsw.MismatchError)
"""The errors of SQLite if a database is damaged or its tables are not the cache's."""

_Result = TypeVar("_Result")


class SqliteVectorCache:
    """The vectors of all memory roots of a user, in a database at `path` of at most about `max_bytes`.

    It opens the database at the first use. Safe for several threads and processes.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._guard = threading.Lock()
        self._database: VectorDatabase | None = None
        self._warnings: list[str] = []
        self._last_fault = ""

    def identity(self) -> str:
        """Return an id of this database, which a replacement does not have; empty text if it cannot be used now."""
        return self._with_database(lambda database: database.identity(), "")

    def get(self, space: EmbeddingSpace, hashes: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the cached float16 vectors of these content hashes."""
        return self._with_database(lambda database: database.find(space, hashes), {}) if hashes else {}

    def put(self, space: EmbeddingSpace, vectors: Sequence[tuple[bytes, Vector | bytes]]) -> bool:
        """Store valid vectors by content hash, as float32 arrays or float16 bytes; False if it cannot write now."""
        values = _usable(space, vectors)

        def add(database: VectorDatabase) -> bool:
            with database.writing():
                database.add(space, values.items())
            return True

        return self._with_database(add, False) if values else True

    def trim(self) -> None:
        """Delete the oldest vectors if the cache has become too large."""
        self._with_database(lambda database: database.trim(self._max_bytes), None)

    def take_warnings(self) -> list[str]:
        """Return the warnings since the last call."""
        warnings, self._warnings = self._warnings, []
        return warnings

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        with self._guard:
            self._close()

    # ----------------------------------------------------------------------------------------- faults

    def _with_database(self, work: Callable[[VectorDatabase], _Result], default: _Result) -> _Result:
        """Return the result of `work`, or `default` if the cache cannot be used now."""
        with self._guard:
            try:
                return work(self._opened())
            except (apsw.BusyError, apsw.LockedError):
                pass  # another process writes, which is not a fault
            except (*_DAMAGE, UnicodeDecodeError) as error:
                self._begin_anew(str(error))
            except IndexTooNew:
                self._fault("it was written by a later version of memsync")
            except FilesystemError as error:
                self._fault(error.message)
            except (apsw.Error, OSError) as error:
                self._fault(str(error))
            return default

    def _opened(self) -> VectorDatabase:
        """Return the database at the path; open it again if the file was removed or replaced."""
        if self._database is not None and self._database.inode != database_files.inode(self.path):
            self._close()
        if self._database is None:
            self._database = VectorDatabase(self.path, BUSY_MS)
        return self._database

    def _begin_anew(self, damage: str) -> None:
        """Move a damaged database aside. The next use creates an empty one."""
        try:
            damaged = self._database.inode if self._database is not None else database_files.inode(self.path)
            self._close()
            aside = database_files.set_aside(self.path, damaged, kept=KEPT_DAMAGED)
        except (FilesystemError, OSError) as error:
            self._fault(str(error))
            return
        if aside is not None:
            fate = f"it was set aside as {aside.name}"
            self._warnings.append(f"the vector cache {self.path} was damaged ({damage}); {fate}")

    def _fault(self, reason: str) -> None:
        """Close the database, and warn unless the last fault had the same reason."""
        if reason != self._last_fault:
            self._warnings.append(f"the vector cache {self.path} cannot be used: {reason}")
        self._last_fault = reason
        self._close()

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


def _usable(space: EmbeddingSpace, vectors: Sequence[tuple[bytes, Vector | bytes]]) -> dict[bytes, bytes]:
    """Return the valid vectors of the space as float16 bytes by hash; the index reports the invalid ones."""
    values: dict[bytes, bytes] = {}
    for digest, vector in vectors:
        with suppress(EmbedderError):
            values[digest] = vector if isinstance(vector, bytes) else to_float16(vector, space.dimension)
    values = {digest: value for digest, value in values.items() if len(value) == value_bytes(space.dimension)}
    return dict(compress(values.items(), are_unit(list(values.values()))))
