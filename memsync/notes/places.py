"""Which part of a memory root is to be looked at again: the files and folders that something was reported about."""

from __future__ import annotations

from collections.abc import Iterable


class Places:
    """Root-relative paths, each of which may be a file, a folder with all beneath it, or nothing any more."""

    def __init__(self, paths: Iterable[str]) -> None:
        """`paths` have forward slashes and none at the end."""
        self.paths = frozenset(paths)
        self._on_the_way = {folder for path in self.paths for folder in _folders_above(path)}

    def hold(self, path: str) -> bool:
        """Tell whether a file or folder is one of them or lies beneath one."""
        return path in self.paths or any(folder[:-1] in self.paths for folder in _folders_above(path))

    def are_beneath(self, folder: str) -> bool:
        """Tell whether one of them lies beneath a folder, whose name ends in a slash; the root's is empty."""
        return not folder or folder in self._on_the_way


def _folders_above(path: str) -> list[str]:
    return [path[: position + 1] for position, character in enumerate(path) if character == "/"]
