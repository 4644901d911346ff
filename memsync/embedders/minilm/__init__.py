"""The built-in model: all-MiniLM-L6-v2 in int8, in this folder, with its tokenizer. See PROVENANCE.md.

It needs no download, no account and no network. Its files are used only if they are the published ones to the byte:
a damaged model goes on giving vectors, which are wrong, and a damaged tokenizer cuts notes elsewhere.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memsync.embedders.fastembed import FastembedEmbedder
from memsync.embedders.minilm.digests import SHA256
from memsync.errors import EmbedderError
from memsync.model import EmbeddingSpace

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FOLDER = Path(__file__).parent
MODEL, TOKENIZER = "model.onnx", "tokenizer.json"
MAX_TOKENS = 254
"""Word pieces the model reads of one text, its two special tokens not counted."""

MAX_RECENT_TEXTS = 4_000
MAX_RECENT_CHARS = 2_000
REINSTALL = "Reinstall memsync; in a clone of its repository, run: git restore memsync/embedders/minilm"

SPACE = EmbeddingSpace(
    provider="minilm", model="all-MiniLM-L6-v2", revision=f"int8-{SHA256[MODEL][:12]}", dimension=384
)


def load(threads: int) -> FastembedEmbedder:
    """Return the built-in embedder; the model itself is checked and loaded at its first use."""
    if not (FOLDER / MODEL).is_file():
        raise EmbedderError(f"the built-in model is missing from {FOLDER}", hint=REINSTALL)
    return FastembedEmbedder(
        SPACE,
        "sentence-transformers/all-MiniLM-L6-v2",
        threads=threads,
        folder=FOLDER,
        max_tokens=MAX_TOKENS,
        check=check_files,
    )


def check_files() -> list[str]:
    """Return the names of the model's files after comparing each with its SHA-256. Raises EmbedderError."""
    for name in SHA256:
        _read_file(name)
    return list(SHA256)


def _read_file(name: str) -> bytes:
    """Return the content of one of the model's files, as it was published. Raises EmbedderError for any other."""
    path = FOLDER / name
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EmbedderError(f"the built-in model's {path} cannot be read: {error.strerror}", hint=REINSTALL) from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != SHA256[name]:
        difference = f"its SHA-256 begins with {digest[:12]} and not with {SHA256[name][:12]}"
        raise EmbedderError(f"the built-in model's {path} is damaged: {difference}", hint=REINSTALL)
    return content


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
        from tokenizers import Tokenizer

        with self._lock:
            if self._tokenizer is None:
                tokenizer = Tokenizer.from_str(_read_file(TOKENIZER).decode())
                tokenizer.no_truncation()
                self._tokenizer = tokenizer
            return self._tokenizer
