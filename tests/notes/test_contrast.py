"""Statements about the same thing that differ have one frame and two fillings."""

from __future__ import annotations

import pytest

from memsync.notes.contrast import said_in


def frames(text: str) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    return [(one.frame, one.filling) for one in said_in(text.split("\n"))]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("- pricing: 10 €", "- pricing: 12 €"), ("- Team lead: Kim", "- team lead: Noor Smith"),
        ("- **pricing**: 10 €.", "- [ ] pricing: 11 € {by=codex}"),
        ("The store keeps 30 backups of each index.", "- 10:05 The store keeps 90 backups of each index"),
        ("We meet every Monday at noon with Kim.", "We meet every Friday at noon with Kim."),
        ("The server needs a licence at night.", "The server does not need a licence at night."),
        ("Backups are ever kept on the disk.", "Backups are never kept on the disk."),
        ("It isn't run as root on the host.", "It is run as root on the host."),
        ("Use it.\nThe store keeps 30 backups\nof each index.", "The store keeps [90](x.md) *backups* of each index."),
        ("## Facts\n- state: running", "## Facts\n- state: stopped"),
    ],
)  # fmt: skip
def test_another_value_number_name_or_negation_differs(left: str, right: str) -> None:
    shared = dict(frames(left)).keys() & dict(frames(right)).keys()
    (frame,) = shared
    assert dict(frames(left))[frame] != dict(frames(right))[frame]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("- pricing: 10 €", "- pricing: 10 €."), ("- lead: Kim", "- lead: kim"), ("- see: `a`", "- see: `b`"),
        ("- source: [x](a.md)", "- source: [x](b.md)"), ("- PR: rust#12", "- PR: rust#13"),
        ("- state: running", "- state: stopped"), ("See the 2021 edition.", "See the 2024 edition."),
        ("Use `a` for the quick store.", "Use `b` for the quick store."), ("pricing: 10 €", "pricing: 12 €"),
        ("```\n- pricing: 10 €\n```", "```\n- pricing: 12 €\n```"), ("| price: 10 |", "| price: 12 |"),
        ("What this does in edition 2021 of it:", "What this does in edition 2024 of it:"),
        ("    - pricing: 10 €", "[1]: https://a.example/1 a b c d"), ("> - price: 10", "# price: 12"),
        ("The store keeps “30” backups of each index.", "The store keeps '30' backups of each index."),
        ("She sings in a choir on 2 days.", "He paints on 3 days."),
    ],
)  # fmt: skip
def test_other_differences_are_none(left: str, right: str) -> None:
    """Spelling, references, code, forms that end in a colon, and text that is no statement."""
    one, other = dict(frames(left)), dict(frames(right))
    assert all(one[frame] == other[frame] for frame in one.keys() & other.keys())


def test_statements_have_their_lines_and_headings() -> None:
    first = "# A\n\nThe first store keeps 3 backups. The second store keeps 4\nbackups here."
    text = f"{first}\n\n## B\n- price: 5\n  more\n- size: 6"
    assert [(one.line, one.heading, one.text) for one in said_in(text.split("\n"), 10)] == [
        (12, "", "The first store keeps 3 backups."), (12, "", "The second store keeps 4 backups here."),
        (16, "B", "price: 5 more"), (18, "B", "size: 6"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "", "- " * 9_000, "a: " * 9_000, "[[" * 9_000, "`" * 20_001, "1" * 90_000, "*a" * 90_000, "[a](" * 9_000,
        "x\n" * 9_000,
    ],
)  # fmt: skip
def test_any_text_takes_linear_time(text: str) -> None:
    assert isinstance(frames(text), list)
