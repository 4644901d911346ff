"""No module imports another that imports it, at any distance and even inside a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter

from tests.conftest import PROJECT

MODULES = {
    ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (PROJECT / "memsync").rglob("*.py")
}


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the modules that run-time code imports; those of `if TYPE_CHECKING` only describe types."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{name.name}" for name in node.names)
            yield node.module
        elif not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield from imported(node)


def test_no_circle() -> None:
    """The package itself does not count: each import of a part of it imports it, too."""
    edges = {
        module: {name for name in imported(ast.parse(path.read_text())) if name in MODULES}
        - {module, *(module.rsplit(".", depth)[0] for depth in range(1, module.count(".") + 1))}
        for module, path in MODULES.items()
    }
    TopologicalSorter(edges).prepare()  # raises CycleError with the modules of a circle
