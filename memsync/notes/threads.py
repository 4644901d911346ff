"""Message headings of a thread: `## role @ time {attributes}`."""

from __future__ import annotations

import re

from memsync.notes.dates import parse_moment

_ROLE = r"(?:user|assistant|system|tool|router|handoff|agent:[^\s@{}]+)"
_MESSAGE = re.compile(rf"(?P<role>{_ROLE})(?:\s*@\s*(?P<time>[^{{}}]+?))?\s*")


def read_message_heading(heading: str) -> tuple[str, str] | None:
    """Return the role and the time (ISO text, or empty) that a level-2 heading names, or None if it is no message.

    `heading` comes without its attributes. A time that cannot be read makes it an ordinary section.
    """
    found = _MESSAGE.fullmatch(heading.strip())
    if found is None:
        return None
    if found["time"] is None:
        return found["role"], ""
    moment = parse_moment(found["time"])
    return None if moment is None else (found["role"], moment)
