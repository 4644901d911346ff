"""Vectors as bytes: float16 in the cache, int8 in vec0.

int8 is a quarter of float32 and as quick to scan. A component of a unit vector of d dimensions is about 1/sqrt(d), so
one step is chosen for five times that and larger ones are clipped; the shortlist is ranked again by exact cosine of
the float16 vectors, which makes up for both. int8 is always made from float16, so that a vector taken from the cache
gives the same bytes as one just computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memsync.errors import EmbedderError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

_CLIPPED_DEVIATIONS = 5.0


def to_float16(vector: Vector, dimension: int) -> bytes:
    """Return a unit vector as little-endian float16.

    Raises EmbedderError for NaN, infinity, zero or a wrong dimension: vec0 would store them and rank them first.
    """
    import numpy as np

    if vector.shape != (dimension,):
        raise EmbedderError(
            f"the model gave a vector of shape {vector.shape}, its space has {dimension} dimensions",
            hint="Run: memsync rebuild --drop-vectors",
        )
    norm = float(np.linalg.norm(vector))
    if not math.isfinite(norm) or norm < 1e-6:
        raise EmbedderError("the model gave a vector that is zero or not a number")
    return bytes((vector / norm).astype("<f2").tobytes())


def to_int8(value: bytes) -> bytes:
    """Return the int8 form of a float16 vector, as vec0 stores it."""
    import numpy as np

    vector = np.frombuffer(value, dtype="<f2").astype(np.float32)
    scale = 127.0 * math.sqrt(len(vector)) / _CLIPPED_DEVIATIONS
    return bytes(np.clip(np.rint(vector * scale), -127, 127).astype(np.int8).tobytes())


def cosines(values: Sequence[bytes], query: Vector) -> list[float]:
    """Return the cosine of each float16 vector to the unit vector `query`, in order."""
    import numpy as np

    if not values:
        return []
    matrix = np.frombuffer(b"".join(values), dtype="<f2").reshape(len(values), -1).astype(np.float32)
    return [float(value) for value in matrix @ query]
