"""Which tests come to which block of statements of the package, recorded a test file at a time and kept."""

from __future__ import annotations

import ast
import hashlib
import json
import queue
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.mutants.copies import PROJECT, Copy, run_tests
from tests.mutants.fault import PACKAGE, Fault, blocks, functions, modules

LEFT_OUT = {
    "tests/convergence/test_planted_bugs.py": "plants faults itself",
    "tests/faults/test_planted_database_bugs.py": "plants faults itself",
    "tests/project/test_guards.py": "looks at the form of the source, not at what it does",
}
SLOW_SECONDS = 2.0
CASES_AT_FIRST = 2
"""So many cases of a test with parameters have their turn before those of other tests."""
_SKIPPED_FOLDER = "tests/mutants"


def digest(*parts: bytes) -> str:
    """Return a name for some content."""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]


def package_digest() -> str:
    """Return a name for the whole package as it is."""
    return digest(*(part for path, source in modules(PROJECT / PACKAGE) for part in (path.encode(), source)))


def support_digest() -> str:
    """Return a name for what all tests share: fixtures, and modules of tests that hold no test."""
    shared = [path for path in sorted((PROJECT / "tests").rglob("*.py")) if not path.name.startswith("test_")]
    return digest(*(path.read_bytes() for path in shared if _SKIPPED_FOLDER not in path.as_posix()))


def test_files() -> list[str]:
    """Return the test files that may find faults."""
    found = [path.relative_to(PROJECT).as_posix() for path in sorted((PROJECT / "tests").rglob("test_*.py"))]
    return [name for name in found if name not in LEFT_OUT]


class Reach:
    """Tests by block, their usual seconds, and where a test's own blocks are few."""

    def __init__(self, kept: Path) -> None:
        self._kept = kept / "reached"
        self._kept.mkdir(parents=True, exist_ok=True)
        self.seconds: dict[str, float] = {}
        self.blocks: dict[str, set[str]] = defaultdict(set)
        self._size: dict[str, int] = defaultdict(int)
        self._package = package_digest()
        self._references = _references(PROJECT / PACKAGE)

    def record(self, files: Sequence[str], at_once: int, *, keep: bool) -> Iterator[str]:
        """Learn what each test file reaches, from what is kept where nothing changed. Yield what was done.

        With `keep`, files whose own tests are as they were are not traced again, whatever else has changed.
        """
        shared = f"{self._package} {support_digest()}"
        own = {name: {"tests": digest((PROJECT / name).read_bytes()), "shared": shared} for name in files}
        stale = [
            name
            for name in files
            if any(self._read(name).get(key) != own[name][key] for key in (("tests",) if keep else ("tests", "shared")))
        ]
        if stale:
            copies = [Copy() for _ in range(at_once)]
            free: queue.Queue[Copy] = queue.Queue()
            for copy in copies:
                _instrument(copy.folder)
                free.put(copy)

            def trace(name: str) -> str:
                copy = free.get()
                found = _trace(copy, name)
                self._place(name).write_text(json.dumps({**own[name], **found}))
                free.put(copy)
                failed = "".join(f"\n    does not count, fails unmutated: {test}" for test in found["failed"])
                return f"traced {name}{failed}"

            with ThreadPoolExecutor(at_once) as pool:
                yield from pool.map(trace, stale)
            for copy in copies:
                copy.remove()
        for name in files:
            self._learn(self._read(name))

    def _place(self, name: str) -> Path:
        return self._kept / f"{name.replace('/', '.')}.json"  # files in two folders may have the same name

    def _read(self, name: str) -> dict[str, Any]:
        place = self._place(name)
        found: dict[str, Any] = json.loads(place.read_text()) if place.exists() else {}
        return found

    def _learn(self, found: dict[str, Any]) -> None:
        tests = [test for test in found["seconds"] if test not in found["failed"]]
        self.seconds.update({test: found["seconds"][test] for test in tests})
        for context, reached in found["reached"].items():
            for test in tests if context.endswith("::*") else [context]:
                if test in self.seconds:
                    self._size[test] += len(reached)
                    for block in reached:
                        self.blocks[block].add(test)

    def tests(self, fault: Fault) -> list[str]:
        """Return the tests that could find a fault: quick ones before slow ones, and of each the best first.

        Better is what reaches little else, and whose file is named after the fault's module.
        """
        blocks = [f"{fault.path}:{fault.block}"] if fault.block else self._referring(fault)
        found = {test for block in blocks for test in self.blocks.get(block, ())}
        subject = Path(fault.path).stem[:5]

        def cost(test: str) -> tuple[float, str]:
            is_named = subject in test.partition("::")[0]
            return self._size[test] * (0.2 + self.seconds[test]) * (0.2 if is_named else 1.0), test

        places: Counter[str] = Counter()
        turns: dict[str, tuple[bool, bool]] = {}
        for test in sorted(found, key=cost):
            function = test.partition("[")[0]
            places[function] += 1
            turns[test] = self.seconds[test] > SLOW_SECONDS, places[function] > CASES_AT_FIRST
        return sorted(turns, key=lambda test: (turns[test], cost(test)))

    def _referring(self, fault: Fault) -> list[str]:
        """Return the blocks that use what an edit outside all functions defines; those of its module if none does."""
        own = {block for name in fault.names for block in self._references.get(name, ())}
        return sorted(own) or [block for block in self.blocks if block.startswith(f"{fault.path}:")]


