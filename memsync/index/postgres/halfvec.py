"""Vectors as pgvector's type halfvec, which is read in its binary form and written as text.

The binary form is a head of four bytes, then 16-bit floats, high byte first.
"""

from __future__ import annotations

_HEAD_BYTES = 4


def from_halfvec(value: bytes) -> bytes:
    """Return a halfvec in its binary form as little-endian float16."""
    import numpy as np

    return np.frombuffer(value, dtype=">f2", offset=_HEAD_BYTES).astype("<f2").tobytes()


def halfvec_text(value: bytes) -> str:
    """Return little-endian float16 as the text of a halfvec, with digits enough for the same floats."""
    import numpy as np

    numbers = np.frombuffer(value, dtype="<f2").tolist()
    return f"[{','.join(['%.5g'] * len(numbers)) % tuple(numbers)}]"
