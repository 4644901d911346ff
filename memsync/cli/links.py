"""Links to places in notes, which terminals open with a click (OSC 8)."""

from __future__ import annotations

import socket
from urllib.parse import quote

from memsync.errors import ConfigError

SCHEMES = {
    "vscode": "vscode://file{path}:{line}",
    "cursor": "cursor://file{path}:{line}",
    "zed": "zed://file{path}:{line}",
    "idea": "idea://open?file={path}&line={line}",
    "sublime": "subl://open?url=file://{path}&line={line}",
}
"""What `cli.open_with` may be called -> the URL that opens an editor."""


def template_of(open_with: str) -> str:
    """Return the URL of a place, with {path} and {line}. Raises ConfigError for a name that is not known."""
    if not open_with:
        return f"file://{socket.gethostname()}{{path}}"
    if open_with in SCHEMES:
        return SCHEMES[open_with]
    if "{path}" in open_with and "://" in open_with:
        return open_with
    hint = f"Write {', '.join(SCHEMES)}, or a URL with {{path}} and {{line}}."
    raise ConfigError(f"cli.open_with: {open_with!r} is not known", hint=hint)


def linked(text: str, template: str, path: str, line: int) -> str:
    """Return text as a link to a line of a file, as it is without a template."""
    if not template:
        return text
    quoted = quote(path.encode("utf-8", "surrogateescape"), safe="/")
    url = template.replace("{path}", quoted).replace("{line}", str(line))
    return f"\x1b]8;;{url}\x1b\\{text}\x1b]8;;\x1b\\"
