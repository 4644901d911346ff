"""What is under the cursor, and what is being typed, in text as people write it."""

from __future__ import annotations

import pytest

from memsync.lsp.cursor import anchor_line, headings, typed, under

HEAD = ["---", "title: Store", "tags: [work]", "---", ""]


@pytest.mark.parametrize(
    ("marked", "expected"),
    [
        ("see [[st|ore#Why]] now", ("link", 4, 17, "store", "Why")),
        ("see [[store\\|the |shop]] now", ("link", 4, 23, "store", "")),
        ("see [the s|tore](../a%20b.md#why) now", ("link", 4, 32, "../a b.md", "why")),
        ("see ![p](<a b.|png>) now", ("link", 5, 19, "a b.png", "")),
        ("`[[st|ore]]`", None),
        ("as a/store.md:|12-14 says", ("citation", 3, 19, "a/store.md", (12, 14))),
        ("grün 😀 #wo|rk/trip now", ("tag", 7, 17, "work/trip", None)),
        ("page#pa|rt", None),
        ("plain te|xt", None),
        ("## The s|tore {#id}", ("heading", 3, 12, "The store", None)),
        ("- item with [[a]] and [[b|]]", ("link", 22, 27, "b", "")),
    ],
)
def test_what_is_under_the_cursor(marked: str, expected: tuple[object, ...] | None) -> None:
    """`|` marks the cursor, except in the label of a link, which has a backslash before its own."""
    column = next(at for at, one in enumerate(marked) if one == "|" and marked[at - 1] != "\\")
    found = under([*HEAD, marked[:column] + marked[column + 1 :]], len(HEAD), column)
    if found is None or expected is None:
        assert found is expected
        return
    name = found.link.target if found.link else found.name
    rest = (found.first, found.last) if found.first else found.link.anchor if found.link else None
    assert (found.what, found.start, found.end, name, rest) == expected


def test_nothing_is_under_the_cursor_in_code_and_below_the_end() -> None:
    """A fence ends where it ends; a `#` in it is no heading."""
    lines = ["# Top", "```", "# [[store]] #work", "```", "[[store]]"]
    assert under(lines, 2, 4) is None and under(lines, 99, 0) is None
    assert under(lines, 4, 4) is not None
    assert [path for _, path in headings(lines)] == [["Top"]]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("see [[", ("note", "", 6, "")),
        ("see [[the st", ("note", "the st", 6, "")),
        ("see [[store#Wh", ("heading", "Wh", 12, "store")),
        ("see [[#", ("heading", "", 7, "")),
        ("see [[store#^w", ("block", "w", 13, "store")),
        ("see [[store]] and", None),
        ("see [[store|the", None),
        ("now #wo", ("tag", "wo", 5, "")),
        ("## Head", None),
        ("page#pa", None),
        ("find kind:da", ("value", "da", 10, "kind")),
        ("find mankind:da", None),
        ("plain", None),
    ],
)
def test_what_is_being_typed(before: str, expected: tuple[object, ...] | None) -> None:
    """The text before the cursor decides; what follows may be there already."""
    found = typed([*HEAD, f"{before} more"], len(HEAD), len(before))
    assert (tuple(found) if found else None) == expected
    assert typed([*HEAD, "```", f"{before} more"], len(HEAD) + 1, len(before)) is None


@pytest.mark.parametrize("end", [["---", "# Top"], ["", "# Top"], []], ids=["closed", "open", "alone"])
@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("ki", ("key", "ki", 0, "")),
        ("kind: da", ("value", "da", 6, "kind")),
        ("tags: [work, tr", ("value", "tr", 13, "tags")),
        ("supersedes: [[st", ("note", "st", 14, "")),
    ],
)
def test_what_is_being_typed_in_front_matter(before: str, expected: tuple[object, ...], end: list[str]) -> None:
    """Also while nobody has written its end yet."""
    found = typed(["---", before, *end], 1, len(before))
    assert found is not None and tuple(found) == expected


def test_an_anchor_names_a_heading_below_another_or_a_block() -> None:
    """Lines count from 0, and front matter counts, too."""
    lines = [*HEAD, "# A", "## Part", "# B", "## Part {#x}", "text ^why"]
    found = [anchor_line(lines, anchor) for anchor in ("A", "Part", "B#Part", "part", "^why", "none", "")]
    assert found == [5, 6, 8, 6, 9, 0, 0]
