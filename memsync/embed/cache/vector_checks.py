"""What is checked of each stored vector: its length in bytes, its unit length, its checksum, and how alike two are."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from memsync.index.sqlite.vectors import NORM_TOLERANCE

HASH_BYTES = 32


def checksum(content_hash: bytes, value: bytes) -> int:
    """Return the CRC-32 of a hash and its vector: a digit that changes on the disk, or a wrong hash, changes it."""
    return zlib.crc32(value, zlib.crc32(content_hash))


def value_bytes(dimension: int) -> int:
    """Return the size of a float16 vector."""
    return 2 * dimension


def are_unit(values: Sequence[bytes], dimension: int) -> list[bool]:
    """Tell of each float16 vector whether it is finite and of unit length; all have the size of `dimension`."""
    import numpy as np

    if not values:
        return []
    matrix = np.frombuffer(b"".join(values), dtype="<f2").reshape(len(values), dimension).astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.linalg.norm(matrix, axis=1)
    return [bool(near) for near in np.abs(norms - 1.0) < NORM_TOLERANCE]


def cosines(ours: Sequence[bytes], theirs: Sequence[bytes], dimension: int) -> list[float]:
    """Return the cosine of each pair of float16 unit vectors, in order."""
    import numpy as np

    if not ours:
        return []
    one, other = (
        np.frombuffer(b"".join(values), dtype="<f2").reshape(len(values), dimension).astype(np.float32)
        for values in (ours, theirs)
    )
    with np.errstate(over="ignore", invalid="ignore"):
        return [float(value) for value in (one * other).sum(axis=1)]
