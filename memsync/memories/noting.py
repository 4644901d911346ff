"""Writes session notes: finds the sessions that have ended, and the memory whose log gets their lines.

A note is made from the kept conversation, and written by `note_session`, which writes the same note once. So nothing is
lost or doubled if a process is killed at any moment: the next one makes the notes of all sessions that have changed
since the last moment up to which all notes were made.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from memsync.agents.ingest import TakenSession, taken_since
from memsync.agents.session_threads import note_of
from memsync.errors import IndexBusy, UsageError
from memsync.features.curation.checks import reason_against
from memsync.memories.reopening import Opener
from memsync.memories.session_notes import MOST, NoteLine, Part, by_rules, day_of, part_of
from memsync.memories.session_program import by_program, cost_of_today
from memsync.memory import Memory, Through, open_memory
from memsync.model.text import count
from memsync.model.vocabulary import NotePath
from memsync.notes.decode import decode
from memsync.notes.frontmatter import Head, read_head
from memsync.settings.load import Settings, default_of, settings_of_root
from memsync.settings.paths import is_in_any
from memsync.settings.roots import TRANSCRIPTS, RegisteredRoot, root_for
from memsync.system import clock
from memsync.system.file_lock import file_lock
from memsync.system.state_file import state_of_root

IDLE_SECONDS = 600.0
"""If no hook says that a session has ended, it has once its transcript has not grown for so long."""
LONGEST_INGEST_SECONDS = 3_600.0
"""A transcript is seen by others when the run that has read it ends."""
DAY = 86_400.0
OFF, RULES = "off", "rules"
_FIRST, _UNTIL = "notes made since", "notes made until"
"""When the first note was made, and up to when all were made, as Unix times."""


class Session(NamedTuple):
    """What was said in a session on one day, the front matter of its conversation, and when it ended on that day."""

    agent: str
    head: Head
    parts: Sequence[Part]
    ended: datetime

    @property
    def id(self) -> str:
        """The agent's name of the session."""
        return str(self.head.values.get("session", ""))

    @property
    def folder(self) -> str:
        """The folder of its project."""
        return str(self.head.values.get("folder") or self.head.values.get("cwd") or "")


class LastSession(NamedTuple):
    """The last session of a project that has a note: the memory with its log, and when it ended (ISO 8601)."""

    root: str
    session: str
    ended: str


