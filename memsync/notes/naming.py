"""Find the note or folder that a person or an agent means by a name.

A name is a path as search results print it, an absolute path, a path without `.md`, or a title, alias or file name
that only one note has. Files outside the memory root are never looked at: no answer may reveal whether they exist.
"""

from __future__ import annotations

import os
import posixpath
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from memsync.errors import NoteError, UsageError
from memsync.model.grouped import grouped
from memsync.model.query import IndexedNote
from memsync.model.text import did_you_mean
from memsync.model.vocabulary import JsonValue, NotePath
from memsync.notes.ignore import is_note_name


def path_under(root: Path | str, path: str) -> str | None:
    """Return an absolute path relative to the root (empty for the root itself), or None if it lies outside.

    The path may reach the root through a link. Outside the root, only the folders above the path are looked at.
    """
    root_stat, below = os.stat(root), ""
    place = posixpath.normpath(path)
    while place != "/":
        with suppress(OSError, ValueError):
            if os.path.samestat(os.stat(place), root_stat):
                return below
        place, _, name = place.rpartition("/")
        place, below = place or "/", f"{name}/{below}" if below else name
    return None


def spellings(root: Path, text: str) -> Iterator[NotePath]:
    """Yield the paths that a note named `text` may have, likeliest first. Raises NoteError."""
    path = text
    if path.startswith("/"):
        inner = path_under(root, path)
        if inner is None:
            raise NoteError(f"{text!r} is not in the memory root", hint="Write the path as search results print it.")
        path = inner
    path = path.removeprefix("./")
    yield NotePath(path)
    if not is_note_name(path.rpartition("/")[2] or path):
        yield NotePath(f"{path}.md")
        yield NotePath(f"{path}.markdown")
    if "\\" in path:
        yield NotePath(_unescaped(path))


def _unescaped(text: str) -> str:
    """Return a path without the escapes that stand for invisible characters when memsync prints it."""
    try:
        return text.encode("latin-1", "backslashreplace").decode("unicode_escape")
    except UnicodeDecodeError:
        return text


def titled(notes: Iterable[IndexedNote], name: str) -> list[NotePath]:
    """Return the notes with this title, alias or file name, ignoring case; archived ones only if no other matches."""
    wanted = folded(name)
    matches = [note for note in notes if wanted and wanted in map(folded, names_of(note))]
    return [note.path for note in matches if not note.archived] or [note.path for note in matches]


def names_of(note: IndexedNote) -> Iterator[str]:
    """Yield the title, the file name and the aliases of a note."""
    yield note.title
    file_name = note.path.rpartition("/")[2]
    yield file_name
    yield file_name.rpartition(".")[0]
    yield from filter(None, (text_of(note.front_matter.get(key)) for key in ("title", "name")))
    yield from aliases_in(note.front_matter)


def by_titles(notes: Iterable[IndexedNote]) -> dict[str, list[NotePath]]:
    """Return the notes that have each title, alias or file name, which is folded."""
    return grouped((name, note.path) for note in notes for name in set(map(folded, names_of(note))))


def aliases_in(values: Mapping[str, JsonValue]) -> list[str]:
    """Return the aliases that front matter gives."""
    return [*texts_of(values.get("aliases")), *texts_of(values.get("alias"))]


def text_of(value: JsonValue) -> str:
    """Return a text or number of front matter as one line; empty for anything else."""
    return " ".join(str(value).split()) if type(value) in (str, int, float) else ""


def texts_of(value: JsonValue) -> list[str]:
    """Return the texts of a list, or the parts of comma-separated text, without the brackets of wiki links."""
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, Sequence) else ()
    texts = (text_of(part[0] if part and isinstance(part, list) else part) for part in parts)  # [[a]] is a list to YAML
    return [bare for text in texts if (bare := text.removeprefix("[[").removesuffix("]]"))]


def folded(text: str) -> str:
    """Return a name without what does not count: case and spaces."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def folder_path(root: Path, folder: str, known: Iterable[NotePath]) -> str | None:
    """Return a folder as the prefix of its notes' paths: empty for the root, otherwise ending in a slash.

    `folder` is absolute or relative to the root. Returns None if it is neither on disk nor in `known`, the note paths.
    """
    path = folder
    if path.startswith("/"):
        inner = path_under(root, path)
        path = path.strip("/") if inner is None else inner
    path = posixpath.normpath(path) if path else "."
    if path == ".":
        return ""
    parts = path.split("/")
    if ".." in parts or "\0" in path:
        return None
    places = (os.path.join(root, *parts[:depth]) for depth in range(1, len(parts) + 1))
    is_there = all(os.path.isdir(place) and not os.path.islink(place) for place in places)
    return f"{path}/" if is_there or any(note.startswith(f"{path}/") for note in known) else None


def existing_folder(root: Path, folder: str, known: Sequence[NotePath]) -> str:
    """Return what `folder_path` returns. Raises UsageError if there is no such folder."""
    prefix = folder_path(root, folder, known)
    if prefix is not None:
        return prefix
    name = folder.rstrip("/")
    if name in known:
        raise UsageError(f"no such folder: {name} is a note", hint=f"Write path:{name}")
    folders = {path.rpartition("/")[0] for path in known} - {""}
    hint = did_you_mean(folder.strip("/"), folders, "Write it relative to the memory root: projects/store")
    raise UsageError(f"no such folder: {name or folder}", hint=hint)
