"""Read the conversations of a file, one at a time, and name the places that cannot be used.

docs/agents.md describes the formats. A line or conversation that cannot be used does not stop the others. An
export is in memory as a whole, so its size is limited.
"""

from __future__ import annotations

import codecs
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
from memsync.features.conversations.exports import NO_EXPORT, read_export
from memsync.ports import Progress, no_progress

MAX_EXPANDED_BYTES = 4_000_000_000
MAX_RATIO = 200
"""A real export is packed to a tenth of its size; one packed to a thousandth is an attempt to fill a disk."""
MAX_ARRAY_BYTES = 1_000_000_000
MAX_CONVERSATIONS = 200_000
MAX_LINE_BYTES = 32_000_000
"""Size limit of one line or conversation."""
MAX_BRACKETS = 1_000_000
"""In one line or conversation: an empty object takes 3 bytes of a file, but 64 bytes of memory."""
MAX_LINES_BYTES = 400_000_000
"""Size limit of a JSON Lines file. Its lines may alternate between threads, so all of it is held in memory."""
MAX_HEAD_NAMES = 100
_MEMBER = re.compile(r"(?:.*/)?conversations(?:-\d{1,6})?\.json")
_BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError, RuntimeError)
"""The errors of reading a file in a damaged or unusual archive.

zipfile raises RuntimeError for an encrypted file, and NotImplementedError for an unknown compression method.
"""
_UNUSABLE = (Unusable, ValueError, RecursionError)
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
_BETWEEN = b" \t\r\n,"
_CLOSING = {b"[": b"]", b"{": b"}"}
START_BYTES = 4_096
"""How much of a file tells its format."""
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
            size = path.stat().st_size
            start = file.read(START_BYTES)
            if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise UsageError(f"{path} is UTF-16", hint="Save it as UTF-8.")
            file.seek(0)
            if start.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"["):
                yield from _from_array(file, size, f"{path}", progress)
            else:
                yield from _from_lines(file, size, progress, is_named_json=path.suffix.lower() == ".json")
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
            try:
                with archive.open(member) as file:
                    yield from _from_array(file, member.file_size, f"{path}: {member.filename}", progress)
            except _BROKEN as error:
                yield Skipped(member.filename, f"it cannot be read: {error}")


# ------------------------------------------------------------------------------------------------- exports


def _from_array(file: IO[bytes], size: int, name: str, progress: Progress) -> Read:
    """Yield the conversations of an array. Raises UsageError if it is none, too large, or ends within the first one."""
    if size > MAX_ARRAY_BYTES:
        reason = f"{name} is larger than {MAX_ARRAY_BYTES // 1_000_000:,} MB"
        raise UsageError(reason, hint="Split its list of conversations into several files.")
    content = file.read(size)
    if not content[:START_BYTES].removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"["):
        raise UsageError(f"{name} is no list of conversations", hint=_HINT)
    number = end = 0
    for number, (start, end) in enumerate(_elements(content), 1):
        place = f"conversation {number}"
        progress(READING, end, size)
        if number > MAX_CONVERSATIONS:
            yield Skipped(place, "this one and all after it are left out; split the file")
            return
        try:
            yield read_export(_loaded(content[start:end]), place)
        except _UNUSABLE as error:
            yield Skipped(place, _reason(error))
    if not content[end:].lstrip(_BETWEEN + b"[").startswith(b"]"):
        if not number:
            raise UsageError(f"{name} ends before its first conversation does", hint="See docs/agents.md.")
        yield Skipped(f"conversation {number + 1}", "the file ends before it does")


def _elements(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) of each object or list in an array, and of what else is between them.

    A JSON parser would stop at half a character, which real exports contain, or at an element that is no JSON. Only
    brackets of the kind that began an element end it. So `{]}` does not end the array.
    """
    end = content.index(b"[") + 1
    opening, start, unclosed = b"", end, 0
    for token in _TOKEN.finditer(content, end):
        bracket = token[0]
        if opening:
            unclosed += (bracket == opening) - (bracket == _CLOSING[opening])
            if not unclosed:
                yield start, (end := token.end())
                opening = b""
        elif bracket in _CLOSING or bracket == b"]":
            if content[end : token.start()].strip(_BETWEEN):  # a number, for example
                yield end, token.start()
            if bracket == b"]":
                return
            opening, start, unclosed = bracket, token.start(), 1


def _loaded(text: bytes) -> Any:
    """Parse a line or a conversation. Raises Unusable if it is too large, ValueError, RecursionError."""
    if len(text) > MAX_LINE_BYTES:
        raise Unusable(f"it is larger than {MAX_LINE_BYTES // 1_000_000} MB")
    if text.count(b"{") + text.count(b"[") > MAX_BRACKETS:
        raise Unusable(f"it has more than {MAX_BRACKETS:,} objects and lists")
    return json.loads(text.decode())


# ---------------------------------------------------------------------------------------------- own lines


def _from_lines(file: IO[bytes], total: int, progress: Progress, *, is_named_json: bool) -> Read:
    """Yield the conversations of JSON Lines.

    A `.json` file was probably meant to be an export. So the reason for leaving out its first line says that it is not.
    """
    by_name: dict[str, ConversationText] = {}
    size = 0
    number = 0
    while line := file.readline(MAX_LINE_BYTES):
        number += 1
        size += len(line)
        progress(READING, min(size, total), total)
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
            _add_line(_loaded(line), by_name, place)
        except _UNUSABLE as error:
            reason = _reason(error)
            yield Skipped(place, f"{reason}; {NO_EXPORT}" if is_named_json and not by_name else reason)
            is_named_json = False
    while by_name:  # popping frees the memory of each conversation once it is written
        yield by_name.pop(next(iter(by_name)))


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
