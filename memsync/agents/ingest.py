"""Takes the transcripts of agents into the transcripts root: the raw file, and a thread in Markdown.

A database beside them has one row per transcript, with the state after the last ingest. A row is stored after its files
are on disk. So after a crash the same lines are read again, and give the same files.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from memsync.agents import agent_named, agent_names, raw_files
from memsync.agents.agent import Agent
from memsync.agents.events import About, Record, SessionEvent, Who, moment_of, text_at
from memsync.agents.session_threads import SessionThread, may_write
from memsync.agents.sources import (
    MAX_DOCUMENT_BYTES,
    Transcript,
    begun_at,
    document_of,
    events_in,
    is_database,
    keys_of,
    lines_of,
    named_sources,
    opened,
    records_in,
    sessions_of,
    sources_of,
    whole_end,
)  # fmt: skip
from memsync.errors import ConfigError, FilesystemError, IndexBusy, MemsyncError, UsageError
from memsync.notes.rules import THREADS_FOLDER
from memsync.notes.secrets import secrets_in
from memsync.ports import Progress, no_progress
from memsync.settings.config_file import NAME as CONFIG_NAME
from memsync.settings.load import default_of
from memsync.settings.paths import is_in_any, real_places
from memsync.settings.registering import add_root
from memsync.settings.roots import TRANSCRIPTS, registered_roots
from memsync.system import clock
from memsync.system.birth import birth_seconds
from memsync.system.file_lock import file_lock
from memsync.system.user_folders import (
    data_folder,
    digest_of,
    filesystem_errors,
    own_folder,
    replace_file,
    started_folder,
)

WAIT_SECONDS = 60.0
_CONFIG = f"""# The conversations of your agents. memsync ingest writes them.
[memsync]
root = "."
[files]
exclude = ["/{raw_files.FOLDER}/"]
"""
_DATABASE = Path(".ingest", "taken.db")
_TAIL_BYTES = 4_096
_FEW_FILES = 16
_FULL = (errno.ENOSPC, errno.EDQUOT)
_SCHEMA = """
CREATE TABLE IF NOT EXISTS taken (source TEXT PRIMARY KEY, owned TEXT, row TEXT NOT NULL) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS taken_owned ON taken (owned);
CREATE TABLE IF NOT EXISTS said (key INTEGER PRIMARY KEY, owner INTEGER NOT NULL, place INTEGER NOT NULL);
"""
_VERSION = 3
"""Of what threads contain: a list of an older version is read again, although no transcript has changed."""
_READ_AGAIN = f"UPDATE taken SET row = json_set(row, '$.stamp', json('[]')); PRAGMA user_version = {_VERSION};"
_GROWN_SINCE = "SELECT source, owned, row FROM taken WHERE owned IS NOT NULL AND json_extract(row, '$.grown_at') >= ?"
READING = "reading"
COPY_SECONDS = 5
"""How long Codex copies records into a fork after it has begun it."""


@dataclass(slots=True)
class IngestReport:
    """The result of an ingest: the numbers of sessions that were new, had grown or were unchanged.

    `skipped` counts lines that are not JSON or too large, and `skipped_in` lists their files. `files` are the agent and
    the path of each transcript that was new or had grown. `without_raw` lists those that have a secret, so that no raw
    file was kept. `wrong` says which transcripts could not be read, and why.
    """

    new: int = 0
    grown: int = 0
    unchanged: int = 0
    skipped: int = 0
    skipped_in: list[str] = field(default_factory=list)
    files: list[tuple[str, str]] = field(default_factory=list)
    without_raw: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Taken:
    """The state of one transcript after the last ingest.

    `stamp` is that of its file (`_stamp_of`). It was read up to `offset`; `tail` is the digest of the bytes before.
    `packed` is the length of the raw file; with `has_secret`, there is none. `part` is the number of the thread's last
    part, which begins at `start`; `about` are the facts known there. `name` is empty if another transcript contains all
    of this one.
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
    grown_at: float = 0.0
    """When it was last read further, as Unix time."""


