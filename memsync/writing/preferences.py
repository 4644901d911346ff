"""`preferences.md`: `- key: value` lines, for everybody or beneath a `## user:NAME` heading; the last one wins."""

from __future__ import annotations

import re

from memsync.errors import UsageError
from memsync.model import Note, NotePath, Preference, Written
from memsync.notes.attributes import cut_attributes
from memsync.writing.attempts import Done
from memsync.writing.author import Author
from memsync.writing.edits import end_of_section, find_section, insert_after, replace_line
from memsync.writing.join import Addition
from memsync.writing.shape import one_line

PREFERENCES = NotePath("preferences.md")
_HEAD = "# Preferences\n"
# Key and value begin and end without a space: any number of spaces around them is read in one pass.
_LINE = re.compile(r"(\s{0,3}[-*+]\s+)([^\s:#`](?:[^:]*[^\s:])?)(\s*:\s*)((?:\S.*)?\S|)\s*")
_USER = re.compile(r"user:\s*(\S.*)", re.IGNORECASE)


class Preferences:
    """What one memory root's preferences.md says."""

    def __init__(self, author: Author) -> None:
        self._author = author

    def get(self, user: str) -> tuple[Preference, ...]:
        """See Calls.preferences."""
        note = self._author.read(PREFERENCES)
        found: dict[str, Preference] = {}
        user = one_line(user)
        for whose in ("", user) if user else ("",):
            for one in _preferences(note) if note else ():
                if one.user == whose:
                    found.pop(one.key, None)
                    found[one.key] = one
        return tuple(found.values())

    def set(self, key: str, value: str, user: str) -> Written:
        """See Calls.set_preference."""
        key, value, user = map(one_line, (key, value, user))
        if not key or ":" in key or not value or not _LINE.fullmatch(f"- {key}: {value}"):
            raise UsageError(f"{key!r} and {value!r} are no preference", hint="Write: memsync pref set KEY VALUE")
        braced = next((part for part in (value, user) if cut_attributes(part)[1]), None)
        if braced is not None:
            raise UsageError(f"{braced!r} ends in attributes", hint="Write it without the braces.")
        written = f"{_HEAD}\n## user:{user}\n\n- {key}: {value}\n" if user else f"{_HEAD}\n- {key}: {value}\n"
        read = _preferences(self._author.parse(PREFERENCES, written.encode()))
        if [(one.key, one.value, one.user) for one in read] != [(key, value, user)]:
            raise UsageError(f"{user!r} would not be read as this user", hint="Write it without Markdown's signs.")
        return self._author.write("pref", f"{key}: {value}", lambda: self._set(key, value, user))

    def _set(self, key: str, value: str, user: str) -> Done:
        item = Addition(f"- {key}: {value}")
        heading = f"user:{user}"
        note = self._author.read(PREFERENCES)
        if note is None or (user and find_section(note, heading) is None):
            new = Addition(f"## {heading}\n\n{item.text}") if user else item
            return self._author.writer.append(PREFERENCES, new, head=_HEAD)

        def edit(text: str) -> str:
            now = self._author.parse(PREFERENCES, text.encode("utf-8", "surrogateescape"))
            old = [one for one in _preferences(now) if (one.key, one.user) == (key, user)]
            if old:
                found = _LINE.fullmatch(now.lines[old[-1].line - 1])
                assert found is not None
                return replace_line(text, old[-1].line, f"{found[1]}{found[2]}{found[3]}{value}")
            return insert_after(PREFERENCES, text, _place(now, heading if user else ""), item)

        return self._author.writer.rewrite(PREFERENCES, edit, adds=True)


def _preferences(note: Note) -> list[Preference]:
    """Return every preference of the note, in order."""
    found = []
    for section in note.sections:
        user = next((named[1] for title in section.heading_path if (named := _USER.fullmatch(title))), "")
        for number in range(section.start_line, section.end_line + 1):
            line = _LINE.fullmatch(note.lines[number - 1])
            if line is not None:
                found.append(Preference(line[2], line[4], number, user))
    return found


def _place(note: Note, heading: str) -> int:
    """Return the line behind which a new preference stands: a user's section, or what is for everybody."""
    section = find_section(note, heading) if heading else None
    if section is not None:
        return end_of_section(note, section)
    common = [s for s in note.sections if not any(_USER.fullmatch(title) for title in s.heading_path)]
    return end_of_section(note, common[-1]) if common else note.head_lines
