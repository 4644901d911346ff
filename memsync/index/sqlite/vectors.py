"""Store vectors as bytes: float16 in the cache, int8 in vec0.

int8 takes a quarter of the space of float32 and is as fast to scan. A component of a unit vector with d dimensions is
about 1/sqrt(d). int8 covers components up to five times that; larger ones are clipped. Searches rank the nearest int8
vectors again by the exact cosine of their float16 vectors, which makes up for rounding and clipping. int8 is always
made from float16, so that a cached vector gives the same bytes as a new one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from memsync.errors import EmbedderError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

_CLIPPED_DEVIATIONS = 5.0
_BLOCK_ROWS = 256
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
            hint="Run: memsync rebuild --drop-vectors",
        )
    norm = float(np.linalg.norm(vector))
    if not math.isfinite(norm) or norm < 1e-6:
        raise EmbedderError("the model gave a vector that is zero or not a number")
    return bytes((vector / norm).astype("<f2").tobytes())


def are_vectors(values: Sequence[bytes]) -> list[bool]:
    """Tell for each value whether it is a finite float16 vector of unit length, apart from rounding."""
    import numpy as np

    found: list[bool] = []
    for value in values:
        with np.errstate(over="ignore", invalid="ignore"):
            norm = np.linalg.norm(np.frombuffer(value, dtype="<f2").astype(np.float32))
        found.append(bool(abs(norm - 1.0) < NORM_TOLERANCE))
    return found


def to_int8(value: bytes) -> bytes:
    """Return the int8 form of a float16 vector, as vec0 stores it."""
    import numpy as np

    vector = np.frombuffer(value, dtype="<f2").astype(np.float32)
    scale = _int8_length(len(vector))
    return bytes(np.clip(np.rint(vector * scale), -127, 127).astype(np.int8).tobytes())


def is_int8_vector(value: bytes) -> bool:
    """Tell whether an int8 vector has about the length that `to_int8` gives; a vector on a lost page has not."""
    import numpy as np

    length = _int8_length(len(value))
    return bool(abs(np.linalg.norm(np.frombuffer(value, dtype=np.int8).astype(np.float32)) - length) < length / 4)


def _int8_length(dimension: int) -> float:
    """Return the length of an int8 vector: the factor by which a unit vector is multiplied."""
    return 127.0 * math.sqrt(dimension) / _CLIPPED_DEVIATIONS


def cosines(values: Sequence[bytes], query: Vector) -> list[float]:
    """Return the cosine of each float16 vector to the unit vector `query`, in order."""
    import numpy as np

    if not values:
        return []
    matrix = np.frombuffer(b"".join(values), dtype="<f2").reshape(len(values), -1).astype(np.float32)
    return [float(value) for value in matrix @ query]


def near_pairs(
    values: Sequence[bytes],
    homes: Sequence[str],
    least: float,
    most: int,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> list[tuple[float, int, int]]:
    """Return (cosine, position, position) of the `most` nearest pairs of float16 vectors, nearest first.

    Leaves out pairs with the same home and pairs with a cosine below `least`. Compares every vector with every other,
    in blocks: 10,000 vectors take a second, and the time grows with the square. Equal cosines are ordered by position.
    Calls `progress` before each block; it may raise to stop the work.
    """
    import numpy as np

    if len(values) < 2:
        return []
    matrix = np.frombuffer(b"".join(values), dtype="<f2").reshape(len(values), -1).astype(np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    numbers = {home: number for number, home in enumerate(dict.fromkeys(homes))}
    home = np.array([numbers[one] for one in homes])
    found = np.empty((0, 3))
    for start in range(0, len(values), _BLOCK_ROWS):
        progress("comparing passages", start, len(values))
        block = matrix[start : start + _BLOCK_ROWS] @ matrix[start:].T
        rows, columns = np.nonzero(block >= least)
        wanted = (columns > rows) & (home[start + rows] != home[start + columns])
        rows, columns = rows[wanted], columns[wanted]
        scores = np.round(np.minimum(block[rows, columns], 1.0).astype(float), 6)
        found = np.concatenate([found, np.column_stack([-scores, start + rows, start + columns])])
        if len(found) > most:
            found = found[np.lexsort((found[:, 2], found[:, 1], found[:, 0]))[:most]]
            least = max(least, -float(found[-1, 0]))  # a pair below the worst of these can no longer be in the result
    ordered = found[np.lexsort((found[:, 2], found[:, 1], found[:, 0]))]
    return [(-float(score), int(one), int(other)) for score, one, other in ordered]
