"""Write to the index within one transaction."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memsync.index.rows import ChunkRows, NoteRows, to_json
from memsync.index.sqlite.queries import GROUP_ROWS, MAX_ITEMS
from memsync.index.sqlite.reader import SqliteReader
from memsync.index.sqlite.schema import nearest_table
from memsync.index.vectors import to_int8
from memsync.index.writing import SqlWriter
from memsync.model.grouped import grouped
from memsync.model.note import FileStamp
from memsync.model.query import EmbeddingSpace
from memsync.model.vocabulary import Form, NotePath

if TYPE_CHECKING:
    from memsync.ports import PreparedNote

_TEXT_LEVEL = 1
_SHORT_TEXT_BYTES = 1_000
"""Do not compress shorter texts: zlib would take longer than all other work on them, and they are not kept for long."""

_PUT_NOTE = """
INSERT INTO note (path, kind, tier, title, date, session, importance, pinned, archived, local_only,
                  front_matter, warnings, size, mtime_ns, ctime_ns, inode, digest, stamped_ns, parsed_by, blob)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (path) DO UPDATE SET
    kind = excluded.kind, tier = excluded.tier, title = excluded.title, date = excluded.date,
    session = excluded.session, importance = excluded.importance, pinned = excluded.pinned,
    archived = excluded.archived, local_only = excluded.local_only, front_matter = excluded.front_matter,
    warnings = excluded.warnings, size = excluded.size,
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
    heading_path, role, origin, first_time, last_time, attributes, entries, opening, words"""
_OLD_CHUNKS = f"""
SELECT c.id, coalesce(p.hash, x''), {_CHUNK_COLUMNS} FROM chunk c LEFT JOIN passage p ON p.id = c.passage
WHERE c.note = ? ORDER BY c.ordinal DESC
"""
_INSERT_PASSAGE = "INSERT OR IGNORE INTO passage (id, hash, local_only) VALUES (?, ?, ?)"
_INSERT_CHUNK = f"""
INSERT INTO chunk (id, {_CHUNK_COLUMNS})
VALUES (?, ?, ?, (SELECT id FROM passage WHERE hash = ?), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_UPDATE_CHUNK = f"UPDATE chunk SET ({_CHUNK_COLUMNS}) = (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) WHERE id = ?"
_INSERT_WORDS = "INSERT INTO chunk_fts (rowid, body, heading, context, cjk) VALUES (?, ?, ?, ?, ?)"
_INSERT_TAG = "INSERT OR IGNORE INTO tag VALUES (?, ?)"
_NEW_PASSAGES = "SELECT id, hash FROM passage WHERE id >= ?"
# Passages that no chunk uses any more.
_ORPHANS = """
SELECT p.id FROM passage p WHERE p.id IN (SELECT value FROM json_each(?))
AND NOT EXISTS (SELECT 1 FROM chunk c WHERE c.passage = p.id)
"""
# (id, hash) of those of :passages that wait for a vector.
_WAITING = """
SELECT p.id, p.hash FROM pending w JOIN passage p ON p.id = w.passage
WHERE w.space = :space AND w.passage IN (SELECT value FROM json_each(:passages))
"""
_INSERT_MESSAGE = "INSERT INTO message VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class SqliteWriter(SqliteReader, SqlWriter):
    """The writing half of the Index port."""

    # ------------------------------------------------------------------------------------------- notes

    def put_note(self, note: PreparedNote, stamp: FileStamp, parsed_by: str) -> None:
        """Replace all rows of a note and its stamp.

        A chunk with unchanged words keeps its row in the word index, because most edits change few chunks. Unused
        passages are deleted last, so that text that moved keeps its vector's row.
        """
        assert isinstance(note, NoteRows)
        self.notes_changed = True
        note_id = self._put_note_row(note, stamp, parsed_by)
        self._db.execute("DELETE FROM message WHERE note = ?", (note_id,))
        self._db.executemany(_INSERT_MESSAGE, ((note_id, i, *row) for i, row in enumerate(note.messages)))
        old = grouped(((row[1], row[-1]), row) for row in self.rows(_OLD_CHUNKS, (note_id,)))
        if old:
            self._note_removal()
        new = []
        for chunk in note.chunks:
            same = old.get((chunk.passage, chunk.words)) if old else None
            if same:
                self._move_chunk(same.pop(), chunk)
            else:
                new.append(chunk)
        self._put_chunks(note_id, new, local_only=note.local_only)
        self._forget_chunks([row[0] for rows in old.values() for row in rows])

    def _remote_spaces(self) -> list[int]:
        """Return the numbers of the spaces in use whose model may run on another machine."""
        rows = self.rows("SELECT id, description FROM space")
        return [number for number, description in rows if EmbeddingSpace.described(description).is_remote]

    def _put_chunks(self, note_id: int, chunks: Sequence[ChunkRows], *, local_only: bool) -> None:
        """Insert chunks with their words, tags and passages, one statement per table."""
        self._put_passages({chunk.passage: chunk.text for chunk in chunks if chunk.passage}, local_only=local_only)
        numbered = list(enumerate(chunks, self._next_id("chunk")))
        self._db.executemany(
            _INSERT_CHUNK, ((number, note_id, c.ordinal, c.passage, *c.content, c.words) for number, c in numbered)
        )
        self._db.executemany(
            _INSERT_WORDS,
            (
                (row, *columns)
                for number, chunk in numbered
                for row, columns in zip(word_rows(number, chunk.form, len(chunk.columns)), chunk.columns, strict=True)
            ),
        )
        self._db.executemany(_INSERT_TAG, ((name, number) for number, chunk in numbered for name in chunk.tags))

    def _move_chunk(self, old: tuple[Any, ...], chunk: ChunkRows) -> None:
        """Update the row and tags of a chunk with unchanged words, if its row differs.

        Its tags can change only together with its entries, which are part of its row.
        """
        chunk_id, _, *row = old
        new = (row[0], chunk.ordinal, row[2], *chunk.content, chunk.words)
        if tuple(row) != new:
            self._db.execute(_UPDATE_CHUNK, (*new, chunk_id))
            self._db.execute("DELETE FROM tag WHERE chunk = ?", (chunk_id,))
            self._db.executemany(_INSERT_TAG, ((name, chunk_id) for name in chunk.tags))

    def put_stamp(self, path: NotePath, stamp: FileStamp) -> None:
        """Replace only a note's stamp."""
        self.notes_changed = True
        self._db.execute(
            "UPDATE note SET size = ?, mtime_ns = ?, ctime_ns = ?, inode = ?, digest = ?, stamped_ns = ?"
            " WHERE path = ?",
            (*stamp.identity, stamp.digest, stamp.stamped_ns, path),
        )

    def put_history(self, notes: Mapping[NotePath, tuple[bytes, int]]) -> None:
        """Replace HEAD's history, and set the dates of the notes whose history changed."""
        self.quiet, self.notes_changed = False, True
        old = self.history()
        gone = [path for path in old if path not in notes]
        new = [(path, *entry) for path, entry in notes.items() if old.get(path) != entry]
        self._db.executemany("DELETE FROM history WHERE path = ?", [(path,) for path in gone])
        self._db.executemany(_PUT_COMMITTED, new)
        self._db.execute(_DATE_NOTES, (to_json([*gone, *(path for path, _, _ in new)]),))

    def delete_note(self, path: NotePath) -> None:
        """Delete a note and everything that only it used."""
        self.notes_changed = True
        note_id = self.value("SELECT id FROM note WHERE path = ?", (path,))
        if note_id is None:
            return
        self._note_removal()
        self._db.execute("DELETE FROM link WHERE note = ?", (note_id,))
        self._db.execute("DELETE FROM message WHERE note = ?", (note_id,))
        self._forget_chunks([row[0] for row in self.rows("SELECT id FROM chunk WHERE note = ?", (note_id,))])
        self._db.execute("DELETE FROM note WHERE id = ?", (note_id,))

    def _put_note_row(self, rows: NoteRows, stamp: FileStamp, parsed_by: str) -> int:
        row = (
            rows.path, *rows.note, *stamp.identity, stamp.digest, stamp.stamped_ns, parsed_by, stamp.blob,
        )  # fmt: skip
        note_id: int = self._db.execute(_PUT_NOTE, row).get
        self._db.execute(_DATE_NOTES, (to_json([rows.path]),))
        self._db.execute("DELETE FROM link WHERE note = ?", (note_id,))
        self._db.executemany("INSERT INTO link VALUES (?, ?, ?, ?, ?, ?)", ((note_id, *link) for link in rows.links))
        return note_id

    def _put_passages(self, texts: Mapping[bytes, str], *, local_only: bool) -> None:
        """Insert the new passages, which then wait for their vectors, local-only ones in no remote space."""
        first = self._next_id("passage")
        rows = ((number, digest, local_only) for number, digest in enumerate(texts, first))
        self._db.executemany(_INSERT_PASSAGE, rows)
        new = [(number, _packed(texts[digest])) for number, digest in self.rows(_NEW_PASSAGES, (first,))]
        closed = self._remote_spaces() if local_only else ()
        for space in self._space_numbers() if new else ():
            if space not in closed:
                self._db.executemany("INSERT INTO pending VALUES (?, ?, ?)", ((space, *passage) for passage in new))

    def _space_numbers(self) -> list[int]:
        return [number for (number,) in self.rows("SELECT id FROM space")]

    def _next_id(self, table: str) -> int:
        return int(self.value(f"SELECT coalesce(max(id), 0) + 1 FROM {table}"))

    def _forget_chunks(self, chunk_ids: Sequence[int]) -> None:
        if not chunk_ids:
            return
        passages = set()
        for chunk_id in chunk_ids:
            passage, form, count = self.value("SELECT passage, form, word_rows FROM chunk WHERE id = ?", (chunk_id,))
            if passage is not None:
                passages.add(passage)
            rows = [(row,) for row in word_rows(chunk_id, form, count)]
            self._db.executemany("DELETE FROM chunk_fts WHERE rowid = ?", rows)
            self._db.execute("DELETE FROM tag WHERE chunk = ?", (chunk_id,))
            self._db.execute("DELETE FROM chunk WHERE id = ?", (chunk_id,))
        orphans = [row[0] for row in self.rows(_ORPHANS, (to_json(sorted(passages)),))]
        spaces = self._space_numbers()
        for passage_id in orphans:
            for space in spaces:
                self._db.execute(f"DELETE FROM vec_{space} WHERE rowid = ?", (passage_id,))
                self._db.execute("DELETE FROM vector WHERE space = ? AND passage = ?", (space, passage_id))
            self._db.execute("DELETE FROM pending WHERE passage = ?", (passage_id,))
            self._db.execute("DELETE FROM passage WHERE id = ?", (passage_id,))

    def optimize_words(self) -> None:
        """Merge the word index into one segment."""
        self._db.execute("INSERT INTO chunk_fts (chunk_fts) VALUES ('optimize')")

    # ------------------------------------------------------------------------------------------ spaces

    def _add_space(self, space: EmbeddingSpace, state: str) -> int:
        number: int = self._db.execute(
            "INSERT INTO space (name, description, dimension, state) VALUES (?, ?, ?, ?) RETURNING id",
            (space.name, space.description, space.dimension, state),
        ).get
        self._create_nearest(number, space.dimension)
        return number

    def _put_values(self, number: int, values: Mapping[tuple[int, bytes], bytes]) -> int:
        passages = json.dumps([passage_id for passage_id, _ in values])
        rows = self.rows(_WAITING, {"space": number, "passages": passages})
        waiting = [(passage, value) for passage, digest in rows if (value := values.get((passage, digest))) is not None]
        done = [(number, passage) for passage, _ in waiting]
        self._db.executemany("DELETE FROM pending WHERE space = ? AND passage = ?", done)
        self._db.executemany("INSERT INTO vector VALUES (?, ?, ?)", ((number, *vector) for vector in waiting))
        self._insert_nearest(number, waiting)
        return len(waiting)

    def _activate(self, space: EmbeddingSpace) -> None:
        self._db.execute("UPDATE space SET state = 'active' WHERE name = ?", (space.name,))

    def compact_vectors(self, chunk_rows: int) -> None:
        """Rebuild each vec0 table in which less than half of the allocated rows are live."""
        for number, dimension in list(self.rows("SELECT id, dimension FROM space")):
            live = self.value(f"SELECT count(*) FROM vec_{number}_rowids")
            allocated = self.value(f"SELECT count(*) FROM vec_{number}_chunks") * chunk_rows
            if allocated > 2 * live + chunk_rows:
                self._db.execute(f"DROP TABLE vec_{number}")
                self._create_nearest(number, dimension)
                vectors = "SELECT passage, value FROM vector WHERE space = ? ORDER BY passage"
                self._insert_nearest(number, list(self.rows(vectors, (number,))))

    def _remove_space(self, number: int) -> None:
        self._db.execute(f"DROP TABLE vec_{number}")
        for table in ("vector", "pending"):
            self._db.execute(f"DELETE FROM {table} WHERE space = ?", (number,))
        self._db.execute("DELETE FROM space WHERE id = ?", (number,))

    def _create_nearest(self, number: int, dimension: int) -> None:
        self._db.execute(nearest_table(number, dimension))

    def _queue_all(self, number: int) -> None:
        is_remote = number in self._remote_spaces()
        statement = "INSERT INTO pending SELECT ?, id, NULL FROM passage WHERE NOT (local_only AND ?)"
        self._db.execute(statement, (number, is_remote))

    def _insert_nearest(self, number: int, values: Iterable[tuple[int, bytes]]) -> None:
        rows = ((passage_id, to_int8(value)) for passage_id, value in values)
        self._db.executemany(f"INSERT INTO vec_{number} (rowid, embedding) VALUES (?, vec_int8(?))", rows)

    def _put_meta(self, key: str, value: str) -> None:
        self._db.execute(
            "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, value)
        )


def word_rows(chunk_id: int, form: str, count: int) -> range:
    """Return the numbers of a chunk's rows in the word index; a group has a row for each entry, counted from 1."""
    first = GROUP_ROWS + MAX_ITEMS * chunk_id + 1 if form == Form.GROUP else chunk_id
    return range(first, first + count)


def _packed(text: str) -> bytes:
    """Return a text as zlib data, to keep until it has a vector; a short text is not compressed."""
    content = text.encode()
    return zlib.compress(content, _TEXT_LEVEL if len(content) > _SHORT_TEXT_BYTES else 0)
