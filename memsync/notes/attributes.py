"""Parse and write attributes at the end of a line: `{#id .class key=value key="two words"}`.

As in Pandoc, an unquoted value ends at the next space. The parser of mdit-py-plugins cannot be used, because it refuses
dots in unquoted values (`cost=0.0031`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from memsync.errors import UsageError
from memsync.model.text import whole_characters
from memsync.notes.origin import BY, least_trusted

_BRACES = re.compile(r"[ \t]*(?<!\\)\{([^{}]*)\}[ \t]*$")
_ITEM = re.compile(
    r"""\s*(?:
        \#(?P<id>[^\s{}.#="]+)
      | \.(?P<class>[^\s{}.#="]+)
      | (?P<key>[A-Za-z_:][\w:.-]*)=(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s"{}]+))
    )(?=\s|$)""",
    re.VERBOSE,
)
_ESCAPES = {"n": "\n", "r": "\r", "(": "{", ")": "}"}
"""Letters that follow a backslash in a quoted value, and the characters they mean.

`\\u0007` means the character of that code point; any other character after a backslash means itself.
"""
_ESCAPED = re.compile(r"\\(u[0-9a-f]{4}|.)")
MAX_BLOCK_CHARS = 2_000
_UNQUOTED_VALUE = re.compile(r"""[^\s"{}\\\x00-\x1f\x7f]+""")
_CLASS_NAMES = re.compile(r"""[^\s{}.#="]+(?: [^\s{}.#="]+)*""")
_ATTRIBUTE_NAME = re.compile(r"[A-Za-z_:][\w:.-]*")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
"""Control characters. A note with many of them counts as binary, so that all its messages would be lost."""


SESSION = "session"
"""The attribute that names the session of a line in a log."""


def without_marks(text: str) -> str:
    """Return a text without the attributes of the lines of a session's entry."""
    cuts = ((line, *cut_attributes(line)) for line in text.split("\n"))
    return "\n".join(line[:column] if {"by", SESSION} <= marks.keys() else line for line, column, marks in cuts)


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
            key = BY if item["key"].lower() == BY else item["key"]
            attributes[key] = least_trusted((value, attributes.get(BY, ""))) if key == BY else value
    return attributes


def _unescaped(match: re.Match[str]) -> str:
    name = match[1]
    if len(name) == 1:
        return _ESCAPES.get(name, name)
    return chr(int(name[1:], 16)).encode("utf-8", "replace").decode()  # `?` for half a surrogate pair


def attribute_block(attributes: Mapping[str, str]) -> str:
    """Return `{key=value key="two words"}`; empty without attributes. Raises UsageError for an invalid or long one."""
    parts = []
    for key, given in attributes.items():
        value = given if given.isascii() else whole_characters(given)
        if key == "class" and _CLASS_NAMES.fullmatch(value):
            parts += [f".{name}" for name in value.split(" ")]
        elif _ATTRIBUTE_NAME.fullmatch(key):
            parts.append(f"{key}={value}" if _UNQUOTED_VALUE.fullmatch(value) else f"{key}={_quoted_value(value)}")
        else:
            raise UsageError(f"{key!r} cannot name an attribute", hint="Use letters, digits, _ and -.")
    block = "{" + " ".join(parts) + "}" if parts else ""
    if len(block) > MAX_BLOCK_CHARS:
        raise UsageError(f"the attributes are over {MAX_BLOCK_CHARS} characters", hint="Put the rest into the text.")
    return block


def _quoted_value(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    for letter, character in _ESCAPES.items():
        escaped = escaped.replace(character, f"\\{letter}")
    return '"' + CONTROL.sub(unicode_escape, escaped) + '"'


def unicode_escape(match: re.Match[str]) -> str:
    """Return the escape sequence of a character."""
    return f"\\u{ord(match[0]):04x}"
