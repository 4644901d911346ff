"""The texts that wait for their vector, in the memory of the process that parsed them.

The SQLite index stores them until they are embedded. A shared database must not have them, and reading them from the
files again means parsing each note twice. So the first texts are kept here; the others are read from the files.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

MAX_CHARACTERS = 64_000_000


class WaitingTexts:
    """Texts by content hash, up to a total length. Safe to use from several threads."""

    def __init__(self) -> None:
        self._texts: dict[bytes, str] = {}
        self._length = 0
        self._guard = threading.Lock()

    def add(self, texts: Mapping[bytes, str]) -> None:
        """Keep texts, as far as there is room."""
        with self._guard:
            for digest, text in texts.items():
                if digest not in self._texts and self._length + len(text) <= MAX_CHARACTERS:
                    self._texts[digest] = text
                    self._length += len(text)

    def get(self, digest: bytes) -> str | None:
        """Return the text with this hash, or None."""
        return self._texts.get(digest)

    def discard(self, hashes: Iterable[bytes]) -> None:
        """Forget texts that wait no more."""
        with self._guard:
            for digest in hashes:
                self._length -= len(self._texts.pop(digest, ""))
