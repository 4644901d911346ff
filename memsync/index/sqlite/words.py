"""The word index as rows that can be compared: FTS5 keeps no text, only which word is where.

Two indexes number their chunks differently, so each chunk counts by its place: notes by path, chunks by ordinal, and
in a group the entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw

from memsync.index.sqlite.queries import MOST_ITEMS, chunk_of, item_of

_BEGIN = """
CREATE VIRTUAL TABLE IF NOT EXISTS temp.word USING fts5vocab(main, chunk_fts, instance);
CREATE VIRTUAL TABLE IF NOT EXISTS temp.term USING fts5vocab(main, chunk_fts, row);
CREATE TEMP TABLE IF NOT EXISTS place (id INTEGER PRIMARY KEY, number INTEGER NOT NULL);
INSERT OR IGNORE INTO temp.place SELECT c.id, row_number() OVER (ORDER BY n.path, c.ordinal)
FROM chunk c JOIN note n ON n.id = c.note;
"""
# What bm25 knows of each chunk, its number of words by column, and of all.
_SIZES = f"""
SELECT 'words of', n.path, c.ordinal, {item_of("d.id")}, lower(hex(d.sz)) FROM chunk_fts_docsize d
LEFT JOIN chunk c ON c.id = {chunk_of("d.id")} LEFT JOIN note n ON n.id = c.note ORDER BY n.path, c.ordinal, d.id
"""
# A word index that was emptied counts zeros, a new one has no counts yet.
_TOTALS = """
SELECT 'words of all', CASE WHEN trim(hex(block), '0') = '' THEN '' ELSE lower(hex(block)) END
FROM chunk_fts_data WHERE id = 1
"""

# (word, number of places, two sums over them) of every word: sums, because rows by the million are not brought to
# Python. A place that belongs to no chunk counts as the chunk 0.
_NUMBER = f"(coalesce(p.number, 0) * {MOST_ITEMS} + {item_of('w.doc')})"
_WORDS = f"""
SELECT 'word', w.term, count(*),
       sum(({_NUMBER} * 1000003 + w.offset * 8 + unicode(w.col)) % 2147483647),
       sum(({_NUMBER} * 7368787 + w.offset * 31 + unicode(w.col)) % 1073741789 * (w.offset % 97 + 1))
FROM temp.word w LEFT JOIN temp.place p ON p.id = {chunk_of("w.doc")} GROUP BY w.term ORDER BY w.term
"""

# (word, chunks by search, chunks by reading all) of every word that a search does not find as often as it is there.
# A search goes to a word through chunk_fts_idx, and so does `b`, because the word is given; `a` reads all words in
# order and does without.
_UNFINDABLE = """
SELECT 'word that a search misses', a.term, coalesce(b.doc, 0), a.doc FROM temp.term a
LEFT JOIN temp.term b ON b.term = a.term WHERE b.doc IS NOT a.doc OR b.cnt IS NOT a.cnt ORDER BY a.term
"""
# Segments of the word index that have pages, but no first page to search from. Segments are numbered from 1; their
# pages have the segment in the bits from the 38th of their id, and deletions of theirs come after 2^16.
_CLOSED_SEGMENTS = """
WITH RECURSIVE segment (number) AS (
    SELECT (SELECT min(id) >> 37 FROM chunk_fts_data WHERE id >= 1 << 37)
    UNION ALL
    SELECT (SELECT min(id) >> 37 FROM chunk_fts_data WHERE id >= (number + 1) << 37) FROM segment
    WHERE number IS NOT NULL
)
SELECT count(*) FROM segment
WHERE number < 1 << 16 AND NOT EXISTS (SELECT 1 FROM chunk_fts_idx WHERE segid = number AND term = x'')
"""

# (path, ordinal, entry, column, position) of one word, by place.
_PLACES = f"""
SELECT 'word', w.term, n.path, c.ordinal, {item_of("w.doc")}, w.col, w.offset FROM temp.word w
LEFT JOIN chunk c ON c.id = {chunk_of("w.doc")} LEFT JOIN note n ON n.id = c.note
WHERE w.term = ? ORDER BY n.path, c.ordinal, w.doc, w.col, w.offset
"""


def word_rows(database: apsw.Connection) -> Iterator[tuple[Any, ...]]:
    """Yield what the word index holds, in an order that is the same for equal files. Only within a transaction."""
    yield from database.execute(_SIZES)
    yield from database.execute(_TOTALS)
    _make_tables(database)
    yield from database.execute(_WORDS)
    yield from database.execute(_UNFINDABLE)


def closed_segments(database: apsw.Connection) -> int:
    """Return how many parts of the word index no search can enter, without reading them; 0 in a sound index."""
    return int(str(database.execute(_CLOSED_SEGMENTS).get))


def places_of_word(database: apsw.Connection, word: str) -> list[tuple[Any, ...]]:
    """Return every place of one word, with its note. Only within a transaction."""
    _make_tables(database)
    return list(database.execute(_PLACES, (word,)))


def _make_tables(database: apsw.Connection) -> None:
    """Make the tables that the statements read: this connection's own, and gone with the transaction."""
    for _ in database.execute(_BEGIN):
        pass
