"""Every error memsync raises on purpose.

    MemsyncError                    10
    ├── UsageError                   2   the question itself is wrong: a filter, a mode, a location
    ├── ConfigError                  3   config.toml or MEMSYNC_* cannot be used as written
    ├── RootError                    4   the memory root is missing, unreadable or not the one indexed
    ├── NoteError                    5   a note cannot be read: absent, outside the root, not a regular file
    │   └── NoteTooLarge             5   it is larger than any note may be
    ├── IndexFailure                 6   the index cannot be used
    │   ├── IndexBusy                7   another process holds the lock
    │   ├── IndexDamaged             6   not a database, or a broken one: set aside and rebuilt
    │   └── IndexTooNew              6   written by a later version of memsync
    ├── EmbedderError                8   a model failed: the one that embeds, or the one that reranks
    │   └── UnknownModel             8   no such model
    ├── FilesystemError              9   a file of memsync's own cannot be written: disk full, permissions
    ├── DaemonError                 11   the daemon cannot be started, stopped or asked
    │   ├── DaemonUnavailable       11   none serves this root with these settings
    │   │   └── DaemonOutdated      11   one does with other settings, or is of another version
    │   └── DaemonRunning           11   one does already
    └── WriteRefused                12   a note is in no state to be written: conflict markers, open in an editor

The number is the process's exit code. 0 is success; 1 is an answer that is "no": nothing matched, `verify`
found a difference, `doctor` found a fault, a note failed to sync. 13 is an answer that is not known yet: `search` found
nothing, and files are still to be indexed.
"""

from __future__ import annotations

from typing import Self

ODD_ERRORS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, AssertionError)
"""What code may raise that is given other values than were once written: a sign of damage, or of a fault in memsync."""


def sentences(message: str, hint: str = "") -> str:
    """Return a message and the lines of its hint as sentences on one line.

    The last one ends as it is: it may end in a command to copy.
    """
    *first, last = [message, *hint.splitlines()]
    return " ".join([*(text if text.endswith((".", "!", "?", "…")) else f"{text}." for text in first), last])


class MemsyncError(Exception):
    """Base of all errors; `hint` says what to do about it, `exit_code` is what the CLI returns."""

    exit_code = 10

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def sentences(self) -> str:
        """Return the message and what to do about it on one line, each as a sentence."""
        return sentences(self.message, self.hint)


class UsageError(MemsyncError):
    """The request cannot be understood; nothing was read."""

    exit_code = 2


class ConfigError(MemsyncError):
    """A setting is unknown, of the wrong type or not allowed where it stands."""

    exit_code = 3


class RootError(MemsyncError):
    """The memory root is missing, unreadable, or a different folder than the one indexed."""

    exit_code = 4

    @classmethod
    def absent(cls, root: str, where: str = "") -> Self:
        """Return the error for a folder that is not there: it may be new, or on a disk that is not mounted now."""
        import shlex  # here: settings are read at every start, and a root is seldom missing

        message = f"{where}: the" if where else "the"
        hint = f"Bring it back or mount it; or create it with: memsync init {shlex.quote(root)}"
        return cls(f"{message} memory root {root} does not exist", hint=hint)


class NoteError(MemsyncError):
    """A note cannot be read: it is absent, not a regular file, or outside the memory root."""

    exit_code = 5


class NoteTooLarge(NoteError):
    """A file is larger than any note may be: what it is, not how the system fares, is why it cannot be read."""


class NoSuchNote(NoteError):
    """There is no note of that path."""


class NoThread(NoteError):
    """There is no thread of that name."""


class IndexFailure(MemsyncError):
    """The index cannot be opened, read or written."""

    exit_code = 6


class IndexDamaged(IndexFailure):
    """The database file is not one, or is broken."""


class IndexTooNew(IndexFailure):
    """The index was written by a later version of memsync."""


class IndexOutdated(IndexFailure):
    """The index was written by an earlier version of memsync, and is made anew with its vectors."""


class IndexBusy(IndexFailure):
    """Another process holds the lock that this work needs."""

    exit_code = 7


class EmbedderError(MemsyncError):
    """A model failed to load or to answer: the embedding model, or the one that reranks."""

    exit_code = 8


class UnknownModel(EmbedderError):
    """No model has this name."""


class FilesystemError(MemsyncError):
    """A file that memsync itself writes cannot be written."""

    exit_code = 9


class DaemonError(MemsyncError):
    """The daemon cannot be started, stopped or asked."""

    exit_code = 11


class DaemonUnavailable(DaemonError):
    """No daemon serves this memory root with these settings."""


class DaemonNotRunning(DaemonUnavailable):
    """No daemon of this memory root runs."""


class DaemonOutdated(DaemonUnavailable):
    """The daemon of this memory root runs with other settings, or is of another version."""


class DaemonRunning(DaemonError):
    """A daemon serves this memory root already."""


class WriteRefused(MemsyncError):
    """A note is in no state to be written: conflict markers, open in an editor, a link. Nothing was changed."""

    exit_code = 12
