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
_OPENING = {b"]": b"[", b"}": b"{"}
_BRACKETS = (b"[", b"{", b"]", b"}")
_MAX_OPEN = 10_000_000
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
        self._open = bytearray()
        self._open_of_kind = dict.fromkeys(_OPENING.values(), 0)
        self._in_string = False
        self._understood = 0
        self._clear()

    def _clear(self) -> None:
        self._held = bytearray()
        self._size = self._deepest = self._containers = 0

    def __iter__(self) -> Iterator[bytes | Unusable]:
        rest = b""
        while self.is_cut and len(self._open) <= _MAX_OPEN and (block := self._stream.read(BLOCK_BYTES)):
            block = rest + block
            taken = 0  # the block is held or skipped up to here
            for start in self._brackets(block):
                before = len(self._open)
                if not self._is_counted(block[start : start + 1]):
                    continue
                if before == 1:
                    yield from self._scalars(block[taken:start])
                    taken = start
                elif before == 0:
                    taken = start + 1
                elif len(self._open) == 1:
                    self._hold(block[taken : start + 1])
                    taken = start + 1
                    yield self._element()
                self.is_cut = bool(self._open)
                if not self.is_cut:
                    return
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

    def _is_counted(self, bracket: bytes) -> bool:
        """Count a bracket; return False for one that closes nothing.

        A closing bracket closes the innermost container of its kind with everything in it. An element that is not JSON
        may close what it has not opened; that does not end the array. Only the part that is closed is searched, so
        that the work is linear in the length of the stream.
        """
        if bracket not in _OPENING:
            self._open += bracket
            self._open_of_kind[bracket] += 1
            self._containers += 1
            self._deepest = max(self._deepest, len(self._open))
            return True
        opening = _OPENING[bracket]
        is_first_of_several = len(self._open) > 1 and self._open[:1] == opening  # the array, with an element open
        if self._open_of_kind[opening] <= is_first_of_several:
            return False
        start = self._open.rfind(opening)
        for kind in self._open_of_kind:
            self._open_of_kind[kind] -= self._open.count(kind, start)
        del self._open[start:]
        return True

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
        if self._deepest > MAX_DEPTH + 1:
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
