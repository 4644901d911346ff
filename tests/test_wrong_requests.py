"""A wrong request is refused in one sentence, with one piece of advice, whichever way it comes; and nothing is done.

The ways are Python, Python through a daemon, the daemon's socket, HTTP, a command, a command that a daemon runs, and a
tool.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import anyio
import pytest
from starlette.testclient import TestClient

from memsync.cli.main import run, run_command
from memsync.cli.table import SERVED
from memsync.cli.typed_line import served_path
from memsync.client.wire import INVALID_PARAMS
from memsync.errors import MemsyncError
from memsync.index.sqlite.index import SqliteIndex
from memsync.mcp_server.memories import ServedMemories
from memsync.memory import Memory, MemoryApi
from memsync.operation import OPERATIONS, Operation
from memsync.settings.load import load_settings
from memsync.web.access import TOKEN
from memsync.web.api import offered
from memsync.web.app import make_app
from memsync.web.serving import token_of
from memsync.web.site import Site
from tests.conftest import COUNTER, DEADLINE, FakeEmbedder, Patch, Printed
from tests.support.daemon_fixtures import Served
from tests.support.mcp_client import client_of, text_of
from tests.web.conftest import PORT, URL

Params = dict[str, Any]
LIMIT = "limit must be a whole number from 1 to 1,000"
PATH = "is not a path under the memory root"
WRONG: list[tuple[str, Params, str]] = [
    ("search", {"query": "heron", "limit": "three"}, LIMIT),
    ("search", {"query": "heron", "limit": 0}, LIMIT),
    ("search", {"query": "heron", "tokens": 10**400}, "tokens must be a whole number from 1 to 1,000,000"),
    ("search", {"query": "heron", "min_score": "nan"}, "min_score must be a number from 0 to 1"),
    ("search", {"query": "heron", "generation": 2**63}, "generation must be a whole number from 0"),
    ("search", {"query": "heron", "mode": "psychic"}, "mode must be hybrid, keyword or vector"),
    ("search", {"query": "heron", "fresh": "stale"}, "fresh must be strict, bounded or none"),
    ("search", {"query": "kind:novel"}, "kind:novel is not known"),
    ("search", {"query": "heron", "after": ["someday"]}, "'someday' is not a date"),
    ("search", {"query": "tags:work"}, 'Unknown filter "tags:".'),
    ("search", {"query": ""}, "the query is empty"),
    ("get", {"location": "birds.md:99"}, "birds.md has 3 lines, not 99"),
    ("get", {"location": "birds.md#heroin"}, "birds.md has no heading 'heroin'"),
    ("get", {"location": "../secret.md"}, "'../secret.md' is not a path in the memory root"),
    ("log", {"text": " "}, "there is no text to write"),
    ("log", {"text": "x", "day": "tomorrow"}, "'tomorrow' is not a day"),
    ("log", {"text": "x", "time": "25:00"}, "'25:00' is not a time of day"),
    ("remember", {"text": "x", "note": "../outside"}, f'"../outside" {PATH}'),
    ("set_preference", {"key": "a:b", "value": "c"}, "'a:b' and 'c' are not a preference"),
    ("append_message", {"thread": "nope", "role": "user", "text": "x"}, "there is no thread 'nope'"),
    ("append_message", {"thread": "t", "role": "user", "text": "x", "time": "noon"}, '"noon" is not a time'),
    ("set_thread_status", {"thread": "x", "status": "gone"}, "status must be active, paused, completed or archived"),
    ("context", {"day": "0001-01-01"}, "'0001-01-01' has no day before it"),
    ("costs", {"by": "moon"}, "by must be session, model, agent or day"),
    ("duplicates", {"similarity": 0.1}, "similarity must be a number from 0.7 to 1"),
    ("sync", {"wait_seconds": "long"}, "wait_seconds must be a number from 0"),
]
"""An operation, wrong parameters as texts or numbers, and what is said."""
OF_ANOTHER_TYPE: list[tuple[str, Params, str]] = [
    ("search", {"query": 1}, "query must be text"),
    ("search", {"query": "heron", "limit": "3"}, LIMIT),
    ("search", {"query": "heron", "mode": 1}, "mode must be hybrid, keyword or vector"),
    ("search", {"query": "heron", "kind": "daily"}, "kind must be a list of texts"),
    ("search", {"query": "heron", "rerank": "yes"}, "rerank must be true or false"),
    (
        "append_message",
        {"thread": "x", "role": "user", "text": "x", "attributes": [1]},
        "attributes must be an object of texts and numbers",
    ),
    ("accept", {"number": 1, "line": ["x"]}, "line must be a list of whole numbers"),
    ("append_message", {"thread": "x", "role": "user", "text": "x", "begin": 1}, "begin must be true or false"),
    (
        "append_message",
        {"thread": "t", "role": "user", "text": "x", "attributes": {"": "loose"}},
        "an attribute has no name",
    ),
    ("neighbours", {"path": "birds.md", "start_line": 0}, "start_line must be a whole number from 1"),
]
"""The same for what JSON and Python can say, and a command line cannot."""
COMMAND_LINES: list[tuple[list[str], int, str]] = [
    (["search"], 2, "the query is empty"),
    (["search", "--", "-x"], 2, "only says what to leave out"),
    (["search", "-x"], 2, "search has no option -x"),
    (["search", "--josn", "pricing"], 2, "search has no option --josn\n  Did you mean --json?"),
    (["search", "pricing", "-sqlite"], 2, "To use it as text: memsync search '\"-sqlite\"'"),
    (["search", "x", "--since", "3d"], 2, "Did you mean --after?"),
    (["search", "x", "--archived=yes"], 2, "'--archived' does not take a value"),
    (["log", "--qqqq"], 2, "  See: memsync log --help\n  To use it as text: memsync log -- --qqqq\n"),
    (["thread", "list", "--sesion", "s1"], 2, "thread list has no option --sesion\n  Did you mean --session?"),
    (["thread", "lst"], 2, "No such command 'thread lst'\n  Did you mean list?"),
    (["sync", "--wait"], 2, "--wait needs a value"),
    (["status", "--verbose"], 2, "status has no option --verbose"),
    (["get"], 2, "Missing argument 'LOCATION'"),
    (["serach", "x"], 2, "No such command 'serach'\n  Did you mean search?"),
    (["--rot", "x", "search"], 2, "Did you mean '--root'?"),
    (["init", "x"], 2, "init takes neither --root nor --config"),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve one note to all tests of this file, none of which changes it."""
    folder = tmp_path_factory.mktemp("notes")
    (folder / "birds.md").write_text("# Birds\n\nThe heron nests.\n")
    (folder / "threads").mkdir()
    (folder / "threads/t.md").write_text("## user\n\nWhich bird?\n")
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="ms", dir="/tmp") as short:
        patch.setenv("XDG_RUNTIME_DIR", short)
        for kind in ("STATE", "CACHE", "CONFIG"):
            patch.setenv(f"XDG_{kind}_HOME", str(tmp_path_factory.mktemp(kind)))
        settings, embedder = load_settings(root=folder, environ={}, cwd=folder), FakeEmbedder()
        index = SqliteIndex(settings.index_dir / "index.db")
        with Memory(settings, index, COUNTER, lambda: embedder, lambda _: embedder, deadline=DEADLINE) as memory:
            found = Served(memory, settings)
            found.start()
            yield found
            found.stop()


