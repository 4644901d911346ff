"""Everything that changes the index, within one write transaction."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from memsync.indexes.cjk import cjk_words, without_cjk
from memsync.indexes.sqlite.messages import put_messages
from memsync.indexes.sqlite.queries import WORD_ROWS
from memsync.indexes.sqlite.spaces import SpaceWriter
from memsync.indexes.words import context_words, heading_words
from memsync.model import Chunk, Entry, FileStamp, Form, Note, NotePath, PutResult
from memsync.notes.utterance import stem_number

_TEXT_LEVEL = 1
NUMBERS = 6
"""Fields of an entry that are numbers: they come first and are always written."""

_PUT_NOTE = """
INSERT INTO note (path, kind, tier, title, date, session, importance, pinned, archived, front_matter, warnings,
                  size, mtime_ns, ctime_ns, inode, digest, stamped_ns, parsed_by, blob)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (path) DO UPDATE SET
    kind = excluded.kind, tier = excluded.tier, title = excluded.title, date = excluded.date,
    session = excluded.session, importance = excluded.importance, pinned = excluded.pinned,
    archived = excluded.archived, front_matter = excluded.front_matter, warnings = excluded.warnings,
    size = excluded.size,
    mtime_ns = excluded.mtime_ns, ctime_ns = excluded.ctime_ns, inode = excluded.inode, digest = excluded.digest,
    stamped_ns = excluded.stamped_ns, parsed_by = excluded.parsed_by, blob = excluded.blob
