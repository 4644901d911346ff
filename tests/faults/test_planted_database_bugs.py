"""The tests of faults and power losses, tested: each bug planted here is one that they find."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from memsync.index.sqlite import schema
from memsync.index.sqlite.index import SqliteIndex
from memsync.index.sqlite.writer import SqliteWriter
from memsync.model.status import ChangeType
from memsync.sync.indexer import Indexer
from memsync.system import database_files
from tests.support.database_scenario import Clean, run_clean, run_with_fault
from tests.support.faulty_database import Fault, FaultyDisk, faulty_disk
from tests.support.power_loss import record_life, survive
from tests.support.sampling import sampled

Plant = Callable[[pytest.MonkeyPatch], None]
STRIDE = 37
LOSSES = 1_000


def pragma_after_preparing(patch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """Let every writing connection end up with another setting."""
    real = schema.prepare

    def prepare(connection: apsw.Connection) -> None:
        real(connection)
        connection.pragma(name, value)

    patch.setattr(schema, "prepare", prepare)


def errors_of_sqlite_pass_through(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("memsync.index.sqlite.index._translated", lambda path: nullcontext())


def failing_commit_is_taken_for_done(patch: pytest.MonkeyPatch) -> None:
    real = SqliteIndex.writing

    @contextmanager
    def writing(self: SqliteIndex) -> Iterator[SqliteWriter]:
        with suppress(Exception), real(self) as writer:
            yield writer

    patch.setattr(SqliteIndex, "writing", writing)


def stamp_is_believed_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    real = Indexer._commit

    def commit(self: Indexer, batch: Sequence[Any], work: Any) -> None:
        for parsed in batch:
            stamp = self._stamp(parsed)
            if stamp is not None:
                self.scanner.known().stamps[parsed.change.path] = stamp
        real(self, batch, work)

    patch.setattr(Indexer, "_commit", commit)


def stamp_is_committed_before_the_rows(patch: pytest.MonkeyPatch) -> None:
    real = Indexer._commit

    def commit(self: Indexer, batch: Sequence[Any], work: Any) -> None:
        with self._index.writing() as writer:
            for parsed in batch:
                if parsed.change.type is ChangeType.MODIFIED:
                    writer.put_stamp(parsed.change.path, parsed.stamp)
        real(self, batch, work)

    patch.setattr(Indexer, "_commit", commit)


def failed_rebuild_leaves_its_files(patch: pytest.MonkeyPatch) -> None:
    real = SqliteIndex.discard
    patch.setattr(SqliteIndex, "discard", lambda self: self.close() if sys.exc_info()[0] else real(self))
    patch.setattr(SqliteIndex, "discard_leftovers", lambda self: None)  # which the next sync uses


def connection_stays_open_after_an_error(patch: pytest.MonkeyPatch) -> None:
    leaked: list[apsw.Connection] = []

    def close(connection: apsw.Connection) -> None:
        if sys.exc_info()[0]:
            leaked.append(connection)
        else:
            connection.close()

    patch.setattr("memsync.index.sqlite.index._close", close)


def journal_is_off(patch: pytest.MonkeyPatch) -> None:
    pragma_after_preparing(patch, "journal_mode", "off")


def nothing_is_synced(patch: pytest.MonkeyPatch) -> None:
    pragma_after_preparing(patch, "synchronous", "off")


def folder_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(database_files, "sync_folder", lambda folder: None)


def log_is_not_emptied_before_it_goes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SqliteIndex, "_empty_log", lambda self: None)


def fails_somewhere(disk: FaultyDisk, clean: Clean, folder: Path) -> bool:
    """Tell whether a share of the fault points finds something wrong."""
    for at in range(1, clean.calls + 1, STRIDE):
        for lasts in (False, True):
            try:
                run_with_fault(disk, Fault(at, is_full=True, lasts=lasts), folder, clean, reopens=False)
            except (AssertionError, apsw.Error):
                return True
    return False


FAULTS_FIND: list[Plant] = [
    errors_of_sqlite_pass_through, failing_commit_is_taken_for_done, stamp_is_believed_before_the_commit,
    stamp_is_committed_before_the_rows, failed_rebuild_leaves_its_files, connection_stays_open_after_an_error,
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("plant", sampled(FAULTS_FIND, 2, 4))
def test_faults_find_a_planted_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Plant) -> None:
    """Without a fault all is well; one fault point of a short run at least shows it."""
    with faulty_disk() as disk:
        clean = run_clean(disk, tmp_path / "clean")
        with monkeypatch.context() as patch:
            plant(patch)
            run_with_fault(disk, Fault(clean.calls * 2, False, False), tmp_path / "life", clean, reopens=False)
            assert fails_somewhere(disk, clean, tmp_path / "life")


LOSSES_FIND: list[Plant] = [
    journal_is_off,
    nothing_is_synced,
    stamp_is_committed_before_the_rows,
    folder_is_not_synced,
    log_is_not_emptied_before_it_goes,
]
# Where the rebuilt index takes over: what is wrong there is too rare for a short run. The first event and the last.
NEAR_THE_RENAME: dict[Plant, tuple[int, int]] = {
    folder_is_not_synced: (1, 4),
    log_is_not_emptied_before_it_goes: (-2, 0),
}


@pytest.mark.slow
@pytest.mark.parametrize("plant", sampled(LOSSES_FIND, 1, 2))
def test_power_losses_find_a_planted_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Plant) -> None:
    """One loss of a short run at least shows it."""
    plant(monkeypatch)
    recording = record_life(tmp_path / "life")
    first, last = NEAR_THE_RENAME.get(plant, (0, 0))
    with pytest.raises((AssertionError, apsw.Error)):
        for seed in range(LOSSES):
            near = recording.take_over() + first + seed % (last - first + 1) if plant in NEAR_THE_RENAME else None
            survive(recording, seed, tmp_path / "after", near)
