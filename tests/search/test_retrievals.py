"""Retrievals are counted outside the index, without a word of what was asked, and never at an answer's cost."""

from __future__ import annotations

import stat
from datetime import timedelta
from pathlib import Path

import pytest

from memsync.errors import FilesystemError
from memsync.memory import Memory, MemoryApi
from memsync.model.query import SearchRequest
from memsync.model.vocabulary import NotePath
from memsync.search import retrievals as usage_module
from memsync.search.retrievals import UsageCounter, percentile
from memsync.settings.load import Settings, load_settings
from memsync.system import clock
from memsync.system.state_file import ROOT, StateFile, state_of_root
from memsync.system.user_folders import STATE, own_folder
from tests.conftest import MakeMemory, Patch, Write
from tests.support.backends import only_sqlite
from tests.support.daemon_process import until


@only_sqlite
def test_searches_and_what_they_give_are_counted(own: MemoryApi, write: Write) -> None:
    """Each note once a search, and what is read for its own sake; a request can say that it does not count."""
    write("zebra.md", "A zebra.\n\n## More\n\nAnother zebra.\n")
    write("other.md", "Nobody asks for this.\n")
    for _ in range(3):
        own.search("zebra", mode="keyword")
    own.search("unheard", mode="keyword")
    own.answer_request(SearchRequest("zebra", counted=False))
    own.get("zebra.md:1")
    found = own.stats()
    assert (found.searches, found.empty, found.queries) == (4, 1, ())
    assert [(one.searches, one.empty) for one in found.by_day] == [(4, 1)]
    assert [(one.path, one.retrieved) for one in found.most_retrieved] == [("zebra.md", 4)]
    assert "other.md" in {one.path for one in found.never_retrieved}
    assert found.p95_ms >= found.p50_ms > 0
    assert [size.notes for size in found.growth] == [found.never_count + 1]
    assert found.counted_since


def test_counts_outlive_the_process_and_the_index(make_memory: MakeMemory, write: Write) -> None:
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
    make_memory: MakeMemory, write: Write, root: Path, settings: Settings
) -> None:
    """Not in any byte of the file, which is its owner's alone."""
    write("zebra.md", "A zebra.\n")
    memory = make_memory()
    memory.search("secretword", mode="keyword")
    assert memory.stats().queries == ()
    kept = [path for path in settings.keep_dir.iterdir() if path.name.startswith(STATE)]
    assert kept and all(b"secretword" not in path.read_bytes() for path in kept)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in kept)
    keeping = make_memory(own_settings=load_settings(root=root, environ={"MEMSYNC_USAGE_QUERIES": "true"}, cwd=root))
    keeping.search("zebra", mode="keyword")
    assert [(one.text, one.hits) for one in keeping.stats().queries] == [("zebra", 1)]


def test_nothing_is_counted_where_the_settings_say_so(make_memory: MakeMemory, write: Write, root: Path) -> None:
    """Then searches are not even numbered."""
    write("zebra.md", "A zebra.\n")
    own_settings = load_settings(root=root, environ={"MEMSYNC_USAGE_COUNT": "false"}, cwd=root)
    memory = make_memory(own_settings=own_settings)
    memory.search("zebra", mode="keyword")
    assert memory.stats().searches == 0


def test_counts_that_cannot_be_kept_cost_no_answer(make_memory: MakeMemory, write: Write, settings: Settings) -> None:
    """The search answers, and `stats` names the damaged file; without it, counting begins again."""
    own_folder(settings.keep_dir)
    (settings.keep_dir / STATE).write_bytes(b"this is no database, but it is long enough to be looked at" * 40)
    write("zebra.md", "A zebra.\n")
    memory = make_memory()
    assert memory.search("zebra", mode="keyword").hits
    stats = memory.stats()
    assert [warning for warning in stats.warnings if f"{STATE} is damaged" in warning]
    assert stats.searches == 0
    (settings.keep_dir / STATE).unlink()
    memory.search("zebra", mode="keyword")
    assert (memory.stats().searches, memory.stats().warnings) == (1, ())


def test_counts_are_written_within_seconds(
    make_memory: MakeMemory, write: Write, settings: Settings, monkeypatch: Patch
) -> None:
    """Whether or not another search follows."""
    assert usage_module.FLUSH_SECONDS <= 5
    monkeypatch.setattr(usage_module, "FLUSH_SECONDS", 0.05)
    write("zebra.md", "A zebra.\n")
    memory = make_memory()
    memory.search("zebra", mode="keyword")
    until(lambda: bool(state_of_root(settings.keep_dir).rows("SELECT 1 FROM search")), "the counts are written")


