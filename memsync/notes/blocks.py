"""Find the lines of each heading, paragraph, list item, fence and table row of a Markdown text.

Only markdown-it's block parser runs here; `inline.py` parses only the paragraphs that may have tags or links. Line
numbers count from 1, as everywhere outside markdown-it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from markdown_it import MarkdownIt
from markdown_it.parser_block import ParserBlock
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token
from mdit_py_plugins.footnote import footnote_plugin

from memsync.model.note import Block
from memsync.notes.agent_forms import in_comments
from memsync.notes.attributes import cut_attributes
from memsync.notes.dates import leading_time
from memsync.notes.entry_text import ITEM_MARKER
from memsync.notes.inline import BoundedInline, add_inline_rules

MAX_TOKENS = 500_000
"""Give up on a file after this many markdown-it tokens; 2 MB of real notes take 170,000."""

MAX_CHECKS = 4_000_000
"""Give up on a file after trying this many rules: long, deeply nested quotes do. 2 MB of real notes take 800,000."""


_parsers = threading.local()


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading that is not inside a list or quote; `text` is its source without attributes."""

    level: int
    text: str
    start_line: int
    end_line: int
    attributes: Mapping[str, str]


@dataclass(slots=True)
class BlockTree:
    """The top-level blocks and headings of a body, in file order. Each non-blank line is in exactly one of them."""

    parts: list[Heading | Block]
    tokens: list[Token]
    env: dict[str, Any]
    cuts: dict[int, int] = field(default_factory=dict)


CODE_INDENT = 4


class _TooInvolvedError(Exception):
    """Parsing the file takes too much time or memory."""


class _BoundedState(StateBlock):
    """The state of markdown-it's block parser, with limits on the tokens it makes and the rules it tries.

    The limits count work, not time, so that equal bytes always give an equal note.
    """

    checks = 0

    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        if len(self.tokens) > MAX_TOKENS:
            raise _TooInvolvedError
        return super().push(ttype, tag, nesting)

    def is_code_block(self, line: int) -> bool:
        """Count a tried rule: nearly every rule calls this first. For speed it does not call `super()`."""
        self.checks += 1
        if self.checks > MAX_CHECKS:
            raise _TooInvolvedError
        return self._code_enabled and self.sCount[line] - self.blkIndent >= CODE_INDENT


class _BoundedBlocks(ParserBlock):
    """markdown-it's block parser, changed to end a list at its end even if it is nested too deeply to parse.

    markdown-it itself would add the rest of the file to the innermost item, so the headings after it, such as those of
    messages, would be lost.
    """

    def tokenize(self, state: StateBlock, startLine: int, endLine: int) -> None:  # noqa: N803 (because markdown-it names them so)
        if state.level >= state.md.options.maxNesting:
            following = range(startLine + 1, endLine)
            outside = (line for line in following if not state.isEmpty(line) and state.sCount[line] < state.blkIndent)
            endLine = next(outside, endLine)  # noqa: N806 (because it is the parameter)
        super().tokenize(state, startLine, endLine)


def new_parser() -> MarkdownIt:
    """Return a CommonMark parser with tables, footnotes, wiki links and tags, whose work is bounded."""
    markdown = MarkdownIt("commonmark")
    markdown.block, markdown.inline = _BoundedBlocks(), BoundedInline()
    markdown.configure("commonmark").enable("table").use(footnote_plugin)
    add_inline_rules(markdown)
    return markdown


def thread_parser() -> MarkdownIt:
    """Return this thread's parser. It is kept, because building one takes longer than parsing a short note."""
    if not hasattr(_parsers, "markdown"):
        _parsers.markdown = new_parser()
    parser: MarkdownIt = _parsers.markdown
    return parser


def parse_blocks(lines: Sequence[str], first_line: int = 1, parser: MarkdownIt | None = None) -> BlockTree | None:
    """Parse `lines[first_line - 1:]`, where `lines` is the whole file, by `thread_parser` or another of `new_parser`.

    Front matter is replaced by blank lines, so that markdown-it's line numbers equal the file's. Returns None if
    parsing takes too much work or markdown-it fails.
    """
    source = "\n" * (first_line - 1) + "\n".join(lines[first_line - 1 :])
    markdown, tree = parser or thread_parser(), BlockTree([], [], {})
    state = _BoundedState(source, markdown, tree.env, tree.tokens)
    try:
        markdown.block.tokenize(state, state.line, state.lineMax)
    except (_TooInvolvedError, IndexError):  # markdown-it raises IndexError on an HTML block cut off by a quoted list
        return None
    reader = _Reader(lines, tree)
    tree.parts = list(_with_uncovered(reader.parts(), lines, first_line))
    return tree


