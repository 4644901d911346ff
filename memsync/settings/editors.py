"""The URL that opens a line of a file in the user's editor, as the setting `cli.open_with` says."""

from __future__ import annotations

import socket
from urllib.parse import quote

from memsync.errors import ConfigError

EDITORS = {
    "vscode": "vscode://file{path}:{line}",
    "cursor": "cursor://file{path}:{line}",
    "zed": "zed://file{path}:{line}",
    "idea": "idea://open?file={path}&line={line}",
    "sublime": "subl://open?url=file://{path}&line={line}",
}
"""The names that `cli.open_with` may have -> the URL that opens a line of a file in that editor."""


def template_of(open_with: str) -> str:
    """Return the URL of a place, with {path} and {line}. Raises ConfigError for an unknown editor."""
    if not open_with:
        return f"file://{socket.gethostname()}{{path}}"
    if open_with in EDITORS:
        return EDITORS[open_with]
    if "{path}" in open_with and "://" in open_with:
        return open_with
    hint = f"Write {', '.join(EDITORS)}, or a URL with {{path}} and {{line}}."
    raise ConfigError(f"cli.open_with: {open_with!r} is not known", hint=hint)


def url_of(template: str, path: str, line: int) -> str:
    """Return the URL of a place in a file."""
    quoted = quote(path.encode("utf-8", "surrogateescape"), safe="/")
    return template.replace("{path}", quoted).replace("{line}", str(line))
