"""What pytest does besides in a copy with a fault, or while it is traced. Loaded with `-p tests.mutants.plugin`.

MUTANTS_CHOSEN: a file with the chosen tests, in order, and for how many seconds each may run; MUTANTS_EVENTS: a file to
which one JSON document a test is appended; MUTANTS_REACHED: set while tests are traced.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

_EVENTS = Path(os.environ["MUTANTS_EVENTS"])
_CHOSEN: dict[str, float] = json.loads(Path(os.environ["MUTANTS_CHOSEN"]).read_text())
_SHARED_SECONDS = 60.0
"""What the first test of a fixture that several share may take more."""
_stderr = open(os.dup(sys.stderr.fileno()), "w")  # noqa: SIM115 (because it must outlive pytest's own)


def _tell(**event: Any) -> None:
    with _EVENTS.open("a") as file:
        file.write(json.dumps(event) + "\n")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the chosen tests, in the order chosen; without a choice, all."""
    if _CHOSEN:
        own = {item.nodeid: item for item in items}
        items[:] = [own[name] for name in _CHOSEN if name in own]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End the whole process when a test hangs; what it was doing is printed."""
    _enter(item.nodeid)
    started = time.monotonic()
    if item.nodeid in _CHOSEN:
        _tell(began=item.nodeid)
        faulthandler.dump_traceback_later(_CHOSEN[item.nodeid] + _SHARED_SECONDS, exit=True, file=_stderr)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
        _tell(ended=item.nodeid, seconds=time.monotonic() - started)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Count what a fixture of several tests reaches for all tests of the file."""
    if fixturedef.scope == "function":
        return (yield)
    _enter(f"{request.node.nodeid.partition('::')[0] or request.node.nodeid}::*")
    try:
        return (yield)
    finally:
        _enter(None)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Tell which tests failed."""
    if report.failed:
        _tell(failed=report.nodeid, why=str(report.longrepr)[-2000:])


def _enter(context: str | None) -> None:
    if "MUTANTS_REACHED" in os.environ:
        import memsync_reached  # type: ignore[import-not-found]  # because a run writes it

        memsync_reached.enter(context)
