"""The faults of `make mutants` that are written down by hand, and the excuses for others, still fit the code."""

from __future__ import annotations

import pytest

from tests.mutants import reach
from tests.mutants.copies import PROJECT
from tests.mutants.excused import unexcused
from tests.mutants.fault import PACKAGE
from tests.mutants.written import WRITTEN, written_faults


def test_each_written_fault_fits_one_piece_of_code() -> None:
    """One that fits nothing any more would be planted nowhere, and the run would stop before its first fault."""
    faults = list(written_faults(PROJECT / PACKAGE))
    assert len(faults) == len(WRITTEN)
    assert len({(fault.path, fault.start, fault.after) for fault in faults}) == len(faults)


@pytest.mark.slow
def test_each_excuse_fits_a_fault() -> None:
    """Otherwise the run would stop before its first fault."""
    assert unexcused(PROJECT / PACKAGE, []) == []


def test_every_test_file_may_find_faults(request: pytest.FixtureRequest) -> None:
    """Otherwise a fault counts as not found although a test finds it."""
    collected = {item.path.relative_to(PROJECT).as_posix() for item in request.session.items}
    assert "tests/project/test_written_faults.py" in collected
    assert collected <= {*reach.test_files(), *reach.LEFT_OUT}
    assert all((PROJECT / name).exists() for name in reach.LEFT_OUT)
