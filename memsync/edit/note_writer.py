"""Changes a note in the only two ways there are: an append in one write, or a swap for a new version of the whole file.

Both happen under one lock for all writers of a memory root, which lies outside of it, and neither trusts it: editors
and git take no locks. An append never rewrites what is there. A swap is made only of the file that was read, and
undone if another version came in between.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from memsync.edit import note_file
from memsync.edit.addition import Addition, read_tail
from memsync.edit.append import Appending, Done, KnownTails, Replaced, make, tried
from memsync.edit.journal import Journal, missing
from memsync.edit.note_paths import check_writable, folder_of
from memsync.edit.open_editors import refuse_open_in_editor
from memsync.errors import MemsyncError, UsageError, WriteRefused
from memsync.model.vocabulary import NotePath
from memsync.notes.decode import split_lines
from memsync.notes.rules import PathRules
from memsync.system.file_lock import file_lock

WAIT_SECONDS = 30.0
POLL_SECONDS = 0.0005
WRITES_FOR_AGENT: ContextVar[bool] = ContextVar("writes_for_agent", default=False)
"""True while an operation runs that an agent asked for: no agent may write what instructs agents."""


@contextmanager
def for_agent() -> Iterator[None]:
    """Run what follows as an agent's: writing to a note that instructs agents raises WriteRefused."""
    mark = WRITES_FOR_AGENT.set(True)
    try:
        yield
    finally:
        WRITES_FOR_AGENT.reset(mark)


class NoteWriter:
    """Writes notes under one memory root; `keep` is the folder of the lock and the journal.

    `rules` tell which notes instruct agents.
    """

    def __init__(self, root: Path, keep: Path, rules: PathRules | None = None) -> None:
        self._rules = rules or PathRules({}, {})
        self.journal = Journal(keep / "journal")
        self._root = root
        self._keep = keep
        self._tails = KnownTails(keep / "tails")
        self._holder: int | None = None

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other writers of memsync's out, if this thread does not already. Raises WriteRefused when one stays."""
        if self._holder == threading.get_ident():
            yield
            return
        with file_lock(self._keep / "write.lock", WAIT_SECONDS, _busy, poll_seconds=POLL_SECONDS):
            self._holder = threading.get_ident()
            try:
                yield
            finally:
                self._holder = None

    def refuse_instructions(self, path: NotePath, *, for_agent: bool = True) -> None:
        """Refuse to write, for an agent or a conversation, to a note that instructs agents. Raises WriteRefused."""
        if for_agent and self._rules.instructs(path):
            raise WriteRefused(f"{path} contains agent instructions", hint="Only a person may edit it, in an editor.")

    def append(
        self,
        path: NotePath,
        addition: Addition,
        *,
        head: str = "",
        force: bool = False,
        replaces: Sequence[str] = (),
    ) -> Done:
        """Append to a note, which is made if it is not there, beginning with `head`.

        Returns once it is on disk. What an editor overwrote without having seen it is put back before it. `force`
        writes even if an editor has the note open. `replaces` are earlier appends, by their ids in the journal, that
        this one puts back. Raises WriteRefused, FilesystemError; nothing is changed then.
        """
        self.refuse_instructions(path, for_agent=WRITES_FOR_AGENT.get())
        with self.lock(), folder_of(self._root, path, create=True) as folder:
            appending = Appending(
                self._root, folder, path, addition, head, self.journal, self._tails, force=force, replaces=replaces
            )
            return appending.done()

    # ------------------------------------------------------------------------------------------- swap

    def create(self, path: NotePath, text: str) -> Done:
        """Make a new note. Raises UsageError when there is one of that name, FilesystemError, WriteRefused."""
        self.refuse_instructions(path, for_agent=WRITES_FOR_AGENT.get())
        with self.lock(), folder_of(self._root, path, create=True) as folder:
            try:
                make(folder, path, text)
            except Replaced:
                raise UsageError(f"{path} is there already", hint="Name another, or edit that one.") from None
        return Done(path, 1)

    def rewrite(
        self,
        path: NotePath,
        edit: Callable[[str], str],
        *,
        adds: bool = False,
        force: bool = False,
        replaces: Sequence[str] = (),
    ) -> Done:
        """Swap a note for what `edit` makes of its text, if it is still what was read; else `edit` is asked again.

        The text is the file's own, line ends included; bytes that are no UTF-8 come and go as lone surrogates. `adds`
        says that the lines it gets are worth keeping in the journal, where they stand for what they replace. Raises
        FileNotFoundError, WriteRefused,
        FilesystemError, and what `edit` raises; nothing is changed then.
        """
        self.refuse_instructions(path, for_agent=WRITES_FOR_AGENT.get())
        with self.lock(), folder_of(self._root, path) as folder:
            if not force:
                refuse_open_in_editor(folder, path)
            old, new = "", ""

            def attempt() -> Done:
                nonlocal old, new
                done, old, new = self._rewrite(folder, path, edit)
                return done

            done = tried(path, attempt)
            with suppress(MemsyncError):
                self._settle_replaced(path, old, new)
                if adds and new != old:
                    self.journal.append(path, _new_lines(old, new), replaces=replaces)
            return done

    def _settle_replaced(self, path: NotePath, old: str, new: str) -> None:
        """Stop looking for what was appended once and has just been rewritten by ourselves."""
        appended = self.journal.since(0.0, path)
        gone = {one.id for one in missing(appended, old)}
        replaced = [one.id for one in missing(appended, new) if one.id not in gone]
        if replaced:
            self.journal.settle(replaced)

    def _rewrite(self, folder: int, path: NotePath, edit: Callable[[str], str]) -> tuple[Done, str, str]:
        """Swap the note for its new version; return both with what was done. Raises Replaced."""
        name = path.rpartition("/")[2]
        with note_file.opened(folder, path, name) as descriptor:
            found = os.fstat(descriptor)
            check_writable(path, found)
            content = note_file.read(descriptor, path)
        read_tail(path, content)  # refuses what must not be written
        old = content.decode("utf-8", "surrogateescape")
        new = edit(old)
        if new == old:
            return Done(path, 1), old, new
        if not note_file.swap(folder, path, name, content, new.encode("utf-8", "surrogateescape"), found):
            raise Replaced
        same = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        return Done(path, new.count("\n", 0, same) + 1), old, new


def _new_lines(old: str, new: str) -> str:
    """Return the lines in which a new version differs from the old one, without their ends."""
    before, after = split_lines(old), split_lines(new)
    first = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before))
    rest = zip(reversed(before[first:]), reversed(after[first:]), strict=False)
    same = next((i for i, (a, b) in enumerate(rest) if a != b), min(len(before), len(after)) - first)
    return "\n".join(after[first : len(after) - same]).strip("\n").encode("utf-8", "replace").decode()


def _busy(holder: str) -> WriteRefused:
    return WriteRefused(f"{holder} is writing to this memory root", hint="Try again in a moment.")
