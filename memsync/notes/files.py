"""Find, stat and open the note files of a memory root, so that nothing outside the root can be reached.

Only `stat` and open descriptors are trusted, not events or names. Nothing here writes.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from memsync.errors import NoteError, NoteTooLarge, RootError
from memsync.model.note import FileStamp
from memsync.model.status import Failure
from memsync.model.text import quoted, whole_characters
from memsync.model.vocabulary import NotePath
from memsync.notes.git_files import HeadState, head_state
from memsync.notes.ignore import IgnoreFile, IgnoreRules, check_cost, ignores, is_hidden, is_note_name, only_pattern
from memsync.settings.paths import folder_identity, is_inside, keep_identity
from memsync.system import clock

_LOCAL = ("bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "ramfs", "tmpfs", "xfs", "zfs")
_REMOTE = re.compile(r"nfs|cifs|smb|9p|afs|ceph|gluster|lustre|virtiofs|vboxsf|vmhgfs|prl_fs|davfs|ncpfs|fuse(?!blk)")


@dataclass(frozen=True, slots=True)
class FileSystem:
    """A type of file system: `type` is the system's name for it, empty if unknown.

    `is_remote`: changes made by other machines are not reported here. `is_local`: known to be a disk or memory of this
    machine, so that file times come from this machine's clock, exact to some milliseconds.
    """

    type: str
    is_remote: bool
    is_local: bool


def file_system_of(folder: Path, mounts: Path = Path("/proc/self/mountinfo")) -> FileSystem:
    """Return the file system of `folder`; its type is known only on Linux."""
    name = _type_on_linux(folder, mounts) if sys.platform == "linux" else ""
    return FileSystem(name, _REMOTE.match(name) is not None, name in _LOCAL)


def _type_on_linux(folder: Path, mounts: Path) -> str:
    """Return the type of the nearest mount above `folder`; the last one listed if several share a mount point."""
    try:
        lines = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    nearest, name = "", ""
    for line in lines:
        fields = line.split(" ")
        point = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        if len(point) >= len(nearest) and folder.is_relative_to(point):
            nearest, name = point, fields[fields.index("-") + 1]
    return name


class Places:
    """Root-relative paths: files, folders with everything in them, or paths that no longer exist."""

    def __init__(self, paths: Iterable[str]) -> None:
        """`paths` have forward slashes, but not at the end."""
        self.paths = frozenset(paths)
        self._folders = {folder for path in self.paths for folder in _folders_above(path)}

    def hold(self, path: str) -> bool:
        """Tell whether a file or folder is one of the paths or in one of them."""
        return path in self.paths or any(folder[:-1] in self.paths for folder in _folders_above(path))

    def are_under(self, folder: str) -> bool:
        """Tell whether a folder contains one of the paths; `folder` ends in a slash, or is empty for the root."""
        return not folder or folder in self._folders


def _folders_above(path: str) -> list[str]:
    return [path[: position + 1] for position, character in enumerate(path) if character == "/"]


LATEST_NS = 2**63 - 1
"""Latest time in nanoseconds since 1970 that fits into a database integer: in the year 2262."""
MAX_NOTE_BYTES = 64_000_000
MAX_NOTE_LINES = 1_000_000
"""Each paragraph takes about 400 bytes of memory, so 60 MB of one-letter paragraphs would take gigabytes."""
_READ_ATTEMPTS = 3
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_TYPE_MASK = 0o170000

Identity = tuple[int, int, int, int]
"""(size, mtime_ns, ctime_ns, inode): tells two states of one file apart without reading it."""


@dataclass(slots=True)
class FileScan:
    """The note files that a scan found, by path, and the places that it could not read.

    A note under one of `unreadable_folders` (each ends in a slash) is unknown, not gone. With `places`, the scan looked
    only there. `folder_inodes` are the inodes of the scanned folders except the root. `links` are symbolic links
    in place of notes and folders, `left_out` the notes and folders (with a slash at the end) that the rules exclude.
    `known` are the identities that it compares with, and `met` is how many of these files it met; `changed` are the
    files with other identities.
    """

    places: Places | None = None
    files: dict[NotePath, Identity] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    unreadable_folders: list[str] = field(default_factory=list)
    folder_inodes: list[int] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    known: Mapping[NotePath, Identity] = field(default_factory=dict)
    met: int = 0
    changed: list[NotePath] = field(default_factory=list)

    def add(self, path: str, identity: Identity) -> None:
        """Add a file, or a failure if its name is not valid UTF-8 and so cannot be stored or shown."""
        if whole_characters(path) == path:
            self.files[NotePath(path)] = identity
            self.changed.append(NotePath(path))
            self.met += path in self.known
        else:
            self.failures.append(Failure(_printable(path), "name is not valid UTF-8: rename the file"))

    def cannot_read(self, path: str, error: OSError) -> None:
        """Add a failure for a file, or a folder with a slash at its end, unless it was just deleted."""
        if error.errno not in (errno.ENOENT, errno.ENOTDIR):
            folder = "folder " if path[-1] == "/" else ""
            self.failures.append(Failure(_printable(path), f"{folder}cannot be read: {error.strerror}"))
            self.unreadable_folders.append(path)

    def is_unknown(self, path: NotePath) -> bool:
        """Tell whether the scan did not or could not look at `path`."""
        if self.places is not None and not self.places.hold(path):
            return True
        return any(path == place or (place[-1] == "/" and path.startswith(place)) for place in self.unreadable_folders)


class NoteFiles:
    """The note files of one memory root."""

    def __init__(
        self,
        root: Path,
        exclude: Sequence[str] = (),
        suffixes: Sequence[str] = (),
        require_settings: Callable[[], None] = lambda: None,
        only: Sequence[str] = (),
    ) -> None:
        """`require_settings` raises ConfigError if other settings hold now than those in use.

        Files with one of `suffixes` are notes, too. With `only`, just the files that match one of these patterns are
        notes, whatever a `.gitignore` says.
        """
        self.root = root
        self.require_settings = require_settings
        self._resolved = os.path.realpath(root)
        self.is_local = file_system_of(root).is_local
        self._ignore = IgnoreRules(exclude)
        self._only = only_pattern(only)
        self.is_note_name = partial(is_note_name, more=tuple(suffix.lower() for suffix in suffixes))

    def root_identity(self) -> str:
        """Return what tells the root from another folder later found at the same path, see `folder_identity`.

        Raises ConfigError if other settings hold now; RootError if it is missing, or if a link now leads elsewhere.
        """
        self.require_settings()
        try:
            identity = folder_identity(str(self.root))
        except OSError as error:
            raise _root_error(self.root, error) from error
        if not os.path.isdir(self.root):
            raise RootError(f"{self.root} is not a folder", hint="Set root in config.toml to the folder of your notes.")
        self._require_no_link()
        return identity

    def keep_identity(self, identity: str) -> None:
        """Remember the root's identity outside of the index. Raises FilesystemError, IndexBusy."""
        keep_identity(str(self.root), identity)

    def _require_no_link(self) -> None:
        """Raise RootError if a link now leads from the root's path, or from a folder above, to another folder."""
        if (now := os.path.realpath(self.root)) != self._resolved:
            hint = "If you made the link, restart memsync with that folder."
            raise RootError(f"{self.root} is not the folder that was opened: a link leads to {now}", hint=hint)

    def head_state(self) -> HeadState:
        """Return the state of git's HEAD, which dates the notes."""
        return head_state(self.root)

    def scan(self, places: Places | None = None, known: Mapping[NotePath, Identity] | None = None) -> FileScan:
        """Stat every note file, or those at `places`. Raises RootError if the root cannot be listed.

        With `known`, see FileScan, it costs little more than one `scandir` a folder and one `stat` a file: a file that
        is as known is only counted. If one of them is missing, it looks at all files again.
        """
        scan = self._walked(FileScan(places, known=known or {}))
        if scan.met < len(scan.known):
            return self._walked(FileScan(places))
        scan.files = {**scan.known, **scan.files}
        return scan

    def _walked(self, scan: FileScan) -> FileScan:
        """Return a scan after adding what is in the root."""
        places = scan.places
        pending: list[tuple[str, tuple[IgnoreFile, ...]]] = [("", self._ignore.root_rules)]
        while pending:
            folder, rules = pending.pop()
            try:
                entries = list(os.scandir(os.path.join(self.root, folder)))
                own_rules = self._with_own_rules(rules, folder, entries)
            except OSError as error:
                if not folder:
                    raise _root_error(self.root, error) from error
                scan.cannot_read(folder, error)
                continue
            if places is not None and not places.hold(folder[:-1]):
                entries = [e for e in entries if places.hold(folder + e.name) or places.are_under(f"{folder}{e.name}/")]
            pending += self._scan_folder(folder, entries, own_rules, scan)
        return scan

    def _with_own_rules(
        self, rules: tuple[IgnoreFile, ...], folder: str, entries: Iterable[os.DirEntry[str]]
    ) -> tuple[IgnoreFile, ...]:
        """Return the rules for a folder: those of the folders above, then those of its `.gitignore`. Raises OSError."""
        ignore_files = [entry for entry in entries if entry.name == ".gitignore"]
        own_rules = self._ignore.read(folder, ignore_files[0]) if ignore_files else None
        rules = rules if own_rules is None else (*rules, own_rules)
        check_cost(rules)
        return rules

    def _scan_folder(
        self, folder: str, entries: Sequence[os.DirEntry[str]], rules: tuple[IgnoreFile, ...], scan: FileScan
    ) -> list[tuple[str, tuple[IgnoreFile, ...]]]:
        """Add the notes of one folder to `scan` and return the subfolders to scan, with their rules."""
        check_files = self._only is not None or any(rule.for_files for rule in rules)
        folders, met, known_of = [], 0, scan.known.get
        for entry in entries:
            name = entry.name
            path: NotePath = folder + name  # type: ignore[assignment]  # a call of NotePath is dear here
            known = known_of(path)
            try:
                if known is not None or self.is_note_name(name):
                    if check_files and self._ignores(rules, path, is_folder=False):
                        scan.left_out.append(path)
                        continue
                    info = entry.stat(follow_symlinks=False)
                    if info.st_mode & _TYPE_MASK == stat.S_IFREG:
                        if known == (info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino):
                            met += 1
                        else:
                            scan.add(path, identity_of(info))
                        continue
                is_folder = name[0] != "." and entry.is_dir(follow_symlinks=False)
                if (self.is_note_name(name) or (not is_folder and "." not in name)) and entry.is_symlink():
                    scan.links.append(path)
            except OSError as error:
                scan.cannot_read(path, error)
                continue
            if is_folder and self._ignores(rules, path, is_folder=True):
                scan.left_out.append(f"{path}/")
            elif is_folder:
                scan.folder_inodes.append(entry.inode())
                folders.append((f"{path}/", rules))
        scan.met += met
        return folders

    def _ignores(self, rules: Sequence[IgnoreFile], path: str, *, is_folder: bool) -> bool:
        if self._only is not None and not self._only.fullmatch(f"{path}/" if is_folder else path):
            return True
        return ignores(rules, path, is_folder=is_folder)

    def other_files(self) -> Iterator[str]:
        """Yield the path of every file in the root, also of those that are no notes; without hidden ones and links."""
        pending = [""]
        while pending:
            folder = pending.pop()
            with suppress(OSError), os.scandir(os.path.join(self.root, folder)) as entries:
                for entry in entries:
                    if entry.name[0] != "." and entry.is_file(follow_symlinks=False):
                        yield folder + entry.name
                    elif entry.name[0] != "." and entry.is_dir(follow_symlinks=False):
                        pending.append(f"{folder}{entry.name}/")

    def exists(self, path: str) -> bool:
        """Tell whether the root has a file or a folder at a path, hidden or not. Looks at nothing outside the root."""
        root, place = os.path.realpath(self.root), os.path.join(self.root, path)
        return is_inside(os.path.realpath(os.path.dirname(place)), root) and os.path.lexists(place)

    def holds(self, path: NotePath) -> bool:
        """Tell whether a scan finds a note at that path; that the file can be opened is not enough."""
        return path in self.scan(Places([path])).files

    def leaves_out(self, path: NotePath, *, is_note: bool = True) -> bool:
        """Tell whether a scan would skip a note at that path, even if there is none yet.

        Without `is_note` it is another file, for which all patterns count: those for folders, too.
        """
        rules, folder = self._ignore.root_rules, ""
        *folders, name = path.split("/")
        for inner in (*folders, ""):
            try:
                with os.scandir(os.path.join(self.root, folder)) as entries:
                    rules = self._with_own_rules(rules, folder, entries)
            except FileNotFoundError:
                pass
            except OSError:
                return True
            if inner and self._ignores(rules, folder + inner, is_folder=True):
                return True
            folder += f"{inner}/" if inner else ""
        is_other = is_hidden(path) or self.is_note_name(name) is not is_note
        return is_other or self._ignores(rules, path, is_folder=not is_note)

    def read(self, path: NotePath) -> tuple[bytes, FileStamp]:
        """Return the bytes of a note and its stamp at the time of reading. Raises FileNotFoundError if it is gone.

        Raises NoteError if it is outside the root, not a regular file, too large, unreadable, or keeps changing.
        """
        with self._opened(path) as descriptor:
            for _ in range(_READ_ATTEMPTS):
                stamped_ns = clock.time_ns()
                before = os.fstat(descriptor)
                if before.st_size > MAX_NOTE_BYTES:
                    megabytes = MAX_NOTE_BYTES // 1_000_000
                    raise NoteTooLarge(f"{path} is over {megabytes} MB", hint="Exclude it in [files].")
                content = _read_all(descriptor, before.st_size)
                after = os.fstat(descriptor)
                if max(content.count(b"\n"), content.count(b"\r")) > MAX_NOTE_LINES:
                    raise NoteTooLarge(f"{path} has over {MAX_NOTE_LINES:,} lines", hint="Exclude it in [files].")
                if identity_of(before) == identity_of(after) and len(content) == after.st_size:
                    digest = hashlib.sha256(content).digest()
                    return content, FileStamp(*identity_of(after), digest, stamped_ns, blob_names(content))
                os.lseek(descriptor, 0, os.SEEK_SET)
        raise NoteError(f"{path} keeps changing while it is read", hint="The next sync tries again.")

    def beginning(self, path: NotePath, max_bytes: int) -> bytes:
        """Return at most `max_bytes` bytes from the start of a note. Raises as `read` does."""
        with self._opened(path) as descriptor:
            return os.read(descriptor, max_bytes)

    @contextmanager
    def _opened(self, path: NotePath) -> Iterator[int]:
        """Open a note, close it at the end, and raise NoteError for errors of reading."""
        descriptor = self.open(path)
        try:
            yield descriptor
        except OSError as error:
            raise NoteError(f"{path} cannot be read: {error.strerror}") from error
        finally:
            os.close(descriptor)

    def identity(self, path: NotePath) -> Identity | None:
        """Return the identity of a note's file now, or None if it is gone or not a regular file."""
        try:
            info = os.stat(os.path.join(self.root, path), follow_symlinks=False)
        except (OSError, ValueError):
            return None
        return identity_of(info) if stat.S_ISREG(info.st_mode) else None

    def last_touched_ns(self, path: NotePath) -> int:
        """Return the ctime of a file, or of the nearest existing folder above it, in nanoseconds; 0 if none exists."""
        place = str(path)
        while True:
            try:
                return os.stat(os.path.join(self.root, place), follow_symlinks=False).st_ctime_ns
            except (OSError, ValueError):
                if not place:
                    return 0
                place = place.rpartition("/")[0]

    def open(self, path: NotePath) -> int:
        """Return a read-only descriptor for a regular file under the root; the caller closes it.

        Follows no links, see `open_folder`. Raises FileNotFoundError or NoteError.
        """
        *folders, name = path.split("/")
        if not is_below_root(path):
            raise NoteError(
                f"{path!r} is not a path in the memory root", hint="Write the path as search results print it."
            )
        self._require_no_link()
        try:
            with open_folder(self.root, folders) as folder:
                descriptor = os.open(name, _FILE_FLAGS, dir_fd=folder)
        except FileNotFoundError:
            raise
        except UnicodeEncodeError as error:  # a lone surrogate, which no file name can have
            raise FileNotFoundError(path) from error
        except OSError as error:
            is_link = error.errno in (errno.ELOOP, errno.ENOTDIR)
            reason = "is a symbolic link or lies under one" if is_link else f"cannot be read: {error.strerror}"
            raise NoteError(f"{path} {reason}") from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise NoteError(f"{path} is not a regular file")
        return descriptor


