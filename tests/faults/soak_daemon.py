"""The real daemon, killed while somebody edits: `python -m tests.faults.soak_daemon --kills 300 --seed 1`.

After every few kills the editing rests: then the index must equal one built from nothing, and every file must be as it
was written. Then one daemon lives through as much editing without being killed, and must not grow.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memsync.errors import DaemonUnavailable
from memsync.memory import Memory, RemoteMemory
from memsync.model.answer import SearchResult
from memsync.model.vocabulary import Fresh
from memsync.settings.load import load_settings
from tests.convergence.oracle import places_of
from tests.convergence.test_index_purity import fresh_dump
from tests.convergence.texts import WORDS
from tests.support.fake_daemon import connect
from tests.support.index_checks import assert_sound, dump
from tests.support.random_editor import Editor

START_SECONDS = 30.0
REST_SECONDS = 20.0
"""Less than the time between full comparisons: what is reported must be enough."""
KILLS_A_REST = 5
LONGEST_LIFE_SECONDS = 1.0
WARM_ROUNDS = 4
SLACK = 6
"""A thread that is busier than before opens the index again; what leaks grows by more than this in 40 rounds."""


class Divergence(AssertionError):
    """Something that must not happen, and how to see it again."""


@dataclass(slots=True)
class Counts:
    """What was done and checked."""

    kills: int = 0
    killed_before_answering: int = 0
    rests: int = 0
    rounds: int = 0
    edits: int = 0
    searches: int = 0
    lost_with_daemon: int = 0
    hits: int = 0
    words_found: int = 0
    descriptors: str = ""
    threads: str = ""


class Soak:
    """One root, its editor and its daemon. Raises Divergence at the first thing that is wrong."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.root = folder / "notes"
        self.root.mkdir()
        self.counts = Counts()
        self._folder = folder
        self._seed = seed
        self._chance = random.Random(seed)
        self._editor = Editor(self.root, folder / "outside", random.Random(seed + 1))
        self._daemon: subprocess.Popen[str] | None = None

    # ------------------------------------------------------------------------------------------ phases

    def kill(self, times: int) -> None:
        """Kill the daemon so often, checking everything now and then."""
        while self.counts.kills < times:
            self._editor.start()
            try:
                for _ in range(min(KILLS_A_REST, times - self.counts.kills)):
                    self._start()
                    self._search_until(time.monotonic() + self._chance.random() ** 2 * LONGEST_LIFE_SECONDS)
                    self._end(signal.SIGKILL)
                    self.counts.kills += 1
            finally:
                self._editor.rest()
            self._start()
            self._check_at_rest()
            self._end(signal.SIGTERM)

    def live(self, rounds: int) -> None:
        """Let one daemon live through so many rounds of editing; its descriptors and threads must stay as they were."""
        self._start()
        most: list[int] = []
        for number in range(rounds):
            self._editor.start()
            try:
                self._search_until(time.monotonic() + LONGEST_LIFE_SECONDS)
            finally:
                self._editor.rest()
            self._check_at_rest()
            self.counts.rounds += 1
            now = self._held()
            if number < WARM_ROUNDS:
                most = list(map(max, zip(now, most or now, strict=True)))
            elif any(value > limit + SLACK for value, limit in zip(now, most, strict=True)):
                raise self._divergence(f"descriptors, threads grew from {most} to {now}")
            self.counts.descriptors, self.counts.threads = (
                f"{was} then, {value} now" for was, value in zip(most, now, strict=True)
            )
        self._end(signal.SIGTERM)

    def close(self) -> None:
        """Leave no process behind."""
        self._editor.rest()
        if self._daemon is not None:
            self._daemon.kill()
            self._daemon.communicate()

    # ------------------------------------------------------------------------------------------ daemon

    def _start(self) -> None:
        command = [sys.executable, "-m", "tests.support.fake_daemon", str(self.root)]
        environment = {**os.environ, "FAKE_EMBED_SECONDS": "0.002"}
        self._daemon = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)

    def _end(self, number: signal.Signals) -> None:
        assert self._daemon is not None
        if self._daemon.poll() is not None:
            raise self._divergence(f"the daemon ended by itself: {self._daemon.communicate()[1]}")
        self._daemon.send_signal(number)
        try:
            complaint = self._daemon.communicate(timeout=REST_SECONDS)[1]
        except subprocess.TimeoutExpired:
            raise self._divergence(f"the daemon does not end by {number.name}") from None
        if self._daemon.returncode != (0 if number == signal.SIGTERM else -number) or complaint:
            raise self._divergence(f"the daemon ended with {self._daemon.returncode}: {complaint}")
        self._daemon = None

    def _connected(self, limit: float) -> RemoteMemory | None:
        """Return a connection to the daemon once it answers; None if it does not before then."""
        while time.monotonic() < limit:
            with suppress(DaemonUnavailable):
                return Memory.connect(self.root)
            if self._daemon is not None and self._daemon.poll() is not None:
                raise self._divergence(f"the daemon did not start: {self._daemon.communicate()[1]}")
            time.sleep(0.01)
        return None

    def _held(self) -> list[int]:
        """Return how many descriptors and threads the daemon has."""
        assert self._daemon is not None
        place = Path("/proc") / str(self._daemon.pid)
        return [len(list((place / what).iterdir())) for what in ("fd", "task")]

    # ------------------------------------------------------------------------------------------ checks

    def _search_until(self, limit: float) -> None:
        """Search, from when the daemon answers until some moment; half of the kills come before it answers."""
        before_ready = self._chance.random() < 0.3
        memory = self._connected(limit if before_ready else time.monotonic() + START_SECONDS)
        if memory is None:
            self.counts.killed_before_answering += 1
            return
        limit += 0 if before_ready else self._chance.random() * LONGEST_LIFE_SECONDS
        with memory:
            while time.monotonic() < limit:
                self._search(memory)

    def _search(self, memory: RemoteMemory) -> None:
        settled = self._editor.settled() if self._chance.random() < 0.5 else None
        query = f'"{settled[1].word}"' if settled else " ".join(self._chance.choices(WORDS, k=2))
        began = time.monotonic()
        try:
            result = memory.search(query, limit=50)
        except DaemonUnavailable:
            self.counts.lost_with_daemon += 1
            raise self._divergence("a living daemon closed the connection") from None
        self.counts.searches += 1
        self._check_hits(result, began)
        if settled and self._editor.is_untouched(*settled):
            path, told = settled[0], result.freshness.stale or result.warnings
            paths = [found for hit in result.hits for found, *_ in places_of(hit)]
            if path not in paths and not told:
                raise self._divergence(f"{path} holds {settled[1].word} and was not found: {result}")
            self.counts.words_found += path in paths

    def _check_hits(self, result: SearchResult, began: float) -> None:
        for hit in result.hits:
            self.counts.hits += 1
            if not self._editor.held(hit.path, hit.text, began):
                raise self._divergence(f"{hit.citation} never held, since the question was asked: {hit.text!r}")

    def _check_at_rest(self) -> None:
        memory = self._connected(time.monotonic() + START_SECONDS)
        if memory is None:
            raise self._divergence("the daemon does not answer")
        self._check_files()
        with memory:
            if self._chance.random() < 0.5:
                memory.search("heron", fresh=Fresh.STRICT)
            expected = fresh_dump(self.root, Path(tempfile.mkdtemp(dir=self._folder)))
            self._await_equal(memory, expected)
        self._check_files()
        assert_sound(load_settings(root=self.root).index_dir / "index.db")
        self.counts.rests += 1
        self.counts.edits = self._editor.steps

    def _await_equal(self, memory: RemoteMemory, expected: list[str]) -> None:
        """Wait until nothing is pending and the index is that of the files; both at once, and soon."""
        limit = time.monotonic() + REST_SECONDS
        with connect(load_settings(root=self.root)) as here:
            while True:
                reached = memory.wait(vectors=True, seconds=REST_SECONDS)
                found = dump(here)
                if reached and found == expected:
                    return
                if time.monotonic() > limit:
                    more, less = sorted({*found} - {*expected})[:3], sorted({*expected} - {*found})[:3]
                    told = f"reached: {reached}, {memory.status().daemon}"
                    raise self._divergence(f"at rest the index has\n{more}\nand lacks\n{less}\n{told}")
                time.sleep(0.02)

    def _check_files(self) -> None:
        found = {
            str(path.relative_to(self.root)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and ".git" not in path.parts
        }
        if found != self._editor.digests():
            raise self._divergence("the files are not as they were written")

    def _divergence(self, what: str) -> Divergence:
        return Divergence(f"{what}\nafter {self.counts}; again: python -m tests.faults.soak_daemon --seed {self._seed}")


def run(folder: Path, *, kills: int, rounds: int, seed: int) -> Counts:
    """Do all of it in a folder that is empty, and return what was done. Raises Divergence."""
    soak = Soak(folder, seed)
    try:
        soak.kill(kills)
        if rounds:
            soak.live(rounds)
    finally:
        soak.close()
    return soak.counts


def main() -> None:
    """Run it for long and print what was done."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak_daemon", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    started = time.monotonic()
    folder = tempfile.mkdtemp(prefix="memsync-soak-")
    os.environ["XDG_STATE_HOME"] = f"{folder}/state"
    try:
        counts = run(Path(folder), kills=arguments.kills, rounds=arguments.rounds, seed=arguments.seed)
    except Divergence as error:
        sys.exit(f"{error}\neverything is kept in {folder}")
    shutil.rmtree(folder)
    sys.stdout.write(f"seed {arguments.seed}: {counts}, 0 divergences, {time.monotonic() - started:.0f} s\n")


if __name__ == "__main__":
    main()
