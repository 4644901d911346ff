"""Whom a passage is from: said by its role, its attribute, its note's front matter, or the memory that it is in."""

from __future__ import annotations

import pytest

from memsync.model.filters import FILTERS
from memsync.model.vocabulary import Origin
from memsync.notes.chunk import chunk_note
from memsync.notes.parse import NoteReader

HEAD = "---\n{}\n---\n\n"


@pytest.mark.parametrize(
    ("path", "text", "origin"),
    [
        ("note.md", "The heron nests.", "owner"),
        ("daily/2026-11-20.md", "- 10:00 The heron nests. {by=codex}", "agent:codex"),
        ("MEMORY.md", "- The heron nests. {by=owner}", "owner"),
        ("MEMORY.md", '- The heron nests. {by="Claude  Code"}', "agent:claude code"),
        ("note.md", HEAD.format("by: gemini") + "The heron nests.", "agent:gemini"),
        ("note.md", HEAD.format("source: https://example.org/x") + "The heron nests.", "web"),
        ("note.md", HEAD.format("url: HTTP://example.org") + "The heron nests.", "web"),
        ("note.md", HEAD.format("Source: [www.example.org/x]") + "The heron nests.", "web"),
        ("note.md", HEAD.format("source-url: '[A page](https://example.org)'") + "The heron nests.", "web"),
        ("note.md", HEAD.format("source: The book of birds") + "The heron nests.", "owner"),
        ("note.md", HEAD.format('imported: "2026-11-20"') + "The heron nests.", "import"),
        ("threads/t.md", "## user\n\nThe heron nests.", "owner"),
        ("threads/t.md", "## user {by=codex}\n\nThe heron nests.", "agent:codex"),
        ("threads/t.md", "## assistant\n\nThe heron nests.", "agent"),
        ("threads/t.md", "## agent:scout\n\nThe heron nests.", "agent:scout"),
        ("threads/t.md", "## tool {by=owner}\n\nThe heron nests.", "tool"),
        ("threads/t.md", "## user {by=codex}\n\n### More\n\n- The heron nests. {by=owner}", "agent:codex"),
        ("threads/t.md", "## assistant\n\n- The heron nests. {by=owner}", "agent"),
        ("threads/t.md", "## user {by=web}\n\nHi.\n\n## user\n\nThe heron nests.", "owner"),
        ("note.md", HEAD.format("url: https://example.org") + "- The heron nests. {by=owner}", "web"),
        ("note.md", "## Facts {by=codex}\n\n- The heron nests. {by=owner}", "agent:codex"),
        ("note.md", f"- {'long ' * 300} {{by=codex}}\n\n  The heron nests.", "agent:codex"),
        ("note.md", "- Mine.\n- The heron nests. {by=codex}\n- Mine, too.", "agent:codex"),
        ("note.md", "- A line. {by=codex}\n- The heron nests.", "owner"),
        ("threads/t.md", "## handoff\n\nThe heron nests.", "agent"),
        (
            "threads/t.md",
            HEAD.format("agent: codex\nsource: codex:s1") + "## assistant\n\nThe heron nests.",
            "agent:codex",
        ),
        ("threads/t.md", HEAD.format('imported: "2026-11-20"') + "## assistant\n\nThe heron nests.", "import"),
        ("threads/t.md", HEAD.format('imported: "2026-11-20"') + "## user\n\nThe heron nests.", "owner"),
    ],
)
def test_origin_of_a_passage(path: str, text: str, origin: str, reader: NoteReader) -> None:
    """Of two claims the less trusted one counts; whom something is from holds for all that is in it."""
    _, chunks = reader.read(path, text.encode())  # type: ignore[arg-type]
    assert [chunk.origin for chunk in chunks if "heron" in chunk.text] == [origin]


def test_memory_of_an_agent_is_the_agents_where_nothing_else_is_said(reader: NoteReader) -> None:
    """So are its notes; a message of the user stays the owner's."""
    for text, origin in (("The heron nests.", "agent:codex"), ("## user\n\nThe heron nests.", "owner")):
        note, _ = reader.read("threads/t.md" if "##" in text else "note.md", text.encode())  # type: ignore[arg-type]
        chunks = chunk_note(note, reader.count_tokens, reader.limits, "agent:codex")
        assert chunks[-1].origin == origin


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [("owner", "owner"), ("Agent", "agent"), ("codex", "agent:codex"), ("agent:codex", "agent:codex")],
)
def test_filter_takes_an_origin_or_an_agents_name(typed: str, wanted: str) -> None:
    read = FILTERS["by"].read
    assert read is not None
    assert read(typed) == wanted
    assert Origin.WEB in tuple(Origin)
