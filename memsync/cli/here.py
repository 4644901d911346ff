"""Paths as a person types them in the current folder -> paths relative to the memory root, as a memory names them.

A path that exists under the root is taken as that, because searches print such paths and they must mean the same from
everywhere. Any other path counts from the current folder, and so does one that begins with `./` or `../`. A path that
leads out of the root stays as it was typed: the memory refuses it, and its error then names what the person typed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

_LINES = re.compile(r":\d+(?:[-:]\d+)?$")
_IN_FILTER = re.compile(r'(?:(?<=\s)|^)in:(?:"(?P<quoted>[^"]+)"|(?P<bare>[^\s"]+))')
_FROM_HERE = ("./", "../")


def without_place(location: str) -> str:
    """Return the path in a location, without its lines or heading."""
    return _LINES.sub("", location.partition("#")[0] or location)


class Here:
    """The current folder, as seen from a memory root."""

    def __init__(self, root: str, beneath: Callable[[str, str], str | None], folder: str | None = None) -> None:
        """`root` is the real path of the memory root; `beneath(root, path)` makes an absolute path relative to it.

        It returns None for a path outside of the root. `folder` is the current folder unless it is given.
        """
        self._root = root
        self._beneath = beneath
        try:
            self._cwd = os.getcwd() if folder is None else folder
        except OSError:  # it was removed
            self._cwd = ""

    def location(self, text: str) -> str:
        """Return where a note, or a place in it (`:12`, `#heading`), is from the root, if its path counts from here."""
        inner = self._from_root(text)
        if not inner:
            return text
        if text.startswith(("/", *_FROM_HERE)):
            return inner
        return inner if not self._is_note(text) and self._is_note(inner) else text

    def note(self, text: str) -> str:
        """Return the path of a note that may not exist yet.

        An absolute path, and one that begins with `./` or `../`, is made relative to the root; any other stays.
        """
        inner = self._from_root(text) if text.startswith(("/", *_FROM_HERE)) else None
        if not inner:
            return text
        return f"{inner}/" if text.endswith("/") else inner

    def folder(self, text: str) -> str:
        """Return a folder from the root, if it is one from here."""
        inner = self._from_root(f"{text}/")
        if inner is None or not os.path.isdir(os.path.join(self._root, inner)):
            return text
        return inner or "."

    def words(self, words: str) -> str:
        """Return a query whose `in:` filters count from the root."""

        def from_root(found: re.Match[str]) -> str:
            if words.count('"', 0, found.start()) % 2:  # it is in a phrase
                return found[0]
            return f'in:"{self.folder(found["quoted"] or found["bare"])}"'

        return _IN_FILTER.sub(from_root, words)

    def _from_root(self, text: str) -> str | None:
        """Return a path relative to the root, empty for the root itself; None if it lies outside.

        The given path is absolute or counts from the current folder; one that ends in a slash is a folder.
        """
        if not self._cwd and not text.startswith("/"):
            return None
        path = os.path.join(self._cwd, text)
        inner = self._beneath(self._root, path)
        if inner is not None:
            return inner
        folder, _, name = path.rpartition("/")  # a link on the way may lead into the root
        return self._beneath(self._root, os.path.join(_real(folder or "/"), name))

    def _is_note(self, text: str) -> bool:
        stems = (text, _LINES.sub("", text), text.rpartition("#")[0] or text)
        return any(os.path.lexists(os.path.join(self._root, stem + end)) for stem in stems for end in ("", ".md"))


def _real(folder: str) -> str:
    try:
        return os.path.realpath(folder)
    except ValueError:  # it holds a NUL
        return folder
