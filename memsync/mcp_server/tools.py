"""The MCP tools: each is an operation, with the text that tells a model when to use it.

Nothing here knows the protocol.
"""

from __future__ import annotations

from typing import Any

import msgspec

import memsync.memory  # noqa: F401  (because it declares the operations)
from memsync.operation import OPERATIONS, Operation, Tool


def offered(*, read_only: bool) -> dict[str, Operation[Any, Any]]:
    """Return the operations that are offered as tools, by the tool's name; with `read_only` only those that read."""
    tools = [(one.tool, one) for one in OPERATIONS.values()]
    return {tool.name: one for tool, one in tools if tool is not None and not (read_only and one.writes)}


def tool_of(operation: Operation[Any, Any]) -> Tool:
    """Return how an operation is offered as a tool."""
    assert operation.tool is not None
    return operation.tool


def schema_of(operation: Operation[Any, Any]) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments; it refuses names that it does not know."""
    tool = tool_of(operation)
    properties = {}
    for name in tool.parameters:
        parameter = operation.values[name]
        properties[name] = {
            **msgspec.json.schema(parameter.annotated),
            "description": tool.help.get(name, parameter.help),
        }
    needed = [name for name in tool.parameters if operation.values[name].is_needed]
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


def arguments_of(operation: Operation[Any, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that a model gives. Raises UsageError, which names the tool's parameters."""
    tool = tool_of(operation)
    whole = {  # JSON Schema takes 3.0 for a whole number
        name: int(value)
        for name, value in given.items()
        if name in operation.values and operation.values[name].value_type is int
        if isinstance(value, float) and value.is_integer()
    }
    return operation.arguments_from({**given, **whole}, called=tool.name, allowed=tool.parameters)
