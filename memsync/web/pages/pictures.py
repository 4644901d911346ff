"""Serve the pictures that notes embed, if they are inside the root, and not hidden, excluded, ignored or a link."""

from __future__ import annotations

import posixpath
from contextlib import suppress
from urllib.parse import quote

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response

from memsync.model.vocabulary import NotePath
from memsync.notes.files import NoteFiles
from memsync.web.pages.view import FILES, site_of
from memsync.web.problems import Refusal

_NAMED = {f".{name}": f"image/{name}" for name in ("avif", "bmp", "gif", "jpeg", "png", "webp")}
TYPES = {**_NAMED, ".jpg": "image/jpeg", ".svg": "image/svg+xml"}
MAX_BYTES = 20_000_000
RULES = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"}
"""An SVG opened by its address is a document of its own. It must run no script and load nothing."""


def type_of(path: str) -> str:
    """Return the content type of a picture; empty if a file is none."""
    return TYPES.get(posixpath.splitext(path)[1].lower(), "")


def picture_url(path: str) -> str:
    """Return the URL of the picture at a path."""
    return f"{FILES}{quote(path, errors='replace')}"


async def picture(request: Request) -> Response:
    """Return the picture at a path. Raises Refusal, NoteError."""
    path, settings = request.path_params["path"], site_of(request).settings
    files = NoteFiles(settings.root, *settings.of_files, only=settings.only)
    content = await to_thread.run_sync(_read, files, path)
    return Response(content, headers=RULES, media_type=type_of(path))


def _read(files: NoteFiles, path: str) -> bytes:
    with suppress(FileNotFoundError, ValueError):  # a name with NUL
        if type_of(path) and not files.leaves_out(NotePath(path), is_note=False):
            content = files.beginning(NotePath(path), MAX_BYTES + 1)
            if len(content) <= MAX_BYTES:
                return content
    raise Refusal(404, f"{path[:400]!r} is no picture of this memory, or over {MAX_BYTES // 1_000_000} MB")
