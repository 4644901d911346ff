"""How a process that memsync starts tells the one that waits for it that it is ready, or why it failed."""

from __future__ import annotations

import json
import os
import select
import subprocess
from typing import Any

from memsync.client import wire
from memsync.errors import DaemonError, MemsyncError

STDOUT = 1


def report(message: dict[str, Any]) -> None:
    """Tell the waiting process that this one is ready. Standard output leads nowhere afterwards."""
    os.write(STDOUT, json.dumps(message).encode() + b"\n")
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), STDOUT)


def report_failure(error: MemsyncError) -> None:
    """Tell the waiting process why this one ends."""
    report({"error": wire.error_message(error)})


def reported(child: subprocess.Popen[bytes], seconds: float, what: str, log: str) -> dict[str, Any]:
    """Return what a started process reports. Kill it if it fails, or reports nothing in so many seconds.

    Raises the error that it reports, or DaemonError, which calls the process `what` and advises to look at `log`.
    """
    assert child.stdout is not None
    has_line = bool(select.select([child.stdout], [], [], seconds)[0])
    message: dict[str, Any] = json.loads((has_line and child.stdout.readline()) or "{}")
    if message and "error" not in message:
        return message
    child.kill()
    child.wait()
    if message:
        raise wire.error_of(message["error"])
    reason = "ended before it was ready" if has_line else f"did not answer within {seconds:g} s"
    raise DaemonError(f"{what} {reason}", hint=f"See: {log}")
