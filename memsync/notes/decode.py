"""Decode a file's bytes into lines, exactly as an editor counts them."""

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
    """The file is not text, even if its name says so."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The lines of a file without their line ends, and a warning for each replacement."""

    lines: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def decode(content: bytes) -> Decoded:
    """Decode UTF-8, or UTF-16 with a BOM; replace invalid bytes with a warning. Raises BinaryFileError."""
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
    """Tell whether a file is UTF-16: it begins with a byte order mark and contains NUL bytes."""
    return content.startswith(_UTF16_BOMS) and b"\0" in content


def split_lines(text: str) -> tuple[str, ...]:
    """Split at LF, CRLF and CR only, as editors and git do; a final line end does not add an empty line."""
    lines = _LINE_END.split(text) if "\r" in text else text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return tuple(lines)


def is_binary(content: bytes) -> bool:
    """Tell whether more than a tenth of a file's beginning is control bytes."""
    sample = content[:_BINARY_SAMPLE_BYTES]
    return bool(sample) and len(sample) - len(sample.translate(None, _CONTROL)) > _BINARY_SHARE * len(sample)
