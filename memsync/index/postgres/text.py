"""Texts and patterns of a question as PostgreSQL takes them."""

from __future__ import annotations

import re

NOTHING = "$a"
"""A regular expression that matches no text."""
_TEXTLESS = re.compile("[\0\ud800-\udfff]")


def storable(text: str) -> str:
    """Return a text without NUL and lone surrogates, which no note has and PostgreSQL does not take."""
    return _TEXTLESS.sub("\ufffd", text)


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