def test_a_context_counts_what_it_shows(make_memory: MakeMemory, write: Write) -> None:
    """Each note once, and no search: nobody asked one."""
    for number in range(30):
        write(f"zebra-{number}.md", f"Zebra number {number} is one of many striped animals.\n")
    memory = make_memory()
    shown = {passage.path for part in memory.context("zebra", budget=100).parts for passage in part.passages}
    found = memory.stats()
    assert 0 < len(shown) < 10
    assert {(one.path, one.retrieved) for one in found.most_retrieved} == {(path, 1) for path in shown}
    assert found.searches == 0


def test_stats_are_read_while_another_process_counts(make_memory: MakeMemory, write: Write, settings: Settings) -> None:
    """Reading takes no lock."""
    write("zebra.md", "A zebra.\n")
    memory = make_memory()
    memory.search("zebra", mode="keyword")
    assert memory.stats().searches == 1
    with StateFile(settings.keep_dir, ROOT).writing():
        assert memory.stats().searches == 1


def test_two_memories_count_into_one(make_memory: MakeMemory, write: Write) -> None:
    """A daemon and a command beside it."""
    write("zebra.md", "A zebra.\n")
    one, other = make_memory(), make_memory()
    one.search("zebra", mode="keyword")
    other.search("zebra", mode="keyword")
    one.stats()
    assert [use.retrieved for use in other.stats().most_retrieved] == [2]


# ------------------------------------------------------------------------------------------ flushing


A, B, C = NotePath("a.md"), NotePath("b.md"), NotePath("c.md")


@pytest.fixture
def usage(memory: Memory, tmp_path: Path, monkeypatch: Patch) -> UsageCounter:
    """Count into a folder of its own, and write only when told to."""
    monkeypatch.setattr(usage_module, "FLUSH_SECONDS", 3_600.0)
    return UsageCounter(state_of_root(tmp_path / "keep"), memory.index, is_on=True, keeps_queries=True)


def ago(**time: float) -> str:
    return (clock.utc() - timedelta(**time)).isoformat(timespec="seconds")


def test_several_retrievals_of_one_flush_add_up(usage: UsageCounter) -> None:
    """A note that three searches gave counts three, a note twice in one search once; the next flush adds to that."""
    usage.searched("one", 1.0, [A, B, A])
    usage.searched("two", 2.0, [A])
    usage.read([A, C])
    usage.searched("three", 3.0, [])
    found = usage.used("")
    assert {path: use.retrieved for path, use in found.notes.items()} == {A: 3, B: 1, C: 1}
    assert (found.milliseconds, found.empty) == ([1.0, 2.0, 3.0], 1)
    assert usage.state.rows("SELECT hits FROM search ORDER BY ms") == [(2,), (1,), (0,)]
    usage.searched("four", 0.5, [A, B])
    again = usage.used("")
    assert {path: use.retrieved for path, use in again.notes.items()} == {A: 4, B: 2, C: 1}
    assert again.milliseconds == [0.5, 1.0, 2.0, 3.0]
    assert again.counted_since == found.counted_since


def test_last_retrieval_is_the_latest(usage: UsageCounter) -> None:
    """A clock that was set back takes nothing back."""
    usage.read([A, B])
    usage.flush()
    with usage.state.writing() as database:
        database.execute("UPDATE retrieved SET last = '2999-01-01T00:00:00+00:00' WHERE path = 'a.md'")
        database.execute("UPDATE retrieved SET last = '2000-01-01T00:00:00+00:00' WHERE path = 'b.md'")
    usage.read([A, B])
    found = usage.used("").notes
    assert found[A].last_retrieved == "2999-01-01T00:00:00+00:00"
    assert ago(minutes=1) <= found[B].last_retrieved <= ago(seconds=-1)


def test_a_failing_flush_loses_its_counts_and_no_others(usage: UsageCounter, monkeypatch: Patch) -> None:
    """Also if it fails after the notes were counted: half a flush is none. The fault is shown until one succeeds."""
    usage.state.path.mkdir(parents=True)
    usage.searched("one", 1.0, [A])
    usage.flush()
    assert STATE in usage.fault
    assert usage.used("").notes == {}
    usage.state.path.rmdir()
    with monkeypatch.context() as patched:
        patched.setattr(usage._index, "reading", lambda: (_ for _ in ()).throw(FilesystemError("index gone", hint="")))
        usage.searched("two", 2.0, [A])
        usage.flush()
    assert "index gone" in usage.fault
    usage.searched("three", 3.0, [A, B])
    found = usage.used("")
    assert usage.fault == ""
    assert {path: use.retrieved for path, use in found.notes.items()} == {A: 1, B: 1}
    assert found.milliseconds == [3.0]


