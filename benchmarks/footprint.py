"""What the daemon costs while nobody asks: memory with the model and without it, and processor time at rest."""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks.daemons import RunningDaemon, running, settle
from benchmarks.measures import read_questions
from benchmarks.report import Row

IDLE_SECONDS = 60.0


def memory_and_idle(data: Path, state: Path) -> list[Row]:
    """Ask every question once, rest, and let the model be unloaded."""
    root = data / "rfcs"
    questions = [question.text for question in read_questions(data / "rfcs.questions.jsonl")]
    with running(root, state) as daemon:
        settle(daemon)
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
    with running(root, state, daemon_idle_unload_minutes="1") as daemon:
        process = daemon.process()
        with daemon.connect() as memory:
            for text in questions:
                memory.search(text)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and _is_loaded(daemon):
            time.sleep(2.0)
        unloaded = resident_mb(process)
    return [
        Row(
            f"daemon's resident memory, {chunks:,} chunks, model loaded", f"{loaded:.0f} MB", "≤ 300 MB", loaded <= 300
        ),
        Row("the same, model unloaded after its idle time", f"{unloaded:.0f} MB", "≤ 120 MB", unloaded <= 120),
        Row(f"processor time at rest over {IDLE_SECONDS:.0f} s", f"{idle:.2%} of a core", "≤ 0.5 %", idle <= 0.005),
    ]


def _is_loaded(daemon: RunningDaemon) -> bool:
    with daemon.connect() as memory:
        about = memory.status().daemon
    return about is not None and about.model_loaded


def _processes(process: int) -> list[int]:
    """Return a process and its children: the model has one of its own, and so has each worker that parses notes."""
    lists = Path(f"/proc/{process}/task").glob("*/children")
    return [process, *(int(child) for one in lists for child in one.read_text().split())]


def resident_mb(process: int) -> float:
    """Return what a process and its children hold in memory."""
    pages = sum(int(Path(f"/proc/{one}/statm").read_text().split()[1]) for one in _processes(process))
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


def _processor_seconds(process: int) -> float:
    all_fields = [Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split() for one in _processes(process)]
    return sum(int(fields[11]) + int(fields[12]) for fields in all_fields) / os.sysconf("SC_CLK_TCK")
