"""All faults of the database file, and power losses: python -m tests.faults.soak_database [--seed S] [--losses N].

Prints what was run; at the first failure, with what it takes to see it again, exits with 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import product
from pathlib import Path

from tests.support.database_scenario import run_clean, run_with_fault
from tests.support.faulty_database import Disk, Fault, faulty_calls, faulty_disk
from tests.support.power_loss import record_life, survive


def tell(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Run all and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first loss's seed; each has the next")
    parser.add_argument("--losses", type=int, default=2_000, help="how often the power is lost")
    parser.add_argument("--every", type=int, default=1, help="fail one call in so many")
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="memsync-soak-") as folder:
        disks: dict[str, Callable[[], AbstractContextManager[Disk]]] = {"calls": faulty_disk}
        if sys.platform == "linux":
            disks["system calls"] = faulty_calls
        done = all(_faults(name, disk, Path(folder), options.every) for name, disk in disks.items())
        done = done and _losses(Path(folder), options.seed, options.losses)
    tell(f"{time.monotonic() - started:.0f} s: {'0 divergences' if done else 'FAILED'}")
    return 0 if done else 1


def _faults(name: str, make_disk: Callable[[], AbstractContextManager[Disk]], folder: Path, every: int) -> bool:
    """Fail each call with each sort of fault; every other run opens the index anew before the fault is healed."""
    runs = struck = refused = 0
    with make_disk() as disk:
        clean = run_clean(disk, folder / "clean")
        for at in range(1, clean.calls + 1, every):
            for is_full, lasts in _SORTS:
                fault, reopens = Fault(at, is_full, lasts), (at // every + lasts) % 2 == 0
                try:
                    met = run_with_fault(disk, fault, folder / "life", clean, reopens=reopens)
                except Exception:  # noqa: BLE001 because whatever it is, the point is what must be known
                    traceback.print_exc()
                    tell(f"faults: {fault} of the {name}, {'reopened' if reopens else 'not reopened'}")
                    return False
                runs, struck, refused = runs + 1, struck + met.struck, refused + met.refused
    tell(f"faults: {clean.calls} {name} x {len(_SORTS)}, {runs} runs, {struck} calls failed, {refused} steps raised")
    return True


_SORTS = list(product((False, True), repeat=2))
"""Disk full, lasting: each or not."""


def _losses(folder: Path, seed: int, losses: int) -> bool:
    """Lose the power so often."""
    took = 0
    recording = record_life(folder / "recorded")
    for number in range(seed, seed + losses):
        try:
            took += survive(recording, number, folder / "after")
        except Exception:  # noqa: BLE001 because whatever it is, the seed is what must be known
            traceback.print_exc()
            tell(f"power loss: --seed {number} --losses 1")
            return False
    tell(f"power losses: {losses} over {len(recording.events)} events, {took} with something at stake")
    return True


if __name__ == "__main__":
    sys.exit(main())
