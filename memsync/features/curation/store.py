"""The proposals of a memory root: files under proposals/, numbered, in JSON, for people, git and editors."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from memsync.errors import MemsyncError, NoteError, UsageError
from memsync.model.curation import Proposal
from memsync.model.status import Failure
from memsync.model.text import quoted
from memsync.model.vocabulary import NotePath
from memsync.notes.files import open_folder

if TYPE_CHECKING:
    from memsync.workspace import Workspace

FOLDER = "proposals"
MAX_BYTES = 1_000_000
_NAME = re.compile(r"([0-9]{4,6})\.json")


def numbers(memory: Workspace) -> list[int]:
    """Return the numbers of all proposals, in order."""
    try:
        with open_folder(memory.files.root, [FOLDER]) as folder:
            names = os.listdir(folder)
    except OSError:
        return []
    return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)


def path_of(number: int) -> NotePath:
    """Return the path of a proposal."""
    return NotePath(f"{FOLDER}/{number:04}.json")


def content_of(proposal: Proposal) -> bytes:
    """Return a proposal as its file has it."""
    kept = replace(proposal, path="", warnings=(), failed=())
    return msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n"


def read(memory: Workspace, number: int) -> tuple[Proposal, bytes]:
    """Return a proposal and its file's bytes. Raises UsageError if there is none, NoteError if it is unreadable."""
    path = path_of(number)
    try:
        content = memory.files.read(path)[0]
        if len(content) > MAX_BYTES:
            raise ValueError("it is too large")
        return replace(msgspec.json.decode(content, type=Proposal), path=path, warnings=(), failed=()), content
    except FileNotFoundError:
        raise UsageError(f"there is no proposal {number}", hint="memsync proposals list prints them.") from None
    except (NoteError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        reason = f"{path} is no proposal: {quoted(str(error), 200)}"
        raise NoteError(reason, hint="Correct it in an editor, or delete it.") from error


def all_of(memory: Workspace) -> Iterator[Proposal | Failure]:
    """Yield each proposal, or why it cannot be read."""
    for number in numbers(memory):
        try:
            yield read(memory, number)[0]
        except MemsyncError as error:
            yield Failure(path_of(number), error.message)
