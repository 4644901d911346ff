"""The SQLite index: its connections and transactions, and its repair if the file is damaged or replaced."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import msgspec

from memsync.errors import (
    ODD_ERRORS,
    FilesystemError,
    IndexBusy,
    IndexDamaged,
    IndexFailure,
    IndexOutdated,
    MemsyncError,
)
from memsync.index.frequencies import FrequencyCache
from memsync.index.rows import note_rows
from memsync.index.sqlite import schema
from memsync.index.sqlite.integrity import find_damage
from memsync.index.sqlite.reader import SqliteReader
from memsync.index.sqlite.signs import SignsCache
from memsync.index.sqlite.writer import SqliteWriter
from memsync.system import database_files
from memsync.system.transactions import read_transaction, translate_sqlite_errors, write_transaction
from memsync.system.user_folders import filesystem_errors

if TYPE_CHECKING:
    from memsync.ports import Index

VEC0_CHUNK_ROWS = 1024
"""Rows that vec0 allocates at once; a table with fewer rows is never worth compacting."""


class SqliteIndex:
    """One database file. Each thread reads through its own connection; one thread writes at a time."""

    prepare = staticmethod(note_rows)

    def __init__(self, path: Path) -> None:
        self.path = path
        self._warnings: list[str] = []
        self._damage = ""
        self._local = _ThreadReader()
        self._readers: list[apsw.Connection] = []
        self._guard = threading.Lock()
        self._write_lock = threading.RLock()
        self._epoch = 0
        self._frequencies = FrequencyCache()
        self._signs = SignsCache()
        self._reopen()

    @property
    def place(self) -> str:
        """The folder of the database."""
        return str(self.path.parent)

    def _reopen(self) -> None:
        """Open the file that is at the path now, or an empty one if that is damaged or of an earlier version.

        The new epoch makes each thread open it, too.
        """
        inode = database_files.inode(self.path)
        try:
            self._writer = self._prepare()
        except (IndexDamaged, IndexOutdated) as error:
            self._begin_anew(error, inode)
            inode = 0
            self._writer = self._prepare()
        self._inode = inode or database_files.inode(self.path)  # a file that took its place meanwhile is noticed
        self._epoch += 1

    def _begin_anew(self, reason: IndexDamaged | IndexOutdated, inode: int) -> None:
        """Move the file of `inode` away, so that the next access begins an empty index; keep a damaged file.

        The files and the vector cache have everything that the index had. Raises FilesystemError.
        """
        aside = database_files.set_aside(self.path, inode)
        if aside is None:
            return
        if isinstance(reason, IndexOutdated):
            database_files.remove(aside)
            self._warnings.append("the index is of an earlier version of memsync and is rebuilt from the files")
            return
        self._damage = f"{reason.message}; it was set aside as {aside.name} and is rebuilt from the files"
        self._warnings.append(self._damage)

    def heal(self, damage: IndexDamaged, inode: int) -> IndexDamaged:
        """Replace a damaged index by an empty one, unless the damaged file (of `inode`) was replaced already.

        Returns the error to raise, which asks the user to try again. Raises FilesystemError.
        """
        with self._write_lock:
            self._reopen_if_replaced()
            if self._inode == inode:
                self._inode = -1  # if the next steps fail, the next access opens the file that exists then
                _close(self._writer)
                try:
                    self._begin_anew(damage, inode)
                finally:
                    self._reopen()
        hint = "Run the command again: it reads from the files what is not indexed yet. memsync sync indexes all notes."
        return IndexDamaged(self._damage or f"{damage.message}; it was rebuilt meanwhile", hint=hint)

    @contextmanager
    def _watched(self, connection: apsw.Connection, inode: int) -> Iterator[None]:
        """Turn SQLite's errors into ours, and replace the index by a new one if it is damaged.

        `inode` is that of the file that the connection reads, which may have been replaced meanwhile.
        """
        try:
            with _translated(self.path):
                yield
        except _Unhealed as error:
            if error.path != self.path:  # the error is from another index that is read at the same time
                raise
            raise self.heal(error, inode) from error
        except (*ODD_ERRORS, IndexFailure) as error:
            # Both a damaged row and a bug of ours can cause nearly any error, so look for damage.
            if isinstance(error, IndexFailure) and not isinstance(error.__cause__, _SUSPECT):
                raise
            if finding := find_damage(connection):
                raise self.heal(_Unhealed(self.path, finding), inode) from error
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
        """Yield a consistent view. Nested calls in one thread share it, even if the file was replaced meanwhile."""
        local = self._local
        with _translated(self.path):
            is_nested = local.connection is not None and local.connection.in_transaction
        if not is_nested:
            self._reopen_if_replaced()
            self._connect_thread()
        connection = local.connection
        assert connection is not None
        with self._watched(connection, local.inode):
            if is_nested:
                yield SqliteReader(connection, self.path, self._frequencies, (self._signs, local.inode))
                return
            with read_transaction(connection):
                yield SqliteReader(connection, self.path, self._frequencies, (self._signs, local.inode))

    @contextmanager
    def writing(self) -> Iterator[SqliteWriter]:
        """Yield a write transaction; commit it at the end, or roll it back if the body raises."""
        self._reopen_if_replaced()
        with self._write_lock, self._watched(self._writer, self._inode), write_transaction(self._writer):
            writer = SqliteWriter(self._writer, self.path)
            yield writer
            writer.finish()

    def check(self, *, is_quick: bool = False) -> None:
        """Read and compare all tables, or only count their rows; raise IndexDamaged after replacing a damaged index."""
        with self.reading() as reader:
            reader.check(is_quick=is_quick)

    def check_writable(self) -> None:
        """Do nothing: this user alone has the file, and the next write shows what is wrong with its disk."""

    def take_damage(self) -> str:
        """Return the damage found since the last call, and what was done about it; empty if there was none."""
        damage, self._damage = self._damage, ""
        return damage

    def take_warnings(self) -> list[str]:
        """Return the warnings about opening the index since the last call."""
        warnings, self._warnings, self._damage = self._warnings, [], ""
        return warnings

    def compact(self, *, bulk: bool, is_changed: bool = True) -> None:
        """Compact vec0 tables, file and log; after a bulk load, also merge the word index."""
        if not is_changed:
            return
        with self.writing() as writer:
            writer.compact_vectors(VEC0_CHUNK_ROWS)
            if bulk:
                writer.optimize_words()
        with self._write_lock, self._watched(self._writer, self._inode):
            free, total = self._writer.pragma("freelist_count"), self._writer.pragma("page_count")
            if free > 1_000 and free * 3 > total:
                self._writer.execute("VACUUM")
            with suppress(apsw.BusyError):  # a reader uses the log; a later call empties it
                self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    @property
    def _path_beside(self) -> Path:
        return self.path.with_name(f"{self.path.name}.beside")

    def discard_leftovers(self) -> None:
        """Remove the files that a killed rebuild left. The caller must hold the sync lock."""
        if self._path_beside.exists():
            database_files.remove(self._path_beside)

    def beside(self) -> SqliteIndex:
        """Return an empty index next to this one.

        Removes the files that a killed process left, so the caller must hold the sync lock.
        """
        path = self._path_beside
        database_files.remove(path)
        try:
            return SqliteIndex(path)
        except BaseException:
            _remove_if_possible(path)
            raise

    def in_file(self, path: Path) -> SqliteIndex:
        """Return the index in another file; create it if there is none."""
        return SqliteIndex(path)

    def copy_to(self, path: Path) -> None:
        """Copy the index to a new file."""
        database_files.create_private(path)
        with self.reading(), _translated(path), closing(apsw.Connection(str(path))) as copy:
            source = self._local.connection
            assert source is not None
            with copy.backup("main", source, "main") as backup:
                backup.step()

    def take_over(self, other: Index) -> None:
        """Replace this index's file by that of `other`. Other processes notice the new inode and reopen the file.

        Raises IndexBusy if another process reads for too long, or FilesystemError; this index then stays in use.
        """
        assert isinstance(other, SqliteIndex)
        other.compact(bulk=True)
        other.close()
        with self._write_lock:
            self._empty_log()
            self._inode = -1  # if the next steps fail, the next access opens the file that exists then
            _close(self._writer)
            database_files.replace(self.path, other.path)
            self._reopen()

    def _empty_log(self) -> None:
        """Write the log into the file. Otherwise a power failure during the replacement could mix old and new data."""
        try:
            with _translated(self.path):
                self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except IndexBusy:
            raise
        except IndexFailure:  # the index is damaged, and is being replaced for that reason
            return

    def discard(self) -> None:
        """Close this index and remove its files."""
        self.close()
        _remove_if_possible(self.path)

    def forget(self) -> None:
        """Close this index and remove its files and their copies. A process that has it open begins a new one."""
        self.close()
        for path in (self.path, self._path_beside, *database_files.damaged_copies(self.path)):
            database_files.remove(path)

    def close(self) -> None:
        """Close every connection, including those of ended threads."""
        with self._guard:
            for connection in [*self._readers, self._writer]:
                _close(connection)
            self._readers.clear()

    def _connect_thread(self) -> None:
        """Give this thread its own reading connection; replace one that reads a file from before a replacement."""
        local = self._local
        while local.connection is None or local.epoch != self._epoch:
            old = local.connection
            if old is not None:  # only this thread uses it
                _close(old)
                local.connection = None  # if the next step fails, the next call opens one
            self._reopen_if_replaced()
            epoch, inode = self._epoch, self._inode
            connection = _connect_unless_replaced(self.path, inode)
            if connection is None:
                continue
            local.connection, local.epoch, local.inode = connection, epoch, inode
            with self._guard:
                self._readers = [*(reader for reader in self._readers if reader is not old), connection]

    def _reopen_if_replaced(self) -> None:
        """Reopen the database if its path has another file now; otherwise a deleted file would still answer."""
        with filesystem_errors(f"the index {self.path} cannot be reached", "Check its folder."):
            inode = database_files.inode(self.path)
        if inode == self._inode:
            return
        with self._write_lock:
            if self._inode == database_files.inode(self.path):  # another thread has done it
                return
            _close(self._writer)
            self._reopen()
            if not inode:  # a file in its place is a rebuilt index
                self._warnings.append("the index was removed while in use")


class _ThreadReader(threading.local):
    """A thread's own reading connection, the epoch in which it was opened, and the inode of its file."""

    connection: apsw.Connection | None = None
    epoch = -1
    inode = 0


