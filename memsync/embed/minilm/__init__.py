"""The built-in model: all-MiniLM-L6-v2 in int8, in this folder, with its tokenizer. See PROVENANCE.md.

It needs no download, no account and no network. Its files are used only if they are the published ones to the byte:
a damaged model goes on giving vectors, which are wrong, and a damaged tokenizer cuts notes elsewhere.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memsync.embed.fastembed import FastembedEmbedder
from memsync.embed.minilm.digests import SHA256
from memsync.errors import EmbedderError
from memsync.model.query import EmbeddingSpace

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FOLDER = Path(__file__).parent
MODEL, TOKENIZER = "model.onnx", "tokenizer.json"
MAX_TOKENS = 254
"""Word pieces the model reads of one text, its two special tokens not counted."""

MAX_WORDS = 50_000
"""Words whose counts are kept: those of a large vault; 5 MB."""
MAX_WORD_CHARS = 40
WORDS_AT_ONCE = 2_000
_ASCII_WORD = re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9 \t\r\n]")
_SPACES = re.compile(r"[ \t\r\n]+")
_INDIVISIBLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\[(?:PAD|UNK|CLS|SEP|MASK)\]")
REINSTALL = "Reinstall memsync; in a clone of its repository, run: git restore memsync/embed/minilm"

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

    A text's pieces are those of its words, and most words come again and again: only new ones go to the tokenizer, and
    what a word costs is kept. That takes a tenth of the time that the tokenizer takes for whole texts.
    """

    def __init__(self) -> None:
        self._tokenizer: Tokenizer | None = None
        self._lock = threading.Lock()
        self._known: dict[str, int] = {}

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of word pieces of each text, special tokens not counted."""
        words = [_words(text) for text in texts]
        known = self._known  # to which other threads add, too; nobody takes anything from it
        new = list({word for own in words for word in own if word not in known})
        long: dict[str, int] = {}
        for start in range(0, len(new), WORDS_AT_ONCE):
            some = new[start : start + WORDS_AT_ONCE]
            for word, encoding in zip(
                some, self._load().encode_batch_fast(some, add_special_tokens=False), strict=True
            ):
                (known if len(word) <= MAX_WORD_CHARS else long)[word] = len(encoding)
        if len(known) > MAX_WORDS:
            self._known = {}
        if not long:
            return [sum(map(known.__getitem__, own)) for own in words]
        return [sum(long[word] if word in long else known[word] for word in own) for own in words]

    def _load(self) -> Tokenizer:
        from tokenizers import Tokenizer

        with self._lock:
            if self._tokenizer is None:
                tokenizer = Tokenizer.from_str(_read_file(TOKENIZER).decode())
                tokenizer.no_truncation()
                self._tokenizer = tokenizer
            return self._tokenizer


def _words(text: str) -> list[str]:
    """Return parts of a text whose word pieces are, together, those of the text.

    The tokenizer cuts at spaces and at each punctuation mark, and looks at nothing beyond. Where it does more (it knows
    its special tokens, and drops control characters, which joins what they part) the text is one part.
    """
    if _INDIVISIBLE.search(text):
        return [text]
    if text.isascii():
        return _ASCII_WORD.findall(text)
    words: list[str] = []
    for part in _SPACES.split(text):
        words += _ASCII_WORD.findall(part) if part.isascii() else (part,)
    return words
