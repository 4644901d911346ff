"""Proof A run long: `python -m tests.convergence.soak [--minutes 10] [--operations 300000] [--seed 1]`."""

from __future__ import annotations

import argparse
import logging
import sys
import time

from tests.convergence import oracle
from tests.convergence.machine import COUNTS
from tests.convergence.run import REPEAT, WORLDS, fresh_seed, run, run_batch
from tests.support.descriptors import open_descriptors

MOST_DIVERGENCES = 5


def main() -> int:
    """Run batches of worlds, each of the next seed, until the time is up or enough was done.

    Prints what was done, and for each divergence the seed that repeats it and the shortest steps that lead to it.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--operations", type=int, default=sys.maxsize, help="end after so many, if that comes first")
    parser.add_argument("--seed", type=int, default=None, help="of the first batch; default: a new one each time")
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)
    first = seed = chosen.seed if chosen.seed is not None else fresh_seed()
    print(f"A: first seed {first}", flush=True)  # noqa: T201 (because a person reads it)
    run(examples=1, steps=5)
    before = open_descriptors(), oracle.thread_count()
    until, divergences = time.monotonic() + chosen.minutes * 60, 0
    COUNTS.clear()
    while time.monotonic() < until and COUNTS["operations"] < chosen.operations and divergences < MOST_DIVERGENCES:
        try:
            run_batch(seed)
        except KeyboardInterrupt:
            break
        except Exception as error:  # noqa: BLE001 (because every failure is a finding)
            divergences += 1
            steps = "\n".join(getattr(error, "__notes__", []))
            print(f"{REPEAT}{seed}\n{type(error).__name__}: {error}\n{steps}", flush=True)  # noqa: T201 (because a person reads it)
        seed += 1
    leaked = (open_descriptors(), oracle.thread_count()) != before
    counts = ", ".join(f"{COUNTS[kind]} {kind}" for kind in ("operations", "syncs", "searches", "restarts", "rests"))
    worlds = f"{seed - first} seeds of {WORLDS} worlds from {first}"
    print(f"A: {worlds}: {counts}, {divergences} divergences, descriptors and threads {'leaked' if leaked else 'flat'}")  # noqa: T201 (because a person reads it)
    return 1 if divergences or leaked else 0


if __name__ == "__main__":
    sys.exit(main())
