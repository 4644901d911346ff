"""The memory as it was: commits, versions of a text, who wrote a line, and what changed between two states."""

from __future__ import annotations

import re
from typing import ClassVar, NamedTuple

from msgspec import Struct

from memsync.model.vocabulary import NotePath, Origin, citation

SHORT = 12
"""How many characters of a commit's name a citation has."""
_AT = re.compile(r"(?P<path>.+)@(?P<revision>[^@:#{][^:#]*|HEAD@\{[^}]*\})(?P<place>(?:[:#].*)?)", re.DOTALL)
_PLACE = re.compile(r"(.*?)((?::\d+(?:-\d+)?)?)", re.DOTALL)


class Commit(NamedTuple):
    """A commit: its full name, when it was made (ISO 8601), its author's name and the first line of its message."""

    name: str
    time: str = ""
    author: str = ""
    subject: str = ""

    @property
    def short(self) -> str:
        """The beginning of its name, as citations have it."""
        return self.name[:SHORT]


def split_location(location: str) -> tuple[str, str, str]:
    """Split `PATH@REVISION`, with `:LINES` or `#heading` at its end, into these three; no revision is an empty text."""
    match = _AT.fullmatch(location)
    return (match["path"], match["revision"], match["place"]) if match else (location, "", "")


def cited_at(place: str, commit: str) -> str:
    """Return the citation of a place in a commit: `path@commit:line`; unchanged if `commit` is empty."""
    match = _PLACE.fullmatch(place)
    return f"{match[1]}@{commit[:SHORT]}{match[2]}" if match and commit else place
