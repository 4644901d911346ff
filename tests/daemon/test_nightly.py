"""The daemon runs the curator at night if the settings say so; a failure is a fault of the daemon, not its end."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from memsync.daemon import nightly
from memsync.daemon.health import DaemonFaults
from memsync.settings.load import Settings, with_changes
from tests.conftest import MakeMemory, Patch, Write


@pytest.fixture(autouse=True)
def _today(set_day: Callable[[str], None], monkeypatch: Patch) -> None:
    set_day("2026-11-25")
    monkeypatch.setattr(nightly, "NIGHT_HOUR", 0)
    monkeypatch.setattr(nightly, "LAST_HOUR", 24)


def test_runs_only_if_asked_and_proposes(make_memory: MakeMemory, settings: Settings, write: Write, root: Path) -> None:
    """The thread starts with the setting alone; one step writes one proposal, and a second one none."""
    write("daily/2026-11-10.md", "# 2026-11-10\n\n- 09:00 we chose SQLite for the store\n")
    asleep = nightly.Nightly(make_memory(), DaemonFaults())
    asleep.start()
    assert asleep.join(0.0)
    memory = make_memory(own_settings=with_changes(settings, {"curator.nightly": "true"}, "test"))
    awake = nightly.Nightly(memory, DaemonFaults())
    awake.start()
    assert not awake.join(0.0)
    awake.stop()
    assert awake.join(5.0)
    awake.step()
    awake.step()
    assert [path.name for path in (root / "proposals").iterdir()] == ["0001.json"]


def test_program_that_fails_is_a_fault(make_memory: MakeMemory, settings: Settings, write: Write) -> None:
    """Its reason is in the status until a run succeeds. The next run is tomorrow, since it may cost money."""
    write("daily/2026-11-10.md", "# 2026-11-10\n\n- 09:00 we chose SQLite for the store\n")
    command = json.dumps([sys.executable, "-c", "raise SystemExit('out of credit')"])
    memory = make_memory(own_settings=with_changes(settings, {"curator.command": command}, "test"))
    health = DaemonFaults()
    curator = nightly.Nightly(memory, health)
    for _ in range(2):  # the second time it does nothing
        curator.attempt()
        assert "out of credit" in health.reason("curator")
