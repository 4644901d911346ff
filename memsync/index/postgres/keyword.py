"""Find and score the rows that have a query's words, as FTS5 and its bm25 do.

FTS5 computes bm25 in SQLite; here numpy does, from the lists of table `posting`. Words, weights, formula and order of
the sums are the same, so the scores are, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from memsync.index.fields import Phrase
from memsync.index.postgres import queries
from memsync.index.postgres.postings import (
    BLOCK_BITS,
    COLUMN_WEIGHTS,
    is_hashed,
    key_of,
    read_places,
    read_postings,
    words_of,
)
from memsync.index.reading import LAST_CHARACTER

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Whole = NDArray[np.int64]
    Real = NDArray[np.float64]

Rows = Callable[[str, dict[str, Any]], Iterable[tuple[Any, ...]]]
"""Runs a statement of queries.py for one memory and returns its rows."""

_K1, _B = 1.2, 0.75
_CJK = 3
_OFFSET_BITS = 22
_KEY_MARK = "\x02"
"""Begins a key among the counts of words as queries have them: the key of one word may be another word."""
EXACT_POSTINGS = 400_000
"""Up to so many postings, every row with any of the words is scored exactly. Of more, those of the rarest words choose
the candidates."""
CANDIDATE_ROWS = 2_000
"""How many candidates the rarest words choose; their scores count all words."""


class Matches(NamedTuple):
    """The rows that match a phrase, ascending: chunk and item in one number, twice the weighted count, length."""

    rows: Whole
    weights: Whole
    lengths: Whole


class Totals(NamedTuple):
    """What bm25 needs of the whole index: the number of rows and of their words."""

    rows: int
    words: int


class WordIndex:
    """The word index of one memory, in one transaction."""

    def __init__(self, rows: Rows, totals: Totals, known_counts: dict[str, int]) -> None:
        """Take the counts that earlier searches of this generation made; new ones are added to them."""
        self._rows = rows
        self._totals = totals
        self._counts = known_counts

    def counts(self, keys: Sequence[str]) -> dict[str, int]:
        """Return how many rows have each single word, by its key; words that no row has are missing."""
        if new := [key for key in keys if f"{_KEY_MARK}{key}" not in self._counts]:
            found: dict[str, Any] = dict(self._rows(queries.COUNTS_OF_WORDS, {"words": new}))
            self._counts.update((f"{_KEY_MARK}{key}", int(found.get(key, 0))) for key in new)
        return {key: count for key in keys if (count := self._counts[f"{_KEY_MARK}{key}"])}

    def matches(self, phrase: Phrase) -> Matches:
        """Return the rows that have a phrase."""
        keys = [key_of(word) for word in words_of(phrase.text)]
        if not keys:
            return _nothing()
        if len(keys) == 1 and not phrase.is_cjk and not phrase.is_prefix:
            return self._lists(keys, None).get(keys[0]) or _nothing()
        return self._in_sequence(keys, phrase)

    def score(
        self,
        required: Sequence[Phrase],
        optional: Sequence[Phrase],
        within: Whole | None,
        limit: int,
        *,
        is_tested_later: bool = False,
    ) -> tuple[dict[int, float], dict[int, float]]:
        """Return the bm25 of the best rows with at least one of the phrases, and of those with every required one.

        Both are best first; higher is better. There are at least `limit` rows, if so many have the phrases. With
        `is_tested_later` all are returned that are known, because nobody can tell yet how many of them pass a filter.
        """
        import numpy as np

        phrases = list(dict.fromkeys([*required, *optional]))
        keys = {phrase: [key_of(word) for word in words_of(phrase.text)] for phrase in phrases}
        single = [p for p in phrases if len(keys[p]) == 1 and not p.is_cjk and not p.is_prefix]
        counts = self.counts([keys[phrase][0] for phrase in single])
        frequent = self._too_frequent(counts) if within is None else set()
        chosen = [phrase for phrase in phrases if not (phrase in single and keys[phrase][0] in frequent)]
        lists = self._lists([keys[p][0] for p in single if keys[p][0] in counts and keys[p][0] not in frequent], within)
        found: dict[Phrase, Matches] = {}
        idfs = {phrase: self._idf(counts.get(keys[phrase][0], 0)) for phrase in single}
        for phrase in chosen:
            if phrase in single:
                found[phrase] = _kept(lists.get(keys[phrase][0], _nothing()), within)
            else:
                every = self.matches(phrase)
                found[phrase], idfs[phrase] = _kept(every, within), self._idf(len(every.rows))
        rows, scores, present = self._sum([(idfs[phrase], found[phrase], phrase in required) for phrase in chosen])
        if frequent and len(rows):
            best = np.sort(rows[np.argsort(-scores, kind="stable")[: max(CANDIDATE_ROWS, 4 * limit)]])
            rest = [phrase for phrase in phrases if phrase not in found]
            more = self._lists([keys[phrase][0] for phrase in rest], None, best >> (8 + BLOCK_BITS))
            found |= {phrase: more.get(keys[phrase][0], _nothing()) for phrase in rest}
            kept = {phrase: _only(matches, _are_in(matches.rows, best)) for phrase, matches in found.items()}
            rows, scores, present = self._sum([(idfs[p], kept[p], p in required) for p in phrases])
        most = len(rows) if is_tested_later else limit
        has_every = present == max(len(required), 2)
        return _best_first(rows, scores, most), _best_first(rows[has_every], scores[has_every], most)

    def _too_frequent(self, counts: Mapping[str, int]) -> set[str]:
        """Return the most frequent words, without which the others have no more than EXACT_POSTINGS postings."""
        total, frequent = 0, set()
        for number, (word, count) in enumerate(sorted(counts.items(), key=lambda item: (item[1], item[0]))):
            total += count
            if total > EXACT_POSTINGS and number:
                frequent.add(word)
        return frequent

    def _idf(self, count: int) -> float:
        idf = math.log((self._totals.rows - count + 0.5) / (count + 0.5)) if self._totals.rows else 0.0
        return idf if idf > 0.0 else 1e-6

    def _sum(self, matches: Sequence[tuple[float, Matches, bool]]) -> tuple[Whole, Real, Whole]:
        """Return each row that has any phrase, ascending, with its bm25 and the number of required ones that it has.

        It adds phrase by phrase, as FTS5 does.
        """
        import numpy as np

        every = [found.rows for _, found, _ in matches]
        rows = merged(every) if every else np.empty(0, np.int64)
        scores, numbers = np.zeros(len(rows)), np.zeros(len(rows), np.int64)
        mean = self._totals.words / self._totals.rows if self._totals.rows else 1.0
        for idf, found, is_required in matches:
            counts = found.weights / 2.0
            shares = idf * ((counts * (_K1 + 1.0)) / (counts + _K1 * (1 - _B + _B * found.lengths / mean)))
            places = np.searchsorted(rows, found.rows)
            scores[places] += shares
            numbers[places] += is_required
        return rows, scores, numbers

    def _lists(self, keys: Sequence[str], within: Whole | None, blocks: Whole | None = None) -> dict[str, Matches]:
        """Return the rows that have each word; only in some blocks, or in those of the chunks `within`."""
        if within is not None and blocks is None:
            blocks = within >> BLOCK_BITS
        if not keys:
            return {}
        if blocks is None:
            rows = self._rows(queries.POSTINGS, {"words": list(keys)})
        else:
            numbers = merged([blocks]).tolist()
            rows = self._rows(queries.POSTINGS_OF_BLOCKS, {"words": list(keys), "blocks": numbers})
        return {key: _matches(read_postings([postings])) for key, postings in rows}

    def _in_sequence(self, keys: Sequence[str], phrase: Phrase) -> Matches:
        """Return the rows that have the words one after the other in one column."""
        import numpy as np

        by_last = self.stems(keys[-1]) if phrase.is_prefix else [keys[-1]]
        lists = self._places({*keys[:-1], *by_last})
        starts: Whole | None = None
        for shift, alternatives in enumerate([*([key] for key in keys[:-1]), by_last]):
            known = [lists[key] for key in alternatives if key in lists]
            if not known:
                return _nothing()
            places = np.concatenate([places for places, _ in known])
            places = places[(places & ((1 << _OFFSET_BITS) - 1)) >= shift] - shift
            places = merged([places])
            starts = places if starts is None else np.intersect1d(starts, places, assume_unique=True)
            if shift == 0:
                first = np.concatenate([rows for _, rows in known])
        assert starts is not None
        column = (starts >> _OFFSET_BITS) & 3
        if phrase.is_cjk:
            starts = starts[column == _CJK]
            column = column[column == _CJK]
        if not len(starts):
            return _nothing()
        rows, place_row = np.unique(starts >> (_OFFSET_BITS + 2), return_inverse=True)
        weights = np.bincount(place_row, np.array(COLUMN_WEIGHTS)[column], len(rows)).astype(np.int64)
        by_row = first[np.argsort(first[:, 0], kind="stable")]
        return Matches(rows, weights, by_row[np.searchsorted(by_row[:, 0], rows), 1])

    def stems(self, beginning: str) -> list[str]:
        """Return the stems with this beginning, without those that are too long to be keys."""
        rows = self._rows(queries.WORDS_WITH_PREFIX, {"prefix": beginning, "after": beginning + LAST_CHARACTER})
        return [word for (word,) in rows if not is_hashed(word)]

    def _places(self, keys: Iterable[str]) -> dict[str, tuple[Whole, Whole]]:
        """Return for each word its places, as (row, column, offset) in one number, and (row, length) of its rows."""
        import numpy as np

        result = {}
        for key, postings, places in self._rows(queries.PLACES, {"words": list(keys)}):
            found = _matches(read_postings([postings]))
            posting, column, offset = read_places([places])
            position = column.astype(np.int64) << _OFFSET_BITS | offset
            result[key] = (
                found.rows[posting] << (_OFFSET_BITS + 2) | position,
                np.column_stack([found.rows, found.lengths]),
            )
        return result


def _matches(postings: Any) -> Matches:
    import numpy as np

    chunk, packed, length = postings.T.astype(np.int64)
    return Matches(chunk << 8 | (packed & 255), packed >> 8, length)


def merged(lists: Sequence[Whole]) -> Whole:
    """Return the numbers of several ascending lists, ascending and each once.

    np.unique would hash them, which takes 20 times as long.
    """
    import numpy as np

    rows = np.concatenate(lists)
    rows.sort(kind="stable")
    is_first = np.ones(len(rows), dtype=bool)
    np.not_equal(rows[1:], rows[:-1], out=is_first[1:])
    return rows[is_first]


def _kept(found: Matches, within: Whole | None) -> Matches:
    """Return the matches in the chunks `within`."""
    return found if within is None else _only(found, _are_in(found.rows >> 8, within))


def _only(found: Matches, is_kept: NDArray[np.bool_]) -> Matches:
    return Matches(*(values[is_kept] for values in found))


def _are_in(numbers: Whole, ascending: Whole) -> NDArray[np.bool_]:
    """Tell for each number whether it is in an ascending list."""
    import numpy as np

    if not len(ascending):
        return np.zeros(len(numbers), dtype=bool)
    places = np.minimum(np.searchsorted(ascending, numbers), len(ascending) - 1)
    is_in: NDArray[np.bool_] = ascending[places] == numbers
    return is_in


def _best_first(rows: Whole, scores: Real, limit: int) -> dict[int, float]:
    """Return the best rows with their scores, best first; more than the limit if scores are equal."""
    import numpy as np

    if limit < len(rows):
        is_best = scores >= np.partition(scores, -limit)[-limit]
        rows, scores = rows[is_best], scores[is_best]
    order = np.lexsort((rows, -scores))
    return dict(zip(rows[order].tolist(), scores[order].tolist(), strict=True))


def _nothing() -> Matches:
    import numpy as np

    return Matches(*(np.empty(0, np.int64) for _ in Matches._fields))