class _Reader:
    """Builds the blocks in one pass over the flat token list, and records in the tree where attributes begin."""

    def __init__(self, lines: Sequence[str], tree: BlockTree) -> None:
        self._lines = lines
        self._tree = tree
        self._tokens = tree.tokens

    def parts(self) -> list[Heading | Block]:
        parts: list[Heading | Block] = []
        for index, end in self._siblings(0, len(self._tokens)):
            token = self._tokens[index]
            if token.map is None:
                continue
            if token.type == "heading_open":
                parts.append(self._heading(index))
            elif token.type in ("bullet_list_open", "ordered_list_open"):
                parts += self._items(index + 1, end - 1)
            else:
                parts.append(self._block(index, end))
        return parts

    def _siblings(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield (first token, one past the last) of each element between two token positions."""
        index = start
        while index < end:
            depth: int = self._tokens[index].nesting
            last = index
            while depth > 0:
                last += 1
                depth += self._tokens[last].nesting
            yield index, last + 1
            index = last + 1

    def _span(self, token: Token) -> tuple[int, int]:
        """Return the first and last line of a token, without the blank lines that markdown-it adds to lists."""
        first, end = token.map or [0, 0]
        while end > first + 1 and not self._lines[end - 1].strip():
            end -= 1
        return first + 1, end

    def _heading(self, index: int) -> Heading:
        token = self._tokens[index]
        first, last = self._span(token)
        text = self._tokens[index + 1].content
        attributes = self._cut(first if token.markup.startswith("#") else max(first, last - 1))
        kept, _ = cut_attributes(text)
        return Heading(int(token.tag[1]), text[:kept], first, last, attributes)

    def _items(self, start: int, end: int) -> list[Block]:
        return [self._item(index, close) for index, close in self._siblings(start, end) if self._tokens[index].map]

    def _item(self, index: int, end: int) -> Block:
        first, last = self._span(self._tokens[index])
        children = self._children(index + 1, end - 1)
        paragraph = self._tokens[index + 1]
        attributes = self._cut(paragraph.map[1]) if paragraph.type == "paragraph_open" and paragraph.map else {}
        text = self._lines[first - 1]
        marker = ITEM_MARKER.match(text)
        time = leading_time(text[marker.end() :]) if marker else ""
        return Block(first, last, True, _partition(children, first, last), time, attributes)

    def _children(self, start: int, end: int) -> list[Block]:
        children: list[Block] = []
        for index, close in self._siblings(start, end):
            token = self._tokens[index]
            if token.type in ("bullet_list_open", "ordered_list_open"):
                children += self._items(index + 1, close - 1)
            elif token.map is not None:
                children.append(self._block(index, close))
        return children

    def _block(self, index: int, end: int) -> Block:
        token = self._tokens[index]
        first, last = self._span(token)
        children: list[Block] = []
        if token.type == "table_open":
            rows = (row for row in self._tokens[index:end] if row.type == "tr_open" and row.map)
            children = [Block(*self._span(row)) for row in rows]
        elif token.nesting == 1 and token.type not in ("paragraph_open", "heading_open"):
            children = self._children(index + 1, end - 1)
        return Block(first, last, children=_partition(children, first, last))

    def _cut(self, line: int) -> Mapping[str, str]:
        """Return the attributes at the end of `line`, and record where they begin."""
        column, attributes = cut_attributes(self._lines[line - 1])
        if attributes:
            self._tree.cuts[line] = column
        return attributes or in_comments(self._lines[line - 1])


def _partition(children: Sequence[Block], first: int, last: int) -> tuple[Block, ...]:
    """Stretch children over all their parent's lines, so that each marker, delimiter and definition is in a child."""
    if not children:
        return ()
    starts = [first] + [max(child.start_line, first) for child in children[1:]]
    ends = [max(start, following - 1) for start, following in pairwise(starts)] + [last]
    return tuple(_stretched(*each) for each in zip(children, starts, ends, strict=True))


def _stretched(block: Block, first: int, last: int) -> Block:
    if (block.start_line, block.end_line) == (first, last):
        return block
    return Block(first, last, block.entry, _partition(block.children, first, last), block.time, block.attributes)


def _with_uncovered(
    parts: Sequence[Heading | Block], lines: Sequence[str], first_line: int
) -> Iterator[Heading | Block]:
    """Yield `parts` and the non-blank lines between them, such as link definitions."""
    next_line = first_line
    for part in parts:
        yield from paragraphs(lines, next_line, part.start_line - 1)
        yield part
        next_line = max(next_line, part.end_line + 1)
    yield from paragraphs(lines, next_line, len(lines))


def paragraphs(lines: Sequence[str], first: int, last: int) -> Iterator[Block]:
    """Yield the runs of non-blank lines between two lines."""
    start = 0
    for number in range(first, last + 1):
        if lines[number - 1].strip():
            start = start or number
        elif start:
            yield Block(start, number - 1)
            start = 0
    if start:
        yield Block(start, last)
