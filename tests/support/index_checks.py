"""What a sound index satisfies whatever happened to it, looked up in the database behind memsync's back."""

from __future__ import annotations

from pathlib import Path

import apsw

from memsync.index.sqlite import schema
from memsync.index.sqlite.index import SqliteIndex
from memsync.memory import Memory

# What each row counts must not exist: rows that point nowhere, and passages that nothing points to.
_ORPHANS = {
    "chunk without note": "SELECT count(*) FROM chunk WHERE note NOT IN (SELECT id FROM note)",
    "chunk without passage": (
        "SELECT count(*) FROM chunk"
        " WHERE coalesce(passage IN (SELECT id FROM passage), 0) <> (form NOT IN ('heading', 'field'))"
    ),
    "passage without chunk": (
        "SELECT count(*) FROM passage WHERE id NOT IN (SELECT passage FROM chunk WHERE passage IS NOT NULL)"
    ),
    "tag without chunk": "SELECT count(*) FROM tag WHERE chunk NOT IN (SELECT id FROM chunk)",
    "link without note": "SELECT count(*) FROM link WHERE note NOT IN (SELECT id FROM note)",
    "message without note": "SELECT count(*) FROM message WHERE note NOT IN (SELECT id FROM note)",
    "pending without passage": "SELECT count(*) FROM pending WHERE passage NOT IN (SELECT id FROM passage)",
    "words without chunk": (
        "SELECT count(*) FROM chunk_fts_docsize WHERE id < 1 << 40 AND id NOT IN (SELECT id FROM chunk)"
        " OR id >= 1 << 40 AND (id - (1 << 40)) / 256 NOT IN (SELECT id FROM chunk)"
    ),
    "chunk with other words": (
        "SELECT count(*) FROM chunk c WHERE word_rows IS NOT CASE form WHEN 'window' THEN 0"
        " WHEN 'group' THEN json_array_length(entries) ELSE 1 END"
        " OR word_rows <> (SELECT count(*) FROM chunk_fts_docsize WHERE id = c.id AND c.form <> 'group'"
        " OR c.form = 'group' AND id BETWEEN (1 << 40) + c.id * 256 + 1 AND (1 << 40) + c.id * 256 + c.word_rows)"
    ),
}
_SPACES = "SELECT id FROM space"


def database(memory: Memory) -> Path:
    """Return the index's file."""
    return memory.settings.index_dir / "index.db"


def open_database(path: Path) -> apsw.Connection:
    """Open an index as any other program would."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(10_000)
    schema.load_vec0(connection)
    return connection


def value(path: Path, statement: str) -> object:
    """Return the first value that a statement gives."""
    connection = open_database(path)
    try:
        return connection.execute(statement).get
    finally:
        connection.close()


def orphans(path: Path) -> dict[str, int]:
    """Return what points nowhere or is pointed to by nothing, with its number; nothing in a sound index."""
    connection = open_database(path)
    try:
        checks = dict(_ORPHANS)
        live = [row[0] for row in connection.execute(_SPACES)]
        for number in live:
            rows = f"SELECT rowid FROM vec_{number}_rowids"
            checks[f"vector of no passage in {number}"] = (
                f"SELECT count(*) FROM vec_{number}_rowids WHERE rowid NOT IN (SELECT id FROM passage)"
            )
            checks[f"passage neither with vector nor pending in {number}"] = (
                f"SELECT count(*) FROM passage WHERE (id IN ({rows}))"
                f" + (id IN (SELECT passage FROM pending WHERE space = {number})) <> 1"
            )
        left = "SELECT count(*) FROM sqlite_schema WHERE name GLOB 'vec_[0-9]*' AND sql LIKE '%USING vec0%'"
        checks["vec0 table of no space"] = f"{left[:7]}({left}) - {len(live)}"
        counts = {name: int(str(connection.execute(statement).get)) for name, statement in checks.items()}
        return {name: count for name, count in counts.items() if count}
    finally:
        connection.close()


def assert_sound(path: Path) -> None:
    """Check SQLite's and FTS5's own integrity, and that nothing is orphaned."""
    connection = open_database(path)
    try:
        assert connection.pragma("integrity_check") == "ok"
        assert connection.pragma("foreign_key_check") is None
        connection.execute("INSERT INTO chunk_fts (chunk_fts) VALUES ('integrity-check')")
    finally:
        connection.close()
    assert orphans(path) == {}


def check_sound(memory: Memory) -> None:
    """Check the index of a memory, whatever its backend, for rows that belong to nothing."""
    if isinstance(memory.index, SqliteIndex):
        assert_sound(memory.index.path)
        return
    from memsync.index.postgres.reader import PostgresReader
    from tests.support.postgres_integrity import find_damage

    with memory.index.reading() as reader:
        assert isinstance(reader, PostgresReader)
        assert find_damage(reader) == ""


def without_words(lines: list[str]) -> list[str]:
    """Return the lines of a dump that both backends have: each has the words in its own form."""
    return [line for line in lines if not line.startswith('["word')]


def dump(memory: Memory) -> list[str]:
    """Return the canonical dump of a memory's index."""
    with memory.index.reading() as reader:
        return list(reader.dump())
