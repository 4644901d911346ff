"""Cache how many rows have a word, so that searches of an unchanged index need not count again."""

from __future__ import annotations

MAX_FREQUENCIES = 10_000


class FrequencyCache:
    """Caches how many chunks have a word, for one generation: searches of an unchanged index need not count again."""

    def __init__(self) -> None:
        self._counts: tuple[int, dict[str, int]] = (-1, {})

    def of(self, generation: int) -> dict[str, int]:
        """Return the counts of this generation; begin with none if it is new or if too many are cached."""
        counted_generation, counts = self._counts
        if generation != counted_generation or len(counts) > MAX_FREQUENCIES:
            counts = {}
            self._counts = (generation, counts)
        return counts
