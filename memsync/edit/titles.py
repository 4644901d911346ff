"""Titles and tags of new notes, and file names made from titles."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from memsync.errors import UsageError
from memsync.model.text import visible
from memsync.model.vocabulary import NotePath
from memsync.notes.dates import split_date

TITLE_OF_MEMORY = "Memory"
MAX_SLUG_CHARS = 60
_TAG = re.compile(r"[^\W\d_][\w/-]*")


def title_of(path: NotePath) -> str:
    """Return a title for a new note: the words of its file name, without braces.

    A leading date is written as 2026-11-21.
    """
    day, rest = split_date(path.rpartition("/")[2].rpartition(".")[0].translate({ord("{"): "(", ord("}"): ")"}))
    words = " ".join(filter(None, (day, rest.replace("-", " ").replace("_", " ").strip())))
    return words[:1].upper() + words[1:]


def tags_of(tags: Sequence[str]) -> list[str]:
    """Return tags without their `#`. Raises UsageError for an invalid tag."""
    names = [tag.removeprefix("#") for tag in tags]
    wrong = next((name for name in names if not _TAG.fullmatch(name)), None)
    if wrong is not None:
        raise UsageError(f"{wrong!r} is not a tag", hint="Write letters, digits, - and /, and begin with a letter.")
    return names


def slug_of(title: str) -> str:
    """Return a file name for a title: its words in lower case, joined by hyphens; empty if it has no words."""
    words = re.findall(r"\w+", visible(unicodedata.normalize("NFC", title)).lower())
    slug = "-".join(words).replace("_", "-").strip("-")
    while len(slug.encode()) > MAX_SLUG_CHARS:
        slug = slug.rpartition("-")[0] or slug[: MAX_SLUG_CHARS // 4]
    return slug
