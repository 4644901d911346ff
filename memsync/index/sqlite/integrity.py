"""Detect a damaged index without reading any note.

SQLite keeps no checksums, so a lost page is detected but a changed letter is not. The checks are whether every page and
row can be read, and whether the tables have as many rows as they should. `verify` also compares the content with that
of a new index, so nothing here compares rows of two tables with each other.

`word_rows` gives the word index in a form that can be compared between two indexes. FTS5 keeps no text, only the places
of each word. Two indexes give their chunks different ids, so the rows identify a chunk by its note's path, its ordinal
and, in a group, the item.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from functools import cache
from typing import Any

import apsw

from memsync.index.sqlite import schema
from memsync.index.sqlite.queries import LOCAL_ONLY_PASSAGES, MAX_ITEMS, chunk_of, item_of
from memsync.index.vectors import to_int8
from memsync.model.query import EmbeddingSpace
from memsync.model.text import count
from memsync.model.vocabulary import Kind, Tier

# (type, name, SQL) of every table and index except FTS5's own, which may differ from one SQLite to the next.
_DEFINITIONS = "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT GLOB 'chunk_fts_*'"
_KINDS, _TIERS = (", ".join(f"'{name}'" for name in names) for names in (Kind, Tier))
# The number of notes whose kind or tier is none that memsync knows.
_UNKNOWN_KINDS = f"SELECT count(*) FROM note WHERE kind NOT IN ({_KINDS}) OR tier NOT IN ({_TIERS})"
# The number of notes and chunks with JSON that no query can read: a search by such a field would always fail.
_UNREADABLE_JSON = """
SELECT (SELECT count(*) FROM note WHERE NOT json_valid(front_matter) OR NOT json_valid(warnings))
     + (SELECT count(*) FROM chunk WHERE NOT json_valid(attributes) OR NOT json_valid(entries))
"""
# How many rows are missing; negative if there are too many. Both are 0 in a sound index.
_MISSING_WORD_ROWS = "SELECT (SELECT total(word_rows) FROM chunk) - (SELECT count(*) FROM chunk_fts_docsize)"
_MISSING_VECTORS = """
SELECT (SELECT count(*) FROM passage) - (SELECT count(*) FROM vec_{space}_rowids)
     - (SELECT count(*) FROM pending WHERE space = {space})
"""
# The number of damaged spaces: the dimension differs from the description's, the state is unknown, or there is no vec0
# table.
_FAULTY_SPACES = """
SELECT count(*) FROM space s WHERE description ->> 'dimension' IS NOT dimension
    OR state NOT IN ('active', 'building')
    OR NOT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'vec_' || s.id)
