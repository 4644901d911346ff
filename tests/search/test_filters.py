"""What a filter leaves, exactly: the same by words and by meaning, of notes, of log entries and of their windows."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from memsync.memory import Memory
from tests.conftest import Write

MODES = ("keyword", "vector")


def found(memory: Memory, query: str, mode: str) -> list[str]:
    """Return the citations of a search, by path and line."""
    hits = memory.search(query, mode=mode, limit=50, min_score=0).hits
    return sorted(place for hit in hits for place in (hit.citation, *hit.also))


@pytest.fixture
def kolkata(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Be five and a half hours ahead of UTC."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ("tag:work", ["WORK", "deep", "work"]),
        ("tag:WORK", ["WORK", "deep", "work"]),
        ("tag:#work", ["WORK", "deep", "work"]),
        ("tag:work/tools", ["deep"]),
        ("tag:workshop", ["workshop"]),
        ("tag:wor", []),
        ("tag:work/", []),
    ],
)
def test_a_tag_is_itself_and_what_is_beneath_it(
    memory: Memory, write: Write, mode: str, filters: str, names: list[str]
) -> None:
    """`#workshop` is no `work`, `#work/tools` is; case does not matter."""
    for name, tag in (("work", "work"), ("WORK", "WORK"), ("deep", "work/tools"), ("workshop", "workshop")):
        write(f"{name}.md", f"The heron nests. #{tag}\n")
    write("none.md", "The heron nests and works.\n")
    assert found(memory, f"heron {filters}", mode) == [f"{name}.md:1" for name in names]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("filters", ["tag:Ärger", "tag:ärger", "where:stadt=KÖLN", "where:Ort=köln"])
def test_case_does_not_matter_in_any_alphabet(memory: Memory, write: Write, mode: str, filters: str) -> None:
    """SQLite itself knows the letters of ASCII alone."""
    write("a.md", "---\nstadt: Köln\n---\n- The heron nests. #ÄRGER/groß {Ort=Köln}\n")
    write("b.md", "The heron nests. #arger\n")
    assert found(memory, f"heron {filters}", mode) == ["a.md:4"]


@pytest.mark.parametrize("mode", MODES)
def test_a_tag_of_one_log_entry_is_not_that_of_its_neighbours(memory: Memory, write: Write, mode: str) -> None:
    """Windows hold several entries; `#workshop` in one and `#work` in another name one entry each."""
    lines = [f"- {8 + n // 6:02d}:{n % 6}0 The heron did thing number {n} at the pond today." for n in range(40)]
    lines[18] += " #workshop"
    lines[20] += " #work"
    lines[22] += " #Work/tools"
    write("daily/2026-11-20.md", "\n".join(lines) + "\n")
    assert found(memory, "heron tag:work", mode) == ["daily/2026-11-20.md:21", "daily/2026-11-20.md:23"]
    assert found(memory, "heron tag:workshop", mode) == ["daily/2026-11-20.md:19"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("role", "lines"),
    [("agent", [5, 9]), ("agent:r", [5]), ("agent:rx", [9]), ("user", [1]), ("age", []), ("agent:", []), ("r", [])],
)
def test_a_bare_role_is_itself_and_with_any_name(
    memory: Memory, write: Write, mode: str, role: str, lines: list[int]
) -> None:
    """`role:agent` finds all agents, `role:agent:r` not `agent:rx`: a name must be whole."""
    heads = ["user", "agent:r", "agent:rx"]
    write("threads/t.md", "".join(f"## {head} @ 2026-11-19 10:00\n\nThe heron.\n\n" for head in heads))
    assert found(memory, f"heron role:{role}", mode) == sorted(f"threads/t.md:{line + 2}" for line in lines)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("by", "lines"),
    [
        ("agent", [2, 3]), ("codex", [2]), ("agent:Codex", [2]), ("owner", [1, 5]), ("tool", [4]), ("code", []),
        ("a", []),
    ],
)  # fmt: skip
def test_by_is_an_origin_or_an_agents_name(memory: Memory, write: Write, mode: str, by: str, lines: list[int]) -> None:
    """A name must be whole; what is not marked is the owner's."""
    marks = ["", " {by=codex}", " {by=codexx}", " {by=tool}", " {by=owner}"]
    write("daily/2026-11-20.md", "".join(f"- The heron.{mark}\n" for mark in marks))
    assert found(memory, f"heron by:{by}", mode) == [f"daily/2026-11-20.md:{line}" for line in lines]


