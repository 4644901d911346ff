"""The name and the writer of a root's memory in the database, kept in the index folder, which follows the root."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from memsync.system.user_folders import filesystem_errors, write_own_file

FILE = "memory.json"


class KeptClaim(Struct, frozen=True):
    """The name of a memory, and the id of its writer."""

    name: str
    writer: str


def read_claim(folder: Path) -> KeptClaim | None:
    """Return what the folder's root last claimed; None if it never wrote to a database, or the file is damaged."""
    with suppress(OSError, ValueError):
        return msgspec.json.decode((folder / FILE).read_bytes(), type=KeptClaim)
    return None


def write_claim(folder: Path, claim: KeptClaim) -> None:
    """Store what a root has claimed. Raises FilesystemError."""
    write_kept(folder / FILE, claim)


def write_kept(path: Path, content: object) -> None:
    """Write a file of the index folder as JSON. Raises FilesystemError."""
    with filesystem_errors(f"{path} cannot be written", "Check its folder and the disk's free space."):
        write_own_file(os.fspath(path), msgspec.json.encode(content))
