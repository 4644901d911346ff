"""Read how people say that a statement no longer holds, or not yet (docs/format.md).

Attributes and the front matter say it in so many words: `supersedes`, `superseded_by`, `valid_from`, `valid_until`. A
text says it when it is struck through, is marked "(no longer)" or is the status line of a decision record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

from memsync.errors import UsageError
from memsync.model.text import quoted
from memsync.model.vocabulary import NotePath, citation
from memsync.notes.attributes import cut_attributes
from memsync.system.user_folders import digest_of

SUPERSEDES, SUPERSEDED_BY, VALID_FROM, VALID_UNTIL = "supersedes", "superseded_by", "valid_from", "valid_until"
PAST = "~past"
"""An attribute of an entry: how its own text says that it no longer holds. No brace block can contain this name."""
STATUS = "~superseded"
"""The attribute of a status line: its whole note is superseded by this, empty if it does not say by what."""
STATUS_LINES = 20
"""A status line is among the first lines of its note."""
MAX_CHARS = 2_000
MAX_SHOWN_CHARS = 200
DIGEST_CHARS = 8
_START = r"\s*(?:(?:[-*+]|\d+[.)])\s+)?(?:\[[ xX]\]\s+)?(?:\d{1,2}:\d\d\s+)?"
_END = r"(?:\s+#[\w/-]+)*[\s.]*"
_OUTDATED = r"no longer(?: true| valid| the case)?|outdated|obsolete|out of date|superseded"
_STRUCK = re.compile(rf"{_START}(?:\*\*)?~~(?:(?!~~).)+~~(?:\*\*)?{_END}", re.DOTALL)
_ENDED = re.compile(rf"{_START}(?:(?:{_OUTDATED}):\s.*|.*\((?:{_OUTDATED})\){_END})", re.IGNORECASE | re.DOTALL)
_OVER = r"(?:superseded|replaced|deprecated|obsolete)(?:[ \t]+by\b:?[ \t]*(.+?))?[ \t.*_]*$"
_STATUS_LINE = re.compile(rf"^[ \t*_+-]*status[ \t*_]*:[ \t*_]*{_OVER}", re.IGNORECASE | re.MULTILINE)
_STATUS_TEXT = re.compile(rf"^[ \t*_+-]*{_OVER}", re.IGNORECASE | re.MULTILINE)
_HINTS = ("~~", "no longer", "obsolete", "outdated", "out of date", "superseded", "replaced", "deprecated")
_ITEM = re.compile(r"(?:[-*+]|\d+[.)])\s")
_HEADING = re.compile(r"^#{1,6}[ \t][^\n]*\n+")
_LINK = re.compile(r"\[\[([^\]|#]+)[^\]]*\]\]|\[[^\]]*\]\(<?([^)#>]+)[^)]*\)")
_LINES = re.compile(r"(.+?):([1-9]\d{0,8})(?:-([1-9]\d{0,8}))?(?:~([0-9a-f]{8}))?")
_TIME = re.compile(r"((?:\d{4}-\d\d-\d\d[ T])?\d{1,2}:\d\d)(?::\d\d)?")
_DAY = re.compile(r"(\d{4}(?:-\d\d(?:-\d\d)?)?)(?:[ T].*)?")


def attributes_in(text: str, heading: str, *, may_have_status: bool = False) -> dict[str, str]:
    """Return the attributes of an entry that its own text says; `heading` is the one that it is under."""
    if len(text) > MAX_CHARS:  # a statement is short; and each piece of an endless line would read all of it
        return {}
    text = _HEADING.sub("", text)
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS) or text.lstrip().startswith(("```", "~~~")):
        return {}
    if _STRUCK.fullmatch(text):
        return {PAST: "struck through"}
    if _ENDED.fullmatch(text):
        return {PAST: "no longer true"}
    is_status = heading.strip().lower() == "status"
    status = (_STATUS_TEXT if is_status else _STATUS_LINE).search(text) if may_have_status else None
    return {STATUS: (status[1] or "").strip()} if status else {}


def marks_of(values: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the texts under the keys of this module in attributes or front matter, written with `_` or `-`.

    A day that is not ISO 8601 says nothing.
    """
    found: dict[str, list[str]] = {}
    for key, value in values.items():
        name = key.replace("-", "_").lower()
        texts = [str(item) for item in (value if isinstance(value, list) else [value]) if item is not None]
        if name in (SUPERSEDES, SUPERSEDED_BY):
            found[name] = texts
        elif name in (VALID_FROM, VALID_UNTIL):
            found[name] = [match[1] for text in texts if (match := _DAY.fullmatch(text.strip()))]
        elif name == "status" and texts and (status := _STATUS_TEXT.fullmatch(texts[0][:MAX_CHARS])):
            found.setdefault(SUPERSEDED_BY, [status[1] or ""])
    return found


class Reference(NamedTuple):
    """What a mark names: lines of a note (0: all of it), or the entry with this time; `digest` is of the old text."""

    name: str = ""
    first: int = 0
    last: int = 0
    digest: str = ""
    time: str = ""


def reference_of(text: str) -> Reference:
    """Read what a mark names: `path:line`, `path`, `[[name]]`, a Markdown link, or the time of an entry."""
    name = _LINK.sub(lambda link: link[1].strip() if link[1] else unquote(link[2].strip()), text, count=1).strip()
    if time := _TIME.fullmatch(name):
        return Reference(time=time[1].replace(" ", "T"))
    if lines := _LINES.fullmatch(name):
        return Reference(lines[1], int(lines[2]), int(lines[3] or lines[2]), lines[4] or "")
    return Reference(name)


class Statement(NamedTuple):
    """Lines of a note that say one thing: an item of a list, or a paragraph. `digest` is of the words alone."""

    first: int
    last: int
    text: str
    digest: str


def statements(lines: Sequence[str], first: int = 1) -> Iterator[Statement]:
    """Yield the statements of lines whose first one has this number; without headings and front matter."""
    start, block = first, list[str]()
    for number, line in enumerate([*lines, ""], first):
        if block and (not line.strip() or _ITEM.match(line) or line.startswith("#")):
            words = " ".join(" ".join(part[: cut_attributes(part)[0]] for part in block).split())
            text = " ".join(" ".join(block).split())[:MAX_SHOWN_CHARS]
            yield Statement(start, number - 1, text, digest_of(words.encode("utf-8", "replace"))[:DIGEST_CHARS])
            block = []
        if line.strip() and not line.startswith("#"):
            start = start if block else number
            block.append(line)


def statement_at(path: NotePath, lines: Sequence[str], first: int, last: int, was: str) -> tuple[str, str]:
    """Return the reference to the statement on these lines of a note, and its text, which must contain `was`.

    Raises UsageError, which names the nearest statement that does, and for lines of several statements.
    """
    wanted = _plain(was)
    right = [one for one in statements(lines) if wanted in _plain(one.text)]
    for statement in right:
        if statement.first <= first <= statement.last:
            if last > statement.last:
                hint = f"Name one: {citation(path, statement.first, statement.last)}"
                raise UsageError(f"{citation(path, first, last)} has several statements", hint=hint)
            place = citation(path, statement.first, statement.last)
            return f"{place}~{statement.digest}", f"{place}  {statement.text}"
    nearest = min(right, key=lambda one: abs(one.first - first), default=None)
    hint = "Search for it, and name its line."
    if nearest:
        hint = f"The nearest is {citation(path, nearest.first, nearest.last)}: {nearest.text}"
    raise UsageError(f"{path}:{first} does not say {quoted(was)}" if was else f"{path}:{first} says nothing", hint=hint)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
