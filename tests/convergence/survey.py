"""Everything there is beneath a folder, byte for byte, and how two states of it differ."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple


class Seen(NamedTuple):
    """One file, folder, link or pipe as it is. `content` is a digest of the bytes, the target or the listing.

    Of a folder, what is in it tells more than its times.
    """

    inode: int
    mode: int
    size: int
    links: int
    mtime_ns: int
    content: bytes

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.mode)


Survey = Mapping[str, Seen]


def survey(root: Path) -> dict[str, Seen]:
    """Return everything beneath `root` by its relative path, the root itself as the empty one, .git left out."""
    found: dict[str, Seen] = {}
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        names = sorted(name for name in os.listdir(root / folder) if name != ".git")
        paths = [f"{folder}/{name}".lstrip("/") for name in names]
        inodes = []
        for path in paths:
            found[path] = _look(root / path)
            inodes.append((path, found[path].inode))
            if found[path].is_folder:
                waiting.append(path)
        found[folder] = _look(root / folder)._replace(content=repr(inodes).encode())
    return found


def differing(before: Survey, after: Survey) -> Iterator[str]:
    """Yield the paths that came, went or changed, folders before what is in them."""
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) != after.get(path):
            yield path


def _look(path: Path) -> Seen:
    info = os.lstat(path)
    if stat.S_ISDIR(info.st_mode):
        return Seen(info.st_ino, info.st_mode, 0, 0, 0, b"")
    content = b""
    if stat.S_ISREG(info.st_mode):
        content = hashlib.sha256(path.read_bytes()).digest()
    elif stat.S_ISLNK(info.st_mode):
        content = os.readlink(path).encode()
    return Seen(info.st_ino, info.st_mode, info.st_size, info.st_nlink, info.st_mtime_ns, content)
