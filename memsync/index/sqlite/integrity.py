"""Detect a damaged index without reading any note.

SQLite keeps no checksums, so a lost page is detected but a changed letter is not. The checks are whether every page and
row can be read, and whether the tables agree: each chunk has its words, each passage its vector.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import apsw

from memsync.index.sqlite import schema
from memsync.index.sqlite.queries import IS_OF_CHUNK, chunk_of
from memsync.index.sqlite.vectors import to_int8
from memsync.index.sqlite.words import closed_segments
from memsync.model.vocabulary import Kind, Tier

_SCHEMA = "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL"
_KINDS, _TIERS = (", ".join(f"'{name}'" for name in names) for names in (Kind, Tier))

# Each count is 0 in a sound index. {space} is the number of a space that is not retired.
_COUNTS = {
    "passages without words": (
        f"SELECT count(*) FROM chunk WHERE word_rows <> (SELECT count(*) FROM chunk_fts_docsize d WHERE {IS_OF_CHUNK})"
    ),
    "words of no passage": (
        f"SELECT count(*) FROM chunk_fts_docsize WHERE {chunk_of('id')} NOT IN (SELECT id FROM chunk)"
    ),
    "rows that belong to nothing": "SELECT count(*) FROM pragma_foreign_key_check",
    "texts of no passage": (
        "SELECT count(*) FROM passage p WHERE NOT EXISTS (SELECT 1 FROM chunk c WHERE c.passage = p.id)"
    ),
    "notes with fields that cannot be read": (
        "SELECT count(*) FROM note WHERE NOT json_valid(front_matter) OR NOT json_valid(warnings)"
    ),
    "passages with fields that cannot be read": (
        "SELECT count(*) FROM chunk"
        " WHERE NOT json_valid(heading_path) OR NOT json_valid(attributes) OR NOT json_valid(entries)"
    ),
    "notes of an unknown kind": f"SELECT count(*) FROM note WHERE kind NOT IN ({_KINDS}) OR tier NOT IN ({_TIERS})",
    "messages with fields that cannot be read": "SELECT count(*) FROM message WHERE NOT json_valid(attributes)",
}
_COUNTS_OF_SPACE = {
    "texts without a vector": (
        "SELECT count(*) FROM passage p WHERE NOT EXISTS (SELECT 1 FROM vec_{space}_rowids v WHERE v.rowid = p.id)"
        " AND NOT EXISTS (SELECT 1 FROM pending w WHERE w.space = {space} AND w.passage = p.id)"
    ),
    "vectors of no text": (
        "SELECT count(*) FROM vec_{space}_rowids v LEFT JOIN passage p ON p.id = v.rowid WHERE p.id IS NULL"
    ),
}
# The difference between two row counts: 0 in a sound index.
_WORDS = "SELECT (SELECT total(word_rows) FROM chunk) - (SELECT count(*) FROM chunk_fts_docsize)"
_VECTORS = """
SELECT (SELECT count(*) FROM passage) - (SELECT count(*) FROM vec_{space}_rowids)
     - (SELECT count(*) FROM pending WHERE space = {space})
"""
# Damaged spaces: the dimension differs from the description's, the state is unknown, a retired space still has a vec0
# table, or another space has none.
_SPACES = """
SELECT count(*) FROM space s WHERE description ->> 'dimension' IS NOT dimension
    OR state NOT IN ('active', 'building', 'retired')
    OR (state = 'retired') = EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'vec_' || s.id)
