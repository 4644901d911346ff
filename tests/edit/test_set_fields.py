"""A field of the front matter is set by its bytes: comments, order, quotes and line ends around it stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsync.edit.set_fields import head_of, set_field
from memsync.errors import WriteRefused
from memsync.notes.decode import split_lines
from memsync.notes.frontmatter import read_head

LINES = st.sampled_from(
    [
        "title: A", "status:   active  # why", "tags: [a, 'b: c']", "tags: [#a, #b]",
        "tags:", "  - a", "  - b # no", "note: |", "  two",
        "", "# words", "status: \"quoted: yes\"", "x: {a: 1, status: no}", "date: 2026-11-21", "- item", "\tbad",
    ]
)  # fmt: skip
VALUES = st.one_of(
    st.booleans(),
    st.integers(-9, 9),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12),
    st.lists(st.sampled_from(["a", "b: c"])),
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# x\n", "---\nstatus: done\n---\n\n# x\n"),
        ("", "---\nstatus: done\n---\n"),
        ("---\ntitle: A\n---\nb\n", "---\ntitle: A\nstatus: done\n---\nb\n"),
        ("---\nstatus:   active  # why\ntitle: x\n---\n", "---\nstatus:   done  # why\ntitle: x\n---\n"),
        ("---\r\nstatus: 'a: b'\r\n...\r\nb", "---\r\nstatus: done\r\n...\r\nb"),
        ("---\nstatus:\ntitle: z\n---\n", "---\nstatus: done\ntitle: z\n---\n"),
        ("---\nstatus: |\n  a\n  b\n\ntitle: y\n---\n", "---\nstatus: done\n\ntitle: y\n---\n"),
        ("---\n{status: a, b: c}\n---\n", "---\n{status: done, b: c}\n---\n"),
        ("\ufeff---\na: 1\n---\n", "\ufeff---\na: 1\nstatus: done\n---\n"),
        (
            "---\ntags: [#a, #b: 'c]\nglobs: *.{py\nstatus: x\n---\n",
            "---\ntags: [#a, #b: 'c]\nglobs: *.{py\nstatus: done\n---\n",
        ),
        ("---\n---\nx", "---\nstatus: done\n---\nx"),
    ],
)
def test_only_the_value_changes(before: str, after: str) -> None:
    """However the value, or the head itself, is written, or not there yet."""
    assert set_field(before, "status", "done") == after


@given(lines=st.lists(LINES, max_size=6), value=VALUES)
def test_what_is_set_is_read_and_everything_else_is_as_before(lines: list[str], value: bool | int | str) -> None:
    """Or it is refused, and nothing is written."""
    text = "\n".join(["---", *lines, "---", "body", ""])
    before = read_head(split_lines(text))
    try:
        changed = set_field(text, "status", value)
    except WriteRefused:
        return
    after = read_head(split_lines(changed))
    assert after.values == {**before.values, "status": value}
    assert changed.endswith("---\nbody\n")
    assert not before.warning


@pytest.mark.parametrize("text", ["---\na: [\n---\n", "---\ntitle: x\n", "---\nx: *a\n---\n", "+++\nx = 1\n+++\n"])
def test_head_that_is_not_understood_is_not_touched(text: str) -> None:
    """A person mends it first, or writes TOML."""
    with pytest.raises(WriteRefused, match="status cannot be set"):
        set_field(text, "status", "done")


def test_new_head_is_read_as_it_was_meant() -> None:
    """Text that YAML would take for something else is quoted."""
    fields = {"title": "yes", "tier": "task", "tags": ["a", "1"], "session": "2026-11-21", "empty": ""}
    head = read_head(split_lines(head_of(dict(fields))))
    assert head.values == {name: value for name, value in fields.items() if value}


@pytest.mark.parametrize(
    "value", ["2026-13-01", "9999-99-99", "0000-01-01", "2026-02-30", "1" * 5_000, "true", "1e5", "2026-01-01", "0x1F"]
)
def test_text_that_looks_like_another_value_of_yaml_stays_text(value: str) -> None:
    """Even if YAML fails to read it as that: a title may be a day that no calendar has."""
    assert dict(read_head(split_lines(head_of({"title": value}))).values) == {"title": value}
