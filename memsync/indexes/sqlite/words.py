"""The word index as rows that can be compared: FTS5 keeps no text, only which word is where.

Two indexes number their chunks differently, so each chunk counts by its place: notes by path, chunks by ordinal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw

_BEGIN = """
CREATE VIRTUAL TABLE IF NOT EXISTS temp.word USING fts5vocab(main, chunk_fts, instance);
CREATE TEMP TABLE IF NOT EXISTS place (id INTEGER PRIMARY KEY, number INTEGER NOT NULL);
INSERT OR IGNORE INTO temp.place SELECT c.id, row_number() OVER (ORDER BY n.path, c.ordinal)
FROM chunk c JOIN note n ON n.id = c.note;
"""
# What bm25 knows of each chunk, its number of words by column, and of all.
_SIZES = """
SELECT 'words of', n.path, c.ordinal, lower(hex(d.sz)) FROM chunk_fts_docsize d
LEFT JOIN chunk c ON c.id = d.id LEFT JOIN note n ON n.id = c.note ORDER BY n.path, c.ordinal, d.id
"""
# A word index that was emptied counts zeros, a new one has no counts yet.
_TOTALS = """
SELECT 'words of all', CASE WHEN trim(hex(block), '0') = '' THEN '' ELSE lower(hex(block)) END
FROM chunk_fts_data WHERE id = 1
"""

# (word, number of places, two sums over them) of every word: sums, because rows by the million are not brought to
# Python. A place that belongs to no chunk counts as the chunk 0.
_WORDS = """
SELECT 'word', w.term, count(*),
       sum((coalesce(p.number, 0) * 1000003 + w.offset * 8 + unicode(w.col)) % 2147483647),
       sum((coalesce(p.number, 0) * 7368787 + w.offset * 31 + unicode(w.col)) % 1073741789 * (w.offset % 97 + 1))
FROM temp.word w LEFT JOIN temp.place p ON p.id = w.doc GROUP BY w.term ORDER BY w.term
"""

# (path, ordinal, column, position) of one word, by place.
_PLACES = """
SELECT 'word', w.term, n.path, c.ordinal, w.col, w.offset FROM temp.word w
LEFT JOIN chunk c ON c.id = w.doc LEFT JOIN note n ON n.id = c.note
WHERE w.term = ? ORDER BY n.path, c.ordinal, w.col, w.offset
"""


def word_rows(database: apsw.Connection) -> Iterator[tuple[Any, ...]]:
    """Yield what the word index holds, in an order that is the same for equal files. Only within a transaction."""
    yield from database.execute(_SIZES)
    yield from database.execute(_TOTALS)
    _make_tables(database)
    yield from database.execute(_WORDS)


def places_of_word(database: apsw.Connection, word: str) -> list[tuple[Any, ...]]:
    """Return every place of one word, with its note. Only within a transaction."""
    _make_tables(database)
    return list(database.execute(_PLACES, (word,)))


def _make_tables(database: apsw.Connection) -> None:
    """Make the tables that the statements read: this connection's own, and gone with the transaction."""
    for _ in database.execute(_BEGIN):
        pass