@pytest.fixture
def days(memory: Memory, write: Write) -> Memory:
    """Return logs of three days and a thread over two, each entry with its time."""
    for day in (19, 20, 21):
        write(f"daily/2026-11-{day}.md", "- 00:05 heron early\n\n- 23:55 heron late\n")
    write("threads/t.md", "## user @ 2026-11-20 10:00\n\nheron\n\n## user @ 2026-11-21 10:00\n\nheron\n")
    return memory


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("filters", "places"),
    [
        ("before:2026-11-19", ["daily/2026-11-19.md:1-3"]),
        ("before:2026-11-18", []),
        ("after:2026-11-22", []),
        ("after:2026-11-21", ["daily/2026-11-21.md:1-3", "threads/t.md:7"]),
        ("after:2026-11-20 before:2026-11-20", ["daily/2026-11-20.md:1-3", "threads/t.md:3"]),
        ("after:2026-11-20T10:00 before:2026-11-20T10:00", ["threads/t.md:3"]),
        ("after:2026-11-20T10:01 before:2026-11-20T23:54", []),
        ("kind:thread before:2026-11", ["threads/t.md:3", "threads/t.md:7"]),
        ("kind:thread after:2026-12", []),
        ("kind:thread before:2025", []),
        ("kind:thread after:2026", ["threads/t.md:3", "threads/t.md:7"]),
    ],
)
def test_a_day_holds_all_of_its_times(days: Memory, mode: str, filters: str, places: list[str]) -> None:
    """`before:DAY` includes what happened at 23:55 of it, `after:DAY` what happened at 00:05."""
    assert found(days, f"heron {filters}", mode) == places


@pytest.mark.parametrize("mode", MODES)
def test_a_moment_cuts_a_log_between_its_entries(memory: Memory, write: Write, mode: str) -> None:
    """Of a window over the limit only the entries on this side are shown, the one at the very minute included."""
    lines = [f"- {8 + n // 6:02d}:{n % 6}0 The heron did thing number {n} at the pond today." for n in range(40)]
    write("daily/2026-11-20.md", "\n".join(lines) + "\n")

    def shown(filters: str) -> set[int]:
        hits = memory.search(f"heron {filters}", mode=mode, limit=100).hits
        return {line for hit in hits for line in range(hit.start_line, hit.end_line + 1)}

    assert shown("before:2026-11-20") == shown("after:2026-11-20") == set(range(1, 41))
    assert shown("before:2026-11-20T08:20") == {1, 2, 3}
    assert shown("before:2026-11-20T08:19") == {1, 2}
    assert shown("after:2026-11-20T14:20") == {39, 40}
    assert shown("after:2026-11-20T10:00 before:2026-11-20T10:10") == {13, 14}
    assert shown("before:2026-11-19") == shown("after:2026-11-21") == set()


@pytest.mark.parametrize("mode", MODES)
def test_a_moment_within_a_short_log_finds_it(memory: Memory, write: Write, mode: str) -> None:
    """Each item by its own, in whatever order they are; items too large for that by that of each in the passage."""
    write("daily/2026-11-20.md", "# 2026-11-20\n\n- 11:00 The heron rests.\n- 09:00 The heron nests.\n")
    assert found(memory, "heron after:2026-11-20T10:00", mode) == ["daily/2026-11-20.md:3"]
    assert found(memory, "heron before:2026-11-20T10:00", mode) == ["daily/2026-11-20.md:4"]
    assert found(memory, "heron after:2026-11-20T09:01 before:2026-11-20T10:59", mode) == []
    assert found(memory, "heron after:2026-11-20T11:01", mode) == []
    assert found(memory, "heron before:2026-11-20T08:59", mode) == []


