"""Adds memsync's entries to the text of a settings file, and removes them again: JSON with comments, and TOML.

It only inserts text, and later cuts out what is still as it was written, in any white space. Each result is parsed and
compared with what it must say: a mistake in this code is an error, never a damaged file. Libraries that keep comments
rewrite the whole file.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from memsync.agents.agent import NAME
from memsync.agents.events import at
from memsync.errors import ConfigError

MAX_DEPTH = 50
"""No agent has settings that are nested more deeply."""
OWN = re.compile(
    r"\bmemsync\b.* hook (?P<event>session-start|prompt|compaction|session-end) --agent (?P<agent>[a-z-]+)$"
)
"""The command line of one of memsync's hooks."""
_STRING = r'"(?:[^"\\]|\\.)*+"?'
_COMMENT = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|[\[{{]\s*,|,(?=\s*[}}\]])", re.DOTALL)
_WORD = re.compile(rf"{_STRING}|[^\s\"]")
_BETWEEN = re.compile(r"[\s,:]*")
_FIRST_INDENT = re.compile(r"\n([ \t]+)\S")
_decode = json.JSONDecoder().raw_decode


class NotEditable(ConfigError):
    """A settings file cannot be parsed, or cannot be edited without changing other settings."""

    def __init__(self, path: str, reason: str, hint: str = "Correct it.") -> None:
        super().__init__(f"{path}: {reason}. Nothing was changed", hint=hint)


def text_of(path: str, content: bytes | None) -> str:
    """Return the text of a settings file; empty if it does not exist. Raises NotEditable."""
    try:
        return (content or b"").decode()
    except UnicodeDecodeError as error:
        line = (content or b"").count(b"\n", 0, error.start) + 1
        raise NotEditable(path, f"line {line} is not UTF-8") from None


def parsed(path: str, text: str) -> dict[str, Any]:
    """Return a settings file as a dict; an empty file gives an empty one. Raises NotEditable, which names the line."""
    is_toml = path.endswith(".toml")
    try:
        plain = text.removeprefix("\ufeff") if is_toml else _plain(text)
        toml = tomllib.loads(plain, parse_float=str) if is_toml else {}  # as texts, because nan does not equal itself
        value = json.loads(plain) if plain.strip() and not is_toml else toml
        inner = [value]
        for _ in range(MAX_DEPTH):
            inner = [one for outer in inner for one in _members(outer)]
        if inner:
            raise RecursionError
    except RecursionError:
        raise NotEditable(path, "it is nested too deeply") from None
    except ValueError as error:
        line = getattr(error, "lineno", "")
        place = f"line {line}" if line else str(error).rpartition("(")[2].rstrip(")")[:100]
        form = "TOML" if is_toml else "JSON"
        hint = "Correct it." if is_toml else "Correct it. Besides JSON, only comments and trailing commas are allowed."
        raise NotEditable(path, f"it is not {form} ({place})", hint) from None
    if not isinstance(value, dict):
        raise NotEditable(path, "it is not a JSON object")
    return value


def added(path: str, text: str, entries: Mapping[str, Any]) -> str:
    """Return a text with entries added: the members that it lacks, and new first items of lists. Raises NotEditable."""
    hint = "They must be objects of objects or lists. If they contain the same entries already, delete these."
    value = parsed(path, text)
    plain = {key: new for key, new in entries.items() if not isinstance(new, dict)}
    with suppress(ValueError, NotEditable):
        if path.endswith(".toml"):
            hint = f"Write each table with a heading: [{next(iter(entries))}.NAME]"
            text += _table(text, entries) if at(value, *entries, NAME) is None else ""
        else:
            text = _with_object(text)
            for place, new in _insertions(text, entries):
                text = text[:place] + new + text[place:]
        if _without(parsed(path, text), entries, value) == {**plain, **value}:
            return text
    reason = f"it has no place for memsync's entries in {', '.join(entries)}"
    raise NotEditable(path, reason, hint)


def removed(path: str, text: str, entries: Mapping[str, Any], before: str | None = None) -> str:
    """Return a text without entries that are still as `added` wrote them. Raises NotEditable if one was edited.

    `before` is the text to which they were added. Without it, a server that is not the one in `entries` stays, because
    it may be the user's own. An entry in which the user wrote a comment counts as edited.
    """
    value = parsed(path, text)
    with suppress(ValueError, NotEditable):
        wanted = _without(value, entries, None if before is None else parsed(path, before))
        if wanted == value:
            cut = text
        elif path.endswith(".toml"):
            table = _table(f"{text}\n", entries)
            cut = text.replace(table if table in text else table.lstrip(), "", 1)
        else:
            cut = _cut(text, value, wanted)
        if parsed(path, cut) == wanted and not any(map(OWN.search, texts_in(wanted))):
            return cut
    reason = "memsync's entries, or the text around them, were edited, so memsync cannot remove them"
    lines = ", ".join(str(number) for number, line in enumerate(text.splitlines(), 1) if NAME in line)
    hint = f"Delete them by hand (see lines {lines}), and run the command again. They were: {json.dumps(entries)}"
    raise NotEditable(path, reason, hint)


def texts_in(value: Any) -> Iterator[str]:
    """Yield all strings in a JSON value, except keys."""
    if isinstance(value, str):
        yield value
    for inner in _members(value):
        yield from texts_in(inner)


