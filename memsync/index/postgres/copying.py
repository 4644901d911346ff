"""Insert many rows with COPY, which takes a fraction of the time of INSERT."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

from memsync.index.postgres.connections import Connection
from memsync.index.postgres.halfvec import to_halfvec

# Table -> its columns with their types.
_TABLES = {
    "passage": "root int4, id int8, hash bytea",
    "chunk": "root int4, id int8, note int8, ordinal int4, passage int8, form text, word_rows int4, section int4,"
    " start_line int4, end_line int4, start_column int4, end_column int4, heading_path text, role text,"
    " origin text, first_time text, last_time text, attributes text, entries text, opening bytea, words bytea,"
    " tokens int4, lengths bytea",
    "fact": "root int4, note int8, chunk int8, key text, value text, folded text",
    "tag": "root int4, chunk int8, name text",
    "link": "root int4, note int8, target text, anchor text, label text, line int4, wiki bool",
    "message": "root int4, note int8, ordinal int4, role text, time text, start_line int4, end_line int4, model text,"
    " tokens_in int8, tokens_out int8, cost_nanos int8, attributes text",
    "posting": "root int4, word text, block int4, rows int4, postings bytea, places bytea",
    "pending": "root int4, space int4, passage int8",
}
COLUMNS = {table: dict[str, str](column.split() for column in columns.split(",")) for table, columns in _TABLES.items()}
"""Table -> column -> type, in order."""
_HEAD = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_END = struct.pack(">h", -1)
_FEW = 8
"""Insert so few rows with one INSERT: COPY needs three messages instead of one."""


def copy_rows(connection: Connection, table: str, rows: Sequence[Sequence[Any]]) -> None:
    """Insert rows into one of the tables of COLUMNS."""
    columns, types = ", ".join(COLUMNS[table]), list(COLUMNS[table].values())
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
