"""Conversations from files into threads, and threads as JSON Lines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from memsync.features.conversations.importing import Importer, ImportReport, export_lines
from memsync.features.conversations.read import read_conversations
from memsync.ports import Progress, no_progress
from memsync.workspace import Workspace


def import_file(memory: Workspace, path: str | os.PathLike[str], *, progress: Progress = no_progress) -> ImportReport:
    """Write the conversations of a file into threads; messages that are there already are left as they are.

    The file is memsync's own JSON Lines (docs/conversations.md), or an export of ChatGPT or Claude. `wrong` in the
    report names what could not be used. The daemon or the next sync indexes the new threads. Raises UsageError.
    """
    return Importer(memory).write(read_conversations(Path(path), progress))


def exported(memory: Workspace, threads: Sequence[str] = ()) -> Iterator[str]:
    """Yield threads, named by path or name, or all of them, as JSON Lines. Raises NoThread."""
    if threads:
        paths = [memory.existing_thread(name) for name in threads]
    else:
        with memory.as_of_now() as (reader, _):
            paths = [thread.path for thread in reader.threads()]
    for path in paths:
        note = memory.editor.read(path)
        if note is not None:
            yield from export_lines(note)
