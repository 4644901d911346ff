"""The memory that a web server serves, and how its handlers run operations on it."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

import anyio
import anyio.to_thread

from memsync.errors import MemsyncError, UsageError, own_error
from memsync.notes.git_files import head_state
from memsync.operation import Operation, RunsOperations
from memsync.settings.load import Settings
from memsync.web.problems import Refusal
from memsync.web.serving import HOST

P = ParamSpec("P")
R = TypeVar("R")
log = logging.getLogger("memsync.web")

ANSWER_SECONDS = 60.0
"""How long a request waits for an operation that is not slow."""


@dataclass(frozen=True, slots=True)
class Site:
    """One memory on one port of loopback; handlers find it as `request.app.state.site`.

    `open` yields the memory for one call. `public_url` is the URL of a forwarded port, without a path; it may be empty.
    """

    settings: Settings
    open: Callable[[], AbstractContextManager[RunsOperations]]
    port: int
    public_url: str = ""
    is_read_only: bool = False

    @property
    def root(self) -> Path:
        """The memory root."""
        return self.settings.root

    @property
    def url(self) -> str:
        """The URL for browsers, without a path."""
        return self.public_url or f"http://{HOST}:{self.port}"

    @property
    def has_history(self) -> bool:
        """Whether git has versions of the notes."""
        return bool(head_state(self.root).name)

    async def run(self, operation: Operation[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run an operation on another thread and return its result. It goes on if its client hangs up.

        Raises MemsyncError, and Refusal if it writes on a server that only reads, or takes longer than ANSWER_SECONDS.
        """
        if self.is_read_only and operation.changes(kwargs):
            raise Refusal(403, f"this server only reads, and {operation.name} writes", hint="Use the command line.")

        begun = list[bool]()

        def work() -> R:
            begun.append(True)
            try:
                with self.open() as memory:
                    return memory.run(operation, *args, **kwargs)
            except MemsyncError:
                raise
            except Exception as error:
                raise unexpected(operation.name, error) from error

        with anyio.move_on_after(None if operation.is_slow else ANSWER_SECONDS):
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        reason = f"{operation.name} takes longer than {ANSWER_SECONDS:g} s"
        hint = "It goes on. Look at the result before you try again." if begun else "The server is busy. Try again."
        raise Refusal(504, reason, hint=hint)


def public_url_of(text: str) -> str:
    """Return the URL of a site as browsers write it in Origin; empty text unchanged. Raises UsageError."""
    parts = re.fullmatch(r"(https?)://([a-z0-9.-]+|\[[0-9a-f:]+\])(:\d{1,5})?/?", text.lower())
    if text and parts is None:
        raise UsageError(
            f"{text!r} is not the URL of a site", hint="Write it without a path: https://notes.example.org"
        )
    scheme, host, port = parts.groups() if parts else ("", "", "")
    is_usual = (scheme, port) in (("http", ":80"), ("https", ":443"))
    return f"{scheme}://{host}{'' if is_usual else port or ''}" if parts else ""


def unexpected(what: str, error: Exception) -> MemsyncError:
    """Log the place of an unexpected error and return it without its message, which may quote a note."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    log.error("%s failed: %s in %s:%s", what, type(error).__name__, place.filename, place.lineno)
    return own_error(error, what, hint="The server's output says where.")
