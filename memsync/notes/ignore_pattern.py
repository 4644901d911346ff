"""Parse and match one line of a `.gitignore`, by the rules of gitignore(5).

Other people's notes bring their own patterns, so every pattern must be cheap to match. Matching backtracks only to the
last `*` of a name and the last `**` of a path: each name of the pattern is compared with each name of the path at most
once. Like git, it compares bytes: `?` matches one byte of a multi-byte letter.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_SPECIAL = b"*?[\\"
_SLASH, _STAR, _ANY, _OPEN, _CLOSE, _ESCAPE, _DASH = b"/*?[]\\-"
_EVERY_BYTE = frozenset(range(256))


_PRINTED = "".join(map(chr, range(33, 127)))
_CLASSES = {
    name: frozenset(characters.encode())
    for name, characters in {
        b"alnum": string.ascii_letters + string.digits,
        b"alpha": string.ascii_letters,
        b"blank": " \t",
        b"cntrl": "".join(map(chr, (*range(1, 32), 127))),
        b"digit": string.digits,
        b"graph": _PRINTED,
        b"lower": string.ascii_lowercase,
        b"print": " " + _PRINTED,
        b"punct": string.punctuation,
        b"space": string.whitespace,
        b"upper": string.ascii_uppercase,
        b"xdigit": string.hexdigits,
    }.items()
}

_Chunk = bytes | tuple[frozenset[int], ...]
"""The text between two stars: literal bytes, or for each position the bytes that match there."""


class _Malformed(Exception):
    """The pattern can match nothing: it has an unclosed bracket or ends in a backslash."""


@dataclass(frozen=True, slots=True)
class _Name:
    """The pattern of one name: chunks with a star between each two."""

    chunks: tuple[_Chunk, ...]

    @property
    def literal(self) -> bytes | None:
        """The name that it matches, if it can match only one."""
        first = self.chunks[0]
        return first if len(self.chunks) == 1 and isinstance(first, bytes) else None

    def matches(self, name: bytes) -> bool:
        """Tell whether it matches a whole name. Each chunk keeps the first place where it matches."""
        first, last = self.chunks[0], self.chunks[-1]
        if len(self.chunks) == 1:
            return len(name) == len(first) and _matches_at(first, name, 0)
        position, end = len(first), len(name) - len(last)
        if position > end or not _matches_at(first, name, 0) or not _matches_at(last, name, end):
            return False
        for chunk in self.chunks[1:-1]:
            if isinstance(chunk, bytes):
                place = name.find(chunk, position, end)
            else:
                starts = range(position, end - len(chunk) + 1)
                place = next((start for start in starts if _matches_at(chunk, name, start)), -1)
            if place < 0:
                return False
            position = place + len(chunk)
        return True


def _matches_at(chunk: _Chunk, name: bytes, position: int) -> bool:
    if isinstance(chunk, bytes):
        return name.startswith(chunk, position)
    return all(name[position + i] in accepted for i, accepted in enumerate(chunk))


@dataclass(frozen=True, slots=True)
class _Part:
    """Consecutive names after at least `gap` folders; with gap None they begin the path."""

    gap: int | None
    names: tuple[_Name, ...]

    def matches_at(self, position: int, path: Sequence[bytes]) -> bool:
        """Tell whether the names match those of `path` from `position` on."""
        return position + len(self.names) <= len(path) and all(
            name.matches(path[position + i]) for i, name in enumerate(self.names)
        )


@dataclass(frozen=True, slots=True)
class IgnorePattern:
    """A pattern; paths are relative to the ignore file's folder. `ignores` is False for a line with `!`.

    `stem` is the literal beginning of a pattern with a slash. It is None without a slash: names in any folder match.
    """

    stem: bytes | None
    parts: tuple[_Part, ...]
    ignores: bool
    only_folders: bool

    @property
    def literal_name(self) -> bytes | None:
        """The name that it matches in any folder, if it can match only one."""
        return self.parts[0].names[0].literal if self.stem is None else None

    @property
    def literal_path(self) -> bytes | None:
        """The path that it matches, if it can match only one."""
        if self.stem is None or len(self.parts) > 1 or self.parts[0].gap is not None:
            return None
        names = [name.literal for name in self.parts[0].names]
        return self.stem + b"/".join(name for name in names if name is not None) if None not in names else None

    @property
    def suffix(self) -> bytes | None:
        """The ending that names in any folder must have, if the pattern asks for nothing more (`*.log`)."""
        if self.stem is not None:
            return None
        first, *others = self.parts[0].names[0].chunks
        return others[0] if first == b"" and len(others) == 1 and isinstance(others[0], bytes) else None

    def matches(self, path: bytes) -> bool:
        """Tell whether it matches `path` itself, not a folder above it."""
        if self.stem is None:
            return self.parts[0].names[0].matches(path.rpartition(b"/")[2])
        if not path.startswith(self.stem):
            return False
        names = path[len(self.stem) :].split(b"/")
        last = self.parts[-1]
        if last.gap is None:
            return len(names) == len(last.names) and last.matches_at(0, names)
        end = _first_end(self.parts[:-1], names)
        start = len(names) - len(last.names)
        return end is not None and start >= end + last.gap and last.matches_at(start, names)

    def holds(self, path: bytes) -> bool:
        """Tell whether it matches the file at `path` or a folder above it."""
        if self.stem is None:
            names = path.split(b"/")
            name = self.parts[0].names[0]
            return any(map(name.matches, names[:-1] if self.only_folders else names))
        if not path.startswith(self.stem):
            return False
        names = path[len(self.stem) :].split(b"/")
        end = _first_end(self.parts, names)
        return end is not None and end <= len(names) - self.only_folders


def _first_end(parts: Iterable[_Part], names: Sequence[bytes]) -> int | None:
    """Return the smallest number of leading names that the parts match, or None if they do not match."""
    end = 0
    for part in parts:
        starts = range(1) if part.gap is None else range(end + part.gap, len(names) - len(part.names) + 1)
        start = next((position for position in starts if part.matches_at(position, names)), None)
        if start is None:
            return None
        end = start + len(part.names)
    return end


# ---------------------------------------------------------------------------------------------------------- reading


def read_pattern(line: bytes) -> IgnorePattern | None:
    """Return the pattern in a line; None for a blank line, a comment and a pattern that matches nothing (`!`, `[a`)."""
    text = _without_end(line)
    if not text or text.startswith(b"#"):
        return None
    ignores = not text.startswith(b"!")
    text = text.removeprefix(b"!")
    only_folders = text.endswith(b"/")
    text = text.removesuffix(b"/")
    has_slash = b"/" in text
    text = text.removeprefix(b"/")
    # git compares the text before the first special character literally and matches the rest as a separate pattern.
    special = (i for i, byte in enumerate(text) if byte in _SPECIAL)
    stem = text[: next(special, len(text))] if has_slash else b""
    try:
        parts = tuple(_parts(_Elements(text[len(stem) :], is_path=has_slash)))
    except _Malformed:
        return None
    return IgnorePattern(stem if has_slash else None, parts, ignores, only_folders) if text else None


def as_bytes(text: str) -> bytes:
    """Return a path or a pattern as git sees it."""
    return text.encode("utf-8", "surrogateescape")


def _without_end(line: bytes) -> bytes:
    """Return a line without its line end and without trailing spaces, except one that a backslash keeps."""
    text = line.partition(b"\0")[0].removesuffix(b"\n").removesuffix(b"\r")
    trimmed = text.rstrip(b" ")
    escapes = len(trimmed) - len(trimmed.rstrip(b"\\"))
    return text[: len(trimmed) + 1] if escapes % 2 else trimmed


@dataclass(frozen=True, slots=True)
class _Deep:
    """`**` instead of a name: at least `gap` folders. If it is the last, no name follows."""

    gap: int
    is_last: bool


_Element = frozenset[int] | _Deep | str
"""The bytes accepted at one position of a name, or `**`, a star or a slash."""


def _parts(elements: Iterable[_Element]) -> Iterator[_Part]:
    """Yield the parts of a pattern; each `**` begins a new part."""
    gap: int | None = None
    names: list[_Name] = []
    name: list[frozenset[int] | str] = []
    is_open = True
    for element in elements:
        if isinstance(element, _Deep):
            if names:
                yield _Part(gap, tuple(names))
                gap, names = element.gap, []
            else:
                gap = (gap or 0) + element.gap
            is_open = not element.is_last
        elif element == "/":
            names.append(_name(name))
            name = []
        else:
            name.append(element)
    yield _Part(gap, (*names, _name(name)) if is_open else ())


def _name(elements: Iterable[frozenset[int] | str]) -> _Name:
    chunks: list[list[frozenset[int]]] = [[]]
    for element in elements:
        if isinstance(element, str):
            chunks.append([])
        else:
            chunks[-1].append(element)
    return _Name(tuple(map(_chunk, chunks)))


def _chunk(accepted: Sequence[frozenset[int]]) -> _Chunk:
    if all(len(choices) == 1 for choices in accepted):
        return bytes(byte for choices in accepted for byte in choices)
    return tuple(accepted)


class _Elements:
    """Read the elements of a pattern in one pass; `**` is special only in a pattern with a slash."""

    def __init__(self, text: bytes, *, is_path: bool) -> None:
        self._text = text
        self._is_path = is_path
        self._position = 0
        self._close = -1

    def __iter__(self) -> Iterator[_Element]:
        while self._position < len(self._text):
            byte = self._text[self._position]
            if byte == _STAR:
                yield self._stars()
            elif byte == _OPEN:
                yield self._bracket()
            elif byte == _ESCAPE:
                literal = self._escaped()
                yield "/" if literal == _SLASH else frozenset((literal,))
            else:
                self._position += 1
                yield "/" if byte == _SLASH else _EVERY_BYTE if byte == _ANY else frozenset((byte,))

    def _stars(self) -> _Element:
        text, start = self._text, self._position
        end = start
        while end < len(text) and text[end] == _STAR:
            end += 1
        self._position = end
        if not self._is_path or end - start == 1 or (start > 0 and text[start - 1] != _SLASH):
            return "*"
        if end == len(text):
            return _Deep(1, is_last=True)
        if text[end] == _SLASH:
            self._position += 1
            return _Deep(0, is_last=False)
        if text.startswith(b"\\/", end):  # in git, `**/` also matches no folder, but `**\/` needs at least one
            self._position += 2
            return _Deep(1, is_last=False)
        return "*"

    def _byte(self) -> int:
        """Return the byte at the position. Raises _Malformed after the end."""
        if self._position >= len(self._text):
            raise _Malformed
        return self._text[self._position]

    def _escaped(self) -> int:
        """Skip a backslash and the byte after it; return that byte."""
        self._position += 1
        byte = self._byte()
        self._position += 1
        return byte

    def _bracket(self) -> frozenset[int]:
        """Skip a bracket and return the bytes that it accepts. A `]` in first place is literal."""
        self._position += 1
        negates = self._byte() in b"!^"
        self._position += negates
        accepted: set[int] = set()
        before = 0
        while True:
            byte = self._byte()
            follows = self._text[self._position + 1 : self._position + 2]
            is_range = byte == _DASH and before > 0 and follows not in (b"", b"]")
            if is_range:
                self._position += 1
            if self._byte() == _ESCAPE:
                last = self._escaped()
            elif not is_range and (members := self._class()) is not None:
                accepted |= members
                last = before = 0
            else:
                last = self._byte()
                self._position += 1
            if last:
                accepted.update(range(before if is_range else last, last + 1))
                before = 0 if is_range else last
            if self._byte() == _CLOSE:
                self._position += 1
                return _EVERY_BYTE - accepted if negates else frozenset(accepted)

    def _class(self) -> frozenset[int] | None:
        """Skip a class (`[:alpha:]`) and return its members, or None if no class begins here."""
        text, start = self._text, self._position + 2
        if not text.startswith(b"[:", self._position):
            return None
        if self._close < start:
            self._close = text.find(b"]", start)
        if self._close < 0:
            raise _Malformed
        if self._close == start or text[self._close - 1 : self._close] != b":":
            return None
        members = _CLASSES.get(text[start : self._close - 1])
        if members is None:
            raise _Malformed
        self._position = self._close + 1
        return members
