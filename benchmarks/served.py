"""The daemon: searches by the whole command, by one client and by many, and while it indexes; and its cost at rest."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.figures import Row, in_turn, ms_over, ratio_row, seconds
from benchmarks.measures import rfc_questions
from benchmarks.memories import RunningDaemon, opened, running
from memsync.daemon.vector_keeper import IDLE_UNLOAD_MINUTES
from memsync.search.retrievals import percentile

IDLE_SECONDS = 60.0
COMMANDS = 20
ALONE_COMMANDS = 5
ROUNDS = 5
CLIENTS = 16
SEARCHES_A_CLIENT = 10


def commands(data: Path, state: Path) -> list[Row]:
    """Time `memsync search` as a whole process: with the daemon, beside `import click`, and without a daemon."""
    root, questions = data / "rfcs", rfc_questions(data)
    with running(root, state) as daemon:
        daemon.settle()
        asked = iter(questions * 10)
        import_click = partial(subprocess.run, [sys.executable, "-c", "import click"], check=True)
        warm, click, ratio = in_turn(lambda: daemon.run("search", next(asked)), import_click, COMMANDS)
        alone = median(seconds(daemon.run, "search", next(asked), daemon_use="false") for _ in range(ALONE_COMMANDS))
    measure = "warm memsync search on rfcs/, whole process, over python -c 'import click'"
    beside = "the same over the search without a daemon, whole process"
    return [
        ratio_row(measure, ratio, 2.0, ms_over(warm, click)),
        ratio_row(beside, warm / alone, 0.25, f"{alone * 1000:.0f} ms"),
    ]


def clients(data: Path, state: Path) -> list[Row]:
    """Time searches over the socket in turn with the same in this process, then from 16 clients at once."""
    root, questions = data / "rfcs", rfc_questions(data)
    served: list[float] = []
    here: list[float] = []
    with running(root, state) as daemon:
        daemon.settle()
        with daemon.connect() as remote, opened(root, state) as memory:
            for text in questions[:3]:
                remote.search(text)
                memory.search(text)
            for text in questions * ROUNDS:
                served.append(seconds(remote.search, text))
                here.append(seconds(memory.search, text))
        single = throughput(daemon, questions, 1)
        many = throughput(daemon, questions, CLIENTS)
    p50, p95 = median(served), percentile(served, 0.95)
    measure = "served search on rfcs/, strict, over the same in this process: p50"
    at_once = f"{CLIENTS} clients at once, searches a second over one client's"
    figure = f"{many / single:.2f} × ({many:.0f} over {single:.0f})"
    return [
        ratio_row(measure, p50 / median(here), 1.15, ms_over(p50, median(here), 1)),
        ratio_row("p95", p95 / percentile(here, 0.95), 1.3, f"{p95 * 1000:.0f} ms"),
        Row(at_once, figure, "≥ 1.2 ×", many / single >= 1.2),
    ]


def while_indexing(data: Path, state: Path) -> list[Row]:
    """Time served searches of an index that is being built from nothing, over the same searches once it rests."""
    root, questions = data / "rfcs", rfc_questions(data)
    folder = state / "served-cold"
    busy: list[float] = []
    unfinished = 0
    with running(root, folder) as daemon, daemon.connect() as memory:
        while True:
            for text in questions:
                busy.append(seconds(memory.search, text))
                time.sleep(0.1)
            fresh = memory.search(questions[0]).freshness
            if fresh.pending_vectors == 0 and fresh.pending_text == 0:
                break
            unfinished = len(busy)
        daemon.settle()
        rest = percentile([seconds(memory.search, text) for text in questions * 2], 0.95)
    p95 = percentile(busy[:unfinished], 0.95)
    measure = f"served search while rfcs/ is indexed cold ({unfinished} searches), over the same at rest: p95"
    return [ratio_row(measure, p95 / rest, 5, ms_over(p95, rest))]


def throughput(daemon: RunningDaemon, questions: Sequence[str], count: int) -> float:
    """Return how many searches a second `count` clients get answered, each with questions of its own."""
    barrier = threading.Barrier(count + 1)
    searches = SEARCHES_A_CLIENT if count > 1 else SEARCHES_A_CLIENT * 4

    def ask(number: int) -> None:
        with daemon.connect() as memory:
            barrier.wait()
            for step in range(searches):
                memory.search(questions[(number * 7 + step) % len(questions)])

    with ThreadPoolExecutor(count) as pool:
        answers = [pool.submit(ask, number) for number in range(count)]
        barrier.wait()
        started = time.perf_counter()
        for answer in answers:
            answer.result()
        return count * searches / (time.perf_counter() - started)


def memory_and_idle(data: Path, state: Path) -> list[Row]:
    """Measure memory after every question was asked once, processor time at rest, and memory without the model.

    It waits until the daemon unloads its model.
    """
    root, questions = data / "rfcs", rfc_questions(data)
    with running(root, state) as daemon:
        daemon.settle()
        process = daemon.process()
        with daemon.connect() as memory:
            for text in questions:
                memory.search(text)
            chunks = memory.status().chunks
        loaded = resident_mb(process)
        time.sleep(5.0)
        before = _processor_seconds(process)
        time.sleep(IDLE_SECONDS)
        idle = (_processor_seconds(process) - before) / IDLE_SECONDS
    with running(root, state) as daemon:
        process = daemon.process()
        with daemon.connect() as memory:
            for text in questions:
                memory.search(text)
        deadline = time.monotonic() + 60 * (IDLE_UNLOAD_MINUTES + 2)
        while time.monotonic() < deadline and _is_loaded(daemon):
            time.sleep(2.0)
        unloaded = resident_mb(process)
    measure = f"daemon's resident memory, {chunks:,} chunks, model loaded"
    return [
        Row(measure, f"{loaded:.0f} MB", "≤ 300 MB", loaded <= 300),
        Row("the same, model unloaded after its idle time", f"{unloaded:.0f} MB", "≤ 120 MB", unloaded <= 120),
        Row(f"processor time at rest over {IDLE_SECONDS:.0f} s", f"{idle:.2%} of a core", "≤ 0.5 %", idle <= 0.005),
    ]


def _is_loaded(daemon: RunningDaemon) -> bool:
    with daemon.connect() as memory:
        status = memory.status().daemon
    return status is not None and status.model_loaded


def _processes(process: int) -> list[int]:
    """Return a process and its children: the model's process, and each worker that parses notes."""
    lists = Path(f"/proc/{process}/task").glob("*/children")
    return [process, *(int(child) for children in lists for child in children.read_text().split())]


def resident_mb(process: int) -> float:
    """Return what a process and its children hold in memory."""
    pages = sum(int(Path(f"/proc/{number}/statm").read_text().split()[1]) for number in _processes(process))
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


def _processor_seconds(process: int) -> float:
    all_fields = [Path(f"/proc/{n}/stat").read_text().rpartition(")")[2].split() for n in _processes(process)]
    return sum(int(fields[11]) + int(fields[12]) for fields in all_fields) / os.sysconf("SC_CLK_TCK")
