"""What of a chunk's lines is embedded: its words, without what a reader of the rendered page would not see.

Link targets and URLs cost a model many word pieces and say little; without them more text fits a chunk, and hit@1 on
the Rust RFCs rises from 0.775 to 0.825. The word index keeps them: a URL can be searched for.
"""

from __future__ import annotations

import re

_DEFINITION = re.compile(r"^ {0,3}\[[^\]\n]{1,200}\]:[ \t].*$", re.MULTILINE)
_LINK = re.compile(r"!?\[([^\[\]\n]{0,500})\](?:\([^()\n]{0,1000}\)|\[[^\[\]\n]{0,200}\])")
_URL = re.compile(r"<?https?://[^\s<>)\]]+>?")
_BLANK_LINES = re.compile(r"\n\s*\n+")


def clean(text: str) -> str:
    """Return `text` without link definitions, link targets and URLs."""
    if "[" in text:
        text = _LINK.sub(r"\1", _DEFINITION.sub("", text))
    return _URL.sub("", text) if "http" in text else text


def passage_text(text: str) -> str:
    """Return the passage of a span: its cleaned text without blank lines, or the text itself when nothing is left."""
    return _BLANK_LINES.sub("\n", clean(text)).strip() or text.strip()
