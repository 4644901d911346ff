"""Times that a question names in passing: what is read, and what it does to an answer."""

from __future__ import annotations

from datetime import date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from memsync.memory import Memory, MemoryApi
from memsync.model.query import SearchRequest, TimeHint
from memsync.search.query_syntax import parse_query
from memsync.search.rank import DATED_THEN
from memsync.search.time_hints import MAX_CHARS, asks_only_when, asks_when, time_hints, without_times
from tests.conftest import FakeEmbedder, Write
from tests.support.backends import only_sqlite
from tests.support.daemon_process import Cli

SUNDAY = date(2026, 11, 22)
LEAP_DAY = date(2024, 2, 29)


@pytest.mark.parametrize(
    ("question", "words", "after", "before"),
    [
        ("what did we decide yesterday", "yesterday", "2026-11-21", "2026-11-21"),
        ("the day before yesterday", "the day before yesterday", "2026-11-20", "2026-11-20"),
        ("where was I last night", "last night", "2026-11-21", "2026-11-21"),
        ("what is on tomorrow", "tomorrow", "2026-11-23", "2026-11-23"),
        ("Last Week, what happened", "Last Week", "2026-11-09", "2026-11-15"),
        ("plans for next weekend", "next weekend", "2026-11-28", "2026-11-29"),
        ("bills of this month", "this month", "2026-11-01", "2026-11-30"),
        ("trips last year", "last year", "2025-01-01", "2025-12-31"),
        ("the past week", "the past week", "2026-11-15", "2026-11-22"),
        ("runs in the last 10 days", "the last 10 days", "2026-11-12", "2026-11-22"),
        ("who called two weeks ago", "two weeks ago", "2026-11-05", "2026-11-11"),
        ("who called a few days ago", "a few days ago", "2026-11-16", "2026-11-20"),
        ("the talk on Monday", "Monday", "2026-11-16", "2026-11-16"),
        ("the talk last Sunday", "last Sunday", "2026-11-15", "2026-11-15"),
        ("the talk this Sunday", "this Sunday", "2026-11-22", "2026-11-22"),
        ("what changed in March", "March", "2026-03-01", "2026-03-31"),
        ("what changed in December", "December", "2025-12-01", "2025-12-31"),
        ("what changed last November", "last November", "2025-11-01", "2025-11-30"),
        ("March 2024 review", "March 2024", "2024-03-01", "2024-03-31"),
        ("review of 2024-02", "2024-02", "2024-02-01", "2024-02-29"),
        ("dinner on 13 October, 2023?", "13 October, 2023", "2023-10-13", "2023-10-13"),
        ("dinner on October 13th, 2023?", "October 13th, 2023", "2023-10-13", "2023-10-13"),
        ("dinner on 2023-10-13", "2023-10-13", "2023-10-13", "2023-10-13"),
        ("dinner on 13 October", "13 October", "2026-10-13", "2026-10-13"),
        ("dinner on December 24", "December 24", "2025-12-24", "2025-12-24"),
        ("the budget of 2024", "2024", "2024-01-01", "2024-12-31"),
        ("before the move in 2024", "2024", "2024-01-01", "2024-12-31"),
        ("won by July 10, 2022", "by July 10, 2022", "", "2022-07-10"),
        ("since March", "since March", "2026-03-01", ""),
        ("until last week", "until last week", "", "2026-11-15"),
        ("between March and May 2024", "March and May 2024", "2024-03-01", "2024-05-31"),
        ("from December 20 to January 6, 2024", "December 20 to January 6, 2024", "2023-12-20", "2024-01-06"),
        ("in March last year", "March last year", "2025-03-01", "2025-03-31"),
        ("last week, as said on November 6, 2023", "November 6, 2023", "2023-11-06", "2023-11-06"),
        ("31 February 2024", "February 2024", "2024-02-01", "2024-02-29"),
        ("was haben wir letzte Woche entschieden", "letzte Woche", "2026-11-09", "2026-11-15"),
        ("vorgestern", "vorgestern", "2026-11-20", "2026-11-20"),
        ("vor drei Wochen", "vor drei Wochen", "2026-10-29", "2026-11-04"),
        ("in den letzten zehn Tagen", "letzten zehn Tagen", "2026-11-12", "2026-11-22"),
        ("seit März", "seit März", "2026-03-01", ""),
        ("am Montag", "Montag", "2026-11-16", "2026-11-16"),
        ("am 5. April 2025", "5. April 2025", "2025-04-05", "2025-04-05"),
        ("am 5.4.2025", "5.4.2025", "2025-04-05", "2025-04-05"),
        ("letztes Jahr im März", "letztes Jahr im März", "2025-03-01", "2025-03-31"),
        ("the talk next Sunday", "next Sunday", "2026-11-29", "2026-11-29"),
        ("what changed since Monday", "since Monday", "2026-11-16", ""),
        ("between Monday and Wednesday", "Monday and Wednesday", "2026-11-16", "2026-11-18"),
        ("Kauf im Dez 2025", "Dez 2025", "2025-12-01", "2025-12-31"),
        ("dinner on January the 3rd", "January the 3rd", "2026-01-03", "2026-01-03"),
        ("what did I pay 2000 pounds for last week", "last week", "2026-11-09", "2026-11-15"),
        ("kayak in auguſt 2024", "auguſt 2024", "2024-08-01", "2024-08-31"),
        ("kayak in APRİL 2024", "APRİL 2024", "2024-04-01", "2024-04-30"),
        ("kayak in aprıl 2024", "aprıl 2024", "2024-04-01", "2024-04-30"),
        ("la\u017ft wee\u212a", "la\u017ft wee\u212a", "2026-11-09", "2026-11-15"),
        ("photos by Anna in March 2024", "March 2024", "2024-03-01", "2024-03-31"),
        ("nach Berlin im März 2024", "März 2024", "2024-03-01", "2024-03-31"),
        ("from December to last week", "December to last week", "2025-12-01", "2026-11-15"),
    ],
)
def test_a_time_is_read_with_its_words(question: str, words: str, after: str, before: str) -> None:
    """In English and in German, on a Sunday in November."""
    assert time_hints(question, SUNDAY) == (TimeHint(words, after, before),)


