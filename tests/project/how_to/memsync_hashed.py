"""A model of another package, for `[embedder] model = "hashed:256"`: how often each hashed word is in a text."""

import zlib
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from memsync.model.query import EmbeddingSpace


class HashedWords:
    """An Embedder (memsync/ports.py). Local-only notes reach it, because its provider begins with `local:`."""

    def __init__(self, name: str) -> None:
        self.space = EmbeddingSpace("local:hashed", name, "1", int(name.partition(":")[2]))

    def embed_passages(
        self, texts: Sequence[str], pause: Callable[[], None] = lambda: None
    ) -> list[NDArray[np.float32]]:
        """Return a vector for each text; `pause` would let searches go first."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a question, of unit length."""
        vector = np.zeros(self.space.dimension, np.float32)
        for word in text.lower().split() or [text]:
            vector[zlib.crc32(word.encode()) % self.space.dimension] += 1
        return vector / np.float32(np.linalg.norm(vector))

    def unload(self) -> None:
        """Free the memory of the model: there is none."""

    close = unload
