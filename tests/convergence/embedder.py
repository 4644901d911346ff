"""A model that fails in every way a model can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

import numpy as np

from memsync.errors import EmbedderError
from tests.conftest import FakeEmbedder
from tests.convergence.clock import SimulatedClock

HANGS_SECONDS = 70.0


class Condition(StrEnum):
    """How the model is."""

    WELL = "well"
    RAISES = "raises"
    HANGS = "answers nothing for a long time, then fails"
    NAN = "gives NaN"
    ZERO = "gives zero vectors"
    DIMENSION = "gives vectors of another dimension"
    ONE_BAD = "gives one vector of NaN"
    SLOW = "takes its time over each text"


class FaultyEmbedder(FakeEmbedder):
    """The quick embedder of all tests, which can be made to fail."""

    def __init__(self, clock: SimulatedClock) -> None:
        super().__init__()
        self._clock = clock
        self.condition = Condition.WELL

    def embed_passages(self, texts: Sequence[str], pause: Callable[[], None] = lambda: None) -> list[Any]:
        pause()
        vectors = [self._answer(text) for text in texts]
        if self.condition is Condition.ONE_BAD and vectors:
            vectors[0] = np.full(self.space.dimension, np.nan, dtype=np.float32)
        return vectors

    def embed_query(self, text: str) -> Any:
        return self._answer(text)

    def _answer(self, text: str) -> Any:
        match self.condition:
            case Condition.RAISES:
                raise EmbedderError("the model failed")
            case Condition.HANGS:
                self._clock.sleep(HANGS_SECONDS)
                raise EmbedderError("the model does not answer")
            case Condition.NAN:
                return np.full(self.space.dimension, np.nan, dtype=np.float32)
            case Condition.ZERO:
                return np.zeros(self.space.dimension, dtype=np.float32)
            case Condition.DIMENSION:
                return np.ones(self.space.dimension + 1, dtype=np.float32)
            case Condition.SLOW:
                self._clock.sleep(0.05)
        return self._vector(text)
