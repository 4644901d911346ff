"""Write to the index of one memory within one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from memsync.index.postgres.copying import copy_rows
from memsync.index.postgres.halfvec import halfvec_text
from memsync.index.postgres.local_state import KEPT_KEYS, TOKEN_KEY, State
from memsync.index.postgres.reader import PostgresReader
from memsync.index.postgres.rows import PostgresNote, PrivateNote, attribute_facts, path_key
from memsync.index.postgres.words import memory_word
from memsync.index.writing import SqlWriter
from memsync.model.note import FileStamp
from memsync.model.query import EmbeddingSpace
from memsync.model.status import IndexedFile
from memsync.model.vocabulary import Form, NotePath

if TYPE_CHECKING:
    from memsync.ports import PreparedNote


_NOTE_COLUMNS = (
    "root", "id", "path_key", "path", "kind", "tier", "title", "date", "session", "importance", "pinned", "archived",
    "front_matter", "warnings", "fields", "size", "mtime_ns", "ctime_ns", "inode", "digest", "stamped_ns", "parsed_by",
    "blob", "committed", "content",
)  # fmt: skip
_PUT_NOTE = f"INSERT INTO note ({', '.join(_NOTE_COLUMNS)}) VALUES ({', '.join(['%s'] * len(_NOTE_COLUMNS))})"
# (id, hash) of those of :hashes that are passages already.
_KNOWN_PASSAGES = "SELECT id, hash FROM passage WHERE root = %(root)s AND hash = ANY (%(hashes)s)"
# (id) of the deleted note.
_DELETE_NOTE = "DELETE FROM note WHERE root = %(root)s AND path_key = %(key)s RETURNING id"
# (id, passage) of its deleted chunks.
_DELETE_CHUNKS = "DELETE FROM chunk WHERE root = %(root)s AND note = %(note)s RETURNING id, passage"
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

        Unused passages are deleted last, so that text that stays or moves keeps its vector's row.
        """
        self.notes_changed = True
        if isinstance(note, PrivateNote):
            # Forget what the database has of a note that is local-only now; its log learns no other names.
            if note.path not in self._private and path_key(note.path) in self._path_keys:
                self._forget_passages(self._take_out(note.path))
            self._private[note.path] = IndexedFile(*stamp.identity, stamp.digest, stamp.stamped_ns, parsed_by)
            return
        assert isinstance(note, PostgresNote)
        self._private.pop(note.path, None)
        old_passages = self._take_out(note.path)
        note_id = self._put_note_row(note, stamp, parsed_by)
        copy_rows(self._db, "message", [(self._root, note_id, i, *row) for i, row in enumerate(note.rows.messages)])
        copy_rows(self._db, "link", [(self._root, note_id, *link[:4], bool(link[4])) for link in note.rows.links])
        self._put_chunks(note_id, note)
        self._forget_passages(old_passages)

    def _put_note_row(self, note: PostgresNote, stamp: FileStamp, parsed_by: str) -> int:
        """Insert a note's row, and return its id."""
        rows, note_id = note.rows, self._new_id("note")
        *about, pinned, archived, _, front_matter, warnings = rows.note
        values = [
            self._root, note_id, path_key(rows.path), rows.path, *about, bool(pinned), bool(archived), front_matter,
            warnings, list(note.fields), *stamp.identity, stamp.digest, stamp.stamped_ns, parsed_by, stamp.blob,
            self._committed(rows.path, stamp.blob), note.text,
        ]  # fmt: skip
        self._db.execute(_PUT_NOTE.encode(), values)
        self.__dict__.pop("_path_keys", None)
        return note_id

    def _committed(self, path: NotePath, blob: bytes) -> int:
        """Return when a commit gave a note this content, in seconds since 1970; 0 if HEAD has other content."""
        known, committed = self.history().get(path, (b"", 0))
        return committed if known and known in (blob[:20], blob[20:]) else 0

    def _put_chunks(self, note_id: int, note: PostgresNote) -> None:
        """Insert the chunks of a note with their words, tags, facts and passages, and the note's own facts."""
        passages = self._put_passages(chunk.passage for chunk in note.rows.chunks if chunk.passage)
        rows, words, tags = [], list[tuple[Any, ...]](), list[tuple[Any, ...]]()
        facts = [(0, key, value) for key, value in note.facts]
        for chunk, tokens, of_rows in zip(note.rows.chunks, note.chunk_tokens, note.words, strict=True):
            number, passage = self._new_id("chunk"), passages.get(chunk.passage)
            rows.append((self._root, number, note_id, chunk.ordinal, passage, *chunk.content, chunk.words, tokens))
            for item, row in enumerate(of_rows, 1 if chunk.form == Form.GROUP else 0):
                words.append((self._root, number, item, row.length, row.vector(self._root)))
                self._word_changes.update(row.places.keys())
            tags += [(self._root, number, name) for name in _without_doubles(chunk.tags)]
            facts += [(number, key, value) for key, value in attribute_facts(chunk.content[12])]
        copy_rows(self._db, "chunk", rows)
        copy_rows(self._db, "word_row", words)
        copy_rows(self._db, "tag", tags)
        copy_rows(self._db, "fact", [(self._root, note_id, *fact, fact[2].lower()) for fact in facts])

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
        self._forget_passages(self._take_out(path))

    @cached_property
    def _path_keys(self) -> set[bytes]:
        """The keys of all notes, read once: the server must not be asked for the name of a local-only note."""
        return {key for (key,) in self.rows("SELECT path_key FROM note WHERE root = %(root)s")}

    def _take_out(self, path: NotePath) -> list[int]:
        """Delete all rows of a note, if there are any, but the passages: return these."""
        note_id = self.value(_DELETE_NOTE, {"key": path_key(path)})
        if note_id is None:
            return []
        self._note_removal()
        passages = dict(self.rows(_DELETE_CHUNKS, {"note": note_id}))
        for table in ("link", "message", "fact"):
            self._run(f"DELETE FROM {table} WHERE root = %(root)s AND note = %(note)s", {"note": note_id})
        self._run("DELETE FROM tag WHERE root = %(root)s AND chunk = ANY (%(ids)s)", {"ids": list(passages)})
        for (words,) in self.rows(_DELETE_WORD_ROWS, {"ids": list(passages)}):
            self._word_changes.subtract(words)
        return [passage for passage in passages.values() if passage is not None]

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

    def _forget_passages(self, passages: Sequence[int]) -> None:
        """Delete those of these passages that no chunk has any more."""
        if not passages:
            return
        orphans = [number for (number,) in self.rows(_ORPHANS, {"passages": list(set(passages))})]
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
