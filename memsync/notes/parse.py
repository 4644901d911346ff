"""Parse a file into a Note. No text raises an error: markup that cannot be parsed is kept as text, with a warning.

docs/format.md describes the format.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate, islice, pairwise
from pathlib import PurePosixPath
from typing import TypeGuard, TypeVar

from markdown_it import MarkdownIt
from msgspec.structs import replace

from memsync.model.note import Block, Chunk, Note, Section, Tag
from memsync.model.text import quoted
from memsync.model.vocabulary import JsonValue, Kind, NotePath, Origin, Tier
from memsync.notes import conflict_marks
from memsync.notes.agent_forms import of_fact
from memsync.notes.blocks import BlockTree, Heading, paragraphs, parse_blocks, thread_parser
from memsync.notes.chunk import ChunkLimits, CountTokens, chunk_note
from memsync.notes.dates import (
    CHANGED,
    CREATED,
    PUBLISHED,
    dated_by,
    dates_in_path,
    expires_at,
    is_date_key,
    leading_time,
    read_date,
)
from memsync.notes.decode import decode
from memsync.notes.frontmatter import is_clear, names_local_only, properties_in, read_head
from memsync.notes.ignore import is_note_name
from memsync.notes.inline import InlineFinds, find_inline, links_in_head, parse_inline, plain_text
from memsync.notes.message_format import MESSAGE_LEVEL, find_headings, messages_in, read_message_heading
from memsync.notes.naming import aliases_in, text_of, texts_of
from memsync.notes.origin import BY, least_trusted, of_agent
from memsync.notes.rules import ARCHIVE_FOLDER, PathRules

MAX_STRUCTURED_BYTES = 2_000_000
MAX_HEADING_CHARS = 200
"""Heading paths cut longer headings; the heading's line is still indexed whole."""
MAX_NAMES = 100
"""Maximum number of note-wide tags, and of aliases: each passage of the note repeats them."""
MAX_NAMES_CHARS = 2_000
"""Maximum total length of the note-wide tags, and of the aliases."""
MAX_TITLE_CHARS = 1_000
MAX_PLAIN_BLOCKS = 1_000
"""Maximum number of paragraphs of a section without a heading: a search's deadline is looked at before each section."""

TEMPLATE_FOLDERS = ("templates", "_templates")
SCAFFOLD = frozenset({"d6153014eb070296", "263919f7e438506b", "c6d38b99074bf510", "9c23c70ed96e6afc"})
"""The start of the SHA-256 of each note that `memsync init` writes, with every digit as 0; add those of new texts."""
MAX_SCAFFOLD_CHARS = 1_000
_PLACEHOLDER = re.compile(r"\{\{[^{}]{1,200}\}\}|<%[^%]{1,200}%>")
_NO_DATE = re.compile(r"[{<%$]|YYYY|^\s*\d{4}\s*$|^\W*$")
"""Not to be warned of: a placeholder, a year alone, and nothing."""
_PROSE = re.compile(r"(?<![^\W_])(?:[^\W_]+[,;:]?[ \t]+){3}[^\W_]|[\u3040-\u9fff\uac00-\ud7af]{8}")
MAX_ABOVE_TITLE = 5
"""Blocks and headings that may be above the heading that is the title; a sentence may not."""
_PLAIN = re.compile(r"[^`*_\[\]<>\\&!#]*")

NOT_SEARCHED = "too long or too complex to search for tags and links"
"""The warning about a paragraph."""


@dataclass(slots=True)
class _Body:
    """The parsed body of a note, without its front matter."""

    tree: BlockTree
    inline: InlineFinds
    first_title: str = ""
    sections: list[Section] = field(default_factory=list)
    blocks: list[list[Block]] = field(default_factory=list)

    def begin(self, section: Section) -> None:
        """Begin a section; its end is set when the whole body is parsed."""
        self.sections.append(section)
        self.blocks.append([])


