"""One memory root, everybody around it, and memsync in the middle; brought to rest, index and files must be equal."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from pathspec import GitIgnoreSpec

from memsync.errors import RootError
from memsync.memory import Memory
from memsync.model.status import IndexedFile
from memsync.model.vocabulary import Fresh, Mode, NotePath
from memsync.settings.load import Settings, load_settings
from tests.conftest import FakeEmbedder
from tests.convergence import oracle
from tests.convergence.clock import SimulatedClock
from tests.convergence.divergence import Divergence, require
from tests.convergence.embedder import Condition, FaultyEmbedder
from tests.convergence.engine import BACKEND, LiveMemory, open_memory, pausing_by
from tests.convergence.filesystem import SimulatedFileSystem, mounted
from tests.convergence.repository import Repository
from tests.convergence.survey import survey
from tests.convergence.tree import Tree
from tests.convergence.watcher import SimulatedWatcher

FAST_FOLDER = "/dev/shm"
REPORTED_SECONDS = 6.0
"""After so long what was reported, or is known to have been lost, is indexed: a tick, and time to settle."""
RESCAN_SECONDS = 31.0
"""After so long more everything has been compared, whatever was reported."""
RETRIED_SECONDS = 320.0
"""After so long a model that failed has been tried again."""
FORGOTTEN_SECONDS = 2.5


@dataclass(slots=True)
class Save:
    """A save in progress: the file is empty or away, and comes back with `mark` in it."""

    path: str
    mark: str
    begun: float
    version: int
    indexed: bool
    done: bool = False


class World:
    """Everything of one run. Use it as a context manager."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(dir=FAST_FOLDER if os.access(FAST_FOLDER, os.W_OK) else None))
        root = self._folder / "notes"
        root.mkdir()
        self.clock = SimulatedClock()
        self.system = SimulatedFileSystem(self.clock)
        self.watcher = SimulatedWatcher(self.clock)
        self.embedder = FaultyEmbedder(self.clock)
        self.tree = Tree(root, self.clock, self.system, self.watcher)
        self.git = Repository(self.tree)
        self.save: Save | None = None
        self._emptied: dict[str, float] = {}
        self._forbidden: dict[str, int] = {}
        self._stack = ExitStack()
        self._stack.enter_context(mounted(self.system))
        self._stack.enter_context(pausing_by(self.clock))
        self._settings = load_settings(root=root, environ={"XDG_STATE_HOME": str(self._folder)}, cwd=root)
        self._index = self._folder / "index"
        self.live = self._start()
        self.other: Memory | None = None

    def close(self) -> None:
        """Leave nothing behind."""
        self.live.close()
        if self.other is not None:
            self.other.close()
        self._stack.close()
        shutil.rmtree(self._folder)

    def _start(self) -> LiveMemory:
        return LiveMemory(self._settings, self._index, self.embedder, self.clock, self.watcher)

    @property
    def settings(self) -> Settings:
        return self._settings

    # ---------------------------------------------------------------------------------------- memsync

    def restart(self) -> None:
        """End the daemon and start it again."""
        self.live.close()
        self.live = self._start()

    def second(self) -> Memory:
        """Return what another process has open: the same index, without a daemon."""
        if self.other is None:
            self.other = open_memory(self._settings, self._index, self.embedder, self.clock, BACKEND.get())
        return self.other

    def rebuild(self, memory: Memory) -> None:
        """Build the index anew, which cannot keep what it cannot read."""
        self._forbidden.clear()
        memory.rebuild(wait_seconds=0)

    def stamps(self) -> dict[NotePath, IndexedFile]:
        """Return what the index says it holds."""
        with self.live.memory.index.reading() as reader:
            return dict(reader.stamps())

    def search(self, memory: Memory, mark: str, path: str, fresh: Fresh, mode: Mode) -> None:
        """Ask for a mark that stands in a note, and check the answer against the files."""
        version, save = self.tree.version, self.save
        result = oracle.find(memory, mark, fresh, mode)
        if self.tree.version == version:
            oracle.assert_quotes(self.tree, result)
            expected = fresh is Fresh.STRICT
        else:
            expected = save is not None and save.done and self.tree.version == save.version + 1
        if expected and fresh is Fresh.STRICT:
            oracle.assert_finds(result, mark, path)

    # ------------------------------------------------------------------------------------------ saves

    def save_in_place(self, path: str, content: bytes, mark: str, seconds: float, *, rename: bool) -> None:
        """Empty a note, or rename it away, and write it again after a moment in which it must not be lost."""
        now = self.clock.monotonic()
        old = self.tree.note_at(path) or b""
        known = self.stamps().get(NotePath(path))
        indexed = known is not None and known.digest == hashlib.sha256(old).digest()
        indexed = indexed and now - self._emptied.get(path, 0.0) > FORGOTTEN_SECONDS
        # What has just been ignored may leave the index at any moment, and rightly.
        indexed = indexed and not self._is_ignored(path)
        self._emptied[path] = now
        if rename:
            self.tree.rename(path, f"{path}~")
        else:
            self.tree.empty(path)
        save = self.save = Save(path, mark, now, self.tree.version, indexed)
        self.clock.plan(seconds, lambda: self._finish(save, content, rename))

    def _is_ignored(self, path: str) -> bool:
        """Tell whether a .gitignore above a note names it; one that takes that back again counts as naming it, too."""
        folders = ["", *(f"{folder}/" for folder in accumulate(path.split("/")[:-1], "{}/{}".format))]
        rules = {folder: self.tree.note_at(f"{folder}.gitignore") for folder in folders}
        return any(
            GitIgnoreSpec.from_lines(text.decode("utf-8", "replace").splitlines()).match_file(path.removeprefix(folder))
            for folder, text in rules.items()
            if text
        )

    def _finish(self, save: Save, content: bytes, rename: bool) -> None:
        if save.indexed and self.tree.version == save.version and not self.system.denied:
            known = self.stamps().get(NotePath(save.path))
            require(known is not None and known.size > 0, f"{save.path} was lost while it was being saved")
        save.done = True
        if rename or self.tree.note_at(save.path) is None:
            self.tree.write(save.path, content)
        else:
            self.tree.overwrite(save.path, content)

    # -------------------------------------------------------------------------------------- the root

    def forbid(self, path: str) -> None:
        """Take the permissions of a note or folder, and remember which notes are now known but unreadable."""
        self.tree.forbid(path)
        for name in self.stamps():
            # A pipe or link in a note's place is no note, which a scan sees without opening it: the note is gone.
            if name in self.tree.now and self.tree.now[name].is_file and self.tree.is_denied(name):
                self._forbidden[name] = self.tree.now[name].inode

    def permit(self) -> None:
        """Give all permissions back: what is now read may turn out to be no text, and rightly leave the index."""
        self._forbidden.clear()
        self.tree.permit()

    def unmount(self, seconds: float) -> None:
        """Take the root away for a while: nothing is forgotten, and every search tells of it."""
        self.clock.sleep_out()  # what people planned needs the root, and so does who lies in wait
        self.system.disarm()
        before = self.stamps().keys()
        away = self.tree.root.with_name("away")
        self.tree.root.rename(away)
        try:
            self.clock.sleep(seconds)
            for fresh in Fresh:
                try:
                    self.live.memory.search("heron", fresh=fresh)
                except RootError:
                    continue
                raise Divergence(f"a {fresh} search did not tell that the root is gone")
            require(self.stamps().keys() == before, "notes were forgotten with the root")
        finally:
            away.rename(self.tree.root)

    # ------------------------------------------------------------------------------------------- rest

    def rest(self) -> None:
        """Let everything come to rest, and compare the index with one that never saw anything but these files."""
        self.system.disarm()
        self.clock.sleep_out()
        if self._forbidden:
            self.clock.sleep(REPORTED_SECONDS)
            self._assert_unreadable_kept()
        self.permit()
        self.embedder.condition = Condition.WELL
        self.watcher.calm()
        untouched = survey(self.tree.root)
        self.clock.sleep(REPORTED_SECONDS)
        if self.live.memory.syncer.scanner.scanned_at <= self.watcher.lost_at:
            self.clock.sleep(RESCAN_SECONDS)
        with self.fresh() as fresh:
            have, want = map(_without_vectors, oracle.dumps(self.live.memory, fresh))
            require(have == want, _difference(self.live.memory, fresh))
            self.clock.sleep(RETRIED_SECONDS)
            oracle.assert_same(self.live.memory, fresh)
        oracle.assert_told(self.live.memory, self.tree)
        oracle.assert_sound(self.live.memory)
        require(survey(self.tree.root) == untouched == self.tree.now, "memsync touched the files")

    def admit_ignored(self) -> None:
        """Expect nothing of unreadable notes while a .gitignore is there: they may leave, and not come back."""
        if self._forbidden and any(path.endswith(".gitignore") for path in self.tree.now):
            self._forbidden.clear()

    def _assert_unreadable_kept(self) -> None:
        known = self.stamps()
        self.admit_ignored()
        for path, inode in self._forbidden.items():
            seen = self.tree.now.get(path)
            if seen is not None and seen.inode == inode and self.tree.is_denied(path):
                require(path in known, f"{path} cannot be read, and was taken for deleted")

    @contextmanager
    def fresh(self) -> Iterator[Memory]:
        """Yield an index built from nothing."""
        folder = self._folder / "fresh"
        fresh = open_memory(self._settings, folder, FakeEmbedder(), self.clock)
        try:
            fresh.syncer.refresh()
            fresh.syncer.embed_in_background()
            yield fresh
        finally:
            fresh.close()
            shutil.rmtree(folder)


def _without_vectors(lines: list[str]) -> list[str]:
    return [line for line in lines if not line.startswith('["vector"')]


def _difference(live: Memory, fresh: Memory) -> str:
    have, want = map(set, oracle.dumps(live, fresh))
    return f"missing: {sorted(want - have)[:5]}\nsurplus: {sorted(have - want)[:5]}"