def _trace(copy: Copy, name: str) -> dict[str, Any]:
    """Run one test file in an instrumented copy."""
    file = copy.folder / "reached.txt"
    file.unlink(missing_ok=True)
    file.touch()
    ran = run_tests(copy, [name], {}, environ={"MUTANTS_REACHED": str(file)})
    reached: dict[str, set[str]] = defaultdict(set)
    for line in file.read_text(errors="replace").splitlines():
        context, tab, block = line.rpartition("\t")
        if tab:
            reached[context].add(block)
    return {
        "seconds": dict(ran.seconds),
        "failed": sorted(ran.failed),
        "reached": {context: sorted(blocks) for context, blocks in reached.items()},
    }


def _instrument(folder: Path) -> None:
    """Put a call at the head of each block of statements within functions."""
    shutil.copy(Path(__file__).parent / "reached.py", folder / "memsync_reached.py")
    for path, source in modules(folder / PACKAGE):
        tree = ast.parse(source)
        named = blocks(tree)
        for function, _ in functions(tree):
            _instrument_function(function, path, named)
        position = 0
        while position < len(tree.body) and _is_first(tree.body[position]):
            position += 1
        tree.body[position:position] = ast.parse("from memsync_reached import reach as _mutants_reach").body
        (folder / PACKAGE / path).write_text(ast.unparse(ast.fix_missing_locations(tree)))


def _instrument_function(function: ast.FunctionDef | ast.AsyncFunctionDef, path: str, named: Mapping[int, str]) -> None:
    for node in ast.walk(function):
        if node is not function and isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt) and not _is_call(block[0]):
                call = ast.parse(f"_mutants_reach({f'{path}:{named[block[0].lineno]}'!r})").body[0]
                block.insert(1 if _is_docstring(block[0]) else 0, call)


def _is_call(node: ast.stmt) -> bool:
    return ast.unparse(node).startswith("_mutants_reach(")


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_first(node: ast.stmt) -> bool:
    return _is_docstring(node) or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def _references(package: Path) -> dict[str, list[str]]:
    """Return the function blocks in which each name is used, through constants that are made of it, too."""
    found: dict[str, list[str]] = defaultdict(list)
    made_of: dict[str, set[str]] = defaultdict(set)
    for path, source in modules(package):
        tree = ast.parse(source)
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    for used in ast.walk(node):
                        if isinstance(used, ast.Name) and isinstance(target, ast.Name) and used.id != target.id:
                            made_of[used.id].add(target.id)
        named = blocks(tree)
        for function, _ in functions(tree):
            for name in {_name(used) for used in ast.walk(function)} - {""}:
                found[name].append(f"{path}:{named[function.body[0].lineno]}")
    for name in list(made_of):
        found[name] += [block for made in _all_made_of(name, made_of) for block in found.get(made, ())]
    return found


def _all_made_of(name: str, made_of: Mapping[str, set[str]]) -> set[str]:
    """Return the constants that a constant is part of, of whatever is part of it included."""
    found: set[str] = set()
    new = {name}
    while new:
        new = {made for one in new for made in made_of.get(one, ())} - found
        found |= new
    return found - {name}


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""
