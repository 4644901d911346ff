"""The path of a day's log: named like the logs that exist, in the folder that [kinds] gives to logs."""

from __future__ import annotations

import re
from datetime import date

from memsync.edit.note_paths import note_path
from memsync.errors import UsageError
from memsync.model.vocabulary import Kind, NotePath
from memsync.notes.files import NoteFiles, Places
from memsync.notes.rules import PathRules
from memsync.settings.settings_list import DATED_NAME

USUAL_FOLDER = "daily/"
USUAL_NAME = "%Y-%m-%d"
_FORMAT_OF_SHAPE = {
    re.sub(r"\d", "0", date(2026, 11, 21).strftime(name)): name
    for name in (USUAL_NAME, "%Y_%m_%d", "%Y%m%d", "%Y.%m.%d", "%Y/%Y-%m-%d", "%Y/%m/%Y-%m-%d", "%Y-%m/%Y-%m-%d")
}
"""A log's name with each digit replaced by 0 -> its strftime format. In every format, names sort by date."""


def daily_log_path(day: date, files: NoteFiles, rules: PathRules) -> NotePath:
    """Return the path of a day's log, which may not exist yet. Raises UsageError if that path instructs agents."""
    path = _path_like_the_others(day, files, daily_folder(rules))
    if rules.instructs(path):
        raise UsageError(
            f"no folder for logs: by [kinds], {path} contains agent instructions",
            hint='Write "/daily/" = "daily" under [kinds] in config.toml.',
        )
    return path


def _path_like_the_others(day: date, files: NoteFiles, folder: str) -> NotePath:
    """Return the path of the day's log if it exists, otherwise a path in the style of the latest log."""
    usual = NotePath(f"{folder}{day.strftime(USUAL_NAME)}.md")
    if files.identity(usual) is not None:
        return usual
    newest: dict[tuple[str, str], str] = {}  # style: (format, suffix) -> the last name in it
    existing = files.scan(Places([folder.rstrip("/")]) if folder else None).files
    for path in existing:
        stem, dot, suffix = path[len(folder) :].rpartition(".")
        shape = re.sub(r"[0-9]", "0", stem)
        if path.startswith(folder) and shape in _FORMAT_OF_SHAPE:
            style = (_FORMAT_OF_SHAPE[shape], dot + suffix)
            newest[style] = max(newest.get(style, ""), stem)
    paths = {style: NotePath(f"{folder}{day.strftime(style[0])}{style[1]}") for style in newest}
    if logs_of_day := [path for path in paths.values() if path in existing]:
        return min(logs_of_day)
    days = {style: moment for style, stem in newest.items() if (moment := _day_of(stem, style[0])) is not None}
    if not days:
        return usual
    return paths[max(days, key=lambda style: (days[style], style == (USUAL_NAME, ".md"), style))]


def daily_folder(rules: PathRules) -> str:
    """Return the folder of daily logs with a final slash; empty for the root. The last match in [kinds] wins."""
    # The default rule for dated names holds in every folder, so it names none.
    rules = PathRules({glob: kind for glob, kind in rules.kinds.items() if glob != DATED_NAME}, rules.tiers)
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
    """Return the day in a log's name of this format; None if it is not a day of the calendar."""
    try:
        day = date.fromisoformat(re.sub(r"[^0-9]", "", stem)[-8:])
    except ValueError:
        return None
    return day if day.strftime(name) == stem else None
