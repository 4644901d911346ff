"""Local models run by fastembed, by the names it knows them under. It downloads them; what it checks is its own."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memsync.embedders.local import LocalEmbedder
from memsync.errors import EmbedderError, UnknownModel
from memsync.model import EmbeddingSpace
from memsync.user_folders import cache_folder

if TYPE_CHECKING:
    import numpy as np
    from fastembed import TextEmbedding
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

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


class _FastembedModel:
    """One loaded fastembed model as a LocalModel."""

    def __init__(self, model: TextEmbedding) -> None:
        self._model = model
        self._tokenizer = getattr(model.model, "tokenizer", None)

    def embed_passage(self, text: str) -> Vector:
        """Return one vector of shape (dimension,); text beyond the model's window is not read."""
        return _first(self._model.passage_embed([text]))

    def embed_query(self, text: str) -> Vector:
        """Return one vector for a question, as `embed_passage` does for a passage."""
        return _first(self._model.query_embed([text]))

    def holds(self, text: str) -> bool:
        """Return whether the model's window holds the whole text."""
        return self._tokenizer is None or not self._tokenizer.encode(text).overflowing


def _first(vectors: Iterable[NDArray[Any]]) -> Vector:
    import numpy as np

    return np.asarray(next(iter(vectors)), dtype=np.float32)


def load(name: str, threads: int) -> LocalEmbedder:
    """Return the fastembed model with this name. Raises UnknownModel with the nearest names."""
    from fastembed import TextEmbedding

    known = {model["model"].lower(): model for model in TextEmbedding.list_supported_models()}
    model = known.get(name.lower())
    if model is None:
        raise UnknownModel(
            f"no embedding model is called {name!r}", hint=_nearest(name, [m["model"] for m in known.values()])
        )
    name = model["model"]
    query_prefix, passage_prefix = next((both for start, both in PREFIXES.items() if name.startswith(start)), ("", ""))
    space = EmbeddingSpace("fastembed", name, "", model["dim"], query_prefix, passage_prefix)
    return LocalEmbedder(space, lambda: _load_model(name), threads=threads)


def _nearest(name: str, names: Sequence[str]) -> str:
    short = {known.split("/")[-1].lower(): known for known in names}
    near = [short[n] for n in difflib.get_close_matches(name.split("/")[-1].lower(), short, n=3, cutoff=0.4)]
    return f"Did you mean {' or '.join(near)}? " * bool(near) + "The built-in model is called minilm."


def _load_model(name: str) -> _FastembedModel:
    from fastembed import TextEmbedding

    try:
        model = TextEmbedding(
            name,
            threads=1,  # one session thread a text; the pool runs several texts at once
            providers=["CPUExecutionProvider"],
            cache_dir=_cache_dir(),
        )
    except Exception as error:
        hint = "It is downloaded at its first use: check the network, or use minilm."
        raise EmbedderError(f"the model {name} cannot be loaded: {error}", hint=hint) from error
    return _FastembedModel(model)


def _cache_dir() -> str:
    return os.environ.get("FASTEMBED_CACHE_PATH") or str(Path(cache_folder()) / "models")
