"""The forms in which agents keep their own memory: what their paths, heads and comments say."""

from __future__ import annotations

from pathlib import Path

import pytest

from memsync.agents import agents
from memsync.agents.agent import Agent
from memsync.memory import Memory
from memsync.model.vocabulary import Kind, NotePath, Tier
from memsync.notes.agent_forms import in_comments
from memsync.notes.parse import parse_note
from memsync.notes.rules import PathRules
from memsync.settings.registering import add_root
from tests.conftest import Patch

FACT = "---\nname: {name}\ndescription: How it is fed\nmetadata:\n  type: {type}\n---\n\nIt eats. See [[the-pond]].\n"


@pytest.mark.parametrize(
    ("type_", "kind", "tier"),
    [
        ("user", Kind.MEMORY, Tier.PERSONAL),
        ("feedback", Kind.MEMORY, Tier.PERSONAL),
        ("project", Kind.MEMORY, Tier.PROJECT),
        ("reference", Kind.MEMORY, Tier.PROJECT),
        ("poem", Kind.NOTE, Tier.PROJECT),
        ("[user]", Kind.NOTE, Tier.PROJECT),
    ],
)
def test_the_type_of_a_fact_of_claude_code_tells_its_kind_and_tier(type_: str, kind: Kind, tier: Tier) -> None:
    content = FACT.format(name="feed-heron", type=type_).encode()
    note = parse_note(NotePath("a.md"), content, PathRules({}, {}))
    in_memory = parse_note(NotePath("m/a.md"), content, PathRules({"/m/": "memory"}, {"/m/": "project"}))
    assert (in_memory.kind, in_memory.tier) == (Kind.MEMORY, tier)
    assert (note.kind, note.tier, note.title, note.aliases) == (kind, tier, "feed-heron", ("feed-heron",))
    assert [link.target for link in note.links] == ["the-pond"]
    assert not note.warnings


def test_what_a_note_or_its_path_says_itself_counts_more() -> None:
    text = FACT.format(name="x", type="user")
    by_head = parse_note(
        NotePath("a.md"), text.replace("name:", "kind: note\ntier: task\nname:").encode(), PathRules({}, {})
    )
    assert (by_head.kind, by_head.tier) == (Kind.NOTE, Tier.TASK)
    by_path = parse_note(NotePath("daily/2026-11-21.md"), text.encode(), PathRules({"/daily/": "daily"}, {}))
    assert by_path.kind is Kind.DAILY


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "- Bind it. <!-- trigger: gateway, net --> <!-- importance: 9 -->",
            {"trigger": "gateway, net", "importance": "9"},
        ),
        ("- Bind it. <!--project: a-key-->  ", {"project": "a-key"}),
        ("- Bind it. <!-- by: owner -->", {}),
        ("- Bind it. <!-- importance: 9 --> <!-- by: owner -->", {}),
        ("- <!-- importance: 9 --> Bind it.", {}),
        ("- Bind it.", {}),
    ],
)
def test_a_comment_of_openclaw_says_something_about_its_line(line: str, said: dict[str, str]) -> None:
    assert in_comments(line) == said
    note = parse_note(NotePath("a.md"), line.encode(), PathRules({}, {}))
    assert dict(note.blocks[0][0].attributes or {}) == said


def test_a_rule_of_cursor_has_a_head_that_yaml_would_refuse() -> None:
    text = b"---\ndescription: Where herons are fed\nglobs: *.ts,**/*.tsx\nalwaysApply: true\n---\n\nFeed them.\n"
    note = parse_note(NotePath("rules/a.mdc"), text, PathRules({}, {}))
    assert note.front_matter["globs"] == "*.ts,**/*.tsx"
    assert not note.warnings


AT_HOME = {
    "claude-code": (".claude", {"CLAUDE.md": "memory personal", "projects/-p/memory/a.md": "memory project"}),
    "codex": (".codex", {"memories/MEMORY.md": "memory personal", "memories/rollout_summaries/a.md": "note task"}),
    "copilot": (".copilot", {"copilot-instructions.md": "memory personal"}),
    "cursor": (".cursor", {"rules/deep/a.mdc": "memory personal"}),
    "gemini": (".gemini", {"GEMINI.md": "memory personal"}),
    "opencode": (".config/opencode", {"AGENTS.md": "memory personal"}),
    "openclaw": (
        ".openclaw",
        {
            "workspace/SOUL.md": "soul personal",
            "workspace/USER.md": "memory personal",
            "workspace/memory/2026-11-21.md": "daily task",
            "workspace/memory/2026-11-21-herons.md": "daily task",
            "workspace/TOOLS.md": "note project",
        },
    ),
}


@pytest.mark.parametrize("agent", [agent for agent in agents() if agent.memory], ids=lambda agent: agent.name)
def test_memory_of_an_agent_has_the_kinds_of_its_paths(agent: Agent, tmp_path: Path, monkeypatch: Patch) -> None:
    """Each of these notes is also found by the words of a comment."""
    monkeypatch.setenv("MEMSYNC_SEARCH_MODE", "keyword")
    folder_name, notes = AT_HOME[agent.name]
    folder = tmp_path / folder_name
    for name in notes:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"- In {name}. <!-- trigger: wading birds --> <!-- importance: 9 -->")
    add_root(agent.name, str(folder), agent.memory)
    with Memory.open(root=folder) as memory:
        assert {note.path: f"{note.kind} {note.tier}" for note in memory.notes().notes} == notes
        assert {hit.path for hit in memory.search("wading where:importance=9").hits} == notes.keys()
