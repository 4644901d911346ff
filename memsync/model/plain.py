"""A value of the model as JSON can hold it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """Return values of the model and mappings as objects, other tuples as lists, bytes as hexadecimal text."""
    if isinstance(value, (str, int, float)) or value is None:
        return value
    names = getattr(value, "_fields", None) or getattr(value, "__dataclass_fields__", None)
    if names is not None:
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    return value


def plain_result(result: Any) -> dict[str, Any]:
    """Return a SearchResult as docs/search-result.schema.json describes it, what explains it included."""
    return {
        "hits": [{**plain(hit), "citation": hit.citation} for hit in result.hits],
        "mode": result.mode,
        "freshness": {**plain(result.freshness), "stale": result.freshness.stale},
        "warnings": list(result.warnings),
        "explain": {"filters": plain(result.filters), "timings_ms": plain(result.timings)},
    }


def printable(text: str) -> str:
    """Return a path, or other text, as one line can show it: what is no printable character is written as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
