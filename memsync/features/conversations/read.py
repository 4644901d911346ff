"""Read the conversations of a file, one at a time, and name the places that cannot be used.

docs/conversations.md describes the formats. A line or conversation that cannot be used does not stop the others. There
are limits on how much of a file is held in memory, unpacked and nested.
"""

from __future__ import annotations

import codecs
import json
import lzma
import os
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from mmap import ACCESS_READ, mmap
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Annotated, Any

import msgspec
from msgspec import Meta, Struct

from memsync.errors import UsageError
from memsync.features.conversations import ConversationText, Skipped, Turn, Unusable
from memsync.features.conversations.array import CUT, MAX_CONTAINERS, elements
from memsync.features.conversations.exports import NO_EXPORT, read_export
from memsync.ports import Progress, no_progress

MAX_EXPANDED_BYTES = 4_000_000_000
MAX_RATIO = 200
"""A real export is packed to a tenth of its size; one packed to a thousandth is an attempt to fill a disk."""
MAX_LINE_BYTES = 32_000_000
MAX_LINES_BYTES = 400_000_000
"""Size limit of a JSON Lines file. Its lines may alternate between threads, so all of it is held in memory."""
MAX_HEAD_NAMES = 100
_MEMBER = re.compile(r"(?:.*/)?conversations(?:-\d{1,6})?\.json")
_BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError, RuntimeError)
"""The errors of reading a file in a damaged or unusual archive.

zipfile raises RuntimeError for an encrypted file, and NotImplementedError for an unknown compression method.
"""
READING = "reading"
_HINT = "Name a .jsonl, conversations.json or .zip."

Read = Iterator[ConversationText | Skipped]


def read_conversations(path: Path, progress: Progress = no_progress) -> Read:
    """Yield the conversations of a file, and what is left out of it. Raises UsageError for a file of another format.

    A `.zip` is an export as it was downloaded; otherwise the first character tells JSON from JSON Lines.
    """
    try:
        if path.suffix.lower() == ".zip":
            yield from _from_archive(path, progress)
            return
        with path.open("rb") as file:
            start = file.read(4096)
            if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise UsageError(f"{path} is UTF-16", hint="Save it as UTF-8.")
            file.seek(0)
            if start.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"["):
                yield from _from_array(file, progress)
            else:
                total = os.fstat(file.fileno()).st_size
                yield from _from_lines(file, progress, total, is_named_json=path.suffix.lower() == ".json")
    except (OSError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint=_HINT) from error


# ------------------------------------------------------------------------------------------------ archives


def _from_archive(path: Path, progress: Progress) -> Read:
    try:
        archive = zipfile.ZipFile(path)
    except _BROKEN as error:
        raise UsageError(f"{path} cannot be read: {error}", hint=_HINT) from error
    with archive:
        members = [entry for entry in archive.infolist() if _MEMBER.fullmatch(entry.filename) and not entry.is_dir()]
        if not members:
            raise UsageError(f"{path} holds no conversations.json", hint="Name the export as it was downloaded.")
        left = MAX_EXPANDED_BYTES
        for member in sorted(members, key=lambda member: member.filename):
            if member.file_size > max(left, 0) or member.file_size > MAX_RATIO * max(member.compress_size, 4096):
                raise UsageError(
                    f"{path}: {member.filename} expands from {member.compress_size:,} to {member.file_size:,} bytes",
                    hint="Unpack it yourself, and import what you trust.",
                )
            left -= member.file_size
            with TemporaryFile() as copy:
                try:
                    with archive.open(member) as file:
                        shutil.copyfileobj(file, copy)
                except _BROKEN as error:
                    yield Skipped(member.filename, f"not all of it can be read: {error}")
                yield from _from_array(copy, progress)


# ------------------------------------------------------------------------------------------------- exports


def _from_array(file: IO[bytes], progress: Progress) -> Read:
    """Yield the conversations of an array. Its file is mapped, so only one conversation is held in memory.

    Raises UsageError if the file ends within the first element.
    """
    done, size = 0, file.seek(0, os.SEEK_END)
    with mmap(file.fileno(), 0, access=ACCESS_READ) if size else nullcontext(b"") as array:
        for number, element in enumerate(elements(array), 1):
            place = f"conversation {number}"
            try:
                if isinstance(element, Unusable):
                    raise element
                done += len(element)
                yield read_export(json.loads(element), place)
            except Unusable as error:
                if number == 1 and str(error) == CUT:
                    reason = "the file ends before its first conversation does"
                    raise UsageError(reason, hint="See docs/conversations.md.") from None
                yield Skipped(place, str(error))
            except (ValueError, RecursionError) as error:
                yield Skipped(place, f"not JSON: {error}")
            progress(READING, done, size)


# ---------------------------------------------------------------------------------------------- own lines


def _from_lines(file: IO[bytes], progress: Progress, total: int, *, is_named_json: bool) -> Read:
    """Yield the conversations of JSON Lines.

    A `.json` file was probably meant to be an export. So the reason for leaving out its first line says that it is not.
    """
    by_name: dict[str, ConversationText] = {}
    size = 0
    number = 0
    while line := file.readline(MAX_LINE_BYTES):
        number += 1
        size += len(line)
        progress(READING, size, max(size, total))
        place = f"line {number}"
        if size > MAX_LINES_BYTES or (len(line) == MAX_LINE_BYTES and not line.endswith(b"\n")):
            limit = (MAX_LINES_BYTES if size > MAX_LINES_BYTES else MAX_LINE_BYTES) // 1_000_000
            yield Skipped(place, f"over {limit} MB: this line and all after it are left out; split the file")
            break
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if line.isspace():
            continue
        try:
            _check_containers(line)
            _add_line(json.loads(line.decode()), by_name, place)
        except (Unusable, ValueError, RecursionError) as error:
            reason = str(error) if isinstance(error, Unusable) else f"not JSON: {error}"
            yield Skipped(place, f"{reason}; {NO_EXPORT}" if is_named_json and not by_name else reason)
            is_named_json = False
    while by_name:  # popping frees the memory of each conversation once it is written
        yield by_name.pop(next(iter(by_name)))


def _check_containers(line: bytes) -> None:
    """Raise Unusable for a line with more objects and lists than one conversation may have."""
    if len(line) <= MAX_CONTAINERS:
        return
    if line.count(b"{") + line.count(b"[") > MAX_CONTAINERS:  # brackets in texts count here
        element = next(elements(b"[%b]" % line))
        if isinstance(element, Unusable):
            raise element


class _Line(Struct):
    """One line: a message, or only the head of its thread."""

    thread: Annotated[str, Meta(min_length=1)]
    role: str | None = None
    time: str = ""
    text: str = ""
    attributes: dict[str, str | int | float] = {}
    head: dict[str, Any] = {}


def _add_line(value: Any, by_name: dict[str, ConversationText], place: str) -> None:
    try:
        line = msgspec.convert(value, _Line)
    except msgspec.ValidationError as error:
        raise Unusable(f"not a message of a thread: {error}") from error
    conversation = by_name.get(line.thread)
    if conversation is None:
        conversation = by_name[line.thread] = ConversationText(line.thread, place=place)
    if line.head and len(conversation.head.keys() | line.head.keys()) > MAX_HEAD_NAMES:
        raise Unusable(f"head has more than {MAX_HEAD_NAMES} names")
    conversation.head.update(line.head)
    if line.role is not None:
        attributes = {name: str(value) for name, value in line.attributes.items()}
        conversation.turns.append(Turn(line.role, line.text, line.time, attributes))