"""
# (int8 vector that searches use, float16 vector that it was made from) of every passage of a space that has one.
_INT8_AND_FLOAT16 = """
SELECT v.embedding, c.value FROM vec_{space} v LEFT JOIN vector c ON c.passage = v.rowid AND c.space = {space}
"""
# A vec0 table stores its vectors in the slots of large chunks. What a KNN search reads: (vec0's chunk, a bit for each
# slot that is used, the rowid in each slot).
_SLOTS_BY_CHUNK = "SELECT chunk_id, validity, rowids FROM vec_{space}_chunks"
# What a look-up by rowid reads: (rowid, vec0's chunk, slot) of each vector.
_SLOTS_BY_ROWID = "SELECT rowid, chunk_id, chunk_offset FROM vec_{space}_rowids"
# The same two as numbers only, which takes less time.
_SLOT_BITS = "SELECT validity FROM vec_{space}_chunks"
_COUNT_OF_VECTORS = "SELECT count(*) FROM vector WHERE space = {space}"
_ANY_SEARCH = "SELECT rowid FROM chunk_fts WHERE chunk_fts MATCH 'word' LIMIT 1"
_HASH_OF_PASSAGE = "SELECT lower(hex(hash)) FROM passage WHERE id = ?"

_TEMPORARY_TABLES = """
CREATE VIRTUAL TABLE IF NOT EXISTS temp.word USING fts5vocab(main, chunk_fts, instance);
CREATE VIRTUAL TABLE IF NOT EXISTS temp.term USING fts5vocab(main, chunk_fts, row);
CREATE TEMP TABLE IF NOT EXISTS place (id INTEGER PRIMARY KEY, number INTEGER NOT NULL);
INSERT OR IGNORE INTO temp.place SELECT c.id, row_number() OVER (ORDER BY n.path, c.ordinal)
FROM chunk c JOIN note n ON n.id = c.note;
"""
# What bm25 counts with: the number of words of each chunk by column, and below, of all chunks.
_WORD_COUNTS_BY_CHUNK = f"""
SELECT 'words of', n.path, c.ordinal, {item_of("d.id")}, lower(hex(d.sz)) FROM chunk_fts_docsize d
LEFT JOIN chunk c ON c.id = {chunk_of("d.id")} LEFT JOIN note n ON n.id = c.note ORDER BY n.path, c.ordinal, d.id
"""
# An emptied word index has counts of zero, a new one has no counts: both give an empty string.
_WORD_COUNTS_OF_ALL = """
SELECT 'words of all', CASE WHEN trim(hex(block), '0') = '' THEN '' ELSE lower(hex(block)) END
FROM chunk_fts_data WHERE id = 1
"""

# (word, number of places, two checksums of them) of every word: checksums, because passing millions of rows to Python
# is slow. _CHUNK_AND_ITEM numbers the chunk (0: the place belongs to none) and, in a group, the item.
_CHUNK_AND_ITEM = f"(coalesce(p.number, 0) * {MAX_ITEMS} + {item_of('w.doc')})"
_CHECKSUMS_BY_WORD = f"""
SELECT 'word', w.term, count(*),
       sum(({_CHUNK_AND_ITEM} * 1000003 + w.offset * 8 + unicode(w.col)) % 2147483647),
       sum(({_CHUNK_AND_ITEM} * 7368787 + w.offset * 31 + unicode(w.col)) % 1073741789 * (w.offset % 97 + 1))
