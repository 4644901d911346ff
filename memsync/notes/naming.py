"""What people and agents call a note or a folder -> its path beneath the memory root.

A note is named by its path as search results print it, by its absolute path, without `.md`, or by its title, an alias
or its file's name, where only one note has that. Nothing outside the memory root is looked at: whether a file is there
must not show.
"""

from __future__ import annotations

import os
import posixpath
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from memsync.errors import NoteError, UsageError
from memsync.model.query import IndexedNote
from memsync.model.vocabulary import NotePath
from memsync.notes.ignore import is_note_name


def beneath(root: Path | str, path: str) -> str | None:
    """Return an absolute path as one relative to the root, empty for the root itself; None when it lies elsewhere.

    The root may be reached by a link; of what lies elsewhere only the folders above are compared with it.
    """
    own, below = os.stat(root), ""
    place = posixpath.normpath(path)
    while place != "/":
        with suppress(OSError, ValueError):
            if os.path.samestat(os.stat(place), own):
                return below
        place, _, name = place.rpartition("/")
        place, below = place or "/", f"{name}/{below}" if below else name
    return None


def spellings(root: Path, text: str) -> Iterator[NotePath]:
    """Yield the paths that a note may have that is called `text`, the likeliest first. Raises NoteError."""
    path = text
    if path.startswith("/"):
        inner = beneath(root, path)
        if inner is None:
            raise NoteError(f"{text!r} is not beneath the memory root", hint="Name it as search results do.")
        path = inner
    path = path.removeprefix("./")
    yield NotePath(path)
    if not is_note_name(path.rpartition("/")[2] or path):
        yield NotePath(f"{path}.md")
        yield NotePath(f"{path}.markdown")
    if "\\" in path:
        yield NotePath(_unescaped(path))


def _unescaped(text: str) -> str:
    """Return a path as it is, from how it is shown: what cannot be seen is shown as an escape."""
    try:
        return text.encode("latin-1", "backslashreplace").decode("unicode_escape")
    except UnicodeDecodeError:
        return text


def titled(notes: Iterable[IndexedNote], name: str) -> list[NotePath]:
    """Return the notes with this title, alias or file name, whatever its case; archived ones only without others."""
    wanted = _folded(name)
    found = [note for note in notes if wanted and wanted in map(_folded, _names(note))]
    return [note.path for note in found if not note.archived] or [note.path for note in found]


def _names(note: IndexedNote) -> Iterator[str]:
    yield note.title
    file_name = note.path.rpartition("/")[2]
    yield file_name
    yield file_name.rpartition(".")[0]
    for key in ("title", "alias", "aliases"):
        value = note.front_matter.get(key)
        yield from (str(one) for one in (value if isinstance(value, list) else [value]) if one is not None)


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def folder_path(root: Path, folder: str, known: Iterable[NotePath]) -> str | None:
    """Return a folder as notes' paths begin with it: empty for the root, else with a slash at its end.

    `folder` counts from the root, or is absolute. None when it is neither on disk nor in `known`, the paths of notes.
    """
    path = folder
    if path.startswith("/"):
        inner = beneath(root, path)
        path = path.strip("/") if inner is None else inner
    path = posixpath.normpath(path) if path else "."
    if path == ".":
        return ""
    parts = path.split("/")
    if ".." in parts or "\0" in path:
        return None
    is_there = all(os.path.isdir(place) and not os.path.islink(place) for place in _on_the_way(root, parts))
    return f"{path}/" if is_there or any(one.startswith(f"{path}/") for one in known) else None


def existing_folder(root: Path, folder: str, known: Sequence[NotePath]) -> str:
    """Return what `folder_path` does. Raises UsageError, with the nearest name, for a folder that there is not."""
    found = folder_path(root, folder, known)
    if found is not None:
        return found
    import difflib

    name = folder.rstrip("/")
    if name in known:
        raise UsageError(f"no such folder: {name} is a note", hint=f"Write path:{name}")
    folders = {path.rpartition("/")[0] for path in known} - {""}
    close = difflib.get_close_matches(folder.strip("/"), folders, n=1)
    hint = f"Did you mean {close[0]}?" if close else "Folders count from the memory root: projects/store"
    raise UsageError(f"no such folder: {name or folder}", hint=hint)


def _on_the_way(root: Path, parts: Sequence[str]) -> Iterator[str]:
    for depth in range(1, len(parts) + 1):
        yield os.path.join(root, *parts[:depth])
