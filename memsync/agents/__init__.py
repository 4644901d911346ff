"""The agents that memsync knows: where they keep memory, hooks and transcripts, and in which form.

One module each, or a plugin of another package (CONTRIBUTING.md).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from memsync.errors import UsageError
from memsync.system.plugins import AGENTS, load_plugin, plugins

if TYPE_CHECKING:
    from memsync.agents.agent import Agent

NAMES = ("claude-code", "codex", "gemini", "copilot", "cursor", "opencode", "openclaw")
"""The agents that are part of memsync."""


def agent_names() -> tuple[str, ...]:
    """Return the names of all agents, those of plugins last."""
    return (*NAMES, *sorted(plugins(AGENTS).keys() - {*NAMES}))


def agent_named(name: str) -> Agent:
    """Return the agent with this name. Raises UsageError for an unknown name, ConfigError for a broken plugin."""
    agent: Agent
    if name in NAMES:
        agent = importlib.import_module(f"{__name__}.{name.replace('-', '_')}").AGENT
    elif point := plugins(AGENTS).get(name):
        agent = load_plugin(point)
    else:
        hint = f"Known: {', '.join(agent_names())}."
        raise UsageError(f"{name[:100]!r} is not an agent that memsync knows", hint=hint)
    return agent


def names_beginning(_: object, __: object, typed: str) -> list[str]:
    """Return the names that complete what is typed, for a shell."""
    return [name for name in agent_names() if name.startswith(typed)]


def agents() -> list[Agent]:
    """Return all agents. Raises ConfigError for a broken plugin."""
    return [agent_named(name) for name in agent_names()]
