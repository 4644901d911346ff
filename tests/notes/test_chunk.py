"""Note -> chunks: what is kept whole, how what is too large is cut, and what a passage says."""

from __future__ import annotations

import pytest

from memsync.model.note import Chunk
from memsync.model.vocabulary import Form, NotePath
from memsync.notes.chunk import ChunkLimits, chunk_note, passage_text
from memsync.notes.parse import parse_note
from tests.conftest import COUNTER, LIMITS, RULES
from tests.support.sampling import sampled

SMALL = ChunkLimits(max_tokens=32, small_tokens=16, run_tokens=40, window_entries=3, window_stride=2)


def cut(text: str, limits: ChunkLimits = SMALL, path: str = "note.md") -> list[Chunk]:
    return chunk_note(parse_note(NotePath(path), text.encode(), RULES), COUNTER.count, limits)


def spans(chunks: list[Chunk]) -> list[tuple[int, int]]:
    return [(chunk.start_line, chunk.end_line) for chunk in chunks]


def assert_fits(chunks: list[Chunk], limits: ChunkLimits = SMALL) -> None:
    assert max(COUNTER.count([chunk.text for chunk in chunks])) <= limits.max_tokens


WORDS = "one two three four five six seven eight nine ten"
"""Ten word pieces."""


# ----------------------------------------------------------------------------------------- kept whole


@pytest.mark.smoke
def test_short_section_is_one_chunk_with_its_heading() -> None:
    """Heading, paragraphs, lists and fences of a section go together where they fit."""
    (chunk,) = cut("## Setup\n\nRun it.\n\n- one\n- two\n\n```\ncode\n```\n")
    assert (chunk.start_line, chunk.end_line, chunk.heading_path) == (1, 10, ("Setup",))


@pytest.mark.parametrize(
    "block",
    [
        "```\none two three four five six\n\nseven eight nine ten one\n```",
        "- one two three four five six\n\n  seven eight nine ten one\n  - two three",
        "> one two three four five six\n>\n> seven eight nine ten one",
        "<div>\none two three four five six\nseven eight nine ten one\n</div>",
        "one two three four five six\nseven eight nine ten one\ntwo",
    ],
)
def test_block_that_fits_is_never_split(block: str) -> None:
    """Whatever stands around it, one chunk holds all of it."""
    text = f"{WORDS} one\n\n{block}\n\n{WORDS} {WORDS}\n"
    last = 2 + len(block.splitlines())
    assert any(chunk.start_line <= 3 and chunk.end_line >= last for chunk in cut(text))


def test_heading_without_a_letter_above_encoded_data_is_a_heading() -> None:
    """The paragraph after it is then text, with a vector, and not taken for the heading."""
    blob = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5ejAx"
    (chunk,) = cut(f"## 🦜\n\nThe heron nests.\n\n{blob}\n")
    assert (chunk.form, chunk.start_line, chunk.end_line) == (Form.TEXT, 1, 3)


def test_table_row_is_never_split() -> None:
    """A table too large for one chunk is cut between rows; its head line and delimiter stay together."""
    rows = [f"| {WORDS} | {number} |" for number in range(6)]
    chunks = cut("\n".join(["| a | b |", "|---|---|", *rows]))
    assert_fits(chunks)
    assert spans(chunks)[0][0] == 1
    assert spans(chunks)[0][1] >= 2
    assert all(not chunk.end_column for chunk in chunks)
    assert sorted(line for first, last in spans(chunks) for line in range(first, last + 1)) == list(range(1, 9))


def test_chunks_of_a_section_are_about_even() -> None:
    """No chunk is filled to the brim with a rest left over behind it."""
    chunks = cut("\n\n".join(["one two three four five six seven eight nine"] * 4))
    assert spans(chunks) == [(1, 3), (5, 7)]


# -------------------------------------------------------------------------------------- what does not fit


def test_oversize_item_is_cut_into_its_children() -> None:
    """A list item's own text and its inner items are what it is cut between."""
    chunks = cut(f"- {WORDS}\n  - {WORDS} one\n    {WORDS} one\n  - {WORDS}\n  - {WORDS}\n")
    assert_fits(chunks)
    assert 3 not in {first for first, _ in spans(chunks)}
    assert 2 not in {last for _, last in spans(chunks)}


def test_oversize_fence_is_cut_between_lines() -> None:
    """A block without children is cut into runs of lines."""
    chunks = cut("```\n" + "one two three four five\n" * 12 + "```\n")
    assert_fits(chunks)
    assert all(not chunk.end_column for chunk in chunks)
    assert spans(chunks)[0][0] == 1
    assert [first for first, _ in spans(chunks)[1:]] == [last + 1 for _, last in spans(chunks)[:-1]]
    assert spans(chunks)[-1][1] == 14


