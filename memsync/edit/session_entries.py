"""Session notes: the entries in a daily log that say what agents' sessions were about. Each line names its session."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from memsync.edit.addition import Addition, lines_with_ends
from memsync.edit.markdown import list_item
from memsync.notes.attributes import SESSION, cut_attributes

_ITEM = re.compile(r"\s*[-*+] ")


class SessionEntry(NamedTuple):
    """The entry of a session in the text of a log: its lines, counted from 1."""

    first: int
    last: int
    session: str
    text: str


def entries_of_sessions(text: str) -> list[SessionEntry]:
    """Return the entries of sessions in the text of a log, in order."""
    found: list[SessionEntry] = []
    for number, line in enumerate((line.rstrip("\r\n") for line in lines_with_ends(text)), 1):
        session = cut_attributes(line)[1].get(SESSION, "") if _ITEM.match(line) else ""
        if session and found and (found[-1].last, found[-1].session) == (number - 1, session):
            found[-1] = found[-1]._replace(last=number, text=f"{found[-1].text}\n{line}")
        elif session:
            found.append(SessionEntry(number, number, session, line))
    return found


def session_entry(marks: Mapping[str, str], time: str, lines: Sequence[str]) -> Addition:
    """Return the entry of a session: the first line at a time of day, and the others below it; all have the marks."""
    marks = {name: value for name, value in marks.items() if value}
    items = [list_item(line, time="" if place else time, attributes=marks).text for place, line in enumerate(lines)]
    return Addition("\n".join([items[0], *(f"  {line}" for item in items[1:] for line in item.split("\n"))]))


def with_entry(text: str, entry: SessionEntry, new: str) -> str:
    """Return the text of a log with other lines in the place of an entry; with none if `new` is empty."""
    lines = lines_with_ends(text)
    last = lines[entry.last - 1]
    end = last[len(last.rstrip("\r\n")) :]
    usual = "\r\n" if lines[entry.first - 1].endswith("\r\n") else "\n"
    lines[entry.first - 1 : entry.last] = [new.replace("\n", usual) + end] if new else []
    return "".join(lines)
