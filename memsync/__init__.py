"""memsync: memory that people can read. Markdown files are the truth; an index answers with path and line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memsync.errors import MemsyncError as MemsyncError
    from memsync.memory import Memory as Memory
    from memsync.model import Excerpt as Excerpt
    from memsync.model import Filters as Filters
    from memsync.model import Hit as Hit
    from memsync.model import Mode as Mode
    from memsync.model import Query as Query
    from memsync.model import SearchResult as SearchResult
    from memsync.model import Status as Status
    from memsync.model import SyncReport as SyncReport

__version__ = "0.1.0"

_HOMES = {
    "Memory": "memsync.memory",
    "MemsyncError": "memsync.errors",
    "Excerpt": "memsync.model",
    "Filters": "memsync.model",
    "Hit": "memsync.model",
    "Mode": "memsync.model",
    "Query": "memsync.model",
    "SearchResult": "memsync.model",
    "Status": "memsync.model",
    "SyncReport": "memsync.model",
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    """Load a public name at its first use: importing memsync alone must cost next to nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'memsync' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