def parse_note(path: NotePath, content: bytes, rules: PathRules) -> Note:
    """Parse the bytes of a file; one over MAX_STRUCTURED_BYTES only into paragraphs. Raises only BinaryFileError."""
    decoded = decode(content)
    lines, warnings = decoded.lines, list(decoded.warnings)
    head = read_head(lines)
    if head.warning and not any(map(_PLACEHOLDER.search, lines[: head.line_count])):
        warnings.append(head.warning)
    properties = properties_in(lines[head.line_count : head.line_count + MAX_NAMES])
    values = {**properties, **head.values, **of_agent(path, head.values)}
    of_path = rules.kind(path), rules.tier(path)
    usual_kind, usual_tier = (of_path[0] in (Kind.NOTE, Kind.MEMORY) and of_fact(head.values)) or of_path
    kind = _choice(head.values, "kind", usual_kind, warnings)
    tier = _choice(head.values, "tier", usual_tier, warnings)
    named, period = dates_in_path(path)
    date = named[:10] if kind is Kind.DAILY else ""
    is_large = len(content) > MAX_STRUCTURED_BYTES
    if is_large:
        warnings.append(f"file is over {MAX_STRUCTURED_BYTES / 1e6:g} MB: indexed as plain paragraphs")
    body = _body(lines, head.line_count + 1, kind, date, warnings, is_plain=is_large or not is_note_name(path))
    name = text_of(values.get("name"))[:MAX_TITLE_CHARS]
    _check_values(values, kind, warnings)
    date = date or _date(values, warnings) or named or period
    is_template = _is_template(path, values, kind, lines)
    title = text_of(values.get("title"))[:MAX_TITLE_CHARS] or body.first_title or name
    note = Note(
        path=path,
        title=title or re.sub("(?<=.)___(?=.)", "/", PurePosixPath(path).stem),  # Logseq writes a slash so
        kind=kind,
        tier=tier,
        lines=lines,
        sections=tuple(body.sections),
        blocks=tuple(map(tuple, body.blocks)),
        front_matter=values,
        head_lines=head.line_count,
        head_is_text=head.raw or _holds_prose(head.values) or (head.line_count > 0 and not body.sections),
        cuts=body.tree.cuts,
        tags=_tags(values, body.inline.tags, warnings),
        links=(*links_in_head(lines[: head.line_count]), *body.inline.links),
        aliases=tuple(_few([*filter(None, [name]), *aliases_in(values)], "aliases", warnings)),
        date=date,
        session=text_of(values.get("session")) or (PurePosixPath(path).stem if kind is Kind.THREAD else ""),
        importance=_importance(values, warnings),
        pinned=values.get("pinned") is True,
        archived=values.get("archived") is True or path.startswith(ARCHIVE_FOLDER) or is_template,
        warnings=() if is_template else tuple(warnings),
        local_only=head.local_only or rules.is_local_only(path),
    )
    return replace(note, messages=tuple(messages_in(note.sections, lines))) if kind is Kind.THREAD else note


# ----------------------------------------------------------------------------------------------- body


def _body(
    lines: Sequence[str], first_line: int, kind: Kind, date: str, warnings: list[str], *, is_plain: bool
) -> _Body:
    """Parse the body, as plain paragraphs if it is too large or complex; add a warning for each problem."""
    if is_conflicted := conflict_marks.is_conflicted(lines):
        lines = conflict_marks.blanked(lines)
    body = None if is_plain else _parse_body(lines, first_line, kind, date)
    if body is None and not is_plain:
        warnings.append("file has too many or too deeply nested elements: indexed as plain paragraphs")
    body = body or _plain_body(lines, first_line, kind)
    ends = [blocks[-1].end_line for blocks in body.blocks]
    body.sections = [replace(section, end_line=end) for section, end in zip(body.sections, ends, strict=True)]
    if body.inline.skipped:
        warnings.append(f"line {body.inline.skipped[0]}: {NOT_SEARCHED}")
    if is_conflicted:
        warnings.append("file has git conflict markers")
    return body


def _plain_body(lines: Sequence[str], first_line: int, kind: Kind) -> _Body:
    """Return the body as paragraphs, MAX_PLAIN_BLOCKS of them in a section; in a thread, find the messages by line."""
    body = _Body(BlockTree([], [], {}), InlineFinds())
    headings = list(find_headings(lines, first_line)) if kind is Kind.THREAD else []
    begins = {section.start_line: section for section, _ in headings}
    body.tree.cuts.update({section.start_line: column for section, column in headings if column})
    for part in paragraphs(lines, first_line, len(lines)):
        own = [line for line in range(part.start_line, part.end_line + 1) if line in begins] if begins else []
        # Cut before and after each heading line.
        for first, after in pairwise(sorted({part.start_line, *own, *(line + 1 for line in own), part.end_line + 1})):
            if first in begins or not body.sections or (not begins and len(body.blocks[-1]) >= MAX_PLAIN_BLOCKS):
                body.begin(begins.get(first) or Section((), first, after - 1))
            body.blocks[-1].append(Block(first, after - 1))
    return body


def _parse_body(lines: Sequence[str], first_line: int, kind: Kind, date: str) -> _Body | None:
    markdown = thread_parser()
    tree = parse_blocks(lines, first_line)
    if tree is None:
        return None
    body = _Body(tree, find_inline(markdown, tree.tokens, tree.env))
    outline, is_below_text = _Outline(kind, date), False
    for number, part in enumerate(tree.parts):
        if isinstance(part, Heading):
            text = _heading_text(markdown, part.text, tree)
            if part.level == 1 and not body.first_title and not is_below_text and number <= MAX_ABOVE_TITLE:
                body.first_title = text
            body.begin(outline.enter(part, text))
            block = Block(part.start_line, part.end_line)
        else:
            if not body.sections:
                body.begin(Section((), part.start_line, part.end_line, time=date))
            own = lines[part.start_line - 1 : part.end_line]
            is_below_text = is_below_text or any(
                line[:1] != "<" and _PROSE.search(line[:MAX_TITLE_CHARS]) for line in own
            )
            block = _dated(part, date)
        body.blocks[-1].append(block)
    return body


