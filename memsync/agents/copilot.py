"""Copilot CLI: its folders and forms."""

from __future__ import annotations

from memsync.agents.port import Agent, folder, under

AGENT = Agent(
    name="copilot",
    title="Copilot CLI",
    tried="1.0.102",
    home=folder("COPILOT_HOME", ".copilot"),
    memory=("copilot-instructions.md",),
    sessions=("session-state/*/events.jsonl",),
    loaded=("copilot-instructions.md", "AGENTS.md"),
    answer=under("additionalContext"),
)
