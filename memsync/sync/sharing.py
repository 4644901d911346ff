"""Exchanges vectors between an index and the user's vector cache.

The cache is read before the model computes, and gets new vectors before the index does. Cache and index have separate
transactions, so that a process that waits for the index never waits for the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memsync.model.query import EmbeddingSpace
from memsync.ports import Index, Progress, VectorCache

if TYPE_CHECKING:
    from memsync.ports import Vector

REQUEST_SIZE = 1_000
"""Number of passages or vectors in one request to the cache."""
SHARED_WITH = "shared_with"
"""Key in the index for the identity of the cache that already has its vectors."""


@dataclass(eq=False)
class Sharing:
    """Exchanges vectors between one index and the cache; `cache` may be None.

    `pause` is called before each step; it may wait, or raise to end the work. With `is_anew` all vectors are computed
    again, so `take` does nothing, and `fill` replaces cached vectors.
    """

    index: Index
    cache: VectorCache | None
    pause: Callable[[], None] = lambda: None
    is_anew: bool = False

    def take(self, space: EmbeddingSpace, progress: Progress | None = None) -> int:
        """Copy cached vectors to the passages that have none in `space`; return how many got one."""
        if self.cache is None or self.is_anew:
            return 0
        taken = looked_up = last_id = 0
        with self.index.reading() as reader:
            total = reader.pending(space)
        while looked_up < total:
            self.pause()
            with self.index.reading() as reader:
                waiting = reader.pending_hashes(space, last_id, REQUEST_SIZE)
            if not waiting:
                break
            known = self.cache.get(space, [digest for _, digest in waiting])
            if known:
                vectors = [(passage, digest, known[digest]) for passage, digest in waiting if digest in known]
                with self.index.writing() as writer:
                    taken += writer.put_known_vectors(space, vectors)
            looked_up, last_id = looked_up + len(waiting), waiting[-1][0]
            if progress is not None and taken:
                progress("reusing vectors", min(looked_up, total), total)
        return taken

    def lacks_at_most(self, few: int, space: EmbeddingSpace) -> bool:
        """Tell whether the cache has the vectors of the passages that have none in `space`, except for a few."""
        lacking = last_id = 0
        while self.cache is not None and lacking <= few:
            with self.index.reading() as reader:
                waiting = reader.pending_hashes(space, last_id, REQUEST_SIZE)
            if not waiting:
                return last_id > 0
            lacking += len(waiting) - len(self.cache.get(space, [digest for _, digest in waiting]))
            last_id = waiting[-1][0]
        return False

    def put(self, space: EmbeddingSpace, vectors: Sequence[tuple[bytes, Vector]]) -> None:
        """Store computed vectors by content hash in the cache."""
        if self.cache is not None and not self.cache.put(space, vectors):
            remember(self.index, SHARED_WITH, "", quiet=True)  # so that the next `fill` puts all vectors again

    def fill(self) -> None:
        """Put all vectors of the index into the cache unless it has them already; then trim the cache."""
        if self.cache is None:
            return
        identity = self.cache.identity()
        with self.index.reading() as reader:
            is_done = not identity or reader.meta(SHARED_WITH) == identity
            spaces = [] if is_done else reader.spaces()
        if not is_done and all(self._put_all(space) for space in spaces):
            remember(self.index, SHARED_WITH, identity, quiet=True)
        self.cache.trim()

    def _put_all(self, space: EmbeddingSpace) -> bool:
        assert self.cache is not None
        after = b""
        while True:
            self.pause()
            with self.index.reading() as reader:
                vectors = reader.vectors(space, after, REQUEST_SIZE)
            if not vectors:
                return True
            # Cached vectors have a checksum and those of the index have none, so a damaged one must not replace them.
            cached = {} if self.is_anew else self.cache.get(space, [digest for digest, _ in vectors])
            if not self.cache.put(space, [each for each in vectors if each[0] not in cached]):
                return False
            after = vectors[-1][0]


def remember(index: Index, key: str, value: str, *, quiet: bool = False) -> None:
    """Store a small value in the index unless it has this value already; `quiet` as in IndexWriter.set_meta."""
    with index.reading() as reader:
        known = reader.meta(key)
    if known != value:
        with index.writing() as writer:
            writer.set_meta(key, value, quiet=quiet)
