"""The platform's folders for a user's settings, state and caches, and checks of who owns the files there.

A library exists for the folders, but importing it takes a quarter of the time of a search through the daemon.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from memsync.errors import DaemonUnavailable, FilesystemError

try:  # because hashlib loads OpenSSL, which takes as long as reading all settings
    from _sha2 import sha256  # type: ignore[import-not-found, unused-ignore]  # because it is CPython's own, untyped
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found, unused-ignore]  # its name in CPython 3.11
    except ImportError:
        from hashlib import sha256

FOLDER_VARIABLES = ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "FASTEMBED_CACHE_PATH")
"""Environment variables that, besides the home folder, decide where memsync's own files are."""
STARTED = "MEMSYNC_STARTED"
"""The environment variable of programs that memsync started. Their hooks print nothing."""
Stamp = tuple[int, ...]
STATE = "state.db"
"""The file that has the state of a memory root, or of the user."""
MAX_SOCKET_PATH_BYTES = 100
"""The system's limit is 108 bytes on Linux and 104 on macOS, with the final NUL."""
_NAME = "memsync"
_ACCESS_LIST = "system.posix_acl_access"


def state_folder() -> str:
    """Return the folder for indexes, logs and sockets."""
    return _folder("XDG_STATE_HOME", ".local/state", "Library/Application Support")


def config_folder() -> str:
    """Return the folder for the user's own config.toml."""
    return _folder("XDG_CONFIG_HOME", ".config", "Library/Application Support")


def cache_folder() -> str:
    """Return the folder for files that can be downloaded again, such as models."""
    return _folder("XDG_CACHE_HOME", ".cache", "Library/Caches")


def data_folder() -> str:
    """Return the folder for memories that memsync itself fills, such as transcripts."""
    return _folder("XDG_DATA_HOME", ".local/share", "Library/Application Support")


def started_folder() -> str:
    """Return the folder in which memsync runs programs. What agents say there is no conversation of the user's."""
    return os.path.join(state_folder(), "started")


def user_folder() -> str:
    """Return the folder of the user's state."""
    return os.path.join(state_folder(), "user")


def socket_path(index_dir: str) -> str:
    """Return the path of the index's socket: in `index_dir`, or in `runtime_folder()` if that path is too long."""
    path = os.path.join(index_dir, "daemon.sock")
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES:
        return path
    return os.path.join(runtime_folder(), f"{digest_of(os.fsencode(index_dir))[:32]}.sock")


def runtime_folder() -> str:
    """Return a short path of a folder for this user's sockets: under XDG_RUNTIME_DIR, or in /tmp."""
    session = os.environ.get("XDG_RUNTIME_DIR", "")
    if session and len(os.fsencode(session)) < MAX_SOCKET_PATH_BYTES // 2:
        return os.path.join(session, "memsync")
    return f"/tmp/memsync-{os.getuid()}"  # noqa: S108 (because require_private checks its owner)


