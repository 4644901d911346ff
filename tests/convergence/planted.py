"""Bugs planted on purpose, each as a patch that only the tests can reach: a proof that would not find them is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast
from unittest import mock

from memsync.daemon.keeper import Keeper
from memsync.errors import RootError
from memsync.index.postgres.writer import PostgresWriter
from memsync.index.sqlite.writer import SqliteWriter
from memsync.model.status import ChangeType
from memsync.notes.files import FileScan, NoteFiles, Places
from memsync.notes.ignore import IgnoreRules
from memsync.search.fresh_search import FreshSearch
from memsync.sync.indexer import TextReport
from memsync.sync.plan import Scanner, Settling, plan_sync

Plant = Callable[[], AbstractContextManager[Any]]


def instead(owner: Any, name: str, replacement: Any) -> Plant:
    """Return a plant that replaces one thing. Entering it raises AttributeError when there is no such thing."""
    return lambda: mock.patch.object(owner, name, replacement)


def _nothing(*arguments: Any, **options: Any) -> None:
    """Stand in for work that a bug leaves undone."""


def _without_statement(start: str) -> Plant:
    """Leave every statement out that begins so."""

    @contextmanager
    def plant() -> Iterator[None]:
        begin = SqliteWriter.__init__

        def begin_without(writer: SqliteWriter, connection: Any, path: Any) -> None:
            begin(writer, cast(Any, _Without(connection, start)), path)

        with mock.patch.object(SqliteWriter, "__init__", begin_without):
            yield

    return plant


class _Without:
    """A connection that leaves out every statement that begins with `start`."""

    def __init__(self, connection: Any, start: str) -> None:
        self._connection = connection
        self._start = start

    def execute(self, statement: str, parameters: Any = ()) -> Any:
        return () if statement.startswith(self._start) else self._connection.execute(statement, parameters)

    def executemany(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> Any:
        return () if statement.startswith(self._start) else self._connection.executemany(statement, rows)


def _plan_by_mtime(scan: FileScan, indexed: Mapping[Any, Any], parsed_by: str, *, is_local: bool = False) -> Any:
    plan = plan_sync(scan, indexed, parsed_by, is_local=is_local)
    return [c for c in plan if c.type is not ChangeType.MODIFIED or indexed[c.path].mtime_ns != scan.files[c.path][1]]


@contextmanager
def _no_racy_window() -> Iterator[None]:
    with mock.patch("memsync.sync.plan.RACY_NS", 0), mock.patch("memsync.sync.plan.FINE_RACY_NS", 0):
        yield


@contextmanager
def _known_for_good() -> Iterator[None]:
    read = Scanner.known

    def read_once(scanner: Scanner) -> Any:
        return scanner._known if scanner._known.generation >= 0 else read(scanner)

    with mock.patch.object(Scanner, "known", read_once):
        yield


def _unknown_if_unreadable(scan: FileScan, path: str) -> bool:
    return any(path == place or path.startswith(place) for place in scan.unreadable_folders)


def _unknown_if_elsewhere(scan: FileScan, path: str) -> bool:
    return scan.places is not None and not scan.places.hold(path)


@contextmanager
def _ignore_files_kept() -> Iterator[None]:
    read = IgnoreRules.read

    def read_once(rules: IgnoreRules, folder: str, file: Any) -> Any:
        if folder not in rules._parsed and read(rules, folder, file) is None:
            return None
        return rules._parsed[folder][1]

    with mock.patch.object(IgnoreRules, "read", read_once):
        yield


def _convert(vector: Any, dimension: int) -> bytes:
    return bytes(vector[:dimension].astype("<f2").tobytes())


def _without_facts(writer: PostgresWriter, statement: str, parameters: Mapping[str, Any]) -> None:
    if not statement.startswith("DELETE FROM fact"):
        writer._db.execute(statement.encode(), {"root": writer._root, **parameters})


@contextmanager
def _lost_root_is_empty() -> Iterator[None]:
    scan = NoteFiles.scan

    def scan_anything(files: NoteFiles, places: Places | None = None, known: Any = None) -> FileScan:
        try:
            return scan(files, places, known)
        except RootError:
            return FileScan(places)

    with (
        mock.patch.object(NoteFiles, "scan", scan_anything),
        mock.patch.object(NoteFiles, "root_identity", lambda files: "the root"),
    ):
        yield


@contextmanager
def _never_compared_again() -> Iterator[None]:
    with mock.patch("memsync.daemon.keeper.RESCAN_SECONDS", 1e9):
        yield


PLANTED: Mapping[str, Plant] = {
    "a deleted note is kept": instead(SqliteWriter, "delete_note", _nothing),
    "an overflow is ignored": instead(Keeper, "_lost", _nothing),
    "files are told apart by mtime alone": lambda: mock.patch("memsync.sync.plan.plan_sync", _plan_by_mtime),
    "failures are forgotten": lambda: mock.patch("memsync.sync.indexer.write_failures", _nothing),
    "what another process wrote is not read": _known_for_good,
    "a save in progress is believed": instead(Settling, "divide", lambda self, changes, *rest: (changes, 0.0)),
    "what was not looked at counts as gone": instead(FileScan, "is_unknown", _unknown_if_unreadable),
    "what cannot be read counts as gone": instead(FileScan, "is_unknown", _unknown_if_elsewhere),
    "a report about a folder does not hold for what is in it": instead(
        Places, "hold", lambda places, path: path in places.paths
    ),
    "passages that nothing holds are left": lambda: mock.patch(
        "memsync.index.sqlite.writer._ORPHANS", "SELECT value FROM json_each(?) WHERE 0"
    ),
    "words of a forgotten chunk are left": _without_statement("DELETE FROM chunk_fts"),
    "vectors of a forgotten passage are left": _without_statement("DELETE FROM vec_"),
    "tags of a forgotten chunk are left": _without_statement("DELETE FROM tag"),
    "links of the old text are left": _without_statement("DELETE FROM link"),
    "any vector will do": lambda: mock.patch("memsync.index.vectors.to_float16", _convert),
    "a lost root counts as an empty one": _lost_root_is_empty,
    "reports are relied on for good": _never_compared_again,
    "a strict search does not look at the files": instead(
        FreshSearch, "_freshen", lambda answering, fresh, words=(): TextReport()
    ),
    "two writes in one tick are taken for one": _no_racy_window,
    "a changed .gitignore is not read again": _ignore_files_kept,
    "a chunk that moved keeps its old place": instead(SqliteWriter, "_move_chunk", _nothing),
}
"""What the bug does -> a context in which memsync has it. The machine finds each."""

PLANTED_IN_POSTGRES: Mapping[str, Plant] = {
    "a deleted note is kept": instead(PostgresWriter, "delete_note", _nothing),
    "passages that nothing holds are left": lambda: mock.patch(
        "memsync.index.postgres.writer._ORPHANS",
        "SELECT 1::bigint FROM unnest(%(passages)s::bigint[]) WHERE %(root)s < 0",
    ),
    "words of a forgotten chunk are left": lambda: mock.patch(
        # In the place of another chunk, because a new chunk may get the number of this one.
        "memsync.index.postgres.writer._DELETE_WORD_ROWS",
        "UPDATE word_row SET chunk = -chunk - 1000000 * floor(1000 * extract(epoch FROM clock_timestamp()))::bigint"
        " WHERE root = %(root)s AND chunk = ANY (%(ids)s) RETURNING '{}'::text[]",
    ),
    "words are not counted": instead(PostgresWriter, "_count_words", _nothing),
    "facts of the old text are left": lambda: mock.patch.object(PostgresWriter, "_run", _without_facts),
    "any vector will do": lambda: mock.patch("memsync.index.vectors.to_float16", _convert),
    "history is not kept": instead(PostgresWriter, "_write_local_state", _nothing),
}
"""The same for an index in PostgreSQL."""
