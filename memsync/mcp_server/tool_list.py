"""The tools as clients see them. `make reference` writes them into tools.json, so that a list loads no operation."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

ROOTS = "roots"
"""The parameter of tools that names registered memories."""
ROOTS_HELP = (
    'Names of registered memories to search instead of this one; ["*"] for all. Their hits are cited as NAME:path:line.'
)
SEVERAL = "several"
"""In tools.json, `several` of the tool's operation. It is not part of the tool."""
FILE = os.path.join(os.path.dirname(__file__), "tools.json")


def listed(roots: Sequence[str], *, read_only: bool, has_own: bool) -> list[dict[str, Any]]:
    """Return the tools of a server. `roots` are the names of registered memories, which some tools can ask.

    With `read_only`, no tool writes. Without a memory of its own (`has_own`), a server has only the tools that
    registered memories can answer together.
    """
    with open(FILE, encoding="utf-8") as file:
        tools: list[dict[str, Any]] = json.load(file)
    found = []
    for tool in tools:
        several = tool.pop(SEVERAL)
        if (read_only and not tool["annotations"]["readOnlyHint"]) or not (has_own or several):
            continue
        if roots and several == "query":
            description = f"{ROOTS_HELP} Registered: {', '.join(roots)}."
            named = {"type": "array", "items": {"type": "string"}, "description": description}
            tool["inputSchema"]["properties"][ROOTS] = named
        found.append(tool)
    return found