class Noter:
    """Writes the notes of the conversations that one memory keeps; it may be used by one thread at a time."""

    def __init__(self, memory: Memory, opener: Opener) -> None:
        self._memory = memory
        self._opener = opener
        self._done: dict[str, tuple[float, bool]] = {}
        """What this process has looked at: a daemon asks each second while a conversation grows."""

    def make(self, ended: Collection[str] = (), paused: Collection[str] = ()) -> list[str]:
        """Write the notes of sessions that have ended: these, and those that have not grown for IDLE_SECONDS.

        Also those of `paused`, by rules, because they may go on. Returns a reason for each that cannot be written now.
        Raises MemsyncError.
        """
        now, state = clock.seconds(), self._memory.state
        since, is_off = state.single(_UNTIL), default_of("agents.notes") == [OFF]
        if since is None or is_off:  # what is said while notes are off never gets one
            since = now - IDLE_SECONDS
            state.keep_single(_FIRST, now if is_off else since)
            state.keep_single(_UNTIL, since)
        complaints, waits, to_word = list[str](), list[float](), list[tuple[RegisteredRoot, Session, list[NoteLine]]]()
        if since > now:  # the clock was ahead
            since = now - IDLE_SECONDS
            state.keep_single(_FIRST, min(state.single(_FIRST), since))
        found = [] if is_off else taken_since(self._memory.settings.root, since - LONGEST_INGEST_SECONDS)
        self._done = {taken.key: self._done[taken.key] for taken in found if taken.key in self._done}
        for taken in found:
            has_ended = now - taken.grown_at >= IDLE_SECONDS or _is_one_of(taken, ended)
            waits += [] if has_ended else [taken.grown_at]
            is_known = self._done.get(taken.key) in ((taken.grown_at, has_ended), (taken.grown_at, True))
            if is_known or not (has_ended or _is_one_of(taken, paused)):
                continue
            try:
                to_word += self._note(taken, is_final=has_ended)
                self._done[taken.key] = (taken.grown_at, has_ended)
            except Exception as error:  # noqa: BLE001 (because no session may keep the others from their notes)
                complaints.append(f"the session {taken.name}: {error or type(error).__name__}")
                waits += [] if isinstance(error, UsageError) else [taken.grown_at]
        if (until := min([now - IDLE_SECONDS, *waits])) > since:
            state.keep_single(_UNTIL, until)
        for root, session, lines in to_word:  # last, because it takes long
            self._word(root, session, lines)
        return complaints

    def _note(self, taken: TakenSession, *, is_final: bool) -> Iterator[tuple[RegisteredRoot, Session, list[NoteLine]]]:
        """Write the notes of a session's days that have none yet; yield those that a program may word."""
        state, key = self._memory.state, f"noted {taken.key}"
        noted, known_length, was_final = json.loads(state.single(key) or '["", 0, false]')
        first = max(datetime.fromtimestamp(state.single(_FIRST)).astimezone(), _moment(noted))
        for session in _read(self._memory.settings.root, taken, first):
            ended, length = session.ended.isoformat(), sum(len(part.lines) for part in session.parts)
            # A child of another session has that one's id. A time in the future would make logs of days to come.
            is_own = bool(session.id) and _is_one_of(taken, [session.id])
            is_known = (ended, length) == (noted, known_length) and (was_final or not is_final)
            if is_known or not is_own or self._is_private(session):
                continue
            if session.ended < first or session.ended.timestamp() > taken.grown_at + DAY:
                continue
            root = log_of(session.folder)
            lines = [line for line in by_rules(session.parts) if line.is_owners or not reason_against(line.text)]
            if root is None or not lines:
                continue
            # First, because the next session may begin as soon as the note is in the log.
            last, before = LastSession(root.path, session.id, ended), last_session(self._memory, session.folder)
            if before is None or before.ended <= last.ended:
                state.keep_single(f"last session {session.folder}", json.dumps(last))
            self._write(root, session, lines)
            state.keep_single(key, json.dumps([ended, length, is_final]))
            if is_final and program_of_notes():
                yield root, session, lines

    def _word(self, root: RegisteredRoot, session: Session, lines: Sequence[NoteLine]) -> None:
        """Let the program word a note. Raises IndexBusy if another process does so."""
        with file_lock(self._memory.settings.keep_dir / "notes.lock", 0.0, _busy):
            better = by_program(program_of_notes(), session.parts, self._memory.state)
        if better:
            self._write(root, session, [*better, *(line for line in lines if line.kind not in MOST)])

    def _write(self, root: RegisteredRoot, session: Session, lines: Sequence[NoteLine]) -> None:
        day, time = session.ended.date().isoformat(), f"{session.ended:%H:%M}"
        with self._opener.memory(root) as memory:
            texts, user = tuple(_texts(session, lines)), str(session.head.values.get("user", ""))
            memory.note_session(session.id, session.agent, day, time, texts, user=user)

    def _is_private(self, session: Session) -> bool:
        """Tell whether nothing of a session may stand in a log, which may be sent elsewhere."""
        is_local = any(self._memory.reader.rules.is_local_only(NotePath(part.path)) for part in session.parts)
        places = {session.folder, str(session.head.values.get("cwd") or session.folder)}
        is_off = any(is_in_any(place, default_of("agents.off")) for place in places)
        return is_local or session.head.local_only or is_off


def _busy(holder: str) -> IndexBusy:
    return IndexBusy(f"a program words a note for {holder} now", hint="Try again.")


