"""Parse and match one line of a `.gitignore`, by the rules of gitignore(5).

Other people's notes bring their own patterns, so every pattern must be cheap to match. A pattern becomes a regular
expression whose groups are atomic: after a star or a `**`, the first place where the text up to the next one matches
is final. So matching takes at most the length of the pattern times that of the path. Like git, it compares bytes: `?`
matches one byte of a multi-byte letter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

MAX_PATTERN_BYTES = 16_000
"""A longer line is no pattern: compiling it would take a second."""

_CLASSES = {
    b"alnum": rb"0-9A-Za-z",
    b"alpha": rb"A-Za-z",
    b"blank": rb" \t",
    b"cntrl": rb"\x01-\x1f\x7f",
    b"digit": rb"0-9",
    b"graph": rb"!-~",
    b"lower": rb"a-z",
    b"print": rb" -~",
    b"punct": rb"!-/:-@\[-`{-~",
    b"space": rb"\t-\r ",
    b"upper": rb"A-Z",
    b"xdigit": rb"0-9A-Fa-f",
}
_MEMBER = re.compile(rb"(?>\[:(?P<name>[^\]]*):\]|\\?(?P<first>.)(?:-(?!\])\\?(?P<last>.))?)", re.DOTALL)
"""A class, byte or range in a bracket. A `]` in first place is literal."""
_SPECIAL = re.compile(rb"[*?\[\\]")
_TOKEN = re.compile(
    rb"(?P<deep>(?<![^/])\*\*+(?:/|(?P<inside>\\/|\Z)))|(?P<star>\*+)|(?P<any>\?)|(?P<slash>\\?/)"
    rb"|\[(?P<negated>[!^]?+)(?P<members>%b(?>(?:(?!\])%b)*))\]|\\(?P<escaped>.)|(?P<plain>[^*?\[\\/]+)"
    % ((re.sub(rb"\?P<\w+>", b"?:", _MEMBER.pattern),) * 2),
    re.DOTALL,
)
_FOLDERS = b"(?:[^/]*+/)"


@dataclass(frozen=True)
class IgnorePattern:
    """A pattern; paths are relative to the ignore file's folder. `ignores` is False for a line with `!`.

    `expression` is a regular expression for a path and a slash. `literal` is the only name that matches, in any folder,
    or a slash and the only path that matches; it is empty if there may be several.
    """

    expression: bytes
    ignores: bool
    only_folders: bool
    literal: bytes

    @cached_property
    def _regex(self) -> re.Pattern[bytes]:
        return re.compile(self.expression)

    def matches(self, path: bytes) -> bool:
        """Tell whether it matches `path` itself, not a folder above it."""
        return self._regex.fullmatch(path + b"/") is not None

    def holds(self, path: bytes) -> bool:
        """Tell whether it matches the file at `path` or a folder above it."""
        end = path.rfind(b"/") + 1 if self.only_folders else len(path) + 1
        return self._regex.match(path + b"/", 0, end) is not None


def as_bytes(text: str) -> bytes:
    """Return a path or a pattern as git sees it."""
    return text.encode("utf-8", "surrogateescape")


def read_pattern(line: bytes) -> IgnorePattern | None:
    """Return the pattern in a line; None for a blank line, a comment and a pattern that matches nothing (`!`, `[a`)."""
    text = _without_end(line)
    if not text or text.startswith(b"#") or len(text) > MAX_PATTERN_BYTES:
        return None
    ignores = not text.startswith(b"!")
    text = text.removeprefix(b"!")
    only_folders = text.endswith(b"/")
    text = text.removesuffix(b"/")
    has_slash = b"/" in text
    text = text.removeprefix(b"/")
    special = _SPECIAL.search(text)
    # git compares the text before the first special character literally and matches the rest as a separate pattern.
    stem = text[: special.start() if special else len(text)] if has_slash else b""
    expression = _expression(re.escape(stem) if has_slash else _FOLDERS + b"*?", text[len(stem) :])
    if not text or expression is None:
        return None
    literal = b"" if special else b"/" + text if has_slash else text
    return IgnorePattern(expression, ignores, only_folders, literal)


def _without_end(line: bytes) -> bytes:
    """Return a line without its line end and without trailing spaces, except one that a backslash keeps."""
    text = line.partition(b"\0")[0].removesuffix(b"\n").removesuffix(b"\r")
    trimmed = text.rstrip(b" ")
    escapes = len(trimmed) - len(trimmed.rstrip(b"\\"))
    return text[: len(trimmed) + 1] if escapes % 2 else trimmed


def _expression(begin: bytes, text: bytes) -> bytes | None:
    """Return `begin` and the regular expression of a pattern, or None if it has an unclosed bracket or escape.

    Each `**` begins a part, and each star in a name a group. Of the parts, only the last may try a second place: it
    must end where the path ends.
    """
    parts, star_end, name_end, position = [[begin]], b"", b"/", 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            return None
        position = token.end()
        if token["deep"]:  # in git, `**/` also matches no folder, but `**\/` needs at least one
            parts.append([_FOLDERS + (b"*?" if token["inside"] is None else b"+?")])
            name_end = b"" if token["inside"] == b"" else b"/"
        elif token["star"]:
            parts[-1].append(star_end + b"(?>[^/]*?")
            star_end = b")"
        elif token["slash"]:
            parts[-1].append(b"/" + star_end)
            star_end = b""
        elif token["members"]:
            members = list(map(_accepted, _MEMBER.finditer(token["members"])))
            if None in members:
                return None
            accepted = b"".join(filter(None, members))
            parts[-1].append((b"[^/%b]" if token["negated"] else b"(?!/)[%b]") % accepted)
        else:
            parts[-1].append(b"[^/]" if token["any"] else re.escape(token["escaped"] or token["plain"]))
    parts[-1].append(name_end + star_end)
    *others, last = map(b"".join, parts)
    return b"".join(b"(?>%b)" % part for part in others) + last


def _accepted(member: re.Match[bytes]) -> bytes | None:
    """Return what a class, byte or range accepts, as in a set of a regular expression; None for an unknown class."""
    if member["name"] is not None:
        return _CLASSES.get(member["name"])
    first = b"\\x%02x" % member["first"][0]
    return first if (member["last"] or b"") < member["first"] else b"%b-\\x%02x" % (first, member["last"][0])
