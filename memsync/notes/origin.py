"""Determines the origin of a passage: its owner, an agent, a tool, an import or a web page (docs/agents.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from memsync.model.vocabulary import Origin, named_origin, trust

_PAGE_KEYS = ("url", "source", "source_url", "clipped_from")
"""The keys of front matter in which clippers write the address of a page, in any case."""
_ADDRESS = re.compile(r"^\W*(?:(?:https?|ftp):)?//|^\W*www\.|\]\(https?://", re.IGNORECASE)

_AGENTS_FOLDER = re.compile(r"(?:archive/)*by-agents/([^/]+)/", re.IGNORECASE)
BY = "by"
"""The attribute, and the key of the front matter, that names a passage's origin."""


def origin_of(head: Mapping[str, Any], role: str, marks: tuple[str, ...], usual: str) -> str:
    """Return the origin of a passage, given its front matter, the role of its message and its values of `by`.

    `usual` is the default: the owner, or the agent whose memory contains the passage. Of two origins, the less trusted
    one counts, so no text can raise its own trust. Of two agents, the one named by `by` counts.
    """
    origin = _of_message(head, role) if role else Origin.IMPORT if head.get("imported") else usual
    for mark in (_of_page(head), least_trusted(_texts(head, (BY,))), *marks):
        said = named_origin(mark) if mark else Origin.OWNER
        origin = said if trust(said) <= trust(origin) else origin
    return origin


def least_trusted(marks: Iterable[str]) -> str:
    """Return the least trusted of some values of `by`, the first of equal ones; empty if none is given."""
    return min(filter(None, marks), key=lambda mark: trust(named_origin(mark)), default="")


def _of_message(head: Mapping[str, Any], role: str) -> str:
    if role in ("user", "tool"):
        return Origin.OWNER if role == "user" else Origin.TOOL
    if head.get("imported"):
        return Origin.IMPORT
    kind, _, name = role.partition(":")
    name = name if kind == "agent" else _text(head, "agent")
    return named_origin(f"{Origin.AGENT}:{name}") if name else Origin.AGENT


def _of_page(head: Mapping[str, Any]) -> str:
    """Return that a note is from a web page, or nothing; an import may name the page of its conversation."""
    is_page = any(map(_ADDRESS.search, _texts(head, _PAGE_KEYS)))
    return Origin.WEB if is_page and not head.get("imported") else ""


def of_agent(path: str, head: Mapping[str, Any]) -> dict[str, Any]:
    """Return the front matter that says who writes in a folder by-agents/NAME/: NAME, besides those that a note names.

    Programs of agents write exact text there, which can have no mark of its own.
    """
    match = _AGENTS_FOLDER.match(path)
    return {BY: [f"{Origin.AGENT}:{match[1]}", *_texts(head, (BY,))]} if match else {}


def _texts(head: Mapping[Any, Any], keys: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the texts under these keys, in any case, of a front matter; without keys all. Lists and objects count."""
    for key, value in head.items():
        if keys and str(key).casefold().replace("-", "_") not in keys:
            continue
        if isinstance(value, dict | list):
            yield from _texts(value if isinstance(value, dict) else dict(enumerate(value)))
        elif isinstance(value, str):
            yield value.strip()


def _text(head: Mapping[str, Any], key: str) -> str:
    value = head.get(key)
    return value.strip() if isinstance(value, str) else ""
