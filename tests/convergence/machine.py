"""Random operations: one rule each, chosen and shrunk by Hypothesis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from memsync.errors import IndexBusy
from memsync.model.vocabulary import Fresh, Mode
from tests.convergence import oracle, texts
from tests.convergence.embedder import Condition
from tests.convergence.tree import FOLDERS, NOTES
from tests.convergence.watcher import Mood
from tests.convergence.world import World

COUNTS: Counter[str] = Counter()
"""What all runs in this process have done."""

notes = st.sampled_from(NOTES)
places = st.sampled_from([*NOTES, *FOLDERS])
seeds = st.integers(0, 40)
modes = st.sampled_from([Mode.KEYWORD, Mode.HYBRID])
branches = st.sampled_from(["main", "side"])
BINARY = bytes(range(32)) * 8
IGNORES = [b"skip/\n", b"*.markdown\n!n.markdown\n", b"deep/*\n!deep/er/\n", b"", b"a.md\n"]


class Convergence(RuleBasedStateMachine):
    """A world, and what may happen in it."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.tree = self.world.tree
        self.failed = False

    def teardown(self) -> None:
        try:
            if not self.failed:
                self._do("rests", self.world.rest)
        finally:
            self.world.close()

    def _do(self, kind: str, work: Callable[[], object]) -> None:
        """Do one thing and count it; what fails is not to be hidden by what fails after it."""
        COUNTS[kind] += 1
        try:
            work()
        except BaseException:
            self.failed = True
            raise

    def _change(self, work: Callable[[], object]) -> None:
        self._do("operations", work)
        self.world.admit_ignored()

    @initialize(mood=st.sampled_from(Mood), condition=st.sampled_from(Condition), many=st.booleans())
    def begin(self, mood: Mood, condition: Condition, many: bool) -> None:
        """Begin with some notes that are indexed already, and with what is wrong from then on."""
        for path in NOTES[: 5 if many else 2]:
            self.tree.write(path, self.tree.text(len(path)))
        self.world.clock.sleep(3.0)
        self.world.watcher.mood, self.world.embedder.condition = mood, condition

    # ------------------------------------------------------------------------------------------ saves

    @rule(path=notes, seed=seeds, head=seeds)
    def write(self, path: str, seed: int, head: int) -> None:
        self._change(lambda: self.tree.write(path, texts.head(head).encode() + self.tree.text(seed)))

    @rule(path=notes, seed=seeds)
    def append(self, path: str, seed: int) -> None:
        self._change(lambda: self.tree.append(path, self.tree.text(seed)))

    @rule(path=notes, seed=seeds)
    def prepend(self, path: str, seed: int) -> None:
        """Write before what there is: it moves."""
        self._change(lambda: self.tree.write(path, self.tree.text(seed, keep=self.tree.note_at(path) or b"")))

    @rule(path=notes, seed=seeds)
    def move_down(self, path: str, seed: int) -> None:
        """Write before a chunk that stays as it is, but for its place."""
        self._change(lambda: self.tree.write(path, self.tree.text(seed, keep=texts.LONG.encode())))
        self.wait(600)
        self.prepend(path, seed + 1)

    @rule(path=notes, seed=seeds)
    def replace(self, path: str, seed: int) -> None:
        self._change(lambda: self.tree.replace(path, self.tree.text(seed)))

    @rule(path=notes)
    def edit_unseen(self, path: str) -> None:
        self._change(lambda: self.tree.edit_unseen(path))

    @rule(path=notes)
    def touch(self, path: str) -> None:
        self._change(lambda: self.tree.touch(path))

    @rule(path=notes, seed=seeds)
    def write_twice(self, path: str, seed: int) -> None:
        """Write, and again within the same tick: the same size and the same times, though memsync looked in between."""
        self.write(path, seed, 0)
        self._do("syncs", self.world.live.memory.syncer.refresh)
        self.edit_unseen(path)

    @rule(
        path=notes,
        content=st.sampled_from([b"", BINARY, b"\xff\xfe\xfd caf\xe9 heron\n", b"---\n", b"\xef\xbb\xbf# x"]),
    )
    def write_oddly(self, path: str, content: bytes) -> None:
        self._change(lambda: self.tree.write(path, content))

    @rule(path=notes, seed=seeds, milliseconds=st.integers(1, 440), rename=st.booleans(), searches=st.booleans())
    def save_slowly(self, path: str, seed: int, milliseconds: int, rename: bool, searches: bool) -> None:
        """Empty a note, or rename it away, and write it again later; search for it meanwhile."""
        old = self.tree.note_at(path)
        if not old or not texts.marks(old):
            return
        seconds = min(milliseconds, 80 if rename else 440) / 1000
        new = self.tree.text(seed, keep=old)
        mark = texts.marks(old)[0]
        self._change(lambda: self.world.save_in_place(path, new, mark, seconds, rename=rename))
        if searches:
            self.search_for_what_is_being_saved(second=False)

    # ------------------------------------------------------------------------------------------ moves

    @rule(path=notes)
    def remove(self, path: str) -> None:
        self._change(lambda: self.tree.remove(path))

    @rule(old=places, new=places)
    def rename(self, old: str, new: str) -> None:
        self._change(lambda: self.tree.rename(old, new))

    @rule(path=places, name=st.sampled_from(["x", "y.md"]), out=st.booleans())
    def rename_across(self, path: str, name: str, out: bool) -> None:
        """Move something out of the root, or in."""
        way = (path, f"../{name}") if out else (f"../{name}", path)
        self._change(lambda: self.tree.rename(*way))

    @rule(one=notes, other=notes)
    def swap(self, one: str, other: str) -> None:
        self._change(lambda: self.tree.swap(one, other))

    @rule(source=notes, path=notes)
    def copy(self, source: str, path: str) -> None:
        self._change(lambda: self.tree.copy(source, path))

    @rule(folder=st.sampled_from(["deep", "deep/er", "daily"]))
    def remove_folder(self, folder: str) -> None:
        self._change(lambda: self.tree.remove_folder(folder))

    # --------------------------------------------------------------------------------------- oddities

    @rule(path=notes, to=st.sampled_from([*NOTES[:3], "deep", "nowhere.md"]), hard=st.booleans())
    def link(self, path: str, to: str, hard: bool) -> None:
        self._change(lambda: self.tree.link(path, to, hard=hard))

    @rule(path=notes)
    def pipe(self, path: str) -> None:
        self._change(lambda: self.tree.pipe(path))

    @rule(path=st.sampled_from(["deep", "daily", *NOTES[:4]]), permit=st.booleans(), then_rest=st.booleans())
    def forbid(self, path: str, permit: bool, then_rest: bool) -> None:
        if permit:
            self._change(self.world.permit)
        self._change(lambda: self.world.forbid(path))
        if then_rest:  # soon after it: later an ignore file would excuse that the note is gone
            self.rest()

    @rule(folder=st.sampled_from(["", "deep/"]), content=st.sampled_from(IGNORES))
    def ignore(self, folder: str, content: bytes) -> None:
        self._change(lambda: self.tree.write(f"{folder}.gitignore", content))

    @rule(paths=st.permutations(NOTES[:2]))
    def ignore_another(self, paths: list[str]) -> None:
        """Ignore one note and then another, by a file of the same size that takes the first one's place."""
        first, then = (f"{path}\n".encode() for path in paths)
        self._change(lambda: self.tree.write(".gitignore", first))
        self.wait(2_100)
        self._change(lambda: self.tree.replace(".gitignore", then))

    @rule(seconds=st.sampled_from([1.0, 7.0, 40.0]))
    def unmount(self, seconds: float) -> None:
        self._change(lambda: self.world.unmount(seconds))

    @rule(calls=st.integers(0, 30), path=notes, seed=seeds, kind=st.sampled_from(["write", "edit_unseen", "remove"]))
    def ambush(self, calls: int, path: str, seed: int, kind: str) -> None:
        """Let something happen to a file while memsync lists, stats or reads."""
        content = self.tree.text(seed)
        actions: dict[str, Callable[[], None]] = {
            "write": lambda: self.tree.write(path, content),
            "edit_unseen": lambda: self.tree.edit_unseen(path),
            "remove": lambda: self.tree.remove(path),
        }
        self._change(lambda: self.world.system.ambush(calls, actions[kind]))

    # -------------------------------------------------------------------------------------------- git

    @rule(command=st.sampled_from(["commit", "checkout", "merge", "stash", "unstash", "reset"]), branch=branches)
    def git(self, command: str, branch: str) -> None:
        git = self.world.git
        commands: dict[str, Callable[[], None]] = {
            "commit": git.commit,
            "checkout": lambda: git.checkout(branch),
            "merge": lambda: git.merge(branch),
            "stash": git.stash,
            "unstash": git.unstash,
            "reset": git.reset,
        }
        self._change(commands[command])

    # ------------------------------------------------------------------------------- time and faults

    @rule(milliseconds=st.sampled_from([1, 5, 20, 45, 110, 600, 2_100, 6_000, 31_000]))
    def wait(self, milliseconds: int) -> None:
        self._change(lambda: self.world.clock.sleep(milliseconds / 1000))

    @rule(seconds=st.sampled_from([-86_400.0, -5.0, -0.1, 0.1, 5.0, 86_400.0]))
    def set_clock(self, seconds: float) -> None:
        self._change(lambda: self.world.clock.jump(seconds))

    @rule(mood=st.sampled_from(Mood))
    def upset_watcher(self, mood: Mood) -> None:
        self._change(lambda: setattr(self.world.watcher, "mood", mood))

    @rule(condition=st.sampled_from(Condition))
    def upset_model(self, condition: Condition) -> None:
        self._change(lambda: setattr(self.world.embedder, "condition", condition))

    # --------------------------------------------------------------------------------------- memsync

    @rule(path=notes, seed=seeds, mode=modes, second=st.booleans())
    def save_and_search(self, path: str, seed: int, mode: Mode, second: bool) -> None:
        """Find what was saved before the search began."""
        self.write(path, seed, 0)
        self._search(Fresh.STRICT, mode, second, 0)

    @rule(mode=modes, second=st.booleans(), which=st.integers(0, 30))
    def search(self, mode: Mode, second: bool, which: int) -> None:
        """Whatever was done to the files before a search began, it finds what stands in them."""
        self._search(Fresh.STRICT, mode, second, which)

    @rule(fresh=st.sampled_from([Fresh.BOUNDED, Fresh.NONE]), mode=modes, second=st.booleans())
    def search_loosely(self, fresh: Fresh, mode: Mode, second: bool) -> None:
        self._search(fresh, mode, second, 0)

    def _search(self, fresh: Fresh, mode: Mode, second: bool, which: int) -> None:
        memory = self.world.second() if second else self.world.live.memory
        known = [(mark, path) for path, marks in oracle.markers(self.tree).items() for mark in marks]
        mark, path = sorted(known)[-1 - which % len(known)] if known else ("", "")
        self._do("searches", lambda: self.world.search(memory, mark, path, fresh if mark else Fresh.NONE, mode))

    @precondition(lambda self: self.world.save is not None and not self.world.save.done)
    @rule(second=st.booleans())
    def search_for_what_is_being_saved(self, second: bool) -> None:
        """Find a note that is just being saved, by what it had and will have again."""
        save = self.world.save
        if save is None or save.done:
            return
        memory = self.world.second() if second else self.world.live.memory
        if self.tree.version == save.version and save.indexed:
            self._do("searches", lambda: self.world.search(memory, save.mark, save.path, Fresh.STRICT, Mode.KEYWORD))

    @rule(how=st.sampled_from(["sync", "rebuild", "sync by another", "rebuild by another"]))
    def sync(self, how: str) -> None:
        def work() -> None:
            with self.world.live.asked() as live:
                memory = self.world.second() if how.endswith("another") else live
                if how.startswith("rebuild"):
                    self.world.rebuild(memory)
                else:
                    memory.sync(wait_seconds=0)

        with suppress(IndexBusy):
            self._do("syncs", work)

    @rule()
    def restart(self) -> None:
        self._do("restarts", self.world.restart)

    @rule()
    def rest(self) -> None:
        self._do("rests", self.world.rest)