def test_searches_are_trimmed_after_400_days_and_counts_never(usage: UsageCounter) -> None:
    """Once a day, with the size of the index; notes keep what they have."""
    usage.searched("now", 1.0, [A])
    usage.flush()
    with usage.state.writing() as database:
        for days in (399, 401):
            database.execute("INSERT INTO search VALUES (?, 2.0, 0, NULL)", (ago(days=days),))
        database.execute("UPDATE retrieved SET last = ?", (ago(days=900),))
        database.execute("UPDATE size SET day = '2020-01-01'")
    usage.searched("again", 3.0, [B])
    usage.flush()
    assert usage.state.rows("SELECT ms FROM search ORDER BY ms") == [(1.0,), (2.0,), (3.0,)]
    assert usage.state.rows("SELECT path FROM retrieved ORDER BY path") == [("a.md",), ("b.md",)]
    assert [day for (day,) in usage.state.rows("SELECT day FROM size ORDER BY day")] == ["2020-01-01", ago()[:10]]


def test_only_searches_since_the_moment_count(usage: UsageCounter) -> None:
    """The moment itself included; the notes' counts are of all time, sizes are of whole days, queries latest first."""
    usage.searched("now", 1.0, [A])
    usage.flush()
    with usage.state.writing() as database:
        for day in ("2026-01-01", "2026-01-02", "2026-01-03"):
            database.execute(f"INSERT INTO search VALUES ('{day}T10:00:00+00:00', 9.0, 0, '{day}')")
            database.execute(f"INSERT INTO size VALUES ('{day}', 1, 2, 3)")
    found = usage.used("2026-01-02T10:00:00+00:00")
    assert (found.milliseconds, found.empty) == ([1.0, 9.0, 9.0], 2)
    assert [one.text for one in found.queries] == ["now", "2026-01-03", "2026-01-02"]
    assert [(size.day, size.notes, size.passages, size.index_bytes) for size in found.growth][:2] == [
        ("2026-01-02", 1, 2, 3),
        ("2026-01-03", 1, 2, 3),
    ]


@pytest.mark.parametrize(
    ("values", "half", "most"),
    [
        ([], 0.0, 0.0), ([7.0], 7.0, 7.0), ([1.0, 2.0], 1.0, 2.0), ([1.0, 2.0, 3.0], 2.0, 3.0),
        ([float(n) for n in range(1, 21)], 10.0, 19.0), ([float(n) for n in range(1, 22)], 11.0, 20.0),
        ([float(n) for n in range(1, 101)], 50.0, 95.0),
    ],
)  # fmt: skip
def test_percentiles_are_the_smallest_value_that_covers_the_share(
    values: list[float], half: float, most: float
) -> None:
    """By nearest rank: of twenty searches the 95th percentile is the 19th."""
    assert (percentile(values, 0.5), percentile(values, 0.95)) == (half, most)


def test_stats_have_the_most_and_the_never_retrieved(memory: Memory, write: Write) -> None:
    """Most retrieved first, then by path; of the never retrieved the longest untouched first; no more than asked."""
    for name, month in (("a", 5), ("b", 3), ("c", 4), ("d", 1)):
        write(f"daily/2026-0{month}-01.md" if name == "d" else f"{name}.md", f"A zebra of {name}.\n")
    for name in ("b", "b", "a", "c"):
        memory.get(f"{name}.md:1")
    write("archive/old.md", "An old zebra.\n")
    write("daily/2026-02-01.md", "Another zebra.\n")
    found = memory.stats(limit=2)
    assert [(one.path, one.retrieved) for one in found.most_retrieved] == [("b.md", 2), ("a.md", 1)]
    assert [one.path for one in found.never_retrieved] == ["daily/2026-01-01.md", "daily/2026-02-01.md"]
    assert found.never_count == 2
    memory.search("zebra", mode="keyword", limit=1)
    assert memory.stats(limit=1).searches == 1


def test_nothing_counted_writes_nothing(usage: UsageCounter) -> None:
    """A memory that nobody asks leaves no file; what was read and gave no note is none either."""
    usage.flush()
    assert usage.used("").notes == {}
    assert not usage.state.path.exists()
