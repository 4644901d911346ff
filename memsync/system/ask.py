"""Ask a program of the user's: it reads JSON on standard input and answers JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from memsync.errors import MemsyncError
from memsync.system.user_folders import STARTED, own_folder, started_folder

SECONDS = 600.0
MAX_BYTES = 4_000_000


def ask_program(command: Sequence[str], packet: Any, seconds: float = SECONDS) -> Any:
    """Run a command without a shell, in an empty folder, and return its answer: the JSON in what it prints.

    Text around the outermost braces is ignored, because models like to add some. A program that takes longer is killed
    with all that it started. Raises MemsyncError if it cannot run, fails, takes too long or prints no JSON.
    """
    name, own = command[0], {**os.environ, STARTED: "1"}
    own_folder(started_folder())
    with tempfile.TemporaryDirectory(dir=started_folder()) as folder:
        try:
            with subprocess.Popen(  # noqa: S603 (because the user's own settings name the program)
                list(command), cwd=folder, env=own, start_new_session=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            ) as program:  # fmt: skip
                try:
                    given = json.dumps(packet, ensure_ascii=False).encode("utf-8", "replace")
                    printed, complaint = program.communicate(given, seconds)
                finally:
                    with suppress(ProcessLookupError):
                        os.killpg(program.pid, signal.SIGKILL)
        except FileNotFoundError as error:
            raise MemsyncError(f"{name} was not found", hint="Check the command in your config.toml.") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MemsyncError(f"{name} failed: {error}", hint="Run it by hand.") from error
    if program.returncode:
        last = (complaint.decode("utf-8", "replace").strip().splitlines() or [""])[-1][:200]
        raise MemsyncError(f"{name} ended with {program.returncode}: {last}", hint="Run it by hand.")
    text = printed[:MAX_BYTES].decode("utf-8", "replace")
    try:
        return json.loads(text[text.index("{") : text.rindex("}") + 1])
    except (ValueError, RecursionError) as error:
        raise MemsyncError(
            f"{name} did not answer with JSON", hint="docs/vault.md shows the answer it must print."
        ) from error
