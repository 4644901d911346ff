"""Gemini CLI: its folders and forms."""

from __future__ import annotations

from memsync.agents.port import Agent, folder, specific

AGENT = Agent(
    name="gemini",
    title="Gemini CLI",
    tried="0.61.0",
    home=folder("GEMINI_CLI_HOME", ".gemini"),
    memory=("GEMINI.md",),
    sessions=("tmp/*/chats/session-*.json", "tmp/*/chats/session-*.jsonl"),
    loaded=("GEMINI.md",),
    answer=specific({"session-start": "SessionStart", "prompt": "BeforeAgent"}),
)
