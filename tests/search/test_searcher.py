"""Searching a memory root: filters, freshness, checked hits, budgets."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from memsync.memory import Memory
from memsync.model.json import to_json
from memsync.model.vocabulary import NotePath
from memsync.notes.files import NoteFiles
from tests.conftest import FakeEmbedder, Write
from tests.support.stand_ins import beforehand


def citations(memory: Memory, query: str, **options: object) -> list[str]:
    found = memory.search(query, **{"min_score": 0.0, **options})  # type: ignore[arg-type]  # because options vary
    return [hit.citation for hit in found.hits]


@pytest.fixture
def notes(memory: Memory, write: Write) -> Memory:
    """Return notes of each kind that all mention the heron."""
    write("SOUL.md", "The heron is my name.\n")
    write("daily/2026-11-20.md", "- 09:00 Saw the heron. #birds/wading\n\n- 18:30 The heron left.\n")
    write(
        "threads/t.md",
        "---\nsession: s1\n---\n## user @ 2026-11-19 10:00\n\nA heron?\n\n## agent:r @ 2026-11-19\n\nheron!\n",
    )
    write("projects/pond.md", "---\nstage: draft\ntags: water\n---\n# Pond\n\n- heron here {emotion=joy}\n")
    write("archive/old.md", "The heron of old.\n")
    memory.sync()
    return memory


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ("kind:soul", ["SOUL.md:1"]),
        ("tier:task role:user", ["threads/t.md:6"]),
        ("role:agent", ["threads/t.md:10"]),
        ("session:s1 role:agent:r", ["threads/t.md:10"]),
        ("tag:birds", ["daily/2026-11-20.md:1"]),
        ("tag:water", ["projects/pond.md:5-7"]),
        ("in:projects/", ["projects/pond.md:5-7"]),
        ("path:*pond*", ["projects/pond.md:5-7"]),
        ("where:emotion=joy", ["projects/pond.md:5-7"]),
        ("where:stage=draft", ["projects/pond.md:5-7"]),
        ("is:archived in:archive", ["archive/old.md:1"]),
        ("in:archive", []),
    ],
)
def test_filters_narrow(notes: Memory, filters: str, expected: list[str]) -> None:
    """Each filter leaves what it names, in both retrievers."""
    for mode in ("keyword", "vector", "hybrid"):
        assert citations(notes, f"heron {filters}", mode=mode) == expected


def test_filters_alone_list_the_latest_first(notes: Memory) -> None:
    """A query without words is a listing."""
    assert citations(notes, "kind:thread") == ["threads/t.md:6", "threads/t.md:10"]


def test_phrases_and_exclusions_hold_in_every_mode(notes: Memory) -> None:
    """What a phrase requires and a minus forbids is never shown, not even by meaning."""
    for mode in ("keyword", "vector", "hybrid"):
        assert citations(notes, '"heron is my"', mode=mode) == ["SOUL.md:1"]
        assert "SOUL.md:1" not in citations(notes, "heron -name", mode=mode)


def test_hit_quotes_the_file_and_carries_its_metadata(notes: Memory) -> None:
    """The text is what stands at the lines; attributes are metadata, yet quoted."""
    hit = notes.search("heron in:projects").hits[0]
    assert hit.text == "# Pond\n\n- heron here {emotion=joy}"
    assert (hit.kind, hit.tier, hit.tags, hit.title) == ("note", "project", ("water",), "Pond")
    assert 0 <= hit.score <= 1


def test_what_a_deadline_leaves_out_is_said(memory: Memory, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stale answer says so, in freshness and in words."""
    memory.sync()
    write("late.md", "heron\n")
    started = time.monotonic()
    monkeypatch.setattr("time.monotonic", iter(started + n * 100 for n in range(1000)).__next__)
    result = memory.search("heron")
    assert (result.hits, result.freshness.pending_text, result.freshness.stale) == ((), 1, True)
    assert "Still indexing: 1 of 1 file is not searched yet. Run memsync sync." in " ".join(result.warnings)


def test_failing_model_leaves_words_and_says_so(notes: Memory, embedder: FakeEmbedder) -> None:
    """Keyword search goes on; the mode that answered is told."""
    from memsync.errors import EmbedderError

    embedder.fail = EmbedderError("the model is gone")
    result = notes.search("heron kind:soul")
    assert ([hit.citation for hit in result.hits], result.mode) == (["SOUL.md:1"], "keyword")
    assert "the model is gone; searched by words alone" in result.warnings


def test_token_budget_takes_what_fits_in_order(notes: Memory) -> None:
    """A hit that does not fit is passed over, the next may."""
    count = notes.fresh_search._searcher._count_tokens
    counts = {hit.citation: 12 + count([hit.text])[0] for hit in notes.search("heron").hits}
    result = notes.search("heron", tokens=40)
    assert 0 < len(result.hits) < len(counts)
    assert sum(counts[hit.citation] for hit in result.hits) <= 40
    assert notes.search("heron", tokens=1).hits == ()


