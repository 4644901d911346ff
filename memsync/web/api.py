"""The API, made of the declarations as MCP's tools are: each operation is POST /v1/NAME, and GET if it only reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from memsync import features
from memsync.client import wire
from memsync.errors import UsageError
from memsync.model.json import to_json
from memsync.model.text import did_you_mean
from memsync.operation import OPERATIONS, Operation, Parameter
from memsync.web.openapi import openapi
from memsync.web.problems import Refusal, json_response
from memsync.web.site import Site


def routes() -> list[Route]:
    """Return the routes of the API."""
    return [Route("/v1/{name}", _call, methods=["GET", "POST"]), Route("/openapi.json", _openapi)]


def offered() -> dict[str, Operation[Any, Any]]:
    """Return the operations of the API by name: those that a daemon has, too."""
    features.load()
    return {name: operation for name, operation in OPERATIONS.items() if not operation.is_local}


async def _openapi(request: Request) -> Response:
    site: Site = request.app.state.site
    return json_response(openapi(offered().values(), is_read_only=site.is_read_only))


async def _call(request: Request) -> Response:
    """Run an operation with the arguments of the body, or of the query."""
    site: Site = request.app.state.site
    operation = _operation(request.path_params["name"])
    if request.method == "POST":
        given = _from_body(await request.body())
    else:
        given = _from_query(operation, request.query_params)
        if operation.changes(given):
            hint = f"Send POST /v1/{operation.name}."
            raise Refusal(405, f"{operation.name} would write", hint=hint, headers={"Allow": "POST"})
    return json_response(to_json(await site.run(operation, **operation.arguments_from(given))))


def _operation(name: str) -> Operation[Any, Any]:
    operations = offered()
    if name not in operations:
        hint = did_you_mean(name, operations, "GET /openapi.json lists all.")
        raise Refusal(404, f"there is no operation {name[:100]!r}", hint=hint)
    return operations[name]


def _from_body(body: bytes) -> Mapping[str, Any]:
    """Return the arguments of a body; an empty one gives none. Raises UsageError if it is not a JSON object."""
    try:
        given = wire.decode(body) if body else {}
    except ValueError as error:
        raise UsageError(f"the body is not JSON: {error}", hint='Send an object: {"query": "…"}') from error
    if not isinstance(given, dict):
        raise UsageError("the body is not a JSON object", hint='Send an object: {"query": "…"}')
    return given


def _from_query(operation: Operation[Any, Any], query: QueryParams) -> dict[str, Any]:
    """Return the arguments of a query. A name is repeated for a list."""
    values = operation.values
    return {name: _value(values[name], query.getlist(name)) if name in values else "" for name in query}


def _value(parameter: Parameter, texts: list[str]) -> Any:
    """Return the value of a parameter. A text that does not fit stays a text, so that `arguments_from` refuses it.

    An object is written as JSON.
    """
    if parameter.is_list:
        return [_item(parameter.item_type, text) for text in texts]
    if len(texts) > 1:
        raise UsageError(f"{parameter.name} is given {len(texts)} times", hint="Only a list may be repeated.")
    return _item(parameter.item_type, texts[0])


def _item(kind: Any, text: str) -> Any:
    try:
        if kind in (str, int, float, bool):
            return msgspec.convert(text, kind, strict=False)
        return wire.decode(text.encode())
    except ValueError:
        return text
