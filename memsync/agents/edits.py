"""Add memsync's entries to the text of a settings file, and take them out again: JSON with comments, and TOML.

Entries are inserted, so no other byte changes; what is left when they are cut out must say all the rest. So a slip here
is an error, never a damaged file. Libraries that keep comments write the whole file anew.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from memsync.agents.port import NAME
from memsync.errors import ConfigError

_SPACE = " \t\r\n"
_STRING = r'"(?:[^"\\]|\\.)*+"?'
_COMMENT = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|,(?=[{_SPACE}]*[}}\]])", re.DOTALL)
_SPACES = re.compile(rf"[{_SPACE}]*")
_LINE_REST = re.compile(r"[ \t]*(?://[^\r\n]*)?(?=[\r\n])")
_FIRST_INDENT = re.compile(r"\n([ \t]+)\S")
_decode = json.JSONDecoder().raw_decode


class NotEditable(ConfigError):
    """A settings file cannot be read, or not be edited without a change of something else. Nothing was changed."""


class _Part(NamedTuple):
    """A member of an object or an item of a list: its key, and where it, its value and its end are in the text."""

    key: str | int
    start: int
    value: int
    end: int


def parsed(text: str, *, is_toml: bool = False) -> dict[str, Any]:
    """Return what a settings file says; an empty file says nothing. Raises NotEditable, which names the line."""
    try:
        if is_toml:
            return tomllib.loads(text.removeprefix("\ufeff"))
        plain = _plain(text)
        value = json.loads(plain) if plain.strip(_SPACE) else {}
    except RecursionError:
        raise NotEditable("it is nested too deeply", hint="Shorten it.") from None
    except ValueError as error:
        line = getattr(error, "lineno", "")
        place = f"line {line}" if line else str(error).rpartition("(")[2].rstrip(")")[:100]
        raise NotEditable(f"it is not {'TOML' if is_toml else 'JSON'} ({place})", hint="Correct it.") from None
    if not isinstance(value, dict):
        raise NotEditable("it is not a JSON object", hint="Correct it.")
    return value


def added(text: str, entries: Mapping[str, Any], *, is_toml: bool = False) -> str:
    """Return a text with entries: members that it lacks, and first items of lists. Raises NotEditable."""
    parsed(text, is_toml=is_toml)
    if not is_toml and not _plain(text).strip(_SPACE):
        text += "{}\n" if not text.strip(_SPACE + "\ufeff") or text.endswith("\n") else "\n{}\n"
    plain = _plain(text)
    at_end = [(len(text), toml_table(text, entries))] if is_toml else []
    for place, new in sorted(at_end or _insertions(text, plain, _skip(plain, 0), entries), reverse=True):
        text = text[:place] + new + text[place:]
    parsed(text, is_toml=is_toml)
    return text


def without(
    text: str, is_own: Callable[[str], bool], member: Sequence[str], before: Any, *, table: str | None = None
) -> str:
    """Return a text without the `member` and without items of lists that have a text that `is_own`.

    Takes out what only they needed, too, unless it was there `before`. In TOML, `table` is the text of the member.
    Raises NotEditable.
    """
    is_toml = table is not None
    while True:
        value = parsed(text, is_toml=is_toml)
        items = iter(()) if is_toml else _own_items(value, is_own)
        path = tuple(member) if member and value_at(value, member) is not None else next(items, ())
        if not path:
            return text
        while len(path) > 1 and len(value_at(value, path[:-1])) == 1:
            if value_at(before, path[:-1]) is not None and all(isinstance(key, str) for key in path[:-1]):
                break
            path = path[:-1]
        expected = deepcopy(value)
        del value_at(expected, path[:-1])[path[-1]]
        # A table of two newlines at its start gave the last line of the user's its end.
        line_end = "\n" * (table or "").startswith(("\n\n", "\r\n\r\n"))
        text = text.replace(table, line_end, 1) if table else _cut(text, path)
        if parsed(text, is_toml=is_toml) != expected:
            reason = "memsync cannot take its entries out without a change of something else"
            raise NotEditable(reason, hint="Take out the lines with memsync yourself.")


def value_at(value: Any, path: Sequence[str | int]) -> Any:
    """Return the value at a path; None if there is none."""
    for key in path:
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            return None
    return value


def texts_in(value: Any) -> Iterator[str]:
    """Yield all texts in a value of JSON, without keys."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts_in(inner)


def toml_table(text: str, entries: Mapping[str, Any]) -> str:
    """Return what is appended to a text in TOML for its one new table; empty if it has that already."""
    newline = "\r\n" if "\r\n" in text else "\n"
    ((outer, inner),) = entries.items()
    if value_at(parsed(text, is_toml=True), (outer, NAME)) is not None:
        return ""
    lines = [f"[{outer}.{NAME}]", *(f"{key} = {json.dumps(item)}" for key, item in inner[NAME].items())]
    return newline * (2 - (not text) - (not text or text.endswith("\n"))) + "".join(line + newline for line in lines)


