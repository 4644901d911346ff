"""Writes notes in one of two ways: append in one write, or replace the whole file by a new version.

Both hold one lock for all writers of a memory root; the lock file is outside of the root. Editors and git ignore the
lock, so both also check the file itself: an append never rewrites existing text, and a replacement is undone if the
file changed after it was read.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from memsync.edit import note_file
from memsync.edit.addition import Addition
from memsync.edit.append import Appending, Done, KnownEnds, Replaced, make, tried
from memsync.edit.journal import Journal, missing
from memsync.edit.note_end import read_end
from memsync.edit.note_paths import check_writable, folder_of, numbered
from memsync.edit.run_records import RunRecords
from memsync.errors import MemsyncError, UsageError, WriteRefused
from memsync.model.text import whole_characters
from memsync.model.vocabulary import NotePath
from memsync.notes.decode import split_lines
from memsync.notes.git_files import checked_out
from memsync.notes.rules import THREADS_FOLDER, PathRules
from memsync.ports import WRITES_FOR_AGENT
from memsync.system.file_lock import file_lock
from memsync.system.state_file import StateFile

WAIT_SECONDS = 30.0
POLL_SECONDS = 0.0005


class NoteWriter:
    """Writes notes under one memory root; `state` has its journal, `rules` decide which notes instruct agents.

    `check_root` raises RootError if another folder has taken the root's place: then nothing is written.
    """

    def __init__(
        self,
        root: Path,
        state: StateFile,
        rules: PathRules | None = None,
        check_root: Callable[[], None] = lambda: None,
    ) -> None:
        self.check_root = check_root
        self._rules = rules or PathRules({}, {})
        self.state = state
        self.journal = Journal(self.state, lambda: checked_out(root))
        self.ends = KnownEnds(state)
        self.runs = RunRecords(state)
        self._root = root
        self._holder: int | None = None

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the writers' lock; a thread may nest it. Raises WriteRefused if it is not free, RootError."""
        if self._holder == threading.get_ident():
            yield
            return
        with file_lock(self.state.path.with_name("write.lock"), WAIT_SECONDS, _busy, poll_seconds=POLL_SECONDS):
            self.check_root()
            self._holder = threading.get_ident()
            try:
                yield
            finally:
                self._holder = None

    def refuse_instructions(self, path: NotePath, *, for_agent: bool | str = True) -> None:
        """Raise WriteRefused if an agent or a conversation would write to a note that instructs agents."""
        if for_agent and self._rules.instructs(path):
            raise WriteRefused(f"{path} contains agent instructions", hint="Only a person may edit it, in an editor.")

    def refuse_to_publish(self, source: NotePath, target: NotePath) -> None:
        """Raise WriteRefused if a note that would have the name `source` would no longer be local-only as `target`."""
        if self._rules.is_local_only(source) and not self._rules.is_local_only(target):
            hint = f"Add a pattern that matches {target} to [privacy] local_only."
            raise WriteRefused(f"{source} is local-only, and {target} would not be", hint=hint)

    def free_thread_path(self, slug: str) -> NotePath:
        """Return the first unused path in threads/: the slug or, if a thread may not have that name, `thread-` and it.

        A number makes it unused. Raises WriteRefused if it would not be local-only as it is without the number.
        """
        first, other = (NotePath(f"{THREADS_FOLDER}{name}.md") for name in (slug, f"thread-{slug}"))
        names = numbered(other if self._rules.refuses_import(first) else first)
        path = next(path for path in names if not os.path.lexists(self._root / path))
        self.refuse_to_publish(first, path)
        return path

    def append(self, path: NotePath, addition: Addition, *, head: str = "", replaces: Sequence[str] = ()) -> Done:
        """Append to a note and wait for the disk. A missing note is created and begins with `head`.

        Also restores recent appends that an editor overwrote without having read them. `replaces` holds the journal ids
        of earlier appends that this one restores. Raises WriteRefused, FilesystemError; nothing is changed then.
        """
        self.refuse_instructions(path, for_agent=WRITES_FOR_AGENT.get())
        with self.lock(), folder_of(self._root, path, create=True) as folder:
            return Appending(self._root, folder, path, addition, head, self.journal, self.ends, replaces).done()

    def create(self, path: NotePath, text: str) -> Done:
        """Create a note. Raises UsageError if it exists, FilesystemError, WriteRefused."""
        self.refuse_instructions(path, for_agent=WRITES_FOR_AGENT.get())
        with self.lock(), folder_of(self._root, path, create=True) as folder:
            try:
                make(folder, path, text.encode())
            except Replaced:
                raise UsageError(f"{path} already exists", hint="Choose another name, or edit that note.") from None
        return Done(path, 1)

    def rewrite(
        self, path: NotePath, edit: Callable[[str], str], *, adds: bool = False, replaces: Sequence[str] = ()
    ) -> Done:
        """Replace a note's text by `edit(text)`. If the note changes meanwhile, read it and call `edit` again.

        The text has the file's own line ends, and lone surrogates for bytes that are not UTF-8. `adds`: record the new
        lines in the journal, in place of the appends with the ids in `replaces`. Raises FileNotFoundError,
        WriteRefused, FilesystemError and the errors of `edit`; nothing is changed then.
        """
        self.refuse_instructions(path, for_agent=WRITES_FOR_AGENT.get())
        with self.lock(), folder_of(self._root, path) as folder:
            done, old, new = tried(path, lambda: self._rewrite(folder, path, edit))
            with suppress(MemsyncError):
                # Settle the appends that this rewrite has removed, so that nothing restores them.
                appended = self.journal.since(0.0, path)
                missing_before = {entry.id for entry in missing(appended, old)}
                removed = [entry.id for entry in missing(appended, new) if entry.id not in missing_before]
                if removed:
                    self.journal.settle(removed)
                if adds and new != old:
                    self.journal.append(path, _new_lines(old, new), replaces=replaces)
            return done

    def _rewrite(self, folder: int, path: NotePath, edit: Callable[[str], str]) -> tuple[Done, str, str]:
        """Replace the note by its new version; return the result, the old and the new text. Raises Replaced."""
        with note_file.opened(folder, path, path.rpartition("/")[2]) as descriptor:
            status = os.fstat(descriptor)
            check_writable(path, status)
            content = note_file.read(descriptor, path)
        read_end(path, content)  # raises WriteRefused for binary files and conflict markers
        old = content.decode("utf-8", "surrogateescape")
        new = edit(old)
        if new == old:
            return Done(path, 1), old, new
        encoded = new.encode("utf-8", "surrogateescape")
        note_file.check_size(path, encoded)
        if not note_file.swap(folder, path, content, encoded, status):
            raise Replaced
        shorter = min(len(old), len(new))
        changed_at = bisect_left(range(shorter), True, key=lambda at: old[: at + 1] != new[: at + 1])
        return Done(path, new.count("\n", 0, changed_at) + 1), old, new


def _new_lines(old: str, new: str) -> str:
    """Return the lines between the common beginning and the common end of two versions, as the new one has them."""
    before, after = split_lines(old), split_lines(new)
    first = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before))
    from_end = zip(reversed(before[first:]), reversed(after[first:]), strict=False)
    same_at_end = next((i for i, (a, b) in enumerate(from_end) if a != b), min(len(before), len(after)) - first)
    return whole_characters("\n".join(after[first : len(after) - same_at_end]).strip("\n"))


def _busy(holder: str) -> WriteRefused:
    return WriteRefused(f"{holder} is writing to this memory root", hint="Try again in a moment.")
