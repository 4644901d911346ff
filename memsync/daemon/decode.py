"""Replies of the daemon as values of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memsync.model.answer import Excerpt, Freshness, Hit, Rank, SearchResult
from memsync.model.vocabulary import Kind, Mode, NotePath, Tier, WatcherState

if TYPE_CHECKING:
    from memsync.model.search import Filters, TimeHint
    from memsync.model.status import Status
    from memsync.model.sync import SyncReport


def search_result(reply: Mapping[str, Any]) -> SearchResult:
    """Return the answer to `search`."""
    explain = reply["explain"]
    return SearchResult(
        hits=tuple(map(_hit, reply["hits"], explain["parts"])),
        mode=Mode(reply["mode"]),
        freshness=freshness(reply["freshness"]),
        warnings=tuple(reply["warnings"]),
        timings=explain["timings_ms"],
        # Those of a search without any are not worth loading the class for.
        filters=filters(explain["filters"]) if any((explain["filters"] or {}).values()) else None,
        times=times(explain["times"]) if explain["times"] else (),
    )


def freshness(reply: Mapping[str, Any]) -> Freshness:
    """Return what every reply says of how fresh it is."""
    return Freshness(
        reply["scanned_at"],
        reply["pending_text"],
        reply["pending_vectors"],
        WatcherState(reply["watcher"]),
        reply["reason"],
        reply["generation"],
    )


def excerpt(reply: Mapping[str, Any]) -> Excerpt:
    """Return the answer to `get`."""
    return Excerpt(NotePath(reply["path"]), reply["start_line"], reply["end_line"], reply["line_count"], reply["text"])


def sync_report(reply: Mapping[str, Any]) -> SyncReport:
    """Return the answer to `sync`."""
    from memsync.model.sync import Failure, SyncReport

    values = {name: value for name, value in reply.items() if name != "freshness"}
    failed = tuple(Failure(**failure) for failure in reply["failed"])
    return SyncReport(**{**values, "failed": failed, "warnings": tuple(reply["warnings"])})


def status(reply: Mapping[str, Any]) -> Status:
    """Return the answer to `status`."""
    from memsync.model.status import DaemonStatus, Status
    from memsync.model.sync import Failure

    values = {name: value for name, value in reply.items() if name != "freshness"}
    for name in ("warnings", "failures"):
        values[name] = tuple(Failure(**one) for one in reply[name])
    about = reply["daemon"]
    values["daemon"] = DaemonStatus(
        **{**about, "watcher": WatcherState(about["watcher"]), "errors": tuple(about["errors"])}
    )
    return Status(**values)


def _hit(reply: Mapping[str, Any], parts: Mapping[str, float]) -> Hit:
    return Hit(
        path=NotePath(reply["path"]),
        start_line=reply["start_line"],
        end_line=reply["end_line"],
        heading_path=tuple(reply["heading_path"]),
        kind=Kind(reply["kind"]),
        tier=Tier(reply["tier"]),
        title=reply["title"],
        date=reply["date"],
        role=reply["role"],
        tags=tuple(reply["tags"]),
        text=reply["text"],
        snippet=reply["snippet"],
        highlights=tuple((start, end) for start, end in reply["highlights"]),
        score=reply["score"],
        ranks={name: Rank(rank["rank"], rank["score"]) for name, rank in reply["ranks"].items()},
        parts=parts,
    )


def times(values: Sequence[Mapping[str, str]]) -> tuple[TimeHint, ...]:
    """Return the times that a question names."""
    from memsync.model.search import TimeHint

    return tuple(TimeHint(**value) for value in values)


def filters(value: Mapping[str, Any]) -> Filters:
    """Return filters as JSON has them. Raises TypeError, ValueError."""
    from memsync.model.search import Filters

    lists: dict[str, Any] = {name: tuple(item) if isinstance(item, list) else item for name, item in value.items()}
    lists["where"] = tuple((key, text) for key, text in value.get("where", ()))
    return Filters(**lists)
