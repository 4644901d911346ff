"""The description of the API (OpenAPI 3.1), made of the declarations of the operations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from memsync import __version__
from memsync.model.json import schemas_of
from memsync.operation import Operation, Parameter
from memsync.web.health import MemoryHealth
from memsync.web.problems import PROBLEM, Problem

_PROBLEMS = {status: {"$ref": "#/components/responses/Problem"} for status in ("401", "default")}


def openapi(operations: Iterable[Operation[Any, Any]], *, is_read_only: bool) -> dict[str, Any]:
    """Return the OpenAPI document; with `is_read_only` it lacks what writes."""
    offered = [operation for operation in operations if not (is_read_only and operation.writes)]
    kinds = [operation.result for operation in offered]
    kinds += [parameter.annotated for operation in offered for parameter in operation.values.values()]
    schemas, components = schemas_of([*kinds, MemoryHealth, Problem], "#/components/schemas/{name}")
    given = iter(schemas[len(offered) :])
    paths = {
        f"/v1/{operation.name}": _path(operation, result, [next(given) for _ in operation.values])
        for operation, result in zip(offered, schemas, strict=False)
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "memsync", "version": __version__, "summary": "A memory of Markdown files"},
        "security": [{"token": []}],
        "paths": {**paths, "/health": {"get": _health(schemas[-2])}},
        "components": {
            "schemas": components,
            "responses": {"Problem": _answer("An error.", schemas[-1], PROBLEM)},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _path(operation: Operation[Any, Any], result: Any, schemas: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the methods of an operation, given the schema of its result and those of its parameters."""
    given = [
        (parameter, {**schema, "description": parameter.help})
        for parameter, schema in zip(operation.values.values(), schemas, strict=True)
    ]
    responses = {"200": _answer("The result.", result), **_PROBLEMS}
    common = {"summary": operation.summary, "responses": responses}
    methods: dict[str, Any] = {"post": {"operationId": operation.name, **common, "requestBody": _body(given)}}
    if not operation.writes:
        query = [_query(*one) for one in given if not one[0].writes]
        methods["get"] = {"operationId": f"get_{operation.name}", **common, "parameters": query}
    return methods


def _body(given: Sequence[tuple[Parameter, dict[str, Any]]]) -> dict[str, Any]:
    needed = [parameter.name for parameter, _ in given if parameter.is_needed]
    properties = {parameter.name: schema for parameter, schema in given}
    schema = {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}
    return {"required": bool(needed), "content": {"application/json": {"schema": schema}}}


def _query(parameter: Parameter, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter of a query; an object is JSON."""
    is_plain = parameter.item_type in (str, int, float, bool)
    place: dict[str, Any] = {"schema": schema} if is_plain else {"content": {"application/json": {"schema": schema}}}
    return {"name": parameter.name, "in": "query", "required": parameter.is_needed, **place}


def _answer(text: str, schema: Any, media_type: str = "application/json") -> dict[str, Any]:
    return {"description": text, "content": {media_type: {"schema": schema}}}


def _health(schema: Any) -> dict[str, Any]:
    answer = _answer("How current the index is; 503 if it has a fault.", schema)
    summary = "Return how current the index is, and its faults."
    return {"operationId": "health", "summary": summary, "responses": {"200": answer, "503": answer, **_PROBLEMS}}
