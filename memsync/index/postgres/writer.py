"""Write to the index of one memory within one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from memsync.index.postgres.copying import CHUNK_COLUMNS, copy_rows
from memsync.index.postgres.halfvec import halfvec_text
from memsync.index.postgres.local_state import KEPT_KEYS, TOKEN_KEY, State
from memsync.index.postgres.reader import PostgresReader
from memsync.index.postgres.rows import PostgresNote, PrivateNote, attribute_facts, path_key
from memsync.index.postgres.words import memory_word
from memsync.index.writing import SqlWriter
from memsync.model.grouped import grouped
from memsync.model.note import FileStamp
from memsync.model.query import EmbeddingSpace
from memsync.model.status import IndexedFile
from memsync.model.vocabulary import Form, NotePath

if TYPE_CHECKING:
    from memsync.ports import PreparedNote


_NOTE_COLUMNS = (
    "kind", "tier", "title", "date", "session", "importance", "pinned", "archived", "front_matter", "warnings",
    "fields", "size", "mtime_ns", "ctime_ns", "inode", "digest", "stamped_ns", "parsed_by", "blob", "committed",
    "content",
)  # fmt: skip
_PUT_NOTE = f"""
INSERT INTO note (root, path_key, path, {", ".join(_NOTE_COLUMNS)}, id)
VALUES (%s, %s, %s, {", ".join(["%s"] * len(_NOTE_COLUMNS))},
        (SELECT coalesce(max(id), 0) + 1 FROM note WHERE root = %s))
