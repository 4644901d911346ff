"""Insert many rows with COPY, which takes a fraction of the time of INSERT."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

from memsync.index.postgres.connections import Connection
from memsync.index.postgres.halfvec import to_halfvec

# Table -> (columns, their types in the order of the columns).
TABLES: dict[str, tuple[str, Sequence[str]]] = {
    "passage": ("root, id, hash", ("int4", "int8", "bytea")),
    "chunk": (
        "root, id, note, ordinal, passage, form, word_rows, section, start_line, end_line, start_column, end_column,"
        " heading_path, role, first_time, last_time, attributes, entries, opening, words, tokens, lengths",
        (
            *("int4", "int8", "int8", "int4", "int8", "text", "int4", "int4", "int4", "int4", "int4", "int4"),
            *("text", "text", "text", "text", "text", "text", "bytea", "bytea", "int4", "bytea"),
        ),
    ),
    "fact": ("root, note, chunk, key, value, folded", ("int4", "int8", "int8", "text", "text", "text")),
    "tag": ("root, chunk, name", ("int4", "int8", "text")),
    "link": (
        "root, note, target, anchor, label, line, wiki", ("int4", "int8", "text", "text", "text", "int4", "bool"),
    ),
    "message": (
        "root, note, ordinal, role, time, start_line, end_line, model, tokens_in, tokens_out, cost_nanos, attributes",
        ("int4", "int8", "int4", "text", "text", "int4", "int4", "text", "int8", "int8", "int8", "text"),
    ),
    "posting": ("root, word, block, rows, postings, places", ("int4", "text", "int4", "int4", "bytea", "bytea")),
    "pending": ("root, space, passage", ("int4", "int4", "int8")),
}  # fmt: skip
_HEAD = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_END = struct.pack(">h", -1)
_FEW = 8
"""Insert so few rows with one INSERT: COPY needs three messages instead of one."""


def copy_rows(connection: Connection, table: str, rows: Sequence[Sequence[Any]]) -> None:
    """Insert rows into one of TABLES."""
    columns, types = TABLES[table]
    if not rows:
        return
    if len(rows) <= _FEW:
        values = ", ".join(["%s::" + kind for kind in types])
        statement = f"INSERT INTO {table} ({columns}) VALUES {', '.join([f'({values})'] * len(rows))}"
        connection.execute(statement.encode(), [value for row in rows for value in row])
        return
    with connection.cursor().copy(f"COPY {table} ({columns}) FROM STDIN (FORMAT BINARY)".encode()) as copy:
        copy.set_types(types)
        for row in rows:
            copy.write_row(row)


def copy_vectors(
    connection: Connection, root: int, space: int, vectors: Iterable[tuple[bytes, int | None, bytes]]
) -> None:
    """Insert (hash, passage, float16 vector) into table `embedding`, in pgvector's own binary form."""
    with connection.cursor().copy(
        b"COPY embedding (root, space, hash, passage, dimension, value) FROM STDIN (FORMAT BINARY)"
    ) as copy:
        copy.write(_HEAD)
        for digest, passage, value in vectors:
            half = to_halfvec(value)
            row = struct.pack(">hiiiii", 6, 4, root, 4, space, len(digest)) + digest
            row += struct.pack(">iq", 8, passage) if passage is not None else struct.pack(">i", -1)
            copy.write(row + struct.pack(">ihi", 2, len(value) // 2, len(half)) + half)
        copy.write(_END)
