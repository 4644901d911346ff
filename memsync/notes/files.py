"""The files of a memory root: found, stamped, and opened so that nothing outside the root can be reached.

Events and names are hints; what `stat` and an open descriptor say is the truth. Nothing here writes.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from memsync.errors import NoteError, NoteTooLarge, RootError
from memsync.model.note import FileStamp
from memsync.model.status import Failure
from memsync.model.vocabulary import NotePath
from memsync.notes.filesystem import file_system_of
from memsync.notes.ignore import IgnoreFile, IgnoreRules, ignores_file, ignores_folder, is_note_name


class Places:
    """Root-relative paths, each of which may be a file, a folder with all beneath it, or nothing any more."""

    def __init__(self, paths: Iterable[str]) -> None:
        """`paths` have forward slashes and none at the end."""
        self.paths = frozenset(paths)
        self._on_the_way = {folder for path in self.paths for folder in _folders_above(path)}

    def hold(self, path: str) -> bool:
        """Tell whether a file or folder is one of them or lies beneath one."""
        return path in self.paths or any(folder[:-1] in self.paths for folder in _folders_above(path))

    def are_beneath(self, folder: str) -> bool:
        """Tell whether one of them lies beneath a folder, whose name ends in a slash; the root's is empty."""
        return not folder or folder in self._on_the_way


def _folders_above(path: str) -> list[str]:
    return [path[: position + 1] for position, character in enumerate(path) if character == "/"]


LATEST_NS = 2**63 - 1
"""Of nanoseconds since 1970, in the whole numbers of a database: in the year 2262."""
MAX_NOTE_BYTES = 64_000_000
_READ_ATTEMPTS = 3
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_TYPE_MASK = 0o170000

Identity = tuple[int, int, int, int]
"""size, mtime_ns, ctime_ns, inode: what tells two states of one file apart without reading it."""


@dataclass(slots=True)
class FileScan:
    """Every note file found, by path, and what could not be looked at.

    A note beneath one of `unreadable_folders` (each ends in a slash) is unknown, which is not the same as gone. With
    `places`, only they were looked at. `folder_inodes` are of the folders that were gone through, the root's aside.
    """

    places: Places | None = None
    files: dict[NotePath, Identity] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    unreadable_folders: list[str] = field(default_factory=list)
    folder_inodes: list[int] = field(default_factory=list)

    def add(self, path: str, identity: Identity) -> None:
        """Note a file; a name that is not text cannot be stored or shown, so it is a failure."""
        if path.isascii() or _is_text(path):
            self.files[NotePath(path)] = identity
        else:
            self.failures.append(Failure(_printable(path), "name is not valid UTF-8: rename the file"))

    def cannot_stat(self, path: str, error: OSError) -> None:
        """Note a file that is there and cannot be looked at; one that has just gone is nothing to tell."""
        if error.errno != errno.ENOENT:
            self.failures.append(Failure(_printable(path), f"cannot be read: {error.strerror}"))
            self.unreadable_folders.append(path)

    def is_unknown(self, path: NotePath) -> bool:
        """Tell whether `path` lies where the scan did not or could not look."""
        if self.places is not None and not self.places.hold(path):
            return True
        return any(path == place or (place[-1] == "/" and path.startswith(place)) for place in self.unreadable_folders)


