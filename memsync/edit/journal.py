"""What was appended to notes, kept for a while: an editor that saves an old buffer overwrites it without knowing.

One JSON object a line, one file a day, in the state directory and outside the index: deleting the index loses nothing.
Only whoever holds the writers' lock writes here, so lines are in the order of time.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from memsync.errors import FilesystemError
from memsync.model.vocabulary import NotePath
from memsync.notes.transcript import read_message_heading


def append_line(path: Path, value: object, *, sync: bool = False) -> None:
    """Append one object to a file, made with its folder, for their owner alone; with `sync` the disk is waited for.

    The line begins with a line end, whatever half a line a process that died has left. Raises FilesystemError.
    """
    content = b"\n" + json.dumps(value, ensure_ascii=True).encode() + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            if os.write(descriptor, content) != len(content):
                raise FilesystemError(f"{path} cannot be written: no space left", hint="Free some space.")
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise FilesystemError(f"{path} cannot be written: {error.strerror}", hint="Free some space.") from error


_BLOCK_BYTES = 65_536
_PATH_KEY = b'"path": '
"""As `append_line` writes it; no text in a line holds it, because JSON puts a backslash before each quote in a text."""
KEEP_DAYS = 30
SIMILAR = 0.8
"""How like an entry without a time a line must be to pass for its edited version."""
COMPARED = 1_000
"""How many characters of entries with equal first lines are compared."""
_SECTION = re.compile(r"## (?P<heading>[^\n]+)\n\n[-*+] .*", re.DOTALL)
_STAMP = re.compile(
    r"\s*(?:(?:[-*+]|\d+[.)])\s+(?:\[.\]\s+)?(?=\d)|#+ .* @ )"
    r"(\d{1,2}:\d{2}(?::\d{2})?|\d{4}-\d{2}-\d{2}[T ][\d:]+)"
)
"""The time with which a log entry or a message of a thread begins."""


@dataclass(frozen=True, slots=True)
class Appended:
    """One append: `text` is what the file got, with LF as its line end and none at its end; `at` is the Unix time.

    `head` is how the note begins if it has to be made.
    """

    id: str
    at: float
    path: NotePath
    text: str
    head: str = ""

    @property
    def heading(self) -> str:
        """The heading of the section that was made for the entry, empty when it has none of its own."""
        found = _SECTION.fullmatch(self.text)
        return found["heading"] if found and read_message_heading(found["heading"]) is None else ""

    @property
    def entry(self) -> str:
        """The text without that heading: a section may get another name, and the entry is there still."""
        return self.text.removeprefix(f"## {self.heading}\n\n") if self.heading else self.text


class Journal:
    """The appends to one memory root. `folder` is made when it is first written to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def append(self, path: NotePath, text: str, *, head: str = "", replaces: Sequence[str] = ()) -> Appended:
        """Note what is about to be appended. Raises FilesystemError.

        It stands for the appends that it `replaces`, which are no longer looked for, unless it is undone.
        """
        at = time.time()
        appended = Appended(f"{time.time_ns():x}", at, path, text, head)
        self._write(at, {**asdict(appended), "replaces": list(replaces)} if replaces else asdict(appended))
        return appended

    def settle(self, ids: Iterable[str]) -> None:
        """Note that these appends are no longer to be looked for: rewritten, or deleted on purpose."""
        self._write(time.time(), {"settled": list(ids)})

    def undo(self, appended: Appended) -> None:
        """Note that an append was not made after all; what it was to replace is looked for again."""
        self._write(time.time(), {"undone": appended.id})

    def _write(self, at: float, line: object) -> None:
        path = self._folder / f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}.jsonl"
        if not path.exists():
            self._prune(at)
        append_line(path, line)

    def _prune(self, now: float) -> None:
        """Remove what is older than is kept; called once a day, with the first append of it."""
        limit = f"{datetime.fromtimestamp(now, UTC) - timedelta(days=KEEP_DAYS):%Y-%m-%d}.jsonl"
        for path in self._days():
            if path.name < limit:
                with suppress(OSError):
                    path.unlink()

    def _days(self) -> list[Path]:
        """Return the files of the days, the oldest first."""
        return sorted(self._folder.glob("????-??-??.jsonl"))

    def since(self, moment: float, path: NotePath | None = None) -> list[Appended]:
        """Return the appends since a Unix time that are not settled, the oldest first; with `path`, those to one note.

        An append replaces others to the same note only, so lines of other notes say nothing about this one.
        """
        found: list[Appended] = []
        settled: set[str] = set()
        undone: set[str] = set()
        for line in self._backwards(_PATH_KEY + json.dumps(path).encode() if path is not None else b""):
            if "settled" in line:
                settled.update(line["settled"])
            elif "undone" in line:
                undone.add(line["undone"])
            elif line["at"] < moment:
                break
            elif line["id"] not in undone and path in (None, line["path"]):
                settled.update(line.get("replaces", ()))
                if line["id"] not in settled:
                    text, head = line["text"], line.get("head", "")
                    found.append(Appended(line["id"], line["at"], NotePath(line["path"]), text, head))
        return found[::-1]

    def _backwards(self, path_pair: bytes) -> Iterator[dict[str, Any]]:
        """Yield the lines, the newest first; half a line, of a process that died over it, is passed over.

        With `path_pair`, lines with another path are passed over without being parsed.
        """
        for path in reversed(self._days()):
            for line in _lines_backwards(path):
                if path_pair not in line and _PATH_KEY in line:
                    continue
                with suppress(ValueError):
                    if isinstance(entry := json.loads(line), dict):
                        yield entry


