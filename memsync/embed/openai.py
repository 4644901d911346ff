"""Embed with a server that has OpenAI's embeddings API, through the official client (`pip install '.[openai]'`).

The base URL and the key come from the environment (OPENAI_BASE_URL, OPENAI_API_KEY), never from config.toml. The client
retries with backoff, as the server asks, before it reports a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from memsync.errors import EmbedderError
from memsync.model.query import EmbeddingSpace
from memsync.model.text import count
from memsync.system.extras import how_to_install

if TYPE_CHECKING:
    from memsync.ports import Vector

BATCH_TEXTS = 64
MAX_RETRIES = 4
TIMEOUT_SECONDS = 60.0
_DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}


class OpenAIEmbedder:
    """One model of one server as an Embedder."""

    def __init__(self, model: str, client: Any) -> None:
        self._model = model
        self._client = client

    @cached_property
    def space(self) -> EmbeddingSpace:
        """The space of all its vectors. The dimension of an unknown model comes from a first request."""
        dimension = _DIMENSIONS.get(self._model) or len(self._request(["dimension"])[0])
        return EmbeddingSpace("openai", self._model, "", dimension)

    def embed_passages(self, texts: Sequence[str], pause: Callable[[], None] = lambda: None) -> list[Vector]:
        """Return one unit-length float32 vector per text, in order, each of shape (dimension,)."""
        vectors: list[Vector] = []
        for start in range(0, len(texts), BATCH_TEXTS):
            pause()
            vectors += self._request(texts[start : start + BATCH_TEXTS])
        return vectors

    def embed_query(self, text: str) -> Vector:
        """Return one unit-length float32 vector for a question."""
        return self._request([text])[0]

    def unload(self) -> None:
        """Do nothing: the model runs on the server."""

    def close(self) -> None:
        """Close the connections to the server."""
        self._client.close()

    def _request(self, texts: Sequence[str]) -> list[Vector]:
        import numpy as np
        import openai

        try:
            answer = self._client.embeddings.create(model=self._model, input=list(texts), encoding_format="float")
        except openai.OpenAIError as error:
            raise _explained(error, self._model, str(self._client.base_url)) from error
        if len(answer.data) != len(texts):
            got = count(len(answer.data), "vector")
            raise EmbedderError(f"{self._client.base_url} returned {got} for {count(len(texts), 'text')}")
        vectors = [np.asarray(item.embedding, np.float32) for item in sorted(answer.data, key=lambda item: item.index)]
        return [(vector / max(float(np.linalg.norm(vector)), 1e-12)).astype(np.float32) for vector in vectors]


def load(model: str) -> OpenAIEmbedder:
    """Return an embedder for `model` on the server that the environment names. Raises EmbedderError."""
    try:
        import openai
    except ImportError as error:
        raise EmbedderError("the model openai:… needs the openai package", hint=how_to_install("openai")) from error
    if not model:
        raise EmbedderError(
            "the model after openai: is missing", hint="Write for example openai:text-embedding-3-small."
        )
    try:
        client = openai.OpenAI(max_retries=MAX_RETRIES, timeout=TIMEOUT_SECONDS)
    except openai.OpenAIError as error:
        raise EmbedderError(
            "no API key for openai:…", hint="Set OPENAI_API_KEY (and OPENAI_BASE_URL for another server)."
        ) from error
    return OpenAIEmbedder(model, client)


def _explained(error: Exception, model: str, url: str) -> EmbedderError:
    import openai

    later = "Sync again later: nothing is lost."
    # The first class that fits counts: a timeout is a connection error, too, and the first four are status errors.
    explanations = (
        (openai.AuthenticationError, "refused the API key", "Check OPENAI_API_KEY."),
        (openai.PermissionDeniedError, "refused the API key", "Check OPENAI_API_KEY."),
        (openai.NotFoundError, f"has no embedding model {model!r}", "Check [embedder] model and OPENAI_BASE_URL."),
        (openai.RateLimitError, "reports that the rate limit or quota is used up", later),
        (openai.APITimeoutError, f"did not answer in {TIMEOUT_SECONDS:g} s", later),
        (openai.APIConnectionError, "cannot be reached", "Check the network and OPENAI_BASE_URL."),
        (openai.APIStatusError, f"answered {getattr(error, 'status_code', '')}: {error}", later),
        (Exception, f"failed: {error}", ""),
    )
    reason, hint = next((reason, hint) for kind, reason, hint in explanations if isinstance(error, kind))
    return EmbedderError(f"{url} {reason}", hint=hint)
