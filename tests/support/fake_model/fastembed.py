"""Stands in for fastembed in processes that tests start: whoever puts this folder on PYTHONPATH loads no model.

A vector is a function of the words of a text. What a test shows of meaning needs the real model.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np


class TextEmbedding:
    """A model of the built-in one's dimension."""

    model = None

    def __init__(self, name: str, **options: object) -> None:
        """Load nothing."""

    def passage_embed(self, texts: Sequence[str]) -> Iterator[Any]:
        for text in texts:
            vector = np.full(384, 0.01, dtype=np.float32)
            for word in text.lower().split():
                vector[zlib.crc32(word.encode()) % 384] += 1.0
            yield vector

    query_embed = passage_embed
