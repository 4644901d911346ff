"""Paths as a person in some folder types them -> as a memory names them: relative to its root.

What a search prints counts from the root and means the same from anywhere, so a path that is there from the root is
that. Otherwise it counts from the current folder, if that is beneath the root; with `./` or `../` it always does.
"""

from __future__ import annotations

import os
import posixpath
import re

_LINES = re.compile(r":\d+(?:[-:]\d+)?$")
_IN_FILTER = re.compile(r'(?:(?<=\s)|^)in:(?:"(?P<quoted>[^"]+)"|(?P<bare>[^\s"]+))')


class Here:
    """The current folder, as seen from a memory root."""

    def __init__(self, root: str) -> None:
        """`root` is the real path of the memory root."""
        self._root = root
        try:
            self._cwd = os.getcwd()
        except OSError:  # it was removed
            self._cwd = ""
        is_beneath = self._cwd == root or self._cwd.startswith(root.rstrip("/") + "/")
        self._folder = os.path.relpath(self._cwd, root) if is_beneath else ""

    def location(self, text: str) -> str:
        """Return where a note, or a place in it (`:12`, `#heading`), is from the root, if its path counts from here."""
        joined = self._joined(text)
        if joined is None or text.startswith(("./", "../")):
            return text if joined is None else joined
        return joined if not self._is_note(text) and self._is_note(joined) else text

    def note(self, text: str) -> str:
        """Return the path of a note that may not be there yet: from here with `./` or if absolute, else as it is."""
        if text.startswith("/"):
            folder, _, name = text.rpartition("/")
            real = os.path.join(os.path.realpath(folder or "/"), name)
            return real[len(self._root.rstrip("/")) + 1 :] if real.startswith(self._root.rstrip("/") + "/") else text
        joined = self._joined(text) if text.startswith(("./", "../")) else None
        return text.removeprefix("./") if joined is None else joined

    def folder(self, text: str) -> str:
        """Return a folder from the root, if it is one from here."""
        joined = self._joined(text)
        if joined is None or (joined != "." and not os.path.isdir(os.path.join(self._root, joined))):
            return text
        return joined

    def words(self, words: str) -> str:
        """Return a query whose `in:` filters count from the root."""

        def from_root(found: re.Match[str]) -> str:
            if words.count('"', 0, found.start()) % 2:  # it is in a phrase
                return found[0]
            return f'in:"{self.folder(found["quoted"] or found["bare"])}"'

        return _IN_FILTER.sub(from_root, words) if self._folder else words

    def _joined(self, text: str) -> str | None:
        """Return a path from the root that counts from here; None when here is not beneath the root, or it is absolute.

        One that leads out of the root begins with `..`, which no memory follows.
        """
        if not self._folder or text.startswith("/"):
            return None
        return posixpath.normpath(posixpath.join(self._folder, text))

    def _is_note(self, text: str) -> bool:
        stems = (text, _LINES.sub("", text), text.rpartition("#")[0] or text)
        return any(os.path.lexists(os.path.join(self._root, stem + end)) for stem in stems for end in ("", ".md"))
