"""memsync: memory that people can read. Markdown files are the truth; an index answers with path and line."""

from __future__ import annotations

TYPE_CHECKING = False  # and not typing's: nothing may be imported before `memsync.cli` has cleaned the search path
if TYPE_CHECKING:
    from typing import Any

    from memsync.asynchronous import AsyncMemory as AsyncMemory
    from memsync.errors import MemsyncError as MemsyncError
    from memsync.memories.several import Memories as Memories
    from memsync.memory import Memory as Memory
    from memsync.model.answer import Excerpt as Excerpt
    from memsync.model.answer import Hit as Hit
    from memsync.model.answer import SearchResult as SearchResult
    from memsync.model.conversation import NewMessage as NewMessage
    from memsync.model.status import Status as Status
    from memsync.model.status import SyncReport as SyncReport
    from memsync.model.written import Written as Written

__version__ = "0.1.0"

_HOMES = {
    "AsyncMemory": "memsync.asynchronous",
    "NewMessage": "memsync.model.conversation",
    "Memory": "memsync.memory",
    "Memories": "memsync.memories.several",
    "MemsyncError": "memsync.errors",
    "Excerpt": "memsync.model.answer",
    "Hit": "memsync.model.answer",
    "SearchResult": "memsync.model.answer",
    "Status": "memsync.model.status",
    "SyncReport": "memsync.model.status",
    "Written": "memsync.model.written",
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    """Load a public name at its first use: importing memsync alone must cost next to nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'memsync' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
