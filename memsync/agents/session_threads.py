"""Writes the events of a session as thread notes: a large session is divided into parts, one note each.

A part depends only on the transcript from the part's first line on, and on the facts known about the session there. So
a session that has grown is rendered again only from the beginning of its last part.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from memsync.agents.events import About, SessionEvent, Who, is_prompt_of_program, moment_of, without_injected
from memsync.agents.project import facts_of, project_of
from memsync.edit.markdown import exact_message, one_line
from memsync.edit.set_fields import head_of
from memsync.model.text import count
from memsync.model.vocabulary import Tier
from memsync.notes.rules import THREADS_FOLDER
from memsync.notes.secrets import redacted
from memsync.system.user_folders import digest_of, replace_file

PART_CHARS = 200_000
"""A new part begins after a message that makes the part longer than this."""
MAX_MESSAGE_CHARS = 50_000
"""A longer message is cut in the thread, because long Markdown takes long to parse. The raw file has all of it."""
MAX_TITLE_CHARS = 80
MAX_ARGUMENT_CHARS = 200
_IN_FULL = re.compile(r"[^\n]*(?:todo|update_plan)[^\n]*\n|.*\bgit\b[^\n]{0,200}\bcommit\b", re.IGNORECASE)
MAX_FULL_CHARS = 4_000
"""Of the calls of which session notes need more: lists of tasks, and commits."""
_OTHER = re.compile(r"[^\w.-]+", re.ASCII)
_SEAL = re.compile(rb'^ingested: "([0-9a-f]{16})"\n', re.MULTILINE)
_UNSEALED = b'ingested: "0000000000000000"\n'


def sealed(content: bytes) -> bytes:
    """Return a note whose `ingested` is the digest of the rest of the note."""
    return content.replace(_UNSEALED, b'ingested: "%b"\n' % digest_of(content)[:16].encode(), 1)


def is_as_written(content: bytes) -> bool:
    """Tell whether a note is unchanged since `sealed` returned it."""
    match = _SEAL.search(content, 0, 10_000)
    return match is not None and content == sealed(_SEAL.sub(_UNSEALED, content, count=1))


def note_of(root: Path, agent: str, name: str, part: int) -> Path:
    """Return the note of a part of a session."""
    return root / f"{THREADS_FOLDER}{agent}-{name}{f'-{part}' if part > 1 else ''}.md"


def may_write(root: Path, agent: str, name: str, part: int) -> bool:
    """Tell whether the note of a part is missing, or is the session's and unchanged by a person. Raises OSError.

    The note of part 2 of the session `chat` may be that of the session `chat-2`.
    """
    note = note_of(root, agent, name, part)
    try:
        return is_as_written(note.read_bytes()) and facts_of(note).get("source") == f"{agent}:{name}"
    except FileNotFoundError:
        return True


@dataclass(slots=True)
class _Message:
    role: str
    time: str
    model: str
    texts: list[str]
    id: str = ""
    tools: dict[str, tuple[str, int]] = field(default_factory=dict)
    used: list[float] = field(default_factory=lambda: [0, 0, 0, 0.0])
    """Tokens in, out and cached, and dollars."""


class SessionThread:
    """The thread notes of one session, from the part `number` on.

    A note that a person has changed is never written: the lines from the offset `taken` on then go into a new part.
    `start` is the offset at which the last part begins, and `about` has the facts known about the session there. `now`
    has the facts known so far; the reader of the transcript updates it. `secrets` counts the secrets in all texts,
    including those that threads leave out.
    """

    def __init__(self, root: Path, agent: str, name: str, number: int, about: About, taken: int, *, sync: bool) -> None:
        self.number, self.start, self.about, self.secrets = number, 0, about, 0
        self._root, self._agent, self.name = root, agent, name
        self._sync = sync
        self.now = replace(about)
        self._is_kept = taken > 0 and not self._may_write(number)
        self._taken = taken
        self._messages: list[str] = []
        self._size = 0
        self._open: _Message | None = None
        self._counted: dict[str, tuple[float, ...]] = {}
        self._spent: list[tuple[str, int, int, float]] = []

    @property
    def note(self) -> Path:
        """The note of the current part."""
        return note_of(self._root, self._agent, self.name, self.number)

    def _may_write(self, number: int) -> bool:
        return may_write(self._root, self._agent, self.name, number)

    def _redacted(self, text: str) -> str:
        text, secrets = redacted(text)
        self.secrets += secrets
        return text

    def add_line(self, offset: int, before: About, events: Iterable[SessionEvent]) -> None:
        """Add the events of the line at an offset; `before` has the facts known before the line."""
        may_end_part = True
        for event in events:
            if event.who is Who.USAGE:
                if self._open is not None and self._open.role not in ("user", "system"):
                    self._count(self._open, event)
                continue
            text = self._redacted(event.text if event.who is Who.TOOL else without_injected(event.text))
            if event.who is Who.USER and is_prompt_of_program(event.text):
                event = event._replace(who=Who.SYSTEM)
            if event.who is Who.UNSEEN:
                if self._open is not None and event.id in self._open.tools:
                    call, size = self._open.tools[event.id]
                    self._open.tools[event.id] = (call, size + len(text))
            elif text.strip() or event.who is Who.TOOL:
                self._add(event, text, (offset, before) if may_end_part else None)
                may_end_part = False

    def _count(self, message: _Message, event: SessionEvent) -> None:
        """Add what an event counts beyond earlier ones of its message: each record of a message repeats its usage."""
        before = self._counted.get(event.id, (0, 0, 0, 0.0))
        most = self._counted[event.id] = tuple(map(max, before, (*event.used, event.cost)))
        message.used = [used + now - then for used, now, then in zip(message.used, most, before, strict=True)]

    def _add(self, event: SessionEvent, text: str, place: tuple[int, About] | None) -> None:
        role = _role_of(event)
        is_new = self._open is None or self._open.role != role or role in ("user", "system", "handoff")
        if self._open is not None and not is_new and event.who is not Who.TOOL:
            is_new = not event.id or event.id != self._open.id
        is_kept = self._is_kept and place is not None and place[0] >= self._taken
        if is_new or is_kept:
            self._close()
            if place is not None and (is_kept or self._size > PART_CHARS):
                self._next_part(*place)
            model = self.now.model if event.who in (Who.ASSISTANT, Who.TOOL) else ""
            self._open = _Message(role, moment_of(event.time), model, [])
        assert self._open is not None
        self._open.id = event.id if event.who is Who.ASSISTANT else self._open.id
        if event.who is Who.TOOL:
            most = MAX_FULL_CHARS if _IN_FULL.match(f"{event.tool}\n{text[:MAX_FULL_CHARS]}") else MAX_ARGUMENT_CHARS
            given = one_line(text[:most]) + "…" * (len(text) > most)
            key = event.id or f"{len(self._open.tools)}"
            self._open.tools[key] = (f"> {one_line(event.tool)} {given}".rstrip(), len(text))
        else:
            self._open.texts.append(text)
            if event.who is Who.USER and not self.now.title:
                self.now.title = one_line(text)[:MAX_TITLE_CHARS]

    def _close(self) -> None:
        message, self._open = self._open, None
        if message is None:
            return
        self._counted.pop("", None)
        used = dict(zip(("in", "out", "cached"), map(int, message.used), strict=False))
        attributes = {name: str(number) for name, number in used.items() if number}
        if cost := round(message.used[3], 9):
            attributes["cost"] = f"{cost:.9f}".rstrip("0")
        if message.model:
            attributes["model"] = one_line(message.model)[:MAX_TITLE_CHARS]
        text = "\n\n".join(message.texts)
        if len(text) > MAX_MESSAGE_CHARS:
            text = f"{text[:MAX_MESSAGE_CHARS]}… ({count(len(text) - MAX_MESSAGE_CHARS, 'more character')})"
        tools = "\n".join(f"{line} ({count(size, 'character')})" for line, size in message.tools.values())
        for role, said in ((message.role, text), ("tool", tools[:MAX_MESSAGE_CHARS])):
            if said:
                self._messages.append(exact_message(role, said, message.time, attributes).text)
                self._size += len(self._messages[-1])
                attributes = {}
        self._spent.append((message.time, used["in"], used["out"], cost))

    def _next_part(self, start: int, about: About) -> None:
        self._write()
        self.number, self.start, self.about = self.number + 1, start, about
        self._is_kept = False
        self.about.title = self.about.title or self.now.title
        self._messages, self._size, self._spent = [], 0, []

    def finish(self, parts: int) -> None:
        """Write the last part. Remove later ones if an earlier version wrote more: `parts` is how many there were."""
        self._close()
        self._write()
        for number in range(self.number + 1, parts + 1):
            if self._may_write(number):
                note_of(self._root, self._agent, self.name, number).unlink(missing_ok=True)

    def _write(self) -> None:
        """Write the current part, if its content is new.

        If its note is not the session's, or a person has changed it, write a new note with the next free number.
        """
        if self._is_kept or not self._messages:
            return
        while not self._may_write(self.number):
            self.number += 1
        content = sealed((self._head() + "\n\n".join(self._messages) + "\n").encode())
        if not self.note.exists() or self.note.read_bytes() != content:
            replace_file(str(self.note), content, sync=self._sync)

    def _head(self) -> str:
        now = self.now
        if os.path.isabs(now.cwd) and now.cwd.isprintable() and (not now.folder or os.path.isdir(now.cwd)):
            now.project, now.folder = project_of(now.cwd)
        title = now.title or f"{self._agent} {self.name}"
        facts = {
            "title": title if self.number == 1 else f"{title} ({self.number})",
            "session": now.parent or now.session or self.name,
            "agent": self._agent, "project": now.project, "model": now.model, "branch": now.branch,
            "cwd": now.cwd, "folder": now.folder,
        }  # fmt: skip
        times, *spent = zip(*self._spent, strict=True)
        moments = sorted(filter(None, times)) or [""]
        tokens_in, tokens_out, cost = map(sum, spent)
        return head_of({
            **{key: self._redacted(one_line(text)) for key, text in facts.items()},
            "created": moments[0], "updated": moments[-1],
            "tokens_in": tokens_in or None, "tokens_out": tokens_out or None, "cost": round(cost, 9) or None,
            "tier": str(Tier.PROJECT), "source": f"{self._agent}:{self.name}", "ingested": "0" * 16,
        })  # fmt: skip


def _role_of(event: SessionEvent) -> str:
    """Return the role of an event. A subagent's task is a handoff, because the user did not write it."""
    if event.agent and event.who is Who.USER:
        return "handoff"
    if event.who is Who.TOOL or event.who is Who.ASSISTANT:
        return f"agent:{_OTHER.sub('-', event.agent)[:60]}" if event.agent else "assistant"
    return event.who.value
