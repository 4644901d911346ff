"""Tell whom a passage is from: its owner, an agent, a tool, an import or a web page (docs/format.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memsync.model.vocabulary import Origin, named_origin

BY = "by"
"""The attribute, and the key of the front matter, that names whom a passage is from."""


def origin_of(head: Mapping[str, Any], role: str, by: str, usual: str) -> str:
    """Return the origin of a passage with this front matter, role of a message and attribute `by`.

    `usual` is that of a passage about which nothing is said: the owner, or the agent whose memory it is in. Whoever
    writes for an agent marks it by the attribute, so that an agent cannot write in the owner's name.
    """
    if role == "tool":
        return Origin.TOOL
    if by:
        return named_origin(by)
    if role:
        return Origin.OWNER if role == "user" else _of_message(head, role)
    if text := _text(head, BY):
        return named_origin(text)
    if any(_text(head, key).lower().startswith(("https://", "http://")) for key in ("source", "url")):
        return Origin.WEB
    return Origin.IMPORT if head.get("imported") else usual


def _of_message(head: Mapping[str, Any], role: str) -> str:
    if head.get("imported"):
        return Origin.IMPORT
    kind, _, name = role.partition(":")
    name = name if kind == "agent" else _text(head, "agent")
    return named_origin(name) if name else Origin.AGENT


def _text(head: Mapping[str, Any], key: str) -> str:
    value = head.get(key)
    return value.strip() if isinstance(value, str) else ""
