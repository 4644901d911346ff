"""Return the content of the word index as rows that can be compared between two indexes.

FTS5 keeps no text, only the places of each word. Two indexes give their chunks different ids, so the rows identify a
chunk by its note's path, its ordinal and, in a group, the item.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw

from memsync.index.sqlite.queries import MAX_ITEMS, chunk_of, item_of

_BEGIN = """
CREATE VIRTUAL TABLE IF NOT EXISTS temp.word USING fts5vocab(main, chunk_fts, instance);
CREATE VIRTUAL TABLE IF NOT EXISTS temp.term USING fts5vocab(main, chunk_fts, row);
CREATE TEMP TABLE IF NOT EXISTS place (id INTEGER PRIMARY KEY, number INTEGER NOT NULL);
INSERT OR IGNORE INTO temp.place SELECT c.id, row_number() OVER (ORDER BY n.path, c.ordinal)
FROM chunk c JOIN note n ON n.id = c.note;
"""
# The numbers that bm25 uses: the words of each chunk by column, and the words of all chunks.
_SIZES = f"""
SELECT 'words of', n.path, c.ordinal, {item_of("d.id")}, lower(hex(d.sz)) FROM chunk_fts_docsize d
LEFT JOIN chunk c ON c.id = {chunk_of("d.id")} LEFT JOIN note n ON n.id = c.note ORDER BY n.path, c.ordinal, d.id
"""
# An emptied word index has counts of zero, a new one has no counts: both give an empty string.
_TOTALS = """
SELECT 'words of all', CASE WHEN trim(hex(block), '0') = '' THEN '' ELSE lower(hex(block)) END
FROM chunk_fts_data WHERE id = 1
"""

# (word, number of places, two checksums of them) of every word: checksums, because passing millions of rows to Python
# is slow. A place that belongs to no chunk counts as chunk 0.
_NUMBER = f"(coalesce(p.number, 0) * {MAX_ITEMS} + {item_of('w.doc')})"
_WORDS = f"""
SELECT 'word', w.term, count(*),
       sum(({_NUMBER} * 1000003 + w.offset * 8 + unicode(w.col)) % 2147483647),
       sum(({_NUMBER} * 7368787 + w.offset * 31 + unicode(w.col)) % 1073741789 * (w.offset % 97 + 1))
FROM temp.word w LEFT JOIN temp.place p ON p.id = {chunk_of("w.doc")} GROUP BY w.term ORDER BY w.term
"""

# (word, chunks found by search, chunks found by reading all) of every word that a search finds too rarely or too often.
# `b` finds a word through chunk_fts_idx, as a search does; `a` reads all words in order, without chunk_fts_idx.
_UNFINDABLE = """
SELECT 'word that a search misses', a.term, coalesce(b.doc, 0), a.doc FROM temp.term a
LEFT JOIN temp.term b ON b.term = a.term WHERE b.doc IS NOT a.doc OR b.cnt IS NOT a.cnt ORDER BY a.term
"""
# The number of segments of the word index that have pages, but no first page for a search to begin at. Segments are
# numbered from 1. The id of a page has the segment's number from bit 37 up; 2^16 is added for a segment's deletions.
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
    """Yield the content of the word index; equal files give equal rows. Call it only in a transaction."""
    yield from database.execute(_SIZES)
    yield from database.execute(_TOTALS)
    _make_tables(database)
    yield from database.execute(_WORDS)
    yield from database.execute(_UNFINDABLE)


def closed_segments(database: apsw.Connection) -> int:
    """Return how many segments of the word index no search can enter; 0 in a sound index."""
    return int(str(database.execute(_CLOSED_SEGMENTS).get))


def places_of_word(database: apsw.Connection, word: str) -> list[tuple[Any, ...]]:
    """Return every place of one word, with its note. Call it only in a transaction."""
    _make_tables(database)
    return list(database.execute(_PLACES, (word,)))


def _make_tables(database: apsw.Connection) -> None:
    """Make the temporary tables that the statements read; they vanish with the transaction."""
    for _ in database.execute(_BEGIN):
        pass
