"""What people write when a statement does not hold any more, and what memsync reads from it."""

from __future__ import annotations

import pytest

from memsync.notes.validity_marks import PAST, STATUS, Reference, attributes_in, marks_of, reference_of, statements


@pytest.mark.parametrize(
    "text",
    ["- ~~The office is in Hamburg.~~", "~~Hamburg~~", "3. ~~a~~.", "- [x] ~~a~~", "- 10:05 ~~a\n  b~~", "* ~~a ~ b~~",
     "- **~~a~~** #tag", "# Head\n\n- ~~a~~"],
)  # fmt: skip
def test_text_that_is_struck_through_as_a_whole_is_past(text: str) -> None:
    assert attributes_in(text, "") == {PAST: "struck through"}


@pytest.mark.parametrize(
    "text", ["- ~~Hamburg~~ Berlin", "- a ~~b~~", "~~~\ncode\n~~~", "- ~~a~~ and ~~b~~", "- ~~~~", "a ~~ b ~~ c"]
)
def test_text_that_is_struck_in_part_is_not(text: str) -> None:
    """What is left of it holds."""
    assert attributes_in(text, "") == {}


@pytest.mark.parametrize(
    ("text", "is_past"),
    [
        ("- Standup is at nine (no longer)", True), ("- Standup is at nine (no longer true).", True),
        ("- Obsolete: the old server", True), ("Use tabs (outdated)", True), ("- 10:05 Outdated: x", True),
        ("1. obsolete: x", True), ("- No longer true: x", True), ("- x (no longer) #tag #a/b", True),
        ("- We no longer use Redis", False), ("- It is no longer: it grew", False), ("- (obsolete) words first", False),
        ("- The obsolete server runs", False),
    ],
)  # fmt: skip
def test_no_longer_is_past_only_as_a_remark(text: str, is_past: bool) -> None:
    """`We no longer use Redis` says what holds now."""
    assert attributes_in(text, "") == ({PAST: "no longer true"} if is_past else {})


@pytest.mark.parametrize(
    ("text", "heading", "by"),
    [
        ("Status: superseded by [[use-sqlite]]", "", "[[use-sqlite]]"),
        ("- **Status:** Superseded by [ADR 5](0005-x.md)", "", "[ADR 5](0005-x.md)"),
        ("Superseded by 0005-x.md.", "Status", "0005-x.md"), ("Deprecated", "status", ""),
        ("Date: 2026\nStatus: Replaced by x", "", "x"),
    ],
)  # fmt: skip
def test_status_line_of_a_decision_record_is_of_its_note(text: str, heading: str, by: str) -> None:
    """Only where the note may have one: anywhere else it may be the status of something else."""
    assert attributes_in(text, heading, may_have_status=True) == {STATUS: by}
    assert attributes_in(text, heading) == {}


@pytest.mark.parametrize(
    ("text", "heading"),
    [
        ("Status: accepted", ""), ("Superseded by x", "Text"), ("Accepted", "Status"),
        ("Status: obsolete laptops were recycled", ""), ("Status: replaced the pump on Monday", ""),
        ("Status: Deprecated since 2.0 is the header", ""), ("- status: Retired", ""),
        ("```\nStatus: deprecated\n```", ""),
    ],
)  # fmt: skip
def test_other_lines_are_no_status(text: str, heading: str) -> None:
    assert attributes_in(text, heading, may_have_status=True) == {}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("MEMORY.md:12", Reference("MEMORY.md", 12, 12)),
        ("a b/c.md:12-14~0a1b2c3d", Reference("a b/c.md", 12, 14, "0a1b2c3d")),
        ("[[Old note#Part|that]]", Reference("Old note")), ("[x](../old%20one.md#part)", Reference("../old one.md")),
        ("[[Old note]]:5", Reference("Old note", 5, 5)), ("2026-10-03 10:05", Reference(time="2026-10-03T10:05")),
        ("10:05:30", Reference(time="10:05")), ("9:30", Reference(time="9:30")), ("x.md:0", Reference("x.md:0")),
        ("decisions/x", Reference("decisions/x")), ("", Reference("")),
    ],
)  # fmt: skip
def test_a_mark_names_lines_notes_and_times(text: str, named: Reference) -> None:
    assert reference_of(text) == named


def test_statements_are_items_and_paragraphs() -> None:
    """The digest is of the words: marks and lines may change."""
    lines = ["# Boat", "", "The mast is", "of pine.", "", "The keel is heavy. {a=b}", "- one {by=x}", "- two", "  more"]
    assert [(one.first, one.last, one.text) for one in statements(lines)] == [
        (3, 4, "The mast is of pine."), (6, 6, "The keel is heavy. {a=b}"), (7, 7, "- one {by=x}"),
        (8, 9, "- two more"),
    ]  # fmt: skip
    assert next(statements(["- one"])).digest == list(statements(lines))[2].digest


def test_marks_have_either_spelling_and_one_or_more_values() -> None:
    """A status that ends a note needs no successor."""
    head = {"supersedes": ["a", "b"], "Valid-Until": "2026-05-01", "other": 1, "valid_from": None}
    assert marks_of(head) == {"supersedes": ["a", "b"], "valid_until": ["2026-05-01"], "valid_from": []}
    assert marks_of({"valid_until": ["2026-05-01 10:00", "1 May 2030", "soon"], "valid-from": "2026-05"}) == {
        "valid_until": ["2026-05-01"],
        "valid_from": ["2026-05"],
    }
    assert marks_of({"status": "superseded by [x](a.md)"}) == {"superseded_by": ["[x](a.md)"]}
    assert marks_of({"status": "active"}) == {}
    assert marks_of({"status": "Superseded"}) == {"superseded_by": [""]}
    assert marks_of({"status": "superseded", "superseded-by": "x"}) == {"superseded_by": ["x"]}
