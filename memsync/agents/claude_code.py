"""Claude Code: its folders and forms."""

from __future__ import annotations

import re

from memsync.agents.port import Agent, folder

AGENT = Agent(
    name="claude-code",
    title="Claude Code",
    tried="2.1.330",
    home=folder("CLAUDE_CONFIG_DIR", ".claude"),
    memory=("CLAUDE.md", "projects/*/memory/**/*.md"),
    sessions=("projects/*/*.jsonl", "projects/*/*/subagents/*.jsonl"),
    loaded=("CLAUDE.md", "MEMORY.md"),
    own_folder=lambda folder: re.sub(r"[^A-Za-z0-9]", "-", folder),
)
