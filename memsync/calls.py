"""What a memory can be asked besides search, get, sync and status: the same methods here and over the socket.

Each method names itself and its arguments; `_ask` has the answer from this process or from the daemon. Arguments and
answers are what JSON can hold, or dataclasses of `memsync.model` made of that.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from memsync.model.context import Context
from memsync.model.threads import Conversation, Costs, Messages, Neighbours, Sessions, Threads
from memsync.model.upkeep import Collections, Duplicates, Notes, Pruning, Stale, Stats
from memsync.model.written import Overwritten, Pattern, Preference, Written

Answer = TypeVar("Answer")


class Calls(Protocol):
    """Writing to a memory, and its views. Everything raises as MemsyncError does; nothing is half done then."""

    def _ask(self, kind: type[Answer], name: str, arguments: dict[str, Any]) -> Answer:
        """Return what the method `name` answers, as `kind`."""
        ...

    # ------------------------------------------------------------------------------------------ writing

    def log(
        self, text: str, *, day: str = "", time: str = "", tags: tuple[str, ...] = (), force: bool = False
    ) -> Written:
        """Append an entry to the log of a day: `2026-11-21`, `yesterday`, `3d`; default: today.

        `time` is `10:02`; default: now, and none for another day than today. `force` writes even if an editor has the
        log open. Raises UsageError where [kinds] has no folder for logs.
        """
        return self._ask(Written, "log", {"text": text, "day": day, "time": time, "tags": tags, "force": force})

    def remember(
        self,
        text: str,
        *,
        section: str = "",
        note: str = "",
        tier: str = "",
        tags: tuple[str, ...] = (),
        force: bool = False,
    ) -> Written:
        """Add a list item to a section of MEMORY.md, or of another note, which are made if they are not there.

        With `tier` and no `note`, the note is that tier's own. What stands there already is not added again.
        """
        arguments = {"text": text, "section": section, "note": note, "tier": tier, "tags": tags, "force": force}
        return self._ask(Written, "remember", arguments)

    def new_note(
        self, path: str, text: str = "", *, title: str = "", tier: str = "", tags: tuple[str, ...] = ()
    ) -> Written:
        """Make a note. Raises UsageError when there is one of that name, or no scan would find it."""
        arguments = {"path": path, "text": text, "title": title, "tier": tier, "tags": tags}
        return self._ask(Written, "new_note", arguments)

    def overwritten(self, *, days: int = 30) -> tuple[Overwritten, ...]:
        """Return what was appended within so many days and is not in its note any more, the oldest first.

        What somebody edited is marked (`similar`), and what went with its whole note (`note_deleted`).
        """
        return self._ask(tuple[Overwritten, ...], "overwritten", {"days": days})

    def recover(self, ids: tuple[str, ...]) -> tuple[Written, ...]:
        """Append what was overwritten again, in the order in which it was appended; a deleted note gets its heading."""
        return self._ask(tuple[Written, ...], "recover", {"ids": ids})

    def dismiss(self, ids: tuple[str, ...]) -> int:
        """Forget what was overwritten, because it was meant; return how many that were."""
        return self._ask(int, "dismiss", {"ids": ids})

    # -------------------------------------------------------------------------- preferences and patterns

    def preferences(self, *, user: str = "") -> tuple[Preference, ...]:
        """Return what preferences.md says, for everybody or for one user, whose own win."""
        return self._ask(tuple[Preference, ...], "preferences", {"user": user})

    def set_preference(self, key: str, value: str, *, user: str = "") -> Written:
        """Set a preference, in its place if it has one."""
        return self._ask(Written, "set_preference", {"key": key, "value": value, "user": user})

    def patterns(self) -> tuple[Pattern, ...]:
        """Return the learned patterns of all notes, the surest first."""
        return self._ask(tuple[Pattern, ...], "patterns", {})

    def observe(self, text: str, *, pattern_type: str = "", key: str = "", confidence: float = 0.0) -> Written:
        """Note that a pattern was observed: once more if MEMORY.md has it, by `key` or else by its text."""
        arguments = {"text": text, "pattern_type": pattern_type, "key": key, "confidence": confidence}
        return self._ask(Written, "observe", arguments)

    # ---------------------------------------------------------------------------------------- threads

    def new_thread(
        self,
        title: str,
        *,
        session: str = "",
        user: str = "",
        project: str = "",
        prompt: str = "",
        tags: tuple[str, ...] = (),
    ) -> Written:
        """Begin a thread, in a note of threads/ that is named after its title; `prompt` is its own system prompt.

        Raises UsageError, with the path, when a thread has that title already.
        """
        named = {"title": title, "session": session, "user": user, "project": project, "prompt": prompt, "tags": tags}
        return self._ask(Written, "new_thread", named)

    def append_message(
        self,
        thread: str,
        role: str,
        text: str,
        *,
        time: str = "",
        attributes: tuple[str, ...] = (),
        force: bool = False,
    ) -> Written:
        """Append a message to a thread, which is named by its path, by its name in threads/ or by its title.

        `role` is user, assistant, system, tool, agent:NAME, router or handoff; `time` is now unless it is given;
        `attributes` are `key=value`: model, in and out (tokens), cost (US dollars), status, and any other.
        """
        arguments = {
            "thread": thread,
            "role": role,
            "text": text,
            "time": time,
            "attributes": attributes,
            "force": force,
        }
        return self._ask(Written, "append_message", arguments)

    def set_thread_status(self, thread: str, status: str) -> Written:
        """Make a thread active, paused, completed or archived, which searches pass over unless they ask for it."""
        return self._ask(Written, "set_thread_status", {"thread": thread, "status": status})

    def thread(self, thread: str, *, last: int = 0) -> Conversation:
        """Return a thread with its messages, or the last so many of them. Raises NoteError when there is none."""
        return self._ask(Conversation, "thread", {"thread": thread, "last": last})

    def threads(self, *, session: str = "", status: str = "", user: str = "") -> Threads:
        """Return every thread, the last active first."""
        return self._ask(Threads, "threads", {"session": session, "status": status, "user": user})

    def sessions(self, *, user: str = "", status: str = "", project: str = "") -> Sessions:
        """Return what threads share a session, the last active first; a thread without one is its own."""
        return self._ask(Sessions, "sessions", {"user": user, "status": status, "project": project})

    def costs(self, *, by: str = "session", since: str = "") -> Costs:
        """Return tokens and dollars by session, model, agent or day, since a moment (ISO 8601, or `7 days ago`)."""
        return self._ask(Costs, "costs", {"by": by, "since": since})

    def messages(self, role: str, *, session: str = "", limit: int = 100) -> Messages:
        """Return the last messages of a role, the newest first: `agent` for every run, `router`, `handoff`."""
        return self._ask(Messages, "messages", {"role": role, "session": session, "limit": limit})

    def neighbours(self, path: str, start_line: int, *, end_line: int = 0, count: int = 1) -> Neighbours:
        """Return so many messages before and behind lines of a thread; none around those of another note.

        Raises NoteError when there is no such note.
        """
        named = {"path": path, "start_line": start_line, "end_line": end_line, "count": count}
        return self._ask(Neighbours, "neighbours", named)

    def context(self, query: str = "", *, thread: str = "", budget: int = 0, day: str = "") -> Context:
        """Return what an agent should read before it answers, as one text of at most `budget` word pieces.

        In this order: who it is, active prompts, the thread's own, what lasts, the thread's last messages, the logs of
        `day` (today) and the day before, and what is found for `query`. Shares and the usual budget are settings
        ([context]). Equal files, arguments and day give equal text. Raises NoteError when there is no such thread.
        """
        named = {"query": query, "thread": thread, "budget": budget, "day": day}
        return self._ask(Context, "context", named)

    # ----------------------------------------------------------------------------------------- upkeep

    def prune(self, *, days: int = 0, apply: bool = False, force: bool = False) -> Pruning:
        """Tell what is due to retire, task memory older than `days` and the expired; with `apply` move it to archive/.

        `days` is the setting prune.task_days unless it is given. Personal and pinned notes stay. Raises WriteRefused
        when more than a tenth of the notes were to be moved, unless `force`.
        """
        return self._ask(Pruning, "prune", {"days": days, "apply": apply, "force": force})

    def undo_prune(self) -> Pruning:
        """Move back what the last `prune` moved. Raises UsageError when there is nothing to undo."""
        return self._ask(Pruning, "undo_prune", {})

    def duplicates(self, *, similarity: float = 0.95, limit: int = 50) -> Duplicates:
        """Return passages that stand in several notes, equal or with a cosine of `similarity` or more."""
        return self._ask(Duplicates, "duplicates", {"similarity": similarity, "limit": limit})

    def stale(self, *, days: int = 90, limit: int = 50) -> Stale:
        """Return notes in which nothing has happened for `days` and that nobody has retrieved for as long."""
        return self._ask(Stale, "stale", {"days": days, "limit": limit})

    def notes(self, *, folder: str = "", archived: bool = False) -> Notes:
        """Return every note beneath a folder, or all, by path; with `archived` the retired ones, too."""
        return self._ask(Notes, "notes", {"folder": folder, "archived": archived})

    def collections(self) -> Collections:
        """Return the folders that hold notes, as their README.md describe them."""
        return self._ask(Collections, "collections", {})

    def stats(self, *, days: int = 30, limit: int = 10) -> Stats:
        """Return how the memory was used: searches, their latency, notes most and never retrieved, growth."""
        return self._ask(Stats, "stats", {"days": days, "limit": limit})
