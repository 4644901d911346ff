"""Fusion, spans and snippets: pure functions from candidates to what is shown."""

from __future__ import annotations

import pytest

from memsync.model import Candidate, Entry, IndexedChunk, NotePath
from memsync.search.fuse import NOTE_BONUS, add_note_bonus, fuse
from memsync.search.snippet import MAX_SNIPPET_CHARS, make_snippet, mark, stems_of
from memsync.search.spans import OWN_SHARE, ScoredChunk, Span, form_spans


def ranked(*scores: tuple[int, float]) -> list[Candidate]:
    return [Candidate(chunk_id, rank, score) for rank, (chunk_id, score) in enumerate(scores, 1)]


def chunk(chunk_id: int, entries: list[Entry], path: str = "a.md", section: int = 0, role: str = "") -> IndexedChunk:
    return IndexedChunk(
        chunk_id, NotePath(path), section, entries[0].start_line, entries[-1].end_line, 0, 0, b"", ["H"], role, entries,
        "note", "project", "A", "2026-11-21", 0.5, False, 0, (0, 0, 0, 0),
    )  # fmt: skip


def entry(position: int, windows: int = 0, tokens: int = 10, line: int | None = None) -> Entry:
    line = position + 1 if line is None else line
    return Entry(line, line, position, windows, tokens)


def spans(*scored: tuple[IndexedChunk, float]) -> list[Span]:
    return list(form_spans([ScoredChunk(one, score) for one, score in scored]))


def snippet_of(text: str, *words: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    stems = stems_of(words)
    return make_snippet(mark(text, stems), stems)


def test_fused_score_weighs_both_and_bounds_what_is_unknown() -> None:
    """A chunk not found by words has 0 there; one not found by meaning cannot be nearer than the last that was."""
    scores = fuse(ranked((1, 0.8), (2, 0.4)), ranked((2, 0.9), (3, 0.5)), keyword_weight=0.25, contributed=10)
    assert scores == pytest.approx({1: 0.25 * 0.8 + 0.75 * 0.5, 2: 0.25 * 0.4 + 0.75 * 0.9, 3: 0.75 * 0.5})


def test_keyword_candidates_beyond_the_contributed_still_lend_their_score() -> None:
    """What was found by meaning has its own words counted, however many others have more of them."""
    keyword = ranked((1, 0.9), (2, 0.8), (3, 0.7))
    scores = fuse(keyword, ranked((3, 0.6)), keyword_weight=0.5, contributed=1)
    assert scores == pytest.approx({1: 0.5 * 0.9 + 0.5 * 0.6, 3: 0.5 * 0.7 + 0.5 * 0.6})


def test_one_retriever_alone_decides_by_its_own_scores() -> None:
    """Keyword mode, or a model that failed."""
    assert fuse(ranked((1, 0.8)), [], keyword_weight=0.3, contributed=10) == {1: 0.8}
    assert fuse([], ranked((2, 0.6)), keyword_weight=0.3, contributed=10) == {2: 0.6}


def test_note_bonus_comes_from_the_second_and_third_best_chunk() -> None:
    """A single mention gets none; a chunk that has gone is left out."""
    paths = {1: NotePath("a"), 2: NotePath("a"), 3: NotePath("a"), 4: NotePath("a"), 5: NotePath("b")}
    scores = add_note_bonus({1: 0.5, 2: 0.4, 3: 0.3, 4: 0.2, 5: 0.5, 6: 0.9}, paths)
    assert scores[1] == pytest.approx(0.5 + NOTE_BONUS * 0.7)
    assert scores[5] == 0.5
    assert 6 not in scores


def test_neighbouring_entries_become_one_span() -> None:
    """Near-identical neighbours are one hit; entries with a gap between them, or much unlike in score, are two."""
    found = spans((chunk(1, [entry(0)]), 0.8), (chunk(2, [entry(1)]), 0.9), (chunk(3, [entry(5)]), 0.7))
    assert [(span.start_line, span.end_line, span.score) for span in found] == [(1, 2, 0.9), (6, 6, 0.7)]
    assert len(spans((chunk(1, [entry(0)]), 0.5), (chunk(2, [entry(1)]), 0.9))) == 2


def test_an_entry_is_scored_by_itself_and_by_its_windows() -> None:
    """A window that was not found counts as the lowest score that was."""
    window = chunk(9, [entry(0, 2), entry(1, 2)])
    found = spans((chunk(1, [entry(0, 2)]), 0.8), (window, 0.6), (chunk(3, [entry(7, line=30)]), 0.2))
    expected = OWN_SHARE * 0.8 + (1 - OWN_SHARE) * (0.6 + 0.2) / 2
    assert found[0].score == pytest.approx(expected)


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
    spoken = chunk(2, [entry(0, line=3)], section=1, role="user")
    assert len(spans((first, 0.9), (spoken, 0.85))) == 2


def test_equal_scores_go_by_path_then_line() -> None:
    """Equal inputs give equal output, in whatever order candidates came."""
    scored = [
        (chunk(1, [entry(4)], "b.md"), 0.5),
        (chunk(2, [entry(0)], "b.md"), 0.5),
        (chunk(3, [entry(2)], "a.md"), 0.5),
    ]
    expected = [("a.md", 3), ("b.md", 1), ("b.md", 5)]
    for order in (scored, scored[::-1]):
        assert [(span.chunks[0].path, span.start_line) for span in spans(*order)] == expected


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
