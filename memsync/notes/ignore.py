"""Which files of a memory root are not notes: `[files] exclude` and every `.gitignore` at or beneath the root.

Rules of git: a deeper file overrides a shallower one, the last matching line wins, nothing beneath an ignored folder
comes back. `.gitignore` files above the root do not count: a project may well keep its memory folder out of its own
repository.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memsync.notes.ignore_pattern import IgnorePattern, read_pattern

_SUFFIXES = (".md", ".markdown")
_OTHER_SUFFIX = re.compile(r"!?\*\.(?!md$|markdown$)\w+", re.IGNORECASE)
MAX_IGNORE_BYTES = 1_000_000
_SETTLED_NS = 2_000_000_000
"""A file changed more recently may be written again in the same clock tick: what is compiled of it is not kept."""


def is_note_name(name: str) -> bool:
    """Tell whether a file name can be a note's: `.md` or `.markdown`, not hidden, not an editor's leftover."""
    return (name.endswith(_SUFFIXES) or name.lower().endswith(_SUFFIXES)) and name[0] != "."


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The rules of one folder (`""` is the root): for folders in it and for note files in it, the last line first.

    Most lines of a real `.gitignore` (`*.log`, `build/`) cannot match a note's name. They are left out of the rules
    for files, because every file of every scan is matched.
    """

    folder: str
    for_folders: tuple[IgnorePattern, ...]
    for_files: tuple[IgnorePattern, ...]

    @classmethod
    def from_lines(cls, folder: str, lines: Sequence[str]) -> IgnoreFile:
        """Compile the lines of one ignore file; a line that is no pattern matches nothing, as in git."""
        found = [(line, pattern) for line in reversed(lines) if (pattern := read_pattern(line))]
        for_files = (
            pattern for line, pattern in found if not pattern.only_folders and not _OTHER_SUFFIX.fullmatch(line.strip())
        )
        return cls(folder, tuple(pattern for _, pattern in found), tuple(for_files))


@dataclass(slots=True)
class IgnoreRules:
    """All rules met on the way down; keeps what it compiled, because a scan precedes every search."""

    exclude: Sequence[str] = ()
    _compiled: dict[str, tuple[tuple[int, int, int, int], IgnoreFile]] = field(default_factory=dict)

    def root_rules(self) -> tuple[IgnoreFile, ...]:
        """Return the rules that hold before any `.gitignore` is read."""
        return (IgnoreFile.from_lines("", self.exclude),) if self.exclude else ()

    def read(self, folder: str, file: os.DirEntry[str]) -> IgnoreFile | None:
        """Return the rules in a `.gitignore`, or None if it is a link, too large or cannot be read."""
        try:
            stat = file.stat(follow_symlinks=False)
            key = (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)
            cached = self._compiled.get(folder)
            if cached and cached[0] == key:
                return cached[1]
            if not file.is_file(follow_symlinks=False) or stat.st_size > MAX_IGNORE_BYTES:
                return None
            with Path(file.path).open(encoding="utf-8-sig", errors="surrogateescape") as stream:
                rules = IgnoreFile.from_lines(folder, stream.read().split("\n"))
        except OSError:
            return None
        if time.time_ns() - stat.st_mtime_ns > _SETTLED_NS:
            self._compiled[folder] = (key, rules)
        return rules


def ignores_file(rules: Sequence[IgnoreFile], path: str) -> bool:
    """Tell whether the file at root-relative `path` is ignored, its folder not being so."""
    for rule in reversed(rules):
        own = path[len(rule.folder) :]
        for pattern in rule.for_files:
            if pattern.matches(own):
                return pattern.ignores
    return False


def ignores_folder(rules: Sequence[IgnoreFile], path: str) -> bool:
    """Tell whether the folder at root-relative `path` is ignored, and all beneath it; its parent is not."""
    for rule in reversed(rules):
        own = path[len(rule.folder) :]
        for pattern in rule.for_folders:
            if pattern.matches(own):
                return pattern.ignores
    return False
