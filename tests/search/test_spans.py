"""Fusion, spans and snippets: pure functions from candidates to what is shown."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from memsync.memory import Memory
from memsync.model.note import Entry
from memsync.model.query import Candidate, IndexedChunk, TimeHint
from memsync.model.vocabulary import Form, NotePath, Trait
from memsync.notes.entry_text import stem_number
from memsync.search.budget import CITATION_TOKENS
from memsync.search.confidence import certainty
from memsync.search.question_wording import Wording
from memsync.search.rank import (
    DATED_THEN,
    NOTE_BONUS,
    OPENING,
    OWN_SHARE,
    Pool,
    QuestionWords,
    Scored,
    Weights,
    age_in_days,
    by_words,
    in_order,
    prior_of,
    rank,
)
from memsync.search.snippet import MAX_SNIPPET_CHARS, holds_all, make_snippet, mark, stems_of
from memsync.search.spans import Span, form_spans
from tests.conftest import FakeEmbedder, Write

QUESTION = QuestionWords({}, frozenset(), asks_when=False)
WEIGHTS = Weights(reference=0.25, memory=0.5)


def candidates(*scores: tuple[int, float]) -> list[Candidate]:
    return [Candidate(chunk_id, rank, score) for rank, (chunk_id, score) in enumerate(scores, 1)]


def chunk(
    chunk_id: int,
    entries: list[Entry],
    path: str = "a.md",
    section: int = 0,
    role: str = "",
    kind: str = "note",
    form: Form = Form.TEXT,
) -> IndexedChunk:
    return IndexedChunk(
        chunk_id, NotePath(path), section, entries[0].start_line, entries[-1].end_line, 0, 0, b"", ["H"], role, entries,
        kind, "project", "A", "2026-11-21", 0.5, False, 0, (0, 0, 0, 0), form,
    )  # fmt: skip


def entry(position: int, windows: int = 0, tokens: int = 10, line: int | None = None, **more: Any) -> Entry:
    line = position + 1 if line is None else line
    return Entry(line, line, position, windows, tokens, **more)


def line(position: int, windows: int = 0, tokens: int = 10, speaker: str = "", traits: Trait = Trait.ITEM) -> Entry:
    """Return a line of a log, said by somebody if it is one of a conversation."""
    return entry(position, windows, tokens, speaker=speaker, traits=int(traits))


def pool(
    chunks: list[IndexedChunk],
    keyword: list[Candidate] | None = None,
    near: list[Candidate] | None = None,
    contributed: int = 10,
) -> Pool:
    by_id = {one.chunk_id: one for one in chunks}
    return Pool(keyword or [], near or [], by_id, contributed, lambda chunk, entry, number: True)


def scores_of(found: list[Scored]) -> dict[int, float]:
    """Return each entry's score by the chunk that shows it."""
    return {one.chunk.chunk_id: one.score for one in found}


def ranked(of: Pool, question: QuestionWords = QUESTION) -> list[Scored]:
    return rank(of, question, WEIGHTS, lambda chunk: 0.0)


def read(of: Pool) -> list[Scored]:
    """Return the entries in their order after their texts were looked at, which are gone."""
    return by_words(ranked(of), of, Wording("", {}), lambda scored: None, 1.0)


def spans(*scored: tuple[IndexedChunk, float]) -> list[Span]:
    """Return the spans of entries by the scores that they have, whatever they have them for."""
    found = in_order(pool([one for one, _ in scored], candidates(*((one.chunk_id, score) for one, score in scored))))
    return list(form_spans(found))


