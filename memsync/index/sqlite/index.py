"""The SQLite index: connections, transactions, and what happens when the file is not what it should be."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from memsync.errors import ODD_ERRORS, FilesystemError, IndexBusy, IndexDamaged, IndexFailure, IndexOutdated
from memsync.index.sqlite import database_files, schema
from memsync.index.sqlite.integrity import find_damage
from memsync.index.sqlite.reader import FrequencyCache, SqliteReader
from memsync.index.sqlite.rows import NoteRows, note_rows
from memsync.index.sqlite.salvage import copy_vectors
from memsync.index.sqlite.writer import SqliteWriter
from memsync.model.note import Chunk, Note
from memsync.model.query import EmbeddingSpace

if TYPE_CHECKING:
    from memsync.ports import Index

VEC0_CHUNK_ROWS = 1024
"""Rows vec0 allocates at once; a table of fewer than this many is never worth compacting."""

SPARE_VECTORS = 20_000
"""Vectors of texts that are gone which are kept in any case: what a checkout of another branch brings back."""


class SqliteIndex:
    """One database file. Each thread reads through a connection of its own; one writes at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._warnings: list[str] = []
        self._damage = ""
        self._local = threading.local()
        self._readers: list[apsw.Connection] = []
        self._guard = threading.Lock()
        self._write_lock = threading.RLock()
        self._epoch = 0
        self._frequencies = FrequencyCache()
        self._writer = self._open()
        self._inode = os.stat(path).st_ino

    def _open(self) -> apsw.Connection:
        """Open the writing connection; a damaged or outdated file is begun anew with its vectors."""
        try:
            return self._prepare()
        except IndexDamaged as error:
            self._begin_anew(error)
        except IndexOutdated:
            self._begin_anew(None)
        return self._prepare()

    def _begin_anew(self, damage: IndexDamaged | None) -> None:
        """Put a file in its place that has only the vectors that can still be read; a damaged one is set aside."""
        fresh = self.path.with_name(f"{self.path.name}.healed")
        database_files.remove(fresh)
        other = SqliteIndex(fresh)
        try:
            with _translated(fresh):
                active = copy_vectors(self.path, other._writer)
            if active:
                with other.writing() as writer:
                    writer.prepare_space(EmbeddingSpace(**json.loads(active)))
            other._empty_log()
            other.close()
            aside = database_files.set_aside(self.path) if damage is not None else None
            database_files.replace(self.path, fresh)
        except BaseException:
            other.discard()
            raise
        if damage is None or aside is None:
            self._warnings.append("the index is of an earlier version of memsync and is rebuilt from the files")
            return
        self._damage = f"{damage.message}; it was set aside as {aside.name} and is rebuilt from the files"
        self._warnings.append(self._damage)

    def heal(self, damage: IndexDamaged, inode: int) -> IndexDamaged:
        """Begin a damaged index anew, unless the file is no more the one of `inode` that was found damaged.

        Returns the error that says so: whoever asks again is answered. Raises FilesystemError.
        """
        with self._write_lock, _alone(self.path):
            self._reopen_if_replaced()
            if self._inode == inode:
                self._inode = -1  # should what follows fail, the next to ask opens the file that is there
                _close(self._writer)
                try:
                    self._begin_anew(damage)
                finally:
                    self._writer = self._open()
                    self._inode = os.stat(self.path).st_ino
                    self._epoch += 1
        hint = "Ask again: what is not indexed yet is read from the files. memsync sync does all of it."
        return IndexDamaged(self._damage or f"{damage.message}; it was rebuilt meanwhile", hint=hint)

    @contextmanager
    def _watched(self, connection: apsw.Connection, inode: int) -> Iterator[None]:
        """Turn SQLite's errors into ours, and begin the index anew when they, or the rows read, show damage.

        `inode` is of the file that the connection reads, which may have been replaced meanwhile.
        """
        try:
            with _translated(self.path):
                yield
        except _Unhealed as error:
            if error.path != self.path:  # another's, which is read at the same time
                raise
            raise self.heal(error, inode) from error
        except (*ODD_ERRORS, IndexFailure) as error:
            # What a damaged row is read as can lead to nearly any error, and so can a fault of ours.
            if isinstance(error, IndexFailure) and not isinstance(error.__cause__, _SUSPECT):
                raise
            if found := find_damage(connection):
                damage = _Unhealed(self.path, found)
                raise self.heal(damage, inode) from error
            raise

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
        """Yield a consistent view; nested calls in one thread share it, even if the file was replaced meanwhile."""
        nested = self._reads_already()
        if not nested:
            self._reopen_if_replaced()
        connection, inode = self._local.reader[1:] if nested else self._reader()
        with self._watched(connection, inode):
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
        with self._write_lock, self._watched(self._writer, self._inode):
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

    def prepare(self, note: Note, chunks: Sequence[Chunk]) -> NoteRows:
        """Return the rows of a note."""
        return note_rows(note, chunks)

    def check(self, *, is_quick: bool = False) -> None:
        """Read all of the index and compare its tables with each other; if `is_quick`, only count their rows.

        Raises IndexDamaged, having begun it anew.
        """
        with self.reading() as reader:
            reader.check(is_quick=is_quick)

    def take_damage(self) -> str:
        """Return what damage was found, and what was done about it, since this was last asked; empty without any."""
        damage, self._damage = self._damage, ""
        return damage

    def take_warnings(self) -> list[str]:
        """Return what had to be done to open the index since this was last asked."""
        warnings, self._warnings, self._damage = self._warnings, [], ""
        return warnings

    def compact(self, *, bulk: bool) -> None:
        """Rebuild vec0 tables of which under half is live and empty the log; after a bulk load merge the word index."""
        with self.writing() as writer:
            writer.compact_vectors(VEC0_CHUNK_ROWS)
            writer.trim_cache(SPARE_VECTORS)
            if bulk:
                writer.optimize_words()
        with self._write_lock, self._watched(self._writer, self._inode):
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
                with _translated(path):
                    copy_vectors(self.path, other._writer)
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

    def _reads_already(self) -> bool:
        connection: apsw.Connection | None = getattr(self._local, "reader", (-1, None, 0))[1]
        with _translated(self.path):
            return connection is not None and connection.in_transaction

    def _reader(self) -> tuple[apsw.Connection, int]:
        """Return this thread's own connection, and the inode of the file that it reads."""
        epoch, connection, inode = getattr(self._local, "reader", (-1, None, 0))
        old = connection
        while connection is None or epoch != self._epoch:
            if connection is not None:  # of the file that stood here before; only this thread uses it
                _close(connection)
            epoch, inode = self._epoch, self._inode
            with _translated(self.path):
                connection = schema.connect(self.path, readonly=True)
            self._local.reader = (epoch, connection, inode)
            with self._guard:
                self._readers = [*(reader for reader in self._readers if reader is not old), connection]
            old = connection
        assert isinstance(connection, apsw.Connection)
        return connection, inode

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


_SUSPECT = (apsw.SQLError, apsw.ConstraintError, apsw.TooBigError, apsw.MismatchError, apsw.NoMemError)
"""What SQLite raises for a fault of ours, or because what it reads makes no sense."""


class _Unhealed(IndexDamaged):
    """The database at `path` is damaged, and still in its place."""

    def __init__(self, path: Path, finding: object) -> None:
        super().__init__(f"the index {path} is damaged: {finding}", hint="Run: memsync rebuild")
        self.path = path


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let one process at a time begin an index anew."""
    lock = os.open(f"{path}.healing", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
        with suppress(FileNotFoundError):
            os.unlink(f"{path}.healing")
    finally:
        os.close(lock)


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
        raise _Unhealed(path, error) from error
    except apsw.Error as error:
        raise IndexFailure(f"the index {path} does not answer: {error}", hint="Run: memsync rebuild") from error