@pytest.mark.parametrize(
    "question",
    [
        "which store did we choose", "may I march on", "port 8080", "RFC 2094", "RFC 2005",
        "which 2 may I eat", "notes/2024-03-05.md", "v2024.1",
        "the weekend", "5/3/2024", "#2024", "last but not least", "before lunch", "the last day", "99999 years ago", "",
    ],
)  # fmt: skip
def test_what_names_no_time_gives_no_hint(question: str) -> None:
    """A number, a path or a name is none, nor a day that no calendar has."""
    assert time_hints(question, SUNDAY) == ()


def test_the_latest_day_of_a_name_is_found_in_leap_years() -> None:
    """29 February of the last year that had one."""
    assert time_hints("on 29 February", LEAP_DAY) == (TimeHint("29 February", "2024-02-29", "2024-02-29"),)
    assert time_hints("on 29 February", SUNDAY) == (TimeHint("29 February", "2024-02-29", "2024-02-29"),)
    assert time_hints("on 30 February", SUNDAY) == ()
    assert time_hints("from 29 February to 5 March 2023", LEAP_DAY) == (
        TimeHint("29 February to 5 March 2023", "2023-02-28", "2023-03-05"),
    )
    assert time_hints("last year", LEAP_DAY) == (TimeHint("last year", "2023-01-01", "2023-12-31"),)


def test_two_times_are_two_hints() -> None:
    """In the order of the question."""
    assert [hint.words for hint in time_hints("what changed from 2023 in 2025, and in 2024", SUNDAY)] == [
        "2023", "2025", "2024",
    ]  # fmt: skip


_VOCABULARY = """before after since the last next this past week weekend month year day two few a 12 31 2024
March May on in to from and between ago vor im letzten Tagen Jahr Montag 2024-02-30 30. 2. 29 February 0001-01-01
yeſterday auguſt ſeit aprıl APRİL weeK , . move"""


