"""Define the database's tables and open connections.

`user_version` is the version of the tables. A database of an earlier version is not migrated: a new one replaces it and
is filled from the files and the vector cache.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import apsw

from memsync.errors import FilesystemError, IndexFailure, IndexOutdated, IndexTooNew
from memsync.system import database_files
from memsync.system.transactions import write_transaction

BUSY_TIMEOUT_MS = 10_000
READER_CACHE_KIB = 512
"""Page cache of each reading thread. A larger one does not help, because a KNN search reads more than any cache has."""

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID, STRICT;
-- Counted on from the time, so that a database that replaces this one never has the same generation.
INSERT INTO meta VALUES ('generation', CAST(unixepoch('subsec') * 1000000 AS INTEGER));

CREATE TABLE note (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    tier TEXT NOT NULL,
    title TEXT NOT NULL,
    date TEXT NOT NULL,             -- from the file's text or name; empty: its mtime counts
    session TEXT NOT NULL,
    importance REAL NOT NULL,
    pinned INTEGER NOT NULL,
    archived INTEGER NOT NULL,
    local_only INTEGER NOT NULL,    -- its text may go to no remote model
    front_matter TEXT NOT NULL,     -- JSON
    warnings TEXT NOT NULL,         -- JSON list
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    digest BLOB NOT NULL,
    stamped_ns INTEGER NOT NULL,
    parsed_by TEXT NOT NULL,        -- parser version and the settings it depends on
    -- What git calls the content: SHA-1 (20 bytes) and SHA-256 (32) of its blob.
    blob BLOB NOT NULL,
    -- When a commit last gave the note this content (seconds since 1970); 0: none did, or it was changed since.
    committed INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX note_archived ON note (archived) WHERE archived;

CREATE TABLE passage (
    id INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,      -- SHA-256; the text itself stands in the files
    local_only INTEGER NOT NULL     -- only local-only notes have it; their hashes are salted
) STRICT;
CREATE INDEX passage_local_only ON passage (id) WHERE local_only;

CREATE TABLE chunk (
    id INTEGER PRIMARY KEY,
    note INTEGER NOT NULL REFERENCES note (id),
    ordinal INTEGER NOT NULL,
    form TEXT NOT NULL,             -- of model.Form
    passage INTEGER REFERENCES passage (id),  -- NULL for a heading
    word_rows INTEGER NOT NULL,     -- in chunk_fts: numbered as queries.GROUP_ROWS says
    section INTEGER NOT NULL,
    start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    start_column INTEGER NOT NULL,
    end_column INTEGER NOT NULL,
    heading_path TEXT NOT NULL,     -- JSON list
    role TEXT NOT NULL,
    origin TEXT NOT NULL,           -- of model.Origin
    first_time TEXT NOT NULL,       -- of its timed entries; empty without any
    last_time TEXT NOT NULL,
    attributes TEXT NOT NULL,       -- JSON list of [key, value], of all its entries
    entries TEXT NOT NULL,          -- JSON list of the fields of Entry, shortened from the right
    words BLOB NOT NULL,            -- digest of what chunk_fts holds of it
    opening BLOB NOT NULL           -- stem_number of its first words, two bytes each, little-endian
) STRICT;
CREATE INDEX chunk_note ON chunk (note, ordinal);
CREATE INDEX chunk_passage ON chunk (passage);
CREATE INDEX chunk_word_rows ON chunk (word_rows);
CREATE INDEX chunk_superseding ON chunk (id) WHERE instr(lower(attributes), 'supersede');

CREATE TABLE tag (
    name TEXT NOT NULL COLLATE NOCASE,
    chunk INTEGER NOT NULL REFERENCES chunk (id),
    PRIMARY KEY (name, chunk)
) WITHOUT ROWID, STRICT;
CREATE INDEX tag_chunk ON tag (chunk);

CREATE TABLE link (
    note INTEGER NOT NULL REFERENCES note (id),
    target TEXT NOT NULL,
    anchor TEXT NOT NULL,
    label TEXT NOT NULL,
    line INTEGER NOT NULL,
    wiki INTEGER NOT NULL
) STRICT;
CREATE INDEX link_note ON link (note);

CREATE TABLE space (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL,      -- JSON object: the fields of EmbeddingSpace
    dimension INTEGER NOT NULL,
    state TEXT NOT NULL             -- 'active' answers searches, 'building' will
) STRICT;

CREATE TABLE vector (
    space INTEGER NOT NULL REFERENCES space (id),
    passage INTEGER NOT NULL REFERENCES passage (id),
    value BLOB NOT NULL,            -- float16, little-endian, unit length
    PRIMARY KEY (space, passage)
) STRICT;

CREATE TABLE pending (              -- passages that wait for their vector
    space INTEGER NOT NULL REFERENCES space (id),
    passage INTEGER NOT NULL REFERENCES passage (id),
    text BLOB,                      -- zlib; NULL: to be read from the file again
    PRIMARY KEY (space, passage)
) WITHOUT ROWID, STRICT;

CREATE VIRTUAL TABLE chunk_fts USING fts5 (
    body, heading, context, cjk,
    content='', contentless_delete=1,
    tokenize="porter unicode61 remove_diacritics 2"
);

CREATE TABLE message (              -- of threads: views only, the notes hold them
    note INTEGER NOT NULL REFERENCES note (id),
    ordinal INTEGER NOT NULL,
    role TEXT NOT NULL,
    time TEXT NOT NULL,             -- ISO 8601 as the note gives it; empty without
    start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    model TEXT NOT NULL,
    tokens_in INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL,
    cost_nanos INTEGER NOT NULL,    -- 10^-9 US dollars, so that sums are exact
    attributes TEXT NOT NULL,       -- JSON object, of the heading
    PRIMARY KEY (note, ordinal)
) WITHOUT ROWID, STRICT;

CREATE TABLE history (              -- of the notes in HEAD's tree, whether or not the files are as they are there
    path TEXT PRIMARY KEY,
    blob BLOB NOT NULL,
    committed INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
"""
SCHEMA_VERSION = 10


