"""What the random operations found, as fixed tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from memsync.model.vocabulary import Fresh, Mode, NotePath
from tests.conftest import Patch
from tests.convergence.embedder import Condition, FaultyEmbedder
from tests.convergence.watcher import Mood
from tests.convergence.world import World


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.tree.write("a.md", b"heron mark0001x\n")
    made.clock.sleep(3.0)
    yield made
    made.close()


def test_folder_that_no_watch_can_be_had_for_does_not_keep_the_keeper_busy(world: World) -> None:
    """Watching is tried again after pauses that grow, not at once for ever."""
    world.tree.write("deep/d.md", b"eel\n")
    world.watcher.mood = Mood.BLIND
    world.clock.sleep(600.0)
    assert "1 folder is not watched" in world.live.engine.keeper.watching()[1]


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
    scanner = world.live.memory.syncer.scanner
    world.watcher.mood = Mood.DEAF
    for _ in range(2):
        world.tree.empty("a.md")
        plan = scanner.compare()
        assert (plan.changes, plan.delayed) == ([], 1)
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


CLOCK_JUMPS = [-86_400.0, -5.0, -0.3, -0.05, 0.05, 0.3, 5.0, 86_400.0]


@pytest.mark.parametrize("seconds", CLOCK_JUMPS)
@pytest.mark.parametrize("asked", ["the daemon", "another process"])
@pytest.mark.parametrize("rename", [False, True])
def test_search_waits_for_a_save_whatever_the_clock_is_set_to(
    world: World, seconds: float, asked: str, rename: bool
) -> None:
    """How long a file stood still, a clock tells that nobody sets: the note is found, or said to be missing."""
    world.save_in_place("a.md", b"heron mark0001x eel\n", "mark0001x", 0.06, rename=rename)
    world.clock.jump(seconds)
    memory = world.live.memory if asked == "the daemon" else world.second()
    world.search(memory, "mark0001x", "a.md", Fresh.STRICT, Mode.KEYWORD)
    world.rest()


@pytest.mark.parametrize("seconds", CLOCK_JUMPS)
def test_daemon_keeps_a_note_that_is_being_saved_whatever_the_clock_is_set_to(world: World, seconds: float) -> None:
    """The keeper waits for the end of a save, too; the world checks it the moment before the save ends."""
    world.save_in_place("a.md", b"heron mark0001x eel\n", "mark0001x", 0.44, rename=False)
    world.clock.jump(seconds)
    world.clock.sleep(0.5)
    world.rest()


@pytest.mark.parametrize("seconds", CLOCK_JUMPS)
def test_emptied_note_is_believed_in_time_whatever_the_clock_is_set_to(world: World, seconds: float) -> None:
    """A stamp of tomorrow does not keep lost text in the index: half a second after it was seen, it is believed."""
    world.tree.empty("a.md")
    world.clock.jump(seconds)
    assert world.live.memory.search("heron", mode="keyword").hits == ()
    assert world.live.memory.search("heron", mode="keyword").freshness.pending_text == 0


def test_setting_the_clock_is_not_taken_for_lost_reports(world: World) -> None:
    """A change that is a moment old looks a day old after the clock was set; the watcher reported it all the same."""
    world.watcher.mood = Mood.LATE
    world.clock.sleep(29.9 - (world.clock.monotonic() - 1_000.0) % 30.0)
    world.tree.write("b.md", b"alder\n")
    world.clock.jump(86_400.0)
    world.clock.sleep(1.0)
    assert world.live.engine.health.faults() == ()


def test_pipe_that_may_not_be_read_took_the_place_of_a_note(world: World) -> None:
    """What a file is can be told without reading it: the note is gone, however little may be done with the pipe."""
    world.tree.pipe("a.md")
    world.forbid("a.md")
    world.rest()
    assert world.stamps() == {}


def test_pipe_with_the_name_of_a_folder_keeps_nobody_waiting(world: World) -> None:
    """Neither memsync nor what removes folders here opens it."""
    world.tree.pipe("a.md")
    world.tree.rename("a.md", "deep/er")
    world.tree.remove_folder("deep/er")
    world.rest()
    assert world.stamps() == {}


def test_note_that_became_binary_between_two_refusals_leaves_the_index(world: World) -> None:
    """Only what could not be read is kept as it was; what was read in between counts."""
    world.forbid("a.md")
    world.tree.write("a.md", bytes(range(32)))
    world.permit()
    world.live.memory.search("heron", mode="keyword")
    world.forbid("a.md")
    world.rest()
    assert world.stamps() == {}


def test_save_that_begins_after_the_files_were_listed_is_waited_for(world: World) -> None:
    """A file that is emptied between listing and reading may be a save in progress, as one that was empty before."""
    world.watcher.mood = Mood.DEAF
    world.tree.overwrite("a.md", b"heron mark0001x and more of it\n")
    world.system.ambush(2, lambda: world.save_in_place("a.md", b"heron mark0001x\n", "mark0001x", 0.05, rename=False))
    world.live.memory.syncer.refresh(deadline_seconds=0.02)
    assert world.save is not None
    assert world.stamps()[NotePath("a.md")].size > 0


@pytest.mark.parametrize("drop_vectors", [False, True])
def test_note_saved_during_a_rebuild_is_in_the_new_index(world: World, monkeypatch: Patch, drop_vectors: bool) -> None:
    """The keeper indexes it at once, but in the index that is about to be replaced; --drop-vectors embeds it, too."""
    world.tree.write("b.md", b"alder\n")
    world.clock.sleep(40.0)
    world.tree.remove("b.md")
    world.clock.sleep(40.0)
    for number in range(20):
        world.tree.write(f"n{number}.md", world.tree.text(number))
    world.embedder.condition = Condition.SLOW
    world.clock.plan(0.1, lambda: world.tree.write("b.md", b"alder\n"))
    embedded: list[str] = []
    embed = FaultyEmbedder.embed_passages

    def note_texts(embedder: FaultyEmbedder, texts: Sequence[str], pause: Callable[[], None]) -> list[Any]:
        embedded.extend(texts)
        return embed(embedder, texts, pause)

    with world.live.asked() as memory:
        monkeypatch.setattr(FaultyEmbedder, "embed_passages", note_texts)
        report = memory.rebuild(drop_vectors=drop_vectors, wait_seconds=0)
    assert "b.md" in world.stamps()
    assert (report.added, report.vectors_pending) == (22, 0)
    assert ("alder" in embedded) == drop_vectors
