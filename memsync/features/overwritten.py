"""Find entries that memsync appended and an editor overwrote; append them again or forget them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from memsync.edit.append import Done
from memsync.edit.journal import Appended, edited, missing
from memsync.edit.markdown import as_it_was
from memsync.edit.set_fields import head_of
from memsync.edit.titles import title_of
from memsync.errors import UsageError
from memsync.model.vocabulary import Kind, NotePath
from memsync.model.written import Overwritten, Written
from memsync.notes.git_files import checked_out
from memsync.notes.rules import ARCHIVE_FOLDER, PREFERENCES
from memsync.operation import operation
from memsync.system import clock

if TYPE_CHECKING:
    from memsync.workspace import Workspace

MAX_DAYS = 36_500

Ids = Annotated[tuple[str, ...], Meta(description="The ids of the entries.")]


@operation()
def overwritten(
    memory: Workspace, *, days: Annotated[int, Meta(ge=0, le=MAX_DAYS, description="How many days to look back.")] = 30
) -> tuple[Overwritten, ...]:
    """Return the entries that were appended within the last days and are no longer in their notes, oldest first.

    `similar` marks entries that may have been edited, `note_deleted` those whose note is gone, `other_branch` those
    that were appended while git had another branch checked out.
    """
    return tuple(entry for _, entry in _lost(memory, days))


@operation(writes=True)
def recover(memory: Workspace, ids: Ids) -> tuple[Written, ...]:
    """Append overwritten entries again, in their original order; a deleted note is made again with its heading."""
    return tuple(_recover(memory, entry) for entry in _named(memory, ids))


@operation(writes=True)
def dismiss(memory: Workspace, ids: Ids) -> int:
    """Forget overwritten entries that were deleted on purpose; return how many."""
    entries = _named(memory, ids)
    with memory.writer.lock():
        memory.writer.journal.settle([entry.id for entry in entries])
    return len(entries)


def _lost(memory: Workspace, days: int) -> list[tuple[Appended, Overwritten]]:
    """Return the entries of the last days that are not in their notes, in the order they were appended."""
    memory.writer.check_root()  # in another folder, all entries are missing
    since = clock.file_seconds() - days * 86_400  # as the journal counts: it compares appends with files
    pairs = []
    branch = checked_out(memory.files.root)
    for path, entries in memory.writer.journal.by_path().items():
        if all(entry.at < since for entry in entries):
            continue
        text = _text_of(memory, path)
        lost = missing(entries, text or "")
        changed = edited(entries, lost, text or "")
        if path == PREFERENCES:  # another value of the same key is newer, however it is worded
            keys = {line.partition(":")[0] for line in (text or "").split("\n") if line.startswith("- ")}
            changed |= {entry.id for entry in lost if entry.entry.partition(":")[0] in keys}
        for entry in lost:
            moment = datetime.fromtimestamp(entry.at, UTC).isoformat(timespec="seconds")
            other = entry.branch if branch and entry.branch != branch else ""
            shown = Overwritten(entry.id, path, moment, entry.text, entry.id in changed, text is None, other)
            if entry.at >= since:
                pairs.append((entry, shown))
    return sorted(pairs, key=lambda pair: (pair[0].at, pair[0].id))


def _text_of(memory: Workspace, path: NotePath) -> str | None:
    """Return the text of a note and of its archived versions; None when there is neither."""
    archived = (*memory.archive.retired_to(path), NotePath(f"{ARCHIVE_FOLDER}{path}"))
    notes = [note for place in dict.fromkeys((path, *archived)) if (note := memory.editor.read(place)) is not None]
    return "\n".join(line for note in notes for line in note.lines) if notes else None


def _recover(memory: Workspace, entry: Appended) -> Written:
    """Append an entry again; until that has succeeded, the journal counts it as lost."""
    head = entry.head
    if not head:  # the journal does not know the head of every deleted note
        title = title_of(entry.path)
        is_thread = memory.reader.rules.kind(entry.path) is Kind.THREAD
        head = head_of({"title": title, "status": "active"}) if is_thread else f"# {title}\n"

    def append() -> Done:
        if entry.id not in {lost.id for lost in memory.writer.journal.since(0.0, entry.path)}:
            # Another append, perhaps by another process, has put it back by now.
            return Done(entry.path, _last_line_of(memory, entry))
        if entry.heading:
            item = as_it_was(entry.entry)
            return memory.editor.add_to_section(entry.path, entry.heading, item, head, replaces=[entry.id])
        return memory.writer.append(entry.path, as_it_was(entry.text), head=head, replaces=[entry.id])

    return memory.write("recover", entry.entry, append)


def _last_line_of(memory: Workspace, entry: Appended) -> int:
    """Return the last line on which the entry begins, or the note's last line if the entry is not there."""
    note, first = memory.editor.read(entry.path), entry.entry.partition("\n")[0]
    lines = note.lines if note else ()
    return max((number for number, line in enumerate(lines, 1) if line == first), default=len(lines) or 1)


def _named(memory: Workspace, ids: Sequence[str]) -> list[Appended]:
    """Return the lost entries with these ids, each once, in the order they were appended. Raises UsageError."""
    lost = [entry for entry, _ in _lost(memory, MAX_DAYS)]
    unknown = set(ids).difference(entry.id for entry in lost)
    if unknown:
        raise UsageError(f"no overwritten entry has the id {min(unknown)}", hint="See: memsync recover")
    return [entry for entry in lost if entry.id in ids]
