"""Decide which files are not notes, by `[files] exclude` and every `.gitignore` in the memory root.

The rules are git's: a deeper file overrides a shallower one, the last matching line wins, and everything under an
ignored folder stays ignored. `.gitignore` files above the root do not count, because a project may keep its memory
folder out of its own repository.
"""

from __future__ import annotations

import codecs
import errno
import itertools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from memsync.notes.ignore_pattern import MAX_PATTERN_BYTES, IgnorePattern, as_bytes, read_pattern

SUFFIXES = (".md", ".markdown", ".mdc")
_NO_NOTE = re.compile(rb"!?(?:\*\.\w+|[\w./ @-]+)(?<!\.md)(?<!\.mdc)(?<!\.markdown)", re.IGNORECASE)
"""Lines that match no note: a suffix or a plain name of something else."""
MAX_IGNORE_BYTES = 64_000
MAX_CACHED_PATHS = 100_000
"""How many verdicts one ignore file caches."""


def is_hidden(path: str) -> bool:
    """Tell whether a file, or a folder on the way to it from the memory root, is hidden: then it is no note."""
    return path.startswith(".") or "/." in path


def is_note_name(name: str, more: tuple[str, ...] = ()) -> bool:
    """Tell whether a file name can be a note's: `.md`, `.markdown` or `.mdc`, not hidden, no editor's leftover.

    `more` are suffixes of notes that are plain text.
    """
    return (name.endswith(SUFFIXES) or name.lower().endswith((*SUFFIXES, *more))) and name[0] != "."


class _Lines:
    """The patterns of one ignore file for one sort of path (folders or notes).

    Most lines are a name or a path; a dictionary finds those, however many there are. Every search begins with a scan,
    which asks about the same paths again, so the verdicts are cached.
    """

    def __init__(self, patterns: Sequence[IgnorePattern]) -> None:
        self._patterns = patterns
        self._literals = {pattern.literal: line for line, pattern in enumerate(patterns)}
        self._tried = [line for line, pattern in enumerate(patterns) if not pattern.literal][::-1]
        self.verdict = lru_cache(MAX_CACHED_PATHS)(self._verdict)

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def _verdict(self, path: str) -> bool | None:
        """Tell whether the last line that matches a path ignores it; None if no line matches."""
        place = b"/" + as_bytes(path)
        last = max(self._literals.get(place, -1), self._literals.get(place.rpartition(b"/")[2], -1))
        later = itertools.takewhile(lambda line: line > last, self._tried)
        last = next((line for line in later if self._patterns[line].matches(place[1:])), last)
        return self._patterns[last].ignores if last >= 0 else None


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The rules of one folder (`""` is the root): for its subfolders and for its note files.

    Most lines of a real `.gitignore` (`*.log`, `build/`, `node_modules`) cannot match a note. The rules for files leave
    them out, because each scan matches every file. `tried_bytes` is the length of the patterns that are tried one by
    one, and at least that of the longest line.
    """

    folder: str
    for_folders: _Lines
    for_files: _Lines
    tried_bytes: int

    @classmethod
    def from_lines(cls, folder: str, lines: Sequence[bytes]) -> IgnoreFile:
        """Read the lines of one ignore file; a line that is not a pattern matches nothing, as in git."""
        rules = [(line, pattern) for line in lines if (pattern := read_pattern(line))]
        for_files = [
            pattern for line, pattern in rules if not pattern.only_folders and not _NO_NOTE.fullmatch(line.strip())
        ]
        tried_bytes = max(sum(len(line) for line, pattern in rules if not pattern.literal), *map(len, lines))
        return cls(folder, _Lines([pattern for _, pattern in rules]), _Lines(for_files), tried_bytes)


class IgnoreRules:
    """The rules of a memory root: `root_rules` are those of `[files] exclude`, `read` returns those of a `.gitignore`.

    Every search reads each `.gitignore`, but parses only those that changed.
    """

    def __init__(self, exclude: Sequence[str]) -> None:
        self.root_rules: tuple[IgnoreFile, ...] = ()
        if exclude:
            self.root_rules = (IgnoreFile.from_lines("", list(map(as_bytes, exclude))),)
        self._parsed: dict[str, tuple[bytes, IgnoreFile]] = {}

    def read(self, folder: str, file: os.DirEntry[str]) -> IgnoreFile | None:
        """Return the rules in a `.gitignore`, or None if it is a link, no file, or gone.

        Raises OSError if it is too large or cannot be read: then nobody knows which notes it leaves out.
        """
        try:
            if not file.is_file(follow_symlinks=False):
                return None
            with open(file.path, "rb") as stream:
                content = stream.read(MAX_IGNORE_BYTES + 1)
        except FileNotFoundError:
            return None
        if len(content) > MAX_IGNORE_BYTES:
            raise OSError(errno.EFBIG, f"its .gitignore is over {MAX_IGNORE_BYTES // 1000} kB: shorten it")
        parsed = self._parsed.get(folder)
        if parsed is None or parsed[0] != content:
            lines = content.removeprefix(codecs.BOM_UTF8).split(b"\n")
            parsed = self._parsed[folder] = (content, IgnoreFile.from_lines(folder, lines))
        return parsed[1]


def only_pattern(patterns: Sequence[str]) -> re.Pattern[str] | None:
    """Return an expression for the files that match a pattern, and, with a slash, for the folders above them.

    A `*` matches names within a folder, `**` any folders. None without patterns: then everything may be a note.
    """
    forms = []
    for pattern in patterns:
        parts = ["(?:[^/]+/)*" if part == "**" else f"{_name(part)}/" for part in pattern.split("/")]
        forms += [*("".join(parts[:depth]) for depth in range(1, len(parts))), "".join(parts)[:-1]]
    return re.compile("|".join(forms), re.DOTALL) if forms else None


def _name(part: str) -> str:
    return re.escape(part).replace(r"\*", "[^/]*")


def check_cost(rules: Sequence[IgnoreFile]) -> None:
    """Raise OSError if the rules of a folder have more than MAX_PATTERN_BYTES of patterns to try one by one."""
    if sum(rule.tried_bytes for rule in rules) > MAX_PATTERN_BYTES:
        limit = f"{MAX_PATTERN_BYTES // 1000} kB of patterns with *, ? or []"
        raise OSError(errno.EFBIG, f"its .gitignore has over {limit} (with those of the folders above): shorten it")


def ignores(rules: Sequence[IgnoreFile], path: str, *, is_folder: bool) -> bool:
    """Tell whether the file or folder at root-relative `path` is ignored, given that the folder above it is not."""
    for rule in reversed(rules):
        lines = rule.for_folders if is_folder else rule.for_files
        if lines and (verdict := lines.verdict(path[len(rule.folder) :])) is not None:
            return verdict
    return False
