"""Decide which files are not notes, by `[files] exclude` and every `.gitignore` in the memory root.

The rules are git's: a deeper file overrides a shallower one, the last matching line wins, and everything under an
ignored folder stays ignored. `.gitignore` files above the root do not count, because a project may keep its memory
folder out of its own repository.
"""

from __future__ import annotations

import codecs
import errno
import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from memsync.notes.ignore_pattern import IgnorePattern, as_bytes, read_pattern

_SUFFIXES = (".md", ".markdown")
_OTHER_SUFFIX = re.compile(rb"!?\*\.(?!md$|markdown$)\w+", re.IGNORECASE)
MAX_IGNORE_BYTES = 64_000
MAX_IGNORE_PATTERNS = 300
"""How many patterns may count for one folder that have to be tried one by one, because they are no name or ending."""
_SETTLED_NS = 2_000_000_000
"""Do not cache rules of a file that changed more recently: it may change again in the same clock tick."""
MAX_CACHED_PATHS = 100_000
"""How many verdicts one ignore file caches."""


def is_hidden(path: str) -> bool:
    """Tell whether a file, or a folder on the way to it from the memory root, is hidden: then it is no note."""
    return path.startswith(".") or "/." in path


def is_note_name(name: str) -> bool:
    """Tell whether a file name can be a note's: `.md` or `.markdown`, not hidden, not an editor's leftover."""
    return (name.endswith(_SUFFIXES) or name.lower().endswith(_SUFFIXES)) and name[0] != "."


class _Lines:
    """The patterns of one ignore file for one sort of path (folders or notes).

    Most lines are a name, a path or like `*.log`; dictionaries find those, however many there are. Every search begins
    with a scan, which asks about the same paths again, so the answers are cached.
    """

    def __init__(self, patterns: Sequence[IgnorePattern]) -> None:
        self._ignores = [pattern.ignores for pattern in patterns]
        self._names: dict[bytes, int] = {}
        self._paths: dict[bytes, int] = {}
        self._suffixes: dict[bytes, int] = {}
        self.tried: list[tuple[int, IgnorePattern]] = []
        for line, pattern in enumerate(patterns):
            if (name := pattern.literal_name) is not None:
                self._names[name] = line
            elif (path := pattern.literal_path) is not None:
                self._paths[path] = line
            elif (suffix := pattern.suffix) is not None:
                self._suffixes[suffix] = line
            else:
                self.tried.append((line, pattern))
        self.tried.reverse()
        self._lengths = sorted({len(suffix) for suffix in self._suffixes})
        self._verdicts: dict[str, bool | None] = {}

    def __bool__(self) -> bool:
        return bool(self._ignores)

    def verdict(self, path: str) -> bool | None:
        """Tell whether the last line that matches a path ignores it; None if no line matches."""
        if path not in self._verdicts:
            if len(self._verdicts) >= MAX_CACHED_PATHS:
                self._verdicts.clear()
            self._verdicts[path] = self._judge(as_bytes(path))
        return self._verdicts[path]

    def _judge(self, path: bytes) -> bool | None:
        name = path.rpartition(b"/")[2]
        last_line = max(self._names.get(name, -1), self._paths.get(path, -1))
        for length in self._lengths:
            if length <= len(name):
                last_line = max(last_line, self._suffixes.get(name[len(name) - length :], -1))
        for line, pattern in self.tried:
            if line < last_line:
                break
            if pattern.matches(path):
                return pattern.ignores
        return self._ignores[last_line] if last_line >= 0 else None


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The rules of one folder (`""` is the root): for its subfolders and for its note files.

    Most lines of a real `.gitignore` (`*.log`, `build/`) cannot match a note. The rules for files leave them out,
    because each scan matches every file.
    """

    folder: str
    for_folders: _Lines
    for_files: _Lines

    @classmethod
    def from_lines(cls, folder: str, lines: Iterable[bytes]) -> IgnoreFile:
        """Read the lines of one ignore file; a line that is not a pattern matches nothing, as in git."""
        rules = [(line, pattern) for line in lines if (pattern := read_pattern(line))]
        for_files = [
            pattern for line, pattern in rules if not pattern.only_folders and not _OTHER_SUFFIX.fullmatch(line.strip())
        ]
        return cls(folder, _Lines([pattern for _, pattern in rules]), _Lines(for_files))


class IgnoreRules:
    """The rules of a memory root: `root_rules` are those of `[files] exclude`, `read` returns those of a `.gitignore`.

    It caches what it read, because every search scans all files.
    """

    def __init__(self, exclude: Sequence[str]) -> None:
        self.root_rules: tuple[IgnoreFile, ...] = (
            (IgnoreFile.from_lines("", map(as_bytes, exclude)),) if exclude else ()
        )
        self._compiled: dict[str, tuple[tuple[int, int, int, int], IgnoreFile]] = {}

    def read(self, folder: str, file: os.DirEntry[str]) -> IgnoreFile | None:
        """Return the rules in a `.gitignore`, or None if it is a link, no file, or gone.

        Raises OSError if it is too large or cannot be read: then nobody knows which notes it leaves out.
        """
        try:
            stat = file.stat(follow_symlinks=False)
            key = (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)
            cached = self._compiled.get(folder)
            if cached and cached[0] == key:
                return cached[1]
            if not file.is_file(follow_symlinks=False):
                return None
            if stat.st_size > MAX_IGNORE_BYTES:
                raise OSError(errno.EFBIG, f"its .gitignore is over {MAX_IGNORE_BYTES // 1000} kB: shorten it")
            content = Path(file.path).read_bytes().removeprefix(codecs.BOM_UTF8)
            rules = IgnoreFile.from_lines(folder, content.split(b"\n"))
        except FileNotFoundError:
            return None
        if time.time_ns() - stat.st_mtime_ns > _SETTLED_NS:
            self._compiled[folder] = (key, rules)
        return rules


def check_cost(rules: Sequence[IgnoreFile]) -> None:
    """Raise OSError if the rules of a folder have more than MAX_IGNORE_PATTERNS patterns to try one by one."""
    if sum(len(rule.for_folders.tried) for rule in rules) > MAX_IGNORE_PATTERNS:
        with_above = f"over {MAX_IGNORE_PATTERNS} patterns with *, ? or [] (with those of the folders above)"
        raise OSError(errno.EFBIG, f"its .gitignore has {with_above}: shorten it")


def ignores(rules: Sequence[IgnoreFile], path: str, *, is_folder: bool) -> bool:
    """Tell whether the file or folder at root-relative `path` is ignored, given that the folder above it is not."""
    for rule in reversed(rules):
        lines = rule.for_folders if is_folder else rule.for_files
        if lines and (verdict := lines.verdict(path[len(rule.folder) :])) is not None:
            return verdict
    return False
