"""Make the HNSW index of the vectors of one dimension, which all memories of a database share."""

from __future__ import annotations

from memsync.errors import IndexReadOnly
from memsync.index.postgres import queries
from memsync.index.postgres.connections import Connections

M = 16
EF_CONSTRUCTION = 200
"""Of a million vectors, a search then finds 0.988 of the nearest ten; with 64, 0.955 in the same time. The build takes
2.5 times as long."""
BYTES_PER_NODE = 800
"""Memory that the build needs for each vector, besides the vector. Without it the rest is inserted on disk, 200 vectors
a second instead of 1,500."""
MIN_BUILD_BYTES, MAX_BUILD_BYTES = 128 << 20, 8_000_000_000
"""With less than 32 MB for each of its processes, the server uses fewer: alone, it takes twice as long."""


def make_hnsw(connections: Connections, dimension: int, passages: int) -> None:
    """Make the index of a dimension, for so many vectors, unless it is there.

    Other writers wait meanwhile, searches do not. Raises IndexBusy.
    """
    with connections.reading() as connection:
        if connection.execute(queries.HAS_HNSW.encode(), {"name": index_name(dimension)}).fetchone() == (True,):
            return
    try:
        _make(connections, dimension, passages, workers=None)
    except IndexReadOnly:  # processes that share the work need shared memory, of which a container has little
        _make(connections, dimension, passages, workers=0)


def index_name(dimension: int) -> str:
    """Return the name of the index of a dimension."""
    return f"embedding_hnsw_{dimension:d}"


def _make(connections: Connections, dimension: int, passages: int, *, workers: int | None) -> None:
    """Make the index; `workers` is the number of additional processes, None for the server's."""
    memory = min(max(passages * (2 * dimension + BYTES_PER_NODE), MIN_BUILD_BYTES), MAX_BUILD_BYTES) // 1024
    with connections.writing() as connection:
        halfvec = f"{connection.extension}.halfvec"
        connection.execute(f"SET LOCAL maintenance_work_mem = {memory:d}".encode())
        connection.execute(b"SET LOCAL statement_timeout = 0")
        connection.silence = None
        if workers is not None:
            connection.execute(f"SET LOCAL max_parallel_maintenance_workers = {workers:d}".encode())
        connection.execute(
            f"CREATE INDEX IF NOT EXISTS {index_name(dimension)} ON embedding"
            f" USING hnsw ((value::{halfvec}({dimension:d})) {halfvec}_ip_ops)"
            f" WITH (m = {M}, ef_construction = {EF_CONSTRUCTION})"
            f" WHERE dimension = {dimension:d} AND passage IS NOT NULL".encode()
        )
