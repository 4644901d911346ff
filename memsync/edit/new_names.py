"""Names for new notes and threads, titles and tags."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from memsync.edit.note_paths import note_path, numbered
from memsync.errors import UsageError
from memsync.model.text import visible
from memsync.model.vocabulary import NotePath, Tier
from memsync.notes.dates import split_date
from memsync.notes.rules import THREADS_FOLDER

NOTE_OF_TIER = {Tier.PERSONAL: "MEMORY.md", Tier.PROJECT: "notes/project.md", Tier.TASK: "notes/task.md"}
TITLE_OF_MEMORY = "Memory"
STATUSES = ("active", "paused", "completed", "archived")
"""The statuses that a thread can have."""
MOST_SLUG_CHARS = 60
_TAG = re.compile(r"[^\W\d_][\w/-]*")


def title_of(path: NotePath) -> str:
    """Return a title for a new note: the words of its file name; a leading date is written as 2026-11-21."""
    date, rest = split_date(path.rpartition("/")[2].rpartition(".")[0])
    words = " ".join(filter(None, (date, rest.replace("-", " ").replace("_", " ").strip())))
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
    while len(slug.encode()) > MOST_SLUG_CHARS:
        slug = slug.rpartition("-")[0] or slug[: MOST_SLUG_CHARS // 4]
    return slug


def thread_paths(thread: str) -> list[NotePath]:
    """Return the possible paths of a thread given by path or by its name in threads/. Raises UsageError."""
    in_folder = thread if "/" in thread else f"{THREADS_FOLDER}{thread}"
    return list(dict.fromkeys((note_path(in_folder), thread_path(thread))))


def thread_path(name: str) -> NotePath:
    """Return the path of a thread given by path or by its name in threads/. Raises UsageError."""
    return note_path(name if "/" in name or name.endswith((".md", ".markdown")) else f"{THREADS_FOLDER}{name}")


def free_path(root: Path, slug: str) -> NotePath:
    """Return the first unused path in threads/: the slug, or the slug with a number."""
    return next(path for path in numbered(NotePath(f"{THREADS_FOLDER}{slug}.md")) if not os.path.lexists(root / path))
