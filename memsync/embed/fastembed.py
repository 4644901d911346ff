"""Embed with fastembed's local models: memsync's own from a folder, any other by its name in fastembed."""

from __future__ import annotations

import difflib
import hashlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from memsync.errors import EmbedderError, UnknownModel
from memsync.model.query import EmbeddingSpace
from memsync.system.user_folders import cache_folder

if TYPE_CHECKING:
    from fastembed import TextEmbedding

    from memsync.ports import Vector

TEXTS_AT_ONCE = os.cpu_count() or 1
OWN_MODELS = ("minilm", "multilingual")
_ENGLISH_QUERY = "Represent this sentence for searching relevant passages: "
PREFIXES: dict[str, tuple[str, str]] = {
    "BAAI/bge-small-zh": ("为这个句子生成表示以用于检索相关文章：", ""),
    "BAAI/bge-": (_ENGLISH_QUERY, ""),
    "mixedbread-ai/mxbai-embed-": (_ENGLISH_QUERY, ""),
    "snowflake/snowflake-arctic-embed-": (_ENGLISH_QUERY, ""),
    "nomic-ai/nomic-embed-text-": ("search_query: ", "search_document: "),
    "intfloat/multilingual-e5-": ("query: ", "passage: "),
    "Qdrant/stella-": (
        "Instruct: Given a web search query, retrieve relevant passages that answer the query.\nQuery: ",
        "",
    ),
}
"""The prefixes of a query and of a passage that a family's model card asks for, by the beginning of the name."""


_Model = TypeVar("_Model")


class PooledModel(ABC, Generic[_Model]):
    """A model that is loaded at its first use, and the threads that run it.

    Each thread runs one text at a time, without a batch. So the result for a text does not depend on the other texts,
    and nothing is padded. On CPUs this is as fast as batches and uses less memory.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: tuple[_Model, ThreadPoolExecutor] | None = None

    def unload(self) -> None:
        """Release the model's memory, once the running requests are done."""
        with self._lock:
            self._loaded = None

    close = unload

    def _load(self) -> tuple[_Model, ThreadPoolExecutor]:
        if (loaded := self._loaded) is not None:
            return loaded
        with self._lock:
            if self._loaded is None:
                self._loaded = (self._load_model(), ThreadPoolExecutor(TEXTS_AT_ONCE, thread_name_prefix="model"))
            return self._loaded

    @abstractmethod
    def _load_model(self) -> _Model: ...