"""
# (int8 vector that searches use, float16 vector that it was made from) of every passage of a space that has one.
_PAIRS = """
SELECT v.embedding, c.value FROM vec_{space} v JOIN passage p ON p.id = v.rowid
LEFT JOIN vector c ON c.hash = p.hash AND c.space = {space}
"""
# (chunk, bits of the used places, rowid in each place) of a vec0 table: what a KNN search reads.
_PLACES = "SELECT chunk_id, validity, rowids FROM vec_{space}_chunks"
# (rowid, chunk, place) of each vector: what a look-up by rowid reads.
_ADDRESSES = "SELECT rowid, chunk_id, chunk_offset FROM vec_{space}_rowids"
_TAKEN = "SELECT validity FROM vec_{space}_chunks"
_ADDRESSED = "SELECT count(*) FROM vec_{space}_rowids"
_HASH = "SELECT lower(hex(hash)) FROM passage WHERE id = ?"


def find_damage(database: apsw.Connection) -> str:
    """Return the first sign of damage, or an empty string. An error on reading the database is a sign, too."""
    try:
        return next(_signs(database), "")
    except (apsw.Error, TypeError, ValueError) as error:
        return str(error) or type(error).__name__


def uneven(database: apsw.Connection) -> str:
    """Return which tables have a wrong number of rows or cannot be searched; an empty string if all is well.

    Takes a millisecond or two.
    """
    if odd := database.execute(_SPACES).get:
        return f"spaces that are not as they are described: {odd}"
    spaces = _live_spaces(database)
    tallies = [("passages and their words", _WORDS)]
    tallies += [("texts and their vectors", _VECTORS.format(space=space)) for space in spaces]
    findings = [f"{name} differ in number" for name, statement in tallies if database.execute(statement).get]
    if closed := closed_segments(database):
        findings.append(f"parts of the word index that no search enters: {closed}")
    for space in spaces:
        taken = sum(int.from_bytes(bits).bit_count() for (bits,) in database.execute(_TAKEN.format(space=space)))
        if taken != (addressed := database.execute(_ADDRESSED.format(space=space)).get):
            findings.append(f"a search by meaning sees {taken} of {addressed} vectors")
    return "; ".join(findings)


def _live_spaces(database: apsw.Connection) -> list[int]:
    return [int(number) for (number,) in database.execute("SELECT id FROM space WHERE state <> 'retired'")]


def unseen_vectors(database: apsw.Connection, space: int) -> list[tuple[str, str]]:
    """Return (message, hexadecimal SHA-256 of its text) of each vector that a search and a look-up place differently.

    Empty for a sound index. A KNN search reads the used places of every chunk; a look-up finds a vector by its rowid.
    """
    seen = {place for row in database.execute(_PLACES.format(space=space)) for place in _taken_places(*row)}
    addresses: set[Any] = set(database.execute(_ADDRESSES.format(space=space)))
    wrong = {number for number, _, _ in seen ^ addresses}
    hashes = (database.execute(_HASH, (number,)).get for number in wrong)
    return [("vector that a search misses", digest) for digest in sorted(str(digest or "") for digest in hashes)]


def _taken_places(chunk: int, validity: bytes, rowids: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield (rowid, chunk, place) of the used places."""
    numbers = array("q", rowids[: len(rowids) // 8 * 8])
    for place, number in enumerate(numbers[: len(validity) * 8]):
        if validity[place // 8] >> place % 8 & 1:
            yield number, chunk, place


def _signs(database: apsw.Connection) -> Iterator[str]:
    own = {(kind, name): sql for kind, name, sql in database.execute(_SCHEMA)}
    yield from (f"{kind} {name} is not as it was made" for (kind, name), _ in schema.made() - own.items())
    for (finding,) in database.execute("PRAGMA integrity_check(1)"):
        if finding != "ok":
            yield str(finding).replace("\n", ": ")
    checks = dict(_COUNTS)
    spaces = _live_spaces(database)
    for space in spaces:
        checks |= {name: statement.format(space=space) for name, statement in _COUNTS_OF_SPACE.items()}
    for name, statement in checks.items():
        if count := int(str(database.execute(statement).get)):
            yield f"{name}: {count}"
    if finding := uneven(database):
        yield finding
    for space in spaces:
        if missed := unseen_vectors(database, space):
            yield f"vectors that a search misses: {len(missed)}"
        pairs = database.execute(_PAIRS.format(space=space))
        if wrong := sum(value is None or to_int8(value) != int8 for int8, value in pairs):
            yield f"vectors that are not those of their text: {wrong}"
