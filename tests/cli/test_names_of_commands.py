"""The commands: which of them help shows first, what former names answer, and that named ones exist."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from memsync.agents import NAMES
from memsync.cli.main import FIRST, RENAMED, cli, run
from memsync.cli.output import DOORS
from tests.conftest import PROJECT

NEEDED = "init sync search open get log remember note links mv check web status agents thread curate"
COMMAND = r"memsync (?:--\w+ \S+ )*([a-z]+(?: [a-z]+){0,2})"
TOLD = re.compile(rf"(?:`|^\$ |^### |\b[Rr]un:? |\b[Ss]ee:? |with: ){COMMAND}", re.MULTILINE)
FORMER = re.compile(rf"(?<!from )\bmemsync (?:--\w+ \S+ )*({'|'.join({*RENAMED} - {'runs'})})\b(?! cli)")


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield each command and each group, by its path."""

    def below(path: str, command: click.Command | None) -> Iterator[tuple[str, click.Command]]:
        assert command is not None
        yield path, getattr(command, "own", None) or command
        for name, member in getattr(command, "commands", {}).items():
            yield from below(f"{path} {name}", member)

    context = click.Context(cli)
    for word in cli.list_commands(context):
        yield from below(word, cli.get_command(context, word))


def names_a_command(words: Sequence[str]) -> bool:
    """Tell whether the first words are a command or a group."""
    command: click.Command = cli
    for word in words:
        if not isinstance(command, click.Group) or word == "help":
            return True
        found = command.get_command(click.Context(cli), word) or getattr(command, "own", None)
        if found is None:
            return False
        command = found
    return True


def test_first_screen_is_one_and_names_what_a_person_needs() -> None:
    """A line for each, on a terminal of 80 columns and 24 lines; it says where the rest is."""
    lines = CliRunner().invoke(cli, ["--help"]).stdout.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    listed = [line.split() for line in lines if re.match("  [a-z]", line)]
    assert [words[0] for words in listed] == NEEDED.split() == [*FIRST] and all(words[1:] for words in listed)
    assert "memsync help --all" in lines[-1] and set(DOORS) < set(lines)


@pytest.mark.parametrize("asked", [["help", "--all"], ["help", "all"]])
def test_help_all_has_a_line_for_each_command(asked: list[str]) -> None:
    """By task, each with what it does."""
    lines = CliRunner().invoke(cli, asked).stdout.splitlines()
    listed = lines[lines.index("Set up:") :]
    assert {path for path, _ in commands()} == {line[2:].split("  ")[0] for line in listed if line.startswith("  ")}
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_former_name_of_a_command_names_the_present_one(old: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing runs under a former name, and nothing disturbs a shell that completes the line."""
    for arguments in ([old], [old, "x", "--json"], ["help", old], ["--root", ".", old]):
        assert run(arguments) == 2
        assert capsys.readouterr().err.endswith(f"\n  It is called: memsync {new}\n") and names_a_command(new.split())
    assert ShellComplete(cli, {}, "memsync", "").get_completions([old], "x") == []


def test_commands_named_in_docs_and_advice_exist() -> None:
    """Each command in a page, a hint or a help text can be run."""
    told, former = set[str](), set[str]()
    folders = ("memsync", "docs", "tools", "benchmarks", "tests", "memory-files", ".ci")
    kinds = {".md", ".py", ".html", ".js", ".json", ".toml", ".sh", ""}
    paths = [path for folder in folders for path in (PROJECT / folder).rglob("*") if path.suffix in kinds]
    for path in [*PROJECT.glob("*.md"), PROJECT / "Makefile", *filter(lambda path: path.is_file(), paths)]:
        text = path.read_text(errors="replace")
        told |= set(TOLD.findall(text)) if "tests" not in path.parts else set()
        former |= {f"{path}: {found}" for found in FORMER.findall(text)}
    for _, command in commands():
        told |= set(re.findall(f"^{COMMAND}", "\n".join((command.help or "").split("\b")[1:]), re.MULTILINE))
    unknown = {words for words in told if not names_a_command(words.split())}
    assert len(told) > 100 and unknown <= {"note latest", "there first"}  # the example of an operation; a sentence
    assert not former
    assert not re.findall("^### (?!memsync |memory_).*", (PROJECT / "docs/operations.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("command", [["agents", "connect"], ["hook", "prompt", "--agent"]])
def test_names_of_agents_are_completed(command: list[str]) -> None:
    """All of them, and those that begin with what is typed."""
    complete = ShellComplete(cli, {}, "memsync", "").get_completions
    assert [each.value for each in complete(command, "")] == [*NAMES]
    assert [each.value for each in complete(command, "ge")] == ["gemini"]


def test_other_first_words_after_history_are_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`history` is a command and a group: only the names of its commands are no notes, wherever options are."""
    root = ["--root", str(tmp_path)]
    for arguments in (["history"], ["--", "blame"], ["--limit", "2", "blame"], ["./blame"], ["blame.md"]):
        run(["history", *root, *arguments])
        assert "is in no git repository" in capsys.readouterr().err
    run(["history", *root, "blame"])
    assert "memsync history blame --help" in capsys.readouterr().err
    completions = ShellComplete(cli, {}, "memsync", "").get_completions(["history"], "")
    assert [(each.type, each.value) for each in completions] == [
        ("file", ""), *(("plain", name) for name in ("blame", "diff", "digest"))
    ]  # fmt: skip
