"""Prompt assembly under a token budget: what an agent reads before it answers. docs/context.md says what and why."""