class NoteFiles:
    """The note files beneath one memory root."""

    def __init__(self, root: Path, exclude: Sequence[str] = ()) -> None:
        self.root = root
        self.is_local = file_system_of(root).is_local
        self._ignore = IgnoreRules(tuple(exclude))

    def root_identity(self) -> str:
        """Return what tells this folder from another that may later stand at the same path."""
        try:
            found = os.stat(self.root)
        except OSError as error:
            raise _root_error(self.root, error) from error
        if not stat.S_ISDIR(found.st_mode):
            raise RootError(f"{self.root} is not a folder", hint="Set root in config.toml to the folder of your notes.")
        return f"{found.st_dev}:{found.st_ino}"

    def scan(self, places: Places | None = None) -> FileScan:
        """Stat every note file, or those at `places`. Raises RootError when the root itself cannot be listed.

        One call of `scandir` a folder and one of `stat` a file is nearly all it costs: 10,000 files take about 25 ms.
        """
        found = FileScan(places)
        pending: list[tuple[str, tuple[IgnoreFile, ...]]] = [("", self._ignore.root_rules())]
        while pending:
            folder, rules = pending.pop()
            try:
                entries = list(os.scandir(os.path.join(self.root, folder)))
            except OSError as error:
                if not folder:
                    raise _root_error(self.root, error) from error
                if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                    found.failures.append(Failure(_printable(folder), f"folder cannot be read: {error.strerror}"))
                    found.unreadable_folders.append(folder)
                continue
            pending += self._scan_folder(folder, entries, rules, found)
        return found

    def _scan_folder(
        self, folder: str, entries: Sequence[os.DirEntry[str]], rules: tuple[IgnoreFile, ...], found: FileScan
    ) -> list[tuple[str, tuple[IgnoreFile, ...]]]:
        """Add the notes of one folder to `found` and return the folders to go on with."""
        ignore_file = next((entry for entry in entries if entry.name == ".gitignore"), None)
        own_rules = self._ignore.read(folder, ignore_file) if ignore_file else None
        if own_rules is not None:
            rules = (*rules, own_rules)
        check_files = any(rule.for_files for rule in rules)
        places = found.places
        if places is not None and not places.hold(folder[:-1]):
            entries = [e for e in entries if places.hold(folder + e.name) or places.are_beneath(f"{folder}{e.name}/")]
        folders = []
        for entry in entries:
            name = entry.name
            if is_note_name(name) and (not check_files or not ignores_file(rules, folder + name)):
                try:
                    info = entry.stat(follow_symlinks=False)
                except OSError as error:
                    found.cannot_stat(folder + name, error)
                    continue
                if info.st_mode & _TYPE_MASK == stat.S_IFREG:
                    found.add(folder + name, identity_of(info))
                    continue
            if name[0] != "." and _is_folder(entry):
                path = folder + name
                if not rules or not ignores_folder(rules, path):
                    found.folder_inodes.append(entry.inode())
                    folders.append((path + "/", rules))
        return folders

    def holds(self, path: NotePath) -> bool:
        """Tell whether there is a note of that path: a file that a scan finds, and not just any that can be opened."""
        return path in self.scan(Places([path])).files

    def leaves_out(self, path: NotePath) -> bool:
        """Tell whether a scan would pass over a note of that path, whether or not it is there."""
        rules, folder = self._ignore.root_rules(), ""
        *folders, name = path.split("/")
        for inner in (*folders, ""):
            with suppress(OSError), os.scandir(os.path.join(self.root, folder)) as entries:
                ignore_file = next((entry for entry in entries if entry.name == ".gitignore"), None)
                own = self._ignore.read(folder, ignore_file) if ignore_file else None
                rules = rules if own is None else (*rules, own)
            if inner and (inner[0] == "." or ignores_folder(rules, folder + inner)):
                return True
            folder += f"{inner}/" if inner else ""
        return not is_note_name(name) or ignores_file(rules, path)

    def read(self, path: NotePath) -> tuple[bytes, FileStamp]:
        """Return the bytes of a note and the stamp they were read under.

        Raises FileNotFoundError when it is gone, NoteError when it lies outside the root, is no regular file, is too
        large, cannot be read, or keeps changing while it is read.
        """
        descriptor = self.open(path)
        try:
            for _ in range(_READ_ATTEMPTS):
                stamped_ns = time.time_ns()
                before = os.fstat(descriptor)
                if before.st_size > MAX_NOTE_BYTES:
                    most = MAX_NOTE_BYTES // 1_000_000
                    raise NoteTooLarge(f"{path} is over {most} MB", hint="Exclude it in [files].")
                content = _read_all(descriptor, before.st_size)
                after = os.fstat(descriptor)
                if identity_of(before) == identity_of(after) and len(content) == after.st_size:
                    digest = hashlib.sha256(content).digest()
                    return content, FileStamp(*identity_of(after), digest, stamped_ns, blob_names(content))
                os.lseek(descriptor, 0, os.SEEK_SET)
        except OSError as error:
            raise NoteError(f"{path} cannot be read: {error.strerror}") from error
        finally:
            os.close(descriptor)
        raise NoteError(f"{path} keeps changing while it is read", hint="It is tried again at the next sync.")

    def beginning(self, path: NotePath, most: int) -> bytes:
        """Return at most so many bytes from the start of a note, as they are now. Raises as `open` does."""
        descriptor = self.open(path)
        try:
            return os.read(descriptor, most)
        except OSError as error:
            raise NoteError(f"{path} cannot be read: {error.strerror}") from error
        finally:
            os.close(descriptor)

    def identity(self, path: NotePath) -> Identity | None:
        """Return what `stat` says of a note now, or None if it is gone or no regular file."""
        try:
            found = os.stat(os.path.join(self.root, path), follow_symlinks=False)
        except (OSError, ValueError):
            return None
        return identity_of(found) if stat.S_ISREG(found.st_mode) else None

    def last_touched_ns(self, path: NotePath) -> int:
        """Return when a file's state, or that of the nearest folder above it that is there, last changed (ctime)."""
        place = str(path)
        while True:
            try:
                return os.stat(os.path.join(self.root, place), follow_symlinks=False).st_ctime_ns
            except (OSError, ValueError):
                if not place:
                    return 0
                place = place.rpartition("/")[0]

    def open(self, path: NotePath) -> int:
        """Return a read-only descriptor for a regular file beneath the root; the caller closes it.

        Each folder on the way is opened without following links, so neither `..` nor a link swapped in meanwhile
        leads outside. Raises FileNotFoundError or NoteError.
        """
        parts = path.split("/")
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            raise NoteError(f"{path!r} is not a path beneath the memory root", hint="Name it as search results do.")
        try:
            folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise _root_error(self.root, error) from error
        try:
            for part in parts[:-1]:
                inner = os.open(part, _FOLDER_FLAGS, dir_fd=folder)
                os.close(folder)
                folder = inner
            descriptor = os.open(parts[-1], _FILE_FLAGS, dir_fd=folder)
        except FileNotFoundError:
            raise
        except UnicodeEncodeError as error:  # half of a character, which no name holds
            raise FileNotFoundError(path) from error
        except OSError as error:
            is_link = error.errno in (errno.ELOOP, errno.ENOTDIR)
            reason = "is or lies behind a symbolic link" if is_link else f"cannot be read: {error.strerror}"
            raise NoteError(f"{path} {reason}") from error
        finally:
            os.close(folder)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise NoteError(f"{path} is not a regular file")
        return descriptor


