"""What the random operations found, as fixed tests."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from memsync.model import Fresh, NotePath
from tests.convergence.watcher import Mood
from tests.convergence.world import World


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.tree.write("a.md", b"heron mark0001x\n")
    made.clock.sleep(3.0)
    yield made
    made.close()


def test_note_that_is_ignored_from_now_on_leaves_the_index(world: World) -> None:
    """Its file is still there, which does not mean that it is a note."""
    world.tree.write(".gitignore", b"a.md\n")
    world.rest()
    assert world.stamps() == {}


def test_folder_that_no_watch_can_be_had_for_does_not_keep_the_keeper_busy(world: World) -> None:
    """Watching is tried again after pauses that grow, not at once for ever."""
    world.tree.write("deep/d.md", b"eel\n")
    world.watcher.mood = Mood.BLIND
    world.clock.sleep(600.0)
    assert "folders are not watched" in world.live.engine.keeper.watching()[1]


def test_bounded_search_is_not_held_up_by_itself(world: World) -> None:
    """The keeper stands aside for searches, but not for the one that waits for it."""
    for number in range(8):
        world.tree.write(f"n{number}.md", world.tree.text(number))
    began = world.clock.monotonic()
    world.live.memory.search("heron", mode="keyword", fresh=Fresh.BOUNDED)
    assert world.clock.monotonic() - began < 0.25
    assert len(world.stamps()) == 9


def test_text_that_a_search_indexed_gets_its_vectors(world: World) -> None:
    """The keeper then finds nothing left to commit, and yet there is something to embed."""
    world.watcher.mood = Mood.LATE
    world.tree.write("b.md", b"alder\n")
    world.live.memory.search("alder", mode="keyword")
    world.clock.sleep(40.0)
    assert world.live.memory.status().pending_vectors == 0


def test_save_is_waited_for_though_an_earlier_one_was_not_seen_to_end(world: World) -> None:
    """Only a file that is emptied again and again is believed to be empty, not one that was so long ago."""
    lookout = world.live.memory.syncer._indexer.lookout
    world.watcher.mood = Mood.DEAF
    for _ in range(2):
        world.tree.empty("a.md")
        outlook = lookout.look()
        assert (outlook.changes, outlook.put_off) == ([], 1)
        world.tree.overwrite("a.md", b"heron mark0001x\n")
        world.clock.sleep(3.0)


def _empty_again_and_again(world: World) -> None:
    def save(number: int) -> None:
        world.tree.overwrite("a.md", b"h" * number)
        world.tree.empty("a.md")

    for number in range(1, 9):
        world.clock.plan(0.4 * number, partial(save, number))
    world.clock.sleep(3.3)


def test_note_that_is_emptied_again_and_again_is_believed_in_the_end(world: World) -> None:
    """A file that never stands still must not be shown as it once was for ever."""
    sizes: list[int] = []
    world.clock.plan(3.1, lambda: sizes.append(world.stamps()[NotePath("a.md")].size))
    _empty_again_and_again(world)
    assert sizes == [0]


def test_files_that_are_just_being_saved_do_not_delay_the_next_comparison(world: World) -> None:
    """Looking at files takes the disk's time; waiting for them to stand still takes none."""
    world.watcher.mood = Mood.DEAF
    world.clock.plan(0.5, world.live.engine.keeper.notice)
    _empty_again_and_again(world)
    world.tree.write("b.md", b"alder\n")
    world.clock.sleep(31.0)
    assert "b.md" in world.stamps()
