"""Assemble the context that an agent reads before it answers, within a token budget (docs/agents.md)."""
