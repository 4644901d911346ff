"""Codex: its folders and forms."""

from __future__ import annotations

from memsync.agents.port import Agent, folder, specific

AGENT = Agent(
    name="codex",
    title="Codex",
    tried="0.169.0",
    home=folder("CODEX_HOME", ".codex"),
    memory=("AGENTS.md", "memories/**/*.md"),
    sessions=("sessions/*/*/*/rollout-*.jsonl",),
    loaded=("AGENTS.md",),
    answer=specific({"session-start": "SessionStart", "prompt": "UserPromptSubmit"}),
)