def transcripts_root(*, create: bool = False) -> Path | None:
    """Return the registered transcripts root; None without one, unless `create` is true.

    With `create`, make the folder, write its config.toml and register it. Raises ConfigError, FilesystemError.
    """
    known = registered_roots().get(TRANSCRIPTS)
    if known is not None and known.dsn:
        hint = f"Run memsync roots remove {TRANSCRIPTS}, and register it under another name."
        raise ConfigError(f"the memory {TRANSCRIPTS} is in a database, and conversations need a folder", hint=hint)
    root = Path(known.path if known else os.path.join(data_folder(), TRANSCRIPTS))
    is_ours = not known or (root / raw_files.FOLDER).exists() or (root / ".ingest").exists()
    if not is_ours and any(root.glob("*.md")):
        hint = f"Run memsync roots remove {TRANSCRIPTS}, and register it under another name."
        raise ConfigError(f"the memory {TRANSCRIPTS} has notes of your own", hint=hint)
    if create:
        with filesystem_errors(f"{root} cannot be written"):
            own_folder(root)
            if not (root / CONFIG_NAME).exists():
                replace_file(str(root / CONFIG_NAME), _CONFIG.encode(), sync=True)
        return root if known else Path(add_root(TRANSCRIPTS, str(root)).path)
    return root if known else None


def never_taken(agent: Agent, older_than: float) -> int:
    """Return the number of an agent's transcripts that last changed before a Unix time and were never taken in."""
    root, taken = transcripts_root(), set[str]()
    if root is not None:
        with suppress(sqlite3.Error), closing(_read_only(root)) as database:  # before the first ingest: none
            taken = {key for (key,) in database.execute("SELECT source FROM taken")}
    old = (source for source in sources_of(agent) if 0 < _stamp_of(source.path)[3] < older_than * 1e9)
    return sum(source.key not in taken for source in old)


