"""Where a note may be written: under the memory root, without following links, with a name that memsync indexes.

Also moves a note to another such place, and names the notes that commands know by tier or by the name of a thread.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shlex
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

from memsync.edit.titles import slug_of
from memsync.errors import FilesystemError, UsageError, WriteRefused
from memsync.model.text import printable, quoted
from memsync.model.vocabulary import NotePath, Tier
from memsync.notes.files import is_below_root, open_folder
from memsync.notes.ignore import is_hidden, is_note_name
from memsync.notes.rules import THREADS_FOLDER
from memsync.system.renames import rename_new

NOTE_OF_TIER = {Tier.PERSONAL: "MEMORY.md", Tier.PROJECT: "notes/project.md", Tier.TASK: "notes/task.md"}
"""The note to which `remember` adds an item of a tier."""

_MAX_NAME_BYTES = 255
MAX_WORDS_CHARS = 40
_OTHER_ENDING = re.compile(r"[^.]\.(?=[A-Za-z0-9]*[A-Za-z])[A-Za-z0-9]{1,10}$")


def note_path(text: str) -> NotePath:
    """Check a path given by a person or an agent and add `.md` if it is missing. Raises UsageError."""
    path = text if is_note_name(text.rpartition("/")[2]) else f"{text}.md"
    parts = path.split("/")
    name_hint = "Write it as search results do: notes/topic.md"
    if not is_below_root(path):
        raise UsageError(f"{quoted(text)} is not a path under the memory root", hint=name_hint)
    if is_hidden(path) or not is_note_name(parts[-1]):
        raise UsageError(f"{text!r} is a hidden file or an editor's temporary file; memsync ignores it", hint=name_hint)
    if not path.isprintable() or printable(path) != path:
        raise UsageError(f"{quoted(text)} has an unprintable character", hint=name_hint)
    if any(len(os.fsencode(part)) > _MAX_NAME_BYTES for part in parts):
        raise UsageError(f"{text[:80]!r}… has a name of over {_MAX_NAME_BYTES} bytes", hint="Write a shorter one.")
    return NotePath(path)


def new_note_path(text: str) -> NotePath:
    """Check the path of a new note like `note_path`. Raises UsageError.

    Refuses names with another file ending: a user who writes `list.txt` does not mean `list.txt.md`.
    """
    folder, slash, name = text.rpartition("/")
    if not text.strip():
        raise UsageError("a note needs a name", hint="Write it as notes/topic.md")
    if not name:
        raise UsageError(f"{text!r} is a folder", hint="Name a note in it: notes/topic.md")
    if name in (".", ".."):
        raise UsageError(f"{quoted(text)} is not a path under the memory root", hint="Write it as notes/topic.md")
    if not is_note_name(name) and _OTHER_ENDING.search(name) and not is_hidden(name):
        stem = name.rpartition(".")[0]
        raise UsageError(
            f"Not a Markdown note: {text!r}", hint=f"Write {folder}{slash}{stem}.md, or {folder}{slash}{name}.md"
        )
    path = note_path(text)
    if not path.rpartition("/")[2].rpartition(".")[0].strip():
        raise UsageError(f"{text!r} has no file name", hint="Write it as notes/topic.md")
    return path


def numbered(path: NotePath) -> Iterator[NotePath]:
    """Yield a path, then the same path with numbers: a.md, a-2.md, a-3.md."""
    stem, dot, suffix = path.rpartition(".")
    yield path
    for number in count(2):
        yield NotePath(f"{stem}-{number}{dot}{suffix}")


def checked_path(text: str) -> NotePath:
    """Check a path that has its ending already: nothing is added. Raises UsageError."""
    return NotePath(note_path(f"{text}.md").removesuffix(".md"))


ID = "id:"
"""The prefix of another program's id of a thread."""


def id_of_thread(thread: str) -> str | None:
    """Return another program's id of a thread; None for a name, a path or a title."""
    return thread.removeprefix(ID) if thread.startswith(ID) else None


def thread_of_id(own: str) -> NotePath:
    """Return the path of the thread that another program calls so."""
    return NotePath(f"{THREADS_FOLDER}{name_with_digest(own)}.md")


