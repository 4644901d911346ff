"""OpenClaw: its folders and forms."""

from __future__ import annotations

from memsync.agents.port import Agent, folder

AGENT = Agent(
    name="openclaw",
    title="OpenClaw",
    tried="",
    home=folder("OPENCLAW_STATE_DIR", ".openclaw"),
    memory=("workspace/**/*.md",),
    sessions=("agents/*/sessions/*.jsonl",),
    loaded=("AGENTS.md", "MEMORY.md", "SOUL.md", "USER.md"),
)
