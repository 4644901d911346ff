"""Preferences: the `- key: value` lines of preferences.md, for everyone or under a `## user:NAME` heading.

If several lines have the same key, the last of the most trusted ones wins.
"""

from __future__ import annotations

import re
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from memsync.edit.addition import Addition, end_of_section, find_section, insert_after, replace_line
from memsync.edit.append import Done
from memsync.edit.markdown import one_line
from memsync.errors import UsageError
from memsync.model.note import Note
from memsync.model.vocabulary import Origin, trust
from memsync.model.written import Preference, Written
from memsync.notes.attributes import cut_attributes
from memsync.notes.origin import BY, origin_of
from memsync.notes.rules import PREFERENCES
from memsync.operation import Cli, Command, operation

if TYPE_CHECKING:
    from memsync.workspace import Workspace

SECTION = "Notes"

_HEAD = "# Preferences\n"
# Key and value may not begin or end with a space, so that the regex never backtracks over long runs of spaces.
_LINE = re.compile(r"(\s{0,3}[-*+]\s+)([^\s:#`](?:[^:]*[^\s:])?)(\s*:\s*)((?:\S.*)?\S|)\s*")
_USER = re.compile(r"user:\s*(\S.*)", re.IGNORECASE)

User = Annotated[str, Meta(description="The user. [default: everyone]"), Cli(metavar="NAME")]


@operation(Command("pref list", help="Print every preference."))
def preferences(memory: Workspace, *, user: User = "") -> tuple[Preference, ...]:
    """Return the preferences for everyone; those of `user` replace the ones with the same key."""
    note = memory.editor.read(PREFERENCES)
    by_key: dict[str, Preference] = {}
    user = one_line(user)
    found = [(_trusted(note, one), bool(one.user), one) for one in _preferences(note)] if note else []
    for _, _, preference in sorted(found, key=itemgetter(0, 1)):
        if preference.user in ("", user):
            by_key.pop(preference.key, None)  # so that the last line is also the last in order
            by_key[preference.key] = preference
    return tuple(by_key.values())


@operation(Command("pref set", help="Set KEY to VALUE and print its path:line."), writes=True)
def set_preference(
    memory: Workspace,
    key: Annotated[str, Meta(description="What it is about.")],
    value: Annotated[str, Meta(description="The preference."), Cli(is_text=True)],
    *,
    user: User = "",
) -> Written:
    """Set a preference, replacing the line that has it. Raises UsageError when the result could not be read back."""
    key, value, user = map(one_line, (key, value, user))
    if not key or ":" in key or not value or not _LINE.fullmatch(f"- {key}: {value}"):
        raise UsageError(f"{key!r} and {value!r} are not a preference", hint="Write: memsync pref set KEY VALUE")
    braced = next((part for part in (value, user) if cut_attributes(part)[1]), None)
    if braced is not None:
        raise UsageError(f"{braced!r} ends in attributes", hint="Write it without the braces.")
    written = f"{_HEAD}\n## user:{user}\n\n- {key}: {value}\n" if user else f"{_HEAD}\n- {key}: {value}\n"
    read_back = _preferences(memory.editor.parse(PREFERENCES, written.encode()))
    if [(pref.key, pref.value, pref.user) for pref in read_back] != [(key, value, user)]:
        raise UsageError(f"{user!r} would not be read as this user", hint="Write it without Markdown characters.")
    return memory.write("pref", f"{key}: {value}", lambda: _set(memory, key, value, user))


def _set(memory: Workspace, key: str, value: str, user: str) -> Done:
    item = Addition(f"- {key}: {value}")
    heading = f"user:{user}"
    note = memory.editor.read(PREFERENCES)
    if note is None or (user and find_section(note, heading) is None):
        new = Addition(f"## {heading}\n\n{item.text}") if user else item
        return memory.writer.append(PREFERENCES, new, head=_HEAD)

    def edit(text: str) -> str:
        current = memory.editor.parse(PREFERENCES, text)
        old = [preference for preference in _preferences(current) if (preference.key, preference.user) == (key, user)]
        if old and (line := _LINE.fullmatch(current.lines[old[-1].line - 1])):
            return replace_line(text, old[-1].line, f"{line[1]}{line[2]}{line[3]}{value}")
        return insert_after(PREFERENCES, text, _place(current, heading if user else ""), item)

    return memory.writer.rewrite(PREFERENCES, edit, adds=True)


def _preferences(note: Note) -> list[Preference]:
    preferences = []
    for section in note.sections:
        user = next((named[1] for title in section.heading_path if (named := _USER.fullmatch(title))), "")
        for number in range(section.start_line, section.end_line + 1):
            text = note.lines[number - 1]
            line = _LINE.fullmatch(text[: cut_attributes(text)[0]])
            if line is not None:
                preferences.append(Preference(line[2], line[4], number, user))
    return preferences


def _trusted(note: Note, preference: Preference) -> int:
    """Return how far the line of a preference is trusted."""
    own = cut_attributes(note.lines[preference.line - 1])[1].get(BY, "")
    section = next(one for one in note.sections if one.start_line <= preference.line <= one.end_line)
    return trust(origin_of(note.front_matter, "", (section.attributes.get(BY, ""), own), Origin.OWNER))


def _place(note: Note, heading: str) -> int:
    """Return the line after which to insert a preference: the end of the user's section, or of those for everyone."""
    section = find_section(note, heading) if heading else None
    if section is not None:
        return end_of_section(note, section)
    common = [s for s in note.sections if not any(_USER.fullmatch(title) for title in s.heading_path)]
    return end_of_section(note, common[-1]) if common else note.head_lines
