"""What starting costs: the command line's imports over click's alone, and `memsync mcp` up to its first answers."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figures import Row, ms_over, ratio_row, seconds
from benchmarks.memories import running

IMPORTS = 15
STARTS = 7
SEARCHES = 40
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "benchmark", "version": "1"}}

Ask = Callable[[str, dict[str, Any]], Any]
"""Sends a method and its parameters, and returns the result."""


def imports(state: Path) -> list[Row]:
    """Compare `import memsync.cli.main` with `import click`, each in a process of its own."""
    del state
    pairs = [(_import_seconds("memsync.cli.main"), _import_seconds("click")) for _ in range(IMPORTS)]
    ratio = median(ours / click for ours, click in pairs)
    figure = ms_over(*(median(times) for times in zip(*pairs, strict=True)))
    return [ratio_row("import memsync.cli.main over import click", ratio, 1.5, figure)]


def _import_seconds(module: str) -> float:
    """Return the cumulative time of one import, without what Python itself imports."""
    command = [sys.executable, "-X", "importtime", "-c", f"import {module}"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()
    rows = [line.split("|") for line in lines if line.count("|") == 2]
    top = {module, module.split(".")[0]}
    return sum(int(row[1]) for row in rows if row[2].strip() in top and not row[2].startswith("  ")) / 1e6


def mcp(state: Path) -> list[Row]:
    """Start it on a folder of notes in turn with and without a daemon, then search through the one with the daemon."""
    root = state / "mcp-notes"
    root.mkdir(exist_ok=True)
    for number in range(100):
        (root / f"note-{number}.md").write_text(f"# Note {number}\n\nThe heron nests in alder number {number}.\n")
    served: list[float] = []
    alone: list[float] = []
    with running(root, state) as daemon:
        daemon.settle()
        without = {**daemon.environ, "MEMSYNC_DAEMON_USE": "false"}
        for _ in range(STARTS):
            for environ, times in ((daemon.environ, served), (without, alone)):
                with _started(daemon.command, environ) as (_, milliseconds):
                    times.append(milliseconds)
        with _started(daemon.command, daemon.environ) as (ask, _):

            def search(number: int) -> None:
                query = {"query": f"alder number {number}", "limit": 5}
                assert not ask("tools/call", {"name": "memory_search", "arguments": query})["isError"]

            searches = [seconds(search, number) * 1000 for number in range(SEARCHES)]
    return [
        _start_row("with a daemon", median(served)),
        _start_row("without", median(alone)),
        Row("mcp: a search through it, 100 notes, median ms", median(searches), "printed"),
    ]


def _start_row(how: str, milliseconds: float) -> Row:
    return Row(f"mcp: from start to the first answer, {how}, ms", milliseconds, "≤ 1,000", milliseconds <= 1_000)


@contextmanager
def _started(command: list[str], environ: dict[str, str]) -> Iterator[tuple[Ask, float]]:
    """Start a server; yield a function that sends it requests, and the milliseconds until its first answer."""
    started_at = time.perf_counter()
    pipe = subprocess.PIPE
    with subprocess.Popen([*command, "mcp"], env=environ, stdin=pipe, stdout=pipe, text=True) as process:
        requests, answers = process.stdin, process.stdout
        assert requests is not None and answers is not None

        def ask(method: str, params: dict[str, Any]) -> Any:
            requests.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + "\n")
            requests.flush()
            return json.loads(answers.readline())["result"]

        ask("initialize", HELLO)
        milliseconds = (time.perf_counter() - started_at) * 1000
        requests.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        yield ask, milliseconds
        requests.close()
        assert process.wait(20) == 0
