"""An operation is declared in one function, and then it is in Python, on the socket, a command and an MCP tool."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator
from typing import Annotated, Any, assert_type

import anyio
import pytest
from msgspec import Meta

from memsync.cli.table import COMMANDS
from memsync.mcp_server.memories import ServedMemories
from memsync.mcp_server.tools import described
from memsync.memory import Memory, MemoryApi, RemoteMemory
from memsync.model.answer import SearchResult
from memsync.model.written import Preference, Written
from memsync.operation import OPERATIONS, Cli, Command, Lazy, Operation, Tool, one_of, operation
from memsync.ports import Progress, no_progress
from memsync.workspace import Workspace
from tests.conftest import Done, Run
from tests.support.daemon_fixtures import Served
from tests.support.mcp_client import client_of, text_of
from tools import reference


@pytest.fixture
def shout() -> Iterator[Operation[..., tuple[Preference, ...]]]:
    """Declare a small operation, for one test."""

    @operation(
        Command("shout", examples=("memsync shout heron --times 2",)),
        tool=Tool("memory_shout", "Shout", "Shout a word. Use it never.", ("word", "times")),
    )
    def shout(
        memory: Workspace,
        word: Annotated[str, Meta(description="What to shout.")],
        *,
        times: Annotated[int, Meta(ge=1, le=3, description="How often."), Cli(("-t",))] = 1,
        how: Annotated[str, one_of(("loud", "soft"), "How loud.")] = "loud",
        progress: Progress = no_progress,
    ) -> tuple[Preference, ...]:
        """Shout a word, a number of times.

        Returns a preference for each time.
        """
        text = word.upper() if how == "loud" else word
        progress("shouting", times, times)
        return tuple(Preference(memory.settings.root.name, text, number) for number in range(1, times + 1))

    yield shout
    del OPERATIONS["shout"]


def test_it_is_called_from_python_here_and_through_the_daemon(shout: Any, own: MemoryApi) -> None:
    """The same values, of the same types; the daemon's progress arrives, too."""
    told: list[tuple[str, int, int]] = []
    found = shout(own, "heron", times=2, progress=lambda *step: told.append(step))
    assert found == (Preference("notes", "HERON", 1), Preference("notes", "HERON", 2))
    assert told == [("shouting", 2, 2)]


def test_the_socket_takes_and_gives_json(shout: Any, served: Served) -> None:
    """By the names of the parameters."""
    with served.peer() as peer:
        assert peer.ask("shout", word="heron")["result"]["answer"] == [
            {"key": "notes", "value": "HERON", "line": 1, "user": ""}
        ]


def test_it_is_a_command(shout: Any, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """With help, JSON, its result as text, and an error that names the bad value."""
    own_module = sys.modules[__name__]
    monkeypatch.setattr(own_module, "shout", shout)
    monkeypatch.setitem(sys.modules, "memsync.shouting", own_module)
    monkeypatch.setitem(COMMANDS, "Other", {"shout": ["shouting"]})
    shown = " ".join(run("shout", "--help").out.split())
    for text in (
        "Usage: memsync shout [OPTIONS] WORD Shout a word, a number of times. memsync shout heron --times 2",
        "-t, --times NUMBER How often. [from 1 to 3] [default: 1]",
        "--how [loud|soft] How loud. [default: loud]",
    ):
        assert text in shown
    assert "shout" in run("help", "--all").out
    assert run("shout", "heron", "-t", "2") == Done(0, "notes: HERON\nnotes: HERON\n", "")
    assert json.loads(run("shout", "heron", "--how", "soft", "--json").out)["shout"][0]["value"] == "heron"
    bad = run("shout", "heron", "--times", "4")
    assert (bad.code, bad.out) == (2, "")
    assert "'4' is not a whole number from 1 to 3" in bad.err


def test_it_is_a_tool_with_only_the_parameters_that_a_model_may_set(shout: Any, memory: Memory) -> None:
    """The schema has the bounds of the declaration."""

    async def talk() -> None:
        async with client_of(ServedMemories(memory), read_only=True) as client:
            result = await client.call_tool("memory_shout", {"word": "heron"})
            assert "HERON" in text_of(result)
            refused = await client.call_tool("memory_shout", {"word": "heron", "how": "soft"})
            assert refused.is_error and "memory_shout has no parameter how" in refused.content[0].text  # type: ignore[union-attr]  # because it is text

    anyio.run(talk)
    schema = described(shout)["inputSchema"]
    assert schema["properties"] == {
        "word": {"type": "string", "description": "What to shout."},
        "times": {"type": "integer", "minimum": 1, "maximum": 3, "description": "How often."},
    }
    assert schema["required"] == ["word"]


def test_it_is_in_the_generated_reference(shout: Any) -> None:
    """With its parameters, and with a schema of its result."""
    page = reference.page([shout])
    assert "### memsync shout\n\n`shout`, `memory_shout`: Shout a word, a number of times.\n" in page
    assert "- **`word`**: What to shout." in page
    assert "- `times` (integer 1–3, default 1): How often." in page
    schema = reference.schemas([shout])
    assert schema["properties"] == {"shout": {"type": "array", "items": {"$ref": "#/$defs/Preference"}}}
    assert schema["$defs"]["Preference"]["required"] == ["key", "value", "line"]


def check_types(here: Memory, there: RemoteMemory) -> None:
    """Mypy is the test, of the local and the served memory: an `ignore` that it does not need is an error, too."""
    here.search("x", limit=3)
    here.search("x", limt=3)  # type: ignore[call-arg]  # because there is no such parameter
    there.search("x", limit="3")  # type: ignore[arg-type]  # because it is a number
    assert_type(there.log("x"), Written)


def test_operations_have_the_signature_of_their_declaration(memory: Memory) -> None:
    """An editor or a notebook shows the parameters, with their types and defaults, and loads nothing beforehand."""
    of_class, of_method = inspect.signature(Memory.search), inspect.signature(memory.search)
    assert list(of_class.parameters) == ["memory", *of_method.parameters]
    assert list(of_method.parameters)[:2] == ["query", "limit"]
    assert of_method.parameters["limit"].annotation == int | None
    assert of_method.parameters["archived"].default is False
    assert of_method.return_annotation is SearchResult
    for name in (name for name, value in vars(MemoryApi).items() if isinstance(value, Lazy)):
        assert not str(inspect.signature(getattr(Memory, name))).startswith("(*"), name
