"""Remembers files that could not be indexed and their state then, so that a file is retried only after it changes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from memsync.model.status import Failure
from memsync.model.vocabulary import NotePath
from memsync.notes.files import Identity
from memsync.ports import IndexReader, IndexWriter

_KEY = "failures"


@dataclass(frozen=True, slots=True)
class FailedFile:
    """A file that could not be indexed: the reason, its `stat` identity then, and the parser's version and settings."""

    path: NotePath
    reason: str
    identity: Identity
    parsed_by: str

    @property
    def failure(self) -> Failure:
        """The failure as shown to the user."""
        return Failure(self.path, self.reason)


def read_failures(reader: IndexReader) -> dict[NotePath, FailedFile]:
    """Return the failures of earlier syncs by path."""
    rows = json.loads(reader.meta(_KEY) or "[]")
    failed = (FailedFile(NotePath(path), reason, tuple(identity), by) for path, reason, identity, by in rows)
    return {file.path: file for file in failed}


def write_failures(writer: IndexWriter, failures: Iterable[FailedFile]) -> None:
    """Replace the stored failures."""
    rows = sorted((file.path, file.reason, file.identity, file.parsed_by) for file in failures)
    writer.set_meta(_KEY, json.dumps(rows))
