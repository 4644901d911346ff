"""Errors as HTTP answers: the status of each, and its document (RFC 9457, `application/problem+json`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from memsync.errors import (
    AnswerLost,
    ConfigError,
    DaemonError,
    EmbedderError,
    FilesystemError,
    IndexFailure,
    MemsyncError,
    NoteError,
    RootError,
    UsageError,
    WriteRefused,
)
from memsync.model.json import to_json
from memsync.model.text import json_line, printable

MEANINGS: dict[type[MemsyncError], tuple[int, str]] = {
    UsageError: (400, "The request is wrong"),
    ConfigError: (500, "A setting of the server cannot be used"),  # no other request would be better
    RootError: (503, "The memory root cannot be used"),  # it may come back, for example when its disk is mounted
    NoteError: (404, "The note cannot be read"),
    IndexFailure: (503, "The index cannot be used"),
    EmbedderError: (502, "A model failed"),  # the server waited for another program
    FilesystemError: (507, "A file of memsync cannot be written"),
    AnswerLost: (502, "The daemon's answer was lost"),  # a 503 would invite to repeat what may have been done
    DaemonError: (503, "The daemon cannot be asked"),
    WriteRefused: (409, "The note must not be written now"),
    MemsyncError: (500, "memsync failed"),
}
"""The status and the title of each error; an error that is not listed has those of its nearest base class."""
PROBLEM = "application/problem+json"


class Problem(Struct, frozen=True):
    """An error as an answer; `exit_code` is that of the command line."""

    type: str
    title: str
    status: int
    detail: str
    hint: str
    exit_code: int


class Refusal(MemsyncError):
    """A request that is refused for a reason of HTTP, with the status to answer."""

    exit_code = UsageError.exit_code

    def __init__(self, status: int, message: str, *, hint: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.headers = headers or {}


def status_of(error: MemsyncError) -> int:
    """Return the status of the answer to a request that raised this error."""
    return error.status if isinstance(error, Refusal) else _meaning(error)[0]


def problem_of(error: MemsyncError) -> Problem:
    """Return the problem document of an error."""
    status, title, kind = status_of(error), _meaning(error)[1], f"urn:memsync:error:{type(error).__name__}"
    if isinstance(error, Refusal):
        title, kind = HTTPStatus(status).phrase, "about:blank"
    hint = "\n".join(map(printable, error.hint.splitlines()))
    return Problem(kind, title, status, printable(error.message), hint, error.exit_code)


def problem_response(error: MemsyncError) -> Response:
    """Return the answer to a request that raised this error."""
    headers = error.headers if isinstance(error, Refusal) else {}
    return json_response(to_json(problem_of(error)), status_of(error), headers, PROBLEM)


def json_response(
    document: Any, status: int = 200, headers: Mapping[str, str] | None = None, media_type: str = "application/json"
) -> Response:
    """Return a JSON value as an answer, with each invisible character written as an escape."""
    content = json_line(json.dumps(document, ensure_ascii=False))
    return Response(content, status, headers, media_type)


def _meaning(error: MemsyncError) -> tuple[int, str]:
    return next(MEANINGS[kind] for kind in type(error).__mro__ if kind in MEANINGS)


def wants_json(request: Request) -> bool:
    """Tell whether a client wants JSON and not a page: by the end of the path, or by what it accepts first."""
    accepted = request.headers.get("accept", "")
    first_json, first_html = accepted.find("json"), accepted.find("text/html")
    return request.url.path.endswith(".json") or (first_json >= 0 and not 0 <= first_html < first_json)