def is_below_root(path: str) -> bool:
    """Tell whether a root-relative path has only names of files and folders, and so cannot lead out of the root."""
    return not any(part in ("", ".", "..") or "\0" in part for part in path.split("/"))


@contextmanager
def open_folder(root: Path, folders: Sequence[str], *, create: bool = False) -> Iterator[int]:
    """Open the root and one folder in the other; yield the descriptor of the last. With `create`, make missing ones.

    Follows no links, so that a link swapped in meanwhile does not lead outside. Raises RootError, and OSError with the
    name of the folder that cannot be opened.
    """
    try:
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _root_error(root, error) from error
    try:
        for name in folders:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=folder)
                    os.fsync(folder)
            inner = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def blob_names(content: bytes) -> bytes:
    """Return git's names for a content: the SHA-1 of its blob (20 bytes), then the SHA-256 (32 bytes)."""
    blob = b"blob %d\0" % len(content) + content
    return hashlib.sha1(blob, usedforsecurity=False).digest() + hashlib.sha256(blob).digest()


def identity_of(info: os.stat_result) -> Identity:
    """Return a file's identity from its `stat`; an mtime that does not fit into a database becomes LATEST_NS."""
    mtime_ns = info.st_mtime_ns if abs(info.st_mtime_ns) <= LATEST_NS else LATEST_NS
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


def _printable(path: str) -> str:
    return path if whole_characters(path) == path else quoted(ascii(path)[1:-1], 100)
