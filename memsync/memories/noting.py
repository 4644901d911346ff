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
from datetime import date, datetime
from pathlib import Path
from typing import NamedTuple

from memsync.agents.ingest import TakenSession, taken_since
from memsync.agents.session_threads import note_of
from memsync.errors import IndexBusy
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
"""A session without a hook at its end has ended if its transcript has not grown for so long."""
OWNERS = ("asked", "decided")
"""Kinds of lines that are the owner's words; what the agent says may be from a page that it has read."""
OFF, RULES = "off", "rules"
_FIRST, _UNTIL = "notes made since", "notes made until"
"""When the first note was made, and up to when all were made, as Unix times."""


class Session(NamedTuple):
    """What was said in a session on its last day, what its conversation says about it, and when it ended."""

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

    def make(self, ended: Collection[str] = (), paused: Collection[str] = ()) -> list[str]:
        """Write the notes of sessions that have ended: these, and those that have not grown for IDLE_SECONDS.

        Also those of `paused`, by rules, because they may go on. Returns a reason for each that cannot be written now.
        Raises MemsyncError.
        """
        if default_of("agents.notes") == [OFF]:
            return []
        now, since = clock.seconds(), self._memory.state.single(_UNTIL)
        if since is None:
            self._memory.state.keep_single(_FIRST, since := now - IDLE_SECONDS)
            self._memory.state.keep_single(_UNTIL, since)
        complaints, waits = list[str](), list[float]()
        found = taken_since(self._memory.settings.root, since)
        self._done = {taken.key: self._done[taken.key] for taken in found if taken.key in self._done}
        for taken in found:
            has_ended = now - taken.grown_at >= IDLE_SECONDS or _is_one_of(taken, ended)
            waits += [] if has_ended else [taken.grown_at]
            is_known = self._done.get(taken.key) in ((taken.grown_at, has_ended), (taken.grown_at, True))
            if is_known or not (has_ended or _is_one_of(taken, paused)):
                continue
            try:
                self._note(taken, is_final=has_ended)
                self._done[taken.key] = (taken.grown_at, has_ended)
            except Exception as error:  # noqa: BLE001 (because no session may keep the others from their notes)
                complaints.append(f"the session {taken.name}: {error or type(error).__name__}")
                waits.append(taken.grown_at)
        if (until := min([now - IDLE_SECONDS, *waits])) > since:
            self._memory.state.keep_single(_UNTIL, until)
        return complaints

    def _note(self, taken: TakenSession, *, is_final: bool) -> None:
        session = _read(self._memory.settings.root, taken)
        if session is None or not session.id or self._is_private(session):
            return
        if session.ended.timestamp() < self._memory.state.single(_FIRST):  # a first ingest brings the sessions of years
            return
        root = log_of(session.folder)
        lines = by_rules(session.parts) if root is not None else []
        lines = [line for line in lines if line.kind in OWNERS or not reason_against(line.text)]
        if root is None or not lines:
            return
        last = LastSession(root.path, session.id, session.ended.isoformat())
        # First, because the next session may begin as soon as the note is in the log.
        self._memory.state.keep_single(f"last session {session.folder}", json.dumps(last))
        self._write(root, session, lines)
        command = program_of_notes() if is_final else []
        if command:
            with file_lock(self._memory.settings.keep_dir / "notes.lock", 0.0, _busy):
                better = by_program(command, session.parts, self._memory.state)
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
        return is_local or session.head.local_only or is_in_any(session.folder, default_of("agents.off"))


def _busy(holder: str) -> IndexBusy:
    return IndexBusy(f"a program words a note for {holder} now", hint="Try again.")


def _is_one_of(taken: TakenSession, sessions: Collection[str]) -> bool:
    """Tell whether a transcript is of one of these sessions; Gemini's files have the first 8 characters of its id."""
    return any(session in taken.key or taken.name.endswith(f"-{session[:8]}") for session in sessions)


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


def _read(root: Path, taken: TakenSession) -> Session | None:
    """Return what a kept conversation says on its last day; None if it has no message with a time, or is gone."""
    day: date | None = None
    found = list[Part]()
    head = Head()
    for number in range(taken.parts, 0, -1):
        path = note_of(root, taken.agent, taken.name, number)
        with suppress(FileNotFoundError):
            text = "\n".join(decode(path.read_bytes()).lines)
            head = read_head(text.split("\n"))
            whole = part_of(f"{path.parent.name}/{path.name}", text)
            day = day or max((said for one in whole.messages if (said := day_of(one.time))), default=None)
            of_day = [one for one in whole.messages if day and day_of(one.time) in (day, None)]
            if not of_day:
                break
            found.insert(0, whole._replace(messages=of_day))
    times = [one.time for part in found for one in part.messages if one.time]
    return Session(taken.agent, head, found, datetime.fromisoformat(max(times)).astimezone()) if times else None


def _texts(session: Session, lines: Sequence[NoteLine]) -> Iterator[str]:
    """Yield the lines of a note, each with the citation of what it is from."""
    for number, line in enumerate(lines):
        begin = "" if number else f"Session in {os.path.basename(session.folder) or session.folder}, "
        yield f"{begin}{line.kind}: {line.text} ({TRANSCRIPTS}:{line.citation})"