def require_private(folder: str) -> None:
    """Raise DaemonUnavailable unless `folder` is a real folder that belongs to this user and only they can write."""
    try:
        status = os.lstat(folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DaemonUnavailable(f"{folder} cannot be read: {error.strerror}", hint="Check its mode.") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise DaemonUnavailable(
            f"{folder} is not a folder that only you can write", hint="Remove it, or set its mode to 0700."
        )


def _folder(variable: str, usual: str, on_macos: str) -> str:
    """Return memsync's folder under the XDG variable if that is an absolute path, otherwise in the usual place."""
    named = os.environ.get(variable, "")
    if os.path.isabs(named):
        return os.path.join(named, _NAME)
    return os.path.join(os.path.expanduser("~"), on_macos if sys.platform == "darwin" else usual, _NAME)


def deciding_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that affect settings or the location of memsync's own files."""
    names = {name for name in environ if name.startswith("MEMSYNC_") or name in FOLDER_VARIABLES} - {STARTED}
    return {name: environ[name] for name in sorted(names)}


def stamp_of(path: str) -> Stamp:
    """Return what changes when a file is written or replaced; nothing if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of some bytes in hexadecimal."""
    digest: str = sha256(content).hexdigest()
    return digest


@contextmanager
def filesystem_errors(message: str, hint: str = "Check its folder.") -> Iterator[None]:
    """Raise FilesystemError with a message for an OSError in the block, whose reason follows the message.

    The hint is that a disk is full, or the given one.
    """
    try:
        yield
    except OSError as error:
        hint = "Free some space." if error.errno in (errno.ENOSPC, errno.EDQUOT) else hint
        raise FilesystemError(f"{message}: {error.strerror}", hint=hint) from error


def own_folder(folder: str | os.PathLike[str]) -> None:
    """Create a folder for memsync's own files, or check that an existing one belongs to this user.

    New folders get mode 0700, and so do all of memsync's folders in the user's state folder. None may contain links or
    files of another user, so that memsync never opens, renames or truncates a file through a link that came with
    somebody's notes. Raises OSError, and FilesystemError for a folder that fails these checks.
    """
    folder = os.path.abspath(folder)
    ours = [folder]
    top = state_folder()
    while (above := os.path.dirname(ours[-1])) == top or above.startswith(f"{top}/"):
        ours.append(above)
    modes = {}
    for path in reversed(ours):  # from the top, so that nothing is made through a link
        _make(path)
        modes[path] = _mode_if_ours(path)
    _check_files(folder)
    for path, mode in modes.items():
        if mode & 0o077:
            os.chmod(path, 0o700)


def write_own_file(path: str, content: bytes) -> None:
    """Replace a file of memsync's in one step, readable by the user only; `own_folder` makes or checks its folder.

    Raises OSError, FilesystemError.
    """
    own_folder(os.path.dirname(path))
    replace_file(path, content)


def replace_file(path: str, content: bytes, *, sync: bool = False) -> None:
    """Do what `write_own_file` does, in a folder that exists and need not be memsync's. Raises OSError.

    With `sync`, the content is on disk before it replaces the old one.
    """
    aside = f"{path}.{os.getpid()}"
    try:
        with open(aside, "wb", opener=open_private) as stream:
            stream.write(content)
            if sync:
                stream.flush()
                os.fsync(stream.fileno())
        os.replace(aside, path)
    except OSError:
        with suppress(OSError):
            os.unlink(aside)
        raise


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Wait until a folder's names are on disk, if its file system supports that. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def open_private(path: str, flags: int) -> int:
    """Open a file that only this user may read: an `opener` for `open`. Raises OSError for a link."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _make(folder: str) -> None:
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for name in reversed(missing):
        try:
            os.mkdir(name, 0o700)
        except FileExistsError:  # another process created it first, or it is a file
            if not os.path.isdir(name):
                raise


def _mode_if_ours(folder: str) -> int:
    status = os.lstat(folder)
    if stat.S_ISLNK(status.st_mode):  # its author would choose where memsync writes
        raise FilesystemError(f"{folder} is a link", hint="Set XDG_STATE_HOME to the folder itself.")
    if status.st_uid != os.geteuid():
        raise FilesystemError(f"{folder} belongs to another user", hint="Set XDG_STATE_HOME to a folder of your own.")
    return status.st_mode


def _check_files(folder: str) -> None:
    """Raise FilesystemError for symbolic and hard links in a folder, and for another user's file."""
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # another process has just deleted it
                continue
            is_linked = stat.S_ISLNK(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink > 1)
            if is_linked or status.st_uid != os.geteuid():
                reason = "a link" if is_linked else "another user's"
                raise FilesystemError(
                    f"{folder} cannot be used for memsync's files: {entry.name} in it is {reason}",
                    hint="Remove it, or set XDG_STATE_HOME to another folder.",
                )


def other_writer(status: os.stat_result, path: str) -> str:
    """Return who besides this user and root may write a file, in words for a message; empty if nobody may."""
    if status.st_uid not in (os.geteuid(), 0):
        return f"its owner, the user {status.st_uid}"
    if status.st_mode & stat.S_IWOTH:
        return "every user"
    if status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_gid, path):
        return f"the group {status.st_gid}"
    return ""


def _has_access_list(path: str) -> bool:
    try:
        return hasattr(os, "listxattr") and _ACCESS_LIST in os.listxattr(path)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENOSYS):  # without extended attributes there are no access lists
            return False
        raise


def _is_private_group(number: int, path: str) -> bool:
    """Tell whether a group has this user as its only member and no access list lets others write.

    Many systems create such a group for each user.
    """
    import grp
    import pwd

    if _has_access_list(path):
        return False
    try:
        group, user = grp.getgrgid(number), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return (group.gr_gid, group.gr_name) == (user.pw_gid, user.pw_name) and set(group.gr_mem) <= {user.pw_name}
