"""One line of a `.gitignore` -> what it matches, by the rules of gitignore(5).

A path is matched only itself, never by a folder above it, because the walk does not enter an ignored folder. That is
what pathspec's matcher cannot do: it finds `/*` in `docs/a.md`, so that `/*` with `!/docs/` would hide all of `docs`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

_TOKEN = re.compile(
    r"(?P<deep_start>^\*\*/)|(?P<deep_end>/\*\*$)|(?P<deep>/\*\*(?=/))|(?P<stars>\*+)|(?P<any>\?)"
    r"|\[(?P<set>[!^]?\]?(?:\\.|\[:\w+:\]|[^\]\\])*)\]|\\(?P<escaped>.)|(?P<char>.)",
    re.DOTALL,
)
_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "digit": "0-9",
    "lower": "a-z",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}
_STAR = "[^/]*"


@dataclass(frozen=True, slots=True)
class IgnorePattern:
    """`matches` takes a path relative to the ignore file's folder; `ignores` is False for a line with `!`."""

    matches: Callable[[str], re.Match[str] | None]
    ignores: bool
    only_folders: bool


def read_pattern(line: str) -> IgnorePattern | None:
    """Return the pattern in a line, or None for a blank line, a comment and what is no pattern (`!`, `[z-a]`)."""
    text = re.sub(r"(?<!\\) +$", "", line.rstrip("\r\n")) if line.endswith((" ", "\r", "\n")) else line
    if not text or text.startswith("#"):
        return None
    ignores = not text.startswith("!")
    text = text.removeprefix("!")
    only_folders = text.endswith("/")
    text = text.removesuffix("/")
    anchored = "/" in text
    text = text.removeprefix("/")
    if not text or re.search(r"(?<!\\)(?:\\\\)*\\$", text):
        return None
    prefix = "" if anchored else "(?:.*/)?"
    try:
        matches = re.compile(prefix + "".join(_bounded(list(_parts(text)))), re.DOTALL).fullmatch
    except re.error:
        return None
    return IgnorePattern(matches, ignores, only_folders)


def _parts(text: str) -> Iterator[str]:
    """Yield a regular expression for each element of a pattern."""
    for token in _TOKEN.finditer(text):
        match token.lastgroup:
            case "deep_start":
                yield "(?:.*/)?"
            case "deep_end":
                yield "/.+"
            case "deep":
                yield "(?:/.*)?"
            case "stars":
                yield _STAR
            case "any":
                yield "[^/]"
            case "set":
                yield _set(token["set"])
            case _:
                yield re.escape(token["escaped"] or token["char"])


def _set(content: str) -> str:
    """Return the expression for a bracket: never a slash, `!` and `^` negate, a first `]` is itself."""
    negated = content.startswith(("!", "^"))
    body = content[1:] if negated else content
    parts = []
    for token in re.finditer(r"\[:(?P<name>\w+):\]|\\?(?P<char>.)", body, re.DOTALL):
        if token["name"]:
            parts.append(_CLASSES.get(token["name"], ""))
        else:
            parts.append("-" if token[0] == "-" else re.escape(token["char"]))
    return f"(?!/)[{'^' if negated else ''}{''.join(parts)}]"


def _bounded(parts: list[str]) -> Iterator[str]:
    """Yield the parts so that a star that another follows in the same name takes the first match it finds, for good.

    Any later match would leave less for the rest; without this `*a*a*a*b` could take a matcher hours.
    """
    stars = [position for position, part in enumerate(parts) if part == _STAR]
    closing = {
        after
        for star, after in pairwise(stars)
        if not any("/" in part.replace("[^/]", "").replace("(?!/)", "") for part in parts[star:after])
    }
    opening = {star for star, after in pairwise(stars) if after in closing}
    for position, part in enumerate(parts):
        if position in closing:
            yield ")"
        yield "(?>[^/]*?" if position in opening else part
