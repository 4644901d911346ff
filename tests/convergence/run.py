"""Runs of the machine: a short repeatable share for the tests, long and random ones for the soak."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import get_state_machine_test

from tests.convergence.machine import Convergence


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
