"""The life of an index, recorded, and what memsync makes of it after the power was lost at a random moment."""

from __future__ import annotations

import hashlib
import random
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import apsw

from memsync.index.sqlite import schema
from memsync.index.sqlite.index import SqliteIndex
from memsync.index.sqlite.writer import SqliteWriter
from memsync.settings.load import load_settings
from memsync.system.user_folders import own_folder
from tests.support.database_scenario import STEPS, Divergence, Life, clock_ahead, open_memory
from tests.support.index_checks import check_sound, dump
from tests.support.losing_database import lose_power
from tests.support.recording_database import Event, Mark, Named, RecordingDisk, recording_disk

CHECKPOINT_PAGES = 20
"""The log is emptied this often, not after 1,000 pages, so that many losses fall into it."""


@dataclass(frozen=True, slots=True)
class Recording:
    """All that happened to the files of an index, the notes as they were at the end, and their index's dump."""

    events: list[Event]
    life: Life
    last: list[str]

    def take_over(self) -> int:
        """Return the number of the event in which a rebuilt index gets its name."""
        (event,) = (n for n, event in enumerate(self.events) if isinstance(event, Named) and event.old and event.new)
        return event


def record_life(folder: Path) -> Recording:
    """Run all steps of the scenario on a recording disk."""
    life = Life(folder)
    own_folder(life.settings.index_dir)
    with recording_disk(life.settings.index_dir) as disk, clock_ahead(), _marking(disk):
        for _, prepare, step in STEPS:
            if prepare is not None:
                prepare(life)
            step(life)
        last = dump(life.opened())
        life.close()
    return Recording(disk.events, life, last)


def survive(recording: Recording, seed: int, folder: Path, moment: int | None = None) -> bool:
    """Lose the power at a (random) moment, open the index, sync; return whether there was something to lose.

    Raises Divergence, or what memsync raised: there is nothing that it may.
    """
    chance = random.Random(seed)
    if moment is None:
        moment = _moment(recording.events, chance)
    path = recording.life.settings.index_dir / "index.db"
    loss = lose_power(recording.events, str(path), moment, chance)
    shutil.rmtree(folder, ignore_errors=True)
    own_folder(folder)
    for name, content in loss.files.items():
        (folder / Path(name).name).write_bytes(content)
    root = recording.life.root
    settings = load_settings(root=root, environ={}, cwd=root)
    settings.index_name = str(folder)
    with clock_ahead(), open_memory(settings) as memory:
        warnings = memory.index.take_warnings()
        if warnings:
            raise Divergence(f"before event {moment}: {warnings}")
        check_sound(memory)
        found = _state(dump(memory))
        if found not in loss.states:
            raise Divergence(f"before event {moment}: found a state that was never committed, or too old a one")
        report = memory.sync()
        if report.failed or report.vectors_pending or dump(memory) != recording.last:
            raise Divergence(f"before event {moment}: after a sync the index differs from one built from nothing")
        if memory.verify() is not None:
            raise Divergence(f"before event {moment}: verify finds a difference")
    check_sound(memory)
    return len(loss.states) > 1


def _moment(events: list[Event], chance: random.Random) -> int:
    """Return a moment, every third time one shortly after a name was changed: what is rare is most delicate."""
    if chance.random() < 0.7:
        return chance.randrange(len(events) + 1)
    named = [number for number, event in enumerate(events) if isinstance(event, Named)]
    return min(chance.choice(named) + chance.randrange(6), len(events))


@contextmanager
def _marking(disk: RecordingDisk) -> Iterator[None]:
    """Record each state of each index once it is committed, and let logs be emptied often."""
    real_writing, real_prepare = SqliteIndex.writing, schema.prepare

    @contextmanager
    def writing(index: SqliteIndex) -> Iterator[SqliteWriter]:
        with real_writing(index) as writer:
            yield writer
        with index.reading() as reader:
            disk.record(Mark(str(index.path), _state(list(reader.dump()))))

    def prepare(connection: apsw.Connection) -> None:
        connection.pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
        real_prepare(connection)

    with ExitStack() as stack:
        stack.enter_context(patch.object(SqliteIndex, "writing", writing))
        stack.enter_context(patch.object(schema, "prepare", prepare))
        yield


def _state(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest() if lines else ""
