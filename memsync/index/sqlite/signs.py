"""The vectors of a large index by the signs of their components, one bit each, in memory.

vec0 reads every vector for each question, which takes 1 µs a passage. The signs of 100,000 passages are compared in 2
ms, and exact cosines then rank the best of them. Measured on 103,160 vectors, some of them mixtures of others: the
4,000 with the most equal signs have 0.996 of the nearest 10, and 0.95 of the nearest 250.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

LEAST_CHUNKS = 30
"""vec0 searches a table with fewer chunks, of 1,024 vectors each, in the time that this takes."""
LEAST_CHOSEN, CHOSEN_SHARE = 4_000, 0.025
"""How many vectors are ranked exactly, at least, and as a share of all."""


class Signs(NamedTuple):
    """The passages of a space, and a row with the signs of each vector in words of 64 bits."""

    passages: NDArray[np.int64]
    signs: NDArray[np.uint64]

    @classmethod
    def of(cls, chunks: Iterable[tuple[bytes, bytes, bytes]]) -> Signs:
        """Read (bits of the used slots, passages, int8 vectors) of each chunk of vec0."""
        import numpy as np

        passages, signs = [], []
        for validity, rowids, vectors in chunks:
            used = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little").astype(bool)
            passages.append(np.frombuffer(rowids, "<i8")[used])
            signs.append(_signs(np.frombuffer(vectors, np.int8).reshape(len(used), -1)[used]))
        return cls(np.concatenate(passages), np.concatenate(signs))

    def nearest(self, vector: bytes) -> list[int]:
        """Return the passages whose vectors have the most signs of an int8 vector, in no order."""
        import numpy as np

        count = max(LEAST_CHOSEN, int(len(self.passages) * CHOSEN_SHARE))
        if count >= len(self.passages):
            return [int(passage) for passage in self.passages]
        unlike = np.bitwise_count(self.signs ^ _signs(np.frombuffer(vector, np.int8)[None])).sum(
            axis=1, dtype=np.uint16
        )
        chosen: list[int] = self.passages[np.argpartition(unlike, count)[:count]].tolist()
        return chosen


def _signs(vectors: NDArray[np.int8]) -> NDArray[np.uint64]:
    import numpy as np

    bits = np.packbits(vectors > 0, axis=1)
    return np.pad(bits, ((0, 0), (0, -bits.shape[1] % 8))).view(np.uint64)


class SignsCache:
    """The signs of one space in one state of an index: a write makes them be read anew, as vec0 does for a question."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state: tuple[int, ...] = ()
        self._signs: Signs | None = None

    def of(self, state: tuple[int, ...], chunks: Iterable[tuple[bytes, bytes, bytes]]) -> Signs:
        """Return the signs in a state, which the file, the generation and the space name; read them if it is new."""
        with self._lock:
            if self._signs is None or state != self._state:
                self._state, self._signs = state, Signs.of(chunks)
            return self._signs
