"""The terminal: colour, width, and a pager for long output. Does not need click."""

from __future__ import annotations

import os
import sys

from memsync.system.programs import search_path


def wants_colour(choice: str) -> bool:
    """Return whether to colour standard output; `choice` is auto, always or never."""
    if choice != "auto":
        return choice == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def terminal_width() -> int:
    """Return the number of columns of standard output; 0 if it is no terminal."""
    if not sys.stdout.isatty():
        return 0
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except OSError:
        return 80


def show(text: str, *, uses_pager: bool = True) -> None:
    """Print text, in a pager if standard output is a terminal with fewer lines."""
    if uses_pager and sys.stdout.isatty() and _is_long(text) and _page(text):
        return
    sys.stdout.write(text)
    sys.stdout.flush()


def _is_long(text: str) -> bool:
    try:
        return text.count("\n") >= (os.get_terminal_size(sys.stdout.fileno()).lines or 24)
    except OSError:
        return False


def _page(text: str) -> bool:
    """Show text in $PAGER, otherwise in less with git's options; return False if that cannot be run."""
    import shutil
    import subprocess

    command = os.environ.get("PAGER") or "less"
    if command == "cat" or shutil.which(command.split()[0], path=search_path()) is None:
        return False
    environ = {"LESS": "FRX", "LV": "-c", **os.environ, "PATH": search_path()}
    try:
        pager = subprocess.Popen(command, shell=True, stdin=subprocess.PIPE, env=environ)  # noqa: S602 (because the user's own $PAGER may have options)
    except OSError:
        return False
    try:
        pager.communicate(text.encode("utf-8", "replace"))
    except KeyboardInterrupt:
        pager.wait()
    return True
