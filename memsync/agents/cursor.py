"""Cursor: its folders and forms."""

from __future__ import annotations

from memsync.agents.port import Agent, folder, under

AGENT = Agent(
    name="cursor",
    title="Cursor",
    tried="",
    home=folder("CURSOR_CONFIG_DIR", ".cursor"),
    memory=("rules/**/*.mdc",),
    sessions=("projects/*/agent-transcripts/**/*.jsonl",),
    loaded=("AGENTS.md",),
    answer=under("additional_context"),
)
