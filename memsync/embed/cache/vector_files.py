"""Export the vector cache to a file and import it on another machine.

The file is an .npz as numpy.savez writes it, a zip that is not compressed. Its member spaces.json is the JSON list of
the spaces. The array of each is called after its place in the list: 0.npy, 1.npy and so on. An element has the fields
`hash` (the SHA-256 of a passage, 32 bytes) and `vector` (float16, little-endian). The file contains no text and no
paths. It is read in blocks, and imported only if all of it is valid.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

import apsw
import msgspec

from memsync.embed.cache.cache_database import HASH_BYTES, CachedSpace, VectorDatabase
from memsync.errors import IndexDamaged, UsageError
from memsync.index.sqlite.transactions import translate_sqlite_errors
from memsync.index.vectors import are_unit, to_matrix
from memsync.model.query import EmbeddingSpace
from memsync.ports import Progress

if TYPE_CHECKING:
    import numpy as np

SPACES = "spaces.json"
MAX_SPACES_BYTES = 100_000
MAX_ARRAY_HEADER_BYTES = 1_000
MAX_DIMENSION = 65_536
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

    Raises UsageError for an unknown space or an empty cache, IndexFailure, and the stream's OSError.
    """
    from numpy.lib import format as npy

    if not any(cached.vectors for cached in cached_spaces(path)[0]):
        raise UsageError("the vector cache is empty", hint="memsync sync fills it.")
    with _opened(path) as database, database.reading():
        spaces = chosen(database.spaces(), names)
        total, written = sum(cached.vectors for cached in spaces), 0
        done: list[Exchanged] = []
        with zipfile.ZipFile(stream, "w") as archive:
            with archive.open(SPACES, "w") as member:
                member.write(msgspec.json.encode([cached.space for cached in spaces]))
            for number, cached in enumerate(spaces):
                count = sum(1 for _ in database.all_of(cached.space))  # without the broken ones
                descr = npy.dtype_to_descr(_element(cached.space))
                with archive.open(f"{number}.npy", "w", force_zip64=True) as member:
                    npy.write_array_header_1_0(member, {"descr": descr, "fortran_order": False, "shape": (count,)})
                    for digest, value in database.all_of(cached.space):
                        member.write(digest + value)
                written += cached.vectors
                progress("writing vectors", written, total)
                done.append(Exchanged(cached.space.name, count, 0))
        return done


def import_vectors(path: Path, max_bytes: int, stream: BinaryIO, progress: Progress) -> list[Exchanged]:
    """Add the vectors of a file to the cache at `path` in one transaction: all of them or none.

    `max_bytes` is the size limit of the cache. Raises UsageError for a file that is incomplete or invalid,
    IndexFailure, and FilesystemError.
    """
    with TemporaryFile() as copy:
        with _valid_file():
            source = stream if stream.seekable() else _copied(stream, copy, max_bytes)
            archive = zipfile.ZipFile(cast("IO[bytes]", _Bounded(source)))
            spaces = _spaces(archive, max_bytes)
        with _opened(path) as database:
            with database.writing():
                own_spaces = {cached.space.name: cached.space for cached in database.spaces()}
                if any(own_spaces.get(space.name, space) != space for space in spaces):
                    raise _refused("it describes its spaces differently from the cache")
                done = []
                for number, space in enumerate(spaces):
                    vectors = added = 0
                    for values, share in _blocks(archive, archive.getinfo(f"{number}.npy"), space):
                        vectors += len(values)
                        added += _added(database, space, values)
                        progress("reading vectors", number * 100 + share, len(spaces) * 100)
                    done.append(Exchanged(space.name, vectors, added))
            with suppress(apsw.Error):  # a later sync trims it
                database.trim(max_bytes)
    return done


# ------------------------------------------------------------------------------------------- reading


class _Bounded:
    """A file that gives no more than a block at once, because zipfile reads a table of contents of any size whole."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def read(self, count: int = BLOCK_BYTES) -> bytes:
        if count > BLOCK_BYTES:
            raise ValueError("its table of contents is too large")
        return self._stream.read(count)


def _copied(stream: BinaryIO, copy: IO[bytes], max_bytes: int) -> BinaryIO:
    """Copy what comes from a pipe, because the table of contents of a zip is at its end."""
    while block := stream.read(BLOCK_BYTES):
        _check_size(copy.tell() + len(block), max_bytes)
        copy.write(block)
    return cast("BinaryIO", copy)


def _spaces(archive: zipfile.ZipFile, max_bytes: int) -> list[EmbeddingSpace]:
    """Check the members of a file without reading the arrays; return its spaces."""
    members = archive.infolist()
    _check_size(sum(member.file_size for member in members), max_bytes)
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise ValueError("it is compressed")
    if archive.getinfo(SPACES).file_size > MAX_SPACES_BYTES:
        raise ValueError(f"its {SPACES} is too large")
    spaces = msgspec.json.decode(archive.read(SPACES), type=list[EmbeddingSpace])
    if [member.filename for member in members] != [SPACES, *(f"{number}.npy" for number in range(len(spaces)))]:
        raise ValueError("its members do not fit its spaces")
    if not spaces or len({space.name for space in spaces}) != len(spaces):
        raise ValueError("it has no space, or one twice")
    if not all(0 < space.dimension <= MAX_DIMENSION for space in spaces):
        raise ValueError("a space has a wrong number of dimensions")
    return spaces


def _blocks(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, space: EmbeddingSpace
) -> Iterator[tuple[dict[bytes, bytes], int]]:
    """Yield the vectors of a space by hash, with the percentage that has been read. zipfile checks the CRC-32."""
    from numpy.lib import format as npy

    element = _element(space)
    size = element.itemsize
    with _valid_file(), archive.open(member) as file:
        npy.read_magic(file)
        shape, _, dtype = npy.read_array_header_1_0(file, max_header_size=MAX_ARRAY_HEADER_BYTES)
        if dtype != element or len(shape) != 1 or shape[0] * size != member.file_size - file.tell():
            raise ValueError(f"{member.filename} is not an array of the vectors of its space")
        while content := file.read(max(1, BLOCK_BYTES // size) * size):
            starts = range(0, len(content), size)
            values = {content[at : at + HASH_BYTES]: content[at + HASH_BYTES : at + size] for at in starts}
            yield values, 100 * file.tell() // member.file_size


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
    database.add(space, new)
    return len(new)


def _element(space: EmbeddingSpace) -> np.dtype[np.void]:
    import numpy as np

    return np.dtype([("hash", "u1", (HASH_BYTES,)), ("vector", "<f2", (space.dimension,))])


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        reason = f"it is larger than the {max_bytes // 1_000_000:,} MB that the cache may use"
        raise _refused(reason, "Set index.vector_cache_mb to a larger number.")


@contextmanager
def _valid_file() -> Iterator[None]:
    """Turn the errors of zipfile, numpy and msgspec about an invalid file into UsageError."""
    try:
        yield
    except (zipfile.BadZipFile, EOFError, KeyError, OSError, OverflowError, RuntimeError, ValueError) as error:
        raise _refused(f"it is damaged, or another version of memsync wrote it ({error})") from error


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