def _is_one_of(taken: TakenSession, sessions: Collection[str]) -> bool:
    """Tell whether a transcript is of one of these sessions; Gemini's files have the first 8 characters of its id."""
    names = taken.key.replace("\n", "/").split("/")
    return any(
        any(session in name for name in names[-3:]) or taken.name.endswith(f"-{session[:8]}") for session in sessions
    )


def make_notes(settings: Settings) -> list[str]:
    """Make the notes of all sessions that have ended, in this process; `settings` are those of the conversations.

    Returns a reason for each note that cannot be made now. Raises MemsyncError.
    """
    with closing(open_memory(settings, Through.HERE)) as memory, closing(Opener(memory)) as opener:
        return Noter(memory, opener).make()


def program_of_notes() -> list[str]:
    """Return the command that words notes; empty if rules do, or if it may not read conversations."""
    command = list(default_of("agents.notes"))
    return command if command not in ([RULES], [OFF]) and default_of("agents.notes_remote") else []


def described(transcripts: Path | None, folder: str) -> str:
    """Return a sentence about the notes of sessions in a folder: where they go, what words them, and what it cost."""
    if default_of("agents.notes") == [OFF] or transcripts is None:
        return "session notes are off"
    root, command = log_of(folder), program_of_notes()
    place = f"the log of the memory {root.name}" if root else "nowhere, because no memory is used in this folder"
    if not command:
        needs = " (a program needs agents.notes_remote = true)" * (default_of("agents.notes") != [RULES])
        return f"session notes here go to {place}, by rules{needs}"
    cost = cost_of_today(state_of_root(settings_of_root(transcripts)[0].keep_dir))
    parts = [count(cost.sessions, "session"), count(cost.tokens, "token")]
    parts.append(f"{count(cost.dropped, 'line')} without proof")
    parts += [f"{count(cost.failed, 'failure')}, the last: {cost.reason}"] * bool(cost.failed)
    return f"session notes here go to {place}, by {command[0]}; today {', '.join(parts)}"


def log_of(folder: str) -> RegisteredRoot | None:
    """Return the memory whose logs get the notes of sessions in a folder: that around it, otherwise the default one."""
    root = root_for(folder) if folder else None
    return root if root is not None and root.path and root.name != TRANSCRIPTS else None


def last_session(memory: Memory, folder: str) -> LastSession | None:
    """Return the last session with a note of the project in a folder. `memory` keeps the conversations."""
    stored = memory.state.single(f"last session {folder}")
    return LastSession(*json.loads(stored)) if stored else None


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text) if text else datetime.fromtimestamp(0).astimezone()


def _read(root: Path, taken: TakenSession, since: datetime) -> list[Session]:
    """Return what a kept conversation says on each day from that of a moment on; nothing if it is gone."""
    found, head = list[Part](), Head()
    for number in range(taken.parts, 0, -1):
        path = note_of(root, taken.agent, taken.name, number)
        with suppress(FileNotFoundError):
            text = "\n".join(decode(path.read_bytes()).lines)
            head = read_head(text.split("\n"))
            part = part_of(f"{path.parent.name}/{path.name}", text)
            days = [day for one in part.messages if (day := day_of(one.time))]
            found.insert(0, part)
            if days and max(days) < since.date():
                break
    sessions = list[Session]()
    for day in sorted({day for part in found for one in part.messages if (day := day_of(one.time))}):
        parts = [part._replace(messages=[one for one in part.messages if day_of(one.time) == day]) for part in found]
        times = [one.time for part in parts for one in part.messages]
        if day >= since.date():
            sessions.append(Session(taken.agent, head, parts, datetime.fromisoformat(max(times)).astimezone()))
    return sessions


def _texts(session: Session, lines: Sequence[NoteLine]) -> Iterator[str]:
    """Yield the lines of a note, each with the citation of what it is from."""
    for number, line in enumerate(lines):
        begin = "" if number else f"Session in {os.path.basename(session.folder) or session.folder}, "
        yield f"{begin}{line.kind}: {line.text} ({TRANSCRIPTS}:{line.citation})"
