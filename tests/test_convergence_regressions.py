"""What the random operations found, as fixed tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memsync.model import Fresh
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