class FastembedEmbedder(PooledModel["TextEmbedding"]):
    """One fastembed model as an Embedder."""

    def __init__(
        self,
        space: EmbeddingSpace,
        name: str,
        *,
        folder: Path | None = None,
        texts_fit: bool = False,
        check: Callable[[], object] = lambda: None,
    ) -> None:
        """`folder` holds the model's files; without it, fastembed fetches them.

        With `texts_fit`, the caller passes only texts that fit into the model's window, and their length is not
        checked. `check` is called each time before the model is loaded.
        """
        super().__init__()
        self.space = space
        self._name = name
        self._folder = folder
        self._texts_fit = texts_fit
        self._check = check

    def embed_passages(self, texts: Sequence[str], pause: Callable[[], None] = lambda: None) -> list[Vector]:
        """Return one unit-length float32 vector per text, in order, each of shape (dimension,)."""
        _, pool = self._load()

        def embed(text: str) -> Vector:
            pause()
            return self._embed_passage(self.space.passage_prefix + text)

        return list(pool.map(embed, texts))

    def embed_query(self, text: str) -> Vector:
        """Return one unit-length float32 vector for a question; the model ignores what exceeds its window."""
        return self._embed_once(self.space.query_prefix + text, is_query=True)

    def _embed_passage(self, text: str) -> Vector:
        """Embed a passage of any length; if it exceeds the window, return the mean of its two halves' vectors."""
        import numpy as np

        if self._texts_fit or self._window_holds(text) or len(text) < 2:
            return self._embed_once(text, is_query=False)
        middle = text.rfind(" ", 1, len(text) // 2 + 1)
        middle = middle if middle > 0 else len(text) // 2
        halves = [self._embed_passage(half) for half in (text[:middle], text[middle:])]
        mean = np.mean(halves, axis=0)
        unit: Vector = (mean / np.linalg.norm(mean)).astype(np.float32)
        return unit

    def _embed_once(self, text: str, *, is_query: bool) -> Vector:
        import numpy as np

        model, _ = self._load()
        embed = model.query_embed if is_query else model.passage_embed
        try:
            vector = np.asarray(next(iter(embed([text]))), dtype=np.float32)
        except Exception as error:
            raise EmbedderError(f"the model {self._name} failed: {error}") from error
        norm = float(np.linalg.norm(vector))
        return (vector / norm).astype(np.float32) if norm > 0 else vector

    def _window_holds(self, text: str) -> bool:
        model, _ = self._load()
        tokenizer = getattr(model.model, "tokenizer", None)
        return tokenizer is None or not tokenizer.encode(text).overflowing

    def _load_model(self) -> TextEmbedding:
        from fastembed import TextEmbedding

        self._check()
        folder = self._folder
        try:
            return TextEmbedding(
                self._name,
                threads=1,  # for each text; the pool embeds several texts at once
                providers=["CPUExecutionProvider"],
                cache_dir=None if folder else cache_dir(),
                specific_model_path=str(folder) if folder else None,
                local_files_only=folder is not None,
            )
        except Exception as error:
            fetch_hint = "fastembed downloads it at the first use. Check the network, or use minilm."
            hint = "Reinstall memsync." if folder else fetch_hint
            raise EmbedderError(f"the model {self._name} cannot be loaded: {error}", hint=hint) from error


def load(name: str) -> FastembedEmbedder:
    """Return the fastembed model with this name. Raises UnknownModel, which suggests similar names."""
    from fastembed import TextEmbedding

    advice = "The built-in model is called minilm."
    models = TextEmbedding.list_supported_models()
    model = supported(name, models, what="embedding model", advice=advice, own=OWN_MODELS)
    name = model["model"]
    query_prefix, passage_prefix = next((both for start, both in PREFIXES.items() if name.startswith(start)), ("", ""))
    space = EmbeddingSpace("fastembed", name, "", model["dim"], query_prefix, passage_prefix)
    return FastembedEmbedder(space, name)


def supported(
    name: str, models: Iterable[Mapping[str, Any]], *, what: str, advice: str, own: Sequence[str] = ()
) -> Mapping[str, Any]:
    """Return fastembed's description of the model with this name; the case of letters does not matter.

    Raises UnknownModel if there is none. Its message calls the model a `what`, suggests similar names among `models`
    and memsync's `own`, and ends with `advice`.
    """
    models_by_name = {model["model"].lower(): model for model in models}
    if name.lower() not in models_by_name:
        full_names = [*own, *(model["model"] for model in models_by_name.values())]
        short_names = {full_name.split("/")[-1].lower(): full_name for full_name in full_names}
        close = difflib.get_close_matches(name.split("/")[-1].lower(), short_names, n=3, cutoff=0.4)
        suggestion = f"Did you mean {' or '.join(short_names[short] for short in close)}? " if close else ""
        raise UnknownModel(f"no {what} is called {name!r}", hint=f"{suggestion}{advice}")
    return models_by_name[name.lower()]


def cache_dir() -> str:
    """Return the folder in which fastembed keeps the files of the models that it fetches."""
    return os.environ.get("FASTEMBED_CACHE_PATH") or str(Path(cache_folder()) / "models")


def checked_content(path: Path, sha256: str, *, model: str, hint: str) -> bytes:
    """Return the content of a model's file. Raises EmbedderError with `hint` if it has another SHA-256."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EmbedderError(f"the {model}'s {path} cannot be read: {error.strerror}", hint=hint) from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        difference = f"its SHA-256 begins with {digest[:12]}, not with {sha256[:12]}"
        raise EmbedderError(f"the {model}'s {path} is damaged: {difference}", hint=hint)
    return content