_UNREADABLE = (UnicodeDecodeError, json.JSONDecodeError, msgspec.DecodeError, zlib.error)
"""Errors from values that no memsync writes."""
_SUSPECT = (apsw.SQLError, apsw.ConstraintError, apsw.TooBigError, apsw.MismatchError, apsw.NoMemError)
"""SQLite's errors that can mean either a bug of ours or damaged data."""


class _Unhealed(IndexDamaged):
    """The database at `path` is damaged and not replaced yet."""

    def __init__(self, path: Path, finding: object) -> None:
        super().__init__(f"the index {path} is damaged: {finding}", hint="Run: memsync index rebuild")
        self.path = path


def _close(connection: apsw.Connection) -> None:
    """Close a connection. If the last checkpoint fails, its data stays in the log for the next connection."""
    with suppress(apsw.Error):
        connection.close(True)


def _remove_if_possible(path: Path) -> None:
    """Remove an unused database if possible; otherwise it is removed before a new one is made there."""
    with suppress(FilesystemError):
        database_files.remove(path)


def _connect_unless_replaced(path: Path, inode: int) -> apsw.Connection | None:
    """Return a reading connection to the file of `inode`; None if another took its place meanwhile.

    SQLite opens a file and its log by name, one after the other: if they are of two indexes, any error may follow.
    """
    connection = None
    try:
        with _translated(path):
            connection = schema.connect(path, readonly=True)
    except MemsyncError:
        if database_files.inode(path) == inode:
            raise
    if connection is not None and database_files.inode(path) != inode:
        _close(connection)
        return None
    return connection


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        with translate_sqlite_errors(f"the index {path}"):
            yield
    except (apsw.NotADBError, apsw.CorruptError, *_UNREADABLE) as error:
        raise _Unhealed(path, error) from error
    except apsw.Error as error:
        raise IndexFailure(f"the index {path} does not answer: {error}", hint="Run: memsync index rebuild") from error
