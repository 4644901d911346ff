"""A power loss: of what was recorded of an index's files, a random part is lost.

What was synced survives. Of the writes and truncates since, a random subset does, in any order, some torn at a sector's
edge; of the names made, changed and removed since their folder was last synced, a random subset. The -shm is lost. A
write never harms a byte beside those it writes: that much (SQLITE_IOCAP_POWERSAFE_OVERWRITE) SQLite expects of a disk,
and no more is simulated than SQLite's own VFS says of this one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from tests.support.recording_database import Event, Mark, Named, Sync, Truncate, Write

SECTOR = 512


@dataclass(slots=True)
class _File:
    """A file's bytes as last synced, and what was done to it since."""

    synced: bytearray = field(default_factory=bytearray)
    since: list[Write | Truncate] = field(default_factory=list)

    def sync(self) -> None:
        for change in self.since:
            _apply(self.synced, change)
        self.since.clear()

    def lose(self, chance: random.Random, share: float, torn_share: float) -> bytes:
        """Return what is left of it."""
        content = bytearray(self.synced)
        kept = [change for change in self.since if chance.random() < share]
        chance.shuffle(kept)
        for change in kept:
            torn = isinstance(change, Write) and chance.random() < torn_share
            for part in _sectors(change) if torn else (change,):
                if not torn or chance.random() < 0.5:
                    _apply(content, part)
        return bytes(content)


@dataclass(frozen=True, slots=True)
class Loss:
    """What is left after the power was lost, and which states of the index may be in it."""

    files: dict[str, bytes]
    states: frozenset[str]


def lose_power(events: list[Event], database: str, moment: int, chance: random.Random) -> Loss:
    """Return what is left when the power goes just before event `moment`.

    The states that may be found: from the last that was synced, log and name, to the one then being committed.
    """
    disk = _Disk(database)
    for event in events[:moment]:
        disk.take(event)
    states = disk.possible_states()
    next_mark = next((event for event in events[moment:] if isinstance(event, Mark)), None)
    if next_mark is not None and next_mark.path == database:
        states.append(next_mark.state)
    return Loss(disk.lose(chance), frozenset(states))


class _Disk:
    """Names, files, and what of either is not synced yet."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._names: dict[str, _File] = {}
        self._synced_names: dict[str, _File] = {}
        self._unsynced_names: list[tuple[Named, _File]] = []
        self._states: dict[str, list[str]] = {database: [""]}  # of each database, from the last that was synced

    def take(self, event: Event) -> None:
        """Let an event happen."""
        match event:
            case Write() | Truncate():
                self._names[event.path].since.append(event)
            case Sync(path):
                if path:
                    self._names[path].sync()
                else:
                    for named, file in self._unsynced_names:
                        _rename(self._synced_names, named, file)
                    self._unsynced_names.clear()
                if self._is_synced():
                    self._states[self._database] = self._states[self._database][-1:]
            case Named():
                file = self._names.get(event.old) or _File()
                _rename(self._names, event, file)
                self._unsynced_names.append((event, file))
                if event.new == self._database and event.old:
                    self._states[event.new] += self._states[event.old][-1:]
            case Mark(path, state):
                self._states.setdefault(path, []).append(state)

    def _is_synced(self) -> bool:
        """Tell whether all that was committed to the database is synced: its log, or without one itself, with names."""
        log = f"{self._database}-wal"
        is_named = all(self._names.get(path) is self._synced_names.get(path) for path in (self._database, log))
        file = self._names.get(log) or self._names.get(self._database)
        return is_named and file is not None and not file.since

    def possible_states(self) -> list[str]:
        """Return the states in which the index may be found."""
        return list(self._states[self._database])

    def lose(self, chance: random.Random) -> dict[str, bytes]:
        """Return each file that is left with what is left of it."""
        share, torn_share = chance.choice((0.0, 0.1, 0.5, 0.9, 0.99, 1.0, 1.0)), chance.choice((0.0, 0.02, 0.2))
        names = dict(self._synced_names)
        for named, file in self._unsynced_names:
            if chance.random() < 0.5:
                _rename(names, named, file)
        left = {id(file): file.lose(chance, share, torn_share) for file in names.values()}
        return {path: left[id(file)] for path, file in names.items() if not path.endswith("-shm")}


def _rename(names: dict[str, _File], named: Named, file: _File) -> None:
    if named.old and names.get(named.old) is file:
        del names[named.old]
    if named.new:
        names[named.new] = file


def _apply(content: bytearray, change: Write | Truncate) -> None:
    size = change.size if isinstance(change, Truncate) else change.offset + len(change.data)
    if isinstance(change, Truncate):
        del content[size:]
    content.extend(bytes(max(0, size - len(content))))
    if isinstance(change, Write):
        content[change.offset : size] = change.data


def _sectors(change: Write | Truncate) -> Iterator[Write | Truncate]:
    """Yield a write cut at the edges of the disk's sectors."""
    if isinstance(change, Truncate):
        yield change
        return
    start, end = change.offset, change.offset + len(change.data)
    edges = [start, *range((start // SECTOR + 1) * SECTOR, end, SECTOR), end]
    for edge, following in pairwise(edges):
        yield Write(change.path, edge, change.data[edge - start : following - start])
