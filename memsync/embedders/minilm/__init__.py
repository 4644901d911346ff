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

from memsync.embedders.local import LocalEmbedder
from memsync.embedders.minilm.digests import SHA256
from memsync.errors import EmbedderError
from memsync.model import EmbeddingSpace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

    Vector = NDArray[np.float32]

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


def load(threads: int) -> LocalEmbedder:
    """Return the built-in embedder for passages within MAX_TOKENS; the model itself is loaded at its first use."""
    if not (FOLDER / MODEL).is_file():
        raise EmbedderError(f"the built-in model is missing from {FOLDER}", hint=REINSTALL)
    return LocalEmbedder(SPACE, lambda: MiniLM(checks_length=False), threads=threads)


def read_file(name: str) -> bytes:
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


def check_files() -> list[str]:
    """Return the names of the model's files after comparing each with its SHA-256. Raises EmbedderError."""
    for name in SHA256:
        read_file(name)
    return list(SHA256)


class MiniLM:
    """The loaded model as a LocalModel.

    It runs in onnxruntime itself: fastembed would open the files by name after they were checked, and importing it
    takes longer than loading this model.
    """

    def __init__(self, *, checks_length: bool = True) -> None:
        """`checks_length` False: the caller promises that no passage exceeds MAX_TOKENS. Raises EmbedderError."""
        self._checks_length = checks_length
        self._tokenizer = _read_tokenizer()
        self._session = _open_session(read_file(MODEL))

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a question, which is that of a passage with the same text."""
        return self.embed_passage(text)

    def embed_passage(self, text: str) -> Vector:
        """Return the mean of the text's token vectors, of unit length; shape (384,)."""
        import numpy as np

        ids = np.array([self._tokenizer.encode(text).ids], dtype=np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        (tokens,) = self._session.run(None, feed)
        mean = tokens[0].sum(axis=0, dtype=np.float64) / len(tokens[0])
        unit: Vector = (mean / max(float(np.linalg.norm(mean)), 1e-12)).astype(np.float32)
        return unit

    def holds(self, text: str) -> bool:
        """Return whether the model reads the whole text."""
        return not self._checks_length or not self._tokenizer.encode(text).overflowing


def _open_session(model: bytes) -> InferenceSession:
    """Return a session of one thread that runs these bytes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise EmbedderError(f"the built-in model cannot be loaded: {error}", hint=REINSTALL) from error
    session._model_bytes = None  # 23 MB, kept only to start over with another provider, of which there is none
    return session


def _read_tokenizer() -> Tokenizer:
    from tokenizers import Tokenizer

    return Tokenizer.from_str(read_file(TOKENIZER).decode())


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
                tokenizer = _read_tokenizer()
                tokenizer.no_truncation()
                self._tokenizer = tokenizer
            return self._tokenizer
