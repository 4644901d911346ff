"""Names for new notes and threads, titles and tags, and the path of a day's log."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from memsync.edit.note_paths import note_path, numbered
from memsync.errors import UsageError
from memsync.model.text import visible
from memsync.model.vocabulary import Kind, NotePath, Tier
from memsync.notes.dates import split_date
from memsync.notes.files import NoteFiles, Places
from memsync.notes.rules import THREADS_FOLDER, PathRules

NOTE_OF_TIER = {Tier.PERSONAL: "MEMORY.md", Tier.PROJECT: "notes/project.md", Tier.TASK: "notes/task.md"}
TITLE_OF_MEMORY = "Memory"
STATUSES = ("active", "paused", "completed", "archived")
"""The statuses that a thread can have."""
MAX_SLUG_CHARS = 60
_TAG = re.compile(r"[^\W\d_][\w/-]*")


def title_of(path: NotePath) -> str:
    """Return a title for a new note: the words of its file name; a leading date is written as 2026-11-21."""
    day, rest = split_date(path.rpartition("/")[2].rpartition(".")[0])
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


USUAL_FOLDER = "daily/"
USUAL_NAME = "%Y-%m-%d"
_NAMES = {
    re.sub(r"\d", "0", date(2026, 11, 21).strftime(name)): name
    for name in (
        USUAL_NAME,
        "%Y_%m_%d",
        "%Y%m%d",
        "%Y.%m.%d",
        "%Y/%Y-%m-%d",
        "%Y/%m/%Y-%m-%d",
        "%Y-%m/%Y-%m-%d",
    )
}
"""A log's name with each digit replaced by 0 -> its strftime format. In every format, names sort by date."""


def log_of(day: date, files: NoteFiles, rules: PathRules) -> NotePath:
    """Return the path of a day's log, which may not exist yet. Raises UsageError if that path instructs agents."""
    path = _log_of(day, files, daily_folder(rules))
    if rules.instructs(path):
        raise UsageError(
            f"no folder for logs: by [kinds], {path} contains agent instructions",
            hint='Write "/daily/" = "daily" under [kinds] in config.toml.',
        )
    return path


def _log_of(day: date, files: NoteFiles, folder: str) -> NotePath:
    usual = NotePath(f"{folder}{day.strftime(USUAL_NAME)}.md")
    if files.identity(usual) is not None:
        return usual
    newest: dict[tuple[str, str], str] = {}
    existing = files.scan(Places([folder.rstrip("/")]) if folder else None).files
    for path in existing:
        stem, dot, suffix = path[len(folder) :].rpartition(".")
        shape = re.sub(r"[0-9]", "0", stem)
        if path.startswith(folder) and shape in _NAMES:
            key = (_NAMES[shape], dot + suffix)
            newest[key] = max(newest.get(key, ""), stem)
    logs = [path for name, suffix in newest if (path := NotePath(f"{folder}{day.strftime(name)}{suffix}")) in existing]
    if logs:
        return min(logs)
    days = {key: moment for key, stem in newest.items() if (moment := _day_of(stem, key[0])) is not None}
    if not days:
        return usual
    name, suffix = max(days, key=lambda key: (days[key], key == (USUAL_NAME, ".md"), key))
    return NotePath(f"{folder}{day.strftime(name)}{suffix}")


def daily_folder(rules: PathRules) -> str:
    """Return the folder of daily logs with a final slash; empty for the root. The last match in [kinds] wins."""
    for glob in reversed([glob for glob, kind in rules.kinds.items() if kind == Kind.DAILY]):
        *folders, name = glob.strip().removeprefix("/").split("/")
        if name and not re.search(r"[*?\[]", name) and "." not in name:
            folders.append(name)
        plain = [part for part in folders if not re.search(r"[*?\[\\]", part)]
        folder = "".join(f"{part}/" for part in plain)
        path = NotePath(f"{folder}2026-11-21.md")
        if plain == folders[: len(plain)] and rules.kind(path) is Kind.DAILY and _is_of_a_note(path):
            return folder
    return USUAL_FOLDER


def _is_of_a_note(path: NotePath) -> bool:
    """Tell whether a note may have this path: a stranger's [kinds] table may contain `../`."""
    try:
        return note_path(path) == path
    except UsageError:
        return False


def _day_of(stem: str, name: str) -> date | None:
    try:
        day = date.fromisoformat(re.sub(r"[^0-9]", "", stem)[-8:])
    except ValueError:
        return None
    return day if day.strftime(name) == stem else None
