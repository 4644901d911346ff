"""What the oracle raises, and nothing else does: a mistake in a test, or in a planted bug, is never taken for it."""

from __future__ import annotations


class Divergence(AssertionError):
    """Something that must hold in the simulated world does not."""


def require(holds: bool, otherwise: str) -> None:
    """Raise Divergence, which says `otherwise`, unless something holds."""
    if not holds:
        raise Divergence(otherwise)
