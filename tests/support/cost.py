"""What each test costs in CPU time: the dearest are named on demand, and what costs too much must be marked `slow`.

A test's cost is the CPU time of its worker, all threads, plus that of the children for which the worker has waited. It
does not depend on how many other programs run, or only by the half that shared caches and cores cost; so the limit is
compared with the time that a fixed sum takes on the same processor at the same moment. What the first test of a worker
pays for all others (`shared_cost`) does not count.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import pytest

from tests.support.cpu_time import cpu_seconds

LIMIT_SECONDS = 2.0
"""What a test may cost that is not marked `slow`, on a processor of REFERENCE_SECONDS."""
TOLERANCE = 1.5
REFERENCE_SECONDS = 0.03
"""How long `_fixed_work` takes on a usual processor. A faster one does not lower the limit."""
_began: dict[str, float] = {}


def _slowness() -> float:
    """Return how many times longer this processor takes now than a usual one that is idle; at least 1."""
    begun = time.process_time()
    sum(number * number for number in range(700_000))
    return max(1.0, (time.process_time() - begun) / REFERENCE_SECONDS)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    parser.addoption("--dearest", type=int, default=0, metavar="N", help="name the N tests that cost the most CPU time")
    parser.addoption("--limit-cost", action="store_true", help="fail what costs too much and is not marked slow")


def pytest_configure(config: pytest.Config) -> None:
    """Explain the mark."""
    config.addinivalue_line("markers", f"slow: costs over {LIMIT_SECONDS:g} s of CPU; `make test` draws a few")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logstart(nodeid: str) -> None:
    """Begin the account of a test."""
    _began[nodeid] = cpu_seconds()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Write the cost of a test into its last report, which a worker of xdist hands to the controller."""
    report = yield
    if report.when == "teardown":
        spent = cpu_seconds() - _began.pop(item.nodeid)
        report.user_properties.append(("cpu", spent))
        is_free = report.failed or item.get_closest_marker("slow") or not item.config.option.limit_cost
        if not is_free and spent > LIMIT_SECONDS * TOLERANCE and spent > LIMIT_SECONDS * TOLERANCE * _slowness():
            report.outcome = "failed"
            report.longrepr = f"it cost {spent:.1f} s of CPU: make it cheaper, or mark it pytest.mark.slow"
    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Name the dearest tests, and what all cost together."""
    reports = [report for listed in terminalreporter.stats.values() for report in listed]
    costs = [
        (seconds, report.nodeid)
        for report in reports
        for name, seconds in getattr(report, "user_properties", ())
        if name == "cpu"
    ]
    if config.option.dearest:
        terminalreporter.write_line(f"{len(costs)} tests: {sum(seconds for seconds, _ in costs):.1f} s of CPU")
        for seconds, name in sorted(costs, reverse=True)[: config.option.dearest]:
            terminalreporter.write_line(f"{seconds:7.2f} s {name}")
