"""Export the vector cache to a file and import it on another machine.

    memsync vectors 1                                             (a line: the name and version of the format)
    {"spaces": [{"name": "...", "description": {...}}, ...]}      (a line of JSON: the spaces, in order)
    for each space: blocks of (number of records: 4 bytes, little-endian; records); the last block has 0 records
    SHA-256 of everything before it (32 bytes)

A record is the SHA-256 of a passage (32 bytes) and its vector (float16, little-endian). The file contains no text and
no paths. It is read in blocks, and imported only if all of it is valid.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import apsw
import msgspec

from memsync.embed.cache.cache_database import HASH_BYTES, CachedSpace, VectorDatabase, value_bytes
from memsync.errors import IndexDamaged, UsageError
from memsync.index.sqlite.transactions import translate_sqlite_errors
from memsync.index.vectors import are_unit, to_matrix
from memsync.model.query import EmbeddingSpace
from memsync.ports import Progress

MAGIC = b"memsync vectors 1\n"
MAX_HEADER_BYTES = 100_000
MAX_SPACES = 100
MAX_DIMENSION = 65_536
BLOCK_BYTES = 1_000_000
MIN_COSINE = 0.99
"""The minimum similarity of two vectors of the same text. Processors round differently, but differ less than this."""
BUSY_MS = 10_000
_COUNT = struct.Struct("<I")


class _NamedSpace(msgspec.Struct):
    """A space in the header of a file."""

    name: str
    description: EmbeddingSpace


class _Header(msgspec.Struct):
    """The second line of a file."""

    spaces: list[_NamedSpace]


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

    Raises UsageError for an unknown space or an empty cache, IndexFailure, and the stream's OSError.
    """
    if not path.exists():
        raise _empty()
    with _opened(path) as database, database.reading():
        spaces = chosen(database.spaces(), names)
        total = sum(cached.vectors for cached in spaces)
        if not total:
            raise _empty()
        target = _Summed(stream)
        header = _Header([_NamedSpace(cached.space.name, cached.space) for cached in spaces])
        target.write(MAGIC + msgspec.json.encode(header) + b"\n")
        done: list[Exchanged] = []
        for cached in spaces:
            written, count = sum(exported.vectors for exported in done), 0
            vectors = database.all_of(cached.space)
            while records := list(islice(vectors, _block_records(cached.space))):
                target.write(_COUNT.pack(len(records)) + b"".join(digest + value for digest, value in records))
                count += len(records)
                progress("writing vectors", written + count, total)
            target.write(_COUNT.pack(0))
            done.append(Exchanged(cached.space.name, count, 0))
        stream.write(target.digest())
        return done


def import_vectors(path: Path, max_bytes: int, stream: BinaryIO, size: int, progress: Progress) -> list[Exchanged]:
    """Add the vectors of a file to the cache at `path` in one transaction: all of them or none.

    `size` is the file's size in bytes, 0 if unknown; `max_bytes` is the size limit of the cache. Raises UsageError for
    a file that is incomplete or invalid, IndexFailure, and FilesystemError.
    """
    source = _Summed(stream)
    spaces = _spaces(source)
    with _opened(path) as database:
        with database.writing():
            own_spaces = {cached.space.name: cached.space for cached in database.spaces()}
            if any(own_spaces.get(space.name, space) != space for space in spaces):
                raise _refused("it describes its spaces differently from the cache")
            done = [_read_space(database, space, source, max_bytes, size, progress) for space in spaces]
            digest = source.digest()
            if source.exactly(len(digest)) != digest or source.some(1):
                raise _refused("its SHA-256 does not fit its content: it was damaged or changed on the way")
            _check(done)
        with suppress(apsw.Error):  # a later sync trims it
            database.trim(max_bytes)
    return [Exchanged(space.name, read.vectors, read.added) for space, read in zip(spaces, done, strict=True)]


# ------------------------------------------------------------------------------------------- reading


@dataclass(slots=True)
class _Read:
    """Counts of one space of a file: its vectors, the new ones, the invalid ones, and those unlike the cache's."""

    vectors: int = 0
    added: int = 0
    not_vectors: int = 0
    differing: int = 0


