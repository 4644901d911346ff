"""Make the words of a row of the index, and the queries that find them, in the forms of PostgreSQL's text search.

PostgreSQL knows only lexemes here: FTS5's own tokenizer makes them, so both backends have the same words.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, cast

import apsw

from memsync.index.fields import phrases_of

TOKENIZER = ("porter", ("unicode61", "remove_diacritics", "2"))
LABELS = "ABCD"
"""The labels of the columns body, heading and date, context, cjk."""
MAX_LETTERS = 250
"""Longer words are cut: a lexeme has fewer than 2,048 bytes."""
MAX_PLACE = 16_383
"""A tsvector counts no further. What a row has beyond is not searched."""
MAX_ROW_LETTERS = 200_000
"""A tsvector is smaller than a megabyte."""
_K1, _B = 1.2, 0.75


class RowWords(NamedTuple):
    """The words of one row of the index: the places of each with their labels, as in a tsvector, and their number."""

    places: dict[str, str]
    length: int

    def vector(self, memory: int) -> str:
        """Return the tsvector, with the word that every row of this memory has."""
        return " ".join([memory_word(memory), *(f"'{word}':{places}" for word, places in self.places.items())])


class _ThreadTokenizer(threading.local):
    """Each thread's own tokenizer, because two threads may not use one connection at once."""

    def __init__(self) -> None:
        name, arguments = TOKENIZER
        self.read = apsw.Connection(":memory:").fts5_tokenizer(name, list(arguments))


_TOKENIZER = _ThreadTokenizer()


@lru_cache(maxsize=2_048)
def words_of(text: str) -> Sequence[str]:
    """Return the words that FTS5 indexes for a text, in order; they have only letters and digits."""
    found = _TOKENIZER.read(
        text.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False
    )
    return [word[:MAX_LETTERS] for word in cast("list[str]", found)]


def row_words(columns: Sequence[str]) -> RowWords:
    """Return the words of a row from its columns. No phrase is in two: a place between them is left free."""
    places: dict[str, list[str]] = {}
    place = letters = length = 0
    for label, text in zip(LABELS, columns, strict=True):
        words = words_of(text) if text else ()
        length += len(words)
        for word in words:
            letters += len(word)
            place += 1
            if place <= MAX_PLACE and letters <= MAX_ROW_LETTERS:
                places.setdefault(word, []).append(f"{place}{label}")
        place += 1
    return RowWords({word: ",".join(known) for word, known in places.items()}, length)


def memory_word(memory: int) -> str:
    """Return the word that every row of a memory has, and no text: the index of all memories then finds one's rows."""
    return f"':{memory}'"


class Term(NamedTuple):
    """What a query looks for in one column: words one after the other, as in `Phrase`."""

    words: tuple[str, ...]
    is_cjk: bool
    is_prefix: bool

    @property
    def word(self) -> str:
        """The only word, if any column and only the whole word will do."""
        return self.words[0] if len(self.words) == 1 and not (self.is_cjk or self.is_prefix) else ""

    @property
    def query(self) -> str:
        """The tsquery."""
        labels = ":D" if self.is_cjk else ""
        terms = [f"'{word}'{labels}" for word in self.words]
        terms[-1] += ("" if labels else ":") + "*" if self.is_prefix else ""
        return " <-> ".join(terms)

    def weight_in(self, vector: str) -> float:
        """Return how often a row has the term, given its tsvector; each time by the weight of the column."""
        if self.word:  # most terms, and four times as fast
            places_of_word = _patterns(self)[0].search(vector)
            return places_of_word[1].count(",") + 1 - places_of_word[1].count("C") / 2 if places_of_word else 0.0
        places: dict[int, str] | None = None
        for shift, pattern in enumerate(_patterns(self)):
            found = {
                int(number) - shift: label
                for known in pattern.findall(vector)
                for number, label in _PLACE.findall(known)
            }
            places = found if places is None else {start: label for start, label in places.items() if start in found}
        return sum(_WEIGHTS[label] for label in (places or {}).values() if not (self.is_cjk and label))


_PLACE = re.compile("([0-9]+)([ABC]?)")
_WEIGHTS = {"A": 1.0, "B": 1.0, "C": 0.5, "": 1.0}
"""The weights of the columns for bm25; PostgreSQL leaves the last label out."""


@lru_cache(maxsize=512)
def _patterns(term: Term) -> Sequence[re.Pattern[str]]:
    """Return what finds the places of each word of a term in a tsvector."""
    more = ["", *[""] * (len(term.words) - 2), "[^']*" if term.is_prefix else ""][-len(term.words) :]
    return [
        re.compile(f"'{re.escape(word)}{ending}':([0-9ABC,]+)") for word, ending in zip(term.words, more, strict=True)
    ]


def terms_of(texts: Iterable[str]) -> list[Term]:
    """Return what words or phrases of a query look for, each once."""
    phrases = (phrase for text in texts for phrase in phrases_of(text))
    terms = (Term(tuple(words_of(phrase.text)), phrase.is_cjk, phrase.is_prefix) for phrase in phrases)
    return list(dict.fromkeys(term for term in terms if term.words))


def any_of(terms: Iterable[Term]) -> str:
    """Return a tsquery for rows with at least one of the terms."""
    return " | ".join(term.query for term in terms)


def every_of(terms: Iterable[Term]) -> str:
    """Return a tsquery for rows with every term."""
    return " & ".join(term.query for term in terms)


def idf(rows: int, total: int) -> float:
    """Return the inverse document frequency of a term that `rows` of all rows have."""
    return max(1e-6, math.log((total - rows + 0.5) / (rows + 0.5)))


def bm25(vector: str, length: float, idfs: Mapping[Term, float]) -> float:
    """Return the bm25 of a row, given its tsvector and its length over the mean length."""
    counts = ((weight, term.weight_in(vector)) for term, weight in idfs.items())
    norm = _K1 * (1 - _B + _B * length)
    return sum(weight * count * (_K1 + 1) / (count + norm) for weight, count in counts)