FROM temp.word w LEFT JOIN temp.place p ON p.id = {chunk_of("w.doc")} GROUP BY w.term ORDER BY w.term
"""

# (word, chunks found by search, chunks found by reading all) of every word that a search finds too rarely or too often.
# `b` finds a word through chunk_fts_idx, as a search does; `a` reads all words in order, without chunk_fts_idx.
_WORDS_SEARCHES_MISS = """
SELECT 'word that a search misses', a.term, coalesce(b.doc, 0), a.doc FROM temp.term a
LEFT JOIN temp.term b ON b.term = a.term WHERE b.doc IS NOT a.doc OR b.cnt IS NOT a.cnt ORDER BY a.term
"""
# The number of segments of the word index that have pages, but no first page for a search to begin at. Segments are
# numbered from 1. The id of a page has the segment's number from bit 37 up; 2^16 is added for a segment's deletions.
_SEGMENTS_WITHOUT_FIRST_PAGE = """
WITH RECURSIVE segment (number) AS (
    SELECT (SELECT min(id) >> 37 FROM chunk_fts_data WHERE id >= 1 << 37)
    UNION ALL
    SELECT (SELECT min(id) >> 37 FROM chunk_fts_data WHERE id >= (number + 1) << 37) FROM segment
    WHERE number IS NOT NULL
)
SELECT count(*) FROM segment
WHERE number < 1 << 16 AND NOT EXISTS (SELECT 1 FROM chunk_fts_idx WHERE segid = number AND term = x'')
"""


def find_damage(database: apsw.Connection) -> str:
    """Return the first sign of damage, or an empty string. An error on reading the database is a sign, too."""
    try:
        return next(_signs_of_damage(database), "")
    except (apsw.Error, TypeError, ValueError) as error:
        return str(error) or type(error).__name__


def find_miscount(database: apsw.Connection) -> str:
    """Return which tables have a wrong number of rows or cannot be searched, or an empty string. It takes 2 ms."""
    return next(_miscounts(database), "")


def _miscounts(database: apsw.Connection) -> Iterator[str]:
    if space_count := database.execute(_FAULTY_SPACES).get:
        yield f"embedding spaces that differ from their descriptions: {space_count}"
    if database.execute(_MISSING_WORD_ROWS).get:
        yield "chunks and their words differ in number"
    if closed := database.execute(_SEGMENTS_WITHOUT_FIRST_PAGE).get:
        yield f"segments of the word index that no search can read: {closed}"
    for space, is_remote in _live_spaces(database).items():
        local_only = int(str(database.execute(LOCAL_ONLY_PASSAGES).get)) if is_remote else 0
        if database.execute(_MISSING_VECTORS.format(space=space)).get != local_only:
            yield "passages and their vectors differ in number"
        used = sum(int.from_bytes(bits).bit_count() for (bits,) in database.execute(_SLOT_BITS.format(space=space)))
        if used != (known := database.execute(_COUNT_OF_VECTORS.format(space=space)).get):
            yield f"a semantic search sees {used} of {count(int(str(known)), 'vector')}"


def _live_spaces(database: apsw.Connection) -> dict[int, bool]:
    """Return the numbers of the spaces in use, each with whether its model may run on another machine."""
    rows = database.execute("SELECT id, description FROM space")
    return {int(str(number)): EmbeddingSpace.described(str(text)).is_remote for number, text in rows}


def unseen_vectors(database: apsw.Connection, space: int) -> list[tuple[str, str]]:
    """Return (message, hexadecimal SHA-256 of its text) of each vector that a search and a look-up place differently.

    Empty for a sound index. A KNN search reads the used slots of every chunk; a look-up finds a vector by its rowid.
    """
    searched = {slot for row in database.execute(_SLOTS_BY_CHUNK.format(space=space)) for slot in _used_slots(*row)}
    looked_up: set[Any] = set(database.execute(_SLOTS_BY_ROWID.format(space=space)))
    passages = {rowid for rowid, _, _ in searched ^ looked_up}
    hashes = (database.execute(_HASH_OF_PASSAGE, (number,)).get for number in passages)
    return [("vector that a search misses", digest) for digest in sorted(str(digest or "") for digest in hashes)]


def _used_slots(chunk: int, validity: bytes, rowids: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield (rowid, chunk, slot) of the used slots of a chunk of vec0."""
    numbers = array("q", rowids[: len(rowids) // 8 * 8])
    for slot, rowid in enumerate(numbers[: len(validity) * 8]):
        if validity[slot // 8] >> slot % 8 & 1:
            yield rowid, chunk, slot


def _signs_of_damage(database: apsw.Connection) -> Iterator[str]:
    for kind, name, _ in _own_tables().difference(database.execute(_DEFINITIONS)):
        yield f"{kind} {name} has another definition than in a new index"
    # A search makes FTS5 read the list of its segments again. The check would use the one that this connection read
    # last, and report damage if another connection has merged segments since.
    database.execute(_ANY_SEARCH).get  # noqa: B018 (because reading the row runs the statement)
    for (finding,) in database.execute("PRAGMA integrity_check(1)"):
        if finding != "ok":
            yield str(finding).replace("\n", ": ")
    if unknown := database.execute(_UNKNOWN_KINDS).get:
        yield f"notes of an unknown kind: {unknown}"
    if unreadable := database.execute(_UNREADABLE_JSON).get:
        yield f"notes and chunks with fields that cannot be read: {unreadable}"
    yield from _miscounts(database)
    for space in _live_spaces(database):
        if unseen := unseen_vectors(database, space):
            yield f"vectors that a search misses: {len(unseen)}"
        pairs = database.execute(_INT8_AND_FLOAT16.format(space=space))
        if unequal := sum(value is None or to_int8(value) != int8 for int8, value in pairs):
            yield f"vectors whose int8 and float16 forms differ: {unequal}"


@cache
def _own_tables() -> frozenset[tuple[Any, ...]]:
    """Return (type, name, SQL) of each of our tables and indexes in a new database."""
    connection = apsw.Connection(":memory:")
    schema.run_all(connection, schema.TABLES)
    return frozenset(connection.execute(_DEFINITIONS))


def word_rows(database: apsw.Connection) -> Iterator[tuple[Any, ...]]:
    """Yield the content of the word index; equal files give equal rows. Call it only in a transaction."""
    yield from database.execute(_WORD_COUNTS_BY_CHUNK)
    yield from database.execute(_WORD_COUNTS_OF_ALL)
    schema.run_all(database, _TEMPORARY_TABLES)  # they vanish with the transaction
    yield from database.execute(_CHECKSUMS_BY_WORD)
    yield from database.execute(_WORDS_SEARCHES_MISS)
