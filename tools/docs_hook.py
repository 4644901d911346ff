"""A hook of mkdocs: links of docs/ that lead out of it keep their words, because the built pages stand alone."""

from __future__ import annotations

import re


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return the text of a page without links to files of the repository; the README is the start page."""
    markdown = re.sub(r"\]\(\.\./README\.md(#[\w-]+)?\)", "](index.md)", markdown)
    return re.sub(r"\[([^\]]+)\]\(\.\./[^)]+\)", r"\1", markdown)
