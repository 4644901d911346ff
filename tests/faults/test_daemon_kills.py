"""kill -9 while somebody edits: a short share of what `python -m tests.faults.soak_daemon` does for long."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from memsync.daemon.daemon_lock import running
from memsync.memory import Memory
from tests.faults.soak_daemon import run
from tests.support.daemon_process import Cli, until
from tests.support.index_checks import assert_sound
from tests.support.sampling import fewer

KILLS, ROUNDS = fewer(4, 2), 3

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="needs Linux: descriptors and threads are counted in /proc"
)


@pytest.mark.slow
def test_daemon_killed_at_random_moments_converges(tmp_path: Path) -> None:
    """At rest the index is as if nothing had been, no answer was untrue, no file was touched; then it does not grow."""
    counts = run(tmp_path, kills=KILLS, rounds=ROUNDS, seed=1)
    assert counts.kills == KILLS
    assert counts.rounds == ROUNDS
    assert min(counts.rests, counts.edits, counts.searches, counts.hits, counts.words_found) > 0


@pytest.mark.slow
@pytest.mark.usefixtures("real_models")
def test_daemon_with_the_real_model_is_killed_and_goes_on(cli: Cli) -> None:
    """What was embedded stays, the rest follows, and the index is sound each time."""
    for number in range(200):
        (cli.root / f"n{number:03}.md").write_text(f"The heron of note {number} nests.\n")
    for least in (1, 60):
        process = cli.start()
        with Memory.connect(cli.root) as memory:
            until(lambda: memory.status().vectors >= least, "some vectors are there", seconds=60)  # noqa: B023 (because it is called at once)
        os.kill(process, signal.SIGKILL)
        until(lambda: running(cli.settings) is None, "it is gone, and its lock is free")
        assert_sound(cli.settings.index_dir / "index.db")
    cli.start()
    with Memory.connect(cli.root) as memory:
        assert memory.wait(vectors=True, seconds=60)
        assert memory.status().notes == 200
    assert cli("daemon", "stop").returncode == 0
    assert cli.process("index", "verify").returncode == 0
