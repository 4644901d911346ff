"""Write an index with SQL: what the writers of every backend do in the same way."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from memsync.errors import EmbedderError
from memsync.index.reading import SqlReader
from memsync.index.vectors import usable
from memsync.model.query import EmbeddingSpace
from memsync.model.status import PendingPassage

if TYPE_CHECKING:
    from memsync.index.vectors import Vector


class SqlWriter(SqlReader):
    """The writing half of the Index port, over one connection in a transaction."""

    quiet = False
    """True if this transaction wrote nothing that a reader may have cached."""
    notes_changed = False
    """True if this transaction changed more than vectors."""

    # ------------------------------------------------------------------------------ what a backend must say

    @abstractmethod
    def _put_meta(self, key: str, value: str) -> None:
        """Store a small value under a key."""

    @abstractmethod
    def _add_space(self, space: EmbeddingSpace, state: str) -> int:
        """Insert a space and return its number."""

    @abstractmethod
    def _queue_all(self, number: int) -> None:
        """Queue every passage that may have a vector in a new space."""

    @abstractmethod
    def _activate(self, space: EmbeddingSpace) -> None:
        """Make `space` the active one."""

    @abstractmethod
    def _remove_space(self, number: int) -> None:
        """Delete a space with its vectors and its queue."""

    @abstractmethod
    def _put_values(self, number: int, values: Mapping[tuple[int, bytes], bytes]) -> int:
        """Give waiting passages their vectors by (id, hash), take them off the queue, and return how many these were.

        It compares hashes, because a new passage may have the id of a deleted one and wait for a different vector.
        """

    # ------------------------------------------------------------------------------------------ common

    def finish(self) -> None:
        """Raise the generation, so that readers notice the change; a quiet transaction leaves it as it is."""
        if self.quiet:
            return
        generation = str(self.generation() + 1)
        self._put_meta("generation", generation)
        if self.notes_changed:
            self._put_meta("notes_generation", generation)

    def set_last_sync(self, moment: str) -> None:
        """Store when the files were last compared. The generation stays the same if no note was changed before."""
        self.quiet = not self.notes_changed
        self._put_meta("last_sync", moment)

    def set_meta(self, key: str, value: str, *, quiet: bool = False) -> None:
        """Store a small value under a key. With `quiet` the generation stays the same if nothing else is written."""
        self.quiet, self.notes_changed = quiet, not quiet
        self._put_meta(key, value)

    def prepare_space(self, space: EmbeddingSpace) -> None:
        """Begin to build `space` unless it is there."""
        if self._space("building") != space:
            self._remove_any("building")
        if space not in (self._space("active"), self._space("building")):
            self._queue_all(self._add_space(space, "building" if self._space_row("active") else "active"))

    def activate_complete_space(self, space: EmbeddingSpace) -> bool:
        """Make `space` the active one if no passage waits in it, and delete the old one."""
        if self._space("active") == space:
            return True
        if self.pending(space):
            return False
        self._remove_any("active")
        self._activate(space)
        return True

    def put_vectors(
        self, space: EmbeddingSpace, vectors: Sequence[tuple[PendingPassage, Vector]]
    ) -> list[EmbedderError]:
        """Store computed vectors of passages that wait for them; return an error for each unusable vector."""
        number = self._space_number(space)
        if number is None:  # another process has rebuilt the index meanwhile; the next sync computes the vectors
            return []
        values, unusable = usable(vectors, space.dimension)
        self._put_values(number, values)
        return unusable

    def put_known_vectors(self, space: EmbeddingSpace, vectors: Sequence[tuple[int, bytes, bytes]]) -> int:
        """Store (passage id, hash, float16 vector) for passages that wait for one; return how many these were."""
        number = self._space_number(space)
        if number is None:
            return 0
        return self._put_values(number, {(passage_id, digest): value for passage_id, digest, value in vectors})

    def _remove_any(self, state: str) -> None:
        if space := self._space_row(state):
            self._remove_space(space[0])

    def _note_removal(self) -> None:
        self._put_meta("last_removal", str(self.generation() + 1))
