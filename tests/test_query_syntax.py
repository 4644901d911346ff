"""What a person types -> Query."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsync.errors import UsageError
from memsync.model import Filters, Query
from memsync.search.query_syntax import MAX_QUERY_CHARS, MAX_WORDS, parse_query

NOW = datetime(2026, 11, 21, 10, 0)


def parse(typed: str) -> Query:
    return parse_query(typed, now=NOW, limit=10)


def test_stop_words_are_not_looked_up_but_are_embedded() -> None:
    """A model reads the whole question, the word index its telling words."""
    query = parse("Which store did we choose?")
    assert query.words == ("store", "choose")
    assert query.text == "Which store did we choose?"


def test_a_query_of_stop_words_alone_is_looked_up_as_it_is() -> None:
    """`to be or not to be` must find something."""
    assert parse("to be or not").words == ("to", "be", "or", "not")


def test_joined_words_are_also_a_phrase() -> None:
    """`foo-bar` is more than foo and bar."""
    assert parse("CommandExt::process_group").words == ("commandext", "process", "group", "commandext process group")
    assert parse("--cap-lints").words == ("cap", "lints", "cap lints")
    assert parse("Caroline's dog").words == ("caroline", "dog")


def test_every_filter_is_taken_out_of_the_text() -> None:
    """Filters narrow, they are not searched for."""
    query = parse(
        "deploy kind:daily tier:task tag:#work/a in:./projects path:*.md role:user session:s1 after:2026-11 "
        "before:yesterday where:emotion=fear is:archived"
    )
    assert query.text == "deploy"
    assert query.filters == Filters(
        kinds=("daily",),
        tiers=("task",),
        tags=("work/a",),
        folders=("projects/",),
        path_globs=("*.md",),
        roles=("user",),
        sessions=("s1",),
        after="2026-11",
        before="2026-11-20",
        where=(("emotion", "fear"),),
        archived=True,
    )


def test_phrases_and_exclusions() -> None:
    """Quotes require, a minus excludes; both also as phrases."""
    query = parse('store "write-ahead log" -sqlite -"slow disk"')
    assert (query.phrases, query.exclusions) == (("write-ahead log",), ("sqlite", "slow disk"))
    assert query.text == "store write-ahead log"


@pytest.mark.parametrize(
    "typed",
    ["std::path::Path", "http://example.org", "a - b", "x --flag", '#![x = "windows"]', "kind: daily", "C++ a@b *^:{}"],
)
def test_other_punctuation_is_just_text(typed: str) -> None:
    """What only looks like syntax is text."""
    query = parse(typed)
    assert query.text == " ".join(typed.split())
    assert (query.filters, query.phrases, query.exclusions) == (Filters(), (), ())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026", "2026"),
        ("2026-11-01", "2026-11-01"),
        ("2026-11-01T10:02", "2026-11-01T10:02"),
        ("today", "2026-11-21"),
        ('"2 weeks ago"', "2026-11-07"),
        ("3d", "2026-11-18"),
        ('"last week"', "2026-11-14"),
        ('"an hour ago"', "2026-11-21T09:00"),
    ],
)
def test_dates_as_people_write_them(value: str, expected: str) -> None:
    """ISO in full or in part, and relative ones."""
    assert parse(f"x after:{value}").filters.after == expected


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("-only", "leave out"),
        ("kind:dialy", "kind:dialy"),
        ("tier:x", "tier:x"),
        ("after:2026-02-30", "not a date"),
        ("before:soon", "not a date"),
        ("after:9999y", "before all dates"),
        ("where:emotion", "key=value"),
        ("is:open", "is:open"),
        ('tag:""', "needs a value"),
    ],
)
def test_senseless_queries_are_usage_errors_with_an_example(typed: str, message: str) -> None:
    """The hint shows how it is written."""
    with pytest.raises(UsageError, match=message) as caught:
        parse(typed)
    assert caught.value.hint


def test_too_long_a_query_is_cut_and_says_so() -> None:
    """A megabyte of text is answered, not choked on."""
    query = parse("heron " + "x" * 1_000_000)
    assert len(query.text) <= MAX_QUERY_CHARS
    assert "only the first" in query.warnings[0]
    assert len(parse(" ".join(f"w{i}" for i in range(500))).words) == MAX_WORDS


def test_a_lone_surrogate_is_replaced() -> None:
    """What the shell could not decode cannot be looked up, and must not fail either."""
    assert parse('"heron \udcff"').phrases == ("heron ?",)


@given(st.text(max_size=200))
@settings(max_examples=300)
def test_any_text_is_a_query_or_a_usage_error(typed: str) -> None:
    """Nothing a person can type raises anything else."""
    try:
        query = parse(typed)
    except UsageError:
        return
    assert (query.text.strip(), query.filters) != ("", Filters())


def test_two_hyphens_exclude_nothing() -> None:
    """`--draft` is text as it was typed; `-draft` excludes."""
    assert parse("--draft heron").text == "--draft heron"
    assert parse("--draft heron").exclusions == ()
    assert parse("-draft heron").exclusions == ("draft",)
