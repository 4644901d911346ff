"""Cut a note into chunks: the passages that are embedded, searched and cited.

A section is first cut into units. A unit is a block of the Markdown tree that fits the model's input; a block that is
too large is replaced by its children, its lines or pieces of a line. The rest depends on the kind of note.

Running text is packed into chunks of even size. In a note that records facts (a log, MEMORY.md), each small list item
is a separate chunk, because its neighbours are about other subjects. A conversation also gets windows of neighbouring
items, because a line is rarely clear without the lines before it. In a reference note, a long list of links or terms is
cut into groups: a group has one vector, but each item has its own words in the word index.

A digest of the items' text decides where windows and groups begin, not a fixed count. So an inserted item changes only
the windows and groups around it. No chunk crosses the border of a section or message.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from operator import itemgetter

from memsync.model.note import Block, Chunk, Entry, Note, Section, with_children
from memsync.model.vocabulary import Form, Kind, Origin, Trait
from memsync.notes import conflict_marks
from memsync.notes.attributes import cut_attributes
from memsync.notes.entry_text import opening_of, said, speaker_of, tasks_in, traits_of, without_comments
from memsync.notes.links import outside_code
from memsync.notes.origin import BY, least_trusted, origin_of
from memsync.notes.validity_marks import STATUS_LINES, attributes_in, marks_of

_DEFINITION = re.compile(r"^ {0,3}\[[^\]\n]{1,200}\]:[ \t].*$", re.MULTILINE)
_LINK = re.compile(r"!?\[([^\[\]\n]{0,500})\](?:\([^()\n]{0,1000}\)|\[[^\[\]\n]{0,200}\])")
_URL = re.compile(r"<?https?://[^\s<>)\]]+>?")
_LABEL: Callable[[re.Match[str]], str] = itemgetter(1)
_OF_NOTE = re.compile(r"[\"']?(?:title|tags?|alias(?:es)?)[\"']?\s*[:=]")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_LAST_OF_BLOB = re.compile(r"\s*(?=\S*[\d+/=])[A-Za-z0-9+/]+={0,2}\s*")
_FENCE = re.compile(r"[ \t>]*(?:`{3,}|~{3,})")
_BLOCK_ID = re.compile(r"(?<![ \t])[ \t]+\^[A-Za-z0-9-]+[ \t]*$")
_MAY_BE_MARK = re.compile(r"[<>|]{7}(?: |$)|={7}$|[ \t]*\{")
MIN_BLOB_CHARS = 64
"""Length of a line in the usual files of keys."""
_BLANK_LINES = re.compile(r"\n\s*\n+")


def clean(text: str) -> str:
    """Return `text` without link definitions, link targets and URLs."""
    if "]" in text:
        if "]:" in text:
            text = _DEFINITION.sub("", text)
        text = _LINK.sub(_LABEL, text)
    return _URL.sub("", text) if "http" in text else text


def passage_text(text: str) -> str:
    """Return the text to embed: cleaned and without blank lines, or the text itself if cleaning leaves nothing."""
    passage = clean(text)
    if "\n" in passage:
        passage = _BLANK_LINES.sub("\n", passage)
    return passage.strip() or text.strip()


CountTokens = Callable[[Sequence[str]], list[int]]
"""Returns the number of tokens of each text, without special tokens."""

CHARS_PER_TOKEN = 8
"""Count at least one token per 8 characters: a tokenizer turns a word of 1 MB into a single [UNK]."""
COUNTED_AT_ONCE = 200
"""Texts whose tokens are counted in one call, which needs much memory for each."""
MAX_ITEMS = 255
"""Maximum number of items of a group: the word index numbers them in one byte."""
GROUP_SHARE = 0.43
"""Smallest group as a share of the largest chunk; a group may end anywhere between the two sizes."""


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """The largest chunk, and which list items become separate entries. Sizes are in tokens of the built-in model.

    Items of at most `small_tokens` are separate entries, but in a reference note only in lists of more than
    `run_tokens`. A window has at most `window_entries` of them; windows begin `window_stride` entries apart on average.
    """

    max_tokens: int = 254
    small_tokens: int = 120
    run_tokens: int = 400
    window_entries: int = 5
    window_stride: int = 2


@dataclass(frozen=True, slots=True)
class _Unit:
    """A block, or part of one, that fits into a chunk. Columns are set only for pieces of a single line."""

    start: int
    end: int
    tokens: int
    is_item: bool = False
    time: str = ""
    attributes: Mapping[str, str] | None = None
    start_column: int = 0
    end_column: int = 0
    is_after_gap: bool = False


def chunk_note(
    note: Note, count_tokens: CountTokens, limits: ChunkLimits, usual_origin: str = Origin.OWNER
) -> list[Chunk]:
    """Cut a note into chunks, in file order except lines of front matter.

    Every non-blank line of the body is in at least one chunk, except encoded data. Front matter is one chunk if it has
    prose, otherwise each of its lines is one, without a vector.
    """
    return _Chunker(note, count_tokens, limits, usual_origin).run()


def _by(unit: _Unit) -> str:
    """Return who wrote a unit, by its own words."""
    return (unit.attributes or {}).get(BY, "")


def _has_mark(unit: _Unit, text: str) -> bool:
    """Tell whether a unit says when it holds, or what it supersedes: that is not said of its neighbours."""
    return bool(attributes_in(text, "") or marks_of(unit.attributes or {}))


class _Chunker:
    """The chunks of a note so far, the section that is being cut, and how many entries it has."""

    def __init__(self, note: Note, count_tokens: CountTokens, limits: ChunkLimits, usual_origin: str) -> None:
        self._usual_origin = usual_origin
        self._note = note
        self._count_tokens = count_tokens
        self._limits = limits
        self._readable = readable(note)
        self._tags: dict[int, list[str]] = {}
        for tag in note.tags:
            self._tags.setdefault(tag.line, []).append(tag.name)
        self._chunks: list[Chunk] = []
        self._section, self._number, self._entries = Section((), 1, note.head_lines), 0, 0

    def run(self) -> list[Chunk]:
        sections = list(zip(self._note.sections, self._note.blocks, strict=True))
        head = self._section
        if self._note.head_is_text and self._note.head_lines:
            sections.insert(0, (head, (Block(1, head.end_line),)))
        else:  # last, so that the body's chunks have the same numbers with and without front matter
            sections.append((head, tuple(Block(line, line) for line in _field_lines(self._note))))
        blocks = [block for _, own in sections for block in own]
        counts = iter(self._count_blocks(blocks))
        for number, (section, own) in enumerate(sections):
            self._number, self._section, self._entries = number, section, 0
            units = self._without_blobs([unit for block in own for unit in self._units(block, next(counts))])
            if section is head and not self._note.head_is_text:
                for unit in units:
                    self._add([unit], [self._entry([unit])], Form.FIELD)
            else:
                self._cut(units)
        return self._chunks

    def _without_blobs(self, units: list[_Unit]) -> list[_Unit]:
        """Return the units of a section without those that hold only encoded data; nothing is joined over a gap."""
        own = slice(self._section.start_line - 1, self._section.end_line)
        if self._readable[own] == self._note.lines[own]:
            return units
        kept: list[_Unit] = []
        is_after_gap = False
        for unit in units:
            lines = self._readable[unit.start - 1 : unit.end]
            is_heading = bool(self._section.heading_path) and unit is units[0]
            if is_heading or any(any(map(str.isalnum, line)) and not _FENCE.match(line) for line in lines):
                kept.append(replace(unit, is_after_gap=is_after_gap))
                is_after_gap = False
            else:
                is_after_gap = True
        return kept

    # -------------------------------------------------------------------------------------------- units

    def _units(self, block: Block, tokens: int) -> Iterator[_Unit]:
        """Yield the units of a block. Children inherit the item's `by`."""
        by = (block.attributes or {}).get(BY)
        for unit in self._parts(block, tokens):
            own = least_trusted((by or "", _by(unit))) if by else ""
            yield replace(unit, attributes={**(unit.attributes or {}), BY: own}) if by else unit

    def _parts(self, block: Block, tokens: int) -> Iterator[_Unit]:
        """Yield the block itself if it fits and all in it is of one origin, otherwise its children or lines."""
        fits = tokens <= self._limits.max_tokens
        if fits and not any(child.attributes.get(BY) for child in with_children(block.children)):
            yield _Unit(block.start_line, block.end_line, tokens, block.entry, block.time, block.attributes)
        elif block.children:
            # An only child has the same lines as its parent; counting it again would be slow for nested quotes.
            counts = [tokens] if len(block.children) == 1 else self._count_blocks(block.children)
            first, *others = (unit for pair in zip(block.children, counts, strict=True) for unit in self._units(*pair))
            if fits:  # what is said of the item is said of its own words
                first = replace(
                    first,
                    is_item=block.entry,
                    time=block.time,
                    attributes={**block.attributes, **(first.attributes or {})},
                )
            yield from (first, *others)
        else:
            yield from self._lines(block)

    def _lines(self, block: Block) -> Iterator[_Unit]:
        """Yield the longest runs of whole lines that fit, and pieces of each line that is too long by itself."""
        limit = self._limits.max_tokens
        counts = self._count_blocks([Block(line, line) for line in range(block.start_line, block.end_line + 1)])
        start, total = block.start_line, 0
        for line, tokens in enumerate(counts, block.start_line):
            if total + tokens > limit and start < line:
                yield _Unit(start, line - 1, total)
                start, total = line, 0
            if tokens > limit:
                yield from self._pieces(line)
                start = line + 1
            else:
                total += tokens
        if start <= block.end_line:
            yield _Unit(start, block.end_line, total)

    def _pieces(self, line: int) -> Iterator[_Unit]:
        """Yield pieces of one line, cut after a space if possible."""
        text = self._text(line, line)
        spans = list(_slices(text, 0, len(text), self._limits.max_tokens * 3))
        ready: list[_Unit] = []
        while spans:
            counts = self._count(text[start:end] for start, end in spans)
            halves: list[tuple[int, int]] = []
            for (start, end), tokens in zip(spans, counts, strict=True):
                if tokens > self._limits.max_tokens and end - start > 1:
                    halves += _slices(text, start, end, (end - start + 1) // 2)
                else:
                    ready.append(_Unit(line, line, tokens, start_column=start, end_column=end))
            spans = halves
        yield from sorted(ready, key=lambda unit: unit.start_column)

    # ------------------------------------------------------------------------------------------- chunks

    def _cut(self, units: Sequence[_Unit]) -> None:
        """Add the chunks of the section: text in packs, lists by item."""
        if self._section.role == "tool":  # without a vector: the words of a few hundred calls would hide what was said
            for pack in _packed(units, self._limits):
                self._add(pack, [self._entry(pack)], Form.FIELD)
            return
        begin = bool(self._section.heading_path)
        heading, rest = units[:begin], units[begin:]
        groups = [  # a chunk has one origin
            group
            for _, run in groupby(rest, _by)
            for group in _groups(list(run), self._limits, always=self._note.is_remembered)
        ]
        follows = groups[0][0] if heading and groups and not groups[0][1] else ()
        if follows and (joined := _with_heading(heading[0], follows[0], self._limits)):
            groups[0] = [joined, *follows[1:]], False
        elif heading:
            form = Form.TEXT if heading[0].end_column else Form.HEADING
            self._add(heading, [self._entry(heading)], form)
        for group, is_list in groups:
            if not is_list:
                for pack in _packed(group, self._limits):
                    self._add_text(pack)
            elif self._note.is_remembered:
                self._add_log(group)
            else:
                self._add_reference_list(group)

    def _add_text(self, pack: Sequence[_Unit]) -> None:
        """Add a chunk of text, as a group if its parts count alone: lines of front matter, tasks, what is past."""
        items, is_head = pack, pack[-1].end <= self._note.head_lines
        if is_head and not pack[-1].end_column:
            items = [_Unit(line, line, 1) for line in range(pack[0].start, pack[-1].end + 1)]
        may_be_apart = 1 < len(items) <= MAX_ITEMS  # never a piece of a line, which would read the whole line
        texts = [self._text(item.start, item.end) for item in items] if may_be_apart else []
        if texts and (is_head or any(map(tasks_in, texts)) or any(map(_has_mark, items, texts))):
            self._add(items, [self._entry([item]) for item in items], Form.GROUP, texts)
        else:
            self._add(pack, [self._entry(pack)])

    def _add_log(self, items: Sequence[_Unit]) -> None:
        """Add a chunk for each item of a log; if several people speak in it, add windows too.

        A message has one speaker: its items with bold beginnings are points of an answer.
        """
        texts = [self._text(item.start, item.end) for item in items]
        speakers = ["" if self._section.role else speaker_of(text) for text in texts]
        windows = list(_windows(items, texts, self._limits)) if len({*speakers} - {""}) > 1 else []
        held = Counter(number for first, last in windows for number in range(first, last + 1))
        entries = [
            self._entry([item], speaker, held[number])
            for number, (item, speaker) in enumerate(zip(items, speakers, strict=True))
        ]
        for item, entry in zip(items, entries, strict=True):
            self._add([item], [entry])
        for first, last in windows:
            self._add(items[first : last + 1], entries[first : last + 1], Form.WINDOW)

    def _add_reference_list(self, items: Sequence[_Unit]) -> None:
        """Add a chunk for each group of a long list."""
        texts = [self._text(item.start, item.end) for item in items]
        entries = [self._entry([item]) for item in items]
        for first, last in _item_groups(items, texts, self._limits):
            self._add(items[first : last + 1], entries[first : last + 1], Form.GROUP, texts[first : last + 1])

    def _add(
        self, units: Sequence[_Unit], entries: Sequence[Entry], form: Form = Form.TEXT, item_words: Sequence[str] = ()
    ) -> None:
        first, last = units[0], units[-1]
        words = self._words(units)
        is_log = self._note.is_remembered and first.is_item
        passage = words if last.end_column else passage_text(words)
        if is_log:
            passage = said(passage).strip() or passage
        section, first_by = self._section, "" if self._section.role else _by(first)
        marks = (section.attributes.get(BY, ""), first_by)
        self._chunks.append(
            Chunk(
                ordinal=len(self._chunks),
                section=self._number,
                start_line=first.start,
                end_line=last.end,
                text=passage,
                words=words,
                heading_path=section.heading_path,
                role=section.role,
                entries=tuple(entries),
                start_column=first.start_column,
                end_column=last.end_column,
                form=form,
                item_words=tuple(item_words),
                opening=opening_of(words) if form in (Form.TEXT, Form.FIELD) else (),
                local_only=self._note.local_only,
                origin=origin_of(self._note.front_matter, section.role, marks, self._usual_origin),
            )
        )

    def _entry(self, units: Sequence[_Unit], speaker: str = "", window_count: int = 0) -> Entry:
        section = self._section
        first, last = units[0].start, units[-1].end
        heading = (section.start_line,) if section.heading_path else ()
        lines = dict.fromkeys((0, *heading, *range(first, last + 1)))
        tags = tuple(dict.fromkeys(name for line in lines for name in self._tags.get(line, ())))
        attributes = dict(section.attributes)
        for unit in units:
            attributes.update(unit.attributes or {})
            text = self._words([unit])
            attributes.update(tasks_in(text))
            under = section.heading_path[-1] if section.heading_path else ""
            attributes.update(attributes_in(text, under, may_have_status=self._may_have_status(unit)))
        time, *later = sorted({unit.time for unit in units if unit.time}) or [section.time]
        traits = Trait.ITEM if units[0].is_item else Trait(0)
        if self._note.is_remembered or section.role:  # a search needs traits only here, and they are slow to find
            traits |= traits_of(self._words(units))
        number, tokens = self._entries, sum(unit.tokens for unit in units)
        self._entries += 1
        by = speaker or self._speaker()
        return Entry(first, last, number, window_count, tokens, int(traits), time, attributes, tags, tuple(later), by)

    def _may_have_status(self, unit: _Unit) -> bool:
        """Tell whether a unit may be the status line of its note: a decision record has it near its beginning."""
        is_document = self._note.kind is Kind.NOTE and not self._section.role
        return is_document and unit.start <= self._note.head_lines + STATUS_LINES

    def _speaker(self) -> str:
        """Return the speaker of a message: the name of the thread's user or of the agent, otherwise the role."""
        role = self._section.role
        if role == "user":
            return str(self._note.front_matter.get("user") or "user").strip().lower()
        return role.removeprefix("agent:").lower()

    def _words(self, units: Sequence[_Unit]) -> str:
        """Return the text of neighbouring units, or of a single piece of a line."""
        text = self._text(units[0].start, units[-1].end)
        return text[units[0].start_column : units[-1].end_column] if units[-1].end_column else text

    def _text(self, first: int, last: int) -> str:
        """Return the lines `first`..`last` without the attribute braces at their ends."""
        lines, cuts = self._readable, self._note.cuts
        if not cuts:
            return "\n".join(lines[first - 1 : last])
        return "\n".join(lines[line - 1][: cuts.get(line)] for line in range(first, last + 1))

    def _count_blocks(self, blocks: Sequence[Block]) -> list[int]:
        return self._count(passage_text(self._text(block.start_line, block.end_line)) for block in blocks)

    def _count(self, texts: Iterable[str]) -> list[int]:
        """Return the token count of each text; for a text certainly too long, only the estimate by characters."""
        limit = self._limits.max_tokens
        counts: list[int] = []
        rest = iter(texts)
        while some := list(islice(rest, COUNTED_AT_ONCE)):
            min_counts = [len(text) // CHARS_PER_TOKEN for text in some]
            short_texts = [text for text, count in zip(some, min_counts, strict=True) if count <= limit]
            exact_counts = iter(self._count_tokens(short_texts))
            counts += [max(count, next(exact_counts)) if count <= limit else count for count in min_counts]
        return counts


def _field_lines(note: Note) -> Iterator[int]:
    """Yield the lines of front matter with words, except title, tags and aliases: each passage has those words.

    A thread's has only numbers and names of programs.
    """
    if note.kind == Kind.THREAD:
        return
    is_of_note = False
    for number, line in enumerate(note.lines[: note.head_lines][1:-1], 2):
        if line[:1].strip(" \t-]}"):  # no blank, no item and no end of the value above
            is_of_note = _OF_NOTE.match(line) is not None
        if not is_of_note and any(map(str.isalnum, line)):
            yield number


def readable(note: Note) -> tuple[str, ...]:
    """Return the lines of a note without what is not text: removed, or replaced by blanks.

    That is base64, comments, git's conflict markers, lines of attributes alone and the names of blocks (`^id`). A
    conversation has no comments: a `%%` in one message would hide the messages up to the next one.
    """
    lines = _without_blobs(note.lines)
    kept = lines if note.kind is Kind.THREAD else without_comments(lines, fill=" ")  # columns stay as they are
    is_conflicted = conflict_marks.is_conflicted(lines)
    for number, line in outside_code(lines):
        if _MAY_BE_MARK.match(line) and _is_mark(line, is_conflicted=is_conflicted):
            kept[number - 1] = ""
        elif "^" in line:
            kept[number - 1] = _BLOCK_ID.sub("", kept[number - 1])
    return tuple(kept)


def _is_mark(line: str, *, is_conflicted: bool) -> bool:
    """Tell whether a line of attributes or like one of git's is no text; `=======` else underlines a heading."""
    if line[0] == "=":
        return is_conflicted
    return line[0] in "<>|" or cut_attributes(line)[0] == 0


def _without_blobs(lines: tuple[str, ...]) -> list[str]:
    """Return the lines of a note, empty where they hold nothing but base64: a picture, a drawing, a key."""
    kept = list(lines)
    is_inside = False
    for number, line in enumerate(lines):
        is_inside = _is_base64(line) or (is_inside and (not line.strip() or _LAST_OF_BLOB.fullmatch(line) is not None))
        if is_inside:
            kept[number] = ""
    return kept


def _is_base64(line: str) -> bool:
    """Tell whether a line is base64 apart from a tenth; letters of one case, digits alone and paths are not."""
    if len(line) < MIN_BLOB_CHARS:
        return False
    blob = max(line.split(), key=len, default="").rpartition(",")[2].rstrip(")>'\"")
    if len(blob) < max(MIN_BLOB_CHARS, 0.9 * len(line.strip())) or not _BASE64.fullmatch(blob):
        return False
    return blob.lower() != blob != blob.upper() and not blob.isalpha() and blob.count("/") * 15 <= len(blob)


def _with_heading(heading: _Unit, first: _Unit, limits: ChunkLimits) -> _Unit | None:
    """Return a section's first unit with the heading joined to it, None unless both fit together."""
    tokens = heading.tokens + first.tokens
    if heading.end_column or first.end_column or first.is_after_gap or tokens > limits.max_tokens:
        return None
    return replace(first, start=heading.start, tokens=tokens)


def _groups(units: Sequence[_Unit], limits: ChunkLimits, *, always: bool) -> Iterator[tuple[Sequence[_Unit], bool]]:
    """Yield runs of units, each with whether it is a list of separate entries: a long list, or with `always` any."""
    text: list[_Unit] = []
    for is_small, run in groupby(units, lambda unit: unit.is_item and unit.tokens <= limits.small_tokens):
        items = list(run)
        if is_small and (always or sum(unit.tokens for unit in items) > limits.run_tokens):
            if text:
                yield text, False
            yield items, True
            text = []
        else:
            text += items
    if text:
        yield text, False


def _windows(units: Sequence[_Unit], texts: Sequence[str], limits: ChunkLimits) -> Iterator[tuple[int, int]]:
    """Yield the first and last unit of each window over a run, until a window reaches the end.

    Each window begins at the unit with the lowest digest among those where it may begin.
    """
    digests = [_digest(text) for text in texts]
    first = 0
    while True:
        last, total = first, units[first].tokens
        while last + 1 < min(len(units), first + limits.window_entries):
            if total + units[last + 1].tokens > limits.max_tokens:
                break
            last += 1
            total += units[last].tokens
        if last > first:
            yield first, last
        if last + 1 >= len(units):
            return
        farthest = min(
            first + 2 * limits.window_stride - 1, last + 1, len(units) - 2
        )  # do not leave the last unit alone
        first = min(range(first + 1, max(first + 1, farthest) + 1), key=lambda number: (digests[number], number))


def _item_groups(units: Sequence[_Unit], texts: Sequence[str], limits: ChunkLimits) -> Iterator[tuple[int, int]]:
    """Yield the first and last unit of each group of a list.

    The next group begins at the unit with the lowest digest among those where it may begin.
    """
    digests = [_digest(text) for text in texts]
    min_tokens = GROUP_SHARE * limits.max_tokens
    first = 0
    while first < len(units):
        last, total = first, 0
        ends = []
        for number in range(first, min(len(units), first + MAX_ITEMS)):
            total += units[number].tokens
            if number > first and total > limits.max_tokens:
                break
            last = number
            if total >= min_tokens:
                ends.append(number)
        if last + 1 < len(units) and ends:
            last = min(ends, key=lambda number: (digests[number + 1], number))
        yield first, last
        first = last + 1


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8]


def _packed(units: Sequence[_Unit], limits: ChunkLimits) -> list[list[_Unit]]:
    """Return the units in as few runs as fit into chunks, of even size. A piece of a line is a run by itself."""
    fewest = _filled(units, limits.max_tokens)
    low, high = max((unit.tokens for unit in units), default=0), limits.max_tokens
    while len(fewest) > 1 and low < high:
        middle = (low + high) // 2
        runs = _filled(units, middle)
        if len(runs) == len(fewest):
            fewest, high = runs, middle
        else:
            low = middle + 1
    return fewest


def _filled(units: Sequence[_Unit], max_tokens: int) -> list[list[_Unit]]:
    """Return the units in runs of at most `max_tokens` tokens, filling each run before the next."""
    runs: list[list[_Unit]] = []
    total = 0
    for unit in units:
        joins = runs and not unit.end_column and not runs[-1][-1].end_column and not unit.is_after_gap
        if joins and total + unit.tokens <= max_tokens:
            runs[-1].append(unit)
            total += unit.tokens
        else:
            runs.append([unit])
            total = unit.tokens
    return runs


def _slices(text: str, start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield consecutive spans of at most `size` characters that end after a space if one is near."""
    size = max(size, 1)
    while start < end:
        stop = min(start + size, end)
        if stop < end:
            space = text.rfind(" ", start + size // 2, stop)
            stop = space + 1 if space > 0 else stop
        yield start, stop
        start = stop
