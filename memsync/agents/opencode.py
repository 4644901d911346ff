"""OpenCode: its folders and forms."""

from __future__ import annotations

from memsync.agents.port import Agent, folder

AGENT = Agent(
    name="opencode",
    title="OpenCode",
    tried="1.18.33",
    home=folder("OPENCODE_DATA_DIR", ".local/share/opencode"),
    memory=(),
    sessions=("opencode.db",),
    loaded=("AGENTS.md",),
)