@given(st.lists(st.sampled_from(_VOCABULARY.split()), max_size=12), st.dates(date(2, 1, 1), date(9998, 12, 31)))
def test_any_words_are_read_or_not_but_never_wrongly_bounded(words: list[str], today: date) -> None:
    """What is read stands in the question, and its bounds are days in their order."""
    question = " ".join(words)
    for hint in time_hints(question, today):
        assert hint.words in question
        days = [date.fromisoformat(day) for day in (hint.after, hint.before) if day]
        assert days == sorted(days)


def test_only_the_begin_of_a_long_question_is_read() -> None:
    """A text of thousands of characters is no question about a time."""
    assert time_hints("x " * MAX_CHARS + "yesterday", SUNDAY) == ()
    assert len(time_hints("2024 " * MAX_CHARS, SUNDAY)) == MAX_CHARS // len("2024 ")


def test_a_number_that_may_be_a_year_leaves_other_times_in_force() -> None:
    """Unless a word before it says that it is one."""
    assert [hint.words for hint in time_hints("room of 1999 apples last week", SUNDAY)] == ["1999"]
    assert [hint.words for hint in time_hints("apples 1999 last week", SUNDAY)] == ["1999", "last week"]


@pytest.mark.parametrize(
    ("question", "only"),
    [
        ("what happened yesterday", True), ("What did I do on Monday?", True), ("was war letzte Woche los", True),
        ("what did I buy yesterday", False), ("what happened", False), ("yesterday", True), ("2024", False),
        ("2024-03-05", False),
    ],
)  # fmt: skip
def test_a_question_may_ask_for_nothing_but_a_time(question: str, only: bool) -> None:
    """Nothing that it could be compared with is left beside the time."""
    assert asks_only_when(question, time_hints(question, SUNDAY)) is only


@pytest.mark.parametrize(("question", "asks"), [("When did it start", True), ("seit wann", True), ("whenever", False)])
def test_asking_for_a_time_is_seen(question: str, asks: bool) -> None:
    """By a word of its own."""
    assert asks_when(question) is asks


def test_times_are_of_the_text_and_not_of_filters() -> None:
    """A filter already leaves everything else out."""
    now = datetime(2026, 11, 22, 12, 0)
    assert parse_query("after:2024 heron", now=now, limit=5).times == ()
    assert parse_query("in:2024 heron in March", now=now, limit=5).times == (
        TimeHint("March", "2026-03-01", "2026-03-31"),
    )


@pytest.mark.parametrize(
    ("hint", "moment", "covers"),
    [
        (TimeHint("", "2024-03-01", "2024-03-31"), "2024-03-31T23:59", True),
        (TimeHint("", "2024-03-01", "2024-03-31"), "2024-04-01", False),
        (TimeHint("", "2024-03-01", ""), "2025-01-01", True),
        (TimeHint("", "", "2024-03-31"), "2024-04-01T00:00", False),
        (TimeHint("", "2024-03-01", "2024-03-31"), "2024", False),
    ],
)
def test_a_time_covers_its_days(hint: TimeHint, moment: str, covers: bool) -> None:
    """To the last minute, and nothing that is less exact than its bounds."""
    assert hint.covers(moment) is covers


@pytest.mark.parametrize(
    ("question", "left"),
    [
        ("what dish did Nate make on 9 November, 2022?", "what dish did Nate make ?"),
        ("what did we decide last week about stores", "what did we decide about stores"),
        ("was haben wir im März 2024 gekauft", "was haben wir gekauft"),
        ("heron last week", "heron last week"),
        ("the budget of all teams in 2024", "the budget of all teams in 2024"),
        ("what came before March 2024 was over", "what came before March 2024 was over"),
        ("which store  did we choose", "which store did we choose"),
    ],
)
def test_meaning_is_looked_for_without_the_days_that_are_named(question: str, left: str) -> None:
    """Not without a year, which may be part of a name, nor if little would be left."""
    assert without_times(question, time_hints(question, SUNDAY)) == left


def test_the_model_is_asked_without_them(memory: Memory, write: Write, embedder: FakeEmbedder) -> None:
    """The words are still looked up: a note may hold them."""
    write("a.md", "The dentist moved to Thursday.\n")
    write("b.md", "Seen on 13 October.\n")
    memory.sync()
    asked = []
    embed = embedder.embed_query
    embedder.embed_query = lambda text: asked.append(text) or embed(text)  # type: ignore[method-assign, func-returns-value]
    hits = memory.search("what did we see on 13 October", min_score=0).hits
    assert asked == ["what did we see"]
    assert [hit.ranks.keys() for hit in hits if hit.path == "b.md"] == [{"keyword", "vector"}]


