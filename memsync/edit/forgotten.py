"""Takes text out of notes and keeps what the notes were before, until it is put back or deleted for good.

Each run has a folder in the state folder with a copy of every file that it changes and a record of these files. Both
are on disk before the first note changes. What a run has done shows in the files themselves: a file is as it was
before, as it is to be afterwards, or somebody has changed it. So a process may be killed at any moment. A copy is
deleted only if its note is as before, or if somebody purges the run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec import Struct

from memsync.edit import commits, note_file
from memsync.edit.addition import lines_with_ends
from memsync.edit.append import Replaced, make
from memsync.edit.journal import append_line, json_objects, missing
from memsync.edit.note_paths import check_writable, folder_of
from memsync.edit.note_writer import NoteWriter
from memsync.errors import FilesystemError, MemsyncError, UsageError, WriteRefused
from memsync.model.status import Failure
from memsync.model.text import count
from memsync.model.vocabulary import NotePath
from memsync.system.user_folders import open_private, own_folder, sync_folder

_RECORD = "run.json"
_STEPS = "steps.jsonl"

Lines = tuple[int, int]
"""The first and the last line of a part of a note, counted from 1."""


class Change(Struct, frozen=True):
    """A note to change: its content before and after it; `after` is None if the whole note goes.

    `parts` are the lines that go. `former` is the path under which appends to the note may be in the journal.
    """

    path: NotePath
    former: NotePath
    before: bytes
    after: bytes | None
    parts: tuple[Lines, ...]


class _File(Struct, frozen=True):
    """A line of a run's record: a note, its copy in the run's folder, and the SHA-256 of its content before and after.

    `after` is empty if the whole note goes.
    """

    path: NotePath
    former: NotePath
    copy: str
    mode: int
    before: str
    after: str
    parts: tuple[Lines, ...]


class _Record(Struct, frozen=True):
    """What a run was to do."""

    user: str
    files: tuple[_File, ...]


@dataclass(slots=True)
class Outcome:
    """What was done: the notes changed, those that could not be, and why git made no commit (empty if it did)."""

    paths: list[NotePath] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    complaint: str = ""


class Removed(Struct, frozen=True):
    """What a run took out of one note: its lines. `is_whole`: the note itself is gone."""

    path: NotePath
    former: NotePath
    lines: tuple[str, ...]
    is_whole: bool


class Run:
    """One run's folder."""

    def __init__(self, folder: Path, record: _Record) -> None:
        self.folder = folder
        self.user = record.user
        self._files = record.files

    @property
    def files(self) -> Sequence[_File]:
        """The files that the run has changed or may have changed and that are not put back yet, the last one first."""
        settled = self._paths("refused") | self._paths("restored")
        return [file for file in reversed(self._files) if file.path not in settled]

    def note(self, step: str, path: NotePath) -> None:
        """Record that a file is `done`, `restored`, or `refused`: the run has not changed it."""
        append_line(self.folder / _STEPS, {step: path}, sync=True)

    def copy_of(self, file: _File) -> bytes:
        """Return the content of a file before the run. Raises FilesystemError if the copy is damaged or gone."""
        place = self.folder / file.copy
        with suppress(OSError):
            content = place.read_bytes()
            if _digest(content) == file.before:
                return content
        raise FilesystemError(f"{file.path}: the kept copy {place} is damaged", hint="Restore it from a backup.")

    def removed(self) -> Iterator[Removed]:
        """Yield what the run took out and what was not put back, as far as its copies can be read."""
        for file in self.files:
            with suppress(FilesystemError):
                lines = lines_with_ends(self.copy_of(file).decode("utf-8", "replace"))
                gone = (line for first, last in file.parts for line in lines[first - 1 : last])
                texts = tuple(text for line in gone if (text := line.strip()))
                yield Removed(file.path, file.former, texts, not file.after)

    def delete(self) -> None:
        """Delete the run with its copies; its record goes first, so that half a run is never put back."""
        with suppress(FileNotFoundError):
            (self.folder / _RECORD).unlink()
        sync_folder(self.folder)
        shutil.rmtree(self.folder)

    def _paths(self, step: str) -> set[str]:
        place = self.folder / _STEPS
        lines = place.read_bytes().splitlines() if place.exists() else []
        return {str(entry[step]) for entry in json_objects(lines) if step in entry}


