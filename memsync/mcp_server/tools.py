"""The MCP tools. Each is an operation with a text that tells a model when to use it.

This module does not depend on the MCP protocol.
"""

from __future__ import annotations

from typing import Any

import msgspec

from memsync import features
from memsync.operation import OPERATIONS, Operation, Tool


def offered(*, read_only: bool) -> dict[str, Operation[Any, Any]]:
    """Return the operations that are tools, by tool name; with `read_only`, only operations that write nothing."""
    features.load()
    allowed = [operation for operation in OPERATIONS.values() if not (read_only and operation.writes)]
    return {operation.tool.name: operation for operation in allowed if operation.tool is not None}


def tool_of(operation: Operation[Any, Any]) -> Tool:
    """Return an operation's tool, which must exist."""
    assert operation.tool is not None
    return operation.tool


def schema_of(operation: Operation[Any, Any]) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments; it allows no other names."""
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
    """Return the checked arguments of a call. Raises UsageError, which names the tool's parameters."""
    tool = tool_of(operation)
    whole = {  # in JSON Schema, 3.0 is an integer
        name: int(value)
        for name, value in given.items()
        if name in operation.values and operation.values[name].value_type is int
        if isinstance(value, float) and value.is_integer()
    }
    return operation.arguments_from({**given, **whole}, called=tool.name, allowed=tool.parameters)
