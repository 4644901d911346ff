"""A registered database whose owner is hostile: what it has is shown as data, or refused, wherever it is shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from memsync.cli.main import run
from memsync.errors import UsageError
from memsync.index.postgres.index import Claim, PostgresIndex
from memsync.index.postgres.stored import ReadOnlyIndex
from memsync.mcp_server.memories import ServedMemories
from memsync.memories import stored
from memsync.memories.several import Memories
from memsync.memories.stored import StoredMemory
from memsync.memory import Memory
from memsync.settings.load import Settings
from memsync.settings.registering import add_root
from memsync.settings.roots import add_database
from tests.cli.test_hidden_characters import ALL, hidden_in
from tests.conftest import COUNTER, DEADLINE, FakeEmbedder, Write
from tests.support.mcp_client import client_of, text_of
from tests.support.postgres_server import execute, own_database

FORGED = f"x{ALL}\nFORGED: home:garden.md:1"
LONG = "x" * 3_000_000
COMMANDS = [
    ("search", "heron", "--explain"), ("search", "heron", "--json", "--explain"),
    ("search", "heron", "--context", "1", "--full"), ("get", "theirs:garden"), ("get", "theirs:garden", "--json"),
    ("get", "theirs:gardn.md"), ("context", "heron"), ("context", "heron", "--json"), ("roots", "list"),
]  # fmt: skip
COLUMNS = """
SELECT attname FROM pg_attribute WHERE attrelid = 'memsync.note'::regclass AND attnum > 0 AND NOT attisdropped
"""
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("memory_search", {"query": "heron"}),
    ("memory_get", {"location": "theirs:garden"}),
    ("memory_context", {"query": "heron"}),
]
NAMES = {
    "path": ("UPDATE note SET path = %s || id || '.md'", FORGED),
    "title": ("UPDATE note SET title = %s", FORGED),
    "date": ("UPDATE note SET date = %s", FORGED),
    "session": ("UPDATE note SET session = %s", FORGED),
    "headings": ("UPDATE chunk SET heading_path = %s", json.dumps([FORGED, "@@@@ home:garden.md:1"])),
    "role": ("UPDATE chunk SET role = %s", FORGED),
    "time": ("UPDATE chunk SET first_time = %s, last_time = first_time", FORGED),
    "tag": ("INSERT INTO tag SELECT root, id, %s FROM chunk", FORGED),
    "last sync": ("UPDATE meta SET value = %s WHERE key = 'last_sync'", FORGED),
    "space": ("UPDATE space SET name = %s", FORGED),
    "message": ("UPDATE message SET role = %s, time = role", FORGED),
}
IMPOSSIBLE = {
    "long title": ("UPDATE note SET title = %s", LONG),
    "long heading": ("UPDATE chunk SET heading_path = %s", json.dumps([LONG])),
    "many headings": ("UPDATE chunk SET heading_path = %s", json.dumps(["x"] * 100_000)),
    "long role": ("UPDATE chunk SET role = %s", LONG),
    "long path": ("UPDATE note SET path = %s WHERE path = 'garden.md'", LONG),
    "absolute path": ("UPDATE note SET path = %s WHERE path = 'garden.md'", "/etc/passwd"),
    "path that leads out": ("UPDATE note SET path = %s WHERE path = 'garden.md'", "a/../../.ssh/config"),
    "empty path": ("UPDATE note SET path = %s WHERE path = 'garden.md'", ""),
    "no number": ("UPDATE note SET importance = %s", float("nan")),
    "infinity": ("UPDATE note SET importance = %s", float("inf")),
}


@pytest.fixture
def database(settings: Settings, tmp_path: Path, write: Write) -> Iterator[str]:
    """Make a database with one memory and its text, whose rows a test may change."""
    write("garden.md", "# Garden\n\nThe heron nests.\n")
    write("threads/t.md", "## user @ 2026-11-21 10:02\n\nWhere is the heron?\n\n## assistant\n\nIn the alder.\n")
    (tmp_path / "index").mkdir()
    embedder = FakeEmbedder()
    with own_database("hostile") as dsn:
        index = PostgresIndex(dsn, "theirs", tmp_path / "index", Claim("theirs", "they"), stores_text=True)
        with Memory(settings, index, COUNTER, lambda: embedder, lambda space: embedder, deadline=DEADLINE) as memory:
            memory.sync()
        yield dsn


@pytest.fixture
def theirs(database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Register the memory of the database, and stand outside of every memory root; return the connection string."""
    monkeypatch.setenv("MEMSYNC_EMBEDDER_MODEL", "fake")
    monkeypatch.setenv("MEMSYNC_DAEMON_USE", "false")
    monkeypatch.setattr(stored, "connect_stored", lambda dsn, name, _: opened(dsn, name))
    monkeypatch.chdir(tmp_path)
    add_database("theirs", database, "theirs")
    return database


def plant(dsn: str, statement: str, *parameters: object) -> None:
    """Change rows behind memsync's back; a path keeps the key that memsync finds it by."""
    execute(dsn, statement, *parameters)
    execute(dsn, "UPDATE note SET path_key = sha256(convert_to(path, 'UTF8'))")


