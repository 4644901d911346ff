"""Proof A run long: `python -m tests.convergence.soak --minutes 10 [--seed 1]`."""

from __future__ import annotations

import argparse
import logging
import sys
import time

from tests.convergence import oracle
from tests.convergence.machine import COUNTS
from tests.convergence.run import run

EXAMPLES = 50
STEPS = 50


def main() -> int:
    """Run worlds of new seeds until the time is up; print what was done, and on failure the seed and its steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None, help="of the first run; the next ones count on from it")
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)
    seed = chosen.seed if chosen.seed is not None else time.time_ns() // 1_000_000
    run(examples=1, steps=5)
    before = oracle.open_descriptors(), oracle.thread_count()
    until, divergences = time.monotonic() + chosen.minutes * 60, 0
    COUNTS.clear()
    while time.monotonic() < until and not divergences:
        try:
            run(examples=EXAMPLES, steps=STEPS, seed=seed)
        except KeyboardInterrupt:
            break
        except Exception as error:  # noqa: BLE001 (because every failure is a finding)
            divergences += 1
            print(f"seed {seed}: {type(error).__name__}: {error}\n" + "\n".join(getattr(error, "__notes__", [])))  # noqa: T201 (because a person reads it)
        seed += 1
    leaked = (oracle.open_descriptors(), oracle.thread_count()) != before
    counts = ", ".join(f"{COUNTS[kind]} {kind}" for kind in ("operations", "syncs", "searches", "restarts", "rests"))
    print(f"A: {counts}, {divergences} divergences, descriptors and threads {'leaked' if leaked else 'flat'}")  # noqa: T201 (because a person reads it)
    return 1 if divergences or leaked else 0


if __name__ == "__main__":
    sys.exit(main())
