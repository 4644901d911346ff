"""Plant faults one at a time and count how many the tests find: `make mutants`, or `make mutants ROOM=search SEED=2`.

Results are kept in `.mutants/` by fault and by the content of package and tests, so that a run that was interrupted
goes on, and one after a change of tests runs what that can change.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from tests.mutants.copies import PROJECT, Copy, clean_up, run_tests
from tests.mutants.excused import unexcused
from tests.mutants.fault import PACKAGE, Fault
from tests.mutants.generate import sample
from tests.mutants.reach import Reach, digest, package_digest, support_digest, test_files
from tests.mutants.written import written_faults

SHARE_TO_FIND = 0.95
AT_ONCE = 2
MOST_SECONDS = 300.0
"""How long the tests of one fault may take unmutated; what would come later is not run."""
FIRST_TESTS = 60
FIRST_FILES = 3
"""So many of the best tests, of so many files, are run before the others: most faults need no more."""
SURE_SECONDS = 1.0
"""A test that takes longer, and so may depend on the machine, is run again where it fails: once may be chance."""
HANG_FACTOR, HANG_SECONDS = 8.0, 30.0
"""A test hangs when it takes so many times its usual time, and so many seconds more."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a fault: the test that found it, or nothing; `how` tells a failure from a hang."""

    found_by: str
    how: str
    tests: int


def main() -> int:
    """Plant, count, list what survived. Exit code 1: too few found; 2: a description that fits nothing."""
    asked = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    asked.add_argument("--room", default="", help="plant faults of this room only (several: with commas)")
    asked.add_argument("--seed", default="1", help="draw another sample of generated faults")
    asked.add_argument("--keep-traces", action="store_true", help="trace only test files that changed themselves")
    asked.add_argument("--list", action="store_true", help="print the faults and plant none")
    own = asked.parse_args()
    try:
        faults = [
            *written_faults(PROJECT / PACKAGE),
            *unexcused(PROJECT / PACKAGE, sample(PROJECT / PACKAGE, own.seed)),
        ]
    except LookupError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    rooms = [room for room in own.room.split(",") if room]
    if unknown := set(rooms) - {fault.room for fault in faults}:
        sys.stderr.write(f"no such room: {', '.join(unknown)}; rooms: {', '.join(sorted({f.room for f in faults}))}\n")
        return 2
    faults = [fault for fault in faults if not rooms or fault.room in rooms]
    if own.list:
        sys.stdout.writelines(f"{fault.room:14}{fault}\n" for fault in faults)
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _report(faults, _Run().results(faults, keep_traces=own.keep_traces))
    except KeyboardInterrupt:
        clean_up()
        sys.stderr.write("Interrupted. What was found is kept; run the command again to go on.\n")
        os._exit(130)  # without waiting for the threads, whose processes have just ended


