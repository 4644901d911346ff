"""Adds memsync's entries to the text of a settings file, and removes them again: JSON with comments, and TOML.

It only inserts text and later cuts it out, so no other byte changes. Then it parses the result, and checks that all
other settings are still there: a mistake in this code is an error, never a damaged file. Libraries that keep comments
rewrite the whole file.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from typing import Any

from memsync.agents.events import at
from memsync.agents.port import NAME
from memsync.errors import ConfigError

MAX_DEPTH = 50
"""No agent has settings that are nested more deeply."""
OWN = re.compile(
    r"\bmemsync\b.*(?P<call> hook (?P<event>session-start|prompt|session-end) --agent (?P<agent>[a-z-]+))$"
)
"""The command line of one of memsync's hooks."""
_SPACE = " \t\r\n"
_STRING = r'"(?:[^"\\]|\\.)*+"?'
_COMMENT = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|[{{\[,:][{_SPACE}]*+,|,(?=[{_SPACE}]*[}}\]])", re.DOTALL)
_SPACES = re.compile(rf"[{_SPACE}]*")
_LINE_REST = re.compile(r"[ \t]*(?://[^\r\n]*)?(?=[\r\n])")
_FIRST_INDENT = re.compile(r"\n([ \t]+)\S")
_WORD = re.compile(rf"{_STRING}|[\w.+-]+|[^\s\w]")
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
        value = tomllib.loads(plain) if is_toml else json.loads(plain) if plain.strip(_SPACE) else {}
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
    value = parsed(path, text)
    if path.endswith(".toml"):
        if at(value, *entries, NAME) is None:
            text += _table(text, entries)
            with suppress(NotEditable):
                parsed(path, text)
                return text
            key = next(iter(entries))
            raise NotEditable(path, f"{key} is not written as tables", f"Write each table with a heading: [{key}.NAME]")
    else:
        if not _plain(text).strip(_SPACE):
            text += "{}\n" if not text.strip(_SPACE + "\ufeff") or text.endswith("\n") else "\n{}\n"
        plain = _plain(text)
        try:
            insertions = _insertions(text, plain, _skip(plain, 0), entries)
        except ValueError as error:
            raise NotEditable(path, str(error)) from None
        for place, new in sorted(insertions, reverse=True):
            text = text[:place] + new + text[place:]
    parsed(path, text)
    return text


def removed(path: str, text: str, entries: Mapping[str, Any], before: str = "") -> str:
    """Return a text without entries, even if an agent has changed the white space in them.

    `before` is the text to which they were added: with it, each unchanged insertion is cut out exactly. A server entry
    that was edited stays. Raises NotEditable if another entry cannot be removed, for example because it is there twice.
    """
    value, is_toml = parsed(path, text), path.endswith(".toml")
    if is_toml:
        tables = [_table(end, entries) for end in (f"{text}\n", "")]
        cuts = [reduce(lambda rest, table: rest.replace(table, "", 1), tables, text)]
    else:
        cuts = [_cut(_as_inserted(before, text, entries), entries), _cut(text, entries)]
    for cut in cuts:
        with suppress(NotEditable):
            left = parsed(path, cut)
            is_torn = is_toml and cut != text and at(left, *entries, NAME) is not None
            has_hook = not is_toml and any(map(OWN.search, texts_in(left)))
            if _others(left) == _others(value) and not (is_torn or has_hook or _has_server(left, entries)):
                return cut
    hint = "Remove the lines that contain memsync."
    raise NotEditable(path, "memsync's entries were edited, so memsync cannot remove them", hint)


def texts_in(value: Any) -> Iterator[str]:
    """Yield all strings in a JSON value, except keys."""
    if isinstance(value, str):
        yield value
    for inner in _members(value):
        yield from texts_in(inner)


