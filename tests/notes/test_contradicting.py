"""Statements about the same thing that differ have one frame and two fillings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memsync.notes.contradicting import opposed, said_in


def frames(text: str) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    return [(one.frame, one.filling) for one in said_in(text.split("\n"))]


def contradict(notes: dict[str, str]) -> bool:
    said = [
        (one, path)
        for path, text in notes.items()
        for one in said_in(text.split("\n"), path=path, is_log=path.startswith("daily/"))
    ]
    return any(opposed(said))


def test_most_of_the_pairs_that_people_write_are_told_apart() -> None:
    """The pairs of `python -m benchmarks pairs`: places, ports, dates, owners …, half of which do not contradict."""
    data = Path(__file__).parents[2] / "benchmarks" / "data" / "contradictions.jsonl"
    pairs = [json.loads(line) for line in data.read_text(encoding="utf-8").splitlines()]
    listed = [pair["contradict"] for pair in pairs if contradict(pair["notes"])]
    assert len(pairs) == 120
    assert sum(listed) >= 0.85 * 60
    assert sum(listed) >= 0.9 * len(listed)


@pytest.mark.parametrize(
    "form",
    [
        "port:: {}", "- port:: {}", "- [port:: {}]", "![[scan.pdf|port {} is open in the office]]", "> - port: {}",
        "    The office has {} desks", "```\n- port: {}\n```", "$ serve\nThe office has {} desks",
        "| The office has {} desks | a |", "The office has {} desks | a", "[INFO] The office has {} desks",
        "2026-05-01 10:00:00 The office has {} desks", "On Monday, Kim wrote:\nThe office has {} desks.",
        "> Hello,\nthe office has {} desks.", "## 1.{}.0\n- The office has {} desks", "- port: {{{{port {} }}}}",
        "If the office has {} desks, we move.", "Does the office have {} desks?", "One of the offices has {} desks.",
        "See page {}.", "We met {} people.", "<!--\nThe office has {} desks\n-->", "%% The office has {} desks %%",
        "%%\nThe office has {} desks\n%%", "---------- Forwarded message ---------\nThe office has {} desks",
    ],
)  # fmt: skip
def test_what_states_nothing_contradicts_nothing(form: str) -> None:
    """Properties, embeds, quotes, code, terminal output, tables, mail, changelogs, templates, conditions, questions."""
    notes = {f"notes/{value}.md": form.format(*[value] * 2) for value in ("3", "5")}
    assert not contradict(notes)


@pytest.mark.parametrize(
    ("left", "right", "is_one"),
    [
        ("people/kim.md", "people/lee.md", False), ("projects/web/README.md", "projects/api/README.md", False),
        ("web/README.md", "api/README.md", False), ("daily/2026-10-01.md", "daily/2026-10-02.md", False),
        ("notes/staging.md", "notes/production.md", False), ("templates/a.md", "notes/b.md", False),
        ("CHANGELOG.md", "notes/b.md", False), ("notes/a.md", "notes/b.md", True), ("MEMORY.md", "daily/x.md", True),
    ],
)  # fmt: skip
def test_notes_of_two_things_do_not_contradict_each_other(left: str, right: str, is_one: bool) -> None:
    assert contradict({left: "- port: 3000", right: "- port: 8080"}) is is_one
    assert contradict({left: "- port: 3000", right: "- port: 3000"}) is False


@pytest.mark.parametrize(("last", "is_one"), [("5433", True), ("5434", False)])
def test_logs_that_agree_contradict_a_note(last: str, is_one: bool) -> None:
    """A number of a log belongs to its day, but the same number on several days is no series."""
    logs = {"daily/2026-10-01.md": "- database port: 5433", "daily/2026-10-02.md": f"- database port: {last}"}
    assert contradict({"MEMORY.md": "- database port: 5432", **logs}) is is_one


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
        ("The chair costs €1212,50.", "The chair costs 1,212.50 €."),
        ("The exam is on 06/12/2026.", "The exam is on 12 June 2026."),
        ("The dog lives in the house.", "The dog lives text."), ("We meet at 12 am.", "We meet at 0:00."),
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
        "", "- The shelf costs 5 EUR.\n" * 3_000, "a/" * 9_000, "[a:" * 9_000, "is aed " * 9_000, "A and " * 9_000,
        "- " * 9_000, "a: " * 9_000, "[[" * 9_000, "`" * 20_001, "1" * 90_000, "*a" * 90_000, "[a](" * 9_000,
        "x\n" * 9_000, f"## {'a ' * 250_000}\n" + "- port: 3\n" * 1_000,
    ],
)  # fmt: skip
def test_any_text_takes_linear_time(text: str) -> None:
    assert isinstance(frames(text), list)
