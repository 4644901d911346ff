"""Merge the answers of several memories to one question. Pure.

Scores are probabilities, whichever embedding model found the hits, so the best score comes first. Hits of one memory
never change their order.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from memsync.errors import MemsyncError
from memsync.model.answer import Explanation, Freshness, Hit, RootAnswer, SearchResult
from memsync.model.query import Query
from memsync.model.text import count
from memsync.model.vocabulary import Mode, WatcherState, in_root
from memsync.search.budget import CountTokens, costs, is_about_low_scores, why_empty, within

MAX_WARNINGS = 20
"""How many warnings of one memory an answer has."""
_STRENGTH = (Mode.KEYWORD, Mode.VECTOR, Mode.HYBRID)
_WATCHERS = (WatcherState.LIVE, WatcherState.POLLING, WatcherState.DEGRADED, WatcherState.NONE)
"""From the state that keeps an index most current to the one that keeps it least current."""


class AnsweredMemory(NamedTuple):
    """What one memory answered, or the error that it raised; `notices` are remarks on how it was opened."""

    name: str
    value: Any = None
    failure: MemsyncError | None = None
    milliseconds: float = 0.0
    notices: tuple[str, ...] = ()

    @property
    def error(self) -> str:
        """The error in sentences, empty without one."""
        return self.failure.sentences() if self.failure else ""


def merged(
    query: Query, answers: Sequence[AnsweredMemory], count_tokens: CountTokens = lambda texts: ()
) -> SearchResult:
    """Return one answer with at most `query.limit` hits, best first; at least one memory must have answered.

    Each hit gets the name of its memory as its `root`. Hits that exceed a budget of tokens are left out.
    """
    tokens = query.request.tokens
    results: dict[str, SearchResult] = {answer.name: answer.value for answer in answers if answer.value is not None}
    lists = _lists(query, results)
    is_listing = any(map(_is_listing, (results[name] for name, listed in lists.items() if listed)))
    ordered = by_date(list(lists.values())) if is_listing else by_score(list(lists.values()))
    best = (_different(ordered) if query.text else ordered)[: query.limit]
    hits = best if tokens is None else within(best, tokens, lambda hits: costs(hits, count_tokens))
    shown = Counter(hit.root for hit in hits)
    statuses = tuple(_status(answer, shown[answer.name]) for answer in answers)
    warnings = _of_memories(answers, is_empty=not best)
    warnings += why_empty((), best, tokens) if best and not hits else ()
    models = {results[name].model for name, listed in lists.items() if listed and not is_listing}
    explain = Explanation(query.filters, query.times, {status.name: status.milliseconds for status in statuses})
    return SearchResult(
        tuple(hits),
        max((result.mode for result in results.values()), key=_STRENGTH.index),
        _freshness(results),
        tuple(warnings),
        explain,
        model=models.pop() if len(models) == 1 else "",
        roots=statuses,
        verified=all(result.verified for result in results.values()),
        also_searched=tuple(dict.fromkeys(word for result in results.values() for word in result.also_searched)),
        not_shared=sum(result.not_shared for result in results.values()),
    )


def _status(answer: AnsweredMemory, hits: int) -> RootAnswer:
    model = answer.value.model if answer.value is not None else ""
    return RootAnswer(answer.name, hits, round(answer.milliseconds, 1), model, answer.error)


# ---------------------------------------------------------------------------------------------------- order


def _lists(query: Query, results: Mapping[str, SearchResult]) -> dict[str, list[Hit]]:
    """Return the hits of each memory, with its name.

    A question that only names a time ("what happened yesterday") is answered with the entries dated then. If one memory
    has such entries, the others, which searched instead, add none.
    """
    listings = {name for name, result in results.items() if _is_listing(result)}
    counted = listings if query.text and listings else results.keys()
    return {
        name: [_named(hit, name) for hit in result.hits] if name in counted else [] for name, result in results.items()
    }


def _named(hit: Hit, root: str) -> Hit:
    return replace(hit.with_citations(partial(in_root, root)), root=root)


def _different(hits: Iterable[Hit]) -> list[Hit]:
    """Return the hits with different texts; the citations of equal ones are in `also` of the first one."""
    by_text: dict[tuple[str, bool], Hit] = {}
    for hit in hits:
        first = by_text.get(key := (hit.text, hit.holds))
        by_text[key] = hit if first is None else replace(first, also=(*first.also, hit.citation, *hit.also))
    return list(by_text.values())


def _is_listing(result: SearchResult) -> bool:
    """Tell whether hits are in the order of dates, found by neither retriever."""
    return bool(result.hits) and not any(hit.ranks for hit in result.hits)


def by_score(lists: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Merge lists: the best score first; of equal ones, the hit of the earlier list."""
    return list(heapq.merge(*lists, key=lambda hit: hit.score, reverse=True))


def by_date(lists: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Merge lists in the order of dates: the latest first; of equal ones, the hit of the earlier list."""
    return list(heapq.merge(*lists, key=lambda hit: hit.date or hit.changed, reverse=True))


# ------------------------------------------------------------------------------------------------- warnings


def _of_memories(answers: Sequence[AnsweredMemory], *, is_empty: bool) -> list[str]:
    """Return the warnings of all memories with their names; a warning that all give has none.

    That no score is high enough in one memory matters only if the answer has no hits at all.
    """
    named: dict[str, list[str]] = {}
    for answer in answers:
        given = [answer.error, *answer.notices, *(answer.value.warnings if answer.value else ())]
        for warning in _few(warning for warning in given if is_empty or not is_about_low_scores(warning)):
            named.setdefault(warning, []).append(answer.name)
    return [
        warning if len(names) == len(answers) > 1 else f"{', '.join(names)}: {warning}"
        for warning, names in named.items()
    ]


def _few(warnings: Iterable[str]) -> list[str]:
    """Return the first warnings of a memory, each once: one with many unreadable files must not hide the others."""
    different = list(dict.fromkeys(filter(None, warnings)))
    more = len(different) - MAX_WARNINGS
    return [*different[:MAX_WARNINGS], *[f"and {count(more, 'more warning')}: run memsync status there"] * (more > 0)]


def _freshness(results: Mapping[str, SearchResult]) -> Freshness:
    """Return how current the answer is: as current as its least current part. The generation is 0: each has its own."""
    parts = {name: result.freshness for name, result in results.items()}
    return Freshness(
        scanned_at=min(part.scanned_at for part in parts.values()),
        pending_text=sum(part.pending_text for part in parts.values()),
        pending_vectors=sum(part.pending_vectors for part in parts.values()),
        watcher=max((part.watcher for part in parts.values()), key=_WATCHERS.index),
        reason="; ".join(f"{name}: {part.reason}" for name, part in parts.items() if part.reason),
    )
