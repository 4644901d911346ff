"""Render lines of a note as HTML: no HTML of the note, no image, and only links that are safe to follow."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache
from itertools import accumulate
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

from memsync.model.text import count, visible
from memsync.notes.blocks import new_parser, parse_blocks
from memsync.notes.inline import parse_inline, target_of, wiki_parts
from memsync.web.pages.view import link

Resolve = Callable[[str, str], str]
"""Returns the URL for a link's target and anchor in a note; empty if it leads nowhere."""
PART_CHARS = 40_000
"""HTML of a part of a long note, about; a page must stay under 100 kB."""
MAX_PART_CHARS = 60_000
"""If the HTML of a part is larger, because of many links for example, the text is shown as it is."""
MAX_LINE_CHARS = 10_000
"""The rest of a longer line is left out."""
_LINE_OVERHEAD = 40
_SAFE_SCHEMES = ("http://", "https://", "mailto:")
_TASKS = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}


def rendered(
    lines: Sequence[str], first: int, last: int, marked: range, resolve: Resolve | None, *, has_ids: bool = True
) -> Markup:
    """Return lines `first` to `last` as HTML. Each block has its first line as id (`L12`), and a class if it is marked.

    Without `resolve` the page is read where there is no memory, and links to no note and no tag. Without `has_ids` the
    blocks have none, so that a page can show several notes. Text that takes too long to parse comes as it is. The HTML
    of a short text can be large: see MAX_PART_CHARS.
    """
    parser = _parser()
    tree = parse_blocks([visible(line) for line in lines[:last]], first, parser)
    if tree is None:
        return plain(lines, first, last, marked)
    taken = set[int]() if has_ids else range(last)
    for position, token in enumerate(tree.tokens):
        if "style" in token.attrs:  # of a cell of a table, which the page's rules would block
            token.attrs["class"] = str(token.attrs.pop("style")).rpartition(":")[2]
        if token.type == "inline":
            is_item = position > 1 and tree.tokens[position - 2].type == "list_item_open"
            if is_item and token.content[:4] in _TASKS:
                token.content = _TASKS[token.content[:4]] + token.content[4:]
            children = parse_inline(parser, token.content, tree.env)
            text = Token("text", "", 0, content=token.content)
            token.children = [_place(token, marked, taken), *([text] if children is None else children), _END]
        elif token.type in ("fence", "code_block"):
            token.meta["place"] = _place(token, marked, taken)
    html = _Html(resolve).render(tree.tokens, parser.options, tree.env)
    return Markup(visible(html))  # noqa: S704 (because _Html escapes each text)


def plain(lines: Sequence[str], first: int, last: int, marked: range) -> Markup:
    """Return lines as they are, each with its number as id."""
    shown = (
        Markup('<span id="L{}"{}>{}</span>\n').format(
            number, Markup(' class="hit"') if number in marked else "", _cut(lines[number - 1])
        )
        for number in range(first, last + 1)
    )
    return Markup('<pre class="plain">{}</pre>').format(Markup("").join(shown))


def breaks_in(lines: Sequence[str], first: int) -> set[int]:
    """Return the lines at which a note may be cut: where a top-level block or an item of a list begins."""
    tree = parse_blocks(lines, first)
    tokens = tree.tokens if tree else ()
    return {
        token.map[0] + 1
        for token in tokens
        if token.map and (token.level == 0 or (token.level == 1 and token.type == "list_item_open"))
    }


def part_starts(lines: Sequence[str], first: int, breaks: Collection[int]) -> list[int]:
    """Return the first line of each part of a note: PART_CHARS of HTML each, cut at one of `breaks` if there is one."""
    sizes = [0, *accumulate(len(escape(line[:MAX_LINE_CHARS])) + _LINE_OVERHEAD for line in lines)]
    starts, best = [first], first
    for line in range(first + 1, len(lines) + 1):
        if line in breaks:
            best = line
        for start in (best, line):
            if start > starts[-1] and sizes[line] - sizes[starts[-1] - 1] > PART_CHARS:
                starts.append(start)
    return starts


def _cut(line: str) -> str:
    rest = len(line) - MAX_LINE_CHARS
    return visible(line) if rest <= 0 else f"{visible(line[:MAX_LINE_CHARS])} … ({count(rest, 'more character')})"


