"""Searches through the daemon: the whole command, one client, many clients, and while it indexes from nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.daemons import RunningDaemon, running, settle
from benchmarks.indexes import opened
from benchmarks.measures import read_questions
from benchmarks.report import Row
from benchmarks.timing import in_turn, seconds
from memsync.features.evaluation.measures import percentile

COMMANDS = 20
ALONE_COMMANDS = 5
ROUNDS = 5
CLIENTS = 16
SEARCHES_A_CLIENT = 10


def commands(data: Path, state: Path) -> list[Row]:
    """Time `memsync search` as a whole process: with the daemon, beside `import click`, and without a daemon."""
    root, questions = data / "rfcs", _questions(data)
    with running(root, state) as daemon:
        settle(daemon)
        asked = iter(questions * 10)
        warm, click, ratio = in_turn(
            lambda: daemon.run("search", next(asked)), lambda: _python("import click"), COMMANDS
        )
        alone = median(
            seconds(lambda: daemon.run("search", next(asked), daemon_use="false")) for _ in range(ALONE_COMMANDS)
        )
    share = warm / alone
    return [
        Row(
            "warm memsync search on rfcs/, whole process, over python -c 'import click'",
            f"{ratio:.2f} × ({warm * 1000:.0f} ms over {click * 1000:.0f} ms)",
            "≤ 2.0 ×",
            ratio <= 2.0,
        ),
        Row(
            "the same over the search without a daemon, whole process",
            f"{share:.2f} × ({alone * 1000:.0f} ms)",
            "≤ 0.25 ×",
            share <= 0.25,
        ),
    ]


def clients(data: Path, state: Path) -> list[Row]:
    """Time searches over the socket in turn with the same in this process, then from 16 clients at once."""
    root, questions = data / "rfcs", _questions(data)
    served: list[float] = []
    here: list[float] = []
    with running(root, state) as daemon:
        settle(daemon)
        with daemon.connect() as remote, opened(root, state) as memory:
            for text in questions[:3]:
                remote.search(text)
                memory.search(text)
            for text in questions * ROUNDS:
                served.append(seconds(lambda text=text: remote.search(text)))  # type: ignore[misc]  # because mypy cannot type a lambda's default
                here.append(seconds(lambda text=text: memory.search(text)))  # type: ignore[misc]  # because: as above
        one = _throughput(daemon, questions, 1)
        many = _throughput(daemon, questions, CLIENTS)
    p50, p95 = median(served) / median(here), percentile(served, 0.95) / percentile(here, 0.95)
    return [
        Row(
            "served search on rfcs/, strict, over the same in this process: p50",
            f"{p50:.2f} × ({median(served) * 1000:.1f} ms over {median(here) * 1000:.1f} ms)",
            "≤ 1.15 ×",
            p50 <= 1.15,
        ),
        Row(
            "p95",
            f"{p95:.2f} × ({percentile(served, 0.95) * 1000:.0f} ms)",
            "≤ 1.3 ×",
            p95 <= 1.3,
        ),
        Row(
            f"{CLIENTS} clients at once, searches a second over one client's",
            f"{many / one:.2f} × ({many:.0f} over {one:.0f})",
            "≥ 1.2 ×",
            many / one >= 1.2,
        ),
    ]


def while_indexing(data: Path, state: Path) -> list[Row]:
    """Time served searches of an index that is being built from nothing, over the same searches once it rests."""
    root, questions = data / "rfcs", _questions(data)
    folder = state / "served-cold"
    busy: list[float] = []
    unfinished = 0
    with running(root, folder) as daemon, daemon.connect() as memory:
        while True:
            for text in questions:
                busy.append(seconds(lambda text=text: memory.search(text)))  # type: ignore[misc]  # because mypy cannot type a lambda's default
                time.sleep(0.1)
            fresh = memory.search(questions[0]).freshness
            if fresh.pending_vectors == 0 and fresh.pending_text == 0:
                break
            unfinished = len(busy)
        settle(daemon)
        rest = [seconds(lambda text=text: memory.search(text)) for text in questions * 2]  # type: ignore[misc]  # because: as above
    busy = busy[:unfinished]
    ratio = percentile(busy, 0.95) / percentile(rest, 0.95)
    figure = f"{ratio:.2f} × ({percentile(busy, 0.95) * 1000:.0f} ms over {percentile(rest, 0.95) * 1000:.0f} ms)"
    return [
        Row(
            f"served search while rfcs/ is indexed cold ({len(busy)} searches), over the same at rest: p95",
            figure,
            "≤ 5 ×",
            ratio <= 5,
        )
    ]


def _throughput(daemon: RunningDaemon, questions: Sequence[str], count: int) -> float:
    """Return how many searches a second `count` clients get answered, each with questions of its own."""
    failures: list[BaseException] = []
    barrier = threading.Barrier(count + 1)
    searches = SEARCHES_A_CLIENT if count > 1 else SEARCHES_A_CLIENT * 4

    def ask(number: int) -> None:
        try:
            with daemon.connect() as memory:
                barrier.wait()
                for step in range(searches):
                    memory.search(questions[(number * 7 + step) % len(questions)])
        except BaseException as error:  # noqa: BLE001 (because it is raised again below, in the thread that counts)
            failures.append(error)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    barrier.wait()
    started = time.perf_counter()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return count * searches / (time.perf_counter() - started)


def _questions(data: Path) -> list[str]:
    return [question.text for question in read_questions(data / "rfcs.questions.jsonl")]


def _python(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)
