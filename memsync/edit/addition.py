"""How what is appended meets what is there: on a line of its own, ended as the note's are, with nothing left open."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from memsync.edit.note_end import Tail, joins_items
from memsync.errors import WriteRefused
from memsync.notes.frontmatter import closes_head

_IN_LIST = re.compile(r"[ \t]*(?:[-+*]|\d{1,9}[.)])[ \t]|[ \t]{2,}\S")


@dataclass(frozen=True, slots=True)
class Addition:
    """What is to be appended: whole lines with LF between them and none at the end, with nothing left open in them.

    `guarded` is the same without a line that would close front matter; empty when `text` has none.
    """

    text: str
    guarded: str = ""

    @property
    def is_item(self) -> bool:
        """True when it is a list item, which may follow another at once."""
        return _IN_LIST.match(self.text) is not None


def joined(tail: Tail, additions: Iterable[Addition]) -> tuple[str, int, Tail]:
    """Return the text to append for these additions, the line on which the last of them begins, and the new end.

    Raises WriteRefused where the text would become part of front matter that is not closed.
    """
    text, line = "", 0
    for addition in additions:
        added = _added(tail, addition)
        joint = "" if tail.ends_line else "\n"
        joint += f"{tail.closing}\n" if tail.closing else ""
        before = tail.closing or tail.last_line  # of which only spaces and tabs make an empty line in Markdown
        is_next = addition.is_item and tail.joins_items and not tail.closing and _IN_LIST.match(before)
        if before.strip(" \t") and not is_next:
            joint += "\n"
        line = tail.lines + joint.count("\n") + tail.ends_line
        text += f"{joint}{added}\n"
        lines = added.split("\n")
        tail = Tail(
            tail.newline,
            line + len(lines) - 1,
            last_line=lines[-1],
            head_is_open=tail.head_is_open,
            joins_items=addition.is_item or joins_items(lines),
        )
    return text.replace("\n", tail.newline), line, tail


def _added(tail: Tail, addition: Addition) -> str:
    """Return the text of an addition that does not close front matter. Raises WriteRefused when there is none."""
    if not tail.head_is_open or not any(map(closes_head, addition.text.split("\n"))):
        return addition.text
    if addition.guarded:
        return addition.guarded
    raise WriteRefused(
        "the note begins with --- that nothing closes, and this text would",
        hint="Close the note's front matter with a line of ---, or put an empty line before its first.",
    )
