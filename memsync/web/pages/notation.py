"""Read what Obsidian adds to Markdown: embeds, highlights, formulas, callouts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline

from memsync.notes.links import outside_code

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


def with_formulas(lines: Sequence[str]) -> list[str]:
    """Return lines with those that are `$$` alone, before and after a formula, as fences of code."""
    fenced, opened = list(lines), -1
    for number, line in outside_code(lines) if "$$" in "".join(lines) else ():
        if line.strip(" \t>") == "$$":
            if opened >= 0 and line.rstrip() == fenced[opened].rstrip():
                fenced[opened], fenced[number - 1] = line.replace("$$", "```latex"), line.replace("$$", "```")
                opened = -1
            else:
                opened = number - 1
    return fenced
