"""The name and the writer of a root's memory in the database, kept in the index folder, which follows the root."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from memsync.system.user_folders import filesystem_errors, write_own_file

FILE = "memory.json"


class KeptClaim(NamedTuple):
    """The name of a memory, and the id of its writer."""

    name: str
    writer: str


def read_claim(folder: Path) -> KeptClaim | None:
    """Return what the folder's root last claimed; None if it never wrote to a database, or the file is damaged."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        claim = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return KeptClaim(str(claim["name"]), str(claim["writer"]))
    return None


def write_claim(folder: Path, claim: KeptClaim) -> None:
    """Store what a root has claimed. Raises FilesystemError."""
    write_kept(folder / FILE, claim._asdict())


def write_kept(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file of the index folder as JSON. Raises FilesystemError."""
    with filesystem_errors(f"{path} cannot be written", "Check its folder and the disk's free space."):
        write_own_file(os.fspath(path), json.dumps(content, ensure_ascii=False).encode())