RETURNING id
"""
# The date of notes by HEAD's history, which counts where it has the very content that the note has.
_DATE_NOTES = """
UPDATE note SET committed = coalesce((
    SELECT h.committed FROM history h
    WHERE h.path = note.path AND h.blob IN (substr(note.blob, 1, 20), substr(note.blob, 21))
), 0)
WHERE path IN (SELECT value FROM json_each(?))
"""
_PUT_COMMITTED = """
INSERT INTO history VALUES (?, ?, ?)
ON CONFLICT (path) DO UPDATE SET blob = excluded.blob, committed = excluded.committed
"""
_CHUNK_COLUMNS = """note, ordinal, form, passage, word_rows, section, start_line, end_line, start_column, end_column,
    heading_path, role, first_time, last_time, attributes, entries, opening, words"""
_PASSAGE_COLUMN = 3
_OLD_CHUNKS = f"""
SELECT c.id, coalesce(p.hash, x''), {_CHUNK_COLUMNS} FROM chunk c LEFT JOIN passage p ON p.id = c.passage
WHERE c.note = ? ORDER BY c.ordinal DESC
"""
_VALUES = "?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?"
_INSERT_CHUNK = f"INSERT INTO chunk ({_CHUNK_COLUMNS}) VALUES ({_VALUES})"
_UPDATE_CHUNK = f"UPDATE chunk SET ({_CHUNK_COLUMNS}) = ({_VALUES}) WHERE id = ?"
_INSERT_WORDS = "INSERT INTO chunk_fts (rowid, body, heading, context, cjk) VALUES (?, ?, ?, ?, ?)"
# Passages that no chunk holds any more.
_ORPHANS = """
SELECT p.id FROM passage p WHERE p.id IN (SELECT value FROM json_each(?))
AND NOT EXISTS (SELECT 1 FROM chunk c WHERE c.passage = p.id)
"""


class SqliteWriter(SpaceWriter):
    """The writing half of the Index port."""

    quiet = False
    """True while nothing was written that a reader could have cached."""
    notes_changed = False
    """True once something was written that is not about vectors alone."""

    def finish(self) -> None:
        """Count the transaction, so that readers can tell that something changed, and what."""
        if self.quiet:
            return
        generation = str(self.generation() + 1)
        self._put_meta("generation", generation)
        if self.notes_changed:
            self._put_meta("notes_generation", generation)

    def set_last_sync(self, moment: str) -> None:
        """Remember when the files were last compared. Alone in its transaction it leaves the generation as it is."""
        self.quiet = True
        self._put_meta("last_sync", moment)

    def set_meta(self, key: str, value: str, *, quiet: bool = False) -> None:
        """Store a small value under a name. If `quiet`, alone in its transaction, it leaves the generation as it is."""
        self.quiet, self.notes_changed = quiet, not quiet
        self._put_meta(key, value)

    # ------------------------------------------------------------------------------------------- notes

    def put_note(
        self,
        note: Note,
        chunks: Sequence[Chunk],
        stamp: FileStamp,
        parsed_by: str,
        pause: Callable[[], None] = lambda: None,
    ) -> PutResult:
        """Replace all rows of a note and its stamp; `pause` is called before each chunk and may raise to end the work.

        A chunk whose words are unchanged keeps its row in the word index and only moves: most edits leave most of them
        alone. What no chunk holds any more goes last, so that text that moved keeps its vector's row.
        """
        self.notes_changed = True
        note_id = self._put_note_row(note, stamp, parsed_by)
        put_messages(self._db, note_id, note.messages)
        old: dict[tuple[bytes, bytes], list[tuple[Any, ...]]] = {}
        for row in list(self._rows(_OLD_CHUNKS, (note_id,))):
            old.setdefault((row[1], row[-1]), []).append(row)
        queued = reused = 0
        for chunk in chunks:
            pause()
            columns = _word_columns(note, chunk)
            digest = b"" if chunk.form is Form.HEADING else chunk.content_hash
            words = hashlib.sha256("\0".join([chunk.form, *chain.from_iterable(columns)]).encode()).digest()[:16]
            same = old.get((digest, words))
            if same:
                self._move_chunk(same.pop(), chunk)
                continue
            passage_id = None
            if digest:
                passage_id, result = self._put_passage(digest, chunk.text)
                queued, reused = queued + result.queued, reused + result.reused
            self._run(_INSERT_CHUNK, _chunk_row(note_id, passage_id, words, chunk))
            chunk_id = self._db.last_insert_rowid()
            rows = word_rows(chunk_id, chunk.form, len(columns))
            self._db.executemany(_INSERT_WORDS, [(row, *own) for row, own in zip(rows, columns, strict=True)])
            self._put_tags(chunk_id, chunk)
        self._forget_chunks([row[0] for rows in old.values() for row in rows], pause)
        return PutResult(queued, reused)

    def _move_chunk(self, old: tuple[Any, ...], chunk: Chunk) -> None:
        """Give a chunk of unchanged words its new place; one that has not even moved costs nothing.

        Its tags can differ only if its entries do, which are part of its row.
        """
        chunk_id, _, *row = old
        new = _chunk_row(row[0], row[_PASSAGE_COLUMN], row[-1], chunk)
        if tuple(row) != new:
            self._run(_UPDATE_CHUNK, (*new, chunk_id))
            self._run("DELETE FROM tag WHERE chunk = ?", (chunk_id,))
            self._put_tags(chunk_id, chunk)

    def put_stamp(self, path: NotePath, stamp: FileStamp) -> None:
        """Replace the stamp alone."""
        self.notes_changed = True
        self._run(
            "UPDATE note SET size = ?, mtime_ns = ?, ctime_ns = ?, inode = ?, digest = ?, stamped_ns = ?"
            " WHERE path = ?",
            (*stamp.identity, stamp.digest, stamp.stamped_ns, path),
        )

    def put_history(self, notes: Mapping[NotePath, tuple[bytes, int]]) -> None:
        """Replace what is known of HEAD's history, and date the notes that this concerns."""
        self.quiet, self.notes_changed = False, True
        known = self.history()
        gone = [path for path in known if path not in notes]
        new = [(path, *entry) for path, entry in notes.items() if known.get(path) != entry]
        self._db.executemany("DELETE FROM history WHERE path = ?", [(path,) for path in gone])
        self._db.executemany(_PUT_COMMITTED, new)
        self._run(_DATE_NOTES, (_json([*gone, *(path for path, _, _ in new)]),))

    def delete_note(self, path: NotePath, pause: Callable[[], None] = lambda: None) -> None:
        """Forget a note and all that only it held; `pause` as above."""
        self.notes_changed = True
        note_id = self._value("SELECT id FROM note WHERE path = ?", (path,))
        if note_id is None:
            return
        self._run("DELETE FROM link WHERE note = ?", (note_id,))
        self._run("DELETE FROM message WHERE note = ?", (note_id,))
        self._forget_chunks([row[0] for row in self._rows("SELECT id FROM chunk WHERE note = ?", (note_id,))], pause)
        self._run("DELETE FROM note WHERE id = ?", (note_id,))

    def _put_note_row(self, note: Note, stamp: FileStamp, parsed_by: str) -> int:
        row = (
            note.path, note.kind, note.tier, note.title, note.date, note.session, note.importance, note.pinned,
            note.archived, _json(note.front_matter), _json(note.warnings),
            *stamp.identity, stamp.digest, stamp.stamped_ns, parsed_by, stamp.blob,
        )  # fmt: skip
        note_id: int = self._db.execute(_PUT_NOTE, row).get
        self._run(_DATE_NOTES, (_json([note.path]),))
        self._run("DELETE FROM link WHERE note = ?", (note_id,))
        links = [(note_id, link.target, link.anchor, link.label, link.line, link.wiki) for link in note.links]
        self._db.executemany("INSERT INTO link VALUES (?, ?, ?, ?, ?, ?)", links)
        return note_id

    def _put_tags(self, chunk_id: int, chunk: Chunk) -> None:
        names = {name for entry in chunk.entries for name in entry.tags}
        if names:
            self._db.executemany(
                "INSERT OR IGNORE INTO tag VALUES (?, ?)", [(name, chunk_id) for name in sorted(names)]
            )

    def _put_passage(self, digest: bytes, text: str) -> tuple[int, PutResult]:
        """Return the passage's id; a new one takes its vectors from the cache or waits for them."""
        known: int | None = self._value("SELECT id FROM passage WHERE hash = ?", (digest,))
        if known is not None:
            return known, PutResult(0, 0)
        self._run("INSERT INTO passage (hash) VALUES (?)", (digest,))
        passage_id = self._db.last_insert_rowid()
        queued = reused = 0
        for space, state in list(self._rows("SELECT id, state FROM space WHERE state <> 'retired'")):
            cached = self._value("SELECT value FROM vector WHERE hash = ? AND space = ?", (digest, space))
            if cached is None:
                queued_text = zlib.compress(text.encode(), _TEXT_LEVEL)
                self._run("INSERT INTO pending VALUES (?, ?, ?)", (space, passage_id, queued_text))
            else:
                self._insert_nearest(space, passage_id, cached)
            queued, reused = queued + (cached is None), reused + (cached is not None and state == "active")
        return passage_id, PutResult(queued, reused)

    def _forget_chunks(self, chunk_ids: Sequence[int], pause: Callable[[], None]) -> None:
        if not chunk_ids:
            return
        passages = set()
        for chunk_id in chunk_ids:
            pause()
            passage, form, count = self._value("SELECT passage, form, word_rows FROM chunk WHERE id = ?", (chunk_id,))
            if passage is not None:
                passages.add(passage)
            rows = [(row,) for row in word_rows(chunk_id, Form(form), count)]
            self._db.executemany("DELETE FROM chunk_fts WHERE rowid = ?", rows)
            self._run("DELETE FROM tag WHERE chunk = ?", (chunk_id,))
            self._run("DELETE FROM chunk WHERE id = ?", (chunk_id,))
        orphans = [row[0] for row in self._rows(_ORPHANS, (_json(sorted(passages)),))]
        spaces = [row[0] for row in self._rows("SELECT id FROM space WHERE state <> 'retired'")]
        for passage_id in orphans:
            pause()
            for space in spaces:
                self._run(f"DELETE FROM vec_{space} WHERE rowid = ?", (passage_id,))
            self._run("DELETE FROM pending WHERE passage = ?", (passage_id,))
            self._run("DELETE FROM passage WHERE id = ?", (passage_id,))

    def optimize_words(self) -> None:
        """Merge the word index into one segment."""
        self._run("INSERT INTO chunk_fts (chunk_fts) VALUES ('optimize')")


