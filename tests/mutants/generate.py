"""All faults that simple edits of the package make, and a fixed random sample of them for each room.

What no test could see is left out by rule: annotations, docstrings, assertions that narrow a type, the wording of
errors and log lines, progress, sizes of caches, and numbers other than 0, 1 and 2, which are tuned and promised to
nobody.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeGuard

from tests.mutants.fault import Fault, Offsets, blocks, modules, one_line

SMALLEST_SAMPLE = 5
LARGEST_SAMPLE = 14
CANDIDATES_A_FAULT = 45
"""A room of this many possible faults more is given one more in its sample."""
FAULTS_A_FUNCTION = 2

_FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_OFF_BY_ONE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
}  # fmt: skip
_OTHER_FUNCTION = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
_DROPPED_METHODS = frozenset({"lower", "strip", "lstrip", "rstrip", "casefold", "removeprefix", "removesuffix"})
_OTHER_METHOD = {"startswith": "endswith", "endswith": "startswith", "append": "count", "partition": "rpartition"}
_ONE_ORDER = frozenset({"isinstance", "issubclass", "zip"})
"""With other arguments first these fail whatever they are given: any test finds that."""
_EMPTY = {"list": "[]", "tuple": "()", "str": '""', "dict": "{}", "set": "set()", "Sequence": "()"}
_SQL = re.compile(r"\b(SELECT|DELETE|UPDATE|INSERT|WHERE)\b")
_SQL_EDITS = (
    (" AND ", " OR "), (" OR ", " AND "), (" <= ", " < "), (" < ", " <= "), (" >= ", " > "), (" > ", " >= "),
    (" DESC", " ASC"), (" != ", " = "), ("NOT EXISTS", "EXISTS"), ("NOT IN", "IN"), ("max(", "min("),
    ("count(", "max("), ("sum(", "max("), ("DISTINCT ", ""), (" + ", " - "),
)  # fmt: skip
_UNSEEN_CALLS = re.compile(
    r"\b(log|_log|logger|logging|logs|progress|warn|lru_cache|echo|secho|register|gc|unload|close|cancel|unlink|join)$"
)
_UNSEEN_KEYWORDS = frozenset(
    {"timeout", "maxsize", "hint", "daemon", "cutoff", "n", "help", "metavar", "name", "mode", "indent"}
)
_UNSEEN_FUNCTIONS = frozenset({"__repr__", "__str__", "__exit__", "close"})


def sample(package: Path, seed: str) -> list[Fault]:
    """Return the sample of all rooms: the same for the same functions, wherever in the package they are."""
    rooms: dict[str, list[Fault]] = defaultdict(list)
    for fault in candidates(package):
        rooms[fault.room].append(fault)
    return [fault for room in sorted(rooms) for fault in _sample_room(rooms[room], seed)]


def _sample_room(faults: Sequence[Fault], seed: str) -> Iterator[Fault]:
    size = min(LARGEST_SAMPLE, SMALLEST_SAMPLE + len(faults) // CANDIDATES_A_FAULT)
    by_hash = sorted(faults, key=lambda fault: hashlib.sha256(f"{seed} {fault.identity}".encode()).digest())
    functions: Counter[str] = Counter()
    for fault in by_hash:
        if functions.total() < size and functions[fault.function] < FAULTS_A_FUNCTION:
            functions[fault.function] += 1
            yield fault


def candidates(package: Path) -> Iterator[Fault]:
    """Yield every fault there is a rule for, none twice."""
    seen: Counter[str] = Counter()
    for path, source in modules(package):
        for fault in _Walk(path, source).faults():
            numbered = replace(fault, nth=seen[fault.identity])
            seen[fault.identity] += 1
            yield numbered


class _Walk:
    """Goes through one module, and knows in which function and in which block it is."""

    def __init__(self, path: str, source: bytes) -> None:
        self._path = path
        self._offsets = Offsets(source)
        self._tree = ast.parse(source)
        self._found: list[Fault] = []
        self._blocks = blocks(self._tree)
        self._function: list[str] = []
        self._block = ""
        self._names: tuple[str, ...] = ()

    def faults(self) -> list[Fault]:
        """Return all faults of the module."""
        for statement in self._tree.body:
            self._names = _defined(statement)
            self._statement(statement)
        return self._found

    # ------------------------------------------------------------------------------------------- walking

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._enter_function(node)
        elif isinstance(node, ast.ClassDef):
            self._function.append(node.name)
            for inner in node.body:
                self._statement(inner)
            self._function.pop()
        elif not _is_unseen(node):
            self._edit_statement(node)
            for field, value in ast.iter_fields(node):
                self._field(field, value)

    def _field(self, name: str, value: object) -> None:
        if name in ("annotation", "returns", "type_comment"):
            return
        if isinstance(value, ast.expr):
            self._expression(value)
        elif isinstance(value, list) and value:
            if isinstance(value[0], ast.stmt):
                self._statements(value)
                return
            for item in value:
                self._item(item)

    def _item(self, item: object) -> None:
        if isinstance(item, ast.expr):
            self._expression(item)
        elif isinstance(item, ast.ExceptHandler):
            self._statements(item.body)
        elif isinstance(item, ast.withitem):
            self._expression(item.context_expr)
        elif isinstance(item, ast.match_case):
            self._statements(item.body)

    def _statements(self, body: Sequence[ast.stmt]) -> None:
        before, self._block = self._block, self._blocks.get(body[0].lineno, "")
        for statement in body:
            self._statement(statement)
        self._block = before

    def _enter_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name in _UNSEEN_FUNCTIONS:
            return
        self._function.append(node.name)
        before, self._block = self._block, self._blocks[node.body[0].lineno]
        for statement in node.body:
            self._statement(statement)
        self._edit_returns(node)
        self._block = before
        self._function.pop()

    def _expression(self, node: ast.expr) -> None:
        if isinstance(node, ast.JoinedStr) or _is_unseen_call(node):
            return
        self._edit_expression(node)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.comprehension):
                for inner in (child.iter, *child.ifs):
                    self._expression(inner)
            elif isinstance(child, ast.keyword):
                if child.arg not in _UNSEEN_KEYWORDS:
                    self._expression(child.value)
            elif isinstance(child, ast.expr):
                self._expression(child)

    # ------------------------------------------------------------------------------------------- edits

    def _add(self, operator: str, node: ast.expr | ast.stmt, replacement: str) -> None:
        start, end = self._offsets.span(node)
        before = one_line(self._offsets.text(node))
        function = ".".join(self._function) or "<module>"
        self._found.append(
            Fault(
                self._path,
                function,
                operator,
                before[:160],
                one_line(replacement)[:160],
                start,
                end,
                replacement,
                self._block,
                () if self._block else self._names,
            )
        )

    def _edit_statement(self, node: ast.stmt) -> None:
        if self._block and self._may_be_removed(node):
            self._add("statement removed", node, "pass")
        elif isinstance(node, ast.If | ast.While) and not isinstance(node.test, ast.Compare | ast.BoolOp):
            test = node.test.operand if _is_not(node.test) else ast.UnaryOp(ast.Not(), node.test)
            self._add("condition negated", node.test, f"({ast.unparse(test)})")
        if isinstance(node, ast.If) and self._block and len(node.body) == 1 and isinstance(node.body[0], ast.Return):
            self._add("early return removed", node.body[0], "pass")

    def _may_be_removed(self, node: ast.stmt) -> bool:
        """Tell whether the function still makes sense without a statement, so that a test must show what it is for."""
        if isinstance(node, ast.Expr):
            return isinstance(node.value, ast.Call) and not _is_unseen_call(node.value)
        if isinstance(node, ast.Assign):
            is_kept = isinstance(node.targets[0], ast.Attribute | ast.Subscript)
            return is_kept and self._function[-1] not in ("__init__", "__post_init__")
        return isinstance(node, ast.AugAssign | ast.Raise | ast.Continue | ast.Break)

    def _edit_returns(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        annotation = ast.unparse(node.returns) if node.returns is not None else ""
        kind = annotation.partition("[")[0]
        for inner in _own_statements(node.body):
            if not isinstance(inner, ast.Return) or inner.value is None:
                continue
            if isinstance(inner.value, ast.Constant | ast.List | ast.Dict | ast.Tuple):
                continue
            if kind == "bool":
                self._add("return replaced", inner, f"return not ({self._offsets.text(inner.value)})")
            elif kind in _EMPTY:
                self._add("return replaced", inner, f"return {_EMPTY[kind]}")
            elif annotation.endswith("| None"):
                self._add("return replaced", inner, "return None")
            elif kind == "int":
                self._add("return replaced", inner, f"return ({self._offsets.text(inner.value)}) + 1")

    def _edit_expression(self, node: ast.expr) -> None:
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            self._edit_comparison(node)
        elif isinstance(node, ast.BoolOp):
            self._edit_condition(node)
        elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            changed = ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)
            if not any(
                isinstance(side, ast.Constant | ast.JoinedStr) and _is_text(side) for side in (node.left, node.right)
            ):
                self._add("arithmetic changed", node, f"({ast.unparse(changed)})")
        elif isinstance(node, ast.Constant):
            self._edit_constant(node)
        elif isinstance(node, ast.Call):
            self._edit_call(node)
        elif isinstance(node, ast.IfExp):
            swapped = ast.IfExp(node.test, node.orelse, node.body)
            self._add("branches swapped", node, f"({ast.unparse(swapped)})")

    def _edit_comparison(self, node: ast.Compare) -> None:
        for name, table in (("comparison flipped", _FLIPPED), ("boundary moved", _OFF_BY_ONE)):
            other = table.get(type(node.ops[0]))
            if other is not None:
                changed = ast.Compare(node.left, [other()], node.comparators)
                self._add(name, node, f"({ast.unparse(changed)})")

    def _edit_condition(self, node: ast.BoolOp) -> None:
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._add("and/or changed", node, f"({ast.unparse(ast.BoolOp(other, node.values))})")
        for number in range(len(node.values)):
            rest = [value for place, value in enumerate(node.values) if place != number]
            left = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
            self._add("condition dropped", node, f"({ast.unparse(left)})")

    def _edit_constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._add("constant changed", node, str(not value))
        elif isinstance(value, int) and value in (0, 1, 2):
            self._add("constant changed", node, str(value + 1))
        elif isinstance(value, str) and _SQL.search(value):
            source = self._offsets.text(node)
            for old, new in _SQL_EDITS:
                if old in source:
                    self._add("SQL changed", node, source.replace(old, new, 1))

    def _edit_call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in _OTHER_FUNCTION and node.args:
            name = _OTHER_FUNCTION[node.func.id]
            keywords = [] if name == "list" else node.keywords
            self._add("function changed", node, ast.unparse(ast.Call(ast.Name(name), node.args, keywords)))
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _DROPPED_METHODS:
            self._add("call dropped", node, f"({ast.unparse(node.func.value)})")
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _OTHER_METHOD:
            other = ast.Attribute(node.func.value, _OTHER_METHOD[node.func.attr])
            self._add("function changed", node, ast.unparse(ast.Call(other, node.args, node.keywords)))
        elif ast.unparse(node.func) in _ONE_ORDER:
            return
        elif len(node.args) >= 2 and all(isinstance(item, ast.Name | ast.Attribute) for item in node.args[:2]):
            swapped = [node.args[1], node.args[0], *node.args[2:]]
            self._add("arguments swapped", node, ast.unparse(ast.Call(node.func, swapped, node.keywords)))


def _defined(node: ast.stmt) -> tuple[str, ...]:
    if isinstance(node, ast.Assign):
        return tuple(target.id for target in node.targets if isinstance(target, ast.Name))
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return (node.target.id,)
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return (node.name,)
    return ()


def _own_statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements and those within them, but not those of functions within."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for _, value in ast.iter_fields(statement):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                yield from _own_statements(value)
            elif isinstance(value, list) and value and isinstance(value[0], ast.ExceptHandler):
                for handler in value:
                    yield from _own_statements(handler.body)


def _is_unseen(node: ast.stmt) -> bool:
    """Tell whether no test could see an edit of a statement."""
    if isinstance(node, ast.Assert | ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal):
        return True
    if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "__name__ == '__main__'"):
        return True
    if isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
    ):
        return True
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_unseen_call(node: ast.expr) -> bool:
    """Tell whether a call is an error being made, a line of a log, or a matter of speed and tidiness."""
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func)
    return bool(_UNSEEN_CALLS.search(name.partition(".")[0]) or _UNSEEN_CALLS.search(name)) or (
        name[:1].isupper() and name.endswith(("Error", "Exception", "Unavailable", "Failure"))
    )


def _is_not(node: ast.expr) -> TypeGuard[ast.UnaryOp]:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