def connect(path: Path, *, readonly: bool = False) -> apsw.Connection:
    """Open the database with vec0 loaded; create a missing file and folder, private to the user.

    Raises IndexFailure if it is not a usable database, FilesystemError if it cannot be created.
    """
    if not readonly:
        database_files.create_private(path)
    flags = apsw.SQLITE_OPEN_READONLY if readonly else apsw.SQLITE_OPEN_READWRITE
    try:
        connection = apsw.Connection(str(path), flags=flags)
    except apsw.CantOpenError as error:
        raise FilesystemError(
            f"index {path} cannot be opened: {error}", hint="Check its folder's permissions."
        ) from error
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    if readonly:
        connection.pragma("cache_size", -READER_CACHE_KIB)
    connection.create_scalar_function("folded", _folded, 1, deterministic=True)
    load_vec0(connection)
    return connection


def _folded(*values: apsw.SQLiteValue) -> apsw.SQLiteValue:
    """Return a text in lower case, for comparison; any other value as it is."""
    (value,) = values
    return value.lower() if isinstance(value, str) else value


def prepare(connection: apsw.Connection) -> None:
    """Set the journal mode and make the tables of a new database.

    Raises IndexTooNew for a database of a later memsync and IndexOutdated for one of an earlier. Raises CorruptError
    for one with tables and no version, and other apsw errors.
    """
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "normal")
    version = connection.pragma("user_version")
    if version > SCHEMA_VERSION:
        raise IndexTooNew(
            f"the index has schema version {version}; this memsync supports {SCHEMA_VERSION}",
            hint="Upgrade memsync, or remove the index: it is rebuilt from the files.",
        )
    if version == SCHEMA_VERSION:
        return
    if version > 0:
        raise IndexOutdated(
            f"the index has schema version {version}, which was replaced by {SCHEMA_VERSION}",
            hint="Run memsync sync: it is rebuilt from the files.",
        )
    with write_transaction(connection):
        if connection.pragma("user_version") == SCHEMA_VERSION:  # another process made them while this one waited
            return
        if version < 0 or connection.execute("SELECT count(*) FROM sqlite_schema").get:
            raise apsw.CorruptError(f"it has tables, and the schema version {version}")
        run_all(connection, TABLES)
        connection.pragma("user_version", SCHEMA_VERSION)


def nearest_table(space: int, dimension: int) -> str:
    """Return the statement that makes the vec0 table of an embedding space.

    int8 vectors of one space differ in length only by rounding, so L2 gives the same order as cosine, but faster.
    """
    return f"CREATE VIRTUAL TABLE vec_{space:d} USING vec0 (embedding int8[{dimension:d}])"


def capabilities() -> tuple[str, str]:
    """Return the versions of SQLite and vec0, after testing that they can make our tables. Raises IndexFailure."""
    connection = apsw.Connection(":memory:")
    load_vec0(connection)
    try:
        run_all(connection, TABLES + nearest_table(0, 8))
    except apsw.SQLError as error:
        raise IndexFailure(
            f"SQLite lacks what memsync needs: {error}", hint="Reinstall apsw and sqlite-vec."
        ) from error
    return apsw.sqlite_lib_version(), str(connection.execute("SELECT vec_version()").get)


def run_all(connection: apsw.Connection, statements: str) -> None:
    """Run every statement of a script. The loop is needed, because APSW stops at the first row."""
    for _ in connection.execute(statements):
        pass


def load_vec0(connection: apsw.Connection) -> None:
    """Load the extension vec0 without importing sqlite_vec, which would import numpy."""
    spec = importlib.util.find_spec("sqlite_vec")
    if spec is None or spec.origin is None:
        raise IndexFailure("sqlite-vec is not installed", hint="Run: pip install sqlite-vec")
    connection.enable_load_extension(True)
    try:
        connection.load_extension(str(Path(spec.origin).with_name("vec0")))
    except apsw.ExtensionLoadingError as error:
        raise IndexFailure(f"vec0 cannot be loaded: {error}", hint="Reinstall sqlite-vec for this platform.") from error
    finally:
        connection.enable_load_extension(False)
