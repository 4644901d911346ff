"""The index in PostgreSQL beside the one in SQLite: syncs, many clients at once, and vectors of 1,536 dimensions."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from unittest.mock import patch

import psycopg

from benchmarks.figures import Row, ratio_row, seconds
from benchmarks.indexing import passages
from benchmarks.measures import rfc_questions
from benchmarks.memories import opened, own_user_folders, running
from benchmarks.postgres_server import NO_SERVER, database, server
from benchmarks.served import CLIENTS, throughput
from memsync.embed.cache.cache import MAX_BYTES
from memsync.index.postgres.connections import Connections
from memsync.index.postgres.hnsw import index_name, make_hnsw
from memsync.search.retrievals import percentile

PAIRS = 5
ROUNDS = 3
PASSAGES = 10_000
DIMENSION = 1_536
MODEL = "openai:text-embedding-3-small"


def syncs(data: Path, state: Path) -> list[Row]:
    """Index all RFCs anew in both backends, in turn; every vector is in the user's vector cache."""
    if not server():
        return [Row("sync of rfcs/ into PostgreSQL over the same into SQLite", NO_SERVER)]
    root = data / "rfcs"
    times: list[tuple[float, float]] = []
    with own_user_folders(state):
        _sync_anew(root, state, {})  # fills the cache
        for _ in range(PAIRS):
            with database("sync") as dsn:
                in_postgres = _sync_anew(root, state, {"index_backend": "postgres", "index_dsn": dsn})
            times.append((in_postgres, _sync_anew(root, state, {})))
    ratio = median(ours / sqlite for ours, sqlite in times)
    ours, sqlite = (median(column) for column in zip(*times, strict=True))
    measure = "sync of rfcs/, vectors known, into PostgreSQL over the same into SQLite"
    return [ratio_row(measure, ratio, 2.0, f"{ours:.2f} s over {sqlite:.2f} s")]


def _sync_anew(root: Path, state: Path, settings: dict[str, str]) -> float:
    with (
        tempfile.TemporaryDirectory(dir=state) as folder,
        opened(root, Path(folder), cache_bytes=MAX_BYTES, **settings) as memory,
    ):
        return seconds(memory.sync)


def clients(data: Path, state: Path) -> list[Row]:
    """Search from one client and from many at once, in turn, through one daemon for each backend."""
    if not server():
        return [Row(f"{CLIENTS} clients at once, PostgreSQL", NO_SERVER)]
    with own_user_folders(state), database("clients") as dsn:
        return [
            _at_once("SQLite", data, state, {}),
            _at_once("PostgreSQL", data, state, {"index_backend": "postgres", "index_dsn": dsn}),
        ]


def _at_once(name: str, data: Path, state: Path, settings: dict[str, str]) -> Row:
    questions = rfc_questions(data)
    with tempfile.TemporaryDirectory(dir=state) as folder, running(data / "rfcs", Path(folder), **settings) as daemon:
        daemon.settle()
        throughput(daemon, questions, CLIENTS)
        pairs = [(throughput(daemon, questions, CLIENTS), throughput(daemon, questions, 1)) for _ in range(PAIRS)]
    ratio = median(many / single for many, single in pairs)
    many, single = (median(column) for column in zip(*pairs, strict=True))
    measure = f"{CLIENTS} clients at once over one client, {name}: searches a second"
    return Row(measure, f"{ratio:.2f} × ({many:.0f} over {single:.0f})", "≥ 1.5 ×", ratio >= 1.5)


def wide(data: Path, state: Path) -> list[Row]:
    """Search passages with random vectors of 1,536 dimensions through the daemon, and build their HNSW index."""
    if not server():
        return [Row(f"{DIMENSION:,} dimensions in PostgreSQL", NO_SERVER)]
    questions = rfc_questions(data)
    with tempfile.TemporaryDirectory(dir=state) as folder, _vector_server() as url, database("wide") as dsn:
        root = Path(folder) / "rfcs"
        count = _copy_passages(data / "rfcs", root, Path(folder))
        key = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none"}
        settings = {"index_backend": "postgres", "index_dsn": dsn, "embedder_model": MODEL}
        with patch.dict(os.environ, key):
            with opened(root, Path(folder), cache_bytes=0, **settings) as memory:
                memory.sync()
            with running(root, Path(folder), **settings) as daemon, daemon.connect() as remote:
                for text in questions:
                    remote.search(text)
                times = [seconds(remote.search, text) for text in questions * ROUNDS]
        builds = _build_times(dsn)
    name, p95, build = f"{count:,} passages × {DIMENSION:,}", percentile(times, 0.95), median(builds)
    measure = f"hybrid search through the daemon, PostgreSQL, {name}: p95"
    figure = f"{p95 * 1000:.0f} ms (p50 {percentile(times, 0.5) * 1000:.0f} ms)"
    return [
        Row(measure, figure, "< 100 ms", p95 < 0.1),
        Row(f"build of the HNSW index, {name}", f"{build:.1f} s", "< 5 s", build < 5),
    ]


def _build_times(dsn: str) -> list[float]:
    """Build the HNSW index of the vectors as memsync does, again and again."""
    times = []
    connections = Connections(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        for _ in range(PAIRS):
            connection.execute(f"DROP INDEX IF EXISTS memsync.{index_name(DIMENSION)}".encode())
            times.append(seconds(make_hnsw, connections, DIMENSION, PASSAGES))
    connections.close()
    return times


def _copy_passages(source: Path, root: Path, state: Path) -> int:
    """Copy notes until they have PASSAGES different passages; return how many these are."""
    known: set[str] = set()
    with opened(source, state) as memory:
        for path, texts in passages(memory):
            if len(known) >= PASSAGES:
                break
            known.update(texts)
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / path, root / path)
    return len(known)


@contextmanager
def _vector_server() -> Iterator[str]:
    """Serve OpenAI's embeddings API with random vectors on this machine; yield its base URL."""
    served = ThreadingHTTPServer(("127.0.0.1", 0), _RandomVectors)
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{served.server_port}/v1"
    finally:
        served.shutdown()
        thread.join()
        served.server_close()


class _RandomVectors(BaseHTTPRequestHandler):
    """Answers each text with a random unit vector that depends only on the text."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        import numpy as np

        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        vectors = []
        for number, text in enumerate(texts):
            seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
            vector = np.random.default_rng(seed).standard_normal(DIMENSION)
            numbers = (vector / np.linalg.norm(vector)).astype(np.float32).tolist()
            vectors.append({"object": "embedding", "index": number, "embedding": numbers})
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        body = json.dumps({"object": "list", "model": "random", "data": vectors, "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 (because the base class names it so)
        """Print nothing."""
