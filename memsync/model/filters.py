"""The filters of a search: what they are called, how a value is read, and the values of one search."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec import Struct

from memsync.errors import UsageError
from memsync.model.text import did_you_mean
from memsync.model.vocabulary import Kind, Tier, named_origin


class Filters(Struct, frozen=True):
    """The filters of a search, applied inside each retriever. Several values of one filter are combined with OR.

    `folders` end in a slash. `after` and `before` are ISO dates or datetimes, inclusive. `where` pairs are compared as
    text with chunk attributes and front matter. `links` leaves notes that link to one of these, `linked_from` those to
    which one of these links. `archived` includes archived notes. `holds` leaves only what holds now, or only what does
    not; `valid` only what held on this ISO date. `notes` are paths, which a search sets for the filters that it looks
    up in the index first; None for any note.
    """

    kinds: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    path_globs: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    after: str = ""
    before: str = ""
    where: tuple[tuple[str, str], ...] = ()
    links: tuple[str, ...] = ()
    linked_from: tuple[str, ...] = ()
    archived: bool = False
    holds: bool | None = None
    valid: str = ""
    notes: tuple[str, ...] | None = None


class Filter(NamedTuple):
    """A filter as it is typed, `name:value`: an example of a value, and what a value sets.

    `field` of Filters gets what `read` makes of the value, after the values that it has. Without `read` the parser of
    queries sets it: days are relative to now, `is` has its own values, `all` is words, and `root` chooses memories
    before any is searched.
    """

    example: str
    field: str = ""
    read: Callable[[str], Any] | None = None


def parse_pair(text: str) -> tuple[str, str]:
    """Split `key=value`. Raises UsageError for any other text."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"{text!r} is not key=value", hint="Example: --where emotion=fear")
    return key.strip(), value.strip().strip('"')


def _one_of(name: str, allowed: Sequence[str], value: str) -> str:
    if value.lower() in allowed:
        return value.lower()
    hint = did_you_mean(value.lower(), allowed, f"Known values: {', '.join(allowed)}.", 0.5, f"{name}:{{}}")
    raise UsageError(f"{name}:{value} is not known", hint=hint)


TASKS = {"todo": "has-todo", "done": "has-done"}
"""Value of the filter `is` -> attribute of entries with such a task: `- [ ]`, `- [x]`."""
FILTERS = {
    "kind": Filter("daily", "kinds", partial(_one_of, "kind", tuple(Kind))),
    "tier": Filter("project", "tiers", partial(_one_of, "tier", tuple(Tier))),
    "tag": Filter("work", "tags", lambda value: value.lstrip("#")),
    "in": Filter("projects/", "folders", lambda value: posixpath.normpath(value) + "/"),
    "path": Filter("daily/2026-*", "path_globs", lambda value: value.removeprefix("./")),
    "role": Filter("user", "roles", str),
    "by": Filter("owner", "origins", named_origin),
    "session": Filter("session-001", "sessions", str),
    "status": Filter("active", "where", lambda value: ("status", value)),
    "after": Filter("2026-11-01"),
    "before": Filter("yesterday"),
    "where": Filter("emotion=fear", "where", parse_pair),
    "links": Filter("decisions/store.md", "links", str),
    "linked-from": Filter("MEMORY.md", "linked_from", str),
    "is": Filter("archived"),
    "valid": Filter("2026-05-01"),
    "all": Filter('"boat price"'),
    "root": Filter("work"),
}
FILTER_ALIASES = {
    "since": "after", "from": "after", "newer": "after", "date": "after", "created": "after", "modified": "after",
    "until": "before", "till": "before", "to": "before", "older": "before", "file": "path", "filename": "path",
    "name": "path", "note": "path", "glob": "path", "folder": "in", "dir": "in", "directory": "in", "under": "in",
    "label": "tag", "type": "kind", "class": "where", "user": "where", "project": "where", "has": "where",
    "author": "by", "speaker": "role", "agent": "role", "thread": "session", "state": "status", "link": "links",
    "backlinks": "links", "linked_from": "linked-from",
}  # fmt: skip
"""Names of filters in other programs -> their names here."""
