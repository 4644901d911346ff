"""Takes the transcripts of agents into the transcripts root: the raw file, and a thread in Markdown.

What was taken is in a database in the state folder, one row a transcript. A row is stored after its files are on disk.
So after a crash the same lines are read again, and give the same files.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from memsync.agents import agents, raw_files
from memsync.agents.events import About
from memsync.agents.port import Agent
from memsync.agents.session_threads import SessionThread
from memsync.agents.sources import (
    Source,
    document_of,
    lines_of,
    named_sources,
    opened,
    record_of,
    sessions_of,
    sources_of,
    whole_end,
)  # fmt: skip
from memsync.errors import ConfigError, FilesystemError, IndexBusy
from memsync.model.text import quoted
from memsync.notes.rules import THREADS_FOLDER
from memsync.ports import Progress, no_progress
from memsync.settings.config_file import NAME as CONFIG_NAME
from memsync.settings.paths import keep_dir
from memsync.settings.registering import add_root
from memsync.settings.roots import TRANSCRIPTS, registered_roots
from memsync.system.file_lock import file_lock
from memsync.system.user_folders import data_folder, digest_of, own_folder, replace_file

WAIT_SECONDS = 60.0
_CONFIG = f"""# The conversations of your agents. memsync writes them: memsync ingest
[memsync]
root = "."
[files]
exclude = ["/{raw_files.FOLDER}/"]
"""
_TAIL_BYTES = 4_096
_BATCH_FILES = 200
_BATCH_BYTES = 32_000_000
_FULL = (errno.ENOSPC, errno.EDQUOT)
_TABLE = "CREATE TABLE IF NOT EXISTS taken (source TEXT PRIMARY KEY, row TEXT NOT NULL) WITHOUT ROWID"
READING = "reading"


@dataclass(slots=True)
class IngestReport:
    """What an ingest did: the sessions that were new, had grown, or were taken already.

    `skipped` counts lines that are not JSON or too large; `wrong` lists the transcripts that could not be taken.
    """

    new: int = 0
    grown: int = 0
    unchanged: int = 0
    skipped: int = 0
    threads: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Taken:
    """What was taken of a transcript.

    `tail` is the digest of the bytes before `offset`, `packed` the length of the raw file. The last part of the thread
    is `part`; it begins at `start`, where `about` was known. With `has_secret`, there is no raw file. Without a name,
    the transcript has nothing that another one has not.
    """

    stamp: list[int]
    name: str = ""
    offset: int = 0
    tail: str = ""
    packed: int = 0
    part: int = 1
    start: int = 0
    about: dict[str, Any] = field(default_factory=dict)
    has_secret: bool = False


def transcripts_root(*, create: bool = False) -> Path | None:
    """Return the registered transcripts root; None without one, unless it is to be created. Raises ConfigError."""
    known = registered_roots().get(TRANSCRIPTS)
    if known is not None:
        if known.dsn:
            hint = f"Register it under another name: memsync roots remove {TRANSCRIPTS}"
            raise ConfigError(f"{TRANSCRIPTS} is a memory of a database", hint=hint)
        return Path(known.path)
    if not create:
        return None
    root = Path(data_folder()) / TRANSCRIPTS
    own_folder(root)
    if not (root / CONFIG_NAME).exists():
        replace_file(str(root / CONFIG_NAME), _CONFIG.encode(), sync=True)
    return Path(add_root(TRANSCRIPTS, str(root)).path)


def ingest(names: Iterable[str] = (), progress: Progress = no_progress, *, keep_raw: bool = False) -> IngestReport:
    """Take in the transcripts of agents, files and folders (default: all agents) that are new or have grown.

    With `keep_raw`, a raw file is kept even if it has a secret.

    Raises UsageError for a name that is none of these, IndexBusy, FilesystemError if the disk is full.
    """
    found = [source for name in names for source in named_sources(name)]
    if not names:
        found = [source for agent in agents() for source in sources_of(agent)]
    root = transcripts_root(create=True)
    assert root is not None
    with Ingester(root, keep_raw=keep_raw).locked() as ingester:
        return ingester.run(found, progress)


class Ingester:
    """Writes the transcripts root. `locked` opens it: only one process writes at a time."""

    def __init__(self, root: Path, *, keep_raw: bool = False) -> None:
        self._root = root
        self._keep_raw = keep_raw
        self._folder = Path(keep_dir(str(root))) / "ingest"
        self._report = IngestReport()
        self._rows: dict[str, _Taken] = {}
        self._owners: dict[str, str] = {}
        self._changed: dict[str, _Taken | None] = {}

    @contextmanager
    def locked(self) -> Iterator[Ingester]:
        """Hold the lock, and read what was taken. Raises IndexBusy, FilesystemError."""

        def busy(holder: str) -> IndexBusy:
            return IndexBusy(f"{holder} is taking in transcripts", hint="Try again.")

        with file_lock(self._folder / "lock", WAIT_SECONDS, busy, poll_seconds=0.05), ExitStack() as stack:
            self._database = stack.enter_context(closing(self._opened_database()))
            rows = self._database.execute("SELECT source, row FROM taken")
            self._rows = {source: _Taken(**json.loads(row)) for source, row in rows}
            self._owners = {_owned(key, row.name): key for key, row in self._rows.items() if row.name}
            for folder in (THREADS_FOLDER, raw_files.FOLDER):
                (self._root / folder).mkdir(mode=0o700, exist_ok=True)
            yield self

    def _opened_database(self) -> sqlite3.Connection:
        """Open the database; begin a new one in place of one that cannot be read: the transcripts are read again."""
        path = self._folder / "taken.db"
        for _ in range(2):
            database = sqlite3.connect(path, isolation_level=None)
            try:
                database.execute("PRAGMA synchronous = FULL")
                database.execute(_TABLE)
                database.execute("SELECT count(*), max(length(row)) FROM taken").fetchone()
                break
            except sqlite3.DatabaseError:
                database.close()
                path.unlink(missing_ok=True)
        return database

    def run(self, found: Iterable[tuple[Agent, str]], progress: Progress = no_progress) -> IngestReport:
        """Take in transcripts. Raises FilesystemError if the disk is full: what was taken before stays."""
        self._report = IngestReport()
        sized = [(agent, path, _stamp_of(path)) for agent, path in found]
        total, done, unsaved = sum(stamp[2] for *_, stamp in sized), 0, 0
        try:
            for agent, path, stamp in sized:
                taken = len(self._changed)
                self._take_file(agent, path, stamp)
                done += stamp[2]
                unsaved += stamp[2] if len(self._changed) > taken else 0
                progress(READING, done, max(1, total))
                if unsaved > _BATCH_BYTES or len(self._changed) >= _BATCH_FILES:
                    self._save()
                    unsaved = 0
        finally:
            self._save()
        return self._report

    def _save(self) -> None:
        """Store the rows of what was taken, once its files are on disk."""
        if not self._changed:
            return
        os.sync()
        rows = [(key, json.dumps(asdict(row)) if row else "") for key, row in self._changed.items()]
        self._database.execute("BEGIN")
        self._database.executemany("REPLACE INTO taken VALUES (?, ?)", rows)
        self._database.execute("DELETE FROM taken WHERE row = ''")
        self._database.execute("COMMIT")
        self._changed.clear()

    def _take_file(self, agent: Agent, path: str, stamp: list[int]) -> None:
        source = Source(agent, path)
        known = self._rows.get(source.key)
        if known is not None and known.stamp == stamp:
            self._report.unchanged += 1
            return
        try:
            if not agent.is_database:
                with opened(path) as file:
                    self._take(source, file, stamp)
                return
            for session, file in sessions_of(path):
                size = file.tell()
                file.seek(0)
                digest = [int(digest_of(file.read())[:12], 16)]
                self._take(Source(agent, path, session), file, [0, 0, size, *digest])
            self._keep(source, _Taken(stamp))
        except (OSError, sqlite3.Error, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            if isinstance(error, OSError) and error.errno in _FULL:
                hint = "Free some space, and run it again: what was taken in before is there."
                raise FilesystemError(f"{self._root} cannot be written: {reason}", hint=hint) from error
            self._report.wrong.append(f"{quoted(path, 300)}: {reason[:200]}")

    def _keep(self, source: Source, row: _Taken) -> None:
        self._rows[source.key] = self._changed[source.key] = row

    def _take(self, source: Source, file: BinaryIO, stamp: list[int]) -> None:
        """Take in what a transcript has, and what was not taken from it yet."""
        known = self._rows.get(source.key)
        if known is not None and known.stamp == stamp:
            self._report.unchanged += 1
            return
        size = stamp[2]
        row = self._continued(source, file, stamp)
        if row is None:
            self._report.unchanged += 1
            if known is None or known.stamp != stamp:
                self._keep(source, _Taken(stamp))
            return
        if source.is_document:
            end = size if source.session or document_of(file) is not None else 0
        else:
            end = whole_end(file, row.offset, size)
        is_new = not row.offset
        if end > row.offset or (source.is_document and end):
            self._read(source, file, row, end)
            self._report.new += is_new
            self._report.grown += not is_new
        else:
            self._report.unchanged += 1
        if row.offset:
            self._claim(source, row.name)
            self._keep(source, replace(row, stamp=stamp))

    def _claim(self, source: Source, name: str) -> None:
        """Make a name the source's own: another source that had it has nothing else."""
        owner = self._owners.get(_owned(source.key, name), source.key)
        if owner != source.key:
            del self._rows[owner]
            self._changed[owner] = None
        self._owners[_owned(source.key, name)] = source.key

    def _continued(self, source: Source, file: BinaryIO, stamp: list[int]) -> _Taken | None:
        """Return what was taken of a transcript: what is after it is new. None if all of it was taken before.

        A transcript that was rewritten gets another name, so that the old one stays. That is found by the bytes before
        the place that was reached, and by the raw file if it is not the same file any more: reading all of each file
        again would find a change in its middle, too, but agents only append.
        """
        known = self._rows.get(source.key)
        size = stamp[2]
        is_known = known is not None and bool(known.name)
        if known is not None and is_known and (source.is_document or known.stamp[:2] == stamp[:2]):
            if source.is_document and size >= known.offset:
                return replace(known, packed=0, part=1, start=0, about={}) if size else None
            if not source.is_document and size >= known.offset and _tail(file, known.offset) == known.tail:
                return known
        number = 1
        while True:
            name = source.name if number == 1 else f"{source.name}-r{number}"
            path = self._raw_path(source, name)
            owner = self._owners.get(_owned(source.key, name), source.key)
            if path.exists():
                mine = known if known is not None and known.name == name else None
                same = raw_files.is_beginning(path, mine.packed if mine else 2**62, file)
                if same:
                    return mine or _Taken(stamp, name)
                if same is None:
                    return None
            elif owner == source.key and not (is_known and known is not None and known.name == name):
                return _Taken(stamp, name)
            elif not size:
                return None
            number += 1

    def _raw_path(self, source: Source, name: str) -> Path:
        ending = ".json" if source.path.endswith(".json") else ".jsonl"
        return self._root / raw_files.FOLDER / source.agent.name / f"{name}{ending}.gz"

    def _read(self, source: Source, file: BinaryIO, row: _Taken, end: int) -> None:
        """Write the thread and the raw file of source[:end], and put into `row` what is taken then."""
        agent, about = source.agent, About(**row.about)
        taken = 0 if source.is_document else row.offset
        thread = SessionThread(self._root, agent.name, row.name, row.part, about, taken)
        thread.start = row.start
        for offset, record in self._records(source, file, 0 if agent.fold else row.start, end):
            before = replace(thread.now)
            try:
                events = list(agent.read(record, thread.now))
            except (TypeError, ValueError, AttributeError, LookupError, RecursionError):
                self._report.skipped += 1
                continue
            thread.add_line(offset, before, events)
        thread.finish()
        raw = self._raw_path(source, row.name)
        row.has_secret = row.has_secret or thread.secrets > 0
        if row.has_secret and not self._keep_raw:
            raw.unlink(missing_ok=True)
            row.packed = 0
        else:
            raw.parent.mkdir(mode=0o700, exist_ok=True)
            row.packed = raw_files.append(raw, row.packed, file, row.offset if row.packed else 0, end)
        row.offset, row.tail = end, _tail(file, end)
        if not agent.fold and not source.is_document:
            row.part, row.start, row.about = thread.number, thread.start, asdict(thread.about)
        if thread.has_changed:
            self._report.threads.append(thread.path)

    def _records(self, source: Source, file: BinaryIO, start: int, end: int) -> Iterator[tuple[int, Any]]:
        """Yield (offset, record). Counts the lines that are none."""
        if source.is_document and not source.session:
            records = [document_of(file)]
        elif source.agent.fold and end <= MAX_FOLDED_BYTES:
            records = [record_of(line) for _, line in lines_of(file, start, end)]
        else:
            for offset, line in lines_of(file, start, end):
                record = record_of(line)
                if record is not None:
                    yield offset, record
                else:
                    self._report.skipped += bool(line.strip()) or not line
            return
        whole = [record for record in records if record is not None]
        self._report.skipped += len(records) - len(whole)
        for record in source.agent.fold(whole) if source.agent.fold else whole:
            yield 0, record


MAX_FOLDED_BYTES = 64_000_000


def _owned(key: str, name: str) -> str:
    """Return what only one source may have: the agent and the name of a session."""
    return f"{key.partition(chr(10))[0]}\n{name}"


def _tail(file: BinaryIO, offset: int) -> str:
    start = max(0, offset - _TAIL_BYTES)
    file.seek(start)
    return digest_of(file.read(offset - start))[:32]


def _stamp_of(path: str) -> list[int]:
    """Return device, inode, size and time of a file; zeros if it is gone."""
    try:
        status = os.lstat(path)
        times = [status.st_mtime_ns]
        return [status.st_dev, status.st_ino, status.st_size, *times]
    except OSError:
        return [0, 0, 0, 0]
