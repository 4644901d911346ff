"""Find `#tags`, `[[wiki links]]`, Markdown links and images in paragraphs, but not in code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_inline import StateInline, autolink, image, link
from markdown_it.token import Token

from memsync.model.note import Link, Tag

MAX_INLINE_CHARS = 20_000
"""Longer paragraphs are not searched for tags and links: inline parsing is not linear in the worst case."""

MAX_STEPS_PER_CHAR = 1
"""Give up on a paragraph after this many look-ahead steps per character; most paragraphs take under half."""

_MIN_STEPS = 100

_STEPS_LEFT = "steps_left"
_TAG = re.compile(r"#(?=[\w/-]*[^\W\d_])(\w[\w/-]*)")
_MAY_HOLD_TAG = re.compile(r"(?:^|[\s(\[{,;'\"])#\w")
_HEAD_LINK = re.compile(r"\[\[(?=\s*[^\s\]])([^\[\]\n]{1,500})\]\]")
_SHELL = re.compile(r"""(?x) .*"[$] | :[a-z]+:$ | "[^"\s]*"$
    | \s (?=.*\s$) (?: .*["$] | (?:.*\s)? (?:-[A-Za-z]{1,2}|!|==?|!=|=~|<|>|&&) \s)""")
"""Between double brackets: a test of a shell, a class of characters or an index of a program, not a note's name."""
_BEFORE_TAG = " \t\n([{,;'\""


@dataclass(slots=True)
class InlineFinds:
    """Tags and links in file order, and the first line of each skipped paragraph."""

    tags: list[Tag] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)


class _TooManyStepsError(Exception):
    """Parsing the paragraph takes too many steps."""


class BoundedInline(ParserInline):
    """markdown-it's inline parser, with a limit on look-ahead steps: `[[[[` needs quadratically many."""

    def skipToken(self, state: StateInline) -> None:  # noqa: N802 (because markdown-it names it so)
        """Take one step. Raises _TooManyStepsError after too many."""
        state.env[_STEPS_LEFT] -= 1
        if state.env[_STEPS_LEFT] < 0:
            raise _TooManyStepsError
        super().skipToken(state)


def add_inline_rules(markdown: MarkdownIt) -> None:
    """Add wiki links and tags to `markdown`, each as its own token, and record the offset of every link."""
    ruler = markdown.inline.ruler
    ruler.before("link", "wiki_link", _placed(_wiki_link))
    ruler.before("link", "tag", _placed(_tag))
    ruler.at("link", _placed(link))
    ruler.at("image", _placed(image))
    ruler.at("autolink", _placed(autolink))


def find_inline(markdown: MarkdownIt, blocks: Sequence[Token], env: dict[str, Any]) -> InlineFinds:
    """Return the tags and links of all `inline` tokens in `blocks`.

    Tags in a top-level paragraph of nothing but tags belong to the whole note (line 0). Others belong to their line.
    """
    finds = InlineFinds()
    for index, token in enumerate(blocks):
        if token.type == "inline" and token.map and _may_hold(token.content, env):
            children = parse_inline(markdown, token.content, env)
            if children is None:
                finds.skipped.append(token.map[0] + 1)
                continue
            only_tags = all(child.type in ("tag", "softbreak") or not child.content.strip() for child in children)
            is_text = token.level == 1 and blocks[index - 1].type == "paragraph_open"
            tags = [Tag(child.content, _line(child, token)) for child in children if child.type == "tag"]
            finds.tags += [Tag(tag.name, 0) for tag in tags] if only_tags and is_text else tags
            finds.links += _links(children, token)
    return finds


def tags_in(line: str) -> Iterator[tuple[int, int, str]]:
    """Yield (start column, end column, name) of each tag on a line, also if it is in code."""
    for match in _TAG.finditer(line):
        if match.start() == 0 or line[match.start() - 1] in _BEFORE_TAG:
            yield match.start(), match.end(), match[1].rstrip("/-")


def links_in_head(lines: Sequence[str]) -> list[Link]:
    """Return the wiki links in the lines of front matter, which begin with line 1."""
    found = ((match[1], number) for number, line in enumerate(lines, 1) for match in _HEAD_LINK.finditer(line))
    return [Link(*wiki_parts(content), number, wiki=True) for content, number in found]


def parse_inline(markdown: MarkdownIt, content: str, env: dict[str, Any]) -> list[Token] | None:
    """Return the inline tokens of one paragraph or heading, or None if that takes too many steps.

    The limit counts steps, not time, so that equal text always gives an equal answer.
    """
    if len(content) > MAX_INLINE_CHARS:
        return None
    tokens: list[Token] = []
    env[_STEPS_LEFT] = max(_MIN_STEPS, MAX_STEPS_PER_CHAR * len(content))
    try:
        markdown.inline.parse(content, markdown, env, tokens)
    except _TooManyStepsError:
        return None
    return tokens


def plain_text(tokens: Iterable[Token]) -> str:
    """Return the visible text of inline tokens, without markup."""
    parts = []
    for token in tokens:
        if token.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif token.type == "tag":
            parts.append(f"#{token.content}")
        elif token.type == "wiki_link":
            parts.append(wiki_parts(token.content)[2])
        elif token.type != "html_inline":
            parts.append(token.content)
    return " ".join("".join(parts).split())


def _may_hold(content: str, env: dict[str, Any]) -> bool:
    may_hold_link = "[" in content and ("](" in content or "[[" in content or env.get("references"))
    return bool(may_hold_link) or _holds_tag(content)


def _holds_tag(content: str) -> bool:
    return "#" in content and _MAY_HOLD_TAG.search(content) is not None


def _line(child: Token, paragraph: Token) -> int:
    return (paragraph.map or [0])[0] + 1 + paragraph.content.count("\n", 0, child.meta["start"])


def _links(children: Sequence[Token], paragraph: Token) -> list[Link]:
    links = []
    for index, child in enumerate(children):
        if child.type == "wiki_link":
            links.append(Link(*wiki_parts(child.content), _line(child, paragraph), wiki=True))
        elif child.type == "link_open":
            inside = takewhile(lambda token: token.type != "link_close", children[index + 1 :])
            url = str(child.attrGet("href") or "")
            links.append(Link(*target_of(url), plain_text(inside), _line(child, paragraph), wiki=False))
        elif child.type == "image":
            url = str(child.attrGet("src") or "")
            links.append(Link(*target_of(url), child.content, _line(child, paragraph), wiki=False))
    return links


def target_of(url: str) -> tuple[str, str]:
    """Return a link's target and anchor as text; NUL, which databases do not store, becomes U+FFFD."""
    target, _, anchor = url.replace("\0", "\ufffd").partition("#")
    return unquote(target).replace("\0", "\ufffd"), unquote(anchor).replace("\0", "\ufffd")


def wiki_parts(content: str) -> tuple[str, str, str]:
    """Return the target, the anchor and the label of what is between the brackets of a wiki link."""
    place, _, label = content.partition("|")
    target, _, anchor = place.partition("#")
    return target.strip(), anchor.strip(), label.strip() or place.strip()


def _placed(rule: Callable[[StateInline, bool], bool]) -> Callable[[StateInline, bool], bool]:
    """Return `rule`, changed to record in each token the offset at which it begins.

    Tokens cannot give the line: line breaks inside code, titles and HTML produce none.
    """

    def placed(state: StateInline, silent: bool) -> bool:
        start, before = state.pos, len(state.tokens)
        if not rule(state, silent):
            return False
        for token in state.tokens[before:]:
            token.meta.setdefault("start", start)
        return True

    return placed


def _wiki_link(state: StateInline, silent: bool) -> bool:
    if not state.src.startswith("[[", state.pos):
        return False
    end = state.src.find("]]", state.pos + 2, state.posMax)
    content = state.src[state.pos + 2 : end]
    if end < 0 or not content.strip() or "\n" in content or "[" in content:
        return False
    if _SHELL.match(content):
        state.pending += "" if silent else f"[[{content}]]"  # its brackets begin no other link either
    elif not silent:
        state.push("wiki_link", "", 0).content = content
    state.pos = end + 2
    return True


def _tag(state: StateInline, silent: bool) -> bool:
    start = state.pos
    if state.src[start] != "#" or (start > 0 and state.src[start - 1] not in _BEFORE_TAG):
        return False
    match = _TAG.match(state.src, start, state.posMax)
    if match is None:
        return False
    if not silent:
        state.push("tag", "", 0).content = match[1].rstrip("/-")
    state.pos = match.end()
    return True
