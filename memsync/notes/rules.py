"""Kind and tier of a note by its path: ordered globs from config.toml, the last match wins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from pathspec import GitIgnoreSpec

from memsync.model import Kind, NotePath, Tier

ARCHIVE_FOLDER = "archive/"


@dataclass(frozen=True)
class PathRules:
    """The `[kinds]` and `[tiers]` tables: a glob as in .gitignore -> a value.

    What was retired to archive/ stays what it was where it came from, unless a glob is about archive/ itself.
    """

    kinds: Mapping[str, str]
    tiers: Mapping[str, str]

    def kind(self, path: NotePath) -> Kind:
        """Return the kind of the last glob that matches `path`, else `note`."""
        return Kind(_last_match(self._kind_specs, path) or Kind.NOTE)

    def tier(self, path: NotePath) -> Tier:
        """Return the tier of the last glob that matches `path`, else `project`."""
        return Tier(_last_match(self._tier_specs, path) or Tier.PROJECT)

    @cached_property
    def _kind_specs(self) -> list[tuple[GitIgnoreSpec, str]]:
        return [(GitIgnoreSpec.from_lines([glob]), value) for glob, value in self.kinds.items()]

    @cached_property
    def _tier_specs(self) -> list[tuple[GitIgnoreSpec, str]]:
        return [(GitIgnoreSpec.from_lines([glob]), value) for glob, value in self.tiers.items()]


def _last_match(specs: list[tuple[GitIgnoreSpec, str]], path: str) -> str | None:
    places = {path, path.removeprefix(ARCHIVE_FOLDER)}
    return next((value for spec, value in reversed(specs) if any(map(spec.match_file, places))), None)
