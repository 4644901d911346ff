"""Copies of the project in a folder of their own, in which pytest runs; nothing that it starts is left running."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
RUN = f"MUTANTS_RUN={uuid.uuid4().hex}"
"""In the environment of every process that this one starts, and of all that those start."""
LARGE_BYTES = 500_000
"""Files from here on (the model) are linked, not copied."""


_folders: list[Path] = []


def new_folder() -> Path:
    """Return a new folder, of a short name because sockets lie in it, that `clean_up` removes if nothing else does."""
    _folders.append(Path(tempfile.mkdtemp(prefix="mt")))
    return _folders[-1]


def clean_up() -> None:
    """End all processes that carry the marker of this one, and remove all folders."""
    end_left_over(RUN)
    for folder in _folders:
        shutil.rmtree(folder, ignore_errors=True)


class Copy:
    """A copy of what git lists of the project (tracked, or new and not ignored)."""

    def __init__(self) -> None:
        self.folder = new_folder()
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=PROJECT,
            check=True,
            capture_output=True,
        ).stdout.decode()
        for name in filter(None, listed.split("\0")):
            source, target = PROJECT / name, self.folder / name
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                if source.stat().st_size < LARGE_BYTES:
                    shutil.copy2(source, target)
                else:
                    target.symlink_to(source)

    def remove(self) -> None:
        """Delete the copy."""
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of one run: which tests failed and why, how long each took, which one hung, the exit code."""

    failed: Mapping[str, str]
    seconds: Mapping[str, float]
    hung: str
    code: int
    output: str


def run_tests(
    copy: Copy,
    files: Sequence[str],
    chosen: Mapping[str, float],
    *options: str,
    environ: Mapping[str, str] | None = None,
) -> Ran:
    """Run the chosen tests (with the seconds each may take) in a copy; without a choice all of the files."""
    marker = f"{RUN}-{uuid.uuid4().hex}"
    scratch = new_folder()
    chosen_file, events = scratch / "chosen.json", scratch / "events"
    chosen_file.write_text(json.dumps(dict(chosen)))
    events.touch()
    own = {
        **os.environ,
        "PYTHONPATH": str(copy.folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        "MUTANTS_CHOSEN": str(chosen_file),
        "MUTANTS_EVENTS": str(events),
        **dict([marker.split("=")]),
        "HYPOTHESIS_PROFILE": "quick",
        **(environ or {}),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "-p", "tests.mutants.plugin"]
    command += ["-p", "no:cacheprovider", "--hypothesis-seed=0", f"--basetemp={scratch / 't'}", *options, *files]
    try:
        done = subprocess.run(
            command, cwd=copy.folder, env=own, capture_output=True, text=True, errors="replace", check=False
        )
        return _read_events(events, done)
    finally:
        end_left_over(marker)
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.rmtree(copy.folder / ".hypothesis", ignore_errors=True)


def _read_events(events: Path, done: subprocess.CompletedProcess[str]) -> Ran:
    failed: dict[str, str] = {}
    seconds: dict[str, float] = {}
    running = ""
    for line in events.read_text().splitlines():
        event: dict[str, Any] = json.loads(line)
        if "began" in event:
            running = event["began"]
        elif "ended" in event:
            seconds[event["ended"]] = event["seconds"]
            running = ""
        else:
            failed.setdefault(event["failed"], event["why"])
    return Ran(failed, seconds, running, done.returncode, (done.stdout + done.stderr)[-4000:])


def end_left_over(marker: str) -> None:
    """End the processes that carry a marker in their environment, those of one run of pytest or of them all."""
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if marker.encode() in (place / "environ").read_bytes():
                os.kill(int(place.name), signal.SIGKILL)
