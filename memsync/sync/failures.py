"""Files that could not be indexed, remembered with the state they failed in, so that each is tried once a state."""

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
    """A file, why it failed, what `stat` said of it then, and what tried to parse it."""

    path: NotePath
    reason: str
    identity: Identity
    parsed_by: str

    @property
    def failure(self) -> Failure:
        """What the user is told."""
        return Failure(self.path, self.reason)


def read_failures(reader: IndexReader) -> dict[NotePath, FailedFile]:
    """Return the failures of earlier syncs by path."""
    rows = json.loads(reader.meta(_KEY) or "[]")
    failed = (FailedFile(NotePath(path), reason, tuple(identity), by) for path, reason, identity, by in rows)
    return {one.path: one for one in failed}


def write_failures(writer: IndexWriter, failures: Iterable[FailedFile]) -> None:
    """Replace what is remembered."""
    rows = sorted((one.path, one.reason, one.identity, one.parsed_by) for one in failures)
    writer.set_meta(_KEY, json.dumps(rows))
