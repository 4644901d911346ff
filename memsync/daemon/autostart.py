"""Start the daemon in the background after the first command that a person types, as watchman and gpg-agent do.

That command is answered in its own process; the daemon serves the next ones, and ends by itself when it is idle.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from memsync.errors import MemsyncError
from memsync.settings.config_file import NAME
from memsync.system.user_folders import config_folder

if TYPE_CHECKING:
    from memsync.settings.load import Settings

STARTED = (
    "started the daemon in the background, so that the next commands are quick. To stop it: memsync daemon stop. "
    'To start none: autostart = "never" under [daemon] in {}'
)


def start_if_wanted(settings: Settings, notice: Callable[[str], None]) -> None:
    """Start the daemon if the settings want that here and none runs; the first time ever, `notice` gets a sentence."""
    choice = settings["daemon.autostart"]
    is_wanted = choice == "always" or (choice != "never" and _is_typed())
    if not (is_wanted and settings["daemon.use"]):
        return
    from memsync.daemon import process  # here, because every command imports this module

    with suppress(OSError, MemsyncError):  # the command itself has succeeded
        if process.start_unasked(settings) and _is_first_start():
            notice(STARTED.format(os.path.join(config_folder(), NAME)))


def _is_typed() -> bool:
    """Return whether a person typed this command: at a terminal, not in a script, in cron or in CI.

    A shell that a person types into gives each command a process group of its own; a script does not.
    """
    is_at_terminal = all(stream.isatty() for stream in (sys.stdin, sys.stderr))
    return is_at_terminal and os.getpid() == os.getpgrp() and not os.environ.get("CI")


def _is_first_start() -> bool:
    """Return whether memsync never started a daemon unasked before, and record that it has."""
    from memsync.system.state_file import state_of_user

    with suppress(MemsyncError):
        return state_of_user().write("INSERT OR IGNORE INTO single VALUES ('started unasked', 1)") > 0
    return False