@only_sqlite
def test_what_is_dated_then_comes_first_and_nothing_is_left_out(own: MemoryApi, write: Write) -> None:
    """About the same line of three days: the question decides which is first, and --explain why."""
    days = {"4 March, 2024": "2024-03-04", "5 March, 2024": "2024-03-05", "6 March, 2024": "2024-03-06"}
    for day in days.values():
        write(f"daily/{day}.md", f"- 10:0{day[-1]} Saw a heron at the lake.\n")
    own.sync()
    for words, day in days.items():
        result = own.search(f"heron at the lake on {words}", min_score=0)
        found = [hit for hit in result.hits if hit.path.startswith("daily/2024")]
        assert found[0].path == f"daily/{day}.md"
        assert [hit.parts.get("dated then") for hit in found] == [DATED_THEN, None, None]
        assert result.explain.times == (TimeHint(words, day, day),)


def test_explain_tells_the_days_and_what_they_added(cli: Cli, write: Write) -> None:
    """On the command line, where a person asks why."""
    write("daily/2024-03-05.md", "- 10:00 Saw a heron at the lake.\n")
    cli("sync")
    shown = cli("search", "heron at the lake in March 2024", "--explain", "--min-score", "0").stdout
    assert 'time: "March 2024" is from 2024-03-01 to 2024-03-31; what is dated then comes a little earlier' in shown
    assert "dated then +0.040" in shown
    listed = cli("search", "what happened on 5 March, 2024", "--explain").stdout
    assert 'time: "5 March, 2024" is 2024-03-05; what is dated then is listed: nothing else is asked' in listed
    assert 'time: "since March 2024" is from 2024-03-01;' in cli("search", "heron since March 2024", "--explain").stdout


@only_sqlite
def test_a_question_for_a_time_alone_lists_what_is_dated_then(own: MemoryApi, write: Write) -> None:
    """Latest first, unlike anything that was asked; where nothing is dated then, it is a question like others."""
    write("daily/2024-03-05.md", "- 10:00 Saw a heron.\n- 11:00 Bought bread.\n")
    write("daily/2024-03-06.md", "- 10:00 What happened there was loud.\n")
    own.sync()
    listed = own.search("what happened on 5 March, 2024?")
    assert [hit.citation for hit in listed.hits] == ["daily/2024-03-05.md:2", "daily/2024-03-05.md:1"]
    assert listed.explain.times == (TimeHint("5 March, 2024", "2024-03-05", "2024-03-05"),)
    assert "daily/2024-03-06.md:1" in [hit.citation for hit in own.search("what happened in 1999", min_score=0).hits]
    assert (
        own.search("what happened on 5 March, 2024 after:2024-03-06", min_score=0).hits[0].path == "daily/2024-03-06.md"
    )


def test_a_weekday_that_is_a_day_is_not_looked_up() -> None:
    """Every Monday has its name in the index, and only one is meant."""
    now = datetime(2026, 11, 22, 12, 0)
    assert parse_query("dentist on Monday", now=now, limit=5).words == ("dentist",)
    assert parse_query("Monday", now=now, limit=5).words == ("monday",)
    assert parse_query("on Monday", now=now, limit=5).words == ("monday",)


def test_a_date_alone_makes_no_answer_likelier(memory: Memory, write: Write) -> None:
    """The score is the same as that of a question whose time is another one."""
    write("daily/2024-03-05.md", "# 2024-03-05\n\n- 10:00 Saw a heron at the lake.\n")
    memory.sync()
    query = memory.parse(SearchRequest("heron at the lake", limit=3))
    moments = [(), (TimeHint("then", "2024-03-05", "2024-03-05"),), (TimeHint("then", "2023-01-01", "2023-12-31"),)]
    scores = {memory.fresh_search.answer(replace(query, times=times)).hits[0].score for times in moments}
    assert len(scores) == 1