def _members(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _table(text: str, entries: Mapping[str, Any]) -> str:
    """Return the new table to append to a TOML text, with an empty line before it."""
    newline = "\r\n" if "\r\n" in text else "\n"
    ((outer, inner),) = entries.items()
    members = (f"{key} = {json.dumps(item, ensure_ascii=False)}" for key, item in inner[NAME].items())
    ends = newline * (2 - (not text) - (not text or text.endswith("\n")))
    return ends + "".join(line + newline for line in [f"[{outer}.{NAME}]", *members])


def _has_server(value: Any, entries: Mapping[str, Any]) -> bool:
    """Tell whether a value contains memsync's server entry exactly as in `entries`."""
    for key, new in entries.items():
        inner = value.get(key) if isinstance(value, dict) else None
        if inner == new if key == NAME else isinstance(new, dict) and _has_server(inner, new):
            return True
    return False


def _others(value: Any) -> Any:
    """Return a value without the parts that may be memsync's, and without empty parts."""
    if isinstance(value, dict):
        if any(isinstance(text, str) and OWN.search(text) for text in value.values()):
            return {}
        kept = {key: _others(inner) for key, inner in value.items() if key != NAME}
        return {key: inner for key, inner in kept.items() if inner not in ({}, [])}
    if isinstance(value, list):
        return [other for item in value if (other := _others(item)) not in ({}, [])]
    return value


# ---------------------------------------------------------------------------------------------------- JSON


def _plain(text: str) -> str:
    """Return a text with spaces in place of comments and trailing commas, so that all offsets stay the same."""
    return _LAST_COMMA.sub(_blank, _bare(text))


def _bare(text: str) -> str:
    return _COMMENT.sub(_blank, text.replace("\ufeff", " ", 1) if text.startswith("\ufeff") else text)


def _blank(found: re.Match[str]) -> str:
    is_open = found[0].startswith("/*") and (len(found[0]) < 4 or not found[0].endswith("*/"))
    is_kept = found[0][0] == '"' or is_open or (found[0][0] in "{[,:" and len(found[0]) > 1)
    return found[0] if is_kept else re.sub(r"[^\r\n]", " ", found[0])


def _skip(text: str, place: int) -> int:
    found = _SPACES.match(text, place)
    return found.end() if found else place


def _parts(plain: str, start: int, bracket: str) -> dict[str | int, int]:
    """Return the offset of each value in the object or list that begins at `start`. Raises ValueError if none does."""
    if plain[start] != bracket:
        line, wanted = plain.count("\n", 0, start) + 1, "an object" if bracket == "{" else "a list"
        raise ValueError(f"line {line}: {wanted} must be here")
    parts, place = dict[str | int, int](), _skip(plain, start + 1)
    while plain[place] not in "}]":
        key: str | int = len(parts)
        if bracket == "{":
            key, place = _decode(plain, place)
            place = _skip(plain, _skip(plain, place) + 1)
        parts[key] = place  # the last of equal keys counts, as in every parser
        place = _skip(plain, _decode(plain, place)[1])
        place = _skip(plain, place + 1) if plain[place] == "," else place
    return parts


def _insertions(text: str, plain: str, start: int, entries: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Return the (offset, text) of each insertion that adds entries to the object at `start`."""
    parts, found = _parts(plain, start, "{"), []
    for key, new in entries.items():
        if isinstance(new, dict) and key in parts and key != NAME:
            found += _insertions(text, plain, parts[key], new)
        elif isinstance(new, list) and key in parts:
            place = parts[key]
            found.append(_front(text, place, [("", item) for item in new], is_empty=not _parts(plain, place, "[")))
    members = [(f"{json.dumps(key)}: ", new) for key, new in entries.items() if key not in parts]
    return [*found, _front(text, start, members, is_empty=not parts)] if members else found


def _as_inserted(before: str, text: str, entries: Mapping[str, Any]) -> str:
    """Return a text without those insertions of `added` into `before` that are still unchanged."""
    plain = _plain(before)
    with suppress(ValueError, IndexError):
        for _, new in _insertions(before, plain, _skip(plain, 0), entries):
            text = text.replace(new, "") if text.count(new) == 1 else text
    return text


def _front(text: str, place: int, members: Sequence[tuple[str, Any]], *, is_empty: bool) -> tuple[int, str]:
    """Return the (offset, text) that inserts members or items after the bracket at `place`, each on its own line."""
    newline = "\r\n" if "\r\n" in text else "\n"
    indent = _FIRST_INDENT.search(text)
    unit = indent[1] if indent else "  "
    line = text[text.rfind("\n", 0, place) + 1 : place]
    base = newline + line[: len(line) - len(line.lstrip(" \t"))]
    dumped = [name + json.dumps(value, indent=unit, ensure_ascii=False) for name, value in members]
    body = ",".join(base + unit + one.replace("\n", base + unit) for one in dumped) + "," * (not is_empty)
    if rest := _LINE_REST.match(text, place + 1):
        return rest.end(), body
    return place + 1, body + (base if is_empty else base + unit)


def _cut(text: str, entries: Mapping[str, Any], *, is_group: bool = False) -> str:
    """Return a text without entries: cuts an entry as a whole if it contains nothing else, otherwise part by part.

    A group of hooks with other members keeps its list, even an empty one: without a list, no agent could read the file.
    """
    for key, new in entries.items():
        if not isinstance(new, (dict, list)):  # a plain value may have been there before, and does no harm
            continue
        is_done = False
        if not is_group:
            text, is_done = _without(text, f"{json.dumps(key)}: {json.dumps(new, ensure_ascii=False)}")
        if not is_done and isinstance(new, dict) and key != NAME:
            text = _cut(text, new)
        for item in new if not is_done and isinstance(new, list) else ():
            text, is_done = _without(text, json.dumps(item, ensure_ascii=False))
            text = text if is_done else _cut(text, item, is_group=True)
    return text


def _without(text: str, entry: str) -> tuple[str, bool]:
    """Return a text without an entry and its comma, and whether it was there exactly once. Its numbers may differ."""
    words = (r"[\d.]+" if word[0].isdigit() else _own_or(word) for word in _WORD.findall(entry))
    found = list(re.finditer(r"\s*".join(words), text))
    if len(found) != 1:
        return text, False
    before, after = text[: found[0].start()], text[found[0].end() :]
    end = len(_bare(before).rstrip(_SPACE))  # only comments follow
    comments = before[end:]
    if after.lstrip(_SPACE).startswith(","):
        after = after.lstrip(_SPACE)[1:]
    elif before[end - 1] == ",":
        end -= 1
    if "//" not in comments or _LINE_REST.match(after):  # otherwise the comment would absorb the text that follows
        comments = comments.rstrip(_SPACE)
    return before[:end] + comments + after, True


def _own_or(word: str) -> str:
    """Return a pattern for a word. For the command of a hook, it matches every path of memsync."""
    own = OWN.search(word.strip('"'))
    return rf'"[^"\n]*{re.escape(own["call"])}"' if own else re.escape(word)
