"""Store vectors as bytes: float16 in the cache, int8 in vec0.

int8 takes a quarter of the space of float32 and is as fast to scan. A component of a unit vector with d dimensions is
about 1/sqrt(d). int8 covers components up to five times that; larger ones are clipped. Searches rank the nearest int8
vectors again by the exact cosine of their float16 vectors, which makes up for rounding and clipping. int8 is always
made from float16, so that a cached vector gives the same bytes as a new one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memsync.errors import EmbedderError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memsync.model.status import PendingPassage

    Vector = NDArray[np.float32]

_CLIPPED_DEVIATIONS = 5.0
NORM_TOLERANCE = 0.01
"""How far the length of a stored float16 vector may be from 1."""


def to_float16(vector: Vector, dimension: int) -> bytes:
    """Return a unit vector as little-endian float16.

    Raises EmbedderError for NaN, infinity, zero or a wrong dimension: vec0 would store them and rank them first.
    """
    import numpy as np

    if vector.shape != (dimension,):
        raise EmbedderError(
            f"the model gave a vector of shape {vector.shape}, its space has {dimension} dimensions",
            hint="Run: memsync index rebuild --drop-vectors",
        )
    norm = float(np.linalg.norm(vector))
    if not math.isfinite(norm) or norm < 1e-6:
        raise EmbedderError("the model gave a vector that is zero or not a number")
    return bytes((vector / norm).astype("<f2").tobytes())


def usable(
    vectors: Sequence[tuple[PendingPassage, Vector]], dimension: int
) -> tuple[dict[tuple[int, bytes], bytes], list[EmbedderError]]:
    """Return float16 vectors by (passage id, content hash), and an error for each vector that cannot be stored."""
    values, errors = dict[tuple[int, bytes], bytes](), list[EmbedderError]()
    for passage, vector in vectors:
        try:
            values[passage.passage_id, passage.content_hash] = to_float16(vector, dimension)
        except EmbedderError as error:
            errors.append(error)
    return values, errors


def to_matrix(values: Sequence[bytes]) -> NDArray[np.float32]:
    """Return float16 vectors of one dimension as float32, one per row."""
    import numpy as np

    dimension = len(values[0]) // 2 if values else 0
    return np.frombuffer(b"".join(values), dtype="<f2").reshape(len(values), dimension).astype(np.float32)


def are_unit(values: Sequence[bytes]) -> list[bool]:
    """Tell for each float16 vector whether it is finite and of unit length, apart from rounding."""
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.linalg.norm(to_matrix(values), axis=1)
    return [bool(is_near) for is_near in np.abs(lengths - 1.0) < NORM_TOLERANCE]


def to_int8(value: bytes) -> bytes:
    """Return the int8 form of a float16 vector, as vec0 stores it."""
    import numpy as np

    vector = np.frombuffer(value, dtype="<f2").astype(np.float32)
    scale = 127.0 * math.sqrt(len(vector)) / _CLIPPED_DEVIATIONS  # the length of an int8 vector
    return bytes(np.clip(np.rint(vector * scale), -127, 127).astype(np.int8).tobytes())


def cosines(values: Sequence[bytes], query: Vector) -> list[float]:
    """Return the cosine of each float16 vector to the unit vector `query`, in order."""
    return [float(cosine) for cosine in to_matrix(values) @ query] if values else []