def opened(dsn: str, name: str = "theirs") -> StoredMemory:
    """Open the memory without its files."""
    embedder = FakeEmbedder()
    return StoredMemory(ReadOnlyIndex(dsn, name), COUNTER, lambda: embedder, lambda: embedder)  # type: ignore[arg-type,return-value]  # because no test here reranks


def tool_results() -> list[Any]:
    """Return the results of all calls of tools, of a server for the registered memories."""
    results = []
    served = ServedMemories(None)

    async def call_all() -> None:
        async with client_of(served) as client:
            results.extend([await client.call_tool(tool, arguments) for tool, arguments in CALLS])

    anyio.run(call_all)
    served.close()
    return results


@pytest.mark.parametrize("name", NAMES)
def test_names_are_shown_as_data(name: str, theirs: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No hidden character is shown as it is, and none of them begins a line of its own: in text, JSON and MCP."""
    plant(theirs, *NAMES[name])
    for arguments in COMMANDS:
        run([*arguments])
        shown = capsys.readouterr()
        assert not hidden_in(shown.out + shown.err), arguments
        assert not [line for line in (shown.out + shown.err).splitlines() if line.startswith(("FORGED", "home:"))]
        if "--json" in arguments and shown.out:
            json.loads(shown.out)
    for result in tool_results():
        assert not hidden_in(text_of(result))
        assert not [line for line in text_of(result).splitlines() if line.startswith(("FORGED", "home:"))]


@pytest.mark.parametrize("fault", IMPOSSIBLE)
def test_what_no_note_has_is_refused(fault: str, theirs: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that floods its readers, a path that leads out, a number that JSON lacks: the rows count as damaged."""
    plant(theirs, *IMPOSSIBLE[fault])
    for arguments in COMMANDS:
        code = run([*arguments])
        shown = capsys.readouterr()
        assert len(shown.out) + len(shown.err) < 10_000, arguments
        if arguments[0] == "search":
            assert code == 6 and "rows that memsync cannot read" in shown.err
    assert sum(len(text_of(result)) for result in tool_results()) < 10_000


def test_impossible_rows_of_one_memory_hide_no_other(theirs: str, tmp_path: Path) -> None:
    """It is named, and the order of the other hits is theirs."""
    plant(theirs, *IMPOSSIBLE["no number"])
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text("[memsync]\n")
    (tmp_path / "home" / "a.md").write_text("A heron.\n")
    add_root("home", str(tmp_path / "home"))
    with Memories.open() as memories:
        result = memories.search("heron", mode="keyword")
    assert [hit.citation for hit in result.hits] == ["home:a.md:1"]
    assert [(status.name, bool(status.error)) for status in result.roots] == [("theirs", True), ("home", False)]


def test_citation_begins_with_the_name_of_its_memory(theirs: str) -> None:
    """A path that looks like another memory's citation is a path of this one, also for `get`."""
    plant(theirs, "UPDATE note SET path = %s WHERE path = 'garden.md'", "home:garden.md")
    with Memories.open() as memories:
        hit = next(hit for hit in memories.search("heron").hits if hit.path.endswith("garden.md"))
        assert (hit.root, hit.citation) == ("theirs", "theirs:home:garden.md:1-3")
        assert memories.get(hit.citation).text == hit.text
        with pytest.raises(UsageError, match="no memory is registered as 'home'"):
            memories.get("home:garden.md:1-3")


def test_hits_of_a_database_have_no_links_to_files_of_this_machine(
    theirs: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A click would open whatever file here has the path that the database names."""
    monkeypatch.setattr("memsync.cli.command_search.is_terminal", lambda: True)
    monkeypatch.setattr("memsync.cli.command_search.has_colour", lambda: True)
    assert run(["search", "heron"]) == 0
    shown = capsys.readouterr().out
    assert "garden.md" in shown and "://" not in shown and "\x1b]8" not in shown


def test_many_notes_with_one_title_are_named_by_a_few(theirs: str) -> None:
    """And a path that no note can have is none of them."""
    columns = [str(name) for (name,) in execute(theirs, COLUMNS)]
    new = {"id": "n", "path": "'ponds/' || n", "path_key": "n::text::bytea", "title": "'Pond'"}
    values = ", ".join(new.get(name, name) for name in columns)
    rows = f"SELECT {values} FROM note, generate_series(100, 150) n WHERE path = 'garden.md'"
    plant(theirs, f"INSERT INTO note ({', '.join(columns)}) {rows}")
    with opened(theirs) as memory, pytest.raises(UsageError, match="several notes are called 'pond'") as caught:
        memory.get("pond")
    assert caught.value.hint.count("ponds/") == 10 and caught.value.hint.endswith("and 41 more")
    plant(theirs, "UPDATE note SET path = '/' || path WHERE path LIKE 'ponds/%' AND path <> 'ponds/100'")
    with opened(theirs) as memory:
        assert memory.get("pond").path == "ponds/100"
