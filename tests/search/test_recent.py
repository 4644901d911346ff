"""Of two passages that answer a question alike, its tense decides which comes first."""

from __future__ import annotations

from typing import Any

import pytest

from memsync.model.note import Entry
from memsync.model.query import IndexedChunk
from memsync.model.vocabulary import Kind, NotePath
from memsync.search.rank import Scored
from memsync.search.recent import by_time
from memsync.search.spans import Span

OLD, MIDDLE, NEW = "2026-03-01T10:00", "2026-04-01T10:00", "2026-05-01T10:00"


def span(text: str, time: str, score: float, *, kind: Kind = Kind.DAILY, validity: str = "") -> Span:
    entry = Entry(1, 1, 0, 0, 10, time=time)
    chunk: Any = IndexedChunk(
        0, NotePath(text), 0, 1, 1, 0, 0, b"", [], "", [entry], kind, "task", "", "", 0.5, False, 0, (0, 0, 0, 0)
    )
    return Span((entry,), Scored(entry, chunk, True, plain=score, score=score, validity=validity), (chunk,))


def ordered(question: str, *spans: Span) -> list[str]:
    """Return the texts in their new order, whose scores still fall."""
    new = by_time(spans, question, lambda one: one.shown.path, lambda score: score)
    assert [one.score for one in new] == sorted((one.score for one in new), reverse=True)
    assert sorted(map(id, new)) == sorted(map(id, spans))
    return [one.shown.path for one in new]


NINE = ("- 10:00 Coverage is 65 percent", "- 11:00 Our tests reached 78 percent")
LEADS = ("- Kim leads the bridge project", "- Noor leads the bridge project")


@pytest.mark.parametrize(
    ("question", "texts"),
    [
        ("What is the test coverage?", NINE), ("How many percent do our tests cover?", NINE),
        ("Who is leading the bridge project, and who has the keys?", LEADS), ("Which person does lead it?", LEADS),
    ],
)  # fmt: skip
def test_the_present_puts_the_newer_first(question: str, texts: tuple[str, str]) -> None:
    """If it asks for a quantity, both must state a number; otherwise they must share most words."""
    assert ordered(question, span(texts[0], OLD, 0.9), span(texts[1], NEW, 0.8)) == [*reversed(texts)]


@pytest.mark.parametrize(
    "question",
    ["What was the test coverage?", "When is the coverage measured?", "Have I ever measured the coverage?", "coverage",
     "What coverage did we have?", "Is the coverage good?"],
)  # fmt: skip
def test_other_questions_change_nothing(question: str) -> None:
    assert ordered(question, span(NINE[0], OLD, 0.9), span(NINE[1], NEW, 0.8)) == [*NINE]


def test_the_past_puts_the_older_first() -> None:
    question = "What was the coverage originally?"
    assert ordered(question, span(NINE[1], NEW, 0.9), span(NINE[0], OLD, 0.8)) == [*NINE]


def test_passages_that_are_not_alike_keep_their_places() -> None:
    """Less probable, of other words, without a number, undated, of a note, or past."""
    assert ordered("What is the coverage?", span(NINE[0], OLD, 0.9), span(NINE[1], NEW, 0.7)) == [*NINE]
    assert (
        ordered("Who is leading?", span(LEADS[0], OLD, 0.9), span("- Noor sings in a choir", NEW, 0.9))[0] == LEADS[0]
    )
    assert ordered("How many are there?", span(NINE[0], OLD, 0.9), span("- a few", NEW, 0.9))[0] == NINE[0]
    assert ordered("What is the coverage?", span(NINE[0], OLD, 0.9), span(NINE[1], "", 0.9))[0] == NINE[0]
    for odd in (span(NINE[1], NEW, 0.9, kind=Kind.NOTE), span(NINE[1], NEW, 0.9, validity="struck through")):
        assert ordered("What is the coverage?", span(NINE[0], OLD, 0.9), odd)[0] == NINE[0]


def test_others_stay_between_those_that_change_places() -> None:
    """Times of a log's items are no numbers that they state."""
    spans = [span("- 10:00 1 heron", OLD, 0.9), span("- 11:00 many", NEW, 0.88), span("- 12:00 2 herons", MIDDLE, 0.85)]
    assert ordered("How many herons are there?", *spans) == ["- 12:00 2 herons", "- 11:00 many", "- 10:00 1 heron"]


def test_only_the_first_passages_change_places() -> None:
    """Otherwise the newest of many would come first, whatever it says."""
    spans = [span(f"- {n} herons", f"2026-05-{n + 1:02d}T10:00", 0.9 - n / 1000) for n in range(9)]
    first = ordered("How many herons are there?", *spans)
    assert first == [f"- {n} herons" for n in (4, 3, 2, 1, 0, 5, 6, 7, 8)]


def test_nothing_to_order() -> None:
    assert ordered("What is it?") == []
    assert ordered("How many are there?", span("1", OLD, 0.0), span("2", NEW, 0.0)) == ["1", "2"]