class Forgotten:
    """The runs of one memory root; `keep` is the folder for data that outlives the index."""

    def __init__(self, root: Path, keep: Path, writer: NoteWriter, *, commits: bool) -> None:
        self._root = root
        self._folder = keep / "forgotten"
        self._writer = writer
        self._commits = commits

    def runs(self, user: str = "") -> list[Run]:
        """Return the runs for a user (default: all), oldest first. Raises FilesystemError for a damaged one."""
        runs = []
        for folder in sorted(self._folder.glob("*")) if self._folder.is_dir() else ():
            record = folder / _RECORD
            if record.exists():
                try:
                    run = Run(folder, msgspec.json.decode(record.read_bytes(), type=_Record))
                except (OSError, ValueError) as error:
                    hint = "The copies of the notes are next to it. Move the folder away to go on."
                    raise FilesystemError(f"{record} cannot be read: {error}", hint=hint) from error
                if not user or run.user == user:
                    runs.append(run)
        return runs

    def carry_out(self, user: str, changes: Sequence[Change]) -> Outcome:
        """Keep a copy of each note, then change it. The caller holds the writers' lock. Raises FilesystemError."""
        outcome = Outcome()
        if not changes:
            return outcome
        run = self._begin(user, changes)
        for change in changes:
            try:
                if change.after is None:
                    self._remove(change)
                else:
                    self._replace(change.path, change.before, change.after)
                run.note("done", change.path)
                outcome.paths.append(change.path)
            except FileNotFoundError:
                outcome.failed.append(Failure(change.path, "it is gone"))
            except MemsyncError as error:
                outcome.failed.append(Failure(change.path, error.message))
                if isinstance(error, WriteRefused):
                    with suppress(FilesystemError):  # without this step, an undo may name the note, and keeps its copy
                        run.note("refused", change.path)
        if not run.files or (not outcome.paths and all(self._has(change.path, change.before) for change in changes)):
            run.delete()
        self._commit(outcome, f"memsync forget: {count(len(outcome.paths), 'note')}")
        return outcome

    def undo(self, user: str = "") -> Outcome:
        """Put back what the runs for a user (default: all runs) took out, the last run first.

        A note that somebody has changed since is left alone and is among `failed`; its copy stays. Raises UsageError if
        there is nothing to put back.
        """
        with self._writer.lock():
            self._clear()
            runs = self.runs(user)
            if not runs:
                raise UsageError("nothing to undo", hint="--undo puts back only what --apply took out.")
            outcome = Outcome()
            for run in reversed(runs):
                failed = len(outcome.failed)
                for file in run.files:
                    self._undo(run, file, outcome)
                if len(outcome.failed) == failed:
                    run.delete()
            outcome.paths = list(dict.fromkeys(outcome.paths))
            self._commit(outcome, "memsync forget --undo")
            return outcome

    def clear_leftovers(self, runs: Sequence[Run]) -> None:
        """Delete the hidden files that a killed process left in the folders of the runs' notes, and half-made runs."""
        self._clear()
        for path in {file.path for run in runs for file in run.files}:
            with suppress(FileNotFoundError, MemsyncError), folder_of(self._root, path) as folder:
                note_file.clear_ended_writers(folder)

    # ---------------------------------------------------------------------------------------------- keeping

    def _begin(self, user: str, changes: Sequence[Change]) -> Run:
        """Make a run's folder with all copies and the record, and wait for the disk. Raises FilesystemError."""
        self._clear()
        folder = self._folder / f"{time.time_ns():020}"
        try:
            own_folder(folder)
            files = []
            for number, change in enumerate(changes):
                mode = os.stat(self._root / change.path, follow_symlinks=False).st_mode & 0o7777
                _write(folder / str(number), change.before)
                after = "" if change.after is None else _digest(change.after)
                before = _digest(change.before)
                files.append(_File(change.path, change.former, str(number), mode, before, after, change.parts))
            record = _Record(user, tuple(files))
            _write(folder / f"{_RECORD}.new", msgspec.json.encode(record))
            sync_folder(folder)
            os.rename(folder / f"{_RECORD}.new", folder / _RECORD)
            for place in (folder, self._folder, self._folder.parent):
                sync_folder(place)
        except OSError as error:
            raise FilesystemError(f"{folder} cannot be written: {error.strerror}", hint="Free some space.") from error
        return Run(folder, record)

    def _clear(self) -> None:
        """Delete the folders of runs that were killed before their record was written, or while they were deleted."""
        for folder in self._folder.glob("*") if self._folder.is_dir() else ():
            if not (folder / _RECORD).exists():
                shutil.rmtree(folder, ignore_errors=True)

    # --------------------------------------------------------------------------------------------- changing

    def _remove(self, change: Change) -> None:
        """Delete a whole note if it is as expected; its appends then no longer count as overwritten."""
        path = change.path
        with folder_of(self._root, path) as folder:
            name = path.rpartition("/")[2]
            check_writable(path, os.stat(name, dir_fd=folder, follow_symlinks=False))
            if not note_file.remove(folder, path, name, change.before):
                raise WriteRefused(f"{path} has just changed", hint="Try again.")
        self._writer.forget_end(path)
        entries = missing(self._writer.journal.since(0.0, change.former), self._text(change.former))
        if entries:
            self._writer.journal.settle([entry.id for entry in entries])

    def _text(self, path: NotePath) -> str:
        """Return the text of a note, empty if there is none."""
        with suppress(OSError):
            return (self._root / path).read_bytes().decode("utf-8", "replace")
        return ""

    def _replace(self, path: NotePath, old: bytes, new: bytes) -> None:
        """Replace a note's content. Raises WriteRefused if it has another one."""

        def edit(text: str) -> str:
            if text.encode("utf-8", "surrogateescape") != old:
                raise WriteRefused(f"{path} has just changed", hint="Try again.")
            return new.decode("utf-8", "surrogateescape")

        self._writer.rewrite(path, edit)

    def _undo(self, run: Run, file: _File, outcome: Outcome) -> None:
        """Put one note back as it was, unless it is so already; add the result to `outcome`."""
        try:
            content, current = run.copy_of(file), self._content(file.path)
            is_now = "" if current is None else _digest(current)
            if is_now == file.before:
                run.note("restored", file.path)  # an undo after the next edit of this note is not about it
                return
            if is_now != file.after:
                what = "is gone" if current is None else "has been changed since" if file.after else "exists again"
                place = run.folder / file.copy
                raise WriteRefused(f"{file.path} {what}: what it was before is in {place}")
            if current is None:
                self._create(file, content)
            else:
                self._replace(file.path, current, content)
            run.note("restored", file.path)
            outcome.paths.append(file.path)
        except FileNotFoundError:
            outcome.failed.append(Failure(file.path, "it has just changed"))
        except MemsyncError as error:
            outcome.failed.append(Failure(file.path, error.message))

    def _create(self, file: _File, content: bytes) -> None:
        with folder_of(self._root, file.path, create=True) as folder:
            try:
                make(folder, file.path, content)
            except Replaced:
                raise WriteRefused(f"{file.path} exists again: it has just been made") from None
            with suppress(OSError):
                os.chmod(file.path.rpartition("/")[2], file.mode, dir_fd=folder, follow_symlinks=True)

    def _content(self, path: NotePath) -> bytes | None:
        """Return a note's content; None if it does not exist. Raises WriteRefused, FilesystemError."""
        try:
            with (
                folder_of(self._root, path) as folder,
                note_file.opened(folder, path, path.rpartition("/")[2]) as descriptor,
            ):
                return note_file.read(descriptor, path)
        except FileNotFoundError:
            return None

    def _has(self, path: NotePath, content: bytes) -> bool:
        with suppress(MemsyncError):
            return self._content(path) == content
        return False

    def _commit(self, outcome: Outcome, message: str) -> None:
        if self._commits and outcome.paths:
            _, outcome.complaint = commits.commit_all(self._root, outcome.paths, message)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _write(place: Path, content: bytes) -> None:
    """Write a file of memsync's and wait for the disk. Raises OSError."""
    with open(place, "wb", opener=open_private) as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
