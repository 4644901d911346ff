"""Bytes of a file -> its text and lines, exactly as an editor counts them."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

_LINE_END = re.compile(r"\r\n|\n|\r")
_UTF16_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BINARY_SAMPLE_BYTES = 8_192
_BINARY_SHARE = 0.1
_CONTROL = bytes(set(range(32)) - set(b"\t\n\r\f\x1b\x08"))


class BinaryFileError(ValueError):
    """The file is not text at all, whatever its name says."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The lines of a file without their ends, and what had to be replaced to get them."""

    lines: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def decode(content: bytes) -> Decoded:
    """Decode UTF-8 (or UTF-16 with a byte order mark), replacing what is not text and saying so.

    Raises BinaryFileError when more than a tenth of the beginning is control bytes.
    """
    if is_utf16(content):
        text = content.decode("utf-16", "replace")
        return Decoded(split_lines(text.replace("\x00", "�")), ("file is UTF-16: save it as UTF-8",))
    if is_binary(content):
        raise BinaryFileError("not a text file")
    body = content.removeprefix(codecs.BOM_UTF8)
    warnings = []
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        text = body.decode("utf-8", "replace")
        line = body.count(b"\n", 0, error.start) + 1
        warnings.append(f"line {line} is not valid UTF-8: read with replacement characters")
    if "\x00" in text:
        line = text.count("\n", 0, text.index("\x00")) + 1
        warnings.append(f"line {line} has a NUL byte: read as a replacement character")
        text = text.replace("\x00", "�")
    return Decoded(split_lines(text), tuple(warnings))


def is_utf16(content: bytes) -> bool:
    """Tell whether a file is UTF-16: it begins with its mark, and its line ends or spaces have their NUL bytes."""
    return content.startswith(_UTF16_BOMS) and b"\0" in content


def split_lines(text: str) -> tuple[str, ...]:
    """Split at LF, CRLF and CR only, as editors and git do; a final line end adds no empty line."""
    lines = _LINE_END.split(text) if "\r" in text else text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return tuple(lines)


def is_binary(content: bytes) -> bool:
    """Tell whether more than a tenth of a file's beginning is control bytes."""
    sample = content[:_BINARY_SAMPLE_BYTES]
    return bool(sample) and len(sample) - len(sample.translate(None, _CONTROL)) > _BINARY_SHARE * len(sample)