def _own_items(
    value: Any, is_own: Callable[[str], bool], path: tuple[str | int, ...] = ()
) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths of the items of lists that are objects with a text that `is_own`."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        texts = inner.values() if isinstance(value, list) and isinstance(inner, dict) else ()
        if any(isinstance(text, str) and is_own(text) for text in texts):
            yield (*path, key)
        elif isinstance(inner, (dict, list)):
            yield from _own_items(inner, is_own, (*path, key))


# ---------------------------------------------------------------------------------------------------- JSON


def _plain(text: str) -> str:
    """Return a text with spaces for comments and last commas, so that each character keeps its place."""
    return _LAST_COMMA.sub(_blank, _bare(text))


def _bare(text: str) -> str:
    return _COMMENT.sub(_blank, text.replace("\ufeff", " ", 1) if text.startswith("\ufeff") else text)


def _blank(found: re.Match[str]) -> str:
    is_open = found[0].startswith("/*") and (len(found[0]) < 4 or not found[0].endswith("*/"))
    return found[0] if found[0][0] == '"' or is_open else re.sub(r"[^\r\n]", " ", found[0])


def _skip(text: str, place: int) -> int:
    found = _SPACES.match(text, place)
    return found.end() if found else place


def _parts(plain: str, at: int, bracket: str = "{[") -> list[_Part]:
    """Return the parts of the object or list that begins at a place. Raises NotEditable if none begins there."""
    if plain[at] not in bracket:
        line = plain.count("\n", 0, at) + 1
        raise NotEditable(
            f"line {line}: {'an object' if bracket == '{' else 'a list'} must be here", hint="Correct it."
        )
    parts, place = list[_Part](), _skip(plain, at + 1)
    while plain[place] not in "}]":
        start = value = place
        key: str | int = len(parts)
        if plain[at] == "{":
            key, place = _decode(plain, start)
            value = _skip(plain, _skip(plain, place) + 1)
        _, end = _decode(plain, value)
        parts.append(_Part(key, start, value, end))
        place = _skip(plain, end)
        place = _skip(plain, place + 1) if plain[place] == "," else place
    return parts


def _insertions(text: str, plain: str, at: int, entries: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Return what to insert, and where, so that the object at a place gets entries."""
    parts = {part.key: part.value for part in _parts(plain, at, "{")}  # the last one of equal keys, as for every parser
    found = []
    for key, new in entries.items():
        if isinstance(new, dict) and key in parts and key != NAME:
            found += _insertions(text, plain, parts[key], new)
        elif isinstance(new, list) and key in parts:
            place = parts[key]
            found.append(_front(text, place, [("", item) for item in new], is_empty=not _parts(plain, place, "[")))
    members = [(f"{json.dumps(key)}: ", new) for key, new in entries.items() if key not in parts]
    return [*found, _front(text, at, members, is_empty=not parts)] if members else found


def _front(text: str, at: int, members: Sequence[tuple[str, Any]], *, is_empty: bool) -> tuple[int, str]:
    """Return what to insert after the bracket at a place: members or items on lines of their own."""
    newline = "\r\n" if "\r\n" in text else "\n"
    indent = _FIRST_INDENT.search(text)
    unit = indent[1] if indent else "  "
    line = text[text.rfind("\n", 0, at) + 1 : at]
    base = newline + line[: len(line) - len(line.lstrip(" \t"))]
    dumped = [name + json.dumps(value, indent=unit, ensure_ascii=False) for name, value in members]
    body = ",".join(base + unit + one.replace("\n", base + unit) for one in dumped) + "," * (not is_empty)
    if rest := _LINE_REST.match(text, at + 1):
        return rest.end(), body
    return at + 1, body + (base if is_empty else base + unit)


def _cut(text: str, path: Sequence[str | int]) -> str:
    """Return a text without the part at a path, which exists. Comments stay."""
    plain, bare = _plain(text), _bare(text)
    at = _skip(plain, 0)
    for key in path[:-1]:
        at = {part.key: part for part in _parts(plain, at)}[key].value
    parts = _parts(plain, at)
    number = max(number for number, part in enumerate(parts) if part.key == path[-1])
    part = parts[number]
    start, comma = len(text[: part.start].rstrip(_SPACE)), _skip(bare, part.end)
    if bare[comma] == ",":
        return text[:start] + text[part.end : comma] + text[comma + 1 :]
    if number:
        comma = bare.index(",", parts[number - 1].end)
        return text[:comma] + text[comma + 1 : start] + text[part.end :]
    return text[:start] + text[part.end :]