def snippet_of(text: str, *words: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    return make_snippet(text, stems_of(words))


def texts(*paths: str) -> list[IndexedChunk]:
    """Return chunks of one entry each, numbered from 1."""
    return [chunk(number, [entry(0)], path) for number, path in enumerate(paths, 1)]


def test_score_weighs_both_retrievers_and_bounds_what_is_unknown() -> None:
    """A chunk not found by words has 0 there; one not found by meaning cannot be nearer than the last that was."""
    keyword, near = candidates((1, 0.8), (2, 0.4)), candidates((2, 0.9), (3, 0.5))
    scores = scores_of(ranked(pool(texts("a", "b", "c"), keyword, near)))
    assert scores == pytest.approx({1: 0.25 * 0.8 + 0.75 * 0.5, 2: 0.25 * 0.4 + 0.75 * 0.9, 3: 0.75 * 0.5})


def test_keyword_candidates_beyond_the_contributed_still_lend_their_score() -> None:
    """What was found by meaning has its own words counted, however many others have more of them."""
    keyword = candidates((1, 0.9), (2, 0.8), (3, 0.7))
    scores = scores_of(ranked(pool(texts("a", "b", "c"), keyword, candidates((3, 0.6)), contributed=1)))
    assert scores == pytest.approx({1: 0.25 * 0.9 + 0.75 * 0.6, 3: 0.25 * 0.7 + 0.75 * 0.6})


def test_words_alone_decide_where_no_model_was_asked() -> None:
    """Keyword mode, or a model that failed: weights are for two that disagree."""
    assert scores_of(ranked(pool(texts("a"), candidates((1, 0.8))))) == {1: 0.8}


def test_words_count_for_more_in_a_log_than_in_a_reference_note() -> None:
    """Each has a weight of its own."""
    log = chunk(1, [line(0, tokens=11)], "daily/a.md", kind="daily")
    scores = scores_of(
        ranked(pool([log, *texts("x", "b")[1:]], candidates((1, 0.8), (2, 0.8)), candidates((1, 0.4), (2, 0.4))))
    )
    assert scores == pytest.approx({1: 0.5 * 0.8 + 0.5 * 0.4, 2: 0.25 * 0.8 + 0.75 * 0.4})


def test_a_chunk_that_has_just_gone_is_left_out() -> None:
    """It was found, but the index has no chunk of that number any more."""
    assert scores_of(ranked(pool(texts("a"), candidates((1, 0.5), (6, 0.9))))) == {1: 0.5}


def test_note_bonus_comes_from_the_second_and_third_best_entry() -> None:
    """A note about a thing comes before a mention, which gets none."""
    own = [chunk(number, [entry(number)], "a.md") for number in (1, 2, 3, 4)]
    keyword = candidates((1, 0.5), (5, 0.5), (2, 0.4), (3, 0.3), (4, 0.2))
    found = ranked(pool([*own, chunk(5, [entry(0)], "b.md")], keyword))
    scores = scores_of(found)
    assert scores[1] == pytest.approx(0.5 + NOTE_BONUS * 0.7)
    assert scores[5] == 0.5
    assert [span.parts for span in form_spans(found)][:2] == [
        {"retrievers": 0.5, "note": pytest.approx(NOTE_BONUS * 0.7)},
        {"retrievers": 0.5},
    ]


def conversation(*speakers: str, traits: Trait = Trait.ITEM) -> list[IndexedChunk]:
    """Return the lines of a conversation, numbered from 1, and a window over all of them, numbered 9."""
    lines = [line(number, 1, 11, speaker, traits) for number, speaker in enumerate(speakers)]
    own = [chunk(number, [one], "daily/a.md", kind="daily") for number, one in enumerate(lines, 1)]
    return [*own, chunk(9, lines, "daily/a.md", kind="daily", form=Form.WINDOW)]


def test_a_line_of_a_conversation_is_scored_by_itself_and_by_its_window() -> None:
    """Half of it is by itself alone where it answers better than the lines around it."""
    near = candidates((1, 0.8), (9, 0.4), (2, 0.1))
    (best, *_) = ranked(pool(conversation("anna", "ben"), near=near))
    both = OWN_SHARE * 0.8 + (1 - OWN_SHARE) * 0.4
    assert best.chunk.chunk_id == 1
    assert best.plain == pytest.approx(0.5 * (0.5 * 0.8 + 0.5 * both))


def test_a_window_that_was_not_found_counts_as_the_farthest_that_was() -> None:
    """It cannot be nearer."""
    (best, *_) = ranked(pool(conversation("anna", "ben"), near=candidates((1, 0.8), (2, 0.1))))
    assert best.plain == pytest.approx(0.5 * (0.5 * 0.8 + 0.5 * (OWN_SHARE * 0.8 + (1 - OWN_SHARE) * 0.1)))


def test_words_of_nearby_lines_count_in_a_conversation() -> None:
    """The nearer the more; so the line between two that hold the words comes before one at the end."""
    keyword = candidates((2, 0.6), (4, 0.6))
    near = candidates(*((number, 0.5) for number in (1, 2, 3, 4, 5)))
    scores = scores_of(ranked(pool(conversation("anna", "ben", "anna", "ben", "anna"), keyword, near)))
    assert scores[3] > scores[1]
    assert scores[3] > scores[5]
    assert scores[2] > scores[3]


def test_a_fact_does_not_care_for_its_neighbours() -> None:
    """In a list of facts a line is worth what it says itself."""
    facts = [chunk(number, [line(number, tokens=11)], "daily/a.md", kind="daily") for number in (1, 2)]
    alone = ranked(pool(facts[:1], near=candidates((1, 0.8), (2, 0.1))))
    both = ranked(pool(facts, candidates((2, 0.1)), candidates((1, 0.8), (2, 0.1))))
    assert both[0].plain == alone[0].plain


@pytest.mark.parametrize(
    ("asked", "first"),
    [("what did anna say", 1), ("what did Ben's boat cost", 2), ("what did anna tell ben", 3), ("who spoke", 3)],
)
def test_lines_by_whom_the_question_names_come_first(asked: str, first: int) -> None:
    """Only where it names some of the speakers and not all; line 3, by carla, is a little nearer."""
    question = QuestionWords.of(asked, {})
    near = candidates((3, 0.52), (1, 0.5), (2, 0.5), (9, 0.5))
    names = ("anna", "ben", "carla") if first != 3 or "who" in asked else ("anna", "ben", "anna")
    assert ranked(pool(conversation(*names), near=near), question)[0].chunk.chunk_id == first


def test_a_line_that_names_a_time_comes_first_when_one_is_asked_for() -> None:
    """`When did …` is answered by a date."""
    plain = chunk(1, [line(0, tokens=11)], "daily/a.md", kind="daily")
    dated_line = chunk(2, [line(0, tokens=11, traits=Trait.ITEM | Trait.NAMES_TIME)], "daily/b.md", kind="daily")
    near = candidates((1, 0.52), (2, 0.5))
    for asked, first in (("When did we move?", 2), ("Where did we move?", 1)):
        assert ranked(pool([plain, dated_line], near=near), QuestionWords.of(asked, {}))[0].chunk.chunk_id == first


def test_a_line_that_asks_comes_after_one_that_says() -> None:
    """In a conversation; the question of a FAQ is no worse for being one."""
    asks, says = conversation("anna", "ben", traits=Trait.ITEM | Trait.QUESTION)[0], conversation("anna", "ben")[1]
    near = candidates((1, 0.52), (2, 0.5))
    assert ranked(pool([asks, says], near=near))[0].chunk.chunk_id == 2


def test_a_text_that_begins_with_the_words_of_the_question_comes_first() -> None:
    """The share of them, weighed by how rare they are."""
    question = QuestionWords.of("how do herons nest", {"herons": 3.0, "nest": 1.0})
    late = chunk(1, [entry(0)], "a.md")
    early = chunk(2, [entry(0)], "b.md")._replace(opening=[stem_number("heron")])
    scores = scores_of(ranked(pool([late, early], near=candidates((1, 0.5), (2, 0.5))), question))
    assert scores[2] - scores[1] == pytest.approx(OPENING * 0.75)


def test_a_bare_heading_comes_after_every_text_that_has_its_words() -> None:
    """And before those that have not: if only the heading has the words, it comes first."""
    bare = chunk(1, [entry(0)], "a.md", form=Form.HEADING)
    chunks = [bare, *(chunk(number, [entry(0)], f"{number}.md") for number in (2, 3, 4))]
    near = candidates((4, 0.3), (2, 0.2), (3, 0.1))
    assert [one.chunk.chunk_id for one in read(pool(chunks, candidates((1, 2.0), (2, 1.2), (3, 1.1)), near))] == [
        2,
        3,
        1,
        4,
    ]
    assert [one.chunk.chunk_id for one in read(pool(chunks, candidates((1, 2.0)), near))][:2] == [1, 4]


def test_items_of_a_group_have_the_meaning_of_all_and_their_own_words() -> None:
    """So the one that holds the word is shown first, and alone."""
    group = chunk(1, [line(number, tokens=11) for number in range(4)], form=Form.GROUP)
    found = ranked(pool([group], [Candidate(1, 1, 0.9, item=3)], candidates((1, 0.5))))
    assert found[0].entry.position == 2
    assert found[0].plain == pytest.approx(0.25 * 0.9 + 0.75 * 0.5)
    assert next((span.start_line, span.end_line) for span in form_spans(found)) == (3, 3)


def test_items_of_a_group_that_only_its_meaning_found_are_one_hit() -> None:
    """No line is better than another."""
    group = chunk(1, [line(number, tokens=11) for number in range(4)], form=Form.GROUP)
    (span,) = form_spans(ranked(pool([group], near=candidates((1, 0.5)))))
    assert (span.start_line, span.end_line) == (1, 4)


def test_an_entry_is_dated_by_its_own_times_before_its_notes_date() -> None:
    """By that of any item of it; the note's date is 2026-11-21."""
    question = QuestionWords({}, frozenset(), False, (TimeHint("", "2024-03-05", "2024-03-05"),))
    entries = [entry(0, time="2024-03-05T10:00"), entry(1, time="2024-03-04", later=("2024-03-05T09:00",)), entry(2)]
    chunks = [chunk(number, [one]) for number, one in enumerate(entries, 1)]
    found = ranked(pool(chunks, near=candidates((1, 0.5), (2, 0.5), (3, 0.5))), question)
    dated = {one.chunk.chunk_id: one.added["dated then"] for one in found}
    assert dated == {1: DATED_THEN, 2: DATED_THEN, 3: 0.0}
    of_the_note = QuestionWords({}, frozenset(), False, (TimeHint("", "2026-11-01", ""),))
    assert [one.chunk.chunk_id for one in ranked(pool(chunks, near=candidates((1, 0.5), (3, 0.5))), of_the_note)] == [
        3,
        1,
    ]


def test_an_answer_by_the_one_who_was_asked_about_is_surer_than_one_by_another() -> None:
    """What Ben said does not tell what Anna said, however near it is."""
    question = QuestionWords.of("what did anna say", {})
    sure = ranked(pool(conversation("anna", "ben"), near=candidates((1, 0.8), (9, 0.7), (2, 0.4))), question)
    unsure = ranked(pool(conversation("ben", "anna"), near=candidates((1, 0.8), (9, 0.7), (2, 0.4))), question)
    chances = [certainty(ranked, question)(ranked[0].score) for ranked in (unsure, sure)]
    assert 0.0 < chances[0] < chances[1] < 1.0
    assert certainty([], question)(1.0) == 0.0


def test_neighbouring_entries_become_one_span() -> None:
    """Near-identical neighbours are one hit; entries with a gap between them, or much unlike in score, are two."""
    found = spans((chunk(1, [entry(0)]), 0.8), (chunk(2, [entry(1)]), 0.9), (chunk(3, [entry(5)]), 0.7))
    assert [(span.start_line, span.end_line, span.score) for span in found] == [(1, 2, 0.9), (6, 6, 0.7)]
    assert len(spans((chunk(1, [entry(0)]), 0.5), (chunk(2, [entry(1)]), 0.9))) == 2


def test_entries_that_only_share_a_typed_word_are_two_spans() -> None:
    """That bonus is so large that all lines with the word would be alike."""
    found = in_order(pool([chunk(n, [entry(n)]) for n in (1, 2)], candidates((1, 0.3), (2, 0.1))))
    for scored in found:
        scored.add("wording", 0.9)
    assert len(list(form_spans(found))) == 2


def test_a_span_never_grows_beyond_its_limit() -> None:
    """Six large neighbours are not one citation."""
    found = spans(*((chunk(i, [entry(i, tokens=250)]), 0.5) for i in range(6)))
    assert [(span.start_line, span.end_line) for span in found] == [(1, 2), (3, 4), (5, 6)]


def test_sections_join_only_in_exposition_and_when_both_answer() -> None:
    """Messages keep their speakers, and a weak section does not ride on a strong one."""
    first = chunk(1, [entry(0, line=1)])
    second = chunk(2, [entry(0, line=3)], section=1)
    assert len(spans((first, 0.9), (second, 0.85))) == 1
    assert len(spans((first, 0.9), (second, 0.5))) == 2
    said, spoken = (chunk(n, [entry(0, line=2 * n)], section=n, kind="thread") for n in (1, 2))
    assert len(spans((said, 0.9), (spoken, 0.85))) == 2


def test_snippet_shows_the_best_line_and_marks_related_words() -> None:
    """`chosen` is not `choose`, but `nests` and `nesting` are `nest`."""
    text = "\n".join(["filler line " * 10] * 10 + ["The heron was nesting in the alder."] + ["filler line " * 10] * 10)
    snippet, marks = snippet_of(text, "heron", "nests")
    assert [snippet[start:end] for start, end in marks] == ["heron", "nesting"]
    assert len(snippet) <= MAX_SNIPPET_CHARS


def test_snippet_of_one_endless_line_is_cut_around_the_match() -> None:
    """A line of a megabyte is not printed whole."""
    snippet, marks = snippet_of("word " * 100_000 + "heron " + "word " * 100_000, "heron")
    assert len(snippet) < MAX_SNIPPET_CHARS + 10
    assert [snippet[start:end] for start, end in marks] == ["heron"]


def test_snippet_of_a_long_line_shows_where_most_words_are() -> None:
    """One of them at its beginning does not hide the part that answers."""
    text = (
        "We chose a colour. " + "It took some time. " * 40 + "The store that we chose is SQLite. " + "So it is. " * 40
    )
    snippet, _ = make_snippet(text, stems_of(["store", "chose"]))
    assert "The store that we chose is SQLite." in snippet


@pytest.mark.parametrize("words", [("heron",), ("absent",)])
def test_snippet_of_a_match_at_the_beginning_begins_there(words: tuple[str, ...]) -> None:
    """So does that of a line without any."""
    snippet, _ = snippet_of("heron " + "alder willow " * 1_000, *words)
    assert snippet.startswith("heron alder")
    assert snippet.endswith(" …")


def test_snippet_ends_with_its_text() -> None:
    """Only what is cut is marked as cut."""
    snippet, _ = snippet_of("alder willow " * 1_000 + "heron", "heron")
    assert snippet.startswith("… ")
    assert snippet.endswith("willow heron")


# ------------------------------------------------------------------------------------------ age and recency


@pytest.fixture(params=["UTC", "Asia/Kolkata", "America/Los_Angeles"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Be in one place after the other."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def dated(note_date: str = "", moment: str = "", mtime: datetime | None = None) -> IndexedChunk:
    ns = int(mtime.timestamp()) * 10**9 if mtime else 0
    return chunk(1, [Entry(1, 1, 0, 0, 5, time=moment)])._replace(
        note_date=note_date, identity=(1, ns, ns, 1), changed_ns=ns
    )


@pytest.mark.parametrize("hour", [0, 3, 12, 23])
@pytest.mark.parametrize(
    ("of", "days"),
    [
        (dated("2026-11-21"), 0), (dated("2026-11-20"), 1), (dated("2026-11-22"), 0), (dated("2026-10-22"), 30),
        (dated("2025-11-21"), 365), (dated("2026-11-01", "2026-11-19T23:59"), 2),
        (dated("2026-11-01", "2026-11-19T00:00"), 2), (dated("1969-12-31"), 20_779),
    ],
)  # fmt: skip
def test_age_counts_days_of_the_calendar_from_the_entry_else_the_note(
    zone: str, hour: int, of: IndexedChunk, days: int
) -> None:
    """Whatever the time of day, and wherever: today is 0, yesterday 1, what lies ahead 0."""
    assert age_in_days(of, datetime(2026, 11, 21, hour, 30).timestamp()) == days


def test_without_a_date_age_counts_whole_days_since_the_file_changed() -> None:
    """A file that lies ahead of the clock is new; a date that is none is very old."""
    now = datetime(2026, 11, 21, 12)
    ages = [
        age_in_days(dated(mtime=moment), now.timestamp())
        for moment in (now, datetime(2026, 11, 20, 13), datetime(2026, 11, 20, 12), datetime(2026, 12, 24))
    ]
    assert ages == [0, 0, 1, 0]
    assert age_in_days(dated("2026-11"), now.timestamp()) > 36_500


def test_recency_halves_with_each_half_life() -> None:
    """A note of 90 days ago has half of the bonus, and one of 180 days ago a quarter."""
    now = datetime(2026, 11, 21, 12).timestamp()
    days = ("2026-11-21", "2026-08-23", "2026-05-25", "1900-01-01")
    assert [prior_of(dated(day), now) for day in days] == pytest.approx([0.01, 0.005, 0.0025, 0.0], abs=2e-4)


@pytest.mark.parametrize("year", [1970, 2019, 2026, 2094])
def test_the_newer_of_two_is_newer_however_old_both_are(year: int) -> None:
    """By a day, a century ago: the halved bonus alone is the same number for both after some years."""
    now = datetime(2094, 11, 21, 12).timestamp()
    older, newer = (round(prior_of(dated(f"{year}-05-0{day}"), now), 9) for day in (1, 2))
    assert newer > older


def test_pins_and_importance_add_their_weights() -> None:
    """Importance from 0 to 1 counts from minus to plus its weight; 0.5 is neutral."""
    now = datetime(2026, 11, 21, 12).timestamp()
    base = dated("1900-01-01")  # no bonus for recency
    priors = [
        prior_of(base._replace(importance=importance, pinned=pinned), now)
        for importance, pinned in ((0.5, False), (0.0, False), (1.0, False), (0.5, True), (1.0, True))
    ]
    assert priors == pytest.approx([0.0, -0.02, 0.02, 0.01, 0.03], abs=1e-3)


# ------------------------------------------------------------------------------------------ budget and scores


def test_the_token_budget_counts_each_citation(memory: Memory, write: Write) -> None:
    """Two equal hits fit when their texts and two citations do, and one word piece less leaves one."""
    for name in ("a", "b", "c"):
        write(f"{name}.md", f"The heron {name} nests in the alder.\n")
    memory.sync()
    (cost,) = memory.fresh_search._searcher._count_tokens(["The heron a nests in the alder."])
    budget = 2 * (cost + CITATION_TOKENS)
    for tokens, count in ((budget - 1, 1), (budget, 2), (budget + cost + CITATION_TOKENS - 1, 2)):
        assert len(memory.search("heron", tokens=tokens).hits) == count
    assert memory.search("heron", tokens=CITATION_TOKENS + cost - 1).hits == ()
    assert memory.search("heron", tokens=CITATION_TOKENS + cost - 1).warnings == (
        f"none of 3 hits fits into {CITATION_TOKENS + cost - 1} tokens",
    )


def test_ranks_of_a_hit_are_the_best_of_its_chunks(memory: Memory, write: Write, embedder: FakeEmbedder) -> None:
    """By each retriever that found it; a search by words alone names no vector."""
    for number in range(4):
        write(f"n{number}.md", "heron " * (number + 1) + "and other birds of the harbour\n")
    memory.sync()
    both = memory.search("heron")
    assert [hit.ranks["keyword"].rank for hit in both.hits] == [1, 2, 3, 4]
    assert sorted(hit.ranks["vector"].rank for hit in both.hits) == [1, 2, 3, 4]
    assert [set(hit.ranks) for hit in memory.search("heron", mode="keyword").hits] == [{"keyword"}] * 4
    assert [set(hit.ranks) for hit in memory.search("heron", mode="vector").hits] == [{"vector"}] * 4


def test_a_question_that_one_line_answers_scores_higher_than_one_that_none_does(memory: Memory, write: Write) -> None:
    """The top score tells an answerable question from another; no score leaves 0 to 1."""
    write("a.md", "The heron nests in the alder.\n\nBoats lie in the harbour.\n")
    write("b.md", "Ropes and tides.\n")
    tops = [memory.search(text, mode="keyword").hits[0].score for text in ("heron nests alder", "heron rope quay")]
    assert tops[0] > 2 * tops[1] > 0
    assert tops[0] <= 1


def test_snippet_shows_the_lines_around_the_best_as_far_as_they_fit() -> None:
    """Those after it first, then those before it up to the very first; what does not fit is left out whole."""
    assert snippet_of("one\ntwo\nheron\nthree\nfour", "heron")[0] == "one\ntwo\nheron\nthree\nfour"
    long = "x" * (MAX_SNIPPET_CHARS - 12)
    assert snippet_of(f"before\nheron\n{long}", "heron")[0] == f"heron\n{long}"
    assert snippet_of(f"{long}xxxxxxxxxx\nbefore\nheron", "heron")[0] == "before\nheron"


def test_compound_is_marked_under_the_typed_word() -> None:
    """`oncall` is in a text with `on-call`, and with no other word beside it."""
    stems = stems_of(("oncall",))
    assert mark("the on-call list", stems) == [(4, 11, "oncall")]
    assert holds_all("the on call list", stems)
    assert not holds_all("on a call list", stems)
