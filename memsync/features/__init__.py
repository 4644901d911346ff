"""What a memory can do: one module or folder a feature, each a few operations. None imports another.

Modules are loaded when they are first used: a search needs none of those that write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memsync.features import (
        checking,
        contradictions,
        difference,
        duplicates,
        exact,
        forgetting,
        history,
        indexing,
        linking,
        listing,
        log,
        moving,
        overwritten,
        patterns,
        preferences,
        pruning,
        search,
        threads,
        usage,
    )
    from memsync.features.context import compose as compose
    from memsync.features.curation import proposals as proposals
    from memsync.features.sharing import share as share

__all__ = [
    "checking", "contradictions", "difference", "duplicates", "exact", "forgetting", "history", "indexing", "linking",
    "listing", "log", "moving", "overwritten", "patterns", "preferences", "pruning", "search", "threads", "usage",
]  # fmt: skip


_INNER = {"compose": "context.compose", "proposals": "curation.proposals", "share": "sharing.share"}
"""Modules in folders of their own."""


def load() -> None:
    """Load all of them."""
    import importlib

    for module in (*__all__, *_INNER.values()):
        importlib.import_module(f"{__name__}.{module}")


def __getattr__(name: str) -> Any:
    """Load a feature's module at its first use."""
    import importlib

    place = _INNER.get(name, name)
    try:
        return importlib.import_module(f"{__name__}.{place}")
    except ModuleNotFoundError as error:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from error
