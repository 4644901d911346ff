"""A note moved within its memory root: to a name that nothing has, in one step, never by copying."""

from __future__ import annotations

import os
from pathlib import Path

from memsync.edit.note_paths import cannot_write, check_writable, folder_of
from memsync.edit.open_editors import refuse_open_in_editor
from memsync.edit.swap import rename_new
from memsync.errors import WriteRefused
from memsync.model.vocabulary import NotePath
from memsync.notes.files import identity_of


def move(root: Path, source: NotePath, target: NotePath, *, mtime_ns: int | None = None) -> None:
    """Give a note another path; folders on the way are made. With `mtime_ns` it must not have changed since.

    Raises FileNotFoundError, WriteRefused, also when there is something of that name already, FilesystemError;
    nothing is changed then.
    """
    name, new = source.rpartition("/")[2], target.rpartition("/")[2]
    with folder_of(root, source) as here:
        try:
            found = os.stat(name, dir_fd=here, follow_symlinks=False)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise cannot_write(source, error) from error
        refuse_open_in_editor(here, source)
        if mtime_ns is not None and identity_of(found)[1] != mtime_ns:
            raise WriteRefused(f"{source} has just changed", hint="Ask again.")
        if is_half_moved(root, source, target):
            os.unlink(name, dir_fd=here)
            return
        check_writable(source, found)
        with folder_of(root, target, create=True) as there:
            try:
                rename_new(here, name, new, there)
                os.fsync(there)
                os.fsync(here)
            except FileExistsError:
                raise WriteRefused(f"{target} is there already", hint="Give that one another name.") from None
            except OSError as error:
                raise cannot_write(source, error) from error


def is_half_moved(root: Path, source: NotePath, target: NotePath) -> bool:
    """Tell whether both names are those of one file, and its only ones.

    Where the system cannot rename without replacing, a move is a second name and then the end of the first; a process
    that is killed in between leaves both.
    """
    try:
        one, other = (os.stat(root / path, follow_symlinks=False) for path in (source, target))
    except OSError:
        return False
    return (one.st_dev, one.st_ino, one.st_nlink) == (other.st_dev, other.st_ino, 2)
