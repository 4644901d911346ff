"""Runs the `console` blocks of the documentation, in a home of its own, and masks what differs from run to run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.conftest import PROJECT
from tests.support.daemon_process import launcher

MASKS = (
    (r"\b20\d\d-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d)?)?", "DATE"),
    (r"^(- |  )\d\d:\d\d ", r"\1TIME "),
    (r"\b0\.\d\d\b|\b1\.00\b", "SCORE"),
    (r"\d+(?:\.\d+)? (?:ms|s|min|h)\b", "TIME"),
    (r"\b[0-9a-f]{7,40}\b", "DIGEST"),
    (r"[ \t]+$", ""),
)  # fmt: skip
ELISION = "…"
"""In a shown output: any number of lines are left out here."""


@dataclass(frozen=True, slots=True)
class Example:
    """A command of a page, its line, and the output that the page shows; None if it shows none."""

    line: int
    command: str
    output: str | None


def examples_of(page: Path) -> list[Example]:
    """Return the commands of a page's `console` blocks, in order. A command goes on after a backslash at its end."""
    found = list[Example]()
    lines, inside = page.read_text().splitlines(), False
    for number, line in enumerate(lines, start=1):
        if line.startswith("```"):
            inside = line == "```console"
        elif inside and line.startswith("$ "):
            found.append(Example(number, line.removeprefix("$ "), None))
        elif inside and found:
            last = found[-1]
            if last.command.endswith("\\"):
                found[-1] = Example(last.line, f"{last.command}\n{line.removeprefix('> ')}", None)
            else:
                found[-1] = Example(last.line, last.command, f"{last.output or ''}{line}\n")
    return found


def masked(text: str) -> list[str]:
    """Return the lines of an output without dates, times, scores and digests."""
    for pattern, mask in MASKS:
        text = re.sub(pattern, mask, text, flags=re.MULTILINE)
    return text.strip("\n").splitlines()


def agrees(shown: str, printed: str) -> bool:
    """Return whether an output is the one that a page shows, apart from masks and elisions."""
    lines = [".*?" if line.strip() == ELISION else re.escape(line + "\n") for line in masked(shown)]
    return re.fullmatch("".join(lines), "\n".join(masked(printed)) + "\n", re.DOTALL) is not None


class Console:
    """A shell in a folder with a copy of `memory-files`, as a clone of memsync has it; its `~` is beside it."""

    def __init__(self, folder: Path, **environ: str) -> None:
        self._home, self._cwd = folder / "home", folder / "memsync"
        self._home.mkdir(parents=True)
        shutil.copytree(PROJECT / "memory-files", self._cwd / "memory-files")
        program = launcher(folder / "bin")
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "MEMSYNC_"))},
            **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "ada"),
            **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL", "EMAIL"), "ada@example.org"),
            **{f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("CONFIG", "STATE", "CACHE", "DATA")},
            "HOME": str(self._home),
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "COLUMNS": "112",
            **environ,
        }  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the daemon of the memory root where the last command ran, if one runs."""
        self.run("memsync daemon stop")

    def run(self, command: str, seconds: float = 120) -> tuple[int, str]:
        """Run a command where the last one left off; return its exit code and what it printed."""
        script = f'{command}\ncode=$?; pwd > "$HOME/.cwd"; exit $code'
        done = subprocess.run(
            ["bash", "-c", script], cwd=self._cwd, env=self._environ, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False,
        )  # fmt: skip
        if (left := self._home / ".cwd").exists():
            self._cwd = Path(left.read_text().strip())
        return done.returncode, done.stdout
