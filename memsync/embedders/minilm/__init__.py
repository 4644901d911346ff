"""The built-in model: all-MiniLM-L6-v2 in int8, in this folder, with its tokenizer. See PROVENANCE.md.

It needs no download, no account and no network.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memsync.embedders.fastembed import FastembedEmbedder
from memsync.errors import EmbedderError
from memsync.model import EmbeddingSpace

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FOLDER = Path(__file__).parent
MAX_TOKENS = 254
"""Word pieces the model reads of one text, its two special tokens not counted."""

MAX_RECENT_TEXTS = 4_000
MAX_RECENT_CHARS = 2_000

SPACE = EmbeddingSpace(provider="minilm", model="all-MiniLM-L6-v2", revision="int8-587422eb2fbb", dimension=384)
"""`revision` is the beginning of model.onnx's SHA-256."""


def load(threads: int) -> FastembedEmbedder:
    """Return the built-in embedder; the model itself is loaded at its first use."""
    if not (FOLDER / "model.onnx").is_file():
        raise EmbedderError(
            f"the built-in model is missing from {FOLDER}", hint="Reinstall memsync, or run tools/build_minilm.py."
        )
    return FastembedEmbedder(
        SPACE, "sentence-transformers/all-MiniLM-L6-v2", threads=threads, folder=FOLDER, max_tokens=MAX_TOKENS
    )


class WordPieceCounter:
    """Counts word pieces with the built-in model's tokenizer; the tokenizer is loaded at its first use.

    Counts of recent texts are kept: an edited note is mostly paragraphs that were counted before.
    """

    def __init__(self) -> None:
        self._tokenizer: Tokenizer | None = None
        self._lock = threading.Lock()
        self._recent: dict[str, int] = {}

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of word pieces of each text, special tokens not counted."""
        recent = self._recent
        new = [text for text in dict.fromkeys(texts) if text not in recent]
        counts: dict[str, int] = {}
        if new:
            encodings = self._load().encode_batch_fast(new, add_special_tokens=False)
            counts = {text: len(encoding) for text, encoding in zip(new, encodings, strict=True)}
        result = [counts[text] if text in counts else recent[text] for text in texts]
        kept = {text: count for text, count in counts.items() if len(text) <= MAX_RECENT_CHARS}
        self._recent = {**recent, **kept} if len(recent) < MAX_RECENT_TEXTS else kept
        return result

    def _load(self) -> Tokenizer:
        with self._lock:
            if self._tokenizer is None:
                from tokenizers import Tokenizer

                self._tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
                self._tokenizer.no_truncation()
            return self._tokenizer
