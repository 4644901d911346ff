"""Read what Obsidian adds to Markdown: embeds, highlights, formulas, callouts."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

CALLOUT = re.compile(r"\[!([\w-]{1,30})[^\]\n]{0,100}\]([+-]?)[ \t]*([^\n]*)\n?")
"""The first line of a quote that is a callout: its kind, how it is folded, its title."""
TASK = re.compile(r"\[([ xX])\](?=[ \t]+\S)")
# Opening and closing marks may not touch a letter or a digit, so that `x==1 and y==2`, and `$5` stay text.
# Only a formula may go on in a word (`$n$th`), but not after a sign, as in `$HOME/$USER`.
_INLINE = re.compile(
    r"!\[\[(?P<embed>[^\[\]\n]{1,500})\]\]"
    r"|(?<![0-9A-Za-z$])\$(?P<math>(?=\S)(?:\\[^\n]|[^$\n\\`])++(?<!\s)|\$(?:\\.|[^$\\])++\$)\$(?![0-9$])"
    r"(?:(?![A-Za-z])|(?<=[0-9A-Za-z})]\$))"
    r"|(?<![0-9A-Za-z=])==(?P<mark>(?![\s=])(?:`[^`\n]*+`|(?!==).)++(?<![\s=]))==(?![0-9A-Za-z=])",
    re.DOTALL,
)
_FORMULA = re.compile(r"[\\^_={}<>+*|/()!-]|\A\s*\S+\s*\Z")
_AMOUNT = re.compile(r"\d(?!.*\\).*\b[A-Za-z]{2,}", re.DOTALL)


def add_notation(markdown: MarkdownIt) -> None:
    """Add the rules: for tokens `embed` and `mark`, and formulas as code."""
    markdown.inline.ruler.before("link", "notation", _inline)
    markdown.block.ruler.before("fence", "notation", _block, {"alt": ["paragraph", "reference", "blockquote", "list"]})


def _inline(state: StateInline, silent: bool) -> bool:
    found = _INLINE.match(state.src, state.pos, state.posMax) if state.src[state.pos] in "!$=" else None
    if found is None:
        return False
    kind, content = str(found.lastgroup), found[str(found.lastgroup)]
    if kind == "math" and (_AMOUNT.match(content) or not _FORMULA.search(content)):
        return False
    if kind == "mark" and not silent:
        state.push("mark_open", "mark", 1)
        last, state.pos, state.posMax = state.posMax, found.start("mark"), found.end("mark")
        state.md.inline.tokenize(state)
        state.posMax = last
        state.push("mark_close", "mark", -1)
    elif kind == "math" and not silent:
        token = state.push("code_inline", "code", 0)
        token.content, token.attrs = (content[1:-1] if content[0] == "$" else content).strip(), {"class": "math"}
    elif kind == "embed" and not silent:
        state.push(kind, "", 0).content = content
    state.pos = found.end()
    return True


def _block(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Read a formula from a line that begins with `$$` to one that ends so; one line, or no end, is no such block."""
    opening = _line(state, first)
    if opening[:2] != "$$" or "$$" in opening[2:] or state.is_code_block(first):
        return False
    last = first + 1
    while last < end and not _line(state, last).endswith("$$"):
        state.is_code_block(last)  # counts it, so that many openings without an end do not take quadratic time
        last += 1
    if last < end and not silent:
        state.line = last + 1
        token = state.push("fence", "code", 0)
        token.info, token.map = "latex", [first, last + 1]
        token.content = state.getLines(first, last + 1, state.blkIndent, False).strip().strip("$").strip("\n")
    return last < end


def _line(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]].rstrip()