def test_importance_and_pins_decide_near_ties_only(memory: Memory, write: Write) -> None:
    """Equal text: the important note first; a better match beats any prior."""
    write("a.md", "---\nimportance: 0.1\n---\nA heron nests.\n")
    write("b.md", "---\nimportance: 0.9\n---\nThe heron nests.\n")
    write("c.md", "---\nimportance: 0\n---\nThe heron nests in the alder by the pond.\n")
    memory.sync()
    assert citations(memory, "heron nests", mode="keyword")[:2] == ["b.md:4", "a.md:4"]
    assert citations(memory, "heron alder pond", mode="keyword")[0] == "c.md:4"


def test_equal_inputs_give_equal_answers(notes: Memory) -> None:
    """Scores and order are the same on every call."""
    first = [(hit.citation, hit.score) for hit in notes.search("heron").hits]
    assert all([(hit.citation, hit.score) for hit in notes.search("heron").hits] == first for _ in range(3))


def test_unreadable_file_is_dropped_from_the_answer(notes: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be checked is not shown."""

    def refuse(_: NoteFiles, path: NotePath) -> None:
        if path == "SOUL.md":
            raise FileNotFoundError(os.fspath(path))

    beforehand(monkeypatch, NoteFiles, "read", refuse)
    assert citations(notes, "heron kind:soul") == []


def test_more_hits_than_candidates_are_given_when_asked_for(memory: Memory, write: Write) -> None:
    """`-n` is never cut by a setting of the ranking."""
    for number in range(230):
        write(f"n{number:03d}.md", f"heron {number}\n")
    memory.sync()
    assert len(memory.search("heron", limit=230).hits) == 230


def test_a_query_in_decomposed_unicode_finds_composed_text(memory: Memory, write: Write) -> None:
    """What looks the same is found."""
    write("a.md", "Zürich\n")
    assert citations(memory, "Zu\u0308rich", mode="keyword") == ["a.md:1"]


def test_get_finds_notes_with_a_hash_in_their_name(memory: Memory, write: Write) -> None:
    """What search prints, get understands; equal headings are told apart by their place."""
    write("C#.md", "# A\n\n## X\n\none\n\n## Y\n\ntwo\n\n## X\n\nthree\n")
    assert memory.get("C#.md:5").text == "one"
    assert memory.get("C#.md#x").end_line == 5


@pytest.mark.parametrize(
    ("written", "is_found"),
    [
        ("2021-12-01", True), ("2021-12-01T00:00:00", True), ("2021-12-01 23:59", True),
        ("2021-12-01T23:30:00+09:00", True), ("2021-12-01T00:30:00-08:00", True), ("2021-12-01T10:00:00Z", True),
        ('"2021-12-01T10:00"', True), ("[2021-12-01T10:00, x]", True), ("2021-12-02", False),
        ("2021-11-30T23:59:59-12:00", False), ('"2021-12-01 is the day"', False), ("2021-12-011", False),
    ],
)  # fmt: skip
def test_a_day_is_found_in_a_date_and_in_a_moment_of_that_day(
    memory: Memory, write: Callable[[str, str], Path], written: str, is_found: bool
) -> None:
    """In the zone in which the moment is written; so is the attribute of an entry."""
    write("a.md", f"---\ncreated: {written}\n---\nheron\n")
    found = memory.search("heron where:created=2021-12-01", mode="keyword").hits
    assert bool(found) is is_found
    if written[0] not in '"[' and is_found:
        write("b.md", f'- bittern {{due="{written}"}}\n')
        write("c.md", "- bittern {due=2020-01-01}\n")
        assert [hit.path for hit in memory.search("bittern where:due=2021-12-01", mode="keyword").hits] == ["b.md"]


def test_identical_passages_are_one_hit_with_all_their_places(memory: Memory, write: Write) -> None:
    """The best one is shown, and the others do not use up the limit of hits."""
    for path in ("a.md", "b.md", "sub/c.md"):
        write(path, f"# {path}\n\n- x\n\n## Pond\n\nThe heron nests in the alder.\n")
    write("d.md", "A heron passes by.\n")
    memory.sync()
    for limit in (1, 10):
        first = memory.search("heron nests alder", limit=limit, mode="keyword").hits[0]
        assert (first.citation, first.also) == ("a.md:5-7", ("b.md:5-7", "sub/c.md:5-7"))
    assert citations(memory, "heron nests alder", limit=2, mode="keyword") == ["a.md:5-7", "d.md:1"]
    write("b.md", "# b.md\n\nThe heron has left.\n")
    assert memory.search("heron nests alder", limit=1, mode="keyword").hits[0].also == ("sub/c.md:5-7",)


def test_a_query_of_filters_alone_has_hits_without_a_score(memory: Memory, write: Write) -> None:
    """They are in the order of their dates; JSON has no member `score`."""
    write("a.md", "The heron.\n")
    (hit,) = memory.search("kind:note").hits
    assert (hit.score, "score" in to_json(hit)) == (0.0, False)
    assert "score" in to_json(memory.search("heron", mode="keyword").hits[0])
