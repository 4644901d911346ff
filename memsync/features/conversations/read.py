"""Read the conversations of a file, one at a time, and name the places that cannot be used.

docs/conversations.md describes the formats. A line or conversation that cannot be used does not stop the others. There
are limits on how much of a file is held in memory, unpacked and nested.
"""

from __future__ import annotations

import codecs
import io
import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec
from msgspec import Meta, Struct

from memsync.errors import UsageError
from memsync.features.conversations import ConversationText, Skipped, Turn, Unusable
from memsync.features.conversations.array import ENDS_EARLY, MAX_DEPTH, elements
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
_UNUSABLE = (Unusable, ValueError, RecursionError)
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
            stream = _Counted(file, path.stat().st_size, progress)
            start = file.read(4096)
            if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise UsageError(f"{path} is UTF-16", hint="Save it as UTF-8.")
            file.seek(0)
            if start.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"["):
                yield from _from_array(stream, f"{path}")
            else:
                yield from _from_lines(stream, is_named_json=path.suffix.lower() == ".json")
    except (OSError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint=_HINT) from error


class _Counted:
    """A stream that reports how much of it was read, and raises BadZipFile after `limit` bytes (0: no limit)."""

    def __init__(self, stream: IO[bytes], total: int, progress: Progress, limit: int = 0) -> None:
        self._stream = stream
        self._total = total
        self._progress = progress
        self._limit = limit
        self._done = 0

    def read(self, size: int) -> bytes:
        return self._counted(self._stream.read(size))

    def readline(self, size: int) -> bytes:
        return self._counted(self._stream.readline(size))

    def _counted(self, block: bytes) -> bytes:
        self._done += len(block)
        if self._limit and self._done > self._limit:
            raise zipfile.BadZipFile(f"it expands to more than {self._limit:,} bytes")
        if self._total:
            self._progress(READING, min(self._done, self._total), self._total)
        return block


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
            try:
                with archive.open(member) as file:
                    stream = _Counted(file, member.file_size, progress, limit=member.file_size)
                    yield from _from_array(stream, member.filename)
            except _BROKEN as error:
                yield Skipped(member.filename, f"the rest cannot be read: {error}")


# ------------------------------------------------------------------------------------------------- exports


def _from_array(stream: Any, name: str) -> Read:
    """Yield the conversations of an array. Raises UsageError when the file ends within the first element."""
    for number, element in enumerate(elements(stream), 1):
        place = f"conversation {number}"
        if element is ENDS_EARLY and number == 1:
            raise UsageError(f"{name} ends before its first conversation does", hint="See docs/conversations.md.")
        try:
            if isinstance(element, Unusable):
                yield Skipped(place, str(element))
            else:
                yield read_export(json.loads(element), place)
        except _UNUSABLE as error:
            yield Skipped(place, _reason(error))


# ---------------------------------------------------------------------------------------------- own lines


def _from_lines(stream: Any, *, is_named_json: bool) -> Read:
    """Yield the conversations of JSON Lines.

    A `.json` file was probably meant to be an export. So the reason for leaving out its first line says that it is not.
    """
    by_name: dict[str, ConversationText] = {}
    size = 0
    number = 0
    while line := stream.readline(MAX_LINE_BYTES):
        number += 1
        size += len(line)
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
            _check_limits(line)
            _add_line(json.loads(line.decode()), by_name, place)
        except _UNUSABLE as error:
            reason = _reason(error)
            yield Skipped(place, f"{reason}; {NO_EXPORT}" if is_named_json and not by_name else reason)
            is_named_json = False
    while by_name:  # popping frees the memory of each conversation once it is written
        yield by_name.pop(next(iter(by_name)))


def _check_limits(line: bytes) -> None:
    """Raise Unusable for a line that no element of an array may be."""
    if line.count(b"{") + line.count(b"[") > MAX_DEPTH:  # brackets in texts count here, but not in `elements`
        element = next(elements(io.BytesIO(b"[%b]" % line)), None)
        if isinstance(element, Unusable) and element is not ENDS_EARLY:
            raise element


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, Unusable) else f"not JSON: {error}"


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
