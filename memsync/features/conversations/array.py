"""Find the elements of a JSON array.

It finds the end of an element by counting brackets outside of strings. So it can leave out one element that is not
JSON, too large or too deeply nested, and go on with the next. A JSON parser would stop at the first of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from mmap import mmap

from memsync.features.conversations import Unusable

MAX_ELEMENT_BYTES = 32_000_000
MAX_DEPTH = 100
MAX_CONTAINERS = 500_000
"""Objects and lists in one element: an empty one takes 3 bytes of a file, but 64 bytes of memory."""
CUT = "the file ends before it does"
_CLOSING = {b"[": b"]", b"{": b"}"}
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_BETWEEN = re.compile(rb"[ \t\r\n,]*+")


def elements(array: bytes | mmap) -> Iterator[bytes | Unusable]:
    """Yield the bytes of each element of an array, or the reason why it is left out; CUT if the array has no end.

    An element ends when no bracket of the kind that began it is open. So an element that is not JSON, such as `{]}`,
    does not end the array, and memsync need not remember which brackets are open.
    """
    start = end = array.find(b"[") + 1
    kind = b""  # the bracket that begins the element; empty between elements
    unclosed = depth = deepest = containers = 0
    for token in _TOKEN.finditer(array, end):
        bracket = array[token.start() : token.start() + 1]
        if bracket == b'"' or (not kind and bracket == b"}"):
            continue
        if not kind:
            between = _BETWEEN.match(array, end)
            if between and between.end() < token.start():
                yield Unusable("it is neither an object nor a list")
            if bracket == b"]":
                return
            kind, start = bracket, token.start()
            unclosed = depth = deepest = containers = 0
        step = 1 if bracket in _CLOSING else -1
        containers += bracket in _CLOSING
        depth += step
        deepest = max(deepest, depth)
        unclosed += step * (bracket in (kind, _CLOSING[kind]))
        if not unclosed:
            end, kind = token.end(), b""
            excess = _excess(end - start, deepest, containers)
            yield Unusable(excess) if excess else array[start:end]
    yield Unusable(CUT)


def _excess(size: int, deepest: int, containers: int) -> str:
    """Return which limit an element exceeds; empty for none."""
    if size > MAX_ELEMENT_BYTES:
        return f"it is larger than {MAX_ELEMENT_BYTES // 1_000_000} MB"
    if deepest > MAX_DEPTH:
        return f"it is nested deeper than {MAX_DEPTH} levels"
    return f"it has more than {MAX_CONTAINERS:,} objects and lists" if containers > MAX_CONTAINERS else ""
