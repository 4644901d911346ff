"""A journal of all appends. It can restore text that an editor overwrote by saving an old buffer.

One file a day with one JSON object a line, in the state folder and outside the index: deleting the index loses nothing.
Writers hold the writers' lock, so lines are in the order of time.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from memsync.errors import FilesystemError
from memsync.model.vocabulary import NotePath
from memsync.notes.transcript import read_message_heading
from memsync.system.user_folders import write_own_file


def append_line(path: Path, value: object, *, sync: bool = False) -> None:
    """Append one object as a line of JSON; create the file and its folder, readable by their owner only.

    Writes a line end first: a killed process may have left half a line. With `sync`, wait for the disk.
    Raises FilesystemError.
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


def json_objects(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the objects in lines of JSON; skip half lines, which killed processes leave."""
    for line in lines:
        with suppress(ValueError):
            if isinstance(entry := json.loads(line), dict):
                yield entry


_BLOCK_BYTES = 65_536
_PATH_KEY = b'"path": '
"""As `append_line` writes it. Text in a line cannot contain it, because JSON escapes quotes in text."""
KEEP_DAYS = 30
SIMILAR = 0.8
"""Minimum similarity of a line to an entry without a time to count as its edited version."""
COMPARED = 150
"""How many characters of a line to compare: time is quadratic in their number, and difflib is exact under 200."""
_SECTION = re.compile(r"## (?P<heading>[^\n]+)\n\n[-*+] .*", re.DOTALL)
_STAMP = re.compile(
    r"\s*(?:(?:[-*+]|\d+[.)])\s+(?:\[.\]\s+)?(?=\d)|#+ .* @ )"
    r"(\d{1,2}:\d{2}(?::\d{2})?|\d{4}-\d{2}-\d{2}[T ][\d:]+)"
)
"""Matches the time at the beginning of a log entry or of a message heading in a thread."""


@dataclass(frozen=True, slots=True)
class Appended:
    """One append at a Unix time: `text` has no line end at its end; `head` begins the note if it has to be created.

    `branch` is the branch or commit of git that was checked out; empty without git.
    """

    id: str
    at: float
    path: NotePath
    text: str
    head: str = ""
    branch: str = ""

    @property
    def heading(self) -> str:
        """The heading of the section that was created together with the entry; empty if none was."""
        match = _SECTION.fullmatch(self.text)
        return match["heading"] if match and read_message_heading(match["heading"]) is None else ""

    @property
    def entry(self) -> str:
        """The text without that heading, so that the entry is found even if the section was renamed."""
        return self.text.removeprefix(f"## {self.heading}\n\n") if self.heading else self.text


class Journal:
    """The appends to one memory root, in `folder`, which the first write creates; `branch` returns that of each."""

    def __init__(self, folder: Path, branch: Callable[[], str] = str) -> None:
        self._folder = folder
        self._branch = branch

    def append(self, path: NotePath, text: str, *, head: str = "", replaces: Sequence[str] = ()) -> Appended:
        """Record an append before it is made. Raises FilesystemError.

        The appends with the ids in `replaces` no longer count as missing, unless this append is undone.
        """
        at = time.time()
        appended = Appended(f"{time.time_ns():x}", at, path, text, head, self._branch())
        self._write(at, {**asdict(appended), "replaces": list(replaces)} if replaces else asdict(appended))
        return appended

    def settle(self, ids: Iterable[str]) -> None:
        """Record that these appends no longer count as missing: they were rewritten, or deleted on purpose."""
        self._write(time.time(), {"settled": list(ids)})

    def undo(self, appended: Appended) -> None:
        """Record that an append was not made; the appends that it replaced count again."""
        self._write(time.time(), {"undone": appended.id})

    def drop(self, is_forgotten: Callable[[NotePath, str], bool]) -> int:
        """Delete the appends whose note and text are forgotten, and half lines; return how many.

        Raises FilesystemError.
        """

        def is_kept(line: bytes) -> bool:
            entry = next(json_objects([line]), None)
            if entry is None:
                return False
            return "text" not in entry or not is_forgotten(NotePath(entry["path"]), entry["text"])

        dropped = 0
        for path in self._days():
            lines = [line for line in path.read_bytes().split(b"\n") if line]
            kept = list(filter(is_kept, lines))
            if len(kept) < len(lines):
                dropped += len(lines) - len(kept)
                try:
                    write_own_file(str(path), b"\n".join([*kept, b""]), sync=True)
                except OSError as error:
                    raise FilesystemError(
                        f"{path} cannot be written: {error.strerror}", hint="Free some space."
                    ) from error
        return dropped

    def _write(self, at: float, line: object) -> None:
        path = self._folder / f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}.jsonl"
        if not path.exists():  # the first append of a day
            oldest = f"{datetime.fromtimestamp(at, UTC) - timedelta(days=KEEP_DAYS):%Y-%m-%d}.jsonl"
            for old_path in self._days():
                if old_path.name < oldest:
                    with suppress(OSError):
                        old_path.unlink()
        append_line(path, line)

    def _days(self) -> list[Path]:
        """Return the files, oldest first."""
        return sorted(self._folder.glob("????-??-??.jsonl"))

    def by_path(self) -> dict[NotePath, list[Appended]]:
        """Return all unsettled appends of each note, oldest first."""
        appends: dict[NotePath, list[Appended]] = {}
        for append in self.since(0.0):
            appends.setdefault(append.path, []).append(append)
        return appends

    def since(self, moment: float, path: NotePath | None = None) -> list[Appended]:
        """Return the unsettled appends since a Unix time, oldest first; with `path`, only those to one note."""
        appends: list[Appended] = []
        settled: set[str] = set()
        undone: set[str] = set()
        # With `path`, lines of other notes can be skipped: an append replaces only appends to the same note.
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
                    path_of_line, head, branch = NotePath(line["path"]), line.get("head", ""), line.get("branch", "")
                    appends.append(Appended(line["id"], line["at"], path_of_line, line["text"], head, branch))
        return appends[::-1]

    def _backwards(self, path_pair: bytes) -> Iterator[dict[str, Any]]:
        """Yield the lines, newest first; with `path_pair`, skip lines with another path without parsing them."""
        for path in reversed(self._days()):
            lines = _lines_backwards(path)
            yield from json_objects(line for line in lines if path_pair in line or _PATH_KEY not in line)


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
    """Return the appends to one note that its content lacks, oldest first.

    If a text was appended more often than the note contains it, the newest of those appends are missing.
    """
    appends = list(appends)
    content = content.replace("\r\n", "\n")
    lines = Counter(content.split("\n"))
    doubled = _whole_lines(content) if any("\n" in append.entry for append in appends) else ""
    appended: Counter[str] = Counter()
    lost = []
    for append in appends:
        entry = append.entry
        appended[entry] += 1
        present = doubled.count(_whole_lines(entry)) if "\n" in entry else lines[entry]
        if appended[entry] > present:
            lost.append(append)
    return lost


def edited(appends: Sequence[Appended], lost: Sequence[Appended], content: str) -> set[str]:
    """Return the ids of lost appends that somebody may have edited.

    The note then has a line that no other append wrote, with the entry's time stamp or, if the entry has none, like the
    entry's first line. Of several lost entries of one minute, all count as edited: which one it was is not known.
    """
    spare = Counter(content.replace("\r\n", "\n").split("\n"))
    lost_ids = {append.id for append in lost}
    for append in appends:
        if append.id not in lost_ids:
            spare.subtract(append.entry.split("\n"))
    lines = [line for line, times in spare.items() if times > 0]
    stamps = {match[1] for match in map(_STAMP.match, lines) if match}
    without_stamp = [line[:COMPARED] for line in lines if not _STAMP.match(line)]

    def is_edited(first: str) -> bool:
        if match := _STAMP.match(first):
            return match[1] in stamps
        return bool(get_close_matches(first[:COMPARED], without_stamp, 1, SIMILAR))

    return {append.id for append in lost if is_edited(append.entry.partition("\n")[0])}


def times_in(text: str, content: str) -> int:
    """Return how often a note contains a text as whole lines; LF and CR LF are equal."""
    return _whole_lines(content.replace("\r\n", "\n")).count(_whole_lines(text))


def _whole_lines(text: str) -> str:
    """Return text with each line between two line ends of its own, so that `count` also counts adjacent matches."""
    return "\n" + text.replace("\n", "\n\n") + "\n"
