"""What a person types -> Query."""

from __future__ import annotations

import re
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsync.errors import UsageError
from memsync.model.filters import Filters
from memsync.model.query import Query
from memsync.search.query_syntax import MAX_QUERY_CHARS, MAX_WORDS, parse_query, typed_filters

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
    ("typed", "message"),
    [
        ("tags:work", r'Unknown filter "tags:".*\n.*Did you mean "tag:"'),
        ("deploy since:2026-11-01", r'Unknown filter "since:".*\n.*Did you mean "after:"'),
        ("until:yesterday", 'Did you mean "before:"'),
        ("file:store.md", 'Did you mean "path:"'),
        ("folder:projects", 'Did you mean "in:"'),
        ("foldr:projects", 'Did you mean "in:"'),
        ("folder:/projects", 'Did you mean "in:"'),
        ('tags:"two words"', 'Did you mean "tag:"'),
        ("knd:daily", 'Did you mean "kind:"'),
        ("wher:a=b", 'Did you mean "where:"'),
        ("since:2026", 'Did you mean "after:"'),
        ("zzz:value", "Filters are kind, tier"),
    ],
)
def test_a_filter_that_there_is_not_is_named_with_the_nearest(typed: str, message: str) -> None:
    """Taken for text it would find nothing, and nobody would know why; in quotes it is text."""
    with pytest.raises(UsageError) as raised:
        parse(typed)
    assert re.search(message, f"{raised.value.message}\n{raised.value.hint}")
    assert parse(f'"{typed.partition(" ")[0].replace(chr(34), "")}"').phrases


@pytest.mark.parametrize(
    "typed",
    [
        "https://example.org/x", "http://localhost:8080/", "file:///etc/x", "mailto:a@b.org", "12:30", "at 9:05",
        "C:", "C:\\notes", "c:\\notes", "std::vector", "a::b::c", "foo: bar", "foo :bar", "localhost:8080", "Note:this",
        "TODO:fix", "Genesis:3", "x:y", "1:1", "é:x", "wörter:buch", ":-)", "key:", "::", "a:b:c", "utf8:x",
    ],
)  # fmt: skip
def test_a_colon_that_makes_no_filter_is_text(typed: str) -> None:
    """Addresses, times, drives, paths of code, words that end in a colon, names with a capital."""
    query = parse(typed)
    assert (query.text, query.filters) == (" ".join(typed.split()), Filters())


@pytest.mark.parametrize(
    "typed", ['where:note="two words"', 'where:"note=two words"', 'heron where:note="two words" x']
)
def test_a_value_of_two_words_is_quoted_before_or_behind_its_key(typed: str) -> None:
    """Both are how people write it."""
    assert parse(typed).filters.where == (("note", "two words"),)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026", "2026"), ("2026-11-01", "2026-11-01"), ("2026-11-01T10:02", "2026-11-01T10:02"),
        ("today", "2026-11-21"), ('"2 weeks ago"', "2026-11-07"), ("3d", "2026-11-18"), ('"last week"', "2026-11-14"),
        ('"last monday"', "2026-11-16"), ('"an hour ago"', "2026-11-21T09:00"),
    ],
)  # fmt: skip
def test_dates_as_people_write_them(value: str, expected: str) -> None:
    """ISO in full or in part, and relative ones."""
    assert parse(f"x after:{value}").filters.after == expected


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("", "empty"), ("   ", "empty"), ("-only", "leave out"), ("kind:dialy", "kind:dialy"), ("tier:x", "tier:x"),
        ("after:2026-02-30", "not a date"), ("before:soon", "not a date"), ("after:9999y", "before all dates"),
        ("where:emotion", "key=value"), ("is:open", "is:open"), ("heron -tag:work", "cannot be excluded"),
        ('-kind:"daily"', "cannot be excluded"), ('tag:""', "needs a value"),
    ],
)  # fmt: skip
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
    assert parse('"heron \udcff"').phrases == ("heron \N{REPLACEMENT CHARACTER}",)


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


def test_query_without_a_word_is_warned_of() -> None:
    """Nothing can be looked up; the answer says so."""
    query = parse("?! …")
    assert (query.text, query.words) == ("?! …", ())
    assert query.warnings == ("'?! …' has no word to look up. Add a word, or leave it out.",)
    assert "is:todo" in parse("- [ ]").warnings[0]


@pytest.mark.parametrize(
    ("typed", "hint"),
    [('"- [ ]"', "is:todo"), ('"[ ]" kind:note', "is:todo"), ('"->" &', "Add a word"), ('all:"&"', "Add a word")],
)
def test_a_phrase_without_a_word_is_an_error(typed: str, hint: str) -> None:
    """Without a word nothing can be looked up; the nearest notes by meaning would be arbitrary ones."""
    with pytest.raises(UsageError, match="has no word to look up") as raised:
        parse(typed)
    assert hint in raised.value.hint
    assert parse(f"boat {typed}").phrases == ()  # beside words it is text


def test_an_unknown_filter_may_be_a_key_of_the_front_matter() -> None:
    """`mood:good` is how other programs ask for a key; the error shows how memsync is asked."""
    for typed in ("mood:good", "tags:work"):
        with pytest.raises(UsageError) as raised:
            parse(typed)
        assert f"where:{typed.replace(':', '=', 1)}." in raised.value.hint


def test_words_that_must_all_be_in_a_hit() -> None:
    """`all:` requires words anywhere in the hit; a phrase requires them side by side."""
    for typed in ('all:"boat price"', "all:boat all:price"):
        query = parse(typed)
        assert (query.phrases, query.words, query.text) == (("boat", "price"), ("boat", "price"), "boat price")


def test_a_word_that_may_go_on() -> None:
    """A star after at least two letters or digits; any other star is punctuation."""
    assert parse("roo* fix").words == ("roo*", "fix")
    assert parse("r* **bold** x*y").words == ("r", "bold", "x", "y", "x y")


def test_tasks_are_a_filter() -> None:
    """`is:todo` and `is:done` choose entries by their check box."""
    assert parse("is:todo").filters == Filters(where=(("has-todo", "true"),))
    assert parse("boat is:DONE").filters == Filters(where=(("has-done", "true"),))


def test_typed_filters_come_with_the_query_without_them() -> None:
    """In order, quoted or not, also with a value that is not known; a phrase and an exclusion are none."""
    typed = typed_filters('boat kind:daily "tag:x" in:"a b" -"kind:x" is:new')
    assert [(one.name, one.value) for one in typed] == [("kind", "daily"), ("in", "a b"), ("is", "new")]
    assert typed[0].rest == 'boat "tag:x" in:"a b" -"kind:x" is:new'
    assert typed[1].rest == 'boat kind:daily "tag:x" -"kind:x" is:new'
    assert typed_filters("kind:daily")[0].rest == ""
