"""Tell the type of file system of a memory root: whether it reports changes, and whether its file times are exact."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

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
    """Return the file system of `folder`; on other systems than Linux its type is unknown."""
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
