"""Compare the tables of one memory with each other, without reading any note."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memsync.index.postgres import queries
from memsync.index.postgres.postings import read_places, read_postings

if TYPE_CHECKING:
    from memsync.index.postgres.reader import PostgresReader

# What may be wrong -> how often it is: 0 in a sound memory.
_FAULTS = {
    "chunks without a note": (
        "SELECT count(*) FROM chunk c WHERE c.root = %(root)s"
        " AND NOT EXISTS (SELECT FROM note n WHERE n.root = c.root AND n.id = c.note)"
    ),
    "chunks without their passage": (
        "SELECT count(*) FROM chunk c WHERE c.root = %(root)s AND (c.form NOT IN ('heading', 'field')) <> EXISTS"
        " (SELECT FROM passage p WHERE p.root = c.root AND p.id = c.passage)"
    ),
    "passages without a chunk": (
        "SELECT count(*) FROM passage p WHERE p.root = %(root)s"
        " AND NOT EXISTS (SELECT FROM chunk c WHERE c.root = p.root AND c.passage = p.id)"
    ),
    "passages that have no vector and wait for none, or both": (
        "SELECT count(*) FROM passage p JOIN space s ON s.root = p.root AND s.state <> 'retired'"
        " WHERE p.root = %(root)s"
        " AND EXISTS (SELECT FROM pending w WHERE w.root = p.root AND w.space = s.id AND w.passage = p.id)"
        " = EXISTS (SELECT FROM embedding e WHERE e.root = p.root AND e.space = s.id AND e.passage = p.id"
        " AND e.hash = p.hash)"
    ),
    "vectors of a passage that is gone": (
        "SELECT count(*) FROM embedding e WHERE e.root = %(root)s AND e.passage IS NOT NULL"
        " AND NOT EXISTS (SELECT FROM passage p WHERE p.root = e.root AND p.id = e.passage)"
    ),
    "messages without a note": (
        "SELECT count(*) FROM message m WHERE m.root = %(root)s"
        " AND NOT EXISTS (SELECT FROM note n WHERE n.root = m.root AND n.id = m.note)"
    ),
    "tags without a chunk": (
        "SELECT count(*) FROM tag t WHERE t.root = %(root)s"
        " AND NOT EXISTS (SELECT FROM chunk c WHERE c.root = t.root AND c.id = t.chunk)"
    ),
    "facts without a note": (
        "SELECT count(*) FROM fact f WHERE f.root = %(root)s"
        " AND NOT EXISTS (SELECT FROM note n WHERE n.root = f.root AND n.id = f.note)"
    ),
}


def find_damage(reader: PostgresReader) -> str:
    """Return the first fault of a memory, or an empty string."""
    reader.be_patient()
    for name, statement in _FAULTS.items():
        if count := int(reader.value(statement)):
            return f"{name}: {count}"
    try:
        return _fault_of_words(reader)
    except (ValueError, IndexError) as error:  # a list whose length no list has
        return f"lists of words that cannot be read: {error}"


def _fault_of_words(reader: PostgresReader) -> str:
    """Compare the word index with the lengths of the chunks' rows, which count every word."""
    rows = words = 0
    lengths = dict[int, int]()
    for chunk, _, _, _, sizes in reader.rows(queries.PLACES_OF_CHUNKS):
        count = len(sizes) // 16
        rows += count
        total = sum(int.from_bytes(sizes[i : i + 4], "little") for i in range(0, len(sizes), 4))
        lengths[chunk] = total
        words += total
    counted = dict.fromkeys(lengths, 0)
    for _, postings, places in reader.rows(queries.ALL_POSTINGS, {"words": None}):
        table = read_postings([postings])
        posting, _, _ = read_places([places])
        for chunk in table[posting, 0].tolist():
            if chunk not in counted:
                return f"words of a chunk that is gone: {chunk}"
            counted[chunk] += 1
    if counted != lengths:
        return "chunks without all their words"
    known = int(reader.meta("word_rows") or 0), int(reader.meta("word_total") or 0)
    return "" if known == (rows, words) else "the counts of words are wrong"
