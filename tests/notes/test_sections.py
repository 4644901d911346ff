"""Headings -> sections, and list items and sections of a daily log -> moments."""

from __future__ import annotations

import pytest

from memsync.model.note import Block, Note
from tests.conftest import Parse


def outline(note: Note) -> list[tuple[tuple[str, ...], int, int]]:
    return [(section.heading_path, section.start_line, section.end_line) for section in note.sections]


def times(blocks: tuple[Block, ...]) -> list[str]:
    return [time for block in blocks for time in (block.time, *times(block.children)) if time]


def test_section_has_the_path_of_its_headings(parse: Parse) -> None:
    """From the outermost heading inwards; text above the first heading is a section without one."""
    text = "top\n\n# A\n\na\n\n## B\n\nb\n\n#### C\n\nc\n\n## D\n\n# E\n"
    assert outline(parse(text)) == [
        ((), 1, 1), (("A",), 3, 5), (("A", "B"), 7, 9), (("A", "B", "C"), 11, 13), (("A", "D"), 15, 15),
        (("E",), 17, 17),
    ]  # fmt: skip


def test_setext_heading_starts_a_section(parse: Parse) -> None:
    """Its lines of text and its underline are the heading."""
    assert outline(parse("Two\nlines\n===\n\ntext\n\nB\n---\n")) == [(("Two lines",), 1, 5), (("Two lines", "B"), 7, 8)]


@pytest.mark.parametrize(
    "text",
    [
        "```\n# Code\n```",
        "~~~ sh\n# Code\n\n# More\n~~~",
        "```\n# never closed",
        "    # indented code",
        "- # in a list",
        "> # in a quote",
        "1. item\n\n   ## in an item",
        "<!--\n# in a comment\n-->",
        "<pre>\n# in html\n</pre>",
        "#no-space",
        "####### seven",
        "\\# escaped",
        "[^1]: # in a footnote",
    ],
)
def test_heading_inside_another_block_does_not_start_a_section(text: str, parse: Parse) -> None:
    """A '#' in code, a list, a quote or HTML is content."""
    assert outline(parse(f"{text}\n")) == [((), 1, len(text.splitlines()))]


def test_heading_path_is_cut_and_the_line_is_not(parse: Parse) -> None:
    """A heading of 10 kB is shortened where it stands above others."""
    note = parse("# " + "word " * 2_000 + "\n\n## B\n\ntext\n")
    assert [len(name) for name in note.sections[1].heading_path] == [200, 1]
    assert note.sections[0].start_line == 1


@pytest.mark.parametrize("name", ["<b>bold</b>", "[" * 700, "`" * 300, "*a " * 300, "&amp; &#0;"])
def test_odd_heading_is_a_heading(name: str, parse: Parse) -> None:
    """Whatever it is made of, it opens one section."""
    assert [len(path) for path, _, _ in outline(parse(f"# {name}\n\ntext\n"))] == [1]


# ------------------------------------------------------------------------------------------ daily logs


def test_daily_entry_is_dated_to_the_minute_else_to_the_day(parse: Parse) -> None:
    """The date is the file name's, the time that which an item or heading begins with."""
    note = parse(
        "# 2026-11-21\n\n- 10:02 called\n- [ ] 9:05 wrote\n- **10:02:33** slept\n- no time\n\n"
        "## 14:30 Lunch\n\ntext\n\n## Evening\n",
        "daily/2026-11-21.md",
    )
    assert note.date == "2026-11-21"
    assert [section.time for section in note.sections] == ["2026-11-21", "2026-11-21T14:30", "2026-11-21"]
    assert times(note.blocks[0]) == ["2026-11-21T10:02", "2026-11-21T09:05", "2026-11-21T10:02:33"]


def test_nested_entries_of_a_daily_log_are_dated_too(parse: Parse) -> None:
    """An item that holds others gives each its own moment."""
    note = parse("- 10:00 meeting\n  - 10:05 began\n    - 10:06 went on\n", "daily/2026-11-21.md")
    assert times(note.blocks[0]) == ["2026-11-21T10:00", "2026-11-21T10:05", "2026-11-21T10:06"]


@pytest.mark.parametrize("item", ["25:00 no", "10:60 no", "10:02:03:04 no", "10.02 no", "1002 no", "at 10:02"])
def test_what_is_no_time_of_day_is_text(item: str, parse: Parse) -> None:
    """Such an entry is dated to the day."""
    note = parse(f"- {item}\n", "daily/2026-11-21.md")
    assert (times(note.blocks[0]), note.sections[0].time) == ([], "2026-11-21")


@pytest.mark.parametrize("path", ["note.md", "daily/notes.md", "daily/2026-02-30.md", "2026-11-21 plan.md"])
def test_time_without_a_date_means_nothing(path: str, parse: Parse) -> None:
    """Only a daily log with a real date in its name dates its entries, nested ones too."""
    note = parse("- 10:02 called\n  - 10:03 again\n\n## 10:04 Title\n", path)
    assert (times(note.blocks[0]), [section.time for section in note.sections]) == ([], ["", ""])


def test_daily_log_may_have_more_in_its_name(parse: Parse) -> None:
    """The name begins with the date."""
    assert parse("text\n", "daily/2026-11-21 Saturday.md").date == "2026-11-21"
