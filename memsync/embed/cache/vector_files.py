"""Export the vector cache to a file and import it on another machine.

The file is a vector cache itself (cache_database.py): an SQLite database with the vectors of some spaces. It contains
no text and no paths. It is copied to a private folder, checked, and imported only if all of it is valid.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import apsw

from memsync.embed.cache.cache_database import CachedSpace, VectorDatabase
from memsync.errors import IndexDamaged, UsageError
from memsync.index.vectors import are_unit, to_matrix
from memsync.model.query import EmbeddingSpace
from memsync.ports import Progress
from memsync.system.transactions import translate_sqlite_errors
from memsync.system.user_folders import filesystem_errors

BLOCK_BYTES = 1_000_000
MIN_COSINE = 0.99
"""The minimum similarity of two vectors of the same text. Processors round differently, but differ less than this."""
BUSY_MS = 10_000


@dataclass(frozen=True, slots=True)
class Exchanged:
    """How many vectors of one space were exported or imported, and how many of these were new."""

    space: str
    vectors: int
    added: int


def cached_spaces(path: Path) -> tuple[list[CachedSpace], int]:
    """Return the spaces of the cache at `path` and how many bytes it uses; ([], 0) if there is no cache."""
    if not path.exists():
        return [], 0
    with _opened(path) as database, database.reading():
        return database.spaces(), database.used_bytes()


def chosen(spaces: Sequence[CachedSpace], names: Sequence[str]) -> list[CachedSpace]:
    """Return the spaces with these names or models; all if `names` is empty. Raises UsageError for an unknown name."""
    for name in names:
        if not any(name in (cached.space.name, cached.space.model) for cached in spaces):
            hint = f"It has: {', '.join(cached.space.name for cached in spaces)}" if spaces else "It is empty."
            raise UsageError(f"the vector cache has no space {name}", hint=hint)
    return [cached for cached in spaces if not names or cached.space.name in names or cached.space.model in names]


def export_vectors(path: Path, names: Sequence[str], stream: BinaryIO, progress: Progress) -> list[Exchanged]:
    """Write the vectors of the chosen spaces (see `chosen`) of the cache at `path` to a stream.

    Raises UsageError for an unknown space or an empty cache, IndexFailure, FilesystemError, and the stream's OSError.
    """
    if not any(cached.vectors for cached in cached_spaces(path)[0]):
        raise UsageError("the vector cache is empty", hint="memsync sync fills it.")
    with TemporaryDirectory() as folder:
        file = Path(folder, "vectors.db")
        with _opened(path) as database, database.reading():
            spaces = chosen(database.spaces(), names)
            with (
                translate_sqlite_errors(f"the copy of the vector cache in {folder}"),
                closing(VectorDatabase(file, BUSY_MS, journal="delete")) as copy,
                copy.writing(),
            ):
                for number, cached in enumerate(spaces, 1):
                    copy.add(cached.space, database.all_of(cached.space))  # without the broken ones
                    progress("writing vectors", number, len(spaces))
                done = [Exchanged(written.space.name, written.vectors, 0) for written in copy.spaces()]
        with file.open("rb") as content:
            shutil.copyfileobj(content, stream)
    return done


def import_vectors(path: Path, max_bytes: int, stream: BinaryIO, progress: Progress) -> list[Exchanged]:
    """Add the vectors of a file to the cache at `path` in one transaction: all of them or none.

    `max_bytes` is the size limit of the cache. Raises UsageError for a file that is incomplete or invalid,
    IndexFailure, and FilesystemError.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder, "vectors.db")
        with filesystem_errors(f"the file cannot be read, or copied to {folder}"):
            _copy(stream, file, max_bytes)
        with _opened(path) as database:
            with database.writing():
                done = _merged(file, database, progress)
            with suppress(apsw.Error):  # a later sync trims it
                database.trim(max_bytes)
    return done


def _copy(stream: BinaryIO, file: Path, max_bytes: int) -> None:
    """Copy what may be a pipe, or have a stranger's log beside it. Raises UsageError if it is too large."""
    with file.open("wb") as copy:
        while block := stream.read(BLOCK_BYTES):
            if copy.tell() + len(block) > max_bytes:
                reason = f"it is larger than the {max_bytes // 1_000_000:,} MB that the cache may use"
                raise _refused(reason, "Export one space at a time, with --space.")
            copy.write(block)


def _merged(file: Path, database: VectorDatabase, progress: Progress) -> list[Exchanged]:
    """Add all vectors of a file to the cache. Raises UsageError if any of them is wrong."""
    own_spaces = {cached.space.name: cached.space for cached in database.spaces()}
    vectors, added = Counter[str](), Counter[str]()
    for space, values, total in _blocks(file):
        if own_spaces.get(space.name, space) != space:
            raise _refused("it describes its spaces differently from the cache")
        vectors[space.name] += len(values)
        added[space.name] += _added(database, space, values)
        progress("reading vectors", vectors.total(), total)
    return [Exchanged(name, vectors[name], added[name]) for name in vectors]


def _blocks(file: Path) -> Iterator[tuple[EmbeddingSpace, dict[bytes, bytes], int]]:
    """Yield the vectors of a file in blocks of a space, each with the number of vectors in the file."""
    try:
        with closing(VectorDatabase(file, BUSY_MS, is_foreign=True)) as source:
            spaces = source.spaces()
            total = sum(cached.vectors for cached in spaces)
            for cached in spaces:
                vectors = source.all_of(cached.space)
                while values := dict(islice(vectors, 1 + BLOCK_BYTES // max(1, cached.space.dimension))):
                    yield cached.space, values, total
    except (apsw.Error, UnicodeDecodeError) as error:
        raise _refused(f"it is damaged, or another version of memsync wrote it ({error})") from error


def _added(database: VectorDatabase, space: EmbeddingSpace, values: dict[bytes, bytes]) -> int:
    """Add one block to the cache; return how many vectors were new. Raises UsageError if any of them is wrong."""
    import numpy as np

    if not all(are_unit(list(values.values()))):
        raise _refused("some of its vectors are not finite or not of unit length")
    cached = database.find(space, list(values))
    cosines = to_matrix(list(cached.values())) * to_matrix([values[digest] for digest in cached])
    if np.any(cosines.sum(axis=1) < MIN_COSINE):
        raise _refused("some of its vectors differ from those that the cache has for the same texts")
    new = {digest: value for digest, value in values.items() if digest not in cached}
    database.add(space, new.items())
    return len(new)


def _refused(
    reason: str, hint: str = "Export it again on the other machine, with this version of memsync."
) -> UsageError:
    return UsageError(f"the file was not imported: {reason}", hint=hint)


@contextmanager
def _opened(path: Path) -> Iterator[VectorDatabase]:
    """Yield the database; turn its errors into memsync errors with a hint."""
    database: VectorDatabase | None = None
    try:
        with translate_sqlite_errors(f"the vector cache {path}"):
            database = VectorDatabase(path, BUSY_MS)
            yield database
    except (apsw.Error, UnicodeDecodeError) as error:
        hint = "Remove that file; memsync sync makes a new one and fills it from the index."
        raise IndexDamaged(f"the vector cache {path} is damaged: {error}", hint=hint) from error
    finally:
        if database is not None:
            database.close()