def _read_space(
    database: VectorDatabase, space: EmbeddingSpace, source: _Summed, max_bytes: int, size: int, progress: Progress
) -> _Read:
    read = _Read()
    record_bytes = HASH_BYTES + value_bytes(space.dimension)
    while count := _COUNT.unpack(source.exactly(_COUNT.size))[0]:
        if count > _block_records(space):
            raise _refused(f"it has a block of the wrong size ({count:,})")
        if source.bytes_read + count * record_bytes > max_bytes:
            raise _refused(
                f"it is larger than the {max_bytes // 1_000_000:,} MB that the cache may use",
                "Set index.vector_cache_mb to a larger number.",
            )
        content = source.exactly(count * record_bytes)
        records = [content[start : start + record_bytes] for start in range(0, len(content), record_bytes)]
        _add_block(database, space, {record[:HASH_BYTES]: record[HASH_BYTES:] for record in records}, read)
        read.vectors += count
        progress("reading vectors", source.bytes_read, max(size, source.bytes_read))
    return read


def _check(done: Sequence[_Read]) -> None:
    """Raise UsageError if any vector is invalid or differs from the cache's vector for the same text."""
    if invalid := sum(read.not_vectors for read in done):
        raise _refused(f"{invalid:,} of its vectors are not finite or not of unit length")
    if differing := sum(read.differing for read in done):
        raise _refused(f"{differing:,} of its vectors differ from those that the cache has for the same texts")


def _add_block(database: VectorDatabase, space: EmbeddingSpace, values: dict[bytes, bytes], read: _Read) -> None:
    """Add one block to the cache and count its faults; `_check` refuses the whole file if there are any."""
    import numpy as np

    read.not_vectors += are_unit(list(values.values())).count(False)
    cached = database.find(space, list(values))[0]
    with np.errstate(over="ignore", invalid="ignore"):
        cosines = to_matrix(list(cached.values())) * to_matrix([values[digest] for digest in cached])
        is_alike = cosines.sum(axis=1) > MIN_COSINE  # false if a vector is not finite
    read.differing += len(cached) - int(np.count_nonzero(is_alike))
    read.added += database.add(space, values)


def _spaces(source: _Summed) -> list[EmbeddingSpace]:
    magic = source.some(len(MAGIC))
    if magic != MAGIC:
        if magic.startswith(MAGIC[:-2]):
            raise _refused("it was written by another version of memsync", "Upgrade memsync, or export it again.")
        raise _refused("it is not a file of vectors", "Name a file that memsync vectors export wrote.")
    line = source.line(MAX_HEADER_BYTES)
    try:
        named = msgspec.json.decode(line, type=_Header).spaces
    except (ValueError, RecursionError):
        raise _refused("its spaces cannot be read") from None
    if not 0 < len(named) <= MAX_SPACES or len({entry.name for entry in named}) != len(named):
        raise _refused("its spaces cannot be read")
    for entry in named:
        space = entry.description
        if not 0 < space.dimension <= MAX_DIMENSION:
            raise _refused(f"it has vectors of {space.dimension} dimensions")
        if space.name != entry.name:
            raise _refused(f"the space {entry.name!r} is described as {space.name!r}")
    return [entry.description for entry in named]


class _Summed:
    """A stream that computes the SHA-256 of everything read or written."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._sum = hashlib.sha256()
        self.bytes_read = 0

    def write(self, content: bytes) -> None:
        self._sum.update(content)
        self._stream.write(content)

    def exactly(self, count: int) -> bytes:
        """Read `count` bytes. Raises UsageError if the file ends before."""
        content = self.some(count)
        if len(content) != count:
            raise _refused("it is cut off")
        return content

    def some(self, count: int) -> bytes:
        """Read `count` bytes, or fewer at the end of the file."""
        parts, missing = [], count
        while missing and (part := self._stream.read(missing)):
            parts.append(part)
            missing -= len(part)
        return self._noted(b"".join(parts))

    def line(self, max_bytes: int) -> bytes:
        """Read a line of at most `max_bytes`. Raises UsageError if it is longer or has no end."""
        line = self._noted(self._stream.readline(max_bytes))
        if not line.endswith(b"\n"):
            raise _refused("its spaces cannot be read" if len(line) == max_bytes else "it is cut off")
        return line

    def digest(self) -> bytes:
        return self._sum.digest()

    def _noted(self, content: bytes) -> bytes:
        self._sum.update(content)
        self.bytes_read += len(content)
        return content


def _block_records(space: EmbeddingSpace) -> int:
    return max(1, BLOCK_BYTES // (HASH_BYTES + value_bytes(space.dimension)))


def _refused(reason: str, hint: str = "Export it again on the other machine.") -> UsageError:
    return UsageError(f"the file was not imported: {reason}", hint=hint)


def _empty() -> UsageError:
    return UsageError("the vector cache is empty", hint="memsync sync fills it.")


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
