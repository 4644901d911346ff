"""The records of runs: changes to several notes that can be undone, in the state of a memory root."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from memsync.model.vocabulary import NotePath
from memsync.system.state_file import StateFile

MAX_RUNS = 100
"""Moves and accepts of longer ago cannot be undone, because each keeps copies of whole notes."""
_DROP_OLD = "DELETE FROM step WHERE kind IN (?, ?) AND run < ?"


class Work(StrEnum):
    """What a run does, which decides what undoes it."""

    PRUNE = "prune"
    FORGET = "forget"
    MOVE = "mv"
    ACCEPT = "proposals accept"


Lines = tuple[int, int]
"""The first and the last line of a part of a note, counted from 1."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a run does to one note: it moves the note to `other`, changes its text, or both.

    `user` is whose text it takes out, or what else tells what the run did. Where it takes out text, `other` is the path
    under which appends to the note may be in the journal, and `parts` are the lines that go. `before` is its content,
    `after` the SHA-256 of its content afterwards: empty if the whole note goes or if its text does not change.
    """

    path: NotePath
    other: NotePath
    kind: Work
    user: str = ""
    before: bytes = b""
    after: str = ""
    mode: int = 0
    parts: tuple[Lines, ...] = ()
    run: int = 0


class RunRecords:
    """The records in `state`. All methods raise FilesystemError, IndexBusy and IndexFailure."""

    def __init__(self, state: StateFile) -> None:
        self._state = state

    def begin(self, steps: Iterable[Step]) -> int:
        """Record a run on the disk, before it changes the first note; return its number."""
        with self._state.writing(waits=True) as database:
            run = int(database.execute("SELECT coalesce(max(run), 0) + 1 FROM step").get)
            rows = (
                (run, s.kind, s.user, s.path, s.other, s.before, s.after, s.mode, json.dumps(s.parts)) for s in steps
            )
            database.execute(_DROP_OLD, (Work.MOVE, Work.ACCEPT, run - MAX_RUNS))
            database.executemany("INSERT INTO step VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        return run

    def steps(self, kind: Work) -> list[Step]:
        """Return the steps of all runs of one kind that can be undone, the last one first."""
        rows = self._state.rows(
            "SELECT path, other, user, before, after, mode, parts, run FROM step WHERE kind = ?"
            " ORDER BY run DESC, rowid DESC",
            (kind,),
        )
        return [
            Step(path, other, kind, user, before, after, mode, tuple(map(tuple, json.loads(parts))), run)
            for path, other, user, before, after, mode, parts, run in rows
        ]

    def drop(self, run: int, paths: Iterable[NotePath]) -> None:
        """Delete steps: what they did is undone, was never done, or is not to be undone any more."""
        with self._state.writing() as database:
            database.executemany("DELETE FROM step WHERE run = ? AND path = ?", [(run, path) for path in paths])
