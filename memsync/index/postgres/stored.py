"""Read one memory of a database without being the machine that has its files."""

from __future__ import annotations

from pathlib import Path

from memsync.errors import IndexFailure
from memsync.index.postgres import queries
from memsync.index.postgres.index import Claim, PostgresIndex
from memsync.index.postgres.rows import path_key
from memsync.model.note import FileStamp
from memsync.model.vocabulary import NotePath
from memsync.system.user_folders import state_folder

STATEMENT_MS = 8_000
"""The server is asked to cancel longer statements of a search. One that does not is left behind by its caller."""


class ReadOnlyIndex(PostgresIndex):
    """A memory that is only read."""

    def __init__(self, dsn: str, name: str, source: str = "its connection string in roots.toml") -> None:
        """`source` says in the hints of errors where `dsn` comes from. Raises ConfigError if it cannot be read."""
        folder = Path(state_folder()) / "stored"
        super().__init__(dsn, name, folder, Claim("", ""), statement_ms=STATEMENT_MS, source=source)

    def note(self, path: NotePath) -> tuple[bytes, FileStamp] | None:
        """Return the compressed text of a note, and the stamp of the file that it was; None if there is none."""
        with self.reading() as reader:
            row = next(iter(reader.rows(queries.STORED_NOTE, {"key": path_key(path)})), None)
        if row is None:
            return None
        content, size, mtime_ns, ctime_ns, inode, digest, stamped_ns, blob = row
        return content, FileStamp(size, mtime_ns, ctime_ns, inode, digest, stamped_ns, blob)

    def paths(self) -> list[NotePath]:
        """Return the paths of the notes whose text is stored, in order."""
        with self.reading() as reader:
            return [NotePath(path) for (path,) in reader.rows(queries.STORED_PATHS)]

    def lacks_text(self) -> bool:
        """Tell whether the memory has notes, but the text of none."""
        with self.reading() as reader:
            return bool(reader.value(queries.LACKS_TEXT))

    def require(self) -> None:
        """Raise IndexFailure if the database has no such memory that this role may read."""
        with self.reading() as reader:
            if not reader.generation():
                raise IndexFailure(
                    f"{self.server} has no memory {self.name!r} that this role may read",
                    hint="See memsync index status where its files are, or ask its owner for: memsync index grant",
                )
