"""Read the elements of a JSON array one at a time, from a stream of any length.

It finds the end of an element by counting brackets outside of strings. So it can leave out one element that is not
JSON, too large or too deeply nested, and go on with the next. A streaming JSON parser would stop at the first of them.
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
_CLOSING = {b"[": b"]", b"{": b"}"}
_BRACKETS = (*_CLOSING, *_CLOSING.values())
_TOKEN = re.compile(rb'"[^"\\]*"|["\[\]{}]')
_REST_OF_STRING = re.compile(rb'(?:[^"\\]|\\.)*+', re.DOTALL)
_BETWEEN = b" \t\r\n,"


class Elements:
    """Yields the bytes of each element, or the reason why it is left out. Raises the stream's read errors.

    The stream begins with the array's opening bracket. `is_cut` is true until the closing bracket has been read.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self.is_cut = True
        self._stream = stream
        self._end = b""  # the bracket that ends the array
        self._in_string = False
        self._understood = 0
        self._clear()

    def _clear(self) -> None:
        self._held = bytearray()
        self._kind = b""  # the bracket that begins the element; empty between elements
        self._size = self._unclosed = self._depth = self._deepest = self._containers = 0

    def __iter__(self) -> Iterator[bytes | Unusable]:
        rest = b""
        while block := self._stream.read(BLOCK_BYTES):
            block = rest + block
            taken = 0  # the block is held or skipped up to here
            for start in self._brackets(block):
                bracket = block[start : start + 1]
                if not self._end:
                    self._end = _CLOSING.get(bracket, b"")
                    taken = start + 1
                elif not self._kind and (bracket in _CLOSING or bracket == self._end):
                    yield from self._scalars(block[taken:start])
                    taken = start
                    if bracket == self._end:
                        self.is_cut = False
                        return
                    self._kind = bracket
                    self._count(bracket)
                elif self._kind:
                    self._count(bracket)
                    if not self._unclosed:
                        self._hold(block[taken : start + 1])
                        taken = start + 1
                        yield self._element()
            self._hold(block[taken : self._understood])
            rest = block[self._understood :]

    def _brackets(self, block: bytes) -> Iterator[int]:
        """Yield the positions of brackets outside of strings; set `_understood` to the end of what was read."""
        at = 0
        while at < len(block):
            if self._in_string:
                rest = _REST_OF_STRING.match(block, at)
                at = rest.end() if rest else at
                if block[at : at + 1] != b'"':
                    break  # the string continues in the next block, with a backslash at the end of this one
                at, self._in_string = at + 1, False
                continue
            token = _TOKEN.search(block, at)
            at = token.end() if token else len(block)
            if token and token[0] == b'"':
                self._in_string = True
            elif token and token[0] in _BRACKETS:
                yield token.start()
        self._understood = at

    def _count(self, bracket: bytes) -> None:
        """Count a bracket of an element; the element ends when none of the kind that began it is unclosed.

        So an element that is not JSON, such as `{]}`, does not end the array, and memsync need not remember which
        brackets are open.
        """
        step = 1 if bracket in _CLOSING else -1
        self._containers += bracket in _CLOSING
        self._depth += step
        self._deepest = max(self._deepest, self._depth)
        if bracket in (self._kind, _CLOSING[self._kind]):
            self._unclosed += step

    def _hold(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._excess():
            self._held.clear()
        else:
            self._held += piece

    def _excess(self) -> str:
        """Return which limit the element exceeds; empty for none."""
        if self._size > MAX_ELEMENT_BYTES:
            return f"it is larger than {MAX_ELEMENT_BYTES // 1_000_000} MB"
        if self._deepest > MAX_DEPTH:
            return f"it is nested deeper than {MAX_DEPTH} levels"
        return f"it has more than {MAX_CONTAINERS:,} objects and lists" if self._containers > MAX_CONTAINERS else ""

    def _scalars(self, piece: bytes) -> Iterator[Unusable]:
        """Yield a complaint if there is anything between two objects or lists."""
        self._hold(piece)
        if self._size > MAX_ELEMENT_BYTES or bytes(self._held).strip(_BETWEEN):
            yield Unusable("it is neither an object nor a list")
        self._clear()

    def _element(self) -> bytes | Unusable:
        excess = self._excess()
        element = Unusable(excess) if excess else bytes(self._held)
        self._clear()
        return element
