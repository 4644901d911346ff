"""Keep hits within a budget of tokens, and say why an answer has no hits. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memsync.model.answer import Hit
from memsync.model.text import count

CITATION_TOKENS = 12
_TOO_LOW = "which is too low (see min_score)"


def within(hits: Sequence[Hit], tokens: int, count_tokens: Callable[[Sequence[str]], Sequence[int]]) -> list[Hit]:
    """Return the hits that fit into a budget of tokens, citations included, in order."""
    kept = []
    for hit, cost in zip(hits, count_tokens([hit.text for hit in hits]), strict=True):
        if CITATION_TOKENS + cost <= tokens:
            tokens -= CITATION_TOKENS + cost
            kept.append(hit)
    return kept


def why_empty(hits: Sequence[Hit], likely: Sequence[Hit], tokens: int | None) -> tuple[str, ...]:
    """Return why none of some hits is shown: `likely` are those whose score is not too low."""
    if likely:
        return (f"none of {count(len(likely), 'hit')} fits into {count(tokens or 0, 'token')}",)
    if hits:
        return (f"the best hit has a score of {hits[0].score:.2f}, {_TOO_LOW}",)
    return ()


def is_about_low_scores(warning: str) -> bool:
    """Tell whether a warning says that all scores were too low."""
    return warning.endswith(_TOO_LOW)
