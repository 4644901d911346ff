"""The daemon's log: to stderr in the foreground, otherwise to a private file of limited size."""

from __future__ import annotations

import logging
import logging.handlers
import os
from io import TextIOWrapper
from pathlib import Path

from memsync.model.text import printable
from memsync.settings.load import Settings
from memsync.system.user_folders import filesystem_errors, own_folder

log = logging.getLogger("memsync.daemon")

LOG_BYTES, LOG_FILES = 1_000_000, 3


def log_path(settings: Settings) -> Path:
    """Return the path of the daemon's log file."""
    return settings.index_dir / "daemon.log"


def log_to(handler: logging.Handler) -> None:
    """Send the daemon's log records to `handler`."""
    handler.setFormatter(_OneLine("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    watchdog = logging.getLogger("watchdog")
    watchdog.propagate = False
    watchdog.addHandler(logging.NullHandler())  # otherwise its warnings go to stderr while the daemon stops


class _OneLine(logging.Formatter):
    """Writes each record on one line, so that a line break in a file name cannot forge a record."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


class _PrivateLog(logging.handlers.RotatingFileHandler):
    """A rotating log; only the user can read its files, including those that rotation creates."""

    def _open(self) -> TextIOWrapper:
        os.close(os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
        return super()._open()


def file_handler(settings: Settings) -> logging.Handler:
    """Return a handler for the log file. Raises FilesystemError."""
    path = log_path(settings)
    with filesystem_errors(f"{path} cannot be written"):
        own_folder(path.parent)
        return _PrivateLog(path, maxBytes=LOG_BYTES, backupCount=LOG_FILES, encoding="utf-8")
