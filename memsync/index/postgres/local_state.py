"""File names that the index needs and that must stay out of the database: only this machine has them.

Git's history names every file, and failures name files that could not be read, local-only ones included. So do the
stamps of the local-only notes. All are derived from the files, so losing them only costs reading them again. They are
in a small file in the index folder, under a token that the database has, too. So a file whose transaction was not
committed counts for nothing.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from memsync.index.postgres.kept_claim import write_kept
from memsync.model.status import IndexedFile
from memsync.model.vocabulary import NotePath

KEPT_KEYS = frozenset({"failures", "dates", "root"})
"""The values of `set_meta` that stay here: they name files, or describe this machine's folder."""
TOKEN_KEY = "local_state"  # noqa: S105 (because this token is not a password)
"""The key under which the database has the token of the state that belongs to it."""


class State(Struct, frozen=True, array_like=True):
    """Values by key, (blob name, seconds since 1970) of the last commit by path, and stamps of local-only notes."""

    meta: Mapping[str, str] = {}
    history: Mapping[NotePath, tuple[bytes, int]] = {}
    private: Mapping[NotePath, IndexedFile] = {}


EMPTY = State()


class LocalState:
    """The file of one index. It keeps the state before the last one, because that one may not be committed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity: tuple[int, int] | None = None
        self._states: dict[str, State] = {}

    def read(self, token: str) -> State:
        """Return the state with this token; an empty one if the file has none, or is lost or damaged."""
        return self._read().get(token, EMPTY) if token else EMPTY

    def write(self, before: str, state: State) -> str:
        """Store a state next to that with the token `before`, and return its token. Raises FilesystemError."""
        token = secrets.token_hex(8)
        kept = {before: self.read(before)} if before else {}
        self._store({**kept, token: state})
        return token

    def take_in(self, other: LocalState) -> None:
        """Add the states of another file: which of the two is current is not known yet. Raises FilesystemError."""
        self._store({**self._read(), **other._read()})

    def remove(self) -> None:
        """Delete the file."""
        with suppress(OSError):
            self._path.unlink()

    def _store(self, states: Mapping[str, State]) -> None:
        write_kept(self._path, states)

    def _read(self) -> dict[str, State]:
        try:
            known = os.stat(self._path)
            identity = (known.st_ino, known.st_mtime_ns)
            if identity != self._identity:
                self._states = msgspec.json.decode(self._path.read_bytes(), type=dict[str, State])
                self._identity = identity
        except (OSError, ValueError):  # lost or damaged: derived again
            self._states, self._identity = {}, None
        return self._states
