"""Faults that no test can find because nothing that memsync promises changes, each with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.mutants.fault import Fault
from tests.mutants.generate import candidates

# (function, before, after) of a generated fault -> why nobody could tell the difference.
EXCUSED: dict[tuple[str, str, str], str] = {
    ("Indexer._read", "0", "1"): "the stamp of a file that has gone fills a place and is read by nobody",
    ("Chunk", "0", "1"): "whatever makes chunks of notes gives the columns; only tests leave them out",
}


def unexcused(package: Path, faults: Sequence[Fault]) -> list[Fault]:
    """Return the faults that no excuse names. Raises LookupError for an excuse that fits nothing any more."""
    there = {(fault.function, fault.before, fault.after) for fault in candidates(package)}
    stale = [key for key in EXCUSED if key not in there]
    if stale:
        raise LookupError("\n".join(f"tests/mutants/excused.py: nothing to excuse any more: {key}" for key in stale))
    return [fault for fault in faults if (fault.function, fault.before, fault.after) not in EXCUSED]
