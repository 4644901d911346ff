"""Keep hits within a budget of tokens, and say why an answer has no hits. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from memsync.model.answer import Hit
from memsync.model.text import count

CITATION_TOKENS = 12
CountTokens = Callable[[Sequence[str]], Sequence[int]]
_TOO_LOW = "which is too low (see min_score)"


def within(hits: Sequence[Hit], tokens: int, costs_of: Callable[[Sequence[Hit]], Iterable[int]]) -> list[Hit]:
    """Return the hits that fit into a budget of tokens, in order; `costs_of` returns the tokens of each hit."""
    kept = []
    for hit, cost in zip(hits, costs_of(hits), strict=True):
        if cost <= tokens:
            tokens -= cost
            kept.append(hit)
    return kept


def costs(hits: Sequence[Hit], count_tokens: CountTokens) -> list[int]:
    """Return the tokens of each hit with its citation."""
    return [CITATION_TOKENS + cost for cost in count_tokens([hit.text for hit in hits])]


def why_empty(hits: Sequence[Hit], likely: Sequence[Hit], tokens: int | None) -> tuple[str, ...]:
    """Return why none of some hits is shown: `likely` are those whose score is not too low."""
    if likely:
        return (f"none of {count(len(likely), 'hit')} fits into {count(tokens or 0, 'token')}",)
    if hits:
        return (f"the best hit has a score of {hits[0].score:.2f}, {_TOO_LOW}",)
    return ()


def is_about_tokens(warning: str) -> bool:
    """Tell whether a warning says that no hit fits into the budget."""
    return warning.startswith("none of ") and " fits into " in warning


def is_about_low_scores(warning: str) -> bool:
    """Tell whether a warning says that all scores were too low."""
    return warning.endswith(_TOO_LOW)
