"""The built-in model: all-MiniLM-L6-v2 in int8, in this folder, with its tokenizer. See PROVENANCE.md.

It needs no download, account or network. memsync checks the SHA-256 of its files: a damaged model would still return
vectors, but wrong ones, and a damaged tokenizer would cut notes in other places.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memsync.embed.fastembed import FastembedEmbedder, checked_content
from memsync.embed.minilm.digests import SHA256
from memsync.errors import EmbedderError
from memsync.model.query import EmbeddingSpace

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FOLDER = Path(__file__).parent
MODEL, TOKENIZER = "model.onnx", "tokenizer.json"
MAX_TOKENS = 254
"""How many tokens the model reads of one text, without its two special tokens."""

MAX_WORDS = 50_000
"""How many words WordPieceCounter remembers: as many as a large vault has, in 5 MB."""
MAX_WORD_CHARS = 40
WORDS_AT_ONCE = 2_000
_ASCII_WORD = re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9 \t\r\n]")
_SPACES = re.compile(r"[ \t\r\n]+")
_INDIVISIBLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\[(?:PAD|UNK|CLS|SEP|MASK)\]")
REINSTALL = "Reinstall memsync; in a clone of its repository, run: git restore memsync/embed/minilm"

SPACE = EmbeddingSpace(
    provider="minilm", model="all-MiniLM-L6-v2", revision=f"int8-{SHA256[MODEL][:12]}", dimension=384
)


def load() -> FastembedEmbedder:
    """Return the built-in embedder; it checks and loads its model at the first use. Raises EmbedderError."""
    if not (FOLDER / MODEL).is_file():
        raise EmbedderError(f"the built-in model is missing from {FOLDER}", hint=REINSTALL)
    name = "sentence-transformers/all-MiniLM-L6-v2"
    return FastembedEmbedder(SPACE, name, folder=FOLDER, texts_fit=True, check=check_files)


def check_files() -> list[str]:
    """Check the SHA-256 of each of the model's files and return their names. Raises EmbedderError."""
    for name in SHA256:
        _read_file(name)
    return list(SHA256)


def _read_file(name: str) -> bytes:
    return checked_content(FOLDER / name, SHA256[name], model="built-in model", hint=REINSTALL)


class WordPieceCounter:
    """Counts tokens with the built-in model's tokenizer, which it loads at the first use.

    A text has as many tokens as its words together, and most words occur often. So only new words go to the tokenizer,
    and their counts are remembered. That takes a tenth of the time of tokenizing whole texts.
    """

    def __init__(self) -> None:
        self._tokenizer: Tokenizer | None = None
        self._lock = threading.Lock()
        self._known: dict[str, int] = {}

    def __reduce__(self) -> tuple[type[WordPieceCounter], tuple[()]]:
        """Pickle as a new counter, for a process that parses notes."""
        return WordPieceCounter, ()

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, without special tokens."""
        words_of_texts = [_words(text) for text in texts]
        known = self._known  # other threads may add to it, but nobody removes anything
        new = list({word for words in words_of_texts for word in words if word not in known})
        long: dict[str, int] = {}
        for start in range(0, len(new), WORDS_AT_ONCE):
            batch = new[start : start + WORDS_AT_ONCE]
            encodings = self._load().encode_batch_fast(batch, add_special_tokens=False)
            for word, encoding in zip(batch, encodings, strict=True):
                (known if len(word) <= MAX_WORD_CHARS else long)[word] = len(encoding)
        if len(known) > MAX_WORDS:
            self._known = {}
        if not long:  # the usual case, and faster
            return [sum(map(known.__getitem__, words)) for words in words_of_texts]
        return [sum(long[word] if word in long else known[word] for word in words) for words in words_of_texts]

    def _load(self) -> Tokenizer:
        from tokenizers import Tokenizer

        with self._lock:
            if self._tokenizer is None:
                tokenizer = Tokenizer.from_str(_read_file(TOKENIZER).decode())
                tokenizer.no_truncation()
                self._tokenizer = tokenizer
            return self._tokenizer


def _words(text: str) -> list[str]:
    """Split a text into parts that together have the same tokens as the text.

    The tokenizer splits at spaces and at each punctuation mark, so this may split there, too. A text with a special
    token or a control character is not split: the tokenizer drops control characters, which joins the words around.
    """
    if _INDIVISIBLE.search(text):
        return [text]
    if text.isascii():
        return _ASCII_WORD.findall(text)
    words: list[str] = []
    for part in _SPACES.split(text):
        words += _ASCII_WORD.findall(part) if part.isascii() else (part,)
    return words
