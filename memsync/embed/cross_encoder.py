"""Rerank with fastembed's cross-encoders, which read a question and a text together and score how well they fit."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memsync.embed.fastembed import PooledModel, cache_dir, supported
from memsync.errors import EmbedderError

if TYPE_CHECKING:
    from fastembed.rerank.cross_encoder import TextCrossEncoder

RETRY_SECONDS = 60.0
"""How long to wait before a model that failed to load is tried again. Otherwise every search would wait for it."""
MAX_CHARS = 32_000
"""How much of a question or a text is read: more than the largest model window holds, to save tokenizing the rest."""


class CrossEncoder(PooledModel["TextCrossEncoder"]):
    """One cross-encoder of fastembed as a Reranker."""

    def __init__(self, model: Mapping[str, Any]) -> None:
        """`model` is fastembed's description of it."""
        super().__init__()
        self._model = model
        self.name: str = model["model"]
        self._failure: tuple[EmbedderError, float] | None = None

    def relevance(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return how relevant each text is to a question, in the same order: from 0 to 1, the logistic of the logit.

        Raises EmbedderError if the model cannot be fetched or fails.
        """
        model, pool = self._load()
        question = question[:MAX_CHARS]

        def logit_of(text: str) -> float:
            return float(next(iter(model.rerank(question, [text[:MAX_CHARS]]))))

        try:
            logits = list(pool.map(logit_of, texts))
        except Exception as error:
            raise EmbedderError(f"the reranking model {self.name} failed: {_reason(error)}") from error
        if any(map(math.isnan, logits)):
            raise EmbedderError(f"the reranking model {self.name} returned a value that is not a number")
        return [1.0 / (1.0 + math.exp(-max(-50.0, min(50.0, logit)))) for logit in logits]

    def _load_model(self) -> TextCrossEncoder:
        if self._failure is not None and time.monotonic() - self._failure[1] < RETRY_SECONDS:
            raise EmbedderError(self._failure[0].message, hint=self._failure[0].hint)
        try:
            return self._load_from(self._fetched_folder())
        except EmbedderError as error:
            self._failure = (error, time.monotonic())
            raise

    def _fetched_folder(self) -> Path:
        """Return the folder of the model's files; fetch them into fastembed's cache if needed. Raises EmbedderError.

        fastembed itself would try three times, wait 39 s in between, and not say why it failed.
        """
        from fastembed.rerank.cross_encoder import TextCrossEncoder
        from huggingface_hub.utils.tqdm import enable_progress_bars

        files = [self._model["model_file"], *self._model["additional_files"]]
        fetch = partial(
            TextCrossEncoder.download_files_from_huggingface, self._model["sources"]["hf"], cache_dir(), files
        )
        is_damaged = False
        try:
            cached = Path(fetch(local_files_only=True))
            if all((cached / file).exists() for file in files):
                return cached
        except OSError:  # not in the cache
            pass
        except ValueError:  # a file's size has changed since the download
            is_damaged = True
        if sys.stderr.isatty():
            enable_progress_bars()  # local_files_only has disabled them
        try:
            return Path(fetch(force_download=is_damaged))
        except Exception as error:
            size = f"{self._model['size_in_GB'] * 1000:.0f} MB"
            raise EmbedderError(
                f"the reranking model {self.name} cannot be fetched into {cache_dir()}: {_reason(error)}",
                hint=f"Its first use downloads {size}. Check the network and search again.",
            ) from error

    def _load_from(self, folder: Path) -> TextCrossEncoder:
        from fastembed.rerank.cross_encoder import TextCrossEncoder

        try:
            return TextCrossEncoder(
                self.name,
                threads=1,  # for each pair; the pool reads several pairs at once
                providers=["CPUExecutionProvider"],
                cache_dir=cache_dir(),
                specific_model_path=str(folder),
            )
        except Exception as error:
            raise EmbedderError(
                f"the reranking model {self.name} cannot be loaded: {_reason(error)}",
                hint=f"Remove {folder.parents[1]} so that memsync fetches it again.",
            ) from error


def load(name: str) -> CrossEncoder:
    """Return the cross-encoder with this name without loading it. Raises UnknownModel, which suggests similar names."""
    from fastembed.rerank.cross_encoder import TextCrossEncoder

    advice = "See [search] rerank_model; without it, memsync uses the default model."
    models = TextCrossEncoder.list_supported_models()
    return CrossEncoder(supported(name, models, what="reranking model", advice=advice))


def _reason(error: Exception) -> str:
    """Return an error's message as one line; network errors may have several lines."""
    return " ".join(str(error).split()) or type(error).__name__
