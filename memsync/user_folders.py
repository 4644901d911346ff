"""Where the platform keeps a user's settings, state and caches.

A library would say the same, but loading it takes as long as a quarter of a served search.
"""

from __future__ import annotations

import os
import sys

_NAME = "memsync"


def state_folder() -> str:
    """Return the folder for indexes, logs and sockets."""
    return _folder("XDG_STATE_HOME", ".local/state", "Library/Application Support")


def config_folder() -> str:
    """Return the folder for the user's own config.toml."""
    return _folder("XDG_CONFIG_HOME", ".config", "Library/Application Support")


def cache_folder() -> str:
    """Return the folder for what can be fetched again: downloaded models."""
    return _folder("XDG_CACHE_HOME", ".cache", "Library/Caches")


def _folder(variable: str, usual: str, on_macos: str) -> str:
    """Return our folder by the XDG variable where it is set to an absolute path, else by the platform's custom."""
    named = os.environ.get(variable, "")
    if os.path.isabs(named):
        return os.path.join(named, _NAME)
    return os.path.join(os.path.expanduser("~"), on_macos if sys.platform == "darwin" else usual, _NAME)
