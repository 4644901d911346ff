"""Commands that a daemon runs whole for the client: the same output, and no write happens twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memsync.cli.entry import answer_plainly
from memsync.cli.main import run, run_command
from memsync.cli.output import KEPT
from memsync.client.connection import MAYBE_WRITTEN, Client
from memsync.daemon import methods
from memsync.errors import AnswerLost, UsageError
from memsync.memory import Memory
from tests.conftest import Patch, Printed
from tests.support.daemon_fixtures import Served


@pytest.fixture
def client(served: Served, monkeypatch: Patch) -> Callable[..., int | None]:
    """Give the memsync process up to the point where click would be loaded."""
    monkeypatch.setattr("memsync.settings.load.load_settings", lambda **_: served.settings)
    return lambda *arguments: answer_plainly(arguments)


def test_a_written_entry_is_written_once_and_its_place_printed(
    served: Served, client: Callable[..., int | None], capsys: Printed
) -> None:
    """As `memsync log` prints it without a daemon."""
    assert client("log", "a heron", "at the pond") == 0
    path, _, line = capsys.readouterr().out.strip().rpartition(":")
    lines = (served.settings.root / path).read_text().splitlines()
    assert lines[int(line) - 1].endswith("a heron at the pond")
    assert sum("heron" in each for each in lines) == 1


@pytest.mark.parametrize(
    "arguments", [("log",), ("log", "-"), ("remember", "--edit", "x"), ("thread", "append", "t", "user")]
)
def test_a_text_from_standard_input_or_an_editor_is_left_to_the_client(
    client: Callable[..., int | None], arguments: tuple[str, ...]
) -> None:
    """The daemon has neither."""
    assert client(*arguments) is None


@pytest.mark.parametrize(
    "arguments",
    [
        ("log", "-h"),
        ("log", "--help"),
        ("log", "\udcff"),
        ("log", "use", "--root", "."),
        ("sync",),
        ("thread", "export"),
        ("history", "note.md"),
    ],
)
def test_help_bytes_and_long_work_are_left_to_click(
    client: Callable[..., int | None], arguments: tuple[str, ...]
) -> None:
    """Help needs no daemon, other bytes than UTF-8 cannot be sent, a global option in a text is one of its words."""
    assert client(*arguments) is None


@pytest.mark.parametrize("command", ["pref get x", "thread costs", "note list", "proposals list", "history blame x"])
def test_short_commands_of_groups_are_served(client: Callable[..., int | None], command: str) -> None:
    """Also those written by hand, and those whose group has long ones, too."""
    assert client(*command.split()) is not None


def test_a_write_whose_answer_is_lost_is_not_made_again(
    client: Callable[..., int | None], monkeypatch: Patch, capsys: Printed
) -> None:
    """The daemon may have written before it failed: the client says what happened, and writes nothing itself."""

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(methods.Host, "run_command", property(lambda _: fails))
    assert client("log", "a heron") == AnswerLost.exit_code
    assert capsys.readouterr().err.startswith("memsync: ")
    assert client("search", "heron") is None


def test_nothing_of_a_command_is_kept_after_it(memory: Memory) -> None:
    """The next command of the same thread prints where it should."""
    run_command(memory, ["status"])
    assert KEPT.get() is None


def test_a_write_whose_daemon_ends_meanwhile_says_that_it_may_have_been_made(
    served: Served, client: Callable[..., int | None], monkeypatch: Patch, capsys: Printed
) -> None:
    """On the command line and in Python, which asks the daemon for the same."""
    call = Client.call

    def lost(connection: Client, method: str, *rest: Any) -> dict[str, Any]:
        if method == "hello":
            return call(connection, method, *rest)
        raise AnswerLost("the daemon closed the connection")

    monkeypatch.setattr(Client, "call", lost)
    assert client("log", "a heron") == AnswerLost.exit_code
    assert "It may have been written: look before you try again." in capsys.readouterr().err
    with served.connect() as memory, pytest.raises(AnswerLost) as error:
        memory.log("a heron")
    assert error.value.hint == MAYBE_WRITTEN


@pytest.mark.slow
def test_a_text_that_is_too_long_for_a_request_is_written_beside_the_daemon(served: Served, monkeypatch: Patch) -> None:
    """The command writes it in its own process. A RemoteMemory raises an error that names the limit."""
    monkeypatch.setattr("memsync.settings.load.load_settings", lambda **_: served.settings)
    text = ("a long line " * 10 + "\n") * 150_000
    with served.connect() as remote, pytest.raises(UsageError, match="at most 16,000,000 bytes"):
        remote.new_note("long", text)
    assert run(["note", "new", "long", text]) == 0
    assert (served.settings.root / "long.md").read_text() == f"# Long\n\n{text}"
