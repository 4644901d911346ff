"""Look up a word that no note has as the notes spell it, and a compound as one word or as two. Pure but for the index.

A typing error is two letters exchanged, one left out, one too many, or a wrong one. The index has stems only, so each
stem is tried with the endings of English words; a word without such an ending is compared as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import add, eq

from msgspec.structs import replace

from memsync.index.fields import cjk_runs
from memsync.model.query import Query
from memsync.model.words import WORD, folded
from memsync.notes.chunk import CountTokens
from memsync.ports import IndexReader
from memsync.search.query_syntax import MAX_WORDS
from memsync.search.stop_words import STOP_WORDS

LEAST_LETTERS, LETTERS_FOR_TWO, MAX_LETTERS = 4, 6, 40
"""The fewest letters of a word in which one error is corrected, and two, and the most."""
EXCHANGED, DOUBLED, LEFT_OUT, WRONG, EXTRA = 8, 8, 9, 10, 11
ONE_ERROR, TWO_ERRORS = EXTRA, 2 * EXTRA
"""The highest cost of one error, and of two."""
ACROSS = 2 * WRONG - EXCHANGED
"""How much less it costs to exchange the last letter of a stem with the next one than to get both wrong."""
ENDS_OTHERWISE = 3
"""How many last letters of a word may differ from the same word in a text."""
MAX_UNKNOWN = 3
"""If more words of a question are unknown, it is about something else."""
FEW_WORDS = 3
"""A query of up to so many words is hardly a sentence: its words may be meant as one word, or a word as two."""
_ENDING_TEXT = """
    e s es ed ing er ers y able ably ability ation ations ate ates ated ating ator ators ative ately al als ally
    ality alize alized alization ion ions ional ic ics ical ically ication ications ive ively ivity ent ents ented
    enting ently ence ences ency ant ants ance ances ity ities ize izes ized izing izer ization ous ously ness ment
    ments ement ements ly ings ful fully less ible ibly ibility ism ist ists ish or ors ely eness