@pytest.mark.usefixtures("kolkata")
@pytest.mark.parametrize("mode", MODES)
def test_a_note_without_a_date_has_that_of_its_file_in_local_time(memory: Memory, write: Write, mode: str) -> None:
    """At 01:00 in Kolkata it is still the day before in London; the person's day counts."""
    path = write("plain.md", "The heron nests.\n")
    moment = datetime.fromisoformat("2026-11-21T01:00:00+05:30").timestamp()
    os.utime(path, (moment, moment))
    assert found(memory, "heron before:2026-11-20", mode) == []
    assert found(memory, "heron after:2026-11-21 before:2026-11-21", mode) == ["plain.md:1"]
    assert found(memory, "heron after:2026-11-21T01:01", mode) == []
    (hit,) = memory.search("heron", mode=mode).hits
    assert (hit.date, hit.changed) == ("", "2026-11-21T01:00")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ("where:stage=draft", ["a"]), ("where:stage=DRAFT", ["a"]), ("where:stage=dra", []),
        ("where:people=dana", ["a", "b"]), ("where:done=true", ["b"]), ("where:done=false", ["a"]),
        ("where:count=3", ["a"]), ("where:stage=draft where:people=ida", []), ("status:open", ["b"]),
        ("path:?.md", ["a", "b"]), ("path:[b].md", ["b"]),
    ],
)  # fmt: skip
def test_pairs_are_compared_as_text_with_front_matter(
    memory: Memory, write: Write, mode: str, filters: str, names: list[str]
) -> None:
    """Texts whatever their case, members of lists, numbers and truth as they are written."""
    write("a.md", "---\nstage: draft\npeople: [Dana, Tom]\ndone: false\ncount: 3\n---\nThe heron.\n")
    write("b.md", "---\nstage: final\npeople: [Dana, Ida]\ndone: true\nstatus: open\n---\nThe heron.\n")
    firsts = {"a": 7, "b": 7}
    assert found(memory, f"heron {filters}", mode) == [f"{name}.md:{firsts[name]}" for name in names]


@pytest.mark.parametrize("mode", MODES)
def test_words_that_must_all_be_there_need_not_be_adjacent(memory: Memory, write: Write, mode: str) -> None:
    """`all:` leaves hits with each of its words; a phrase needs them side by side."""
    write("both.md", "The price of the boat.\n")
    write("phrase.md", "The boat price.\n")
    write("one.md", "A boat.\n")
    memory.sync()
    assert found(memory, 'all:"boat price"', mode) == ["both.md:1", "phrase.md:1"]
    assert found(memory, "all:boat all:price", mode) == ["both.md:1", "phrase.md:1"]
    assert found(memory, '"boat price"', mode) == ["phrase.md:1"]


def test_a_word_with_a_star_may_go_on(memory: Memory, write: Write) -> None:
    """`roo*` finds root and roof, in a phrase and as an exclusion, too, and marks them in the snippet."""
    write("root.md", "Root of the tree.\n")
    write("roof.md", "The house has a Röof, a red roof.\n")
    write("room.md", "A small room.\n")
    write("other.md", "The floor.\n")
    memory.sync()
    assert found(memory, "roo*", "keyword") == ["roof.md:1", "room.md:1", "root.md:1"]
    assert found(memory, '"red roo*"', "keyword") == ["roof.md:1"]
    assert found(memory, "all:roo* all:hous*", "keyword") == ["roof.md:1"]
    assert found(memory, "roo* -roof*", "keyword") == ["room.md:1", "root.md:1"]
    assert found(memory, "root* -tre*", "keyword") == []
    (hit,) = memory.search('roo* "of the tree"').hits
    assert next(hit.snippet[start:end] for start, end in hit.highlights) == "Root"
    assert 0.0 < hit.ranks["keyword"].score < 2.0
