"""Runs of the machine: a short repeatable share for the tests, long and random ones for the soak."""

from __future__ import annotations

import os
import time
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import get_state_machine_test

from tests.convergence.machine import Convergence

WORLDS = 10
STEPS = 50
"""What one seed stands for: so many worlds, of at most so many steps each."""
REPEAT = "repeat with: python -m tests.convergence.soak --minutes 0.01 --seed "


def fresh_seed() -> int:
    """Return a seed that was most likely never used before."""
    return int.from_bytes(os.urandom(5))


def run_batch(seed: int, *, shrink: bool = True) -> None:
    """Run the worlds of one seed. Raises what the first that fails does, after looking for the shortest way there."""
    run(examples=WORLDS, steps=STEPS, seed=seed, shrink=shrink)


def run_fresh(seed: int, seconds: float, *, shrink: bool = True) -> None:
    """Run the worlds of `seed`, `seed + 1` and so on until the time is up. What fails says how to repeat it."""
    until = time.monotonic() + seconds
    while True:
        try:
            run_batch(seed, shrink=shrink)
        except Exception as error:
            error.add_note(f"{REPEAT}{seed}")
            raise
        if time.monotonic() >= until:
            return
        seed += 1


def run(*, examples: int, steps: int, seed: int = 0, shrink: bool = True) -> None:
    """Run so many worlds of so many steps each, the same ones for a seed. Raises what the first that fails does."""
    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    test: Any = get_state_machine_test(
        Convergence,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=False,
            database=None,
            deadline=None,
            phases=phases,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        ),
    )
    test._hypothesis_internal_use_seed = seed
    test()
