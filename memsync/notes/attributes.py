"""Parse attributes at the end of a line: `{#id .class key=value key="two words"}`.

As in Pandoc, an unquoted value ends at the next space. The parser of mdit-py-plugins cannot be used, because it refuses
dots in unquoted values (`cost=0.0031`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_BRACES = re.compile(r"[ \t]*(?<!\\)\{([^{}]*)\}[ \t]*$")
_ITEM = re.compile(
    r"""\s*(?:
        \#(?P<id>[^\s{}.#="]+)
      | \.(?P<class>[^\s{}.#="]+)
      | (?P<key>[A-Za-z_:][\w:.-]*)=(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s"{}]+))
    )(?=\s|$)""",
    re.VERBOSE,
)
ESCAPES = {"n": "\n", "r": "\r", "(": "{", ")": "}"}
"""Letters that follow a backslash in a quoted value, and the characters they mean.

`\\u0007` means the character of that code point; any other character after a backslash means itself.
"""
_ESCAPED = re.compile(r"\\(u[0-9a-f]{4}|.)")
MAX_BLOCK_CHARS = 2_000


def cut_attributes(line: str) -> tuple[int, Mapping[str, str]]:
    """Return the column where `line`'s attribute block (with the spaces before it) begins, and its attributes.

    Returns `(len(line), {})` if the line does not end in a block that parses: its braces are then ordinary text. So are
    braces after a backslash. Classes are joined under the key `class`; the last of two equal keys wins.
    """
    if not line.rstrip().endswith("}"):
        return len(line), {}
    braces = _BRACES.search(line, max(0, len(line) - MAX_BLOCK_CHARS))
    attributes = _parse_attributes(braces.group(1)) if braces else {}
    return (braces.start(), attributes) if braces and attributes else (len(line), {})


def _parse_attributes(block: str) -> dict[str, str]:
    attributes: dict[str, str] = {}
    position, end = 0, len(block.rstrip())
    while position < end:
        item = _ITEM.match(block, position, end)
        if item is None:
            return {}
        position = item.end()
        if item["id"]:
            attributes["id"] = item["id"]
        elif item["class"]:
            attributes["class"] = f"{attributes.get('class', '')} {item['class']}".strip()
        else:
            value = item["bare"] if item["bare"] is not None else _ESCAPED.sub(_unescaped, item["quoted"])
            attributes[item["key"]] = value
    return attributes


def _unescaped(match: re.Match[str]) -> str:
    name = match[1]
    if len(name) == 1:
        return ESCAPES.get(name, name)
    return chr(int(name[1:], 16)).encode("utf-8", "replace").decode()  # `?` for half a surrogate pair
