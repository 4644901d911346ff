"""Regular expressions over what strangers wrote: each reads a long run of anything in one pass.

Lines are so long that two passes over each part of them would take minutes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from memsync.agents.events import without_injected
from memsync.features.preferences import _LINE
from memsync.model.vocabulary import Kind
from memsync.notes.message_format import read_message_heading
from memsync.settings.config_file import without_our_table
from tests.conftest import Parse

MANY = 300_000


def test_text_of_an_agents_program_that_does_not_end_is_kept() -> None:
    """And so are the user's words between two files."""
    begin, end = "--- Content from referenced files ---\n", "--- End of content ---\n"
    assert without_injected(begin * 20_000) == begin * 20_000
    assert without_injected(f"{begin}a\n{end}mine\n{begin}b\n{end}") == "[file]\nmine\n[file]"


@pytest.mark.parametrize("end", ["b", "{", "@", " 10:02 {"])
@pytest.mark.parametrize("begin", ["user", "user @", "user @ a", "agent:x @ 2026-11-21"])
def test_message_heading_with_a_run_of_spaces_is_no_message(begin: str, end: str) -> None:
    """Nor with any other long run between a role and what is no time."""
    assert read_message_heading(begin + " " * MANY + end) is None
    assert read_message_heading(begin + " a" * MANY + end) is None


def test_message_heading_with_spaces_around_its_time_is_a_message() -> None:
    """Any number of them, as before."""
    assert read_message_heading(f"user{' ' * MANY}@{' ' * MANY}2026-11-21 10:02{' ' * MANY}") == (
        "user",
        "2026-11-21T10:02",
        {},
    )


@pytest.mark.parametrize("line", ["- " + " " * MANY, "- a" + " " * MANY + "b", "- a:" + " x" * MANY + "\n"])
def test_line_of_preferences_that_is_none_is_passed_over(line: str) -> None:
    """A bullet without a colon, or with a line's end in it."""
    assert _LINE.fullmatch(line) is None or ":" in line


def test_preference_is_cut_at_its_spaces() -> None:
    """Key and value keep the spaces within them and lose those around."""
    found = _LINE.fullmatch(f"- reply  language :{' ' * MANY}plain  English{' ' * MANY}")
    assert found is not None
    assert found.groups()[1::2] == ("reply  language", "plain  English")


def test_config_of_blank_lines_or_spaces_is_looked_through_at_once(tmp_path: Path) -> None:
    """A file that was only found, above the notes, may hold anything."""
    path = tmp_path / "config.toml"
    path.write_text("\n" * 900_000)
    assert without_our_table(str(tmp_path)) == str(path)
    path.write_text("\n" * 900_000 + "[ memsync ]\n")
    assert without_our_table(str(tmp_path)) == ""


@pytest.mark.parametrize(
    "line",
    [
        "# " + "{" * MANY + "}",
        "- a {" + "k=v " * MANY + "}",
        "- " + "1" * MANY,
        "#" + "1" * MANY,
        "- 10" + ":02" * MANY,
    ],
)
def test_line_of_a_note_may_be_any_run_of_anything(line: str, parse: Parse) -> None:
    """Attributes, tags and times are looked for in a bounded part of it."""
    assert parse(f"{line}\n", "threads/a.md").kind is Kind.THREAD
