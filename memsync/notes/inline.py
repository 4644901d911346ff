"""What stands inside a paragraph: `#tags`, `[[wiki links]]` and Markdown links, never inside code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from memsync.model import Link, Tag

MAX_INLINE_CHARS = 20_000
"""A longer paragraph is not looked through for tags and links: inline parsing is not linear in the worst case."""

_TAG = re.compile(r"#(?=[\w/-]*[^\W\d_])(\w[\w/-]*)")
_MAY_HOLD_TAG = re.compile(r"(?:^|[\s(\[{,;'\"])#\w")
_BEFORE_TAG = " \t\n([{,;'\""


def add_inline_rules(markdown: MarkdownIt) -> None:
    """Teach `markdown` wiki links and tags; each becomes a token of its own."""
    markdown.inline.ruler.before("link", "wiki_link", _wiki_link)
    markdown.inline.ruler.before("link", "tag", _tag)


def find_inline(markdown: MarkdownIt, blocks: Sequence[Token], env: dict[str, Any]) -> tuple[list[Tag], list[Link]]:
    """Return the tags and links of all `inline` tokens in `blocks`, in file order.

    A paragraph that is nothing but tags tags the whole note (line 0).
    """
    tags: list[Tag] = []
    links: list[Link] = []
    for token in blocks:
        if token.type == "inline" and token.map and _may_hold(token.content, env):
            children = parse_inline(markdown, token.content, env)
            first_line = token.map[0] + 1
            only_tags = all(child.type in ("tag", "softbreak") or not child.content.strip() for child in children)
            found = _tags(children, first_line)
            tags += [Tag(tag.name, 0) for tag in found] if only_tags else found
            links += _links(children, first_line)
    return tags, links


def parse_inline(markdown: MarkdownIt, content: str, env: dict[str, Any]) -> list[Token]:
    """Return the inline tokens of one paragraph or heading."""
    tokens: list[Token] = []
    markdown.inline.parse(content, markdown, env, tokens)
    return tokens


def plain_text(tokens: Sequence[Token]) -> str:
    """Return what a reader sees of inline tokens, without markup."""
    parts = []
    for token in tokens:
        if token.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif token.type == "tag":
            parts.append(f"#{token.content}")
        elif token.type == "wiki_link":
            parts.append(_wiki_parts(token.content)[2])
        elif token.type != "html_inline":
            parts.append(token.content)
    return " ".join("".join(parts).split())


def _may_hold(content: str, env: dict[str, Any]) -> bool:
    if len(content) > MAX_INLINE_CHARS:
        return False
    if "[" in content and ("](" in content or "[[" in content or env.get("references")):
        return True
    return "#" in content and _MAY_HOLD_TAG.search(content) is not None


def _tags(children: Sequence[Token], first_line: int) -> list[Tag]:
    line, found = first_line, []
    for child in children:
        if child.type in ("softbreak", "hardbreak"):
            line += 1
        elif child.type == "tag":
            found.append(Tag(child.content, line))
    return found


def _links(children: Sequence[Token], first_line: int) -> list[Link]:
    line, found = first_line, []
    for index, child in enumerate(children):
        if child.type in ("softbreak", "hardbreak"):
            line += 1
        elif child.type == "wiki_link":
            target, anchor, label = _wiki_parts(child.content)
            found.append(Link(target, anchor, label, line, wiki=True))
        elif child.type == "link_open":
            target, _, anchor = unquote(str(child.attrGet("href") or "")).partition("#")
            found.append(Link(target, anchor, _label(children[index + 1 :]), line, wiki=False))
    return found


def _label(following: Sequence[Token]) -> str:
    closing = next((i for i, token in enumerate(following) if token.type == "link_close"), len(following))
    return plain_text(following[:closing])


def _wiki_parts(content: str) -> tuple[str, str, str]:
    place, _, label = content.partition("|")
    target, _, anchor = place.partition("#")
    return target.strip(), anchor.strip(), label.strip() or place.strip()


def _wiki_link(state: StateInline, silent: bool) -> bool:
    if not state.src.startswith("[[", state.pos):
        return False
    end = state.src.find("]]", state.pos + 2, state.posMax)
    content = state.src[state.pos + 2 : end]
    if end < 0 or not content.strip() or "\n" in content or "[" in content:
        return False
    if not silent:
        state.push("wiki_link", "", 0).content = content
    state.pos = end + 2
    return True


def _tag(state: StateInline, silent: bool) -> bool:
    start = state.pos
    if state.src[start] != "#" or (start > 0 and state.src[start - 1] not in _BEFORE_TAG):
        return False
    found = _TAG.match(state.src, start, state.posMax)
    if found is None:
        return False
    if not silent:
        state.push("tag", "", 0).content = found.group(1).rstrip("/-")
    state.pos = found.end()
    return True