class _Outline:
    """The open headings and the message that the current lines belong to."""

    def __init__(self, kind: Kind, date: str) -> None:
        self._is_thread = kind is Kind.THREAD
        self._date = date
        self._open: list[tuple[int, str, str]] = []
        self._message = ("", "")  # role and time

    def enter(self, heading: Heading, text: str) -> Section:
        """Return the section that `heading` begins; the caller sets its end later."""
        self._open = [one for one in self._open if one[0] < heading.level]
        self._open.append((heading.level, text[:MAX_HEADING_CHARS], heading.attributes.get(BY, "")))
        attributes, spoken = heading.attributes, None
        if self._is_thread and heading.level <= MESSAGE_LEVEL:
            spoken = read_message_heading(heading.text, attributes) if heading.level == MESSAGE_LEVEL else None
            role, time, attributes = spoken or ("", "", attributes)
            self._message = role, time
        role, time = self._message
        by = least_trusted(by for _, _, by in self._open)  # headings inherit the `by` of the section that they are in
        clock = leading_time(text) if self._date else ""
        return Section(
            heading_path=tuple(name for _, name, _ in self._open),
            start_line=heading.start_line,
            end_line=heading.end_line,
            role=role,
            time=f"{self._date}T{clock}" if clock else time or self._date,
            attributes={**attributes, BY: by} if by else attributes,
            level=heading.level,
            is_message=spoken is not None,
        )


def _dated(block: Block, date: str) -> Block:
    """Add the log's date to the times of a block and its children; without a date, drop the times."""
    if not block.time and not block.children:
        return block
    time = f"{date}T{block.time}" if date and block.time else ""
    children = tuple([_dated(child, date) for child in block.children])
    return Block(block.start_line, block.end_line, block.entry, children, time, block.attributes)


def _heading_text(markdown: MarkdownIt, source: str, tree: BlockTree) -> str:
    source = source[: MAX_HEADING_CHARS * 4]
    tokens = None if _PLAIN.fullmatch(source) else parse_inline(markdown, source, tree.env)
    return " ".join(source.split()) if tokens is None else plain_text(tokens)


# --------------------------------------------------------------------------------------- front matter


_Choice = TypeVar("_Choice", Kind, Tier)


def _choice(values: Mapping[str, JsonValue], key: str, by_path: _Choice, warnings: list[str]) -> _Choice:
    """Return the kind or tier that the front matter sets, otherwise that of the path."""
    value, choices = values.get(key), type(by_path)
    if value in list(choices):
        return choices(str(value))
    if value is not None:
        warnings.append(f"{key} {quoted(str(value))} is not one of {', '.join(choices)}")
    return by_path


def _is_number(value: JsonValue) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _tags(values: Mapping[str, JsonValue], body_tags: Sequence[Tag], warnings: list[str]) -> tuple[Tag, ...]:
    """Return the tags of front matter and body, but only as many note-wide ones as `_few` keeps."""
    given = [values.get(key) for key in ("tags", "tag")]
    lists = (one.split() if isinstance(one, str) and not {",", "["} & {*one} else texts_of(one) for one in given)
    head_tags = (Tag(name, 0) for names in lists for text in names if (name := text.lstrip("#[").rstrip("]")))
    tags = dict.fromkeys([*head_tags, *body_tags])
    kept = set(_few([tag.name for tag in tags if tag.line == 0], "tags of the whole note", warnings))
    return tuple(tag for tag in tags if tag.line or tag.name in kept)


def _few(names: Sequence[str], what: str, warnings: list[str]) -> Sequence[str]:
    """Return the first names, up to the limits, with a warning if some are left out: each passage repeats them all."""
    ends = accumulate(len(name) for name in names)
    kept = sum(end <= MAX_NAMES_CHARS for end in islice(ends, MAX_NAMES))
    if kept < len(names):
        warnings.append(f"{len(names)} {what}: only the first {kept} are used")
    return names[:kept]


def _date(values: Mapping[str, JsonValue], warnings: list[str]) -> str:
    """Return the date that the front matter gives; add a warning for a value that is no date, year or placeholder."""
    for key, value in values.items():
        if value and value is not True and is_date_key(key) and not (read_date(value) or _NO_DATE.search(str(value))):
            warnings.append(f"{key} {quoted(str(value))} is not a date: write 2026-11-21 or 2026-11-21 10:02")
    return next(filter(None, (dated_by(values, keys) for keys in (CHANGED, CREATED, PUBLISHED))), "")


