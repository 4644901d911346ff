"""A program's values as notes: each is a note that a person can read and edit, found by its exact name.

A name is a sequence of labels, such as a namespace and a key. Its note is in the folder of an agent, and counts as
written by that agent. The front matter has the exact name. The body is the value: a text field as it is, and
the other fields as JSON in a fence.
"""

from __future__ import annotations

import json
import operator
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from memsync.edit.addition import lines_with_ends
from memsync.edit.note_paths import MAX_WORDS_CHARS, name_with_digest
from memsync.edit.set_fields import head_of
from memsync.edit.titles import slug_of
from memsync.errors import NoSuchNote, NoteChanged, NoteError, UsageError
from memsync.integrations.items import dumped, read_json
from memsync.memory import MemoryApi
from memsync.model.answer import Hit
from memsync.model.query import MAX_HITS
from memsync.notes.decode import split_lines
from memsync.notes.frontmatter import MAX_HEAD_BYTES, read_head
from memsync.system import clock


class _Answer(Protocol):
    @property
    def pending_text(self) -> int: ...


R = TypeVar("R", bound=_Answer)
Name = tuple[str, ...]
Value = dict[str, Any]

TEXT_FIELDS = ("page_content", "content", "text", "memory")
"""The field of a value that is written as plain text: the first of these that the value has."""
FIRST_HITS = 50
MAX_ATTEMPTS = 1_000
_ENDS_LIKE_DIGEST = re.compile(r"-[0-9a-f]{16}\Z")
_NOT_PLAIN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]|^(?:<{7}|={7}|>{7})|\A\s*(?:---|\+\+\+)",
    re.MULTILINE,
)
"""What no editor keeps, what marks a merge conflict, and what would be front matter: such a text is written as JSON."""
_FENCE, _END = "```json\n", "\n```"
_NO_WORDS = re.compile(r'[":*]|(?<!\S)-+')
_COMPARE = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}


@dataclass(frozen=True)
class Entry:
    """A value with its name, its note, and when it was made and last written (ISO 8601)."""

    name: Name
    value: Value
    path: str
    created: str
    updated: str


class Values:
    """The values under one folder of a memory. Safe to use from several threads, and while other processes write."""

    def __init__(self, memory: MemoryApi, folder: str) -> None:
        """Take a memory and a folder of it: `by-agents/NAME`. The folder need not exist."""
        self.memory = memory
        self.folder = folder.rstrip("/")

    def get(self, name: Name) -> Entry | None:
        """Return the value of exactly this name, or None. Raises NoteError if its note has broken JSON."""
        entry = self._read(self._path(name))
        return entry if entry and entry.name == name else None

    def put(self, name: Name, value: Mapping[str, Any]) -> None:
        """Write a value, also over one that somebody has changed. Raises WriteRefused, UsageError, NoteChanged."""
        path = self._path(name)
        for attempt in range(MAX_ATTEMPTS):
            now = clock.utc().isoformat()
            try:
                before = self.memory.read_note(path)
                created = _head(before).get("created") or now
            except NoSuchNote:
                before, created = None, now
            text = _note(name, value, str(created), now)
            try:
                self.memory.write_note(path, text, expected=before, index=False)
                return
            except (NoteChanged, NoSuchNote):
                if attempt == MAX_ATTEMPTS - 1:
                    raise

    def delete(self, name: Name) -> None:
        """Delete a value, which `undo_forget(user=path)` puts back. Does nothing if there is none."""
        try:
            self.memory.delete_note(self._path(name))
        except NoSuchNote:
            return

    def entries(self, under: Name = ()) -> Iterator[Entry]:
        """Yield every value whose name begins so, by path, each read from its file as it is now.

        A note that somebody has broken is left out with a warning, because a program needs the others.
        """
        folder = self._folder(under)
        for note in complete(self.memory, lambda: self.memory.notes(folder, archived=True)).notes:
            if entry := self._listed(note.path, under):
                yield entry

    def search(self, query: str, under: Name = ()) -> Iterator[tuple[float, Entry]]:
        """Yield (score, value) of every value whose name begins so, the best match first, and warn as `entries`."""
        known, words, folder = set(), plain_query(query), (self._folder(under),)
        for limit in (FIRST_HITS, MAX_HITS):
            hits = self.memory.search(words, folder=folder, all=True, archived=True, limit=limit).hits
            for hit in hits:
                if hit.path not in known and (entry := self._listed(hit.path, under)):
                    yield hit.score, entry
                known.add(hit.path)
            if len(hits) < limit:
                return
        yield from ((0.0, entry) for entry in self.entries(under) if entry.path not in known)

    def _listed(self, path: str, under: Name) -> Entry | None:
        try:
            return self._read(path, under)
        except NoteError as error:
            warnings.warn(f"left out: {error.sentences()}", stacklevel=2)
            return None

    def _folder(self, labels: Name) -> str:
        return "/".join((self.folder, *map(_plain_label, labels))) + "/"

    def _path(self, name: Name) -> str:
        return f"{self._folder(name[:-1])}{name_with_digest(name[-1])}.md"

    def _read(self, path: str, under: Name = ()) -> Entry | None:
        """Return the value of a note; None if it is gone, or its name is not one that this note would have."""
        try:
            text = self.memory.read_note(path).replace("\r\n", "\n").removeprefix("\ufeff")
        except NoSuchNote:
            return None
        head = _head(text)
        labels = head.get("name")
        with suppress(ValueError):
            labels = json.loads(labels) if isinstance(labels, str) else labels
        name = tuple(map(str, labels)) if isinstance(labels, list) else ()
        if not name or name[: len(under)] != under or self._path(name) != path:
            return None
        return Entry(name, _value(path, text, head), path, _moment(head, "created"), _moment(head, "updated"))


