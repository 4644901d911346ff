"""Write docs/operations.md, docs/results.schema.json, cli/table.py and mcp_server/tools.json from the declarations.

Run it after a change of an operation or a command: `make reference`. A test compares the files with the declarations.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any, get_origin

from memsync import cli, features
from memsync.cli.build import commands_in
from memsync.mcp_server.tool_list import FILE, SEVERAL
from memsync.mcp_server.tools import described, offered
from memsync.model.filters import FILTERS
from memsync.model.grouped import grouped
from memsync.model.json import schemas_of
from memsync.operation import OPERATIONS, Operation, Parameter

DOCS = Path(__file__).parent.parent / "docs"
TABLE = Path(cli.__file__).with_name("table.py")
SECTIONS = ("Set up", "Search", "Notes", "History", "Conversations", "Agents", "Upkeep", "Index", "Daemon")
_HEAD = """# Operations

What a memory can do, by task: the commands; the operation and its MCP tool; its parameters. An operation is a method of
[`Memory`](code.md) and, unless it is local, of the daemon and the HTTP API ([programs.md](programs.md)).
[results.schema.json](results.schema.json) has the members of its result. A parameter in bold is required, one without a
type is text, and those in parentheses are [described below](#shared-parameters).
"""
_SHARED = """## Shared parameters
"""


_WITHIN = (
    "answer_request", "append_messages", "check_text", "delete_note", "embed_question", "logged", "names", "neighbours",
    "note_session", "read_note", "read_thread", "truncate_thread", "write_note",
)  # fmt: skip
"""Operations without a command that memsync itself or a program asks (docs/code.md)."""
_FILTERS = {*(name.replace("-", "_") for name in FILTERS), "folder", "archived"}
"""Parameters of `search` that the page about searching describes."""
_BY_HAND = {
    "dismiss": ("Notes", "memsync recover --dismiss"),
    "forget": ("Upkeep", "memsync forget"),
    "overwritten": ("Notes", "memsync recover"),
    "purge_forgotten": ("Upkeep", "memsync forget --purge"),
    "recover": ("Notes", "memsync recover --apply"),
    "undo_forget": ("Upkeep", "memsync forget --undo"),
    "undo_move": ("Notes", "memsync mv --undo"),
    "undo_prune": ("Upkeep", "memsync prune --undo"),
}
"""Operations of commands that are written by hand, or of an option -> task and command."""
_SERVED_BY_HAND = {"pref get": ""}
"""Commands that are written by hand, of short operations; as SERVED of cli/table.py."""
_TABLE = '''"""The commands. `make reference` writes this table, so that no command is loaded before it is called."""

# fmt: off
COMMANDS = {{
    {}
}}
"""Section -> the first words of its commands -> the modules that have them."""
SERVED = {}
"""The short commands, which a daemon runs -> the parameter with which several memories can be asked."""
WRITING = {}
"""Those of SERVED that write."""
'''


def page(operations: Iterable[Operation[Any, Any]]) -> str:
    """Return the reference of operations as Markdown."""
    named = sorted((*_named(operation), operation.name) for operation in operations if operation.name not in _WITHIN)
    of_name = {operation.name: operation for operation in operations}
    uses = Counter(_row(parameter) for *_, name in named for parameter in of_name[name].values.values())
    commonest = {row.partition("`: ")[0]: row for row, count in reversed(uses.most_common()) if count > 1}
    shared = sorted(commonest.values(), key=lambda row: row.strip("-* "))
    tasks = grouped((task, _section(title, of_name[name], shared)) for task, title, name in named)
    sections = [text for task in SECTIONS for text in (f"## {task}\n", *tasks.get(task, ())) if tasks.get(task)]
    return "\n".join([_HEAD, *sections, _SHARED, *shared, ""])


def _named(operation: Operation[Any, Any]) -> tuple[str, str]:
    """Return the task of an operation, and the names by which a reader knows it: its commands, or its tool."""
    if operation.name in _BY_HAND:
        return _BY_HAND[operation.name]
    names = [f"memsync {command.path}" for command in operation.commands]
    task = str(getattr(importlib.import_module(operation.function.__module__), "SECTION", "Notes"))
    return task, ", ".join(names) or (operation.tool.name if operation.tool else operation.name)


def _section(title: str, operation: Operation[Any, Any], shared: Container[str]) -> str:
    flags = {"writes": operation.writes, "slow": operation.is_slow, "local": operation.is_local}
    filters = [name for name in operation.values if name in _FILTERS] if operation.name == "search" else []
    rows = [_row(parameter) for name, parameter in operation.values.items() if name not in filters]
    others = ", ".join(row.partition(": ")[0].removeprefix("- ").partition(" (")[0] for row in rows if row in shared)
    facts = [
        f"`{operation.name}`{f' ({others})' if others else ''}",
        *([f"`{operation.tool.name}`"] if operation.tool else []),
        *(name for name, is_set in flags.items() if is_set),
    ]
    named = ", ".join(f"`{name}`" for name in filters)
    listed = [
        *(row for row in rows if row not in shared),
        *([f"- {named}: the [filters](search.md#filters), each but the last a list"] if named else []),
    ]
    summary = f"{', '.join(facts)}: {_shortened(operation.summary)}"
    return "\n".join([f"### {title}", "", summary, *(["", *listed] if listed else []), ""])


def _shortened(summary: str) -> str:
    """Return a summary without the errors that Python raises, and without its first word if every reader expects it."""
    text = re.sub(r" Raises .*", "", summary).removeprefix("Return ")
    return text[0].upper() + text[1:]


def _row(parameter: Parameter) -> str:
    name = f"**`{parameter.name}`**" if parameter.is_needed else f"`{parameter.name}`"
    has_default = not parameter.is_needed and parameter.default and "[default" not in parameter.help
    default = f"default {json.dumps(parameter.default, ensure_ascii=False)}" if has_default else ""
    facts = ", ".join(fact for fact in (_kind(parameter), default) if fact)
    text = re.sub(r"docs/(\w+\.md)", r"[\1](\1)", parameter.help)
    return f"- {name}{f' ({facts})' if facts else ''}: {text}"


def _kind(parameter: Parameter) -> str:
    if parameter.choices:
        return "|".join(choice for choice in parameter.choices if choice)
    kind, low, high = parameter.value_type, parameter.meta.ge, parameter.meta.le
    names = {str: "", bool: "boolean", int: "integer", float: "number"}
    if kind not in names:
        items = parameter.items.replace("whole numbers", "integers")
        return f"list of {items}".removesuffix(" of texts") if get_origin(kind) is tuple else "object"
    if high is not None and high < 2**53:
        return f"{names[kind]} {low or 0:,}–{high:,}"
    return f"{names[kind]} ≥{low:,}" if low else names[kind]


def schemas(operations: Iterable[Operation[Any, Any]]) -> dict[str, Any]:
    """Return a JSON Schema with the result of each operation, computed members included."""
    results = {operation.name: operation.result for operation in operations}
    properties, components = schemas_of(results.values(), "#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The results of memsync's operations",
        "properties": dict(zip(results, properties, strict=True)),
        "$defs": components,
    }


def table(operations: Iterable[Operation[Any, Any]]) -> str:
    """Return the table of the commands, which `memsync` reads before it loads any of them."""
    by_hand = [f"cli.{path.stem}" for path in TABLE.parent.glob("command_*.py")]
    features_used = {operation.function.__module__.removeprefix("memsync.") for operation in operations}
    sections: dict[str, dict[str, list[str]]] = {section: {} for section in SECTIONS}
    paths: set[str] = set()
    for name in (*sorted(by_hand), *sorted(features_used)):
        module = importlib.import_module(f"memsync.{name}")
        for path in sorted(commands_in(module).keys() - paths):
            modules = sections[module.SECTION].setdefault(path.partition(" ")[0], [])
            modules += [name] if name not in modules else []
            paths.add(path)
    offering = {command.path: operation for operation in operations for command in operation.commands}
    short = {path: operation for path, operation in offering.items() if _is_served(operation)}
    served = dict(sorted({**{path: operation.several for path, operation in short.items()}, **_SERVED_BY_HAND}.items()))
    writing = sorted(path for path, operation in short.items() if operation.writes)
    listed = [f"{json.dumps(section)}: {json.dumps(words, sort_keys=True)}," for section, words in sections.items()]
    return _TABLE.format(
        "\n    ".join(map(_wrapped, listed)), _wrapped(json.dumps(served)), _wrapped(json.dumps(writing))
    )


def tools() -> str:
    """Return the tools as MCP lists them, which `memsync mcp` reads before it loads any operation."""
    found = offered(read_only=False)
    listed = [{**described(found[name]), SEVERAL: found[name].several} for name in sorted(found)]
    return f"{json.dumps(listed, indent=1, ensure_ascii=False)}\n"


def _wrapped(literal: str) -> str:
    unbroken = re.sub(r"(?<=\w) (?=\w)", "\0", literal)  # a line must not end inside of a string
    return textwrap.fill(unbroken, 110, subsequent_indent=" " * 8).replace("\0", " ")


def _is_served(operation: Operation[Any, Any]) -> bool:
    """Tell whether a daemon may run the commands of an operation: they are short, and need nothing of this process."""
    return not (operation.is_slow or operation.is_local or any(command.runs_here for command in operation.commands))


def files() -> Mapping[Path, str]:
    """Return the generated files of the documentation, with their content."""
    features.load()
    operations = sorted(OPERATIONS.values(), key=lambda operation: operation.name)
    schema = json.dumps(schemas(operations), indent=1, ensure_ascii=False)
    return {
        DOCS / "operations.md": page(operations),
        DOCS / "results.schema.json": f"{schema}\n",
        TABLE: table(operations),
        Path(FILE): tools(),
    }


if __name__ == "__main__":
    for path, content in files().items():
        path.write_text(content, encoding="utf-8")
        sys.stdout.write(f"{path.name}\n")
