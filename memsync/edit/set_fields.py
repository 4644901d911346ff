"""Sets one field of a note's front matter and changes only the bytes of its value.

Loading the YAML and dumping it again would lose comments, order and quotes. After a change the front matter is parsed
again: every other field must have its old value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress

import yaml

from memsync.edit.addition import lines_with_ends
from memsync.errors import WriteRefused
from memsync.model.vocabulary import JsonValue
from memsync.notes.decode import split_lines
from memsync.notes.frontmatter import Head, head_is_open, read_head, value_span

_PLAIN = re.compile(r"[A-Za-z0-9][\w ./@+-]*")
_NO_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON allows unescaped, but that YAML forbids or folds."""
_BOM = "\ufeff"


def set_field(text: str, key: str, value: JsonValue) -> str:
    """Return a note's text with one field set; adds the field and the front matter if they are missing.

    Raises WriteRefused if the front matter cannot be parsed, now or after the change.
    """
    mark = _BOM if text.startswith(_BOM) else ""
    body = text.removeprefix(_BOM)
    lines = split_lines(body)
    newline = "\r\n" if "\r\n" in body else "\n"
    before = read_head(lines)
    is_toml = before.line_count > 0 and lines[0].startswith("+")
    if before.raw or before.warning or is_toml or (lines and head_is_open(lines)):
        reason = before.warning or ("front matter is TOML" if is_toml else "front matter is not closed")
        raise WriteRefused(f"{key} cannot be set: {reason}", hint="Correct the front matter in an editor.")
    if before.line_count == 0:
        changed = f"---{newline}{_line(key, value)}{newline}---{newline}{newline if body else ''}{body}"
    else:
        changed = _changed(body, before.first_lines, key, value, newline)
    after = read_head(split_lines(changed))
    if after.warning or _other(after, key) != _other(before, key) or after.values.get(key) != value:
        raise WriteRefused(f"{key} cannot be set without changing other fields", hint="Edit it by hand.")
    return mark + changed


def head_of(fields: Mapping[str, JsonValue]) -> str:
    """Return the front matter of a new note; empty if no field has a value."""
    lines = [_line(key, value) for key, value in fields.items() if value not in ("", [], None)]
    return "\n".join(["---", *lines, "---", "", ""]) if lines else ""


def _changed(body: str, head_lines: int, key: str, value: JsonValue, newline: str) -> str:
    lines = lines_with_ends(body)
    start, end = len(lines[0]), len("".join(lines[: head_lines - 1]))
    span = value_span(body[start:end], key)
    if span is None:
        return f"{body[:end]}{_line(key, value)}{newline}{body[end:]}"
    first, last = start + span[0], start + span[1]
    space = "" if body[first - 1 : first].isspace() else " "
    return f"{body[:first]}{space}{_scalar(value)}{body[last:]}"


def _line(key: str, value: JsonValue) -> str:
    return f"{key}: {_scalar(value)}"


def _scalar(value: JsonValue) -> str:
    """Return a value as YAML: plain if it is parsed back as this value, otherwise as JSON, which is valid YAML."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value == value.strip():
        with suppress(ValueError):  # YAML raises it for a date that does not exist and for a number of 5,000 digits
            if yaml.safe_load(value) == value:
                return value
    return _NO_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))


def _other(head: Head, key: str) -> dict[str, JsonValue]:
    return {name: value for name, value in head.values.items() if name != key}