"""
_ENDINGS = _ENDING_TEXT.split()


def respelled(query: Query, index: IndexReader, count_tokens: CountTokens) -> tuple[Query, tuple[str, ...]]:
    """Return a query as the notes spell its words, and the words that were put in place of others."""
    typed = WORD.findall(folded(query.text).lower())[:MAX_WORDS]
    is_short = len(typed) <= FEW_WORDS
    quoted = {word for phrase in query.phrases for word in WORD.findall(folded(phrase).lower())}
    single = [word for word in query.words if _is_word(word) and word not in quoted]
    joined = [first + second for first, second in pairwise(typed) if is_short and _may_be_one(first, second)]
    counts = index.row_counts([*single, *joined])
    unknown = [word for word in single if not counts[word] and word not in STOP_WORDS]
    unknown = unknown if len(unknown) <= MAX_UNKNOWN else []
    misspelled = [word for word, pieces in zip(unknown, count_tokens(unknown), strict=True) if pieces > 1]
    near = ((word, _nearest(word, index, count_tokens, is_sentence=not is_short)) for word in misspelled)
    in_place = {word: known for word, known in near if known}
    others = [pair for pair in joined if counts[pair]]
    others += [two for word in single if is_short and counts[word] and (two := _as_two(word, index))]
    if not in_place and not others:
        return query, ()
    spelled = WORD.sub(lambda word: in_place.get(folded(word[0]).lower(), word[0]), query.text)
    words = tuple(" ".join(in_place.get(part, part) for part in word.split()) for word in query.words)
    return replace(query, text=spelled, words=words, alternatives=tuple(others)), tuple(in_place.values())


def as_written(word: str, texts: Iterable[str]) -> str:
    """Return a word that `respelled` found as one of the texts writes it: its ending was only tried."""
    least = max(LEAST_LETTERS, len(word)) - ENDS_OTHERWISE
    written = {other for text in texts for other in WORD.findall(folded(text).lower()) if other[:least] == word[:least]}
    if " " in word or word in written:
        return word
    alike = {other: sum(map(eq, other, word)) - abs(len(other) - len(word)) / 10 for other in sorted(written)}
    return max(alike, key=lambda other: alike[other], default=word)


def _is_word(word: str) -> bool:
    return word.isalpha() and LEAST_LETTERS <= len(word) <= MAX_LETTERS and not cjk_runs(word)


def _may_be_one(first: str, second: str) -> bool:
    if not (first + second).isalpha() or {first, second} <= STOP_WORDS:
        return False
    return min(len(first), len(second)) > 1 or STOP_WORDS.isdisjoint((first, second))


def _as_two(word: str, index: IndexReader) -> str:
    """Return a compound as the two words that notes have side by side; empty if none has them."""
    counts = index.row_counts([f"{word[:place]} {word[place:]}" for place in range(2, len(word) - 1)])
    return max((two for two in counts if counts[two]), key=lambda two: counts[two], default="")


def _nearest(word: str, index: IndexReader, count_tokens: CountTokens, *, is_sentence: bool) -> str:
    """Return the word of the notes that was probably meant; empty if none is near enough.

    It is the one with the fewest and likeliest errors, then with the same first letter. A blank may be the letter that
    was left out. In a sentence, where a word that no note has is seldom an error, it has one error at most, and
    the model knows the word better than what was typed.
    """
    is_begun = any(index.stems(word))  # it may still be typed: only its last letter may be missing
    is_short = is_sentence or is_begun or len(word) < LETTERS_FOR_TWO
    backwards, errors = _Errors(word[::-1]), _Errors(word)
    endings = [backwards.costs(ending[::-1]) for ending in ("", *_ENDINGS)]
    tails = [min(costs[length] for costs in endings) for length in range(len(word), -1, -1)]
    for allowed in (ONE_ERROR,) if is_short else (ONE_ERROR, TWO_ERRORS):
        for beginning in (word,) if is_begun else (word[0], ""):
            stems = [stem for stem in index.stems(beginning) if _may_be_near(stem, word, allowed)]
            near = [stem for stem in stems if min(map(add, errors.costs(stem), tails)) <= allowed + ACROSS]
            costs = _known_forms(near, errors, allowed, index)
            pieces = dict(zip((word, *costs), count_tokens([word, *costs]), strict=True))
            known = [form for form in costs if not is_sentence or pieces[form] < pieces[word]]
            if known:
                return min(known, key=lambda form: (costs[form][0], form[0] != word[0], pieces[form], -costs[form][1]))
        if allowed == ONE_ERROR and (two := _as_two(word, index)):
            return two
    return ""


def _known_forms(stems: Sequence[str], errors: _Errors, allowed: int, index: IndexReader) -> dict[str, tuple[int, int]]:
    """Return words that the notes may have, with the cost of the errors and the number of rows with the stem."""
    near: dict[str, int] = {}
    for stem in stems:
        forms = (form for form in _forms(stem) if abs(len(form) - len(errors.typed)) * ONE_ERROR <= allowed)
        near |= {form: cost for form in forms if (cost := errors.costs(form)[-1]) <= allowed}
    return {form: (near[form], rows) for form, rows in index.row_counts(sorted(near)).items() if rows}


def _may_be_near(stem: str, word: str, allowed: int) -> bool:
    """Tell in much less time than the costs take whether a stem may be that of a word near to `word`."""
    certain = stem[:-1]  # the last letter may be another in the word: hide in hiding, tri in try
    if len(stem) > len(word) + 2 or len(set(certain) - set(word)) * ONE_ERROR > allowed:
        return False
    if stem[0] == word[0] or stem[1:3] in word[:4] or stem[2:4] in word[1:5]:
        return True
    return any(stem[place : place + 3] in word for place in range(len(stem) - 2))


def _forms(stem: str) -> Iterator[str]:
    """Yield words that may have this stem; the caller looks which of them have."""
    base = {"e": stem[:-1], "i": f"{stem[:-1]}y"}.get(stem[-1], stem + stem[-1])  # hiding, trying, running
    for ending in ("", *_ENDINGS):
        yield stem + ending
        yield base + ending


class _Errors:
    """The errors by which a word was typed instead of others. Their costs are kept for each beginning of a word."""

    def __init__(self, typed: str) -> None:
        self.typed = typed
        self._rows: dict[str, tuple[list[int], list[int]]] = {"": ([], [EXTRA * n for n in range(len(typed) + 1)])}

    def costs(self, meant: str) -> list[int]:
        """Return the cost of the errors for each beginning of the typed text, the empty one first.

        Letters left out, doubled or exchanged are likelier than a certain wrong one, and cost less. Two of these cost
        more than one of any kind.
        """
        return self._both(meant)[1]

    def _both(self, meant: str) -> tuple[list[int], list[int]]:
        """Return the costs for a word without its last letter, and for the whole word."""
        if known := self._rows.get(meant):
            return known
        before, older = self._both(meant[:-1])
        letter, typed, row = meant[-1], self.typed, [LEFT_OUT * len(meant)]
        for j, other in enumerate(typed):
            extra = DOUBLED if other == letter else EXTRA
            cost = min(older[j] + WRONG * (letter != other), older[j + 1] + LEFT_OUT, row[j] + extra)
            if before and j and letter == typed[j - 1] and other == meant[-2]:
                cost = min(cost, before[j - 1] + EXCHANGED)
            row.append(cost)
        self._rows[meant] = older, row
        return older, row