def _lines_backwards(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        position, rest = file.seek(0, os.SEEK_END), b""
        while position > 0:
            size = min(_BLOCK_BYTES, position)
            position -= size
            file.seek(position)
            first, *lines = (file.read(size) + rest).split(b"\n")
            yield from reversed(lines)
            rest = first
        yield rest


def missing(appends: Iterable[Appended], content: str) -> list[Appended]:
    """Return those of the appends to one note that it does not hold, the oldest first.

    Of appends of the same text as many are missing as the note has too few of it; those are the newest.
    """
    appends = list(appends)
    content = content.replace("\r\n", "\n")
    lines = Counter(content.split("\n"))
    doubled = _whole_lines(content) if any("\n" in one.entry for one in appends) else ""
    seen: Counter[str] = Counter()
    lost = []
    for one in appends:
        entry = one.entry
        seen[entry] += 1
        there = doubled.count(_whole_lines(entry)) if "\n" in entry else lines[entry]
        if seen[entry] > there:
            lost.append(one)
    return lost


def edited(appends: Sequence[Appended], lost: Sequence[Appended], content: str) -> set[str]:
    """Return the ids of lost appends that somebody has edited: the note has a line in their place.

    Such a line is nobody else's: no append that is there put it there. It has the time stamp of the lost entry, or, of
    an entry without one, nearly its words. Each line stands in the place of one entry: the one whose first line is most
    like it and, of several with equal first lines, the one whose further lines follow it.
    """
    gone = {one.id for one in lost}
    lines = content.replace("\r\n", "\n").split("\n")
    spare = Counter(lines)
    for one in appends:
        if one.id not in gone:
            spare.subtract(one.entry.split("\n"))
    places: dict[str, list[int]] = {}
    for index, line in enumerate(lines):
        if spare[line] > 0:
            places.setdefault(line, []).append(index)
    pairs = [
        (likeness, _likeness_with_rest(one.entry, lines, indexes), -number, one.id, line)
        for number, one in enumerate(lost)
        for line, indexes in places.items()
        if (likeness := _likeness(one.entry.partition("\n")[0], line)) is not None
    ]
    found: set[str] = set()
    for *_, name, line in sorted(pairs, reverse=True):
        if name not in found and spare[line] > 0:
            found.add(name)
            spare[line] -= 1
    return found


def _likeness(first: str, line: str) -> float | None:
    """Return how like a line is to the first line of an entry; None when it cannot stand in its place."""
    stamp = _STAMP.match(first)
    if stamp is not None:
        other = _STAMP.match(line)
        return SequenceMatcher(None, first, line, autojunk=False).ratio() if other and other[1] == stamp[1] else None
    matcher = SequenceMatcher(None, first, line, autojunk=False)
    is_like = matcher.real_quick_ratio() >= SIMILAR and matcher.quick_ratio() >= SIMILAR
    return ratio if is_like and (ratio := matcher.ratio()) >= SIMILAR else None


def _likeness_with_rest(entry: str, lines: Sequence[str], indexes: Sequence[int]) -> float:
    """Return how like an entry is to as many lines from one of the places on, whichever is most like it.

    It compares which characters there are, in the beginning of both: that takes linear time.
    """
    size = entry.count("\n") + 1
    blocks = ("\n".join(lines[index : index + size])[:COMPARED] for index in indexes)
    return max(SequenceMatcher(None, entry[:COMPARED], block, autojunk=False).quick_ratio() for block in blocks)


def times_in(text: str, content: str) -> int:
    """Return how often a text stands in a note, as whole lines, whatever their ends."""
    return _whole_lines(content.replace("\r\n", "\n")).count(_whole_lines(text))


def _whole_lines(text: str) -> str:
    """Return text in which each line has two line ends of its own, so that neighbours can be counted apart."""
    return "\n" + text.replace("\n", "\n\n") + "\n"