def complete(memory: MemoryApi, ask: Callable[[], R]) -> R:
    """Return an answer of a memory, asked again after a sync if it could not read all changed notes in time."""
    answer = ask()
    if not answer.pending_text:
        return answer
    memory.sync()
    return ask()


def plain_query(text: str) -> str:
    """Return a text as a query without filters, phrases and exclusions: a program's text means only its words."""
    return " ".join(_NO_WORDS.sub(" ", text).split())


def found_for(memory: MemoryApi, text: str, limit: int | None, filters: Mapping[str, Any]) -> tuple[Hit, ...]:
    """Return the best passages of all notes for the words of a text; as many as `limit` if there are so many."""
    query, most = plain_query(text), limit and min(limit, MAX_HITS)
    return memory.search(query, limit=most, all=bool(limit), **filters).hits if query else ()


def about(hit: Hit) -> dict[str, Any]:
    """Return what a framework may know of a passage besides its text."""
    names = ("citation", "path", "start_line", "end_line", "title", "date", "kind", "origin", "score", "validity")
    return {name: getattr(hit, name) for name in names}


def matches(value: Any, wanted: Mapping[str, Any]) -> bool:
    """Tell whether fields have values like these: `{"a": 1, "b.c": {"$gt": 2}}`. Raises UsageError."""
    for key, condition in wanted.items():
        is_tests = isinstance(condition, Mapping) and any(str(name).startswith("$") for name in condition)
        tests = condition if is_tests else {"$eq": condition}
        if not all(_holds(test, _field(value, key), operand) for test, operand in tests.items()):
            return False
    return True


def _field(value: Any, key: str) -> Any:
    """Return a field by its name, or by a path with dots; None if there is none."""
    if not isinstance(value, Mapping) or key in value:
        return value[key] if isinstance(value, Mapping) else None
    first, dot, rest = key.partition(".")
    return _field(value.get(first), rest) if dot else None


def _holds(test: str, found: Any, operand: Any) -> bool:
    if test in ("$eq", "$ne"):
        is_equal = found == operand and isinstance(found, bool) == isinstance(operand, bool)
        return is_equal == (test == "$eq")
    if test not in _COMPARE:
        raise UsageError(f"{test} is no operator", hint=f"Use $eq, $ne, {', '.join(_COMPARE)}.")
    are_texts = isinstance(found, str) and isinstance(operand, str)
    are_numbers = isinstance(found, int | float) and isinstance(operand, int | float)
    return bool((are_texts or are_numbers) and _COMPARE[test](found, operand))


# ------------------------------------------------------------------------------------------------- notes


def _plain_label(label: str) -> str:
    """Return a label as the name of a folder: itself if no file system changes it, otherwise words and a digest."""
    is_plain = slug_of(label) == label and label.isascii() and len(label) <= MAX_WORDS_CHARS
    return label if label and is_plain and not _ENDS_LIKE_DIGEST.search(label) else name_with_digest(label)


def _head(text: str) -> Mapping[str, Any]:
    return read_head(split_lines(text)).values


def _moment(head: Mapping[str, Any], key: str) -> str:
    """Return a time of the front matter; the beginning of time if a person has written something else."""
    try:
        moment = datetime.fromisoformat(str(head.get(key)))
        return moment.replace(tzinfo=moment.tzinfo or UTC).isoformat()
    except ValueError:
        return "0001-01-01T00:00:00+00:00"


def _note(name: Name, value: Mapping[str, Any], created: str, updated: str) -> str:
    """Return the note of a value. Raises UsageError if the value is no JSON."""
    field = next((key for key in TEXT_FIELDS if isinstance(value.get(key), str)), "")
    if field and _NOT_PLAIN.search(value[field]):
        field = ""
    text = value[field] if field else ""
    rest = {key: part for key, part in value.items() if not field or key != field}
    parts = [text] if field else []
    if rest or not field or _FENCE in text:
        parts.append(f"{_FENCE}{dumped(rest, _NOT_PLAIN)}{_END}")
    title, labels = (name[-1], [*name]) if all(map(str.isprintable, name)) else ("", json.dumps(name))
    head = head_of({"title": title, "name": labels, "created": created, "updated": updated, "text": field})
    if len(head.encode()) > MAX_HEAD_BYTES:
        raise UsageError("a name is too long", hint="Shorten the namespace or the key.")
    return head + "\n\n".join(parts) + "\n"


def _value(path: str, text: str, head: Mapping[str, Any]) -> Value:
    """Return the value of a note. Raises NoteError that names the line, if a person has broken its JSON."""
    lines, first = lines_with_ends(text), read_head(split_lines(text)).first_lines
    body, field = "".join(lines[first:]).removeprefix("\n"), head.get("text")
    before, fence, block = body.rstrip().rpartition(_FENCE)
    if not fence and isinstance(field, str):
        return {field: body.removesuffix("\n")}
    line = text.count("\n", 0, text.rfind(_FENCE)) + 2
    if not block.endswith(_END) or before[-1:] not in ("", "\n"):
        raise NoteError(f"{path}:{line}: no ```json block is at the end", hint="Write above it, in an editor.")
    value = read_json(block.removesuffix(_END), path, line)
    if not isinstance(value, dict):
        raise NoteError(f"{path}: its JSON is no object", hint="Put { and } around it, in an editor.")
    return {field: before.removesuffix("\n").removesuffix("\n"), **value} if isinstance(field, str) else value