def test_oversize_line_is_cut_into_pieces_with_columns() -> None:
    """Pieces follow each other without gap or overlap, behind a space where one is near."""
    line = " ".join([WORDS] * 12 + ["." * 90] + [WORDS] * 3)
    pieces = [chunk for chunk in cut(f"before\n\n{line}\n\nafter\n") if chunk.end_column]
    assert_fits(pieces)
    assert {span for chunk in pieces for span in spans([chunk])} == {(3, 3)}
    assert "".join(chunk.words for chunk in pieces) == line
    assert [chunk.start_column for chunk in pieces] == [0, *(chunk.end_column for chunk in pieces[:-1])]
    assert all(chunk.words == line[chunk.start_column : chunk.end_column] for chunk in pieces)
    assert all(chunk.words.endswith((" ", "ten", ".")) for chunk in pieces)


@pytest.mark.parametrize("letter", sampled(["a", "word ", "漢", "😀", "[", "e\u0301", "http://x.org/"], 1))
def test_line_of_a_megabyte_is_covered_by_pieces_that_fit(letter: str) -> None:
    """No tokenizer that calls a long word one token can hide text from the model."""
    line = (letter * (1_000_000 // len(letter.encode()))).rstrip()
    chunks = cut(line + "\n", LIMITS)
    assert_fits(chunks, LIMITS)
    assert "".join(chunk.words for chunk in chunks) == line
    assert max(len(chunk.words) for chunk in chunks) <= 8 * LIMITS.max_tokens


def test_heading_of_ten_kilobytes_is_cut_like_a_line() -> None:
    """Its section has the cut heading in its path and the text behind it."""
    heading = "# " + f"{WORDS} " * 200 + "end"
    chunks = cut(f"{heading}\n\ntext\n", LIMITS)
    assert_fits(chunks, LIMITS)
    assert "".join(chunk.words for chunk in chunks if chunk.start_line == 1) == heading
    assert spans(chunks)[-1] == (3, 3)
    assert {len(chunk.heading_path[0]) for chunk in chunks} == {200}


def test_line_of_mostly_spaces_is_found_by_its_words() -> None:
    """A line of a few words and thousands of spaces is found by its words."""
    chunks = cut("begin" + " " * 5_000 + "end\n", LIMITS)
    assert "begin" in chunks[0].text
    assert "end" in chunks[-1].text


# ----------------------------------------------------------------------------------------- boundaries


def test_what_a_tool_was_asked_has_no_vector() -> None:
    """Its words are found, and so is its line; what the user and the agent say is found by meaning, too."""
    text = "## assistant\n\nI look.\n\n## tool\n\n> Read birds.md (9 characters)\n\n## user\n\nThanks.\n"
    chunks = cut(text, path="threads/talk.md")
    assert [(c.role, c.form.is_words_only, c.start_line, c.end_line) for c in chunks if c.role] == [
        ("assistant", False, 1, 3),
        ("tool", True, 5, 7),
        ("user", False, 9, 11),
    ]


def test_chunk_never_crosses_a_section() -> None:
    """However small two sections are, they stay apart."""
    chunks = cut("top\n\n# A\n\na\n\n## B\n\nb\n\n# C\n")
    assert [(chunk.heading_path, chunk.section) for chunk in chunks] == [
        ((), 0),
        (("A",), 1),
        (("A", "B"), 2),
        (("C",), 3),
    ]
    assert spans(chunks) == [(1, 1), (3, 5), (7, 9), (11, 11)]


def test_chunk_never_crosses_a_message() -> None:
    """Two short messages are two chunks, each with its role."""
    chunks = cut("## user\n\nhello\n\n## assistant\n\nhi\n", path="threads/one.md")
    assert [(chunk.role, chunk.start_line, chunk.end_line) for chunk in chunks] == [("user", 1, 3), ("assistant", 5, 7)]


def test_heading_goes_with_what_follows_it() -> None:
    """A heading alone is no answer, so it is not left behind at the end of a chunk."""
    text = "# Heading of some words\n\n" + f"{WORDS}\n\n" * 5
    assert all(chunk.end_line > 1 for chunk in cut(text))


# --------------------------------------------------------------------------------------- what it says


def test_attributes_are_not_part_of_the_text() -> None:
    """They are cut from passage and words, and kept with the entry."""
    (chunk,) = cut("## Setup {tier=task}\n\n- Prefers tabs {.pattern count=3}\n- {a=b} stays\n")
    assert chunk.words == "## Setup\n\n- Prefers tabs\n- {a=b} stays"
    assert chunk.text == "## Setup\n- Prefers tabs\n- {a=b} stays"
    assert chunk.entries[0].attributes == {"tier": "task", "class": "pattern", "count": "3"}


@pytest.mark.parametrize(
    ("source", "passage"),
    [
        ("see [the docs](https://x.org/a?b) now", "see the docs now"),
        ("see [the docs][ref] now\n\n[ref]: https://x.org 'title'\n", "see the docs now"),
        ("![picture](a.png) text", "picture text"),
        ("go to https://x.org/a, then", "go to  then"),
        ("<https://x.org> text", " text".strip()),
        ("a\n\n\n \nb\n", "a\nb"),
        ("[[wiki]] and [plain] (text)", "[[wiki]] and [plain] (text)"),
        ("https://x.org", "https://x.org"),
        ("[a]: https://x.org", "[a]: https://x.org"),
    ],
)
def test_passage_is_what_a_reader_sees(source: str, passage: str) -> None:
    """Link targets and URLs are left out, unless nothing else is left."""
    assert passage_text(source) == passage


@pytest.mark.parametrize(
    "unwritten",
    [
        "seen %%hidden 5% hidden%% seen",
        "`seen` %%hidden%% seen",
        "> %%\n> hidden\n> %%",
        "%%\nhidden\n```\nhidden\n```\n%%",
        "<<<<<<< hidden\nseen\n>>>>>>> hidden",
        "{.hidden reps=3}",
        "- seen {.hidden}",
        "seen ^hidden",
    ],
)
def test_what_nobody_wrote_as_text_is_no_word(unwritten: str) -> None:
    """Comments, marks of git and attributes."""
    words = " ".join(chunk.words for chunk in cut(f"Seen.\n\n{unwritten}\n\nSeen.\n"))
    assert "hidden" not in words
    assert words.count("Seen") == 2


@pytest.mark.parametrize(
    "written", ["%% one\n\ntwo", "`%%` and `%%`", "```matlab\n%% one\n```", "{{template}}", "100%% so, 50%% less"]
)
def test_what_only_looks_like_a_comment_stays(written: str) -> None:
    """A comment ends, and is not code."""
    assert written in "\n\n".join(chunk.words for chunk in cut(f"Seen.\n\n{written}\n"))


def test_words_keep_urls() -> None:
    """A URL can be searched for by word."""
    (chunk,) = cut("see [the docs](https://x.org/a)\n")
    assert (chunk.text, chunk.words) == ("see the docs", "see [the docs](https://x.org/a)")


def test_equal_text_has_an_equal_hash() -> None:
    """A passage is addressed by its text: place and attributes do not count."""
    first, second = cut("# A\n\nsame {x=1}\n"), cut("intro\n\n# A\n\n\nsame {x=1}\n")
    assert first[0].content_hash == second[1].content_hash


@pytest.mark.parametrize("text", ["", "\n", "   \n\t\n", "\ufeff", "\r\n\r\n"])
def test_empty_note_has_no_chunk(text: str) -> None:
    """There is nothing to find in it."""
    assert cut(text) == []


def test_note_of_front_matter_only_is_found_by_it() -> None:
    """Without a body the head is what there is to read."""
    (chunk,) = cut("---\ntitle: Heron\n---\n")
    assert (chunk.start_line, chunk.end_line) == (1, 3)
    assert "Heron" in chunk.text


@pytest.mark.parametrize("text", ["汉" * 300, f"{WORDS} " * 40, "two " * 254], ids=["no spaces", "line", "paragraph"])
def test_a_heading_over_text_that_it_does_not_fit_with_is_found_by_its_words_alone(text: str) -> None:
    """A vector of `## 1` alone would be nearer to most questions than the text under it, for a multilingual model."""
    heading, *rest = cut(f"## 1\n\n{text}\n", LIMITS)
    assert (heading.form, heading.words) == (Form.HEADING, "## 1")
    assert rest and {chunk.form for chunk in rest} == {Form.TEXT}


@pytest.mark.parametrize(("heading", "body", "together"), [(13, 240, True), (14, 240, False), (60, 240, False)])
def test_a_heading_joins_its_paragraph_only_where_both_fit(heading: int, body: int, together: bool) -> None:
    """A heading of 60 word pieces over a paragraph of 240 is a chunk of its own; none is cut, and none too large."""
    text = "# " + "one " * heading + "\n\n" + "two " * body + "\n"
    chunks = cut(text, LIMITS)
    assert_fits(chunks, LIMITS)
    assert spans(chunks) == ([(1, 3)] if together else [(1, 1), (3, 3)])
    assert not any(chunk.end_column for chunk in chunks)
