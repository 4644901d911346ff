"""The merge of several memories' answers: what comes first, what is said about it, and that nothing is lost."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from memsync.errors import MemsyncError
from memsync.memories.merging import AnsweredMemory, by_score, merged
from memsync.model.answer import Freshness, Hit, Rank, SearchResult
from memsync.model.query import Query, SearchRequest, TimeHint
from memsync.model.vocabulary import Kind, Mode, NotePath, Tier, WatcherState

MINILM = "minilm|all-MiniLM|1|384|unit"
BGE = "fastembed|bge-base|1|768|unit"
NUMBERS = itertools.count()
QUERY = Query("heron", ("heron",))


def hit(path: str, score: float, *, date: str = "", text: str = "", is_found: bool = True) -> Hit:
    """Make a hit with a score, and a text like no other; `is_found` false: of a listing."""
    text = text or f"heron{next(NUMBERS)}"
    ranks = {"keyword": Rank(1, score)} if is_found else {}
    place = (NotePath(path), 1, 1, (), Kind.NOTE, Tier.PROJECT, path, date, "", ())
    return Hit(*place, text=text, snippet=text, highlights=(), score=score, ranks=ranks)


def answered(
    name: str, hits: Sequence[Hit], model: str = MINILM, mode: Mode = Mode.HYBRID, warnings: tuple[str, ...] = ()
) -> AnsweredMemory:
    freshness = Freshness(f"2026-11-2{len(name)}", 1, 2, WatcherState.LIVE, "", 7)
    return AnsweredMemory(name, SearchResult(tuple(hits), mode, freshness, warnings, model=model), milliseconds=1.25)


def citations(result: SearchResult) -> list[str]:
    return [found.citation for found in result.hits]


scores = st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.5, 0.9, 1.0]), max_size=6).map(
    lambda values: sorted(values, reverse=True)
)


@given(st.lists(scores, min_size=1, max_size=4), st.integers(1, 30), st.randoms(use_true_random=False))
def test_merge_keeps_each_order_and_loses_none(lists: list[list[float]], limit: int, chance: random.Random) -> None:
    """Whatever the models: each hit once, those of one memory in its order, at most the limit."""
    models = [chance.choice([MINILM, BGE]) for _ in lists]
    answers = [
        answered(f"r{at}", [hit(f"{number}.md", score) for number, score in enumerate(values)], model)
        for at, (values, model) in enumerate(zip(lists, models, strict=True))
    ]
    result = merged(Query("heron", limit=limit), answers)
    assert len(result.hits) == min(limit, sum(map(len, lists)))
    assert len(set(citations(result))) == len(result.hits)
    for at in range(len(lists)):
        own = [int(found.path.removesuffix(".md")) for found in result.hits if found.root == f"r{at}"]
        assert own == list(range(len(own)))
    assert [status.hits for status in result.roots] == [
        sum(found.root == status.name for found in result.hits) for status in result.roots
    ]
    assert [found.score for found in result.hits] == sorted((found.score for found in result.hits), reverse=True)
    assert not result.warnings


@given(st.lists(scores, min_size=1, max_size=4))
def test_equal_answers_give_an_equal_merge(lists: list[list[float]]) -> None:
    """Of equal scores, the earlier memory comes first."""
    hits = [[hit(f"{at}/{number}.md", score) for number, score in enumerate(own)] for at, own in enumerate(lists)]
    order = {found.path: at for at, own in enumerate(hits) for found in own}
    merged_hits = by_score(hits)
    for first, second in itertools.pairwise(merged_hits):
        assert (-first.score, order[first.path]) <= (-second.score, order[second.path])


def test_scores_decide_between_models_too() -> None:
    """A score is a probability, whichever model it is from: no weak hit displaces a good one."""
    answers = [
        answered("a", [hit("1.md", 0.9), hit("2.md", 0.2)]),
        answered("b", [hit("1.md", 0.8), hit("2.md", 0.7)], "", Mode.KEYWORD),
        answered("c", [hit("1.md", 0.3), hit("2.md", 0.1)], BGE),
    ]
    result = merged(QUERY, answers)
    assert citations(result) == ["a:1.md:1", "b:1.md:1", "b:2.md:1", "c:1.md:1", "a:2.md:1", "c:2.md:1"]
    assert (result.warnings, result.model, result.mode) == ((), "", Mode.HYBRID)
    assert merged(QUERY, [answers[0], answered("c", [], BGE)]).model == MINILM


def test_a_listing_is_merged_by_date() -> None:
    """A query of filters alone has no scores that mean anything."""
    answers = [
        answered("a", [hit("1.md", 1.0, date="2026-11-20", is_found=False)], ""),
        answered("b", [hit("1.md", 1.0, date="2026-11-21T10:00", is_found=False)], ""),
    ]
    undated = replace(hit("1.md", 1.0, is_found=False), changed="2026-11-21T09:00")
    answers.append(answered("c", [undated], ""))
    assert citations(merged(Query(""), answers)) == ["b:1.md:1", "c:1.md:1", "a:1.md:1"]
    assert merged(Query(""), answers).warnings == ()


def test_a_question_that_only_names_a_time_is_answered_by_what_is_dated_then() -> None:
    """A memory without such entries searched instead; its hits are no answer if another memory has entries."""
    query = Query("what happened yesterday", times=(TimeHint("yesterday", "2026-11-21", "2026-11-21"),))
    listing = answered("a", [hit("1.md", 1.0, date="2026-11-21", is_found=False)], "")
    found = answered("b", [hit("1.md", 0.9)])
    assert citations(merged(query, [found, listing])) == ["a:1.md:1"]
    assert citations(merged(query, [found])) == ["b:1.md:1"]


def test_warnings_name_their_memories_and_those_of_all_are_told_once() -> None:
    """That the best score of one memory is too low matters only if the answer is empty."""
    low = "the best hit has a score of 0.02, which is too low (see min_score)"
    answers = [
        answered("a", [hit("1.md", 0.9)], warnings=("all say this", "two say this")),
        answered("b", [], warnings=("all say this", "two say this", low)),
        AnsweredMemory("c", answered("c", [], warnings=("all say this",)).value, notices=("opened here",)),
    ]
    assert merged(QUERY, answers).warnings == ("all say this", "a, b: two say this", "c: opened here")
    assert merged(QUERY, answers[1:]).warnings[-2] == f"b: {low}"


def test_many_warnings_of_one_memory_do_not_hide_the_others() -> None:
    """A cloned folder can have any number of unreadable files; the count of those left out is told."""
    flood = answered("a", [hit("1.md", 0.9)], warnings=tuple(f"{number}.md: not a text file" for number in range(300)))
    warnings = merged(QUERY, [flood, answered("b", [], warnings=("no vectors yet",))]).warnings
    assert warnings[0] == "a: 0.md: not a text file" and len(warnings) == 22
    assert warnings[-2:] == ("a: and 280 more warnings: run memsync status there", "b: no vectors yet")


def test_a_memory_without_an_answer_is_named() -> None:
    """In the warnings, and with its error in its status; the freshness is that of the others."""
    failed = AnsweredMemory("gone", None, MemsyncError("the memory root /x does not exist"), 3.14159)
    result = merged(QUERY, [failed, answered("a", [hit("1.md", 0.9)]), answered("bb", [])])
    assert result.warnings == ("gone: the memory root /x does not exist",)
    assert [(status.name, status.hits, status.error != "") for status in result.roots] == [
        ("gone", 0, True),
        ("a", 1, False),
        ("bb", 0, False),
    ]
    assert result.roots[0].milliseconds == 3.1
    assert (result.freshness.scanned_at, result.freshness.pending_text, result.freshness.pending_vectors) == (
        "2026-11-21",
        2,
        4,
    )
    assert result.freshness.generation == 0


@pytest.mark.parametrize(("tokens", "count"), [(200, 3), (45, 2), (30, 1), (10, 0)])
def test_a_budget_is_for_the_whole_answer(tokens: int, count: int) -> None:
    """Each hit costs its text and twelve tokens for its citation, whichever memory it is from."""
    answers = [answered("a", [hit("1.md", 0.9), hit("2.md", 0.5)]), answered("b", [hit("1.md", 0.8)])]
    query = replace(QUERY, request=SearchRequest(tokens=tokens))
    result = merged(query, answers, lambda texts: [10 for _ in texts])
    assert citations(result) == ["a:1.md:1", "b:1.md:1", "a:2.md:1"][:count]
    assert result.warnings == (() if count else (f"none of 3 hits fits into {tokens} tokens",))


def test_equal_passages_of_several_memories_are_one_hit() -> None:
    """The best one; its other places have the names of their memories. A list by date keeps each of them."""
    home = [replace(hit("a.md", 0.9, text="same"), also=("b.md:2",)), hit("c.md", 0.5)]
    work = [hit("d.md", 0.8, text="same")]
    first, second = merged(QUERY, [answered("home", home), answered("work", work)]).hits
    assert (first.citation, first.also) == ("home:a.md:1", ("home:b.md:2", "work:d.md:1"))
    assert (second.citation, second.also) == ("home:c.md:1", ())
    listed = [answered(name, [hit("a.md", 0.0, text="same", is_found=False)]) for name in ("home", "work")]
    assert citations(merged(replace(QUERY, text="", words=()), listed)) == ["home:a.md:1", "work:a.md:1"]
