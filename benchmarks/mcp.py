"""How soon `memsync mcp` answers its first request, with a daemon and without, and how a search through it fares."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.daemons import running, settle
from benchmarks.report import Row

STARTS = 7
SEARCHES = 40
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "benchmark", "version": "1"}}


class _Client:
    """One client on the standard streams of one server."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())["result"]


@contextmanager
def _started(command: list[str], environ: dict[str, str]) -> Iterator[tuple[_Client, float]]:
    """Start a server; yield a client that has greeted it, and how many milliseconds that took."""
    began = time.perf_counter()
    pipe = subprocess.PIPE
    with subprocess.Popen([*command, "mcp"], env=environ, stdin=pipe, stdout=pipe, text=True) as process:
        client = _Client(process)
        client.ask("initialize", HELLO)
        took = (time.perf_counter() - began) * 1000
        assert process.stdin is not None
        process.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        yield client, took
        process.stdin.close()
        assert process.wait(20) == 0


def start(state: Path) -> list[Row]:
    """Start it on a folder of notes in turn with and without a daemon, then search through the one with the daemon."""
    root = state / "mcp-notes"
    root.mkdir(exist_ok=True)
    for number in range(100):
        (root / f"note-{number}.md").write_text(f"# Note {number}\n\nThe heron nests in alder number {number}.\n")
    served, alone, searches = [], [], []
    with running(root, state) as daemon:
        settle(daemon)
        without = {**daemon.environ, "MEMSYNC_DAEMON_USE": "false"}
        for _ in range(STARTS):
            with _started(daemon.command, daemon.environ) as (client, took):
                served.append(took)
            with _started(daemon.command, without) as (client, took):
                alone.append(took)
        with _started(daemon.command, daemon.environ) as (client, _):
            for number in range(SEARCHES):
                began = time.perf_counter()
                query = {"query": f"alder number {number}", "limit": 5}
                assert not client.ask("tools/call", {"name": "memory_search", "arguments": query})["isError"]
                searches.append((time.perf_counter() - began) * 1000)
    return [
        _row("with a daemon", median(served)),
        _row("without", median(alone)),
        Row("mcp: a search through it, 100 notes, median ms", median(searches), "printed"),
    ]


def _row(how: str, milliseconds: float) -> Row:
    return Row(f"mcp: from start to the first answer, {how}, ms", milliseconds, "≤ 1,000", milliseconds <= 1_000)