def word_rows(chunk_id: int, form: Form, count: int) -> range:
    """Return the numbers of a chunk's rows in the word index; those of a block count its entries from 1."""
    first = chunk_id * WORD_ROWS + (form is Form.BLOCK)
    return range(first, first + count)


def _word_columns(note: Note, chunk: Chunk) -> list[tuple[str, str, str, str]]:
    """Return what each of a chunk's rows in chunk_fts holds.

    Unspaced script has a column of its own: it would swallow `用SQLite`.
    """
    around = (heading_words(note, chunk), context_words(note, chunk))
    heading, context = (without_cjk(part) for part in around)
    return [
        (without_cjk(words), heading, context, cjk_words(" ".join((words, *around)))) for words in chunk.indexed_words
    ]


def _chunk_row(note_id: int, passage_id: int | None, words: bytes, chunk: Chunk) -> tuple[Any, ...]:
    times = sorted(time for entry in chunk.entries for time in (entry.time, *entry.later) if time)
    attributes = sorted({pair for entry in chunk.entries for pair in entry.attributes.items()})
    opening = struct.pack(f"<{len(chunk.opening)}H", *map(stem_number, chunk.opening))
    return (
        note_id, chunk.ordinal, str(chunk.form), passage_id, len(chunk.indexed_words), chunk.section, chunk.start_line,
        chunk.end_line, chunk.start_column, chunk.end_column, _json(chunk.heading_path), chunk.role,
        times[0] if times else "", times[-1] if times else "", _json(attributes),
        _json([_entry_row(entry) for entry in chunk.entries]), opening, words,
    )  # fmt: skip


def _entry_row(entry: Entry) -> list[Any]:
    """Return an entry's fields without the empty ones at the end: most entries are six numbers."""
    row: list[Any] = [*entry[:NUMBERS], entry.time, dict(entry.attributes), list(entry.tags), list(entry.later)]
    row.append(entry.speaker)
    while len(row) > NUMBERS and not row[-1]:
        row.pop()
    return row


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