def _members(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _without(value: dict[str, Any], entries: Mapping[str, Any], before: Any) -> dict[str, Any]:
    """Return what a file must say without entries. A plain value stays, because what is left may need it.

    `before` is what it said before they were added; None if that is not known. Raises ValueError if the server differs.
    """
    left = dict(value)
    for key in entries.keys() & value.keys():
        new, old, had = entries[key], value[key], at(before, key)
        if key == NAME and had is None:
            if before is not None and old != new:
                raise ValueError(key)
            left[key] = {} if old == new else old
        elif isinstance(old, dict) and isinstance(new, dict) and key != NAME:
            left[key] = _without(old, new, before and (had or {}))
        elif isinstance(old, list) and isinstance(new, list):
            left[key] = [item for item in old if item not in new]
        if old and not left[key] and had is None:
            del left[key]
    return left


def _table(text: str, entries: Mapping[str, Any]) -> str:
    """Return the new table to append to a TOML text, with an empty line before it."""
    newline = "\r\n" if "\r\n" in text else "\n"
    ((outer, inner),) = entries.items()
    members = (f"{key} = {json.dumps(item, ensure_ascii=False)}" for key, item in inner[NAME].items())
    ends = newline * (2 - (not text) - (not text or text.endswith("\n")))
    return ends + "".join(line + newline for line in [f"[{outer}.{NAME}]", *members])


# ---------------------------------------------------------------------------------------------------- JSON


def _plain(text: str) -> str:
    """Return a text with spaces in place of comments and last commas, so that all offsets stay the same."""
    return _LAST_COMMA.sub(_blank, _bare(text))


def _bare(text: str) -> str:
    return _COMMENT.sub(_blank, text.replace("\ufeff", " ", 1) if text.startswith("\ufeff") else text)


def _blank(found: re.Match[str]) -> str:
    return found[0] if found[0][0] in '"[{' else re.sub(r"[^\r\n]", " ", found[0])


def _with_object(text: str) -> str:
    """Return a text with an empty object at its end if it has only comments."""
    return text if _plain(text).strip() else text + "\n{}\n"[not text.strip("\ufeff \t\r\n") :]


def _next(plain: str, place: int) -> int:
    """Return the offset of the next key, value or closing bracket."""
    found = _BETWEEN.match(plain, place)
    return found.end() if found else place


def _items(plain: str, start: int) -> Iterator[tuple[Any, int, int, Any, int]]:
    """Yield the key, its offset, and the offset, value and end of each member of an object.

    An item of a list is its own key.
    """
    place, is_object = _next(plain, start + 1), plain[start : start + 1] == "{"
    while plain[place : place + 1] not in ("}", "]"):
        first, (key, end) = place, _decode(plain, place)
        place = _next(plain, end) if is_object else place
        value, end = _decode(plain, place)
        yield key, first, place, value, end
        place = _next(plain, end)


def _cut(text: str, value: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Return a text that says `value` without the members and items that are not wanted, in any white space."""
    for key, old in value.items():
        if key not in wanted:
            text = _cut_once(text, json.dumps({key: old}, ensure_ascii=False)[1:-1])
        elif isinstance(old, dict):
            text = _cut(text, old, wanted[key])
        elif isinstance(old, list):
            for item in old:
                text = text if item in wanted[key] else _cut_once(text, json.dumps(item, ensure_ascii=False))
    return text


def _cut_once(text: str, member: str) -> str:
    """Return a text without a member, and without the comma and the white space after it, otherwise before it."""
    words = r"\s*".join(map(re.escape, _WORD.findall(member)))
    if (found := re.search(rf"{words}(\s*,\s*)?", text)) is None:
        return text
    before = text[: found.start()]
    if not found[1]:
        before = before.rstrip()
        if (bare := _bare(before).rstrip()).endswith(","):  # not every agent reads a comma at the end
            before = before[: len(bare) - 1] + before[len(bare) :]
    return before + text[found.end() :]


def _insertions(text: str, entries: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Return the (offset, text) of each insertion that adds entries, last one first. Raises ValueError."""
    plain = _plain(text)

    def within(start: int, entries: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
        known = {key: place for key, _, place, _, _ in _items(plain, start)}  # the last of equal keys counts
        for key, new in entries.items():
            if key in known and key != NAME and isinstance(new, (dict, list)):
                if plain[known[key]] != ("{" if isinstance(new, dict) else "["):
                    raise ValueError(key)
                items = [("", item) for item in new]
                yield from (
                    within(known[key], new) if isinstance(new, dict) else [_front(text, plain, known[key], items)]
                )
        if lacking := [(f"{json.dumps(key)}: ", new) for key, new in entries.items() if key not in known]:
            yield _front(text, plain, start, lacking)

    return sorted(within(_next(plain, 0), entries), reverse=True)


def _front(text: str, plain: str, place: int, members: Sequence[tuple[str, Any]]) -> tuple[int, str]:
    """Return the (offset, text) that inserts members or items after the bracket at `place`, each on its own line."""
    newline, indent = "\r\n" if "\r\n" in text else "\n", _FIRST_INDENT.search(text)
    unit, is_empty = indent[1] if indent else "  ", plain[_next(plain, place + 1)] in "}]"
    line = text[text.rfind("\n", 0, place) + 1 : place]
    base = newline + line[: len(line) - len(line.lstrip(" \t"))]
    dumped = [name + json.dumps(value, indent=unit, ensure_ascii=False) for name, value in members]
    body = ",".join(base + unit + one.replace("\n", base + unit) for one in dumped) + "," * (not is_empty)
    is_at_end = text[place + 1 :].lstrip(" \t").startswith(("\r", "\n"))
    return place + 1, body if is_at_end else body + base + unit * (not is_empty)