def name_with_digest(text: str) -> str:
    """Return a name without an ending for any text: its words, for people, and a digest, which tells texts apart."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{slug_of(text[:MAX_WORDS_CHARS])}-{digest}".removeprefix("-")


def thread_paths(thread: str) -> list[NotePath]:
    """Return the possible paths of a thread given by path or by its name in threads/. Raises UsageError."""
    in_folder = thread if "/" in thread else f"{THREADS_FOLDER}{thread}"
    return list(dict.fromkeys((note_path(in_folder), thread_path(thread))))


def thread_path(name: str) -> NotePath:
    """Return the path of a thread given by path or by its name in threads/. Raises UsageError."""
    return note_path(name if "/" in name or name.endswith((".md", ".markdown")) else f"{THREADS_FOLDER}{name}")


@contextmanager
def folder_of(root: Path, path: NotePath, *, create: bool = False) -> Iterator[int]:
    """Open the folder of the note at `path` and yield its descriptor; with `create` it makes missing folders.

    Raises FileNotFoundError, RootError, FilesystemError, and WriteRefused if the path has a link, a file or `..` in it.
    """
    if not is_below_root(path):
        raise WriteRefused(f"{path} is not a path under the memory root", hint="Name a note as search results do.")
    with ExitStack() as opened:
        try:
            folder = opened.enter_context(open_folder(root, path.split("/")[:-1], create=create))
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not create:
                raise
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                reason = f"{path} is not written: {error.filename} is a symbolic link or not a folder"
                raise WriteRefused(reason, hint="Name a note that is in the memory root itself.") from error
            raise cannot_write(path, error) from error
        yield folder


def check_writable(path: NotePath, status: os.stat_result) -> None:
    """Raise WriteRefused if a file is not a regular file, is read-only or has several hard links."""
    if not stat.S_ISREG(status.st_mode):
        raise WriteRefused(f"{path} is not a regular file", hint="Name another note.")
    user = os.geteuid()
    # A rewrite makes a new file and root may write to any, so the system does not refuse either of them.
    if not status.st_mode & (0o222 if user == 0 else 0o200 if user == status.st_uid else 0o022):
        raise WriteRefused(f"{path} is read-only", hint=f"If you want it changed, run: chmod u+w {shlex.quote(path)}")
    if status.st_nlink > 1:
        raise WriteRefused(
            f"{path} is not written: it has {status.st_nlink} names (hard links), maybe outside the memory root",
            hint="Make it a separate file: copy it, then rename the copy to the old name.",
        )


def cannot_write(path: str, error: OSError) -> FilesystemError:
    """Return the error for a note that cannot be written, with a hint that depends on the cause."""
    hint = "Free some space." if error.errno in (errno.ENOSPC, errno.EDQUOT) else "Check its permissions."
    return FilesystemError(f"{path} cannot be written: {error.strerror}", hint=hint)


def move(root: Path, source: NotePath, target: NotePath) -> None:
    """Move a note to another path and create missing folders.

    Raises FileNotFoundError, WriteRefused (also if the target exists), FilesystemError; nothing is changed then.
    """
    name, new = source.rpartition("/")[2], target.rpartition("/")[2]
    with folder_of(root, source) as here:
        try:
            status = os.stat(name, dir_fd=here, follow_symlinks=False)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise cannot_write(source, error) from error
        if is_half_moved(root, source, target):
            os.unlink(name, dir_fd=here)
            return
        check_writable(source, status)
        with folder_of(root, target, create=True) as there:
            try:
                rename_new(here, name, new, there)
                os.fsync(there)
                os.fsync(here)
            except FileExistsError:
                raise WriteRefused(f"{target} already exists", hint="Rename that note first.") from None
            except OSError as error:
                raise cannot_write(source, error) from error


def is_half_moved(root: Path, source: NotePath, target: NotePath) -> bool:
    """Tell whether both paths are hard links to one file that has no other links.

    A process leaves both if it is killed in `move`, on systems that cannot rename without replacing.
    """
    try:
        old, new = (os.stat(root / path, follow_symlinks=False) for path in (source, target))
    except OSError:
        return False
    return (old.st_dev, old.st_ino, old.st_nlink) == (new.st_dev, new.st_ino, 2)
