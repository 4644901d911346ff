"""Agents and models that other installed packages add to memsync, found by an entry point (CONTRIBUTING.md)."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from memsync.errors import ConfigError, MemsyncError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

AGENTS, MODELS = "memsync.agents", "memsync.models"


@cache
def plugins(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, none of them loaded."""
    from importlib.metadata import entry_points  # here, because it takes longer to import than most commands run

    return {point.name: point for point in entry_points(group=group)}


def load_plugin(point: EntryPoint, *arguments: str) -> Any:
    """Return what an entry point names, or what that returns for arguments. Raises ConfigError if it fails."""
    try:
        return point.load()(*arguments) if arguments else point.load()
    except MemsyncError:
        raise
    except Exception as error:
        package = point.dist.name if point.dist is not None else point.value
        message = f"{point.name}, a plugin of the package {package}, cannot be loaded: {type(error).__name__}: {error}"
        raise ConfigError(message, hint=f"Update or uninstall it: pip uninstall {package}") from error
