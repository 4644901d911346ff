"""Notes that leave for archive/ and come back: every run is written down before it begins, so that it can be undone.

The record has a line before each run, with what it is to move, and one after it, with what it moved. A run without the
second was killed; what of it has moved is then told by the files themselves.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from memsync.edit import commits
from memsync.edit.json_lines import append_line
from memsync.edit.moving import is_half_moved, move
from memsync.edit.note_paths import numbered
from memsync.edit.note_writer import NoteWriter
from memsync.errors import MemsyncError, UsageError
from memsync.model.sync_report import Failure
from memsync.model.upkeep import Retirement
from memsync.model.vocabulary import NotePath
from memsync.notes.rules import ARCHIVE_FOLDER

Move = tuple[NotePath, NotePath]


@dataclass(slots=True)
class Moved:
    """What one run moved, as (from, to), what it could not, and the git commit with a complaint when there is none."""

    moves: list[Move] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    complaint: str = ""


class Retiring:
    """Moves the notes of one memory root; `keep` is the folder of its record."""

    def __init__(self, root: Path, keep: Path, writer: NoteWriter, *, commits: bool) -> None:
        self._root = root
        self._record = keep / "retired.jsonl"
        self._writer = writer
        self._commits = commits

    def with_free_targets(self, due: Iterable[Retirement]) -> list[Retirement]:
        """Return retirements to names that nothing has yet."""
        taken: set[str] = set()
        found = []
        for one in due:
            target = next(
                path
                for path in numbered(one.target)
                if path not in taken and (not self._is_there(path) or is_half_moved(self._root, one.path, path))
            )
            taken.add(target)
            found.append(replace(one, target=target))
        return found

    def retire(self, due: Sequence[Retirement], mtimes_ns: dict[NotePath, int]) -> Moved:
        """Move notes, each if it is as it was when it was judged. Raises FilesystemError before the first is moved."""
        with self._writer.lock():
            # What is gone by now, another process has retired while this one waited.
            moves = [(one.path, one.target) for one in due if self._is_there(one.path)]
            if not moves:
                return Moved()
            run = f"{time.time_ns():x}"
            self._write({"run": run, "moves": moves})
            moved = self._move(
                moves,
                lambda source, target: move(self._root, source, target, mtime_ns=mtimes_ns[source]),
                f"memsync prune: {len(moves)} notes",
            )
            self._write({"done": run, "moves": moved.moves})
            return moved

    def undo(self) -> Moved:
        """Move back what the last run moved that was not undone. Raises UsageError when there is none."""
        with self._writer.lock():
            runs = self._runs()
            if not runs:
                raise UsageError("there is nothing to undo", hint="Only what prune --apply moved can be moved back.")
            run, moves = list(runs.items())[-1]
            back = [(target, source) for source, target in moves if self._is_there(target)]
            moved = self._move(back, lambda source, target: move(self._root, source, target), "memsync prune --undo")
            gone = [path for path, target in moves if not self._is_there(path) and not self._is_there(target)]
            moved.failed += [Failure(path, "it is neither here nor in archive/ any more") for path in gone]
            if len(moved.failed) == len(gone):
                self._write({"undone": run})
            return moved

    def retired_to(self, path: NotePath) -> list[NotePath]:
        """Return where notes of that path have been moved to and still are, the latest first."""
        targets = [target for moves in self._runs().values() for source, target in moves if source == path]
        return [target for target in dict.fromkeys(reversed(targets)) if self._is_there(target)]

    def came_from(self, target: NotePath) -> NotePath:
        """Return the path that a note in archive/ had: as the last run that moved it there has it, else by its name."""
        sources = [source for moves in self._runs().values() for source, to in moves if to == target]
        return sources[-1] if sources else NotePath(target.removeprefix(ARCHIVE_FOLDER))

    def _is_there(self, path: NotePath) -> bool:
        return os.path.lexists(self._root / path)

    def _move(self, moves: Sequence[Move], act: Callable[[NotePath, NotePath], None], message: str) -> Moved:
        done = Moved()
        for source, target in moves:
            try:
                act(source, target)
                done.moves.append((source, target))
            except FileNotFoundError:
                done.failed.append(Failure(source, "it is gone"))
            except MemsyncError as error:
                done.failed.append(Failure(source, error.message))
        if self._commits:
            _, done.complaint = commits.commit_moves(self._root, done.moves, message)
        return done

    # ------------------------------------------------------------------------------------------ record

    def _runs(self) -> dict[str, list[Move]]:
        """Return what each run moved that is not undone, the oldest first.

        Of one that was killed it is what it was to move, of one that moved nothing it is nothing.
        """
        runs: dict[str, list[Move]] = {}
        for entry in self._entries():
            moves = _moves_of(entry)
            if "run" in entry:
                runs[entry["run"]] = moves
            elif "undone" in entry or not moves:
                runs.pop(entry.get("undone") or entry.get("done", ""), None)
            else:
                runs[entry["done"]] = moves
        return runs

    def _entries(self) -> list[dict[str, Any]]:
        found = []
        with suppress(FileNotFoundError):
            for line in self._record.read_bytes().splitlines():
                with suppress(ValueError):  # half a line, of a process that died over it: nothing was moved after it
                    found.append(json.loads(line))
        return [entry for entry in found if isinstance(entry, dict)]

    def _write(self, entry: object) -> None:
        """Append a line to the record and wait for the disk. Raises FilesystemError."""
        append_line(self._record, entry, sync=True)


def _moves_of(entry: Mapping[str, Any]) -> list[Move]:
    """Return the moves of a line of the record; of one that is damaged none, so that nothing is moved by guessing."""
    moves = entry.get("moves", [])
    are_sound = isinstance(moves, list) and all(
        isinstance(one, list) and len(one) == 2 and all(isinstance(path, str) for path in one) for one in moves
    )
    return [(NotePath(source), NotePath(target)) for source, target in moves] if are_sound else []
