"""When what was reported is looked at: once it has stood still, not too late, a storm together. Times are made up."""

from __future__ import annotations

import pytest

from memsync.daemon.debounce import EVERYTHING, STORM_PATHS, STORM_SETTLES, ReportedPaths

SETTLE, LONGEST = 0.03, 1.0
NEVER = float("inf")
STORM = [f"n{number}.md" for number in range(STORM_PATHS + 1)]


@pytest.fixture
def reports() -> ReportedPaths:
    return ReportedPaths(SETTLE, LONGEST)


def test_nothing_is_due_when_nothing_was_reported(reports: ReportedPaths) -> None:
    """Whoever waits for reports may sleep."""
    assert reports.due_at() == NEVER
    assert not reports.take(100.0)
    assert not reports.take(100.0, at_once=True)


def test_a_path_is_due_once_it_has_stood_still(reports: ReportedPaths) -> None:
    """Each report of it begins the wait anew; other paths do not."""
    reports.add("a.md", 1.0)
    reports.add("b.md", 1.0)
    reports.add("a.md", 1.02)
    assert reports.due_at() == pytest.approx(1.0 + SETTLE)
    assert not reports.take(1.0 + SETTLE - 0.001)
    assert reports.take(1.0 + SETTLE) == frozenset({"b.md"})
    assert reports.due_at() == pytest.approx(1.02 + SETTLE)
    assert reports.take(1.02 + SETTLE) == frozenset({"a.md"})
    assert reports.due_at() == NEVER


def test_a_path_is_due_exactly_when_due_at_said(reports: ReportedPaths) -> None:
    """Or whoever slept until then would find nothing and sleep again."""
    for first in (0.1, 1 / 3, 12345.678):
        reports.add("a.md", first)
        due_at = reports.due_at()
        assert reports.take(due_at) == frozenset({"a.md"})


def test_a_file_saved_all_the_time_is_due_after_the_longest_wait(reports: ReportedPaths) -> None:
    """Saved every 20 ms it never stands still, and is looked at all the same, again and again."""
    taken = []
    for tick in range(300):
        now = tick * 0.02
        reports.add("log.md", now)
        if reports.take(now):
            taken.append(now)
    assert taken == [pytest.approx(LONGEST * number + 0.02 * (number - 1), abs=0.03) for number in range(1, 6)]


def test_a_storm_is_one_comparison_of_everything_when_it_is_over(reports: ReportedPaths) -> None:
    """More paths than this in a row are a checkout: nothing is looked at until it has been quiet for longer."""
    for number, path in enumerate(STORM):
        reports.add(path, number * 0.001)
    last = (len(STORM) - 1) * 0.001
    assert not reports.take(last + SETTLE)
    assert reports.due_at() == pytest.approx(last + STORM_SETTLES * SETTLE)
    assert reports.take(last + STORM_SETTLES * SETTLE) == EVERYTHING
    assert reports.due_at() == NEVER


def test_a_storm_without_end_is_looked_at_after_the_longest_wait(reports: ReportedPaths) -> None:
    """Something that writes thousands of files for minutes does not keep all others from being found."""
    now = 0.0
    while not reports.take(now):
        for path in STORM:
            reports.add(path, now)
        now += 0.02
        assert now < 2 * LONGEST
    assert now >= LONGEST


def test_as_many_paths_as_no_storm_has_are_looked_at_each(reports: ReportedPaths) -> None:
    """A comparison of everything would cost more."""
    for path in STORM[1:]:
        reports.add(path, 0.0)
    assert reports.take(SETTLE) == frozenset(STORM[1:])


@pytest.mark.parametrize("paths", [["a.md"], STORM])
def test_at_once_takes_what_has_not_settled(paths: list[str], reports: ReportedPaths) -> None:
    """For a search that waits for what was just saved; nothing is left over for later."""
    for path in paths:
        reports.add(path, 1.0)
    expected = EVERYTHING if paths is STORM else frozenset(paths)
    assert reports.take(1.0, at_once=True) == expected
    assert reports.due_at() == NEVER


def test_lost_reports_make_everything_due_at_once(reports: ReportedPaths) -> None:
    """Single paths are part of everything, and are not looked at a second time."""
    reports.add("a.md", 1.0)
    reports.add_everything()
    reports.add_everything()
    assert reports.due_at() < 0.0
    assert reports.take(1.0) == EVERYTHING
    assert reports.due_at() == NEVER
    assert not reports.take(9.0)
