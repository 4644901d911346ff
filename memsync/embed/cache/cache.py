"""The cache of vectors as syncs and searches use it: whatever is wrong with it costs time, never an answer.

A damaged database is set aside and begun anew. One that cannot be written now (a full disk, a lock) is left alone for a
while. Both are told once, as warnings.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import apsw

from memsync.embed.cache.cache_database import NewerVersion, VectorDatabase, are_unit, value_bytes
from memsync.errors import EmbedderError, FilesystemError
from memsync.index.sqlite.database_files import set_aside
from memsync.index.sqlite.vectors import to_float16
from memsync.model.query import EmbeddingSpace

if TYPE_CHECKING:
    from memsync.ports import Vector

BUSY_MS = 250
REST_SECONDS = 10.0
"""How long the cache is left alone after a fault, and not written to after another process held its lock: an import
may take as long."""
KEPT_DAMAGED = 1
_DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.ConstraintError, apsw.MismatchError)
"""What SQLite raises for a database that is damaged, or whose tables are not as they were made."""

_Result = TypeVar("_Result")


class SqliteVectorCache:
    """The vectors of every memory root of a user, in the database at `path`, of about `most_bytes` at most.

    Opened at its first use. Safe for several threads and processes.
    """

    def __init__(self, path: Path, most_bytes: int) -> None:
        self.path = path
        self._most_bytes = most_bytes
        self._guard = threading.Lock()
        self._database: VectorDatabase | None = None
        self._rest_until = 0.0
        self._busy_until = 0.0
        self._warnings: list[str] = []
        self._last_fault = ""

    def identity(self) -> str:
        """Return what tells this cache from one that takes its place; empty while it cannot be used."""
        return self._asked(lambda database: database.identity(), "")

    def get(self, space: EmbeddingSpace, hashes: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the float16 vectors that are known of these content hashes."""

        def find(database: VectorDatabase) -> dict[bytes, bytes]:
            found, old, broken = database.find(space, hashes)
            if old or broken:
                self._touch(database, old, broken)
            return found

        return self._asked(find, {}) if hashes else {}

    def _touch(self, database: VectorDatabase, old: Sequence[int], broken: Sequence[int]) -> None:
        """Write down what was used, if that can be done now: what was found is of use in any case."""
        try:
            with database.writing():
                database.touch(old, broken)
        except (apsw.BusyError, apsw.LockedError, apsw.FullError, apsw.ReadOnlyError, apsw.IOError):
            return

    def put(
        self, space: EmbeddingSpace, vectors: Sequence[tuple[bytes, Vector | bytes]], *, replace: bool = False
    ) -> bool:
        """Store vectors by content hash, as computed or as float16; what is no vector is left out.

        Those that are there stay, unless `replace`. Returns False when nothing could be stored.
        """
        values = _usable(space, vectors)

        def add(database: VectorDatabase) -> bool:
            with database.writing():
                database.add(space, values, replace=replace)
            return True

        return self._asked(add, False, writes=True) if values else True

    def trim(self) -> None:
        """Forget the vectors that were used longest ago where they have become too many."""
        self._asked(lambda database: database.trim(self._most_bytes), None, writes=True)

    def take_warnings(self) -> list[str]:
        """Return what was wrong with the cache since this was last asked."""
        warnings, self._warnings = self._warnings, []
        return warnings

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        with self._guard:
            self._close()

    # ----------------------------------------------------------------------------------------- faults

    def _asked(self, work: Callable[[VectorDatabase], _Result], otherwise: _Result, *, writes: bool = False) -> _Result:
        """Return what `work` gives, or `otherwise` when the cache cannot be used now."""
        with self._guard:
            now = time.monotonic()
            if now < self._rest_until or (writes and now < self._busy_until):
                return otherwise
            try:
                return work(self._opened())
            except (apsw.BusyError, apsw.LockedError):  # another process writes; that is no fault
                self._busy_until = time.monotonic() + REST_SECONDS
            except (*_DAMAGE, UnicodeDecodeError) as error:
                self._begin_anew(str(error))
            except NewerVersion:
                self._fault("it was written by a later version of memsync")
            except FilesystemError as error:
                self._fault(error.message)
            except (apsw.Error, OSError) as error:
                self._fault(str(error))
            return otherwise

    def _opened(self) -> VectorDatabase:
        """Return the database at the path: another than before if that was removed or replaced."""
        if self._database is not None and self._database.inode != _inode(self.path):
            self._close()
        if self._database is None:
            self._database = VectorDatabase(self.path, BUSY_MS)
        return self._database

    def _begin_anew(self, damage: str) -> None:
        """Move a damaged database out of the way. The next use makes an empty one."""
        self._close()
        try:
            aside = set_aside(self.path, kept=KEPT_DAMAGED)
        except FilesystemError as error:
            self._fault(error.message)
            return
        self._warnings.append(f"the vector cache {self.path} was damaged ({damage}); it was set aside as {aside.name}")

    def _fault(self, reason: str) -> None:
        """Leave the cache alone for a while, and say why, once for each reason."""
        if reason != self._last_fault:
            self._warnings.append(f"the vector cache {self.path} cannot be used: {reason}")
        self._last_fault = reason
        self._close()
        self._rest_until = time.monotonic() + REST_SECONDS

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


def _usable(space: EmbeddingSpace, vectors: Sequence[tuple[bytes, Vector | bytes]]) -> dict[bytes, bytes]:
    """Return those that are vectors of the space, as float16 by hash; what is wrong with the others, the index says."""
    values: dict[bytes, bytes] = {}
    for digest, vector in vectors:
        with suppress(EmbedderError):
            values[digest] = vector if isinstance(vector, bytes) else to_float16(vector, space.dimension)
    values = {digest: value for digest, value in values.items() if len(value) == value_bytes(space.dimension)}
    are_sound = are_unit(list(values.values()), space.dimension)
    return {digest: value for (digest, value), is_sound in zip(values.items(), are_sound, strict=True) if is_sound}


def _inode(path: Path) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return -1
