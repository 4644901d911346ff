"""Read the elements of a JSON array one at a time, from a stream of any length.

It finds the end of an element by counting brackets outside of strings. So it can leave out one element that is not
JSON, too large or too deeply nested, and go on with the next. A JSON parser would stop at the first of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO

from memsync.features.conversations import Unusable

MAX_ELEMENT_BYTES = 32_000_000
MAX_DEPTH = 100
MAX_CONTAINERS = 500_000
"""Objects and lists in one element: an empty one takes 3 bytes of a file, but 64 bytes of memory."""
BLOCK_BYTES = 1 << 18
ENDS_EARLY = Unusable("the file ends before it does")
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+("?)|[\[\]{}]', re.DOTALL)
_CLOSING = {b"[": b"]", b"{": b"}"}


def elements(stream: IO[bytes]) -> Iterator[bytes | Unusable]:
    """Yield the bytes of each object or list, or the reason why it is left out. Raises the stream's read errors.

    If the array has no end, the last reason is ENDS_EARLY. The stream begins with the array's opening bracket.
    """
    pieces = _pieces(stream)
    end = next((_CLOSING[bracket] for _, bracket in pieces if bracket in _CLOSING), b"")
    is_scalar = False
    for text, bracket in pieces:
        is_scalar |= bool(text.strip(b" \t\r\n,")) or bracket not in (b"", *_CLOSING, end)
        if bracket not in (*_CLOSING, end):
            continue
        if is_scalar:
            yield Unusable("it is neither an object nor a list")
        if bracket == end:
            return
        is_scalar = False
        if element := _element(bracket, pieces):
            yield element
    yield ENDS_EARLY


def _element(opening: bytes, pieces: Iterator[tuple[bytes, bytes]]) -> bytes | Unusable | None:
    """Read an element after its first bracket; None if the stream ends within it."""
    held = bytearray(opening)
    size = unclosed = depth = deepest = containers = 1
    for text, bracket in pieces:
        step = (bracket in _CLOSING) - (bracket in (b"]", b"}"))
        size, depth, containers = size + len(text) + len(bracket), depth + step, containers + (step > 0)
        deepest = max(deepest, depth)
        if size <= MAX_ELEMENT_BYTES:
            held += text + bracket
        # Only brackets of the kind that began it end an element. So `{]}`, which is not JSON, does not end the array.
        unclosed += step if bracket in (opening, _CLOSING[opening]) else 0
        if not unclosed:
            excess = _excess(size, deepest, containers)
            return Unusable(excess) if excess else bytes(held)
    return None


def _pieces(stream: IO[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield all of a stream in pieces: text, and the bracket outside of strings that follows it, or nothing."""
    quote = rest = b""
    while block := stream.read(BLOCK_BYTES):
        block, at = quote + rest + block, len(quote)
        quote = rest = b""
        for token in _TOKEN.finditer(block):
            if token[1] is None:
                yield block[at : token.start()], token[0]
                at = token.end()
            elif not token[1]:  # the string goes on in the next block, perhaps with a backslash at the end of this one
                quote, rest = b'"', block[token.end() :]
        yield block[at : len(block) - len(rest)], b""


def _excess(size: int, depth: int, containers: int) -> str:
    """Return which limit an element exceeds; empty for none."""
    if size > MAX_ELEMENT_BYTES:
        return f"it is larger than {MAX_ELEMENT_BYTES // 1_000_000} MB"
    if depth > MAX_DEPTH:
        return f"it is nested deeper than {MAX_DEPTH} levels"
    return f"it has more than {MAX_CONTAINERS:,} objects and lists" if containers > MAX_CONTAINERS else ""
