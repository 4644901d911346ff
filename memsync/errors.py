"""Every error memsync raises on purpose.

    MemsyncError                    10
    ├── UsageError                   2   the request itself is wrong: a filter, a mode, a location
    │   └── TitleTaken               2   a thread has this title already
    ├── ConfigError                  3   config.toml or MEMSYNC_* cannot be used as written
    │   └── NoMemoryRoot             3   nothing names a memory root, and no config.toml is found
    ├── RootError                    4   the memory root is missing, unreadable or not the one indexed
    ├── NoteError                    5   a note cannot be read: absent, outside the root, not a regular file
    │   ├── NoteTooLarge             5   it is larger than a note may be
    │   ├── NoSuchNote               5   no note has this path
    │   └── NoThread                 5   no thread has this name
    ├── IndexFailure                 6   the index cannot be used
    │   ├── IndexBusy                7   another process holds the lock
    │   ├── IndexDamaged             6   the file is not a database, or damaged: it is set aside and rebuilt
    │   ├── IndexReadOnly            6   it can be read, but not written: a standby server, a full disk, no permission
    │   ├── IndexTooNew              6   written by a later version of memsync
    │   └── IndexOutdated            6   written by an earlier version: it is rebuilt
    ├── EmbedderError                8   a model failed: the embedding model or the reranking model
    │   └── UnknownModel             8   no such model
    ├── FilesystemError              9   memsync cannot write a file of its own: disk full, permissions
    ├── DaemonError                 11   the daemon cannot be started, stopped or asked
    │   ├── DaemonUnavailable       11   no daemon serves this root with these settings
    │   │   ├── DaemonOutdated      11   the daemon has other settings or another version
    │   │   ├── DaemonNotRunning    11   no daemon runs
    │   │   └── AnswerLost          11   it ended after the request was sent: it may have done what was asked
    │   └── DaemonRunning           11   a daemon serves this root already
    └── WriteRefused                12   a note must not be written now: conflict markers, open in an editor
        └── NoteChanged             12   it is not what the writer expected

The number is the exit code of the process. 0 means success. 1 means that the answer is "no": nothing matched, `verify`
found a difference, `doctor` found a fault, a note failed to sync. 13 means that the answer is not known yet: `search`
found nothing, but some files are not indexed yet.
"""

from __future__ import annotations

TYPE_CHECKING = False  # and not typing's, because importing it would take a tenth of the time of a served search
if TYPE_CHECKING:
    from typing import Self

ODD_ERRORS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, AssertionError)
"""Errors from code that reads unexpected values from the index: a sign of damage, or of a bug in memsync."""


def sentences(message: str, hint: str = "") -> str:
    """Join a message and the lines of its hint as sentences on one line.

    The last one gets no full stop: it may end in a command to copy.
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
        if hint:
            self.add_note(hint)  # a traceback shows it

    def sentences(self) -> str:
        """Return the message and the hint as sentences on one line."""
        return sentences(self.message, self.hint)


def own_error(error: Exception, what: str = "memsync", hint: str = "") -> MemsyncError:
    """Return an error of memsync as it is, and any other without its message, which may quote a note or a database."""
    unexpected = MemsyncError(f"{what} failed ({type(error).__name__})", hint=hint)
    return error if isinstance(error, MemsyncError) else unexpected


class UsageError(MemsyncError):
    """The request cannot be understood; nothing was read."""

    exit_code = 2


class Unrelated(UsageError):
    """A text shares no word with the line that it shall replace; the hint ends with words of that line."""


class TitleTaken(UsageError):
    """There is a thread with this title already, at `path`."""

    def __init__(self, message: str, *, hint: str = "", path: str = "") -> None:
        super().__init__(message, hint=hint)
        self.path = path


class ConfigError(MemsyncError):
    """A setting is unknown, has the wrong type or is not allowed in its place."""

    exit_code = 3


class NoMemoryRoot(ConfigError):
    """No option, setting or config file names a memory root."""


class RootError(MemsyncError):
    """The memory root is missing, unreadable, or a different folder than the one indexed."""

    exit_code = 4

    @classmethod
    def absent(cls, root: str, where: str = "") -> Self:
        """Return the error for a missing folder: it may be new, or on a disk that is not mounted."""
        import shlex  # here, because every start imports this module, but a root is seldom missing

        message = f"{where}: the" if where else "the"
        hint = f"Bring it back or mount it; or create it with: memsync init {shlex.quote(root)}"
        return cls(f"{message} memory root {root} does not exist", hint=hint)


class NoteError(MemsyncError):
    """A note cannot be read: it is absent, not a regular file, or outside the memory root."""

    exit_code = 5


class NoteTooLarge(NoteError):
    """A file is larger than a note may be: the cause is the file, not the state of the system."""


class NoSuchNote(NoteError):
    """There is no note with this path."""


class NoThread(NoteError):
    """There is no thread with this name."""


class IndexFailure(MemsyncError):
    """The index cannot be opened, read or written."""

    exit_code = 6


class IndexDamaged(IndexFailure):
    """The database file is not a database, or is damaged."""


class IndexReadOnly(IndexFailure):
    """The index cannot be written now, but perhaps read: a standby server, a full disk there, no permission."""


class IndexTooNew(IndexFailure):
    """A later version of memsync wrote the index."""


class IndexOutdated(IndexFailure):
    """An earlier version of memsync wrote the index; it is rebuilt from the files."""


class IndexBusy(IndexFailure):
    """Another process holds the lock that this work needs."""

    exit_code = 7


class EmbedderError(MemsyncError):
    """A model failed to load or to answer: the embedding model or the reranking model."""

    exit_code = 8


class UnknownModel(EmbedderError):
    """No model has this name."""


class FilesystemError(MemsyncError):
    """memsync cannot write a file of its own."""

    exit_code = 9


class DaemonError(MemsyncError):
    """The daemon cannot be started, stopped or asked."""

    exit_code = 11


class DaemonUnavailable(DaemonError):
    """No daemon serves this memory root with these settings."""


class AnswerLost(DaemonUnavailable):
    """The daemon ended or was silent after a request was sent: it may have done what was asked."""


class DaemonNotRunning(DaemonUnavailable):
    """No daemon is running for this memory root."""


class DaemonOutdated(DaemonUnavailable):
    """The daemon of this memory root has other settings or another version."""


class DaemonRunning(DaemonError):
    """A daemon serves this memory root already."""


class WriteRefused(MemsyncError):
    """A note must not be written now: conflict markers, open in an editor, a link. Nothing was changed."""

    exit_code = 12


class NoteChanged(WriteRefused):
    """A note does not have the text that the writer expected: somebody has changed or made it. Nothing was changed."""