ON CONFLICT (root, path_key) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _NOTE_COLUMNS)}
RETURNING id, xmax <> 0
"""
_COLUMNS = CHUNK_COLUMNS[2:]
"""The columns of a chunk except root and id."""
_OLD_CHUNKS = f"""
SELECT c.id, coalesce(p.hash, ''::bytea), {", ".join(f"c.{name}" for name in _COLUMNS)}
FROM chunk c LEFT JOIN passage p ON p.root = c.root AND p.id = c.passage
WHERE c.root = %(root)s AND c.note = %(note)s ORDER BY c.ordinal DESC
"""
_UPDATE_CHUNK = f"""
UPDATE chunk SET ({", ".join(_COLUMNS)}) = ROW ({", ".join(["%s"] * len(_COLUMNS))}) WHERE root = %s AND id = %s
"""
# (id, hash) of those of :hashes that are passages already.
_KNOWN_PASSAGES = "SELECT id, hash FROM passage WHERE root = %(root)s AND hash = ANY (%(hashes)s)"
# (words) of the deleted rows of the word index.
_DELETE_WORD_ROWS = """
DELETE FROM word_row WHERE root = %(root)s AND chunk = ANY (%(ids)s) RETURNING tsvector_to_array(words)
"""
# Add :changes to the numbers of rows that have :words.
_COUNT_WORDS = """
INSERT INTO vocabulary
SELECT %(root)s, word, change FROM unnest(%(words)s::text[], %(changes)s::integer[]) c (word, change)
ON CONFLICT (root, word) DO UPDATE SET rows = vocabulary.rows + excluded.rows
"""
_FORGET_WORDS = "DELETE FROM vocabulary WHERE root = %(root)s AND word = ANY (%(words)s) AND rows = 0"
# (id) of those of :passages that no chunk uses any more.
_ORPHANS = """
SELECT old.passage FROM unnest(%(passages)s::bigint[]) old (passage)
WHERE NOT EXISTS (SELECT FROM chunk c WHERE c.root = %(root)s AND c.passage = old.passage)
"""
# (id, hash) of those of :passages that wait for a vector.
_WAITING = """
SELECT p.id, p.hash FROM pending w JOIN passage p ON p.root = w.root AND p.id = w.passage
WHERE w.root = %(root)s AND w.space = %(space)s AND w.passage = ANY (%(passages)s)
"""
_PUT_META = """
INSERT INTO meta (root, key, value) VALUES (%(root)s, %(key)s, %(value)s)
ON CONFLICT (root, key) DO UPDATE SET value = excluded.value
"""
_DATE_NOTES = """
UPDATE note n SET committed = d.committed FROM unnest(%(paths)s::text[], %(dates)s::bigint[]) d (path, committed)
WHERE n.root = %(root)s AND n.path = d.path AND n.committed <> d.committed
"""


class PostgresWriter(PostgresReader, SqlWriter):
    """The writing half of the Index port."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._word_changes = Counter[str]()
        self._local_meta: dict[str, str] = {}
        self._private = dict(self._state.private)
        self._new_history: Mapping[NotePath, tuple[bytes, int]] | None = None
        self._next_ids: dict[str, int] = {}

    def finish(self) -> None:
        """Write what was collected, and raise the generation unless the transaction is quiet."""
        self._count_words()
        if self._local_meta or self._new_history is not None or self._private != self._state.private:
            self._write_local_state()
        super().finish()

    def _write_local_state(self) -> None:
        state = self._state
        history = state.history if self._new_history is None else self._new_history
        new = State({**state.meta, **self._local_meta}, history, self._private)
        token = self._outside.local.write(self._meta.get(TOKEN_KEY, ""), new)
        self._put_meta(TOKEN_KEY, token)

    def private_stamps(self) -> Mapping[NotePath, IndexedFile]:
        """Return the stamps of the local-only notes, as this transaction has changed them."""
        return self._private

    def meta(self, key: str) -> str:
        """Return the value stored under a key, or an empty string."""
        return self._local_meta[key] if key in self._local_meta else super().meta(key)

    def history(self) -> Mapping[NotePath, tuple[bytes, int]]:
        """Return HEAD's history, as this transaction has replaced it."""
        return super().history() if self._new_history is None else self._new_history

    # ------------------------------------------------------------------------------------------- notes

    def put_note(self, note: PreparedNote, stamp: FileStamp, parsed_by: str) -> None:
        """Replace all rows of a note and its stamp.

        A chunk with unchanged words keeps its rows in the word index, because most edits change few chunks. Unused
        passages are deleted last, so that text that moved keeps its vector's row.
        """
        self.notes_changed = True
        if isinstance(note, PrivateNote):
            self._withdraw(note.path)
            self._private[note.path] = IndexedFile(*stamp.identity, stamp.digest, stamp.stamped_ns, parsed_by)
            return
        assert isinstance(note, PostgresNote)
        self._private.pop(note.path, None)
        note_id, is_known = self._put_note_row(note, stamp, parsed_by)
        copy_rows(self._db, "message", [(self._root, note_id, i, *row) for i, row in enumerate(note.rows.messages)])
        rows = self.rows(_OLD_CHUNKS, {"note": note_id}) if is_known else ()
        old = grouped(((row[1], row[2 + _COLUMNS.index("words")]), row) for row in rows)
        if old:
            self._note_removal()
        new = []
        for position, chunk in enumerate(note.rows.chunks):
            same = old.get((chunk.passage, chunk.words)) if old else None
            if same:
                self._move_chunk(same.pop(), note_id, note, position)
            else:
                new.append(position)
        self._put_chunks(note_id, note, new)
        self._forget_chunks([row for rows in old.values() for row in rows])

    def _put_note_row(self, note: PostgresNote, stamp: FileStamp, parsed_by: str) -> tuple[int, bool]:
        """Replace a note's row, links and facts, and delete its messages; return its id, and whether it was there."""
        rows = note.rows
        *about, pinned, archived, _, front_matter, warnings = rows.note
        values = [
            path_key(rows.path), rows.path, *about, bool(pinned), bool(archived), front_matter, warnings,
            list(note.fields),
            *stamp.identity, stamp.digest, stamp.stamped_ns, parsed_by, stamp.blob,
            self._committed(rows.path, stamp.blob), note.text,
        ]  # fmt: skip
        cursor = self._db.execute(_PUT_NOTE.encode(), [self._root, *values, self._root])
        note_id, is_known = cursor.fetchone() or (0, False)
        self.__dict__.pop("_ids", None)
        if is_known:
            for table in ("link", "message"):
                self._run(f"DELETE FROM {table} WHERE root = %(root)s AND note = %(note)s", {"note": note_id})
            self._run("DELETE FROM fact WHERE root = %(root)s AND note = %(note)s AND chunk = 0", {"note": note_id})
        links = [(self._root, note_id, *link[:4], bool(link[4])) for link in rows.links]
        copy_rows(self._db, "link", links)
        self._put_facts((note_id, 0, key, value) for key, value in note.facts)
        return int(note_id), bool(is_known)

    def _committed(self, path: NotePath, blob: bytes) -> int:
        """Return when a commit gave a note this content, in seconds since 1970; 0 if HEAD has other content."""
        known, committed = self.history().get(path, (b"", 0))
        return committed if known and known in (blob[:20], blob[20:]) else 0

    def _put_facts(self, facts: Iterable[tuple[int, int, str, str]]) -> None:
        """Insert (note, chunk, key, value), and each value without regard to case."""
        rows = [(self._root, note, chunk, key, value, value.lower()) for note, chunk, key, value in facts]
        copy_rows(self._db, "fact", rows)

    def _put_chunks(self, note_id: int, note: PostgresNote, positions: Sequence[int]) -> None:
        """Insert the chunks at some positions of a note with their words, tags, facts and passages."""
        chunks = note.rows.chunks
        passages = self._put_passages(chunks[p].passage for p in positions if chunks[p].passage)
        rows, words, tags, facts = [], list[tuple[Any, ...]](), list[tuple[Any, ...]](), []
        for position in positions:
            chunk, number = chunks[position], self._new_id("chunk")
            rows.append((self._root, number, *self._columns(note_id, note, position, passages.get(chunk.passage))))
            for item, row in enumerate(note.words[position], 1 if chunk.form == Form.GROUP else 0):
                words.append((self._root, number, item, row.length, row.vector(self._root)))
                self._word_changes.update(row.places.keys())
            tags += [(self._root, number, name) for name in _without_doubles(chunk.tags)]
            facts += [(note_id, number, key, value) for key, value in attribute_facts(chunk.content[12])]
        copy_rows(self._db, "chunk", rows)
        copy_rows(self._db, "word_row", words)
        copy_rows(self._db, "tag", tags)
        self._put_facts(facts)

    def _columns(self, note_id: int, note: PostgresNote, position: int, passage: int | None) -> tuple[Any, ...]:
        """Return the values of _COLUMNS for a chunk."""
        chunk = note.rows.chunks[position]
        return (note_id, chunk.ordinal, passage, *chunk.content, chunk.words, note.chunk_tokens[position])

    def _move_chunk(self, old: tuple[Any, ...], note_id: int, note: PostgresNote, position: int) -> None:
        """Update the row, tags and facts of a chunk with unchanged words, if its row differs.

        Its tags can change only together with its entries, which are part of its row.
        """
        chunk_id, _, *row = old
        chunk = note.rows.chunks[position]
        new = self._columns(note_id, note, position, row[2])
        if tuple(row) == new:
            return
        self._db.execute(_UPDATE_CHUNK.encode(), [*new, self._root, chunk_id])
        self._run("DELETE FROM tag WHERE root = %(root)s AND chunk = %(chunk)s", {"chunk": chunk_id})
        self._run("DELETE FROM fact WHERE root = %(root)s AND chunk = %(chunk)s", {"chunk": chunk_id})
        copy_rows(self._db, "tag", [(self._root, chunk_id, name) for name in _without_doubles(chunk.tags)])
        self._put_facts((note_id, chunk_id, key, value) for key, value in attribute_facts(chunk.content[12]))

    def put_stamp(self, path: NotePath, stamp: FileStamp) -> None:
        """Replace only a note's stamp."""
        self.notes_changed = True
        if (private := self._private.get(path)) is not None:
            known = IndexedFile(*stamp.identity, stamp.digest, stamp.stamped_ns, private.parsed_by)
            self._private[path] = known
            return
        self._db.execute(
            "UPDATE note SET size = %s, mtime_ns = %s, ctime_ns = %s, inode = %s, digest = %s, stamped_ns = %s"
            " WHERE root = %s AND path_key = %s",
            (*stamp.identity, stamp.digest, stamp.stamped_ns, self._root, path_key(path)),
        )

    def put_history(self, notes: Mapping[NotePath, tuple[bytes, int]]) -> None:
        """Replace HEAD's history, and set the dates of the notes."""
        self.quiet, self.notes_changed = False, True
        self._new_history = dict(notes)
        blobs = list(self.rows("SELECT path, blob FROM note WHERE root = %(root)s"))
        paths = [path for path, _ in blobs]
        self._run(_DATE_NOTES, {"paths": paths, "dates": [self._committed(*row) for row in blobs]})

    def delete_note(self, path: NotePath) -> None:
        """Delete a note and everything that only it used."""
        self.notes_changed = True
        if self._private.pop(path, None) is not None:
            self._note_removal()
            return
        statement = "SELECT id FROM note WHERE root = %(root)s AND path_key = %(key)s"
        note_id = self.value(statement, {"key": path_key(path)})
        if note_id is not None:
            self._delete_note(note_id)

    def _withdraw(self, path: NotePath) -> None:
        """Delete what the database has of a note that is local-only; a server's log learns nothing of others."""
        if path in self._private:
            return
        note_id = self._ids.pop(path_key(path), None)
        if note_id is not None:
            self._delete_note(note_id)

    @cached_property
    def _ids(self) -> dict[bytes, int]:
        """The id of each note by its key, read once: the server must not be asked for the name of a local-only note."""
        return dict(self.rows("SELECT path_key, id FROM note WHERE root = %(root)s"))

    def _delete_note(self, note_id: int) -> None:
        self._note_removal()
        self._forget_chunks(list(self.rows(_OLD_CHUNKS, {"note": note_id})))
        for table in ("link", "message", "fact"):
            self._run(f"DELETE FROM {table} WHERE root = %(root)s AND note = %(note)s", {"note": note_id})
        self._run("DELETE FROM note WHERE root = %(root)s AND id = %(note)s", {"note": note_id})

    def _put_passages(self, hashes: Iterable[bytes]) -> dict[bytes, int]:
        """Insert the new passages, which then wait for their vectors; return all ids."""
        wanted = list(dict.fromkeys(hashes))
        known = {digest: number for number, digest in self.rows(_KNOWN_PASSAGES, {"hashes": wanted})} if wanted else {}
        new = {digest: self._new_id("passage") for digest in wanted if digest not in known}
        copy_rows(self._db, "passage", [(self._root, number, digest) for digest, number in new.items()])
        spaces = "SELECT id FROM space WHERE root = %(root)s AND state <> 'retired'"  # as earlier versions left some
        for (space,) in list(self.rows(spaces)) if new else ():
            copy_rows(self._db, "pending", [(self._root, space, number) for number in new.values()])
        return {**known, **new}

    def _new_id(self, table: str) -> int:
        """Return the next number for a chunk or a passage."""
        if table not in self._next_ids:
            highest = self.value(f"SELECT coalesce(max(id), 0) FROM {table} WHERE root = %(root)s")
            self._next_ids[table] = int(highest) + 1
        number = self._next_ids[table]
        self._next_ids[table] = number + 1
        return number

    def _forget_chunks(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Delete chunks, given as rows of _OLD_CHUNKS, and the passages that only they have."""
        if not rows:
            return
        ids = [row[0] for row in rows]
        for (words,) in self.rows(_DELETE_WORD_ROWS, {"ids": ids}):
            self._word_changes.subtract(words)
        for table in ("tag", "fact"):
            self._run(f"DELETE FROM {table} WHERE root = %(root)s AND chunk = ANY (%(ids)s)", {"ids": ids})
        self._run("DELETE FROM chunk WHERE root = %(root)s AND id = ANY (%(ids)s)", {"ids": ids})
        passages = list({row[2 + _COLUMNS.index("passage")] for row in rows} - {None})
        orphans = [number for (number,) in self.rows(_ORPHANS, {"passages": passages})]
        for statement in (
            "DELETE FROM embedding e USING passage p WHERE e.root = %(root)s AND p.root = e.root AND p.hash = e.hash"
            " AND p.id = ANY (%(ids)s)",
            "DELETE FROM pending WHERE root = %(root)s AND passage = ANY (%(ids)s)",
            "DELETE FROM passage WHERE root = %(root)s AND id = ANY (%(ids)s)",
        ):
            self._run(statement, {"ids": orphans})

    # ------------------------------------------------------------------------------------------- words

    def _count_words(self) -> None:
        """Write how many rows have the words that came and went."""
        own = memory_word(self._root).strip("'")
        changes = {word: change for word, change in sorted(self._word_changes.items()) if change and word != own}
        self._word_changes.clear()
        if changes:
            self._run(_COUNT_WORDS, {"words": list(changes), "changes": list(changes.values())})
            self._run(_FORGET_WORDS, {"words": [word for word, change in changes.items() if change < 0]})

    # ------------------------------------------------------------------------------------------ spaces

    def _add_space(self, space: EmbeddingSpace, state: str) -> int:
        number: int = self.value(
            "INSERT INTO space (root, id, name, description, dimension, state) VALUES (%(root)s,"
            " (SELECT coalesce(max(id), 0) + 1 FROM space WHERE root = %(root)s),"
            " %(name)s, %(description)s, %(dimension)s, %(state)s)"
            " ON CONFLICT (root, name) DO UPDATE SET state = excluded.state RETURNING id",
            {"name": space.name, "description": space.description, "dimension": space.dimension, "state": state},
        )
        return number

    def _queue_all(self, number: int) -> None:
        self._run(
            "INSERT INTO pending (root, space, passage) SELECT root, %(space)s, id FROM passage WHERE root = %(root)s",
            {"space": number},
        )

    def _put_values(self, number: int, values: Mapping[tuple[int, bytes], bytes]) -> int:
        parameters = {"space": number, "passages": [passage_id for passage_id, _ in values]}
        waiting = {(row[0], row[1]) for row in self.rows(_WAITING, parameters)} & values.keys()
        if not waiting:
            return 0
        for among, gone in (
            ("pending WHERE root = %(root)s AND space = %(space)s AND passage", [passage for passage, _ in waiting]),
            ("embedding WHERE root = %(root)s AND space = %(space)s AND hash", [digest for _, digest in waiting]),
        ):
            self._run(f"DELETE FROM {among} = ANY (%(gone)s)", {"space": number, "gone": gone})
        rows = [
            (self._root, number, digest, passage, len(value) // 2, halfvec_text(value))
            for (passage, digest), value in values.items()
            if (passage, digest) in waiting
        ]
        copy_rows(self._db, "embedding", rows)
        return len(waiting)

    def _activate(self, space: EmbeddingSpace) -> None:
        self._run("UPDATE space SET state = 'active' WHERE root = %(root)s AND name = %(name)s", {"name": space.name})

    def _remove_space(self, number: int) -> None:
        for statement in (
            "DELETE FROM embedding WHERE root = %(root)s AND space = %(space)s",
            "DELETE FROM pending WHERE root = %(root)s AND space = %(space)s",
            "DELETE FROM space WHERE root = %(root)s AND id = %(space)s",
        ):
            self._run(statement, {"space": number})

    # ------------------------------------------------------------------------------------------ private

    def _put_meta(self, key: str, value: str) -> None:
        if key in KEPT_KEYS:
            self._local_meta[key] = value
            return
        self._run(_PUT_META, {"key": key, "value": value})
        self._meta[key] = value

    def _run(self, statement: str, parameters: Mapping[str, Any]) -> None:
        self._db.execute(statement.encode(), self._named(parameters))


def _without_doubles(tags: Iterable[str]) -> list[str]:
    """Return tags without those that differ only in the case of ASCII letters from an earlier one."""
    kept: dict[bytes, str] = {}
    for name in tags:
        kept.setdefault(name.encode().lower(), name)
    return list(kept.values())
