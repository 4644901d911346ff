"""Write the links and citations of a note anew after notes or headings got other names. Pure.

Links are found in the text itself, because the parser of Markdown only gives their lines. Only a link that the parser
found on that line is changed, so none in code. Then the new text is parsed, and its links are compared.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from memsync.edit.addition import lines_with_ends
from memsync.errors import WriteRefused
from memsync.model.note import Link, Note
from memsync.model.vocabulary import NotePath
from memsync.notes.inline import MAX_INLINE_CHARS, target_of, wiki_parts
from memsync.notes.links import as_url, outside_code
from memsync.notes.parse import parse_note
from memsync.notes.rules import PathRules

Renamed = Callable[[Link], tuple[str, str]]
"""Returns the new target and anchor of a link."""

_LABEL_LINES = 8
"""Most lines that the label of a link may have. The parser tells the first line; the target is on the last one."""
_URL = r"(?:<(?P<bracketed>[^<>\n]*)>|(?P<bare>[^\s<()]*(?:\([^\s()]*\)[^\s()]*)*))"
_LINK = re.compile(
    r"(?P<ticks>(?<!`)`+(?!`)).*?(?<!`)(?P=ticks)(?!`)"
    r"|\[\[(?P<target>[^\[\]\n|#\\]*)(?P<anchor>#(?:[^\[\]\n|\\]|\\(?!\|))*)?(?P<label>\\?\|[^\[\]\n]*)?\]\]"
    rf"|(?P<before>\]\(\s*|^ {{0,3}}\[[^\[\]\n]+\]:\s*){_URL}"
)
_PATH = re.compile(r"""\.(?:md|markdown|mdc)(?:(?=:\d)|(?P<whole>(?=["'\s,\]}]|$)))""")
_REST_OF_VALUE = re.compile(r"""[^\s"{}]*""")
_UNQUOTED = re.compile(r"""[^\s"{}\\]+""")
_IN_PATH = re.compile(r"[\w/.-]")


@dataclass(slots=True)
class NoteText:
    """A note with its lines in two forms, with and without their ends, and as it is parsed."""

    content: bytes
    note: Note
    raw: list[str]
    lines: list[str]

    @staticmethod
    def of(path: NotePath, content: bytes, rules: PathRules) -> NoteText:
        """Parse a note. Raises WriteRefused if it is not UTF-8, and BinaryFileError."""
        note = parse_note(path, content, rules)
        raw = lines_with_ends(content.removeprefix(BOM_UTF8).decode("utf-8", "surrogateescape"))
        if len(raw) != len(note.lines):
            raise WriteRefused(f"{path} is not UTF-8", hint="Save it as UTF-8 first.")
        return NoteText(content, note, raw, [line.rstrip("\r\n") for line in raw])

    def with_lines(self, lines: Sequence[str]) -> bytes:
        """Return the note's content with other lines and the same line ends."""
        ends = [raw[len(raw.rstrip("\r\n")) :] for raw in self.raw]
        text = "".join(map("".join, zip(lines, ends, strict=True))).encode("utf-8", "surrogateescape")
        return (BOM_UTF8 if self.content.startswith(BOM_UTF8) else b"") + text

    def relinked(self, renamed: Renamed) -> list[str]:
        """Return the lines with the links as `renamed` names them."""
        head_lines, links_of = self.note.head_lines, _LinksOf(self.note.links, renamed)
        changed = list(self.lines)
        outside = {number + head_lines for number, _ in outside_code(self.lines[head_lines:])}
        begins = 1
        for number, line in enumerate(self.lines, 1):
            if not line.strip():
                begins = number + 1
            if "]" in line and len(line) <= MAX_INLINE_CHARS and (number <= head_lines or number in outside):
                changed[number - 1] = _LINK.sub(partial(links_of.written, number, begins), line)
        return changed

    def fault(self, lines: Sequence[str], place: NotePath, renamed: Renamed, rules: PathRules) -> str:
        """Return why these lines, as a note at `place`, do not have just the renamed links; empty if they do."""
        content = self.with_lines(lines)
        after = parse_note(place, content, rules)
        expected = [(link.line, *renamed(link)) for link in self.note.links]
        if [(link.line, link.target, link.anchor) for link in after.links] != expected:
            return f"{self.note.path}, whose links cannot be told apart"
        if content != self.content and after.warnings != self.note.warnings:
            return f"{self.note.path}, which would be read otherwise"
        return ""


def links_on(line: str) -> Iterator[tuple[int, int, Link]]:
    """Yield (start column, end column, link) of each link on a line; those in inline code are left out."""
    for match in _LINK.finditer(line) if "]" in line and len(line) <= MAX_INLINE_CHARS else ():
        if match["ticks"]:
            continue
        if match["before"] is None:
            yield match.start(), match.end(), Link(*wiki_parts(match[0][2:-2].replace("\\|", "|")), 0, wiki=True)
        else:
            target, anchor = target_of(match["bare"] if match["bracketed"] is None else match["bracketed"])
            start = max(line.rfind("[", 0, match.start()), 0)
            yield start, match.end() + 1, Link(target, anchor, "", 0, wiki=False)


class _LinksOf:
    """The links of a note by what the text of each must say."""

    def __init__(self, links: Sequence[Link], renamed: Renamed) -> None:
        self._by_line = {(link.line, link.target, link.anchor, link.wiki): link for link in links}
        self._by_url = {(link.target, link.anchor): link for link in links if not link.wiki}
        self._renamed = renamed

    def written(self, line: int, begins: int, match: re.Match[str]) -> str:
        """Return what the text of a link on a line becomes: as it is, unless the parser found this link there.

        `begins` is the line on which the paragraph begins: the label of a Markdown link may begin on it.
        """
        if match["ticks"]:
            return match[0]
        return self._wiki(line, match) if match["before"] is None else self._markdown(line, begins, match)

    def _at(self, line: int, begins: int, target: str, anchor: str, *, wiki: bool) -> Link | None:
        first = max(begins, line - _LABEL_LINES + 1)
        keys = ((number, target, anchor, wiki) for number in range(line, first - 1, -1))
        return next((self._by_line[key] for key in keys if key in self._by_line), None)

    def _wiki(self, line: int, match: re.Match[str]) -> str:
        target, anchor = match["target"].strip(), (match["anchor"] or "")[1:].strip()
        link = self._at(line, line, target, anchor, wiki=True)
        if link is None and "supersede" in match.string:  # in attributes, which are no text to the parser
            link = Link(target, anchor, "", line, wiki=True)
        if link is None or (new := self._renamed(link)) == (target, anchor):
            return match[0]
        return f"[[{new[0]}{f'#{new[1]}' if new[1] else ''}{match['label'] or ''}]]"

    def _markdown(self, line: int, begins: int, match: re.Match[str]) -> str:
        is_bracketed = match["bracketed"] is not None
        url = target_of(match["bracketed"] if is_bracketed else match["bare"])
        is_definition = not match["before"].startswith("]")
        link = self._by_url.get(url) if is_definition else self._at(line, begins, *url, wiki=False)
        if link is None or (new := self._renamed(link)) == url:
            return match[0]
        target, anchor = new if is_bracketed else map(as_url, new)
        written = f"{target}#{anchor}" if anchor else target
        return f"{match['before']}<{written}>" if is_bracketed else f"{match['before']}{written}"


def recited(lines: Sequence[str], head_lines: int, moved: Mapping[str, str]) -> list[str]:
    """Return lines with the citations of moved notes (`path.md:12`) as these are called now.

    A path without a line counts in front matter and next to `supersedes`. Fenced code stays as it is.
    """
    lengths = {len(path) for path in moved}
    changed = list(lines)
    outside = {number + head_lines for number, _ in outside_code(lines[head_lines:])} | set(range(1, head_lines + 1))
    for number, line in enumerate(lines, 1):
        if number not in outside or len(line) > MAX_INLINE_CHARS:
            continue
        is_place = number <= head_lines or "supersede" in line
        end, parts = 0, list[str]()
        for match in _PATH.finditer(line):
            old = next(
                (old for size in lengths if (old := line[max(0, match.end() - size) : match.end()]) in moved), ""
            )
            start = match.end() - len(old)
            is_whole = start == 0 or not _IN_PATH.match(line[start - 1])
            if old and is_whole and start >= end and (match["whole"] is None or is_place):
                rest = _REST_OF_VALUE.match(line, match.end())
                if line[max(0, start - 1) : start] == "=" and rest and not _UNQUOTED.fullmatch(moved[old]):
                    parts += [line[end:start], f'"{moved[old]}{rest[0]}"']
                    end = rest.end()
                else:
                    parts += [line[end:start], moved[old]]
                    end = match.end()
        if parts:
            changed[number - 1] = "".join([*parts, line[end:]])
    return changed
