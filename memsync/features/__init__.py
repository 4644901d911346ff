"""What a memory can do: one module or folder a feature, each a few operations. None imports another.

Modules are loaded when they are first used: a search needs none of those that write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memsync.features import (
        duplicates,
        forgetting,
        indexing,
        listing,
        log,
        patterns,
        preferences,
        pruning,
        recovery,
        search,
        threads,
        usage,
    )
    from memsync.features.context import compose as compose

__all__ = [
    "duplicates", "forgetting", "indexing", "listing", "log", "patterns", "preferences", "pruning", "recovery",
    "search", "threads", "usage",
]  # fmt: skip

COMMANDS = {
    "search": ("search", "get"),
    "log": ("log", "remember", "note"),
    "listing": ("note", "collections"),
    "preferences": ("pref",),
    "patterns": ("pattern",),
    "threads": ("thread", "sessions", "costs", "agents", "routes", "handoff"),
    "context.compose": ("context",),
    "duplicates": ("duplicates",),
    "usage": ("stale", "stats"),
    "pruning": ("prune",),
    "forgetting": (),
    "indexing": ("sync", "rebuild", "verify", "status"),
    "recovery": (),
}
"""Module -> the first words of its commands: a command loads only its own module. Empty if cli/ writes its commands."""


def load(first_word: str = "") -> None:
    """Load the features with a command that begins with this word; all of them if there is none."""
    import importlib

    modules = [module for module, words in COMMANDS.items() if first_word in words]
    for module in modules or COMMANDS:
        importlib.import_module(f"{__name__}.{module}")


def __getattr__(name: str) -> Any:
    """Load a feature's module at its first use."""
    import importlib

    place = "context.compose" if name == "compose" else name
    try:
        return importlib.import_module(f"{__name__}.{place}")
    except ModuleNotFoundError as error:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from error
