"""Merge what two machines changed in the same place of a note. Pure but for the times of lines.

git merges what does not touch. For the rest, a note has a rule by its kind: in a log, a thread and MEMORY.md, what
either side added is kept once, and what either side removed is gone. Of preferences with one key the later one is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from heapq import merge
from itertools import pairwise, takewhile
from typing import NamedTuple

from memsync.model.vocabulary import Kind, NotePath
from memsync.notes.rules import PREFERENCES, PathRules

MIN_MARKER_SIZE = 47
"""Length of the marks around a conflict that only this module reads, unless a note has longer lines of that kind."""
_UNITED = frozenset({Kind.DAILY, Kind.THREAD, Kind.MEMORY})
_MARKS = (b"<", b"|", b"=", b">")
_RUN = re.compile(rb"^(?:<+|\|+|=+|>+)", re.MULTILINE)
_FENCE = re.compile(rb"\s*(`{3,}|~{3,})")
_ITEM = re.compile(rb"#{1,6}\s|[-*+]\s|\d+[.)]\s")
_MESSAGE = re.compile(rb"##\s")
_TIME = re.compile(rb"[-*+] (\d\d:\d\d)\b|## [^\n]* @ (\d{4}-\d\d-\d\d[ T]\d\d:\d\d)")
_KEY = re.compile(rb"\s{0,3}[-*+]\s+([^\s:#`][^:]*?)\s*:")

IsLater = Callable[[bytes, bytes], bool]
"""Tells whether their line is later than ours, by the commits that brought them."""
Lines = Sequence[bytes]


class Conflict(NamedTuple):
    """One place that both sides changed: its lines in our version, in the common one and in theirs."""

    ours: list[bytes]
    base: list[bytes]
    theirs: list[bytes]


def has_rule(path: str, rules: PathRules) -> bool:
    """Tell whether a rule decides the conflicts in a note."""
    return path == PREFERENCES or rules.kind(NotePath(path)) in _UNITED


def marker_size(versions: Sequence[bytes]) -> int:
    """Return how long marks must be so that no line of these versions is one."""
    runs = (len(run) for content in versions for run in _RUN.findall(content))
    return max(MIN_MARKER_SIZE, 1 + max(runs, default=0))


def resolved(path: str, rules: PathRules, conflicted: bytes, size: int, is_later: IsLater) -> bytes:
    """Return a note without its conflicts, which `git merge-file --diff3 --marker-size` has marked."""
    begins = _MESSAGE if rules.kind(NotePath(path)) is Kind.THREAD else _ITEM
    parts: list[bytes] = []
    for part in _parts(conflicted, size):
        if isinstance(part, Conflict):
            ours, theirs = _newest(part, is_later) if path == PREFERENCES else (part.ours, part.theirs)
            parts += _united(ours, part.base, theirs, begins)
        else:
            parts.append(part)
    return b"".join(parts)


def _parts(conflicted: bytes, size: int) -> Iterator[bytes | Conflict]:
    """Yield the lines of a marked text, and each conflict in it as a whole."""
    *begins, end = (mark * size for mark in _MARKS)
    conflict, side = Conflict([], [], []), -1
    for line in re.findall(rb"[^\n]*\n|[^\n]+", conflicted):
        if line[:size] in begins:
            side = begins.index(line[:size])
        elif line.startswith(end):
            yield conflict
            conflict, side = Conflict([], [], []), -1
        elif side >= 0:
            conflict[side].append(line)
        else:
            yield line


def _newest(conflict: Conflict, is_later: IsLater) -> tuple[list[bytes], list[bytes]]:
    """Return both sides of a conflict of preferences, less the earlier of two lines with the same key."""
    common = {*conflict.base}
    keys = [{_key(line): line for line in side if line not in common} for side in (conflict.ours, conflict.theirs)]
    both = keys[0].keys() & keys[1].keys() - {b""}
    late = {key for key in both if is_later(keys[0][key], keys[1][key])}
    ours = [line for line in conflict.ours if line in common or _key(line) not in late]
    theirs = [line for line in conflict.theirs if line in common or _key(line) not in both - late]
    return ours, theirs


def _key(line: bytes) -> bytes:
    match = _KEY.match(line)
    return match[1].lower() if match else b""


def _united(ours: Lines, base: Lines, theirs: Lines, begins: re.Pattern[bytes]) -> list[bytes]:
    """Return the entries of one place with what either side added, once, without what either side removed."""
    before, here, there = (_entries(lines, begins) for lines in (base, ours, theirs))
    (kept, added), (kept_there, added_there) = _changes(before, here), _changes(before, there)
    known = {entry.strip() for entries in added for entry in entries}
    lines: list[bytes] = []
    for number in range(len(before) + 1):
        new = [entry for entry in added_there[number] if entry.strip() not in known]
        lines += _joined(added[number], new)
        if number < len(before) and kept[number] and kept_there[number]:
            lines.append(before[number])
    return lines


def _changes(base: Lines, side: Lines) -> tuple[list[bool], list[Lines]]:
    """Return which entries of the base a side kept, and what it added before each and at the end."""
    kept, added = [False] * len(base), list[Lines]([()] * (len(base) + 1))
    old, new = [entry.strip() for entry in base], [entry.strip() for entry in side]
    for tag, first, last, begin, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            kept[first:last] = [True] * (last - first)
        else:
            added[first] = side[begin:end]
    return kept, added


def _joined(ours: Lines, theirs: Lines) -> list[bytes]:
    """Return the entries that both sides added in one place; those with times in their order.

    Entries of one side keep their order: git takes a line that moved for one that was removed and another that was
    added, and brings it back if the other machine removes it.
    """
    if not ours or not theirs:
        return [*ours, *theirs]
    untimed = len([*takewhile(lambda entry: not _time(entry), ours)])
    entries = [*ours, *theirs]
    if all(map(_time, entries[untimed:])):
        entries[untimed:] = merge(ours[untimed:], theirs, key=_time)
    for place, (entry, after) in enumerate(pairwise(entries)):
        if after.startswith(b"#") and not entry.endswith((b"\n\n", b"\n\r\n")):
            entries[place] = entry + (b"\r\n" if entry.endswith(b"\r\n") else b"\n")
    return entries


def _time(entry: bytes) -> bytes:
    match = _TIME.match(entry)
    return b"".join(filter(None, match.groups())) if match else b""


def _entries(lines: Lines, begins: re.Pattern[bytes]) -> list[bytes]:
    """Split lines into entries: an item with its indented lines, a message with all of its lines, or a line."""
    entries: list[list[bytes]] = []
    fence, is_open = b"", False
    for line in lines:
        goes_on = bool(fence) or not line.strip() or (is_open and (begins is _MESSAGE or line[:1] in b" \t"))
        is_new = not fence and begins.match(line) is not None
        if entries and goes_on and not is_new:
            entries[-1].append(line)
        else:
            entries.append([line])
            is_open = is_new
        if (match := _FENCE.match(line)) and (not fence or match[1].startswith(fence)):
            fence = b"" if fence else match[1]
    return [b"".join(entry) for entry in entries]
