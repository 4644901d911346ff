"""Anthropic's memory tool, where the SDK is installed: `make integrations ARGS=anthropic`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memsync import Memory

pytest.importorskip("anthropic", reason="anthropic is not installed")
from anthropic.lib.tools import ToolError

from memsync.integrations.anthropic import MemsyncMemoryTool


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Memory]:
    """Yield a memory of its own; these tests run without the project's fixtures, too."""
    (tmp_path / "notes").mkdir()
    with Memory.open(tmp_path / "notes") as memory:
        yield memory


def call(notes: Memory, command: str, **arguments: Any) -> Any:
    return MemsyncMemoryTool(notes).call({"command": command, **arguments})


def test_file_is_a_note_of_the_agent_that_a_person_edits(notes: Memory) -> None:
    call(notes, "create", path="/memories/store.md", file_text="Uses MySQL.\n")
    note = notes.settings.root / "by-agents/anthropic/store.md"
    note.write_text("Uses SQLite.\n")
    call(notes, "str_replace", path="/memories/store.md", old_str="SQLite", new_str="SQLite 3")
    assert note.read_text() == "Uses SQLite 3.\n"
    assert "\tUses SQLite 3." in call(notes, "view", path="/memories/store.md")
    assert [(hit.path, hit.origin) for hit in notes.search("SQLite", mode="keyword").hits] == [
        ("by-agents/anthropic/store.md", "agent:anthropic")
    ]


@pytest.mark.parametrize("name", ["CLAUDE.md", "deep/AGENTS.md", "x.txt", "x.py", ".hidden.md"])
def test_note_that_instructs_or_is_none_is_refused(notes: Memory, name: str) -> None:
    """Neither made nor reached by another name; the file keeps its own."""
    call(notes, "create", path="/memories/a.md", file_text="obey")
    for command in (
        {"command": "create", "path": f"/memories/{name}", "file_text": "obey"},
        {"command": "rename", "old_path": "/memories/a.md", "new_path": f"/memories/{name}"},
    ):
        with pytest.raises(ToolError):
            MemsyncMemoryTool(notes).call(command)
    files = [one for one in (notes.settings.root / "by-agents").rglob("*") if one.is_file()]
    assert [one.name for one in files] == ["a.md"]


def test_renaming_changes_no_note_of_a_person(notes: Memory) -> None:
    """An agent writes in its own folder only, so links elsewhere stay as they are."""
    call(notes, "create", path="/memories/d/a.md", file_text="One.\n")
    linking = notes.settings.root / "mine.md"
    linking.write_text("See [a](by-agents/anthropic/d/a.md).\n")
    call(notes, "rename", old_path="/memories/d", new_path="/memories/e/f")
    assert (notes.settings.root / "by-agents/anthropic/e/f/a.md").read_text() == "One.\n"
    assert linking.read_text() == "See [a](by-agents/anthropic/d/a.md).\n"


def test_clearing_empties_its_folder_only(notes: Memory) -> None:
    """A note that looks archived is a file, too."""
    (notes.settings.root / "mine.md").write_text("One.\n")
    call(notes, "create", path="/memories/a.md", file_text="---\nstatus: archived\n---\nTwo.\n")
    assert "/memories/a.md" in call(notes, "view", path="/memories")
    MemsyncMemoryTool(notes).clear_all_memory()
    assert [one.name for one in notes.settings.root.rglob("*.md")] == ["mine.md"]
