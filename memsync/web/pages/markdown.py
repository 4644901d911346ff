"""Render lines of a note as HTML: no HTML of the note, only images of the root, and links that are safe to follow."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from itertools import accumulate
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

from memsync.model.text import count, visible
from memsync.notes.blocks import new_parser, parse_blocks
from memsync.notes.entry_text import without_comments
from memsync.notes.inline import parse_inline, plain_text, target_of, wiki_parts
from memsync.web.pages.notation import CALLOUT, TASK, add_notation, with_formulas
from memsync.web.pages.view import FILES, link

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
_SIZED = re.compile(r"(?:(.*)\|)?\s*(\d{1,4})(?:x\d{1,4})?\s*", re.DOTALL)
"""The words of an image, and its width, as in `![words|300](picture.png)`."""


def rendered(
    lines: Sequence[str], first: int, last: int, marked: range, resolve: Resolve | None, *, has_ids: bool = True
) -> Markup:
    """Return lines `first` to `last` as HTML. Each block has its first line as id (`L12`), and a class if it is marked.

    Without `resolve` the page is read where there is no memory, and links to no note and no tag. Without `has_ids` the
    blocks have none, so that a page can show several notes. Text that takes too long to parse comes as it is. The HTML
    of a short text can be large: see MAX_PART_CHARS.
    """
    parser = _parser()
    shown = [*lines[: first - 1], *with_formulas(without_comments(lines[first - 1 : last]))]
    tree = parse_blocks([visible(line) for line in shown], first, parser)
    if tree is None:
        return plain(lines, first, last, marked)
    taken = set[int]() if has_ids else range(last)
    for position, token in enumerate(tree.tokens):
        if "style" in token.attrs:  # of a cell of a table, which the page's rules would block
            token.attrs["class"] = str(token.attrs.pop("style")).rpartition(":")[2]
        if token.type == "inline":
            opening = _opening(tree.tokens, position, partial(_inside, parser, env=tree.env))
            children = _inside(parser, token.content, tree.env)
            token.children = [*opening, _place(token, marked, taken), *children, _END]
            if has_ids and tree.tokens[position - 2].type == "footnote_reference_open":
                tree.env["^" + tree.tokens[position - 2].meta["label"]] = token.children[0].attrs.get("id")
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
    tree = parse_blocks(lines, first, _parser())
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
    add_notation(parser)
    parser.options["html"] = False
    return parser


def _inside(parser: MarkdownIt, text: str, env: dict[str, Any]) -> list[Token]:
    """Return the tokens of a paragraph; one of plain text if parsing takes too long."""
    found = parse_inline(parser, text, env)
    return [Token("text", "", 0, content=text)] if found is None else found


def _opening(tokens: Sequence[Token], position: int, inside: Callable[[str], list[Token]]) -> Sequence[Token]:
    """Cut the box of a task, or the first line of a callout, from the paragraph that begins an item or a quote.

    Return what to show instead. The quote becomes a box; one that folds has a title to click.
    """
    token, around = tokens[position], tokens[max(position - 2, 0)]
    if around.type == "list_item_open" and (task := TASK.match(token.content)):
        around.attrs["class"] = "task"
        token.content = token.content[task.end() :]
        state = {"aria-label": "open"} if task[1] == " " else {"aria-label": "done", "checked": ""}
        return [Token("task", "input", 0, attrs={"type": "checkbox", "disabled": "", **state})]
    if around.type == "blockquote_open" and (callout := CALLOUT.match(token.content)):
        kind, fold, title = callout.groups()
        later = (tokens[number] for number in range(position, len(tokens)))
        end = next(token for token in later if (token.type, token.level) == ("blockquote_close", around.level))
        around.tag = end.tag = "details" if fold else "div"
        around.attrs = {"class": "callout", "data-kind": kind.lower(), **({"open": ""} if fold == "+" else {})}
        tokens[position - 1].hidden = tokens[position + 1].hidden = True
        token.content = token.content[callout.end() :]
        tag, said = "summary" if fold else "p", {"class": "title", **({"data-kind": kind} if title else {})}
        shown = inside(title or kind.replace("-", " ").capitalize())
        return [Token("title_open", tag, 1, attrs=said), *shown, Token("title_close", tag, -1)]
    return ()


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

    text_special = RendererHTML.text
    """A character that a backslash or an entity stands for."""

    def embed(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        """Render an embedded picture, or an embedded note as a link."""
        target, anchor, label = wiki_parts(tokens[idx].content)
        url = self._resolve(target, anchor)
        if url.startswith(FILES):
            return _picture(url, label, target)
        start, end = _to_note(url, target)
        return f'<span class="embed">{start}{escape(label.replace("#", " › "))}{end}</span>'

    def fence(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        """Render code, with the name of its language."""
        place = tokens[idx].meta["place"]
        language = "".join(tokens[idx].info.split()[:1])[:30]
        named = f' data-language="{escape(language)}"' if language else ""
        start = f"<pre{self.renderAttrs(place)}{named}>{_inner(place)}"
        return f"{start}<code>{escape(tokens[idx].content)}</code></pre>\n"

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
        """Render a picture of the root; of any other, which is never loaded, show the words and the target."""
        words, source = plain_text(tokens[idx].children or ()), str(tokens[idx].attrGet("src") or "")
        url = "" if source.lower().startswith(_SAFE_SCHEMES) else self._resolve(*target_of(source))
        if url.startswith(FILES):
            return _picture(url, words, words)
        return f'<span class="image">{escape(words)} ({escape(source)})</span>'

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
            place, label = env.get("^" + meta["label"]), escape(meta["label"])
            return f'<sup><a href="#{place}">{label}</a></sup>' if place else f"<sup>{label}</sup>"
        return f"<sup>({escape(env['footnotes']['list'][meta['id']].get('content', ''))})</sup>"

    def footnote_reference_open(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        """Begin a footnote."""
        return f'<div class="footnote"><sup>{escape(tokens[idx].meta.get("label") or "")}</sup>'

    def footnote_reference_close(self, *_: Any) -> str:
        """End it."""
        return "</div>\n"


def _inner(place: Token) -> str:
    return f'<i id="L{place.meta["inner"]}"></i>' if place.meta.get("inner") else ""


def _picture(url: str, words: str, name: str) -> str:
    """Return a picture; its words may end in its width, and are its `name` without any."""
    sized = _SIZED.fullmatch(words)
    words, width = (sized[1] or name, f' width="{sized[2]}"') if sized else (words, "")
    return f'<img src="{escape(url)}" alt="{escape(words)}" loading="lazy"{width}>'


def _to_note(url: str, target: str) -> tuple[str, str]:
    """Return what goes before and after the words of a link to a note."""
    if url:
        return f'<a href="{escape(url)}">', "</a>"
    return f'<span class="dead" title="{escape(target)}">', "</span>"