def _check_values(values: Mapping[str, JsonValue], kind: Kind, warnings: list[str]) -> None:
    """Warn of values that are not clear: `local-only`, `expires`, and `priority` and `active` of prompts."""
    for key, value in values.items():
        if names_local_only(key) and not is_clear(value):
            warnings.append(f"{key} {quoted(str(value))} is not true or false: the note counts as local-only")
    expires = values.get("expires")
    if expires is not None and not (isinstance(expires, str) and expires_at(expires, "2026-01-01")):
        warnings.append(f"expires {quoted(str(expires))} is not a date or a number of days: write 2026-11-21 or 30d")
    if kind is Kind.PROMPT:
        priority, active = values.get("priority", 100), values.get("active", True)
        if not _is_number(priority):
            warnings.append(f"priority {quoted(str(priority))} is not a number: using 100")
        if not isinstance(active, bool):
            warnings.append(f"active {quoted(str(active))} is not true or false: using true")


def _importance(values: Mapping[str, JsonValue], warnings: list[str]) -> float:
    value = values.get("importance", 0.5)
    if _is_number(value) and 0 <= value <= 1:
        return float(value)
    warnings.append(f"importance {quoted(str(value))} is not a number from 0 to 1")
    return 0.5


def _holds_prose(values: Mapping[str, JsonValue]) -> bool:
    """Tell whether the front matter has prose to search: four or more words, not counting title, tags and aliases."""
    named = ("title", "tags", "tag", "aliases", "alias")
    return any(isinstance(value, str) and len(value.split()) >= 4 for key, value in values.items() if key not in named)


def _is_template(path: NotePath, values: Mapping[str, JsonValue], kind: Kind, lines: Sequence[str]) -> bool:
    """Tell whether a note is a template, which searches skip, unless it says whether it is archived."""
    if isinstance(values.get("archived"), bool) or kind in (Kind.SOUL, Kind.PROMPT):  # prompts may have placeholders
        return False
    filled = [line for line in lines if any(map(str.isalnum, line))]
    open_lines = [line for line in filled if 2 * sum(map(len, _PLACEHOLDER.findall(line))) >= len(line.strip())]
    is_in_folder = any(part.lower() in TEMPLATE_FOLDERS for part in PurePosixPath(path).parent.parts)
    return is_in_folder or len(open_lines) * 3 > len(filled)


def is_unedited(note: Note) -> bool:
    """Tell whether a note is as `memsync init` wrote it, except for day and time; a prompt takes effect as it is."""
    if sum(map(len, note.lines)) > MAX_SCAFFOLD_CHARS or note.kind is Kind.PROMPT:
        return False
    text = re.sub(r"\d", "0", "\n".join(note.lines).strip())
    return hashlib.sha256(text.encode()).hexdigest()[:16] in SCAFFOLD


PARSER_VERSION = 28
"""Raise it with every change that makes equal bytes give a different note or chunks: then every note is read again."""


MAX_KEPT_BYTES = 200_000
"""A parsed note takes twenty times as much memory."""


@dataclass(frozen=True, eq=False)
class NoteReader:
    """Reads notes and cuts them into chunks. Readers with equal `parsed_by` give equal results for equal bytes."""

    count_tokens: CountTokens
    rules: PathRules
    limits: ChunkLimits
    usual_origin: str = Origin.OWNER

    @cached_property
    def parsed_by(self) -> str:
        """The parser's version and a digest of the settings."""
        settings = (
            list(self.rules.kinds.items()),
            list(self.rules.tiers.items()),
            sorted(self.rules.local_only),
            self.limits,
            self.usual_origin,
        )
        digest = hashlib.sha256(repr(settings).encode()).hexdigest()[:12]
        return f"{PARSER_VERSION}:{digest}"

    def read(self, path: NotePath, content: bytes) -> tuple[Note, list[Chunk]]:
        """Parse and chunk one file. Raises BinaryFileError.

        The last results are kept, because what was indexed a moment ago is often read again: the log of a busy day took
        most of the time of a session's start.
        """
        note, chunks = (_kept if len(content) <= MAX_KEPT_BYTES else _read)(self, path, content)
        return note, [*chunks]


def _read(reader: NoteReader, path: NotePath, content: bytes) -> tuple[Note, Sequence[Chunk]]:
    note = parse_note(path, content, reader.rules)
    is_empty = is_unedited(note)
    return note, () if is_empty else chunk_note(note, reader.count_tokens, reader.limits, reader.usual_origin)


_kept = lru_cache(maxsize=2)(_read)
