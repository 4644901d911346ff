"""Vectors as pgvector's type halfvec writes them: a head of four bytes, then 16-bit floats, high byte first."""

from __future__ import annotations

import struct

_HEAD = struct.Struct(">HH")


def from_halfvec(value: bytes) -> bytes:
    """Return a halfvec in its binary form as little-endian float16."""
    import numpy as np

    return np.frombuffer(value, dtype=">f2", offset=_HEAD.size).astype("<f2").tobytes()


def to_halfvec(value: bytes) -> bytes:
    """Return little-endian float16 as a halfvec in its binary form."""
    import numpy as np

    return _HEAD.pack(len(value) // 2, 0) + np.frombuffer(value, dtype="<f2").astype(">f2").tobytes()


def halfvec_text(value: bytes) -> str:
    """Return little-endian float16 as the text of a halfvec, with digits enough for the same floats."""
    import numpy as np

    return f"[{','.join(map(str, np.frombuffer(value, dtype='<f2').astype(np.float64).tolist()))}]"
