"""Retrievals are counted outside the index, without a word of what was asked, and never at an answer's cost."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from memsync.memory import Memory
from memsync.memory_api import MemoryApi
from memsync.settings import Settings, load_settings
from memsync.user_folders import own_folder
from tests.daemon_fixtures import own, served, short_runtime_folder
from tests.daemon_process import until

__all__ = ["own", "served", "short_runtime_folder"]

Write = Callable[[str, str], Path]


def test_searches_and_what_they_give_are_counted(own: MemoryApi, write: Write) -> None:
    """Each note once a search, and what is read for its own sake."""
    write("zebra.md", "A zebra.\n\n## More\n\nAnother zebra.\n")
    write("other.md", "Nobody asks for this.\n")
    for _ in range(3):
        own.search("zebra", mode="keyword")
    own.search("unheard", mode="keyword")
    own.get("zebra.md:1")
    found = own.stats()
    assert (found.searches, found.empty, found.queries) == (4, 1, ())
    assert [(one.path, one.retrieved) for one in found.most_retrieved] == [("zebra.md", 4)]
    assert "other.md" in {one.path for one in found.never_retrieved}
    assert found.p95_ms >= found.p50_ms > 0
    assert [size.notes for size in found.growth] == [found.never_count + 1]
    assert found.counted_since


def test_counts_outlive_the_process_and_the_index(make_memory: Callable[..., Memory], write: Write) -> None:
    """They are in no index, so rebuilding one forgets nothing."""
    write("zebra.md", "A zebra.\n")
    first = make_memory()
    first.search("zebra", mode="keyword")
    first.close()
    second = make_memory()
    second.rebuild()
    second.search("zebra", mode="keyword")
    assert [one.retrieved for one in second.stats().most_retrieved] == [2]


def test_no_question_is_kept_unless_the_settings_say_so(
    make_memory: Callable[..., Memory], write: Write, root: Path, settings: Settings
) -> None:
    """Not in any byte of the file, which is its owner's alone."""
    write("zebra.md", "A zebra.\n")
    memory = make_memory()
    memory.search("secretword", mode="keyword")
    assert memory.stats().queries == ()
    kept = [path for path in settings.keep_dir.iterdir() if path.name.startswith("usage.db")]
    assert kept and all(b"secretword" not in path.read_bytes() for path in kept)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in kept)
    keeping = make_memory(own_settings=load_settings(root=root, environ={"MEMSYNC_USAGE_QUERIES": "true"}, cwd=root))
    keeping.search("zebra", mode="keyword")
    assert [(one.text, one.hits) for one in keeping.stats().queries] == [("zebra", 1)]


def test_nothing_is_counted_where_the_settings_say_so(
    make_memory: Callable[..., Memory], write: Write, root: Path, settings: Settings
) -> None:
    """Then there is no file either."""
    write("zebra.md", "A zebra.\n")
    own_settings = load_settings(root=root, environ={"MEMSYNC_USAGE_COUNT": "false"}, cwd=root)
    memory = make_memory(own_settings=own_settings)
    memory.search("zebra", mode="keyword")
    assert memory.stats().searches == 0
    assert not (settings.keep_dir / "usage.db").exists()


@pytest.mark.parametrize("content", [b"this is no database, but it is long enough to be looked at" * 40, b""])
def test_counts_that_cannot_be_kept_cost_no_answer(
    make_memory: Callable[..., Memory], write: Write, settings: Settings, content: bytes
) -> None:
    """The search answers; `stats` says what is wrong, and an empty file is a new beginning."""
    own_folder(settings.keep_dir)
    (settings.keep_dir / "usage.db").write_bytes(content)
    write("zebra.md", "A zebra.\n")
    memory = make_memory()
    assert memory.search("zebra", mode="keyword").hits
    if content:
        with pytest.raises(Exception, match=r"usage.db"):
            memory.stats()
    else:
        assert memory.stats().searches == 1


def test_counts_are_written_within_seconds(
    make_memory: Callable[..., Memory], write: Write, settings: Settings
) -> None:
    """Whether or not another search follows."""
    write("zebra.md", "A zebra.\n")
    memory = make_memory()
    memory.search("zebra", mode="keyword")
    until((settings.keep_dir / "usage.db").exists, "the counts are written")


def test_a_context_counts_what_it_shows(make_memory: Callable[..., Memory], write: Write) -> None:
    """Each note once, and no search: nobody asked one."""
    for number in range(30):
        write(f"zebra-{number}.md", f"Zebra number {number} is one of many striped animals.\n")
    memory = make_memory()
    shown = {passage.path for part in memory.context("zebra", budget=100).parts for passage in part.passages}
    found = memory.stats()
    assert 0 < len(shown) < 10
    assert {(one.path, one.retrieved) for one in found.most_retrieved} == {(path, 1) for path in shown}
    assert found.searches == 0


def test_stale_says_when_nothing_is_counted(make_memory: Callable[..., Memory], root: Path) -> None:
    """Then every note would seem to be unused."""
    memory = make_memory(own_settings=load_settings(root=root, environ={"MEMSYNC_USAGE_COUNT": "false"}, cwd=root))
    assert "nothing is counted" in memory.stale().warnings[0]


def test_stats_are_read_while_another_process_counts(
    make_memory: Callable[..., Memory], write: Write, settings: Settings
) -> None:
    """Reading takes no lock."""
    write("zebra.md", "A zebra.\n")
    memory = make_memory()
    memory.search("zebra", mode="keyword")
    assert memory.stats().searches == 1
    with closing(sqlite3.connect(settings.keep_dir / "usage.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert memory.stats().searches == 1


def test_two_memories_count_into_one(make_memory: Callable[..., Memory], write: Write) -> None:
    """A daemon and a command beside it."""
    write("zebra.md", "A zebra.\n")
    one, other = make_memory(), make_memory()
    one.search("zebra", mode="keyword")
    other.search("zebra", mode="keyword")
    one.stats()
    assert [use.retrieved for use in other.stats().most_retrieved] == [2]
