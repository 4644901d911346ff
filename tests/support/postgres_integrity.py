"""Compare the tables of one memory with each other, without reading any note."""

from __future__ import annotations

from memsync.index.postgres import queries
from memsync.index.postgres.postings import read_places, read_postings
from memsync.index.postgres.reader import PostgresReader

# What is wrong -> (table, its column, table and column that must have the same value).
_LOST = {
    "chunks without a note": ("chunk", "note", "note", "id"),
    "messages without a note": ("message", "note", "note", "id"),
    "facts without a note": ("fact", "note", "note", "id"),
    "tags without a chunk": ("tag", "chunk", "chunk", "id"),
    "passages without a chunk": ("passage", "id", "chunk", "passage"),
    "vectors of a passage that is gone": ("embedding", "passage", "passage", "id"),
}
# What may be wrong -> how often it is: 0 in a sound memory.
_FAULTS = {
    fault: f"SELECT count(*) FROM {table} t WHERE t.root = %(root)s AND t.{column} IS NOT NULL"
    f" AND NOT EXISTS (SELECT FROM {other} o WHERE o.root = t.root AND o.{key} = t.{column})"
    for fault, (table, column, other, key) in _LOST.items()
} | {
    "chunks without their passage": (
        "SELECT count(*) FROM chunk c WHERE c.root = %(root)s AND (c.form NOT IN ('heading', 'field')) <> EXISTS"
        " (SELECT FROM passage p WHERE p.root = c.root AND p.id = c.passage)"
    ),
    "passages that have no vector and wait for none, or both": (
        "SELECT count(*) FROM passage p JOIN space s ON s.root = p.root AND s.state <> 'retired'"
        " WHERE p.root = %(root)s"
        " AND EXISTS (SELECT FROM pending w WHERE w.root = p.root AND w.space = s.id AND w.passage = p.id)"
        " = EXISTS (SELECT FROM embedding e WHERE e.root = p.root AND e.space = s.id AND e.passage = p.id"
        " AND e.hash = p.hash)"
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
