"""Conversations into a memory from files, and out of it again: what only a memory in this process does."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memsync.ports import Progress

if TYPE_CHECKING:
    from memsync.acts import Acts
    from memsync.writing.importing import ImportReport


class Exchange(ABC):
    """The part of Memory that reads and writes files of conversations."""

    @property
    @abstractmethod
    def acts(self) -> Acts:
        """What does the work."""

    def import_file(self, path: str | os.PathLike[str], *, progress: Progress | None = None) -> ImportReport:
        """Write the conversations of a file into threads; what is there already is left as it is.

        The file is memsync's own JSON Lines (docs/conversations.md), or an export of ChatGPT or Claude. What cannot be
        used is in `wrong`. The new threads are indexed by the daemon or the next sync. Raises UsageError.
        """
        from memsync.conversations.read import read_conversations

        return self.acts.importer.write(read_conversations(Path(path), progress))

    def export_lines(self, threads: Sequence[str] = ()) -> Iterator[str]:
        """Yield threads, named by path or name, or all of them, as JSON Lines: what `import_file` reads."""
        return self.acts.export(threads)
