"""The commands: which of them help shows first, what former names answer, and that named ones exist."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click
import pytest
from click.testing import CliRunner

from memsync.cli.main import FIRST, RENAMED, cli
from memsync.cli.table import COMMANDS
from memsync.errors import UsageError
from tests.conftest import PROJECT

COMMAND = r"memsync (?:--root \S+ )?([a-z]+(?: [a-z]+)?)"


def test_first_screen_is_one_and_names_what_a_person_needs() -> None:
    """Each with a line of its own; the rest is in `help --all`, by task."""
    first, everything = CliRunner().invoke(cli, ["--help"]), CliRunner().invoke(cli, ["help", "--all"])
    lines = first.stdout.splitlines()
    assert len(lines) <= 30 and max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines if line.startswith("  ")][-len(FIRST) :] == [*FIRST]
    assert all(f"\n  {word} " in everything.stdout for words in COMMANDS.values() for word in words)


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_former_name_of_a_command_names_the_present_one(old: str, new: str) -> None:
    """Nothing runs under a former name."""
    with pytest.raises(UsageError) as refused:
        cli.main([old], standalone_mode=False)
    assert refused.value.hint == f"It is called: memsync {new}" and names_a_command(new.split())


def test_commands_named_in_docs_and_advice_exist() -> None:
    """Whoever copies one from a page, a hint or a help text can run it."""
    named = set[str]()
    for page in (PROJECT / "README.md", *(PROJECT / "docs").glob("*.md")):
        named |= set(re.findall(rf"(?:`|^\$ ){COMMAND}", page.read_text(), re.MULTILINE))
    for path in (PROJECT / "memsync").rglob("*.py"):
        named |= set(re.findall(rf"(?:[Rr]un:?|[Ss]ee:?|`) ?{COMMAND}", path.read_text()))
    unknown = {words for words in named if not names_a_command(words.split())}
    assert len(named) > 100 and unknown <= {"note latest", "there first"}  # the example of an operation; a sentence


def names_a_command(words: Sequence[str]) -> bool:
    """Tell whether the first words are a command, or a group and one of its commands."""
    command: click.Command = cli
    for word in words:
        if not isinstance(command, click.Group):
            break
        found = command.get_command(click.Context(cli), word)
        if found is None:
            return word == "help" or command.name in command.commands or command.invoke_without_command
        command = found
    return True
