"""Tell the kind and tier of a note by its path, and whether it is local-only: globs from config.toml."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from memsync.model.vocabulary import Kind, NotePath, Tier
from memsync.notes.ignore import is_hidden
from memsync.notes.ignore_pattern import IgnorePattern, as_bytes, read_pattern

ARCHIVE_FOLDER = "archive/"
THREADS_FOLDER = "threads/"
PREFERENCES = NotePath("preferences.md")
_README = "readme.md"
_CONFIG = "config.toml"
_FOR_CODING_AGENTS = (
    *("agent.md", "agents.md", "agents.*.md", "claude.md", "claude.*.md", "gemini.md", "gemini.*.md", "skill.md"),
    *("*.mdc", "copilot-instructions.md", "*.instructions.md", "*.prompt.md", "*.chatmode.md", "*.agent.md"),
    *("conventions.md", "crush.md", "crush.*.md", "opencode.md", "opencode.*.md", "codex.md", "replit.md", "iflow.md"),
    *("qwen.md", "warp.md", "heartbeat.md", "boot.md", "bootstrap.md", "knowledge.md", "*.knowledge.md"),
)
"""Files that coding agents obey in any folder. To memsync they are ordinary notes: a context quotes them."""
_INSTRUCTING = {"/soul.md": Kind.SOUL, "/prompts/": Kind.PROMPT, **dict.fromkeys(_FOR_CODING_AGENTS, Kind.PROMPT)}
"""Notes that instruct agents even if `[kinds]` says otherwise; names are folded by `_as_any_file_system_reads`."""

_Glob = tuple[IgnorePattern, str]


@dataclass(frozen=True)
class PathRules:
    """The `[kinds]` and `[tiers]` tables: from globs as in .gitignore to values.

    A note in archive/ keeps the kind and tier that its former path gave it, unless a glob is about archive/ itself.
    The globs of `local_only` have no order: a note that any of them matches is local-only.
    """

    kinds: Mapping[str, str]
    tiers: Mapping[str, str]
    local_only: Sequence[str] = ()

    def kind(self, path: NotePath) -> Kind:
        """Return the kind of the last glob that matches `path`; default: `note`."""
        return Kind(_last_match(self._kind_globs, path) or Kind.NOTE)

    def tier(self, path: NotePath) -> Tier:
        """Return the tier of the last glob that matches `path`; default: `project`."""
        return Tier(_last_match(self._tier_globs, path) or Tier.PROJECT)

    def is_local_only(self, path: NotePath) -> bool:
        """Tell whether a glob of `[privacy] local_only` matches a path, or the path from which it was archived.

        Two names count as the same if any file system treats them as the same: `Journal/` is as private as `journal/`.
        """
        if not self.local_only:
            return False
        names = {path, NotePath(former_path(path))}
        names |= {NotePath(_as_any_file_system_reads(name)) for name in names}
        return any(pattern.holds(as_bytes(name)) for pattern in self._local_globs for name in names)

    def instructs(self, path: NotePath) -> bool:
        """Tell whether a note of that path instructs agents: only people may write to it, in an editor.

        These are SOUL.md, prompts/, all paths that the rules call `soul` or `prompt`, also in archive/, the files that
        coding agents obey, the root's config.toml, and hidden folders, where agents keep rules. Two names count as the
        same if any file system treats them as the same.
        """
        name = NotePath(_as_any_file_system_reads(path))
        return name == _CONFIG or is_hidden(name) or self._instructing.kind(name) is not Kind.NOTE

    def refuses_import(self, path: NotePath) -> str:
        """Return why no import may write to a path; empty for a thread under threads/ or archive/threads/."""
        if not former_path(path).startswith(THREADS_FOLDER):
            return f"an import writes only under {THREADS_FOLDER}, not to {path}"
        if self.instructs(path):
            return f"{path} instructs agents: an import may not write to it"
        if describes_folder(NotePath(_as_any_file_system_reads(path))):
            return f"{path} describes its folder: an import may not write to it"
        return ""

    @cached_property
    def _instructing(self) -> PathRules:
        instructing = (Kind.SOUL, Kind.PROMPT)
        kinds = {_as_any_file_system_reads(glob): kind for glob, kind in self.kinds.items() if kind in instructing}
        return PathRules(kinds | _INSTRUCTING, {})

    @cached_property
    def _local_globs(self) -> list[IgnorePattern]:
        globs = {form for glob in self.local_only for form in (glob, _as_any_file_system_reads(glob))}
        return [pattern for glob in sorted(globs) if (pattern := read_pattern(as_bytes(glob))) is not None]

    @cached_property
    def _kind_globs(self) -> list[_Glob]:
        return _globs(self.kinds)

    @cached_property
    def _tier_globs(self) -> list[_Glob]:
        return _globs(self.tiers)


def unusable_local_only(patterns: Sequence[str]) -> str | None:
    """Return the first pattern of `[privacy] local_only` that can match nothing or that takes notes out again."""
    read = ((pattern, read_pattern(as_bytes(pattern))) for pattern in patterns)
    return next((text for text, pattern in read if pattern is None or not pattern.ignores), None)


def former_path(path: str) -> str:
    """Return a path without the folder archive/, which may be repeated: see `Retiring.with_free_targets`."""
    while path.startswith(ARCHIVE_FOLDER):
        path = path.removeprefix(ARCHIVE_FOLDER)
    return path


def describes_folder(path: NotePath) -> bool:
    """Tell whether a note is the README.md of a folder."""
    folder, _, name = path.rpartition("/")
    return bool(folder) and name.lower() == _README


def _globs(table: Mapping[str, str]) -> list[_Glob]:
    """Return the patterns of a table with their values, the last first; leave out globs that are not patterns."""
    patterns = [(read_pattern(as_bytes(glob)), value) for glob, value in table.items()]
    return [(pattern, value) for pattern, value in reversed(patterns) if pattern is not None and pattern.ignores]


def _last_match(globs: list[_Glob], path: str) -> str | None:
    paths = {as_bytes(path), as_bytes(former_path(path))}
    return next((value for pattern, value in globs if any(map(pattern.holds, paths))), None)


def _as_any_file_system_reads(path: str) -> str:
    """Fold the differences that some file system ignores in a path or glob: case, letter forms, ends of names."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold())
    visible = "".join(character for character in folded if unicodedata.category(character) != "Cf")
    return "/".join(part.rstrip(" .") or part for part in visible.split("/"))
