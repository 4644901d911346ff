"""`memsync init`: make a folder a memory root, without overwriting any file."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memsync.edit.note_paths import folder_of
from memsync.errors import FilesystemError, RootError
from memsync.model.vocabulary import NotePath
from memsync.notes.dates import split_date
from memsync.notes.git_files import GitUnusable, read_file
from memsync.notes.ignore import is_hidden, is_note_name
from memsync.settings.config_file import NAME
from memsync.settings.paths import folder_identity, keep_identity, kept_identity
from memsync.system import clock

_TEMPLATES = {
    "SOUL.md": """# Soul

Who the agent is: its name, its voice, what it values. Write it as you would brief a new colleague.

- Name:
- For whom:
- Voice: plain, short, honest about what it does not know
""",
    "MEMORY.md": """# Memory

What lasts. Facts, decisions and their reasons, one short section or list item each; what is over moves to archive/.

## Decisions

## People

## Patterns
""",
    "preferences.md": """# Preferences

One `- key: value` a line; the last one wins.

- language: English
""",
    "daily/{day}.md": """# {day}

- {time} This memory was made with `memsync init`. Entries that begin with a time are dated to the minute. #memsync
""",
    "prompts/assistant.md": """---
priority: 100
active: true
---
Before you answer, search the memory for what is known already, and cite path and line.
""",
}
"""File -> text for a new memory root; `{day}` is today, `{time}` the time of day."""
_FILES = {
    ".gitignore": """# memsync keeps its index elsewhere; these are editors' and sync clients' leftovers.
*.swp
*~
*.tmp
.DS_Store
""",
    ".gitattributes": """# What two branches add to these notes is kept from both when they meet.
/MEMORY.md merge=union
daily/*.md merge=union
threads/*.md merge=union
/.memsync/dismissed merge=union
""",
}
"""File -> text for every memory root."""
_CONFIG = """# Every setting and its default: memsync config show
[memsync]
root = "."
"""

_OBSIDIAN = ".obsidian/daily-notes.json"
_PLAIN_FOLDER = re.compile(r"\w[\w .-]*(?:/\w[\w .-]*)*")
_MAX_SETTINGS_BYTES = 10_000


@dataclass(frozen=True, slots=True)
class CreatedRoot:
    """The result of `create_root`; names are relative to `root`. `notes` counts the notes that were there before.

    `logs` is the folder that the new config file gives to daily logs, empty for the default.
    """

    root: Path
    created: tuple[str, ...]
    kept: tuple[str, ...]
    notes: int
    logs: str = ""


def create_root(root: Path) -> CreatedRoot:
    """Make `root` a memory root. A folder that has notes gets only the files for git and memsync, no templates.

    Raises RootError when it is a file, the home folder or /, FilesystemError when it cannot be written, WriteRefused
    when a folder in it is a link.
    """
    if root.exists() and not root.is_dir():
        raise RootError(f"{root} is not a folder", hint="Name a new folder, or one with notes in it.")
    if root.resolve() in (Path("/"), Path.home().resolve()):
        raise RootError(f"{root.resolve()} is too much for a memory root", hint="Name a folder: memsync init ~/notes")
    try:
        root.mkdir(parents=True, exist_ok=True)
        root = root.resolve()
        notes = _count_notes(root)
        logs = _folder_of_obsidian(root)
        kinds = f'\n# From {_OBSIDIAN}\n[kinds]\n"/{logs}/" = "daily"\n' if logs else ""
        files = {**_FILES, NAME: _CONFIG + kinds}
        if not notes:
            now = {"day": f"{clock.now():%Y-%m-%d}", "time": f"{clock.now():%H:%M}"}
            files |= {name.format(**now): text.format(**now) for name, text in _TEMPLATES.items()}
        created = [name for name, text in files.items() if _write_new(root, name, text)]
        kept = [name for name in files if name not in created]
        if not kept_identity(str(root)):
            keep_identity(str(root), folder_identity(str(root)))
    except OSError as error:
        raise FilesystemError(
            f"{error.filename}: {error.strerror}", hint="Check the folder's permissions and free space."
        ) from error
    return CreatedRoot(root, tuple(created), tuple(kept), notes, logs if NAME in created else "")


def _folder_of_obsidian(root: Path) -> str:
    """Return the folder in which Obsidian keeps daily notes; empty if that is the root, or if their names are no dates.

    A stranger may have written Obsidian's settings: only a plain folder name is taken from them.
    """
    with suppress(OSError, GitUnusable, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        if not os.path.islink(root / ".obsidian"):
            settings = json.loads(read_file(str(root / _OBSIDIAN), _MAX_SETTINGS_BYTES))
            folder, name = settings["folder"].strip("/"), settings.get("format") or "YYYY-MM-DD"
            day = name.replace("YYYY", "2026").replace("MM", "11").replace("DD", "21").rpartition("/")[2]
            return folder if _PLAIN_FOLDER.fullmatch(folder) and split_date(f"{day}.md")[0] else ""
    return ""


def _count_notes(root: Path) -> int:
    count = 0
    for _, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not is_hidden(name)]
        count += sum(map(is_note_name, names))
    return count


def _write_new(root: Path, name: str, text: str) -> bool:
    """Write a new file and return True; leave an existing one alone and return False.

    Raises WriteRefused when a folder is a link: a clone may bring a link that points outside the root.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with folder_of(root, NotePath(name), create=True) as folder:
        try:
            descriptor = os.open(name.rpartition("/")[2], flags, 0o666, dir_fd=folder)
        except FileExistsError:
            return False
        with open(descriptor, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    return True
