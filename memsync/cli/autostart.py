"""The daemon is started after the first command that a person types, as watchman and gpg-agent start theirs.

That command is answered in its own process; the next ones are served. A daemon that was started so ends by itself.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from memsync.cli.output import say
from memsync.errors import MemsyncError

if TYPE_CHECKING:
    from memsync.settings.load import Settings

STARTED = (
    "started the daemon in the background, so that the next commands are quick. To stop it: memsync stop. "
    'To start none: autostart = "never" under [daemon]'
)


def start_if_wanted(settings: Settings) -> None:
    """Start the daemon in the background if the settings want that here and none runs; say so the first time ever."""
    if not _is_wanted(settings):
        return
    from memsync.daemon import daemon_lock, process

    with suppress(OSError, MemsyncError):  # the command has done what it was asked for
        if daemon_lock.running(settings) is None:
            process.start_unasked(settings.options)
            if _is_first_time():
                say(f"memsync: {STARTED}", err=True)


def _is_wanted(settings: Settings) -> bool:
    choice = settings["daemon.autostart"]
    if choice == "never" or not settings["daemon.use"]:
        return False
    return choice == "always" or _is_typed()


def _is_typed() -> bool:
    """Tell whether a person typed this command: at a terminal, not in a script, in cron or in CI.

    A shell that a person types into gives each command a process group of its own; a script does not.
    """
    is_terminal = all(stream.isatty() for stream in (sys.stdin, sys.stderr))
    return is_terminal and os.getpid() == os.getpgrp() and not os.environ.get("CI")


def _is_first_time() -> bool:
    """Tell whether no daemon was started so before, and remember that one was."""
    from pathlib import Path

    from memsync.system.user_folders import own_folder, state_folder

    folder = Path(state_folder()) / "autostart"
    with suppress(OSError, MemsyncError):
        own_folder(folder)
        os.close(os.open(folder / "said", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        return True
    return False
