"""Where the daemon's log goes: to stderr in the foreground, else to a file that is private and kept small."""

from __future__ import annotations

import logging
import logging.handlers
import os
from io import TextIOWrapper
from pathlib import Path

from memsync.errors import FilesystemError
from memsync.model.text import printable
from memsync.settings.load import Settings
from memsync.system.user_folders import own_folder

log = logging.getLogger("memsync.daemon")

LOG_BYTES, LOG_FILES = 1_000_000, 3


def log_path(settings: Settings) -> Path:
    """Return where the daemon of these settings writes its log."""
    return settings.index_dir / "daemon.log"


def log_to(handler: logging.Handler) -> None:
    """Send what the daemon has to say to `handler`."""
    handler.setFormatter(_OneLine("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    watchdog = logging.getLogger("watchdog")
    watchdog.propagate = False
    watchdog.addHandler(logging.NullHandler())  # or what it says while it is stopped goes to stderr


class _OneLine(logging.Formatter):
    """Writes each record on one line: a file's name cannot end it and begin one that looks like the log's own."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


class _PrivateLog(logging.handlers.RotatingFileHandler):
    """Each of its files, those begun by rotation too, is the user's alone."""

    def _open(self) -> TextIOWrapper:
        os.close(os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
        return super()._open()


def file_handler(settings: Settings) -> logging.Handler:
    """Return a handler for a log file that is kept small, and private to the user."""
    path = log_path(settings)
    try:
        own_folder(path.parent)
        return _PrivateLog(path, maxBytes=LOG_BYTES, backupCount=LOG_FILES, encoding="utf-8")
    except OSError as error:
        raise FilesystemError(f"{path} cannot be written: {error.strerror}", hint="Check its folder.") from error
