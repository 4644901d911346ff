"""Write to the index within one transaction."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memsync.index.sqlite.messages import put_messages
from memsync.index.sqlite.queries import GROUP_ROWS, MOST_ITEMS
from memsync.index.sqlite.rows import ChunkRows, NoteRows, to_json
from memsync.index.sqlite.spaces import SpaceWriter
from memsync.model.note import FileStamp
from memsync.model.status import PutResult
from memsync.model.vocabulary import Form, NotePath

if TYPE_CHECKING:
    from memsync.ports import PreparedNote

_TEXT_LEVEL = 1
_SHORT_TEXT_BYTES = 1_000
"""Do not compress shorter texts: zlib would take longer than all other work on them, and they are not kept for long."""
_CHUNKS_AT_ONCE = 200
"""Call `pause` after so many chunks: every few milliseconds."""

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
# Set the notes' dates from HEAD's history, where it has exactly the note's content.
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
_CHUNK_COLUMNS = """note, ordinal, passage, form, word_rows, section, start_line, end_line, start_column, end_column,
    heading_path, role, first_time, last_time, attributes, entries, opening, words"""
_OLD_CHUNKS = f"""
SELECT c.id, coalesce(p.hash, x''), {_CHUNK_COLUMNS} FROM chunk c LEFT JOIN passage p ON p.id = c.passage
WHERE c.note = ? ORDER BY c.ordinal DESC
"""
_INSERT_PASSAGE = "INSERT OR IGNORE INTO passage (id, hash) VALUES (?, ?)"
_INSERT_CHUNK = f"""
INSERT INTO chunk (id, {_CHUNK_COLUMNS})
VALUES (?, ?, ?, (SELECT id FROM passage WHERE hash = ?), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_UPDATE_CHUNK = f"UPDATE chunk SET ({_CHUNK_COLUMNS}) = (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) WHERE id = ?"
_INSERT_WORDS = "INSERT INTO chunk_fts (rowid, body, heading, context, cjk) VALUES (?, ?, ?, ?, ?)"
_INSERT_TAG = "INSERT OR IGNORE INTO tag VALUES (?, ?)"
_NEW_PASSAGES = "SELECT id, hash FROM passage WHERE id >= ?"
# (passage, float16 vector) of the new passages that have a vector in a space.
_CACHED = """
SELECT p.id, v.value FROM passage p JOIN vector v ON v.hash = p.hash AND v.space = ? WHERE p.id >= ? ORDER BY p.id
"""
# Passages that no chunk uses any more.
_ORPHANS = """
SELECT p.id FROM passage p WHERE p.id IN (SELECT value FROM json_each(?))
AND NOT EXISTS (SELECT 1 FROM chunk c WHERE c.passage = p.id)
"""


class SqliteWriter(SpaceWriter):
    """The writing half of the Index port."""

    quiet = False
    """True if this transaction wrote nothing that a reader may have cached."""
    notes_changed = False
    """True if this transaction changed more than vectors."""

    def finish(self) -> None:
        """Raise the generation, so that readers notice the change; a quiet transaction leaves it as it is."""
        if self.quiet:
            return
        generation = str(self.generation() + 1)
        self._put_meta("generation", generation)
        if self.notes_changed:
            self._put_meta("notes_generation", generation)

    def set_last_sync(self, moment: str) -> None:
        """Store when the files were last compared. As the only change of a transaction, it keeps the generation."""
        self.quiet = True
        self._put_meta("last_sync", moment)

    def set_meta(self, key: str, value: str, *, quiet: bool = False) -> None:
        """Store a small value under a key. If `quiet` and the only change of a transaction, it keeps the generation."""
        self.quiet, self.notes_changed = quiet, not quiet
        self._put_meta(key, value)

    # ------------------------------------------------------------------------------------------- notes

    def put_note(
        self, note: PreparedNote, stamp: FileStamp, parsed_by: str, pause: Callable[[], None] = lambda: None
    ) -> PutResult:
        """Replace all rows of a note and its stamp. Calls `pause` before each step; it may raise to stop the work.

        A chunk with unchanged words keeps its row in the word index, because most edits change few chunks. Unused
        passages are deleted last, so that text that moved keeps its vector's row.
        """
        assert isinstance(note, NoteRows)
        self.notes_changed = True
        note_id = self._put_note_row(note, stamp, parsed_by)
        put_messages(self._db, note_id, note.messages)
        old: dict[tuple[bytes, bytes], list[tuple[Any, ...]]] = {}
        for row in list(self._rows(_OLD_CHUNKS, (note_id,))):
            old.setdefault((row[1], row[-1]), []).append(row)
        new = []
        for chunk in note.chunks:
            same = old.get((chunk.passage, chunk.words)) if old else None
            if same:
                pause()
                self._move_chunk(same.pop(), chunk)
            else:
                new.append(chunk)
        queued = reused = 0
        for start in range(0, len(new), _CHUNKS_AT_ONCE):
            pause()
            result = self._put_chunks(note_id, new[start : start + _CHUNKS_AT_ONCE])
            queued, reused = queued + result.queued, reused + result.reused
        self._forget_chunks([row[0] for rest in old.values() for row in rest], pause)
        return PutResult(queued, reused)

    def _put_chunks(self, note_id: int, chunks: Sequence[ChunkRows]) -> PutResult:
        """Insert chunks with their words, tags and passages, one statement per table."""
        result = self._put_passages({chunk.passage: chunk.text for chunk in chunks if chunk.passage})
        numbered = list(enumerate(chunks, self._next_id("chunk")))
        self._many(
            _INSERT_CHUNK,
            ((number, note_id, c.ordinal, c.passage, *c.content, c.words) for number, c in numbered),
        )
        self._many(
            _INSERT_WORDS,
            (
                (row, *columns)
                for number, chunk in numbered
                for row, columns in zip(word_rows(number, chunk.form, len(chunk.columns)), chunk.columns, strict=True)
            ),
        )
        self._many(_INSERT_TAG, ((name, number) for number, chunk in numbered for name in chunk.tags))
        return result

    def _move_chunk(self, old: tuple[Any, ...], chunk: ChunkRows) -> None:
        """Update the row and tags of a chunk with unchanged words, if its row differs.

        Its tags can change only together with its entries, which are part of its row.
        """
        chunk_id, _, *row = old
        new = (row[0], chunk.ordinal, row[2], *chunk.content, chunk.words)
        if tuple(row) != new:
            self._run(_UPDATE_CHUNK, (*new, chunk_id))
            self._run("DELETE FROM tag WHERE chunk = ?", (chunk_id,))
            self._many(_INSERT_TAG, ((name, chunk_id) for name in chunk.tags))

    def put_stamp(self, path: NotePath, stamp: FileStamp) -> None:
        """Replace only a note's stamp."""
        self.notes_changed = True
        self._run(
            "UPDATE note SET size = ?, mtime_ns = ?, ctime_ns = ?, inode = ?, digest = ?, stamped_ns = ?"
            " WHERE path = ?",
            (*stamp.identity, stamp.digest, stamp.stamped_ns, path),
        )

    def put_history(self, notes: Mapping[NotePath, tuple[bytes, int]]) -> None:
        """Replace HEAD's history, and set the dates of the notes whose history changed."""
        self.quiet, self.notes_changed = False, True
        known = self.history()
        gone = [path for path in known if path not in notes]
        new = [(path, *entry) for path, entry in notes.items() if known.get(path) != entry]
        self._db.executemany("DELETE FROM history WHERE path = ?", [(path,) for path in gone])
        self._db.executemany(_PUT_COMMITTED, new)
        self._run(_DATE_NOTES, (to_json([*gone, *(path for path, _, _ in new)]),))

    def delete_note(self, path: NotePath, pause: Callable[[], None] = lambda: None) -> None:
        """Delete a note and everything that only it used; `pause` is as in `put_note`."""
        self.notes_changed = True
        note_id = self._value("SELECT id FROM note WHERE path = ?", (path,))
        if note_id is None:
            return
        self._run("DELETE FROM link WHERE note = ?", (note_id,))
        self._run("DELETE FROM message WHERE note = ?", (note_id,))
        self._forget_chunks([row[0] for row in self._rows("SELECT id FROM chunk WHERE note = ?", (note_id,))], pause)
        self._run("DELETE FROM note WHERE id = ?", (note_id,))

    def _put_note_row(self, rows: NoteRows, stamp: FileStamp, parsed_by: str) -> int:
        row = (
            rows.path, *rows.note, *stamp.identity, stamp.digest, stamp.stamped_ns, parsed_by, stamp.blob,
        )  # fmt: skip
        note_id: int = self._db.execute(_PUT_NOTE, row).get
        self._run(_DATE_NOTES, (to_json([rows.path]),))
        self._run("DELETE FROM link WHERE note = ?", (note_id,))
        self._many("INSERT INTO link VALUES (?, ?, ?, ?, ?, ?)", ((note_id, *link) for link in rows.links))
        return note_id

    def _put_passages(self, texts: Mapping[bytes, str]) -> PutResult:
        """Insert the new passages; each gets its vectors from the cache or waits for them."""
        first = self._next_id("passage")
        self._many(_INSERT_PASSAGE, enumerate(texts, first))
        new = dict(self._rows(_NEW_PASSAGES, (first,)))
        queued = reused = 0
        for space, state in list(self._rows("SELECT id, state FROM space WHERE state <> 'retired'")) if new else ():
            cached = dict(self._rows(_CACHED, (space, first)))
            self._insert_nearest(space, cached.items())
            waiting = [
                (space, number, _packed(texts[digest])) for number, digest in new.items() if number not in cached
            ]
            self._many("INSERT INTO pending VALUES (?, ?, ?)", waiting)
            queued, reused = queued + len(waiting), reused + (len(cached) if state == "active" else 0)
        return PutResult(queued, reused)

    def _next_id(self, table: str) -> int:
        """Return the id after the highest id of a table."""
        return int(self._value(f"SELECT coalesce(max(id), 0) + 1 FROM {table}"))

    def _forget_chunks(self, chunk_ids: Sequence[int], pause: Callable[[], None]) -> None:
        if not chunk_ids:
            return
        passages = set()
        for chunk_id in chunk_ids:
            pause()
            passage, form, count = self._value("SELECT passage, form, word_rows FROM chunk WHERE id = ?", (chunk_id,))
            if passage is not None:
                passages.add(passage)
            rows = [(row,) for row in word_rows(chunk_id, form, count)]
            self._many("DELETE FROM chunk_fts WHERE rowid = ?", rows)
            self._run("DELETE FROM tag WHERE chunk = ?", (chunk_id,))
            self._run("DELETE FROM chunk WHERE id = ?", (chunk_id,))
        orphans = [row[0] for row in self._rows(_ORPHANS, (to_json(sorted(passages)),))]
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


def word_rows(chunk_id: int, form: str, count: int) -> range:
    """Return the numbers of a chunk's rows in the word index; a group has a row for each entry, counted from 1."""
    first = GROUP_ROWS + MOST_ITEMS * chunk_id + 1 if form == Form.GROUP else chunk_id
    return range(first, first + count)


def _packed(text: str) -> bytes:
    """Return a text as zlib data, to keep until it has a vector; a short text is not compressed."""
    content = text.encode()
    return zlib.compress(content, _TEXT_LEVEL if len(content) > _SHORT_TEXT_BYTES else 0)
