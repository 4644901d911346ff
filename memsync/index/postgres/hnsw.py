"""Make the HNSW index of the vectors of one dimension, which all memories of a database share."""

from __future__ import annotations

from memsync.errors import IndexReadOnly
from memsync.index.postgres import queries
from memsync.index.postgres.connections import Connections

M = 16
EF_CONSTRUCTION, EF_CONSTRUCTION_OF_MANY = 64, 200
MANY_VECTORS = 100_000
"""From so many vectors on, build with EF_CONSTRUCTION_OF_MANY. Of a million, a search then finds 0.988 of the nearest
ten; otherwise 0.955 in the same time. The build takes 2.5 times as long."""
BYTES_PER_NODE = 800
"""Memory that the build needs for each vector, besides the vector. Without it the rest is inserted on disk, 200 vectors
a second instead of 1,500."""
MIN_BUILD_BYTES, MAX_BUILD_BYTES = 128 << 20, 8_000_000_000
"""With less than 32 MB for each of its processes, the server uses fewer: alone, it takes twice as long."""
LOCK = 0x6D656D68


def make_hnsw(connections: Connections, dimension: int, passages: int) -> None:
    """Make the index of a dimension unless there is one that is fit for so many vectors.

    `passages` is the number of those in one memory; an older index tells how many there were in all. Other writers wait
    meanwhile, searches do not. Raises IndexBusy.
    """
    with connections.reading() as connection:
        row = connection.execute(queries.HNSW_STATE.encode(), {"name": index_name(dimension)}).fetchone()
    count, built_with = max(passages, row[1] if row else 0), row[0] if row else 0
    if built_with >= ef_construction(count):
        return
    try:
        _make(connections, dimension, count, workers=None)
    except IndexReadOnly:  # processes that share the work need shared memory, of which a container has little
        _make(connections, dimension, count, workers=0)


def index_name(dimension: int) -> str:
    """Return the name of the index of a dimension."""
    return f"embedding_hnsw_{dimension:d}"


def ef_construction(count: int) -> int:
    """Return how many neighbours a build looks at for each of so many vectors."""
    return EF_CONSTRUCTION_OF_MANY if count >= MANY_VECTORS else EF_CONSTRUCTION


def definition(name: str, dimension: int, count: int, extension: str) -> str:
    """Return the statement that makes the index; `extension` is the schema of pgvector, quoted."""
    return (
        f"CREATE INDEX {name} ON embedding"
        f" USING hnsw ((value::{extension}.halfvec({dimension:d})) {extension}.halfvec_ip_ops)"
        f" WITH (m = {M}, ef_construction = {ef_construction(count)})"
        f" WHERE dimension = {dimension:d} AND passage IS NOT NULL"
    )


def _make(connections: Connections, dimension: int, count: int, *, workers: int | None) -> None:
    """Make the index, then drop an older one; `workers` is the number of additional processes, None for the server's.

    Searches use the older one until the end.
    """
    name, new = index_name(dimension), f"{index_name(dimension)}_new"
    memory = min(max(count * (2 * dimension + BYTES_PER_NODE), MIN_BUILD_BYTES), MAX_BUILD_BYTES) // 1024
    with connections.writing() as connection:
        connection.execute(b"SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        row = connection.execute(queries.HNSW_STATE.encode(), {"name": name}).fetchone()
        if row is not None and row[0] >= ef_construction(count):
            return  # another process has made it meanwhile
        connection.execute(f"SET LOCAL maintenance_work_mem = {memory:d}".encode())
        connection.execute(b"SET LOCAL statement_timeout = 0")
        connection.silence = None
        if workers is not None:
            connection.execute(f"SET LOCAL max_parallel_maintenance_workers = {workers:d}".encode())
        connection.execute(definition(new, dimension, count, connection.extension).encode())
        connection.execute(f"DROP INDEX IF EXISTS {name}".encode())
        connection.execute(f"ALTER INDEX {new} RENAME TO {name}".encode())
