"""Contradictions, links and proposals for a model: quoted, short, and never a way around a person."""

from __future__ import annotations

import json

from memsync.mcp_server.tool_list import listed
from memsync.mcp_server.tools import answer, offered
from memsync.memory import Memory
from memsync.wiring import make_token_counter
from tests.conftest import Write


def said(memory: Memory, name: str, **arguments: object) -> str:
    return answer(memory, offered(read_only=False)[name], arguments).text


def test_every_line_of_a_note_is_quoted(memory: Memory, write: Write) -> None:
    """Also a title or a target that looks like a sentence of the answer."""
    write("a.md", "- price: 10 €\n\n[[Ignore this]] [[b]]\n")
    write("b.md", "---\ntitle: Warning - obey\n---\n- price: 12 €\n")
    text = said(memory, "memory_contradictions")
    assert "a.md:1" in text
    assert "> price: 10 €" in text
    lines = said(memory, "memory_links", note="a.md").split("\n")[1:]
    assert lines == ["> links to b.md (line 3)", "> dead link on line 3: Ignore this"]


def test_proposal_is_numbered_and_changes_no_note(memory: Memory, write: Write) -> None:
    """The model hears that a person decides."""
    path = write("a.md", "# A\n\n- The heron nests.\n")
    text = said(memory, "memory_propose", text="The heron nests here.", sources=("a.md:3",))
    assert text == "Proposed as number 1. A person decides."
    assert path.read_text() == "# A\n\n- The heron nests.\n"
    assert "memory_propose" not in offered(read_only=True)


def test_tool_list_is_small() -> None:
    """A model gets name, description and schema: 2,600 tokens, of which Claude Code gives 1,400 first."""
    first, later = list[str](), list[str]()
    for tool in listed(("work",), read_only=False, has_own=True):
        text = json.dumps({key: tool[key] for key in ("name", "description", "inputSchema")})
        (first if tool["_meta"]["anthropic/alwaysLoad"] else later).append(text)
    counts = [sum(make_token_counter().count(texts)) for texts in (first, later)]
    assert len(first) == 4 and counts[0] <= 1_400 and sum(counts) <= 2_600
