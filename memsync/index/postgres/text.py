"""Text as PostgreSQL takes it, which has no NUL characters."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_ESCAPED = {"\0": "\x1a0", "\x1a": "\x1a1"}
_PLAIN = {escape: character for character, escape in _ESCAPED.items()}
NOTHING = "$a"
"""A regular expression that matches no text."""
_SPECIAL = re.compile("[\0\x1a]")
_ESCAPE = re.compile("\x1a[01]")


def safe(text: str) -> str:
    """Return a text without NUL characters, from which `plain` makes the same text again."""
    if "\0" not in text and "\x1a" not in text:
        return text
    return _SPECIAL.sub(lambda match: _ESCAPED[match[0]], text)


def plain(text: str) -> str:
    """Return the text from which `safe` made this one."""
    return _ESCAPE.sub(lambda match: _PLAIN[match[0]], text) if "\x1a" in text else text


def safe_row(values: Iterable[Any]) -> list[Any]:
    """Return a row with each text made safe."""
    return [safe(value) if isinstance(value, str) else value for value in values]


def plain_row(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return a row with each text as it was before `safe_row`."""
    return tuple(plain(value) if isinstance(value, str) else value for value in values)


def glob_pattern(glob: str) -> str:
    """Return the regular expression that matches what SQLite's GLOB matches: `*`, `?` and `[…]`; case matters.

    An unclosed bracket matches nothing.
    """
    pattern, position = "^", 0
    while position < len(glob):
        character = glob[position]
        position += 1
        if character == "*":
            pattern += ".*"
        elif character == "?":
            pattern += "."
        elif character == "[":
            end = _bracket_end(glob, position)
            if end < 0:
                return NOTHING
            pattern += _bracket(glob[position:end])
            position = end + 1
        else:
            pattern += _escaped(character)
    return f"{pattern}$"


def _bracket_end(glob: str, start: int) -> int:
    """Return the position of the bracket's end; -1 without one. A `]` at the beginning is an ordinary character."""
    first = start + 1 if glob[start : start + 1] == "^" else start
    return glob.find("]", first + 1 if glob[first : first + 1] == "]" else first)


def _bracket(content: str) -> str:
    """Return a class of characters as a pattern. A range that runs backwards is only its first character."""
    is_negated = content.startswith("^")
    parts = list[str]()
    before = ""
    rest = iter(content[1:] if is_negated else content)
    for character in rest:
        high = next(rest, "") if character == "-" and before else ""
        if high:
            parts += [f"{_escaped(before)}-{_escaped(high)}"] if before <= high else []
            before = ""
        else:
            parts.append(_escaped(character))
            before = character
    return f"[{'^' if is_negated else ''}{''.join(parts)}]"


def _escaped(character: str) -> str:
    return character if character.isalnum() else f"\\U{ord(character):08x}"
