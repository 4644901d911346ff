"""Local models run by fastembed: the built-in one from its folder, any other by the name fastembed knows it under."""

from __future__ import annotations

import difflib
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memsync.errors import EmbedderError, UnknownModel
from memsync.model.query import EmbeddingSpace
from memsync.system.user_folders import cache_folder

if TYPE_CHECKING:
    import numpy as np
    from fastembed import TextEmbedding
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

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
"""What each family's model card asks to be written before a query and a passage, by the beginning of the name."""


class FastembedEmbedder:
    """One fastembed model as an Embedder.

    Texts are embedded one at a time, on as many threads as asked: a text's vector then depends on nothing else, and
    on CPUs this is as fast as any batch (docs/benchmarks.md), with neither padding nor a batch's memory.
    """

    def __init__(
        self,
        space: EmbeddingSpace,
        name: str,
        *,
        threads: int,
        folder: Path | None = None,
        max_tokens: int | None = None,
        check: Callable[[], object] = lambda: None,
    ) -> None:
        """`folder` holds the model's files, else fastembed fetches them; texts within `max_tokens` are not checked.

        `check` is called each time before the model is loaded.
        """
        self._space = space
        self._name = name
        self._folder = folder
        self._fits = max_tokens is not None
        self._check = check
        self._threads = threads or os.cpu_count() or 1
        self._lock = threading.Lock()
        self._loaded: tuple[TextEmbedding, ThreadPoolExecutor] | None = None

    @property
    def space(self) -> EmbeddingSpace:
        """The space that all its vectors lie in."""
        return self._space

    def embed_passages(self, texts: Sequence[str], pause: Callable[[], None] = lambda: None) -> list[Vector]:
        """Return one unit-length float32 vector per text, in order, each of shape (dimension,)."""
        _, pool = self._load()

        def embed(text: str) -> Vector:
            pause()
            return self._embed(self._space.passage_prefix + text, is_query=False)

        return list(pool.map(embed, texts))

    def embed_query(self, text: str) -> Vector:
        """Return one unit-length float32 vector for a question; what exceeds the model's window is not read."""
        return self._embed_once(self._space.query_prefix + text, is_query=True)

    def unload(self) -> None:
        """Give back the model's memory; texts that are being embedded keep it until they are done."""
        with self._lock:
            self._loaded = None

    def close(self) -> None:
        """Do as `unload` does: there is nothing else to give back."""
        self.unload()

    def _embed(self, text: str, *, is_query: bool) -> Vector:
        """Embed a passage of any length: one that exceeds the window is the mean of its two halves."""
        import numpy as np

        if self._fits or self._window_holds(text) or len(text) < 2:
            return self._embed_once(text, is_query=is_query)
        middle = text.rfind(" ", 1, len(text) // 2 + 1)
        middle = middle if middle > 0 else len(text) // 2
        halves = [self._embed(half, is_query=is_query) for half in (text[:middle], text[middle:])]
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

    def _load(self) -> tuple[TextEmbedding, ThreadPoolExecutor]:
        if self._loaded is not None:
            return self._loaded
        with self._lock:
            if self._loaded is None:
                self._check()
                model = _load_model(self._name, self._folder)
                self._loaded = (model, ThreadPoolExecutor(self._threads, thread_name_prefix="embed"))
            return self._loaded


def load(name: str, threads: int) -> FastembedEmbedder:
    """Return the fastembed model with this name. Raises UnknownModel with the nearest names."""
    from fastembed import TextEmbedding

    advice = "The built-in model is called minilm."
    models = TextEmbedding.list_supported_models()
    model = supported(name, models, what="embedding model", advice=advice, own=OWN_MODELS)
    name = model["model"]
    query_prefix, passage_prefix = next((both for start, both in PREFIXES.items() if name.startswith(start)), ("", ""))
    space = EmbeddingSpace("fastembed", name, "", model["dim"], query_prefix, passage_prefix)
    return FastembedEmbedder(space, name, threads=threads)


def supported(
    name: str, models: Iterable[Mapping[str, Any]], *, what: str, advice: str, own: Sequence[str] = ()
) -> Mapping[str, Any]:
    """Return fastembed's description of the model with this name, in upper or lower case.

    Raises UnknownModel, which says that no `what` has the name, names the nearest ones, of these and of memsync's
    `own`, and gives the advice.
    """
    known = {model["model"].lower(): model for model in models}
    if name.lower() not in known:
        hint = f"{_nearest(name, [*own, *(model['model'] for model in known.values())])}{advice}"
        raise UnknownModel(f"no {what} is called {name!r}", hint=hint)
    return known[name.lower()]


def cache_dir() -> str:
    """Return the folder in which fastembed looks for the files of models, and into which it fetches them."""
    return os.environ.get("FASTEMBED_CACHE_PATH") or str(Path(cache_folder()) / "models")


def _nearest(name: str, names: Sequence[str]) -> str:
    short = {known.split("/")[-1].lower(): known for known in names}
    near = [short[n] for n in difflib.get_close_matches(name.split("/")[-1].lower(), short, n=3, cutoff=0.4)]
    return f"Did you mean {' or '.join(near)}? " * bool(near)


def _load_model(name: str, folder: Path | None) -> TextEmbedding:
    from fastembed import TextEmbedding

    try:
        return TextEmbedding(
            name,
            threads=1,  # one session thread a text; the pool runs several texts at once
            providers=["CPUExecutionProvider"],
            cache_dir=None if folder else cache_dir(),
            specific_model_path=str(folder) if folder else None,
            local_files_only=folder is not None,
        )
    except Exception as error:
        hint = (
            "Reinstall memsync." if folder else "It is downloaded at its first use: check the network, or use minilm."
        )
        raise EmbedderError(f"the model {name} cannot be loaded: {error}", hint=hint) from error
