"""Compare the tables of one memory with each other, without reading any note."""

from __future__ import annotations

from memsync.index.postgres.reader import PostgresReader

# What is wrong -> (table, its column, table and column that must have the same value).
_LOST = {
    "chunks without a note": ("chunk", "note", "note", "id"),
    "messages without a note": ("message", "note", "note", "id"),
    "facts without a note": ("fact", "note", "note", "id"),
    "tags without a chunk": ("tag", "chunk", "chunk", "id"),
    "words without a chunk": ("word_row", "chunk", "chunk", "id"),
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
    "chunks without all their words": (
        "SELECT count(*) FROM chunk c WHERE c.root = %(root)s AND c.word_rows <>"
        " (SELECT count(*) FROM word_row w WHERE w.root = c.root AND w.chunk = c.id)"
    ),
    "words that are counted wrongly": (
        "SELECT count(*) FROM (SELECT word, rows FROM vocabulary WHERE root = %(root)s) v FULL JOIN"
        " (SELECT word, count(*) FROM word_row w, unnest(tsvector_to_array(w.words)) word"
        "  WHERE w.root = %(root)s AND word <> ':' || %(root)s::integer GROUP BY 1) w USING (word)"
        " WHERE v.rows IS DISTINCT FROM w.count"
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
    counts = ((name, int(reader.value(statement))) for name, statement in _FAULTS.items())
    return next((f"{name}: {count}" for name, count in counts if count), "")