@pytest.fixture(scope="module")
def http(world: Served) -> Iterator[TestClient]:
    """Serve the same memory by HTTP, with a token."""
    site = Site(world.settings, lambda: nullcontext(world.memory), PORT)
    with TestClient(make_app(site), base_url=URL) as client:
        client.headers["Authorization"] = f"Bearer {token_of(world.settings.keep_dir, TOKEN)}"
        yield client


@pytest.fixture(autouse=True)
def _nothing_is_done(world: Served) -> Iterator[None]:
    """Compare the files of the memory root before and after each test."""
    before = {path: path.stat() for path in world.settings.root.rglob("*")}
    yield
    assert {path: path.stat() for path in world.settings.root.rglob("*")} == before


@pytest.fixture(autouse=True)
def _by_words(monkeypatch: Patch) -> None:
    """Let a command in this process ask neither a daemon nor a model."""
    monkeypatch.setenv("MEMSYNC_DAEMON_USE", "false")
    monkeypatch.setenv("MEMSYNC_SEARCH_MODE", "keyword")


def refused(memory: MemoryApi, operation: Operation[..., Any], params: Params) -> MemsyncError:
    """Return the error of a call in Python."""
    with pytest.raises(MemsyncError) as caught:
        memory.run(operation, **params)
    return caught.value


def told_by_tool(memory: MemoryApi, tool: str, params: Params) -> str:
    """Return the text of a call of a tool."""

    async def call() -> str:
        async with client_of(ServedMemories(memory)) as client:
            return text_of(await client.call_tool(tool, params))

    return anyio.run(call)


def words(operation: Operation[..., Any], params: Params) -> list[str]:
    """Return the command line with these parameters."""
    options, text = [], []
    for name, value in params.items():
        parameter = operation.parameters[name]
        flag = next((flag for flag in parameter.cli.flags if flag[:2] == "--"), f"--{name.replace('_', '-')}")
        values = value if isinstance(value, list) else [value]
        if parameter.is_positional:
            text.append(str(value))
        else:
            options += [flag] if value is True else [f"{flag}={one}" for one in values]
    return [*operation.commands[0].path.split(), *options, *text]


def in_words_of_a_command(said: str) -> str:
    """Return the part of the sentence that a command says of an option's value, which it names as it was typed."""
    _, must, wanted = said.partition(" must be ")
    choices = re.split(", | or ", wanted)
    return said if not must else wanted if len(choices) == 1 else ", ".join(map(repr, choices))


