"""The vocabulary: every value that crosses from one room to another.

Lines count from 1 and spans include both ends. Times are ISO 8601 text as the file gives them, without a zone
unless the file names one. A `score` is higher-is-better; a `distance`, lower-is-better, never leaves its backend.

Names are loaded at their first use: a served search needs five of them, and making a dataclass takes half a
millisecond.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memsync.model.answer import Excerpt, Freshness, Hit, Rank, SearchResult
    from memsync.model.context import Context, ContextPart, ContextPassage, LeftOut
    from memsync.model.notes import Block, Chunk, Entry, FileStamp, Link, Message, Note, Section, Tag
    from memsync.model.search import (
        Candidate,
        EmbeddingSpace,
        Filters,
        IndexedChunk,
        IndexedNote,
        Query,
        TimeHint,
        is_between,
        names_tag,
    )
    from memsync.model.status import DaemonStatus, Difference, Status
    from memsync.model.sync import (
        Change,
        ChangeType,
        Failure,
        IndexCounts,
        IndexedFile,
        PendingPassage,
        PutResult,
        SyncReport,
        WaitingNote,
    )
    from memsync.model.threads import (
        Conversation,
        Cost,
        Costs,
        Messages,
        Neighbours,
        Session,
        Sessions,
        Thread,
        ThreadMessage,
        Threads,
        Usage,
    )
    from memsync.model.upkeep import (
        AskedQuery,
        Collection,
        Collections,
        Duplicates,
        Growth,
        NoteAbout,
        Notes,
        NoteUse,
        Place,
        Pruning,
        Repetition,
        Retirement,
        Stale,
        Stats,
    )
    from memsync.model.vocabulary import (
        Form,
        Fresh,
        JsonValue,
        Kind,
        Mode,
        NotePath,
        Scalar,
        Tier,
        Trait,
        WatcherState,
        is_remembered,
    )
    from memsync.model.written import Overwritten, Pattern, Preference, Written

_HOMES = {
    "answer": ("Excerpt", "Freshness", "Hit", "Rank", "SearchResult"),
    "context": ("Context", "ContextPart", "ContextPassage", "LeftOut"),
    "notes": ("Block", "Chunk", "Entry", "FileStamp", "Link", "Message", "Note", "Section", "Tag"),
    "search": (
        "Candidate",
        "EmbeddingSpace",
        "Filters",
        "IndexedChunk",
        "IndexedNote",
        "Query",
        "TimeHint",
        "is_between",
        "names_tag",
    ),
    "status": ("DaemonStatus", "Difference", "Status"),
    "sync": (
        "Change", "ChangeType", "Failure", "IndexCounts", "IndexedFile", "PendingPassage", "PutResult", "SyncReport",
        "WaitingNote",
    ),
    "threads": (
        "Conversation", "Cost", "Costs", "Messages", "Neighbours", "Session", "Sessions", "Thread", "ThreadMessage",
        "Threads", "Usage",
    ),
    "upkeep": (
        "AskedQuery", "Collection", "Collections", "Duplicates", "Growth", "NoteAbout", "Notes", "NoteUse", "Place",
        "Pruning", "Repetition", "Retirement", "Stale", "Stats",
    ),
    "vocabulary": (
        "Form",
        "Fresh",
        "JsonValue",
        "Kind",
        "Mode",
        "NotePath",
        "Scalar",
        "Tier",
        "Trait",
        "WatcherState",
        "is_remembered",
    ),
    "written": ("Overwritten", "Pattern", "Preference", "Written"),
}  # fmt: skip
_MODULES = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AskedQuery",
    "Block",
    "Candidate",
    "Change",
    "ChangeType",
    "Chunk",
    "Collection",
    "Collections",
    "Context",
    "ContextPart",
    "ContextPassage",
    "Conversation",
    "Cost",
    "Costs",
    "DaemonStatus",
    "Difference",
    "Duplicates",
    "EmbeddingSpace",
    "Entry",
    "Excerpt",
    "Failure",
    "FileStamp",
    "Filters",
    "Form",
    "Fresh",
    "Freshness",
    "Growth",
    "Hit",
    "IndexCounts",
    "IndexedChunk",
    "IndexedFile",
    "IndexedNote",
    "JsonValue",
    "Kind",
    "LeftOut",
    "Link",
    "Message",
    "Messages",
    "Mode",
    "Neighbours",
    "Note",
    "NoteAbout",
    "NotePath",
    "NoteUse",
    "Notes",
    "Overwritten",
    "Pattern",
    "PendingPassage",
    "Place",
    "Preference",
    "Pruning",
    "PutResult",
    "Query",
    "Rank",
    "Repetition",
    "Retirement",
    "Scalar",
    "SearchResult",
    "Section",
    "Session",
    "Sessions",
    "Stale",
    "Stats",
    "Status",
    "SyncReport",
    "Tag",
    "Thread",
    "ThreadMessage",
    "Threads",
    "Tier",
    "TimeHint",
    "Trait",
    "Usage",
    "WaitingNote",
    "WatcherState",
    "Written",
    "is_between",
    "is_remembered",
    "names_tag",
]


def __getattr__(name: str) -> Any:
    """Load a name from its module at its first use."""
    if name not in _MODULES:
        raise AttributeError(f"module 'memsync.model' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"memsync.model.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
