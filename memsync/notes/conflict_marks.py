"""The marks that git writes into a note where two branches changed the same lines."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memsync.model.vocabulary import NotePath

_MARK = re.compile(r"(?:<{7}|>{7})(?: |$)")
_MARK_IN_BYTES = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|[\r\n])(?:<{7}|>{7})(?: |[\r\n]|\Z)")
_BETWEEN = "======="


def is_conflicted(lines: Sequence[str]) -> bool:
    """Tell whether a note has marks."""
    return any(map(_MARK.match, lines))


def are_in(content: bytes) -> bool:
    """Tell whether the content of a note has marks, as `is_conflicted` does of its lines."""
    return (b"<<<<<<<" in content or b">>>>>>>" in content) and _MARK_IN_BYTES.search(content) is not None


def blanked(lines: Sequence[str]) -> list[str]:
    """Return the lines of a note with empty ones in place of marks: `=======` would make headings of one side."""
    return ["" if _MARK.match(line) or line == _BETWEEN else line for line in lines]


def conflict_in(path: NotePath, lines: Sequence[str]) -> tuple[str, ...]:
    """Return the warning that a note is in a merge conflict; nothing if it is not."""
    if not is_conflicted(lines):
        return ()
    return (f"{path} has git conflict markers: its text may be incomplete or misread until you resolve the conflict",)