def assert_refused(world: Served, http: TestClient, name: str, params: Params, said: str) -> MemsyncError:
    """Ask in Python, through the daemon, on the socket, by HTTP and by the tool, if it has the parameters."""
    operation = OPERATIONS[name]
    error = refused(world.memory, operation, params)
    assert error.message.startswith(said)
    with world.connect() as remote:
        there = refused(remote, operation, params)
    assert (type(there), there.exit_code) == (type(error), error.exit_code)
    assert (there.message, there.hint) == (error.message, error.hint)
    with world.peer() as peer:
        told = peer.ask(name, **params)["error"]
        assert told["code"] in (INVALID_PARAMS, error.exit_code)
        assert (told["message"], told["data"]["hint"]) == (error.message, error.hint)
        assert "result" in peer.ask("hello")
    if name in offered():
        document = http.post(f"/v1/{name}", json=params).json()
        assert (document["detail"], document["hint"]) == (error.message, error.hint)
        assert (document["status"] < 500, document["exit_code"]) == (True, error.exit_code)
    if operation.tool is not None and params.keys() <= set(operation.tool.parameters):
        assert told_by_tool(world.memory, operation.tool.name, params) == error.sentences()
    return error


@pytest.mark.parametrize(("name", "params", "said"), WRONG, ids=lambda value: str(value)[:60])
def test_a_wrong_value_is_refused_alike_everywhere(
    world: Served, http: TestClient, capsys: Printed, name: str, params: Params, said: str
) -> None:
    """By the same class with the same exit code, sentence and hint; a command says it of its option."""
    error = assert_refused(world, http, name, params, said)
    operation = OPERATIONS[name]
    if not operation.commands[0].fixed.keys() & params.keys():
        assert_command(world, capsys, words(operation, params), error.exit_code, in_words_of_a_command(said))


@pytest.mark.parametrize(("name", "params", "said"), OF_ANOTHER_TYPE, ids=lambda value: str(value)[:60])
def test_a_value_of_another_type_is_refused_alike_everywhere(
    world: Served, http: TestClient, name: str, params: Params, said: str
) -> None:
    """And never converted."""
    assert_refused(world, http, name, params, said)


@pytest.mark.parametrize(("arguments", "code", "said"), COMMAND_LINES, ids=str)
def test_a_wrong_command_line_is_refused_with_the_nearest(
    world: Served, capsys: Printed, arguments: list[str], code: int, said: str
) -> None:
    """Here and in the daemon."""
    assert_command(world, capsys, arguments, code, said)


def assert_command(world: Served, capsys: Printed, arguments: list[str], code: int, said: str) -> None:
    """Run a command here and, if it is a short one without global options, in the daemon, which declines others."""
    assert run(["--root", str(world.settings.root), *arguments]) == code
    here = capsys.readouterr()
    assert here.out == "" and said in here.err and here.err.startswith("memsync: ")
    served = run_command(world.memory, arguments)
    is_served = served_path(arguments, SERVED) and "--root" not in arguments
    assert served == ({"out": here.out, "err": here.err, "code": code} if is_served else {})


@pytest.mark.parametrize(
    ("params", "here", "said"),
    [
        ({}, "missing a required argument: 'query'", "{} needs query"),
        ({"query": "x", "limits": 3}, "got an unexpected keyword argument 'limits'", "{} has no parameter limits"),
    ],
)
def test_a_parameter_that_lacks_or_that_there_is_not_is_named(
    world: Served, params: Params, here: str, said: str
) -> None:
    """With those that there are; in Python it is a TypeError, as for any function."""
    with world.connect() as remote, world.peer() as peer:
        for memory in (world.memory, remote):
            with pytest.raises(TypeError, match=here):
                memory.search(**params)
        error = peer.ask("search", **params)["error"]
    assert (error["code"], error["message"]) == (INVALID_PARAMS, said.format("search"))
    assert "limit, mode, tokens" in error["data"]["hint"]
    told = told_by_tool(world.memory, "memory_search", params)
    assert told == f"{said.format('memory_search')}. Its parameters are: query, limit, tokens, at."


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("hello", {"protocol": "1"}), ("hello", {"protocol": True}), ("hello", {"version": 1}),
        ("hello", {"secret": 1}), ("wait", {"seconds": -1}), ("wait", {"seconds": True}), ("wait", {"generation": 1.5}),
        ("wait", {"generation": 10**400}), ("wait", {"vectors": 1}), ("shutdown", {"now": True}),
        ("sync", {"progress": "yes"}), ("search", {"query": "heron", "agent": 1}), ("search", ["heron"]),
        ("search", "heron"),
    ],
    ids=str,
)  # fmt: skip
def test_what_only_the_socket_takes_is_refused_there(world: Served, method: str, params: object) -> None:
    """The message names the parameter, not Python's innards."""
    with world.peer() as peer:
        error = peer.ask_with(method, params)["error"]
        assert "result" in peer.ask("hello")
    assert error["code"] == INVALID_PARAMS
    assert not any(word in error["message"] for word in ("__init__", "Error", "NoneType", "argument"))