def blob_names(content: bytes) -> bytes:
    """Return what git calls a content: the SHA-1 of its blob (20 bytes), then the SHA-256 (32 bytes)."""
    blob = b"blob %d\0" % len(content) + content
    return hashlib.sha1(blob, usedforsecurity=False).digest() + hashlib.sha256(blob).digest()


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:  # gone already, on a file system whose listings do not say what is a folder
        return False


def identity_of(info: os.stat_result) -> Identity:
    """Return what of `stat` tells two states of a file apart; a day beyond 2262 as the last that databases hold."""
    mtime_ns = info.st_mtime_ns
    if not -LATEST_NS <= mtime_ns <= LATEST_NS:
        mtime_ns = LATEST_NS
    return (info.st_size, mtime_ns, info.st_ctime_ns, info.st_ino)


def _read_all(descriptor: int, size: int) -> bytes:
    parts = []
    while block := os.read(descriptor, max(size, 1) + 1):
        parts.append(block)
        if sum(map(len, parts)) > MAX_NOTE_BYTES:
            break
    return b"".join(parts)


def _root_error(root: Path, error: OSError) -> RootError:
    if isinstance(error, FileNotFoundError):
        return RootError.absent(str(root))
    return RootError(f"memory root {root} cannot be read: {error.strerror}", hint="Check its permissions.")


def _is_text(path: str) -> bool:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _printable(path: str) -> str:
    return path.encode("utf-8", "replace").decode("utf-8", "replace") if _is_text(path) else ascii(path)
