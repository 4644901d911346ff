"""Of passages that answer a question alike, put the newer first; the older if it asks for the past. Pure.

Nothing marks most statements that later ones replace: "coverage is 65 %", and a month later "coverage is 78 %". Two
passages of the owner's logs or conversations answer alike if they are about equally probable and share most of their
words, or if the question asks for a quantity and both state a number. Facts that never change look the same, so a wider
rule would disturb them: without these conditions, hit@1 of single facts fell by 0.08.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from memsync.model.answer import holds
from memsync.model.vocabulary import Kind, Origin
from memsync.notes.entry_text import stems
from memsync.search.spans import Span
from memsync.search.stop_words import STOP_WORDS

FIRST = 5
"""How many of the first passages may change places."""
CONSIDERED = 30
PROBABLE = 0.85
"""A passage answers as well as the first one with at least this share of its probability."""
SHARED_WORDS = 0.7
"""The share of the words of the shorter of two passages that makes them alike."""
MIN_SHARED = 2
_PRESENT = re.compile(
    r"^\W*(?:what|which|who|where|how (?:many|much|often|long|far|old|big|large|fast))\b"
    r".*?\b(?:is|are|am|has|have|do|does|can)\b|^\W*(?:who|what|where)'s\b",
    re.IGNORECASE | re.DOTALL,
)
_PAST = re.compile(
    r"\b(?:was|were|did|had|used to|previously|originally|initially|earlier|formerly|when|at first|ago|back then"
    r"|ever)\b",
    re.IGNORECASE,
)
_FORMER = re.compile(r"\b(?:used to|previously|originally|initially|formerly|at first|back then)\b", re.IGNORECASE)
_QUANTITY = re.compile(
    r"\bhow (?:many|much|long|often|far|old|big|large|high|fast)\b|\b(?:percentage|percent|number|amount|rate|deadline"
    r"|date|price|cost|quota|limit|score|version|average|total|budget|time|count|size|coverage|accuracy|duration|balance"
    r"|salary|rent|age)\b",
    re.IGNORECASE,
)
_HEAD = re.compile(r"^(?:##[^\n]*\n+|\s*[-*+]\s+(?:\d{1,2}:\d\d\s+)?)")
_NUMBER = re.compile(r"\d")


def asks_for_past(question: str) -> bool:
    """Tell whether a question asks for what held before."""
    return _FORMER.search(question) is not None


def by_time(
    spans: Sequence[Span], question: str, text_of: Callable[[Span], str | None], chance: Callable[[float], float]
) -> list[Span]:
    """Return spans in a new order, and let those that changed places exchange their scores.

    `text_of` returns the text of a span, None if it has changed; `chance` converts its score to a probability.
    """
    is_former = asks_for_past(question)
    is_asked = is_former or (_PRESENT.search(question) and not _PAST.search(question))
    least = PROBABLE * chance(spans[0].score) if spans else 0.0
    if not is_asked or not least:
        return list(spans)
    ordered, free = list(spans), []
    for place, span in enumerate(spans[:CONSIDERED]):
        may_change = span.shown.kind in (Kind.DAILY, Kind.THREAD) and span.shown.origin == Origin.OWNER
        if (
            may_change
            and _moment(span)
            and holds(span.best.validity)
            and chance(span.score) >= least
            and (text := text_of(span))
        ):
            free.append((place, span, _HEAD.sub("", text)))
    asks_for_number = _QUANTITY.search(question) is not None
    free = [one for one in free if not asks_for_number or _NUMBER.search(one[2])][:FIRST]
    while free:
        place, span, text = free[0]
        group = [one for one in free if one[0] == place or asks_for_number or _are_alike(text, one[2])]
        free = [one for one in free if one not in group]
        moved = sorted((one[1] for one in group), key=_moment, reverse=not is_former)
        for (place, _, _), mover, score in zip(group, moved, [one[1].score for one in group], strict=True):
            ordered[place] = mover
            if mover.score != score:
                mover.best.add("its time", score - mover.score)
    return ordered


def _moment(span: Span) -> str:
    return next((entry.time for entry in span.entries if entry.time), span.shown.note_date)


def _are_alike(left: str, right: str) -> bool:
    words = [{*stems(text)} - STOP_WORDS for text in (left, right)]
    shared = len(words[0] & words[1])
    return shared >= max(MIN_SHARED, SHARED_WORDS * min(map(len, words)))
