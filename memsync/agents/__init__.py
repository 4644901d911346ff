"""The agents that memsync knows, one module each: where they keep memory, hooks and transcripts, and in which form."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from memsync.errors import UsageError

if TYPE_CHECKING:
    from memsync.agents.agent import Agent

NAMES = ("claude-code", "codex", "gemini", "copilot", "cursor", "opencode", "openclaw")


def agent_named(name: str) -> Agent:
    """Return the agent with this name. Raises UsageError for an unknown name."""
    if name not in NAMES:
        raise UsageError(f"{name[:100]!r} is not an agent that memsync knows", hint=f"Known: {', '.join(NAMES)}.")
    agent: Agent = importlib.import_module(f"{__name__}.{name.replace('-', '_')}").AGENT
    return agent


def agents() -> list[Agent]:
    """Return all agents."""
    return [agent_named(name) for name in NAMES]
