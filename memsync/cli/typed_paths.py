"""Convert paths that a person types in the current folder to paths relative to the memory root.

Searches print paths relative to the root, which must mean the same in every folder. So a path that exists under the
root counts from the root. Any other path counts from the current folder, and so does one that begins with `./` or
`../`. A path that leads out of the root stays as it was typed: the memory refuses it, and its error names it so.
"""

from __future__ import annotations

import os
import re

_LINES = re.compile(r":\d+(?:[-:]\d+)?$")
_IN_FILTER = re.compile(r'(?:(?<=\s)|^)in:(?:"(?P<quoted>[^"]+)"|(?P<bare>[^\s"]+))')
_FROM_HERE = ("./", "../")


class Here:
    """The current folder, as seen from a memory root."""

    def __init__(self, root: str, folder: str | None = None) -> None:
        """`root` is the real path of the memory root; `folder` defaults to the current folder."""
        self._root = root
        try:
            self._cwd = os.getcwd() if folder is None else folder
        except OSError:  # it was removed
            self._cwd = ""

    def opened_by(self, path: str) -> str:
        """Return an absolute path as a program opens it here: relative if it is in the current folder."""
        folder = os.path.realpath(self._cwd) if self._cwd else ""
        return path.removeprefix(f"{folder.rstrip('/')}/") if folder else path

    def location(self, text: str) -> str:
        """Return the location of a note, or of a place in it (`:12`, `#heading`), relative to the root."""
        relative = self._from_root(text)
        if not relative:
            return text
        if text.startswith(("/", *_FROM_HERE)):
            return relative
        return relative if not self._is_note(text) and self._is_note(relative) else text

    def note(self, text: str) -> str:
        """Return the path of a note that may not exist yet.

        An absolute path, and one that begins with `./` or `../`, is made relative to the root; any other stays.
        """
        relative = self._from_root(text) if text.startswith(("/", *_FROM_HERE)) else None
        if not relative:
            return text
        return f"{relative}/" if text.endswith("/") else relative

    def folder(self, text: str) -> str:
        """Return the path of a folder relative to the root; return text that names no folder here unchanged."""
        relative = self._from_root(f"{text}/")
        if relative is None or not os.path.isdir(os.path.join(self._root, relative)):
            return text
        return relative or "."

    def words(self, words: str) -> str:
        """Return a query with the folders of its `in:` filters relative to the root."""

        def from_root(match: re.Match[str]) -> str:
            if words.count('"', 0, match.start()) % 2:  # it is in a phrase
                return match[0]
            return f'in:"{self.folder(match["quoted"] or match["bare"])}"'

        return _IN_FILTER.sub(from_root, words)

    def _from_root(self, text: str) -> str | None:
        """Return a path relative to the root, empty for the root itself; None if it lies outside.

        `text` is absolute or counts from the current folder; a folder's path ends in a slash.
        """
        from memsync.notes.naming import path_under

        if not self._cwd and not text.startswith("/"):
            return None
        path = os.path.join(self._cwd, text)
        relative = path_under(self._root, path)
        if relative is not None:
            return relative
        folder, _, name = path.rpartition("/")  # a link on the way may lead into the root
        return path_under(self._root, os.path.join(_real(folder or "/"), name))

    def _is_note(self, text: str) -> bool:
        stems = (text, _LINES.sub("", text), text.rpartition("#")[0] or text)
        return any(os.path.lexists(os.path.join(self._root, stem + end)) for stem in stems for end in ("", ".md"))


def _real(folder: str) -> str:
    try:
        return os.path.realpath(folder)
    except ValueError:  # it holds a NUL
        return folder