def _read_only(root: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{(root / _DATABASE).as_uri()}?mode=ro", uri=True)


class TakenSession(NamedTuple):
    """A transcript that was taken in: agent and name, how many parts its conversation has, and when it last grew."""

    key: str
    agent: str
    name: str
    parts: int
    grown_at: float


def taken_since(root: Path, moment: float) -> list[TakenSession]:
    """Return the transcripts that have grown since a Unix time, the first to do so first; not those of subagents."""
    found = list[TakenSession]()
    with suppress(sqlite3.OperationalError), closing(_read_only(root)) as database:  # before the first ingest: none
        for source, owned, stored in database.execute(_GROWN_SINCE, (moment,)):
            row, (agent, name) = _Taken(**json.loads(stored)), owned.split("\n", 1)
            if "/subagents/" not in source:
                found.append(TakenSession(source, agent, name, row.part, row.grown_at))
    return sorted(found, key=lambda one: one.grown_at)


def ingest(names: Sequence[str] = (), progress: Progress = no_progress) -> IngestReport:
    """Take in the transcripts of agents, files and folders (default: all agents) that are new or have grown.

    Raises UsageError for a name that is none of these, IndexBusy, FilesystemError if the disk is full.
    """
    known = agent_names()
    found = [source for name in names if name not in known for source in named_sources(name)]
    root = transcripts_root(create=True)
    assert root is not None
    with Ingester(root).locked() as ingester:
        return ingester.run(found, progress, [name for name in names or known if name in known])


class Ingester:
    """Writes the transcripts root. `locked` opens it: only one process writes at a time."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._keep_raw = bool(default_of("agents.keep_raw"))
        self._kept_out = real_places([*default_of("agents.off"), started_folder()])
        self._is_kept_out = cache(self._is_in_folder_kept_out)  # because each record of a transcript names its folder
        self._report = IngestReport()
        self._is_few = True

    @contextmanager
    def locked(self) -> Iterator[Ingester]:
        """Hold the lock, with the database open. Raises IndexBusy, FilesystemError."""

        def busy(holder: str) -> IndexBusy:
            return IndexBusy(f"{holder} is taking in transcripts", hint="Try again.")

        try:
            folder = self._root / _DATABASE.parent
            own_folder(folder)
            with file_lock(folder / "lock", WAIT_SECONDS, busy, poll_seconds=0.05), ExitStack() as stack:
                self._database = stack.enter_context(closing(self._opened_database()))
                for name in (THREADS_FOLDER, raw_files.FOLDER):
                    (self._root / name).mkdir(mode=0o700, exist_ok=True)
                yield self
        except (OSError, sqlite3.Error) as error:
            hint = "Free some space, and run the command again. Conversations that were taken in before are kept."
            raise FilesystemError(f"{self._root} cannot be written: {error}", hint=hint) from error

    def _opened_database(self) -> sqlite3.Connection:
        """Open the database. Replace a damaged one with an empty one, so that all transcripts are read again."""
        path = self._root / _DATABASE
        for _ in range(2):
            database = sqlite3.connect(path, isolation_level=None)
            try:
                database.execute("PRAGMA synchronous = FULL")
                database.executescript(_SCHEMA)
                if database.execute("PRAGMA user_version").fetchone()[0] < _VERSION:
                    database.executescript(f"BEGIN;{_READ_AGAIN}COMMIT;")
                database.execute("SELECT count(*), max(length(row)) FROM taken").fetchone()
                break
            except sqlite3.OperationalError:  # it is locked, or the disk is full
                database.close()
                raise
            except sqlite3.DatabaseError:
                database.close()
                path.unlink(missing_ok=True)
        return database

    def known(self, source: Transcript) -> _Taken | None:
        """Return the state of a transcript; None if it was never taken in."""
        found = self._database.execute("SELECT row FROM taken WHERE source = ?", (source.key,)).fetchone()
        return _Taken(**json.loads(found[0])) if found else None

    def _keep(self, source: Transcript, row: _Taken) -> None:
        """Store a transcript's row. Another source with this name loses its row, because this one contains it."""
        owned = f"{source.agent.name}\n{row.name}" if row.name else None
        self._database.execute("REPLACE INTO taken VALUES (?, ?, ?)", (source.key, owned, json.dumps(asdict(row))))

    def _is_free(self, source: Transcript, name: str) -> bool:
        owned = (f"{source.agent.name}\n{name}", source.key)
        return not self._database.execute("SELECT 1 FROM taken WHERE owned = ? AND source <> ?", owned).fetchone()

    def run(self, found: Sequence[Transcript], progress: Progress, agents: Iterable[str] = ()) -> IngestReport:
        """Take in transcripts, and all of some agents.

        The rows are committed at the end, after the files are on disk. So after a kill, the same transcripts are read
        again, and give the same files. Raises OSError if the disk is full; what was taken in before stays.
        """
        self._report = IngestReport()
        found = [*found, *(source for name in agents for source in self._sources_of(name))]
        stamped = ((source, _stamp_of(source.path)) for source in found)
        wanted = [(source, stamp) for source, stamp in stamped if stamp[3] and self._is_wanted(source, stamp)]
        if len(wanted) > 1:
            wanted.sort(key=_age)
        self._is_few = len(wanted) <= _FEW_FILES
        total, done = max(1, sum(stamp[2] for _, stamp in wanted)), 0
        self._database.execute("BEGIN")
        try:
            for source, stamp in wanted:
                self._take_file(source, stamp)
                done += stamp[2]
                progress(READING, done, total)
        finally:
            if not self._is_few:  # syncing each file would take most of the time
                os.sync()
            self._database.execute("COMMIT")
        return self._report

    def _sources_of(self, name: str) -> list[Transcript]:
        found: list[Transcript] = []
        with self._named_if_wrong(name):
            found += sources_of(agent_named(name))
        return found

    def _take_file(self, source: Transcript, stamp: list[int]) -> None:
        with self._named_if_wrong(source.label):
            if not is_database(source.path):
                with opened(source.path) as file:
                    self._take(source, file, stamp)
                return
            wrong = len(self._report.wrong)
            for session, now, dump in sessions_of(source.path):
                one = source._replace(session=session)
                with self._named_if_wrong(one.label), tempfile.SpooledTemporaryFile(MAX_DOCUMENT_BYTES) as spooled:
                    if self._is_wanted(one, now):
                        dump(cast("BinaryIO", spooled))
                        self._take(one, cast("BinaryIO", spooled), now)
            if len(self._report.wrong) == wrong:
                self._keep(source, _Taken(stamp))

    @contextmanager
    def _named_if_wrong(self, name: str) -> Iterator[None]:
        """Name a transcript or an agent that cannot be read in the report, so that it keeps no other one out.

        Raises the errors that are no fault of a transcript: of the list of those that were taken, or of a full disk.
        """
        try:
            yield
        except Exception as error:
            is_of_transcript = isinstance(error, (OSError, UsageError))
            is_ours = isinstance(error, (sqlite3.Error, MemsyncError)) and not is_of_transcript
            if is_ours or getattr(error, "errno", None) in _FULL:
                raise
            reason = str(getattr(error, "strerror", None) or error) if is_of_transcript else type(error).__name__
            self._wrong(name, reason)

    def _wrong(self, name: str, reason: str) -> None:
        self._report.wrong.append(f"{name}: {reason[:200]}")

    def _is_wanted(self, source: Transcript, stamp: list[int]) -> bool:
        """Tell whether a transcript has changed since it was taken in."""
        known = self.known(source)
        is_wanted = known is None or known.stamp != stamp
        self._report.unchanged += not is_wanted
        return is_wanted

    def _take(self, source: Transcript, file: BinaryIO, stamp: list[int]) -> None:
        """Take in the part of a transcript that was not taken in yet."""
        size = file.seek(0, os.SEEK_END)
        row = self._continued(source, file, stamp, size)
        if row is None:
            self._report.unchanged += 1
            self._keep(source, _Taken(stamp))
            return
        if source.is_document:
            end = size if source.session or document_of(file) is not None else 0
            if size and not end:
                self._wrong(source.label, f"it is not a JSON object of at most {MAX_DOCUMENT_BYTES // 1_000_000} MB")
        else:
            end = whole_end(file, row.offset, size)
        is_new = not row.offset
        if end > row.offset or (end and (source.is_document or not row.stamp)):
            self._database.execute("SAVEPOINT one_transcript")
            is_taken = False
            try:
                is_taken = self._read(source, file, row, end)
            finally:  # a transcript that is not taken in owns no message that a copy of it has, too
                self._database.execute("RELEASE one_transcript" if is_taken else "ROLLBACK TO one_transcript")
            if not is_taken:
                self._keep(source, _Taken(stamp))
                return
            self._report.new += is_new
            self._report.grown += not is_new
            self._report.files.append((source.agent.name, source.path))
            row.grown_at = clock.seconds()
        else:
            self._report.unchanged += 1
        self._keep(source, replace(row, stamp=stamp) if row.offset else _Taken(stamp))

    def _continued(self, source: Transcript, file: BinaryIO, stamp: list[int], size: int) -> _Taken | None:
        """Return the state from which to continue a transcript; None if all of it was taken in before.

        A rewritten transcript is recognized by the bytes before the offset, and by the raw file if another file is at
        its path now. A change in the middle is not recognized: agents only append, so reading every file again would
        cost more than it finds. If an earlier version read the transcript, it is read again from its beginning. If a
        person edited one of its notes, it is read from its last part, because new parts may begin at other messages.
        """
        known = self.known(source)
        known = known if known and known.name else None
        if known is not None and size >= known.offset:
            if source.is_document:
                return replace(known, packed=0, part=1, start=0, about={}) if size else None
            if known.stamp[:2] in ([], stamp[:2]) and _tail(file, known.offset) == known.tail:
                if not known.stamp:
                    known.packed, numbers = 0, range(1, known.part + 1)
                    if all(may_write(self._root, source.agent.name, known.name, number) for number in numbers):
                        known.start, known.about = 0, {}
                return known
        return self._named(source, file, known)

    def _named(self, source: Transcript, file: BinaryIO, known: _Taken | None) -> _Taken | None:
        """Return the state under the first name that is free, or whose raw file is a beginning of the transcript.

        So a rewritten transcript gets another name, and the old session stays. None if a raw file has all of it.
        """
        number = 0
        while True:
            number += 1
            name = source.name if number == 1 else f"{source.name}-r{number}"
            path, mine = self._raw_path(source, name), known if known is not None and known.name == name else None
            if path.exists():
                same = raw_files.is_beginning(path, mine.packed if mine else 2**62, file)
                is_copy = same and mine is None and not file.read(1) and not self._is_free(source, name)
                if same is None or is_copy:
                    return None
                if same:
                    return mine or _Taken([], name)
            elif mine is None and self._is_free(source, name):
                return _Taken([], name)

    def _raw_path(self, source: Transcript, name: str) -> Path:
        ending = ".json" if source.path.endswith(".json") else ".jsonl"
        return self._root / raw_files.FOLDER / source.agent.name / f"{name}{ending}.gz"

    def _read(self, source: Transcript, file: BinaryIO, row: _Taken, end: int) -> bool:
        """Write the thread and the raw file of source[:end], and update `row`; return whether it was taken in.

        A session in a folder that is kept out is not.
        """
        agent, about = source.agent, About(**{name: row.about[name] for name in About.__slots__ if name in row.about})
        folder = agent.ran_in(source.path)
        if self._is_kept_out(folder):
            return False
        about.learn(session=source.session_id, cwd=folder if os.path.isabs(folder) else "")
        taken = 0 if source.is_document or agent.fold else row.offset
        part = row.part if row.about else 1  # without facts, the session is read from its beginning
        thread = SessionThread(self._root, agent.name, row.name, part, about, taken, sync=self._is_few)
        thread.start, skipped = row.start, self._report.skipped
        records = self._records(source, file, 0 if agent.fold else row.start, end)
        if agent.fold and end <= MAX_DOCUMENT_BYTES:
            records = ((0, record) for record in agent.fold([record for _, record in records]))
        for offset, record in records:
            before = replace(thread.now)
            events = events_in(agent, record, thread.now)
            if any(map(self._is_kept_out, (thread.now.cwd, text_at(record, "cwd"), text_at(record, "payload", "cwd")))):
                return False
            self._report.skipped += events is None
            place = 0 if source.is_document or agent.fold else offset
            thread.add_line(offset, before, self._said_first(agent, thread, record, place, events or ()))
        if self._report.skipped > skipped:
            self._report.skipped_in.append(source.path)
        thread.finish(row.part)
        raw = self._raw_path(source, row.name)
        row.packed *= raw.exists() and raw.stat().st_size >= row.packed  # with 0, the whole raw file is written again
        if not self._keep_raw and not row.has_secret:
            row.has_secret = thread.secrets > 0 or _has_secret(file, row.offset if row.packed else 0, end)
        if row.has_secret and not self._keep_raw:
            raw.unlink(missing_ok=True)
            row.packed = 0
            self._report.without_raw.append(source.path)
        else:
            raw.parent.mkdir(mode=0o700, exist_ok=True)
            start = row.offset if row.packed else 0
            row.packed = raw_files.append(raw, row.packed, file, start, end, sync=self._is_few)
        row.offset, row.tail = end, _tail(file, end)
        if not agent.fold and not source.is_document:
            found = thread.now  # with the project: its folder may be gone when the session grows
            row.about = asdict(replace(thread.about, project=found.project, folder=found.folder))
            row.part, row.start = thread.number, thread.start
        return True

    def _is_in_folder_kept_out(self, cwd: str) -> bool:
        """Tell whether a folder is kept out, or perhaps is, if only its name with dashes or its digest is known."""
        if not os.path.isabs(cwd):
            names = (name for place in self._kept_out for name in (place, digest_of(os.fsencode(place))))
            return any(map(_dashed(cwd).startswith, map(_dashed, names)))
        try:
            return is_in_any(cwd, self._kept_out)
        except ValueError:  # it is no path
            return False

    def _said_first(
        self, agent: Agent, thread: SessionThread, record: Record, place: int, events: Iterable[SessionEvent]
    ) -> Iterator[SessionEvent]:
        """Yield the events of a record that no other transcript of the agent has, and no line above it.

        The tokens of a message count in one transcript, from the part on in which its first record is.
        """
        name, keys = f"{agent.name}\n{thread.name}", [*keys_of(record, thread.now.key)]
        if keys and record.get("type") in ("session_meta", "response_item"):  # Codex copies these in any fork
            thread.now.key = keys[0][:1000]
        is_first = all(self._place_of(name, f"{agent.name} {key}", place) == place for key in keys)
        if not is_first and thread.now.begun and not any(text_at(record, "payload", key) for key in ("id", "call_id")):
            # A fork has its copies at its beginning. Later the same words are said again.
            copied_until = datetime.fromisoformat(thread.now.begun) + timedelta(seconds=COPY_SECONDS)
            is_first = moment_of(record.get("timestamp")) > copied_until.isoformat()
        for event in events:
            if event.who is not Who.USAGE or not event.id:
                if is_first:
                    yield event
            elif self._place_of(name, f"{agent.name} used {event.id}", place) >= thread.start:
                yield event

    def _place_of(self, name: str, key: str, place: int) -> int:
        """Return the place at which a session has a key first, -1 if another one has it; the first to ask owns it."""
        number, owner = (int(digest_of(text.encode("utf-8", "surrogatepass"))[:15], 16) for text in (key, name))
        self._database.execute("INSERT OR IGNORE INTO said VALUES (?, ?, ?)", (number, owner, place))
        first = self._database.execute("SELECT owner, place FROM said WHERE key = ?", (number,)).fetchone()
        return int(first[1]) if first[0] == owner else -1

    def _records(self, source: Transcript, file: BinaryIO, start: int, end: int) -> Iterator[tuple[int, Any]]:
        """Yield the (offset, record) of each line. Count lines without a record as skipped."""
        if source.is_document and not source.session:
            yield 0, document_of(file)
            return
        for offset, line in lines_of(file, start, end):
            records = records_in(line)
            yield from ((offset, record) for record in records)
            self._report.skipped += not records and (bool(line.strip()) or not line)


def _age(found: tuple[Transcript, list[int]]) -> tuple[bool, str, float, int]:
    """Return a key that sorts what is copied before its copies."""
    source, stamp = found
    begun = "" if source.is_document or is_database(source.path) else begun_at(source)
    return "/subagents/" in source.path, begun, birth_seconds(source.path), stamp[3]


def _has_secret(file: BinaryIO, start: int, end: int) -> bool:
    """Tell whether file[start:end] contains a secret, even in records from which memsync reads no event."""
    file.seek(start)
    rest = b""
    while start < end and (block := file.read(min(raw_files.BLOCK_BYTES, end - start))):
        if secrets_in((rest + block).decode("utf-8", "replace")):
            return True
        start, rest = start + len(block), block[-_TAIL_BYTES:]
    return False


def _dashed(path: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", path).strip("-") + "-"


def _tail(file: BinaryIO, offset: int) -> str:
    start = max(0, offset - _TAIL_BYTES)
    file.seek(start)
    return digest_of(file.read(offset - start))[:32]


def _stamp_of(path: str) -> list[int]:
    """Return device, inode, size and mtime of a file, and those of a database's log; zeros for a missing file."""
    stamp = []
    for name in (path, f"{path}-wal")[: 2 if is_database(path) else 1]:
        try:
            status = os.lstat(name)
            stamp += [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns]
        except OSError:
            stamp += [0, 0, 0, 0]
    return stamp
