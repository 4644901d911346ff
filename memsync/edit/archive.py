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
from memsync.edit.journal import append_line
from memsync.edit.note_paths import cannot_write, check_writable, folder_of, numbered
from memsync.edit.note_writer import NoteWriter
from memsync.edit.open_editors import refuse_open_in_editor
from memsync.edit.swap import rename_new
from memsync.errors import MemsyncError, UsageError, WriteRefused
from memsync.model.status import Failure
from memsync.model.upkeep import Retirement
from memsync.model.vocabulary import NotePath
from memsync.notes.files import identity_of
from memsync.notes.rules import ARCHIVE_FOLDER


def move(root: Path, source: NotePath, target: NotePath, *, mtime_ns: int | None = None) -> None:
    """Give a note another path; folders on the way are made. With `mtime_ns` it must not have changed since.

    Raises FileNotFoundError, WriteRefused, also when there is something of that name already, FilesystemError;
    nothing is changed then.
    """
    name, new = source.rpartition("/")[2], target.rpartition("/")[2]
    with folder_of(root, source) as here:
        try:
            found = os.stat(name, dir_fd=here, follow_symlinks=False)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise cannot_write(source, error) from error
        refuse_open_in_editor(here, source)
        if mtime_ns is not None and identity_of(found)[1] != mtime_ns:
            raise WriteRefused(f"{source} has just changed", hint="Ask again.")
        if is_half_moved(root, source, target):
            os.unlink(name, dir_fd=here)
            return
        check_writable(source, found)
        with folder_of(root, target, create=True) as there:
            try:
                rename_new(here, name, new, there)
                os.fsync(there)
                os.fsync(here)
            except FileExistsError:
                raise WriteRefused(f"{target} is there already", hint="Give that one another name.") from None
            except OSError as error:
                raise cannot_write(source, error) from error


def is_half_moved(root: Path, source: NotePath, target: NotePath) -> bool:
    """Tell whether both names are those of one file, and its only ones.

    Where the system cannot rename without replacing, a move is a second name and then the end of the first; a process
    that is killed in between leaves both.
    """
    try:
        one, other = (os.stat(root / path, follow_symlinks=False) for path in (source, target))
    except OSError:
        return False
    return (one.st_dev, one.st_ino, one.st_nlink) == (other.st_dev, other.st_ino, 2)


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
