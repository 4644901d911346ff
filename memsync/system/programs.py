"""Where this process looks for programs and modules: never in the current folder, which may be a stranger's clone."""

from __future__ import annotations

import os
import sys


def search_path() -> str:
    """Return the absolute folders of PATH.

    A relative one, such as `./node_modules/.bin` or an empty entry, would be a folder of the notes when a program runs
    there, and a stranger's notes could bring a program called git or less.
    """
    return os.pathsep.join(filter(os.path.isabs, os.get_exec_path()))


def forget_relative_folders() -> None:
    """Take the current folder and relative folders out of PATH, PYTHONPATH and `sys.path`, for child processes, too.

    Python has made these entries of PYTHONPATH absolute by now, and searches them before its own library.
    """
    try:
        here = os.getcwd()
    except OSError:  # it is gone, so nothing is in it
        here = ""
    entries = ["", *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    strange = {os.path.normpath(os.path.join(here, entry)) for entry in entries if not os.path.isabs(entry)}
    for name in os.environ.keys() & {"PATH", "PYTHONPATH"}:
        os.environ[name] = os.pathsep.join(filter(os.path.isabs, os.environ[name].split(os.pathsep)))
    library, own = os.path.dirname(os.__file__), os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    first = sys.path.index(library) if library in sys.path else len(sys.path)
    sys.path[:first] = [path for path in sys.path[:first] if path == own or path not in strange]
