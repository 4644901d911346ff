"""The SQLite index: connections, transactions, and what happens when the file is not what it should be."""

from __future__ import annotations

import json
import os
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from memsync.errors import FilesystemError, IndexBusy, IndexDamaged, IndexFailure
from memsync.indexes.sqlite import database_files, schema
from memsync.indexes.sqlite.reader import FrequencyCache, SqliteReader
from memsync.indexes.sqlite.writer import SqliteWriter

if TYPE_CHECKING:
    from memsync.ports import Index

_COPY_VECTORS = """
BEGIN IMMEDIATE;
INSERT INTO space SELECT id, name, description, dimension, 'retired' FROM source.space;
INSERT INTO vector SELECT hash, space, value FROM source.vector ORDER BY rowid;
COMMIT;
"""

VEC0_CHUNK_ROWS = 1024
"""Rows vec0 allocates at once; a table of fewer than this many is never worth compacting."""

SPARE_VECTORS = 20_000
"""Vectors of texts that are gone which are kept in any case: what a checkout of another branch brings back."""


class SqliteIndex:
    """One database file. Each thread reads through a connection of its own; one writes at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._warnings: list[str] = []
        self._local = threading.local()
        self._readers: list[apsw.Connection] = []
        self._guard = threading.Lock()
        self._write_lock = threading.RLock()
        self._epoch = 0
        self._frequencies = FrequencyCache()
        self._writer = self._open()
        self._inode = os.stat(path).st_ino

    def _open(self) -> apsw.Connection:
        """Open the writing connection; a file that is no database is set aside and begun anew."""
        try:
            return self._prepare()
        except IndexDamaged as error:
            aside = database_files.set_aside(self.path)
            self._warnings.append(f"{error}; it was set aside as {aside.name} and is rebuilt from the files")
            return self._prepare()

    def _prepare(self) -> apsw.Connection:
        with _translated(self.path):
            connection = schema.connect(self.path)
            try:
                schema.prepare(connection)
            except BaseException:
                _close(connection)
                raise
            return connection

    @contextmanager
    def reading(self) -> Iterator[SqliteReader]:
        """Yield a consistent view; nested calls in one thread share it."""
        self._reopen_if_replaced()
        connection = self._reader()
        with _translated(self.path):
            nested = connection.in_transaction
            if nested:
                yield SqliteReader(connection, self.path, self._frequencies)
                return
            connection.execute("BEGIN")
            try:
                yield SqliteReader(connection, self.path, self._frequencies)
            finally:
                if connection.in_transaction:  # some errors end it by themselves
                    connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[SqliteWriter]:
        """Yield a write transaction that is committed at the end, or rolled back when the body raises."""
        self._reopen_if_replaced()
        with self._write_lock, _translated(self.path):
            self._writer.execute("BEGIN IMMEDIATE")
            writer = SqliteWriter(self._writer, self.path)
            try:
                yield writer
                writer.finish()
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    def take_warnings(self) -> list[str]:
        """Return what had to be done to open the index since this was last asked."""
        warnings, self._warnings = self._warnings, []
        return warnings

    def compact(self, *, bulk: bool) -> None:
        """Rebuild vec0 tables of which under half is live and empty the log; after a bulk load merge the word index."""
        with self.writing() as writer:
            writer.compact_vectors(VEC0_CHUNK_ROWS)
            writer.trim_cache(SPARE_VECTORS)
            if bulk:
                writer.optimize_words()
        with self._write_lock, _translated(self.path):
            free, total = self._writer.pragma("freelist_count"), self._writer.pragma("page_count")
            if free > 1_000 and free * 3 > total:
                self._writer.execute("VACUUM")
            with suppress(apsw.BusyError):  # a reader holds the log open; it is emptied another time
                self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def beside(self, *, keep_vectors: bool) -> SqliteIndex:
        """Return an empty index next to this one, with a copy of the vector cache if it is kept.

        One at a time (the caller holds the sync lock): what an earlier one left when it was killed is removed.
        """
        path = self.path.with_name(f"{self.path.name}.beside")
        database_files.remove(path)
        try:
            other = SqliteIndex(path)
        except BaseException:
            _remove_if_possible(path)
            raise
        try:
            if keep_vectors:
                with _translated(self.path):
                    other._writer.execute("ATTACH ? AS source", (str(self.path),))
                    schema.run_all(other._writer, _COPY_VECTORS)
                    other._writer.execute("DETACH source")
        except BaseException:
            other.discard()
            raise
        return other

    def take_over(self, other: Index) -> None:
        """Put `other`'s file in this one's place. Other processes notice by the inode and open it anew.

        Raises IndexBusy while another process reads for long, FilesystemError; the old one then goes on.
        """
        assert isinstance(other, SqliteIndex)
        other.compact(bulk=True)
        other.close()
        with self._write_lock:
            self._empty_log()
            self._inode = -1  # should what follows fail, the next to ask opens the file that is there
            _close(self._writer)
            database_files.replace(self.path, other.path)
            self._writer = self._open()
            self._inode = os.stat(self.path).st_ino
            self._epoch += 1

    def _empty_log(self) -> None:
        """Bring the file up to its log: without that, should the power fail in the midst, it would be half of each."""
        try:
            with _translated(self.path):
                self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except IndexBusy:
            raise
        except IndexFailure:  # which is why one may rebuild
            return

    def discard(self) -> None:
        """Close this index and remove its files."""
        self.close()
        _remove_if_possible(self.path)

    def close(self) -> None:
        """Close every connection, also those of threads that have ended."""
        with self._guard:
            for connection in [*self._readers, self._writer]:
                _close(connection)
            self._readers.clear()

    def _reader(self) -> apsw.Connection:
        epoch, connection = getattr(self._local, "reader", (-1, None))
        old = connection
        if connection is None or epoch != self._epoch:
            if connection is not None:  # of the file that stood here before; only this thread uses it
                _close(connection)
            with _translated(self.path):
                connection = schema.connect(self.path, readonly=True)
            self._local.reader = (self._epoch, connection)
            with self._guard:
                self._readers = [*(reader for reader in self._readers if reader is not old), connection]
        assert isinstance(connection, apsw.Connection)
        return connection

    def _reopen_if_replaced(self) -> None:
        """Follow the path, not the file once opened: a deleted database would go on answering from beyond."""
        try:
            inode = os.stat(self.path).st_ino
        except FileNotFoundError:
            inode = 0
        except OSError as error:
            raise FilesystemError(
                f"the index {self.path} cannot be reached: {error.strerror}", hint="Check its folder."
            ) from error
        if inode == self._inode:
            return
        with self._write_lock:
            if self._inode == (self.path.stat().st_ino if self.path.exists() else 0):  # another thread was quicker
                return
            _close(self._writer)
            self._writer = self._open()
            self._inode = os.stat(self.path).st_ino
            self._epoch += 1
            self._warnings.append("the index was removed or replaced while in use")


def _close(connection: apsw.Connection) -> None:
    """Close a connection. What the last checkpoint then fails at is still in the log, for whoever opens it next."""
    with suppress(apsw.Error):
        connection.close(True)


def _remove_if_possible(path: Path) -> None:
    """Remove what nobody wants; what cannot be removed now is removed before anything is made in its place."""
    with suppress(FilesystemError):
        database_files.remove(path)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours, each with what to do."""
    try:
        yield
    except apsw.BusyError as error:
        raise IndexBusy(
            f"the index {path} is being written by another process", hint="Try again in a moment."
        ) from error
    except apsw.FullError as error:
        raise FilesystemError(
            f"no space left for the index {path}", hint="Free some disk space and sync again."
        ) from error
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError) as error:
        raise FilesystemError(f"the index {path} cannot be written", hint="Check its permissions.") from error
    except apsw.IOError as error:
        raise IndexFailure(f"the index {path} cannot be read or written: {error}", hint="Check the disk.") from error
    except (apsw.NotADBError, apsw.CorruptError, UnicodeDecodeError, json.JSONDecodeError, zlib.error) as error:
        raise IndexDamaged(f"the index {path} is damaged: {error}", hint="Run: memsync rebuild") from error
    except apsw.Error as error:
        raise IndexFailure(f"the index {path} does not answer: {error}", hint="Run: memsync rebuild") from error
