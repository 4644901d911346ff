"""Ask a program of the user's: it reads JSON on standard input and answers JSON."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Any

from memsync.errors import MemsyncError
from memsync.system.user_folders import STARTED, own_folder, started_folder

SECONDS = 600.0
MAX_BYTES = 4_000_000


def ask_program(command: Sequence[str], packet: Any) -> Any:
    """Run a command without a shell, in an empty folder, and return its answer: the JSON in what it prints.

    Text around the outermost braces is ignored, because models like to add some. Raises MemsyncError if it cannot run,
    fails, takes over ten minutes or prints no JSON.
    """
    name = command[0]
    own_folder(started_folder())
    with tempfile.TemporaryDirectory(dir=started_folder()) as folder:
        try:
            done = subprocess.run(  # noqa: S603 (because the user's own settings name the program)
                list(command), input=json.dumps(packet, ensure_ascii=False).encode("utf-8", "replace"),
                capture_output=True, timeout=SECONDS, cwd=folder, check=False,
                env={**os.environ, STARTED: "1"},
            )  # fmt: skip
        except FileNotFoundError as error:
            raise MemsyncError(f"{name} was not found", hint="Check [curator] in your config.toml.") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MemsyncError(f"{name} failed: {error}", hint="Run it by hand.") from error
    if done.returncode:
        last = (done.stderr.decode("utf-8", "replace").strip().splitlines() or [""])[-1][:200]
        raise MemsyncError(f"{name} ended with {done.returncode}: {last}", hint="Run it by hand.")
    text = done.stdout[:MAX_BYTES].decode("utf-8", "replace")
    try:
        return json.loads(text[text.index("{") : text.rindex("}") + 1])
    except ValueError as error:
        raise MemsyncError(
            f"{name} did not answer with JSON", hint="docs/vault.md shows the answer it must print."
        ) from error
