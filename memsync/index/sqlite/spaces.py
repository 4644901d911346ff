"""Write vectors: the spaces, the passages that wait for a vector in each, and the vec0 table of each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from memsync.errors import EmbedderError
from memsync.index.sqlite.reader import SqliteReader, describe_space
from memsync.index.sqlite.salvage import SPACE_KEY
from memsync.index.sqlite.vectors import to_float16, to_int8
from memsync.model.query import EmbeddingSpace
from memsync.model.status import PendingPassage

if TYPE_CHECKING:
    from memsync.index.sqlite.vectors import Vector

# Delete the oldest vectors of one space whose text is gone.
_TRIM = """
DELETE FROM vector WHERE rowid IN (
    SELECT v.rowid FROM vector v WHERE v.space = ? AND NOT EXISTS (SELECT 1 FROM passage p WHERE p.hash = v.hash)
    ORDER BY v.rowid LIMIT ?)
"""
# (id, hash) of those of :passages that wait for a vector.
_WAITING = """
SELECT p.id, p.hash FROM pending w JOIN passage p ON p.id = w.passage
WHERE w.space = :space AND w.passage IN (SELECT value FROM json_each(:passages))
"""


class SpaceWriter(SqliteReader):
    """The part of the writer for vectors."""

    def prepare_space(self, space: EmbeddingSpace) -> int:
        """Begin to build `space` if needed, as the active space if there is none.

        Returns how many passages got a cached vector.
        """
        row = self._value("SELECT id, state FROM space WHERE name = ?", (space.name,))
        active = self._space_row("active")
        if row is not None and row[1] == "active":
            self._retire("building")
            return 0
        if row is not None and row[1] == "building":
            return 0
        self._retire("building")
        state = "active" if active is None else "building"
        number: int = self._db.execute(
            "INSERT INTO space (name, description, dimension, state) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (name) DO UPDATE SET state = excluded.state RETURNING id",
            (space.name, describe_space(space), space.dimension, state),
        ).get
        self._put_meta(f"{SPACE_KEY}{number}", describe_space(space))
        self._create_nearest(number, space.dimension)
        return self._fill_nearest(number)

    def put_vectors(
        self, space: EmbeddingSpace, vectors: Sequence[tuple[PendingPassage, Vector]]
    ) -> list[EmbedderError]:
        """Store computed vectors; the vector of a passage that was deleted meanwhile stays in the cache.

        Returns an error for each vector that cannot be used; its passage keeps waiting.
        """
        number = self._space_number(space)
        if number is None:  # another process has rebuilt the index meanwhile; the next sync computes the vectors
            return []
        unusable = []
        values: dict[tuple[int, bytes], bytes] = {}
        for passage, vector in vectors:
            try:
                values[passage.passage_id, passage.content_hash] = to_float16(vector, space.dimension)
            except EmbedderError as error:
                unusable.append(error)
        self._many(
            "INSERT OR IGNORE INTO vector VALUES (?, ?, ?)",
            ((digest, number, value) for (_, digest), value in values.items()),
        )
        # Compare hashes too: a new passage may have the id of a deleted one and wait for a different vector.
        wanted = json.dumps([passage_id for passage_id, _ in values])
        waiting = [row for row in self._rows(_WAITING, {"space": number, "passages": wanted}) if row in values]
        self._many(
            "DELETE FROM pending WHERE space = ? AND passage = ?", ((number, passage_id) for passage_id, _ in waiting)
        )
        self._insert_nearest(number, [(row[0], values[row]) for row in waiting])
        return unusable

    def put_known_vectors(self, space: EmbeddingSpace, vectors: Sequence[tuple[int, bytes, bytes]]) -> int:
        """Store (passage id, hash, float16 vector) for passages that wait for one; return how many these were."""
        number = self._space_number(space)
        if number is None:
            return 0
        wanted = json.dumps([passage_id for passage_id, _, _ in vectors])
        waiting = dict(self._rows(_WAITING, {"space": number, "passages": wanted}))
        known = [
            (passage_id, digest, value) for passage_id, digest, value in vectors if waiting.get(passage_id) == digest
        ]
        if not known:
            return 0
        cached = [(digest, number, value) for _, digest, value in known]
        self._db.executemany("INSERT OR REPLACE INTO vector VALUES (?, ?, ?)", cached)
        done = [(number, passage_id) for passage_id, _, _ in known]
        self._db.executemany("DELETE FROM pending WHERE space = ? AND passage = ?", done)
        nearest = [(passage_id, to_int8(value)) for passage_id, _, value in known]
        self._db.executemany(f"INSERT INTO vec_{number} (rowid, embedding) VALUES (?, vec_int8(?))", nearest)
        return len(known)

    def activate_complete_space(self, space: EmbeddingSpace) -> bool:
        """Make `space` the active one if no passage waits in it; the old space keeps only its cached vectors."""
        active = self._space("active")
        if active == space:
            return True
        if self.pending(space):
            return False
        self._retire("active")
        self._run("UPDATE space SET state = 'active' WHERE name = ?", (space.name,))
        return True

    def compact_vectors(self, chunk_rows: int) -> None:
        """Rebuild each vec0 table in which less than half of the allocated rows are live."""
        for number, dimension in list(self._rows("SELECT id, dimension FROM space WHERE state <> 'retired'")):
            live = self._value(f"SELECT count(*) FROM vec_{number}_rowids")
            allocated = self._value(f"SELECT count(*) FROM vec_{number}_chunks") * chunk_rows
            if allocated > 2 * live + chunk_rows:
                self._run(f"DROP TABLE vec_{number}")
                self._create_nearest(number, dimension)
                self._fill_nearest(number)

    def trim_cache(self, spare: int) -> None:
        """Delete the oldest cached vectors of deleted texts, down to the number of passages or `spare`, if larger."""
        live = int(self._value("SELECT count(*) FROM passage"))
        for number in [row[0] for row in self._rows("SELECT id FROM space")]:
            cached = int(self._value("SELECT count(*) FROM vector WHERE space = ?", (number,)))
            surplus = cached - live - max(live, spare)
            if surplus > 0:
                self._run(_TRIM, (number, surplus))

    def _retire(self, state: str) -> None:
        row = self._space_row(state)
        if row is not None:
            self._run(f"DROP TABLE vec_{row[0]}")
            self._run("DELETE FROM pending WHERE space = ?", (row[0],))
            self._run("UPDATE space SET state = 'retired' WHERE id = ?", (row[0],))

    def _create_nearest(self, number: int, dimension: int) -> None:
        # int8 vectors of one space differ in length only by rounding, so L2 gives the same order as cosine, but faster.
        self._run(f"CREATE VIRTUAL TABLE vec_{number} USING vec0 (embedding int8[{dimension:d}])")

    def _fill_nearest(self, number: int) -> int:
        """Insert every passage's cached vector in one space, or queue the passage; return how many had one."""
        cached = "SELECT p.id, v.value FROM passage p JOIN vector v ON v.hash = p.hash AND v.space = ? ORDER BY p.id"
        rows = list(self._rows(cached, (number,)))
        self._insert_nearest(number, rows)
        self._run("DELETE FROM pending WHERE space = ?", (number,))
        self._run(
            "INSERT INTO pending SELECT ?, p.id, NULL FROM passage p"
            " WHERE NOT EXISTS (SELECT 1 FROM vector v WHERE v.hash = p.hash AND v.space = ?)",
            (number, number),
        )
        return len(rows)

    def _insert_nearest(self, number: int, values: Iterable[tuple[int, bytes]]) -> None:
        """Insert (passage id, float16 vector) into a space's vec0 table, as int8."""
        rows = ((passage_id, to_int8(value)) for passage_id, value in values)
        self._many(f"INSERT INTO vec_{number} (rowid, embedding) VALUES (?, vec_int8(?))", rows)

    def _put_meta(self, key: str, value: str) -> None:
        self._run("INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, value))

    def _many(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Run a statement that returns nothing once for each row."""
        for _ in self._db.executemany(statement, rows):
            pass

    def _run(self, statement: str, parameters: tuple[Any, ...] = ()) -> None:
        for _ in self._db.execute(statement, parameters):
            pass
