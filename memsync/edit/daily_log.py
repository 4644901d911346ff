"""Finds the daily log of a day: in the folder that [kinds] calls daily, named like the logs already there."""

from __future__ import annotations

import re
from datetime import date

from memsync.edit.note_paths import note_path
from memsync.errors import UsageError
from memsync.model.vocabulary import Kind, NotePath
from memsync.notes.files import NoteFiles, Places
from memsync.notes.rules import PathRules

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
    """Tell whether a note may have this path. A [kinds] table may come from a stranger and contain `../`."""
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
