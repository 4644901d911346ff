"""A fault: one edit of one function of the package, described so that it outlives moves of that function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path, PurePosixPath

PACKAGE = "memsync"

# A room is a folder of the package. Modules beside the folders, and folders that serve one purpose, are grouped.
_GROUPS = {
    "__init__": "memory",
    "__main__": "cli",
    "config_file": "settings",
    "setting_paths": "settings",
    "settings": "settings",
    "trust": "settings",
    "user_folders": "settings",
    "errors": "model",
    "ports": "model",
    "doctor": "upkeep",
    "usage": "usage",
    "file_lock": "sync",
}
_ALONE = "memory"
"""The room of a module beside the folders that no group names."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Bytes `start` to `end` of a module become `replacement`.

    `block` names the innermost list of statements around the edit, nothing outside all functions;
    `names` are the module's names that an edit outside all functions defines.
    """

    path: str
    function: str
    operator: str
    before: str
    after: str
    start: int
    end: int
    replacement: str
    block: str
    names: tuple[str, ...] = ()
    nth: int = 0

    @property
    def room(self) -> str:
        """The room of the package that the fault is in."""
        return room_of(self.path)

    @property
    def identity(self) -> str:
        """What the fault is, whatever module its function is in."""
        return f"{self.function} | {self.operator} | {self.before} | {self.after} | {self.nth}"

    def __str__(self) -> str:
        return f"{self.path}: {self.function}: {self.operator}: {self.before}  ->  {self.after}"

    def plant(self, source: bytes) -> bytes:
        """Return a module's source with the fault in it; raises SyntaxError if that is no Python."""
        planted = source[: self.start] + self.replacement.encode() + source[self.end :]
        ast.parse(planted)
        return planted


def room_of(path: str) -> str:
    """Return the room that a module of the package belongs to."""
    parts = PurePosixPath(path).with_suffix("").parts
    if len(parts) > 1:
        return parts[0]
    return _GROUPS.get(parts[0], _ALONE)


def modules(package: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the path within the package and the source of each module, by path."""
    for path in sorted(package.rglob("*.py")):
        yield path.relative_to(package).as_posix(), path.read_bytes()


def one_line(text: str) -> str:
    """Return a piece of source on one line."""
    return " ".join(text.split())


class Offsets:
    """Where the nodes of a module are in its bytes."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return where a node begins and ends."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._lines[node.lineno - 1] + node.col_offset, self._lines[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr | ast.stmt) -> str:
        """Return a node's source."""
        start, end = self.span(node)
        return self.source[start:end].decode()


def blocks(tree: ast.Module) -> dict[int, str]:
    """Return the name of each list of statements within functions, by the line of its first: function and number."""
    found: dict[int, str] = {}
    for function, name in functions(tree):
        number = count()
        for node in ast.walk(function):
            for field in ("body", "orelse", "finalbody"):
                body = getattr(node, field, None)
                if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                    found[body[0].lineno] = f"{name}#{next(number)}"
    return found


def functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    """Yield each function with its name, those of classes and those within others included, outer ones first."""
    for child in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child, prefix + child.name
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{prefix}{child.name}."
        yield from functions(child, inner)