class _Run:
    """One run: what is kept from earlier ones, and the copies to plant in."""

    def __init__(self) -> None:
        self._kept = PROJECT / ".mutants"
        self._results_file = self._kept / "results.jsonl"
        self._reach = Reach(self._kept)
        self._writing = threading.Lock()
        self._package, self._support = package_digest(), support_digest()
        self._files = {name: digest((PROJECT / name).read_bytes()) for name in test_files()}

    def results(self, faults: Sequence[Fault], *, keep_traces: bool) -> dict[Fault, Result]:
        """Return what became of each fault."""
        for told in self._reach.record(list(self._files), AT_ONCE, keep=keep_traces):
            sys.stderr.write(f"{told}\n")
        kept = self._read_kept()
        results: dict[Fault, Result] = {}
        todo: queue.Queue[tuple[Fault, list[str]]] = queue.Queue()
        for fault in faults:
            tests = self._chosen(fault)
            known = kept.get(self._key(fault, tests)) or kept.get(self._key(fault, []))
            if known is not None and self._still_holds(known, tests):
                results[fault] = known
            else:
                todo.put((fault, tests))
        workers = [threading.Thread(target=self._work, args=(todo, results, len(faults))) for _ in range(AT_ONCE)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return results

    def _work(self, todo: queue.Queue[tuple[Fault, list[str]]], results: dict[Fault, Result], total: int) -> None:
        copy = Copy()
        try:
            while True:
                try:
                    fault, tests = todo.get_nowait()
                except queue.Empty:
                    return
                started = time.monotonic()
                result = self._plant(copy, fault, tests)
                with self._writing:
                    results[fault] = result
                    self._keep(fault, tests, result)
                    took = time.monotonic() - started
                    told = f"{result.how} by {result.found_by}" if result.found_by else "SURVIVED"
                    sys.stderr.write(f"[{len(results)}/{total}] {took:.0f} s {told}\n    {fault}\n")
        finally:
            copy.remove()

    def _plant(self, copy: Copy, fault: Fault, tests: Sequence[str]) -> Result:
        """Run the tests with the fault in the copy until one fails; one that takes long must fail twice."""
        place = copy.folder / PACKAGE / fault.path
        source = (PROJECT / PACKAGE / fault.path).read_bytes()
        place.write_bytes(fault.plant(source))
        try:
            left = list(tests)
            while left:
                likely, others = _divided(left)
                first = self._first_failure(copy, likely) or self._first_failure(copy, others)
                if first is None:
                    break
                is_sure = self._reach.seconds[first.found_by] < SURE_SECONDS
                if again := first if is_sure else self._first_failure(copy, [first.found_by]):
                    return Result(again.found_by, again.how, len(tests))
                left.remove(first.found_by)
        finally:
            place.write_bytes(source)
        return Result("", "", len(tests))

    def _first_failure(self, copy: Copy, tests: Sequence[str]) -> Result | None:
        if not tests:
            return None
        limits = {test: HANG_FACTOR * self._reach.seconds[test] + HANG_SECONDS for test in tests}
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        ran = run_tests(copy, files, limits, "-x")
        if ran.failed:
            return Result(next(iter(ran.failed)), "found", 0)
        if ran.hung:
            return Result(ran.hung, "hangs, found", 0)
        if ran.code == 0:
            return None
        if ran.code in (1, 2, 3, 4):  # the package or a test file cannot be imported any more
            return Result(tests[0], "cannot be imported, found", 0)
        raise RuntimeError(f"pytest ended with {ran.code}:\n{ran.output}")

    def _chosen(self, fault: Fault) -> list[str]:
        chosen, seconds = [], 0.0
        for test in self._reach.tests(fault):
            seconds += self._reach.seconds[test]
            if seconds < MOST_SECONDS:
                chosen.append(test)
        return chosen

    # ------------------------------------------------------------------------------------------- keeping

    def _key(self, fault: Fault, tests: Sequence[str]) -> str:
        """Return the name of a result: of what survived with all tests that were run, of what was found without."""
        files = sorted({test.partition("::")[0] for test in tests})
        parts = [self._package, self._support, str(fault), str(fault.nth), str(fault.start), *tests]
        return digest("\n".join(parts).encode(), *(self._files[name].encode() for name in files))

    def _still_holds(self, known: Result, tests: Sequence[str]) -> bool:
        return not known.found_by or known.found_by in tests

    def _read_kept(self) -> Mapping[str, Result]:
        if not self._results_file.exists():
            return {}
        rows = [json.loads(line) for line in self._results_file.read_text().splitlines()]
        return {row.pop("key"): Result(**row) for row in rows}

    def _keep(self, fault: Fault, tests: Sequence[str], result: Result) -> None:
        key = self._key(fault, [] if result.found_by else tests)
        with self._results_file.open("a") as file:
            file.write(json.dumps({"key": key, **asdict(result)}) + "\n")


def _divided(tests: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the tests to run first, and the others."""
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))[:FIRST_FILES]
    likely = [test for test in tests if test.partition("::")[0] in files][:FIRST_TESTS]
    chosen = set(likely)
    return likely, [test for test in tests if test not in chosen]


def _report(faults: Sequence[Fault], results: Mapping[Fault, Result]) -> int:
    planted = Counter(fault.room for fault in faults)
    found = Counter(fault.room for fault in faults if results[fault].found_by)
    for fault in faults:
        if not results[fault].found_by:
            sys.stdout.write(f"survived {results[fault].tests} tests: {fault}\n")
    for room in sorted(planted):
        sys.stdout.write(f"{room:14}{found[room]:4} of {planted[room]:4}\n")
    share = found.total() / planted.total()
    sys.stdout.write(f"{'all':14}{found.total():4} of {planted.total():4}: {share:.1%}\n")
    return 0 if share >= SHARE_TO_FIND else 1


if __name__ == "__main__":
    raise SystemExit(main())
