"""The vocabulary: every value that crosses from one room to another.

Lines count from 1 and spans include both ends. Times are ISO 8601 text as the file gives them, without a zone
unless the file names one. A `score` is higher-is-better; a `distance`, lower-is-better, never leaves its backend.
"""

from __future__ import annotations

from memsync.model.notes import Block, Chunk, Entry, FileStamp, Link, Note, Section, Tag
from memsync.model.search import (
    Candidate,
    Difference,
    EmbeddingSpace,
    Excerpt,
    Filters,
    Freshness,
    Hit,
    IndexedChunk,
    Query,
    Rank,
    SearchResult,
    Status,
)
from memsync.model.sync import (
    Change,
    ChangeType,
    Failure,
    IndexCounts,
    IndexedFile,
    PendingPassage,
    PutResult,
    SyncReport,
)
from memsync.model.vocabulary import JsonValue, Kind, Mode, NotePath, Scalar, Tier

__all__ = [
    "Block",
    "Candidate",
    "Change",
    "ChangeType",
    "Chunk",
    "Difference",
    "EmbeddingSpace",
    "Entry",
    "Excerpt",
    "Failure",
    "FileStamp",
    "Filters",
    "Freshness",
    "Hit",
    "IndexCounts",
    "IndexedChunk",
    "IndexedFile",
    "JsonValue",
    "Kind",
    "Link",
    "Mode",
    "Note",
    "NotePath",
    "PendingPassage",
    "PutResult",
    "Query",
    "Rank",
    "Scalar",
    "SearchResult",
    "Section",
    "Status",
    "SyncReport",
    "Tag",
    "Tier",
]