@cache
def _parser() -> MarkdownIt:
    parser = new_parser().enable("strikethrough")
    parser.options["html"] = False
    return parser


_END = Token("place_end", "", 0)


def _place(token: Token, marked: range, taken: set[int] | range) -> Token:
    """Return the token that gives a block its place: an id, unless another block begins on its line, and the mark."""
    start, end = token.map or [0, 0]
    place = Token("place", "", 0)
    place.attrs = {} if start in taken else {"id": f"L{start + 1}"}
    if isinstance(taken, set):
        taken.add(start)
    if start < marked.stop - 1 and marked.start - 1 < end:
        place.attrs["class"] = "hit"
        # A mark may begin within a block; its line then needs an id as well, for links to it.
        place.meta["inner"] = marked.start if start + 1 < marked.start else 0
    return place


class _Html(RendererHTML):
    """The HTML of tokens. Its methods are rules: each is named after the type of a token."""

    def __init__(self, resolve: Resolve | None) -> None:
        super().__init__()
        self._resolve = resolve or (lambda target, anchor: "")
        self._has_server = resolve is not None
        self._open: list[str] = []

    def place(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        """Begin what an inline token holds."""
        return f"<span{self.renderAttrs(tokens[idx])}>{_inner(tokens[idx])}"

    def place_end(self, *_: Any) -> str:
        """End it."""
        return "</span>"

    def fence(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        """Render code."""
        place = tokens[idx].meta["place"]
        return f"<pre{self.renderAttrs(place)}>{_inner(place)}<code>{escape(tokens[idx].content)}</code></pre>\n"

    def code_block(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        """Render code that is indented."""
        return self.fence(tokens, idx)

    def table_open(self, *_: Any) -> str:
        """Begin a table, which scrolls by itself if it is too wide."""
        return '<div class="wide" tabindex="0" role="region" aria-label="Table"><table>\n'

    def table_close(self, *_: Any) -> str:
        """End it."""
        return "</table></div>\n"

    def image(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        """Show the words and the target of an image, which is never loaded."""
        token = tokens[idx]
        return f'<span class="image">{escape(token.content)} ({escape(str(token.attrGet("src") or ""))})</span>'

    def link_open(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        """Begin a link to a note or to a web page; any other is text."""
        href = str(tokens[idx].attrGet("href") or "")
        if href.lower().startswith(_SAFE_SCHEMES):
            self._open.append("</a>")
            return f'<a href="{escape(href)}" rel="noopener noreferrer">'
        start, end = _to_note(self._resolve(*target_of(href)), href)
        self._open.append(end)
        return start

    def link_close(self, *_: Any) -> str:
        """End it."""
        return self._open.pop()

    def wiki_link(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        """Render a link by name."""
        target, anchor, label = wiki_parts(tokens[idx].content)
        start, end = _to_note(self._resolve(target, anchor), target)
        return f"{start}{escape(label)}{end}"

    def tag(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        """Render a tag as a link to what has it."""
        name = tokens[idx].content
        if not self._has_server:
            return f'<span class="tag">#{escape(name)}</span>'
        return f'<a class="tag" href="{escape(link("/", q=f"tag:{name}"))}">#{escape(name)}</a>'

    def footnote_ref(self, tokens: Sequence[Token], idx: int, _: Any, env: Any) -> str:
        """Render the mark of a footnote; the text of one that is written at its mark follows it."""
        meta = tokens[idx].meta
        if meta.get("label"):
            return f"<sup>{escape(meta['label'])}</sup>"
        return f"<sup>({escape(env['footnotes']['list'][meta['id']].get('content', ''))})</sup>"

    def footnote_reference_open(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        """Begin a footnote."""
        return f'<div class="footnote"><sup>{escape(tokens[idx].meta.get("label") or "")}</sup>'

    def footnote_reference_close(self, *_: Any) -> str:
        """End it."""
        return "</div>\n"


def _inner(place: Token) -> str:
    return f'<i id="L{place.meta["inner"]}"></i>' if place.meta.get("inner") else ""


def _to_note(url: str, target: str) -> tuple[str, str]:
    """Return what goes before and after the words of a link to a note."""
    if url:
        return f'<a href="{escape(url)}">', "</a>"
    return f'<span class="dead" title="{escape(target)}">', "</span>"
