"""Maps the forms in which agents keep their own memory to memsync's kinds, tiers and attributes (docs/agents.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memsync.model.vocabulary import Kind, Tier

_LASTS = (Kind.MEMORY, Tier.PERSONAL)

PATHS: Mapping[str, Mapping[str, tuple[Kind, Tier]]] = {
    "claude-code": {"/CLAUDE.md": _LASTS, "/projects/*/memory/": (Kind.MEMORY, Tier.PROJECT)},
    "codex": {
        "/AGENTS.md": _LASTS,
        "/memories/": _LASTS,
        "/memories/rollout_summaries/": (Kind.NOTE, Tier.TASK),
        "/memories/skills/": (Kind.NOTE, Tier.PROJECT),
    },
    "copilot": {"/copilot-instructions.md": _LASTS},
    "cursor": {"/rules/": _LASTS},
    "gemini": {"/GEMINI.md": _LASTS},
    "opencode": {"/AGENTS.md": _LASTS},
    "openclaw": {
        **dict.fromkeys((f"/workspace/{name}.md" for name in ("MEMORY", "USER", "IDENTITY")), _LASTS),
        "/workspace/SOUL.md": (Kind.SOUL, Tier.PERSONAL),
        "/workspace/memory/[0-9][0-9][0-9][0-9]-*.md": (Kind.DAILY, Tier.TASK),
    },
}
"""By the name of an agent: globs of the paths in its memory, with the kind and tier of the notes that match."""

_TIERS = {"user": Tier.PERSONAL, "feedback": Tier.PERSONAL, "project": Tier.PROJECT, "reference": Tier.PROJECT}
"""The tier of a fact of Claude Code, by its `type`."""

_COMMENT = re.compile(r"<!--\s*(trigger|importance|project):\s*([^<>]*?)\s*-->\s*")
_MAX_COMMENTS_CHARS = 2_000


def of_fact(head: Mapping[str, Any]) -> tuple[Kind, Tier] | None:
    """Return the kind and tier of a note that is one fact of Claude Code; None for any other note."""
    inner = head.get("metadata")
    of_type = inner.get("type") if isinstance(inner, dict) else head.get("type")
    is_fact = isinstance(of_type, str) and all(isinstance(head.get(key), str) for key in ("name", "description"))
    return (Kind.MEMORY, _TIERS[of_type]) if is_fact and of_type in _TIERS else None


def in_comments(line: str) -> Mapping[str, str]:
    """Return the attributes that OpenClaw's comments at the end of a line give it.

    For example, `<!-- trigger: a, b --> <!-- importance: 9 -->`. The comments stay in the text, so that a search for
    the words of `trigger` finds the line.
    """
    first = line.find("<!--", max(0, len(line) - _MAX_COMMENTS_CHARS)) if line.rstrip().endswith("-->") else -1
    return dict(_COMMENT.findall(line, first)) if first >= 0 and not _COMMENT.sub("", line[first:]).strip() else {}
