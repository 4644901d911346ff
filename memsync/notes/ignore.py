"""Which files of a memory root are not notes: `[files] exclude` and every `.gitignore` at or beneath the root.

Rules of git: a deeper file overrides a shallower one, the last matching line wins. `.gitignore` files above the root
do not count: a project may well keep its memory folder out of its own repository.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pathspec import GitIgnoreSpec

_SUFFIXES = (".md", ".markdown")
_OTHER_SUFFIX = re.compile(r"\*\.(?!md$|markdown$)\w+", re.IGNORECASE)
MAX_IGNORE_BYTES = 1_000_000


def is_note_name(name: str) -> bool:
    """Tell whether a file name can be a note's: `.md` or `.markdown`, not hidden, not an editor's leftover."""
    return (name.endswith(_SUFFIXES) or name.lower().endswith(_SUFFIXES)) and name[0] != "."


def is_pattern(line: str) -> bool:
    """Tell whether git would take `line` for a pattern; one that it would not (`!`, `[z-a]`) matches nothing."""
    try:
        GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):
        return False
    return True


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The rules of one folder (`""` is the root): for folders in it and for note files in it.

    Most lines of a real `.gitignore` (`*.log`, `build/`) cannot match a note's name. They are left out of the rules
    for files, because matching is a hundred times slower than `stat`.
    """

    folder: str
    for_folders: GitIgnoreSpec
    for_files: GitIgnoreSpec | None

    @classmethod
    def from_lines(cls, folder: str, lines: Sequence[str]) -> IgnoreFile:
        """Compile the lines of one ignore file."""
        relevant = [line for line in lines if line.strip() and not line.startswith("#") and is_pattern(line)]
        file_lines = [
            line for line in relevant if not line.rstrip().endswith("/") and not _OTHER_SUFFIX.fullmatch(line.strip())
        ]
        may_match_files = any(not line.startswith("!") for line in file_lines)
        return cls(
            folder,
            GitIgnoreSpec.from_lines(relevant),
            GitIgnoreSpec.from_lines(file_lines) if may_match_files else None,
        )


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
            with Path(file.path).open(encoding="utf-8-sig", errors="replace") as stream:
                rules = IgnoreFile.from_lines(folder, stream.read().splitlines())
        except OSError:
            return None
        self._compiled[folder] = (key, rules)
        return rules


def ignores_file(rules: Sequence[IgnoreFile], path: str) -> bool:
    """Tell whether the file at root-relative `path` is ignored; the deepest rule that says anything decides."""
    for rule in reversed(rules):
        if rule.for_files is not None:
            verdict = rule.for_files.check_file(path[len(rule.folder) :]).include
            if verdict is not None:
                return verdict
    return False


def ignores_folder(rules: Sequence[IgnoreFile], path: str) -> bool:
    """Tell whether the folder at root-relative `path` is ignored, and all beneath it."""
    for rule in reversed(rules):
        verdict = rule.for_folders.check_file(path[len(rule.folder) :] + "/").include
        if verdict is not None:
            return verdict
    return False
