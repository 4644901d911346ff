"""The raw transcripts, byte for byte: gzip files in the folder raw/ of the transcripts root, only ever appended to."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from memsync.agents.project import facts_of
from memsync.errors import FilesystemError, UsageError
from memsync.model.text import quoted
from memsync.settings.roots import TRANSCRIPTS, registered_roots
from memsync.system.user_folders import open_private

FOLDER = "raw"
BLOCK_BYTES = 1_000_000
_LEVEL = 3
_GZIP = 31


def unpacked(path: Path, packed_bytes: int = 2**62) -> Iterator[bytes]:
    """Yield the content of a raw file. Raises OSError, or FilesystemError after the last whole block of a damaged file.

    After a process was killed, its file may end with an incomplete block. The next ingest writes this block again.
    """
    with path.open("rb") as file:
        decompress = zlib.decompressobj(_GZIP)
        is_whole = True
        while block := file.read(min(BLOCK_BYTES, max(0, packed_bytes - file.tell()))):
            while block:
                try:
                    yield decompress.decompress(block)
                except zlib.error:
                    raise _damaged(path) from None
                block, is_whole = decompress.unused_data, decompress.eof
                if is_whole:
                    decompress = zlib.decompressobj(_GZIP)
        if not is_whole:
            raise _damaged(path)


def _damaged(path: Path) -> FilesystemError:
    hint = "Run memsync ingest: it writes the end again if the agent still has the session."
    return FilesystemError(f"{path} is damaged or was not written to its end", hint=hint)


def append(path: Path, packed_bytes: int, source: BinaryIO, start: int, end: int, *, sync: bool) -> int:
    """Append source[start:end] after the first `packed_bytes` of a raw file, and return its new length.

    A killed process may have left bytes after them, which are overwritten. If the disk is full, the first
    `packed_bytes` stay. If that is 0, the file is replaced in one step. Raises OSError.
    """
    target = path if packed_bytes else path.with_suffix(".new")
    with open(target, "r+b" if packed_bytes else "wb", opener=open_private) as file:
        try:
            file.truncate(packed_bytes)
            file.seek(packed_bytes)
            compress = zlib.compressobj(_LEVEL, wbits=_GZIP)
            source.seek(start)
            while start < end and (block := source.read(min(BLOCK_BYTES, end - start))):
                start += len(block)
                file.write(compress.compress(block))
            file.write(compress.flush())
            file.flush()
            if sync:
                os.fsync(file.fileno())
        except OSError:
            os.ftruncate(file.fileno(), packed_bytes)
            raise
        length = file.tell()
    if target != path:
        os.replace(target, path)
    return length


def is_beginning(path: Path, packed_bytes: int, source: BinaryIO) -> bool | None:
    """Tell whether the source begins with a raw file's content; None if the content begins with the whole source."""
    source.seek(0)
    with suppress(FilesystemError):
        for block in unpacked(path, packed_bytes):
            same = source.read(len(block))
            if same != block:
                return None if block.startswith(same) and not source.read(1) else False
    return True


def raw_file(session: str) -> Path:
    """Return the raw file of a session, given its thread, file name, end of a name or id. Raises UsageError."""
    root = registered_roots().get(TRANSCRIPTS)
    folder = Path(root.path) if root is not None and root.path else Path(os.devnull)
    files = sorted(folder.glob(f"{FOLDER}/*/*.gz"))
    names = {f"{path.parent.name}-{path.name.partition('.json')[0]}": path for path in files}
    wanted = session.removeprefix("threads/").removesuffix(".md")
    same = [wanted] if wanted in names else [name for name in names if name.endswith(f"-{wanted}")]
    same = same or [name for name in names if facts_of(folder / "threads" / f"{name}.md").get("session") == wanted]
    if not same:
        hint = "List them: memsync --root transcripts thread sessions. It keeps no raw transcript with a secret in it."
        raise UsageError(f"there is no raw transcript of {quoted(session)}", hint=hint)
    if len(same) > 1:
        raise UsageError(f"several raw transcripts match {quoted(session)}", hint=f"Name one: {', '.join(same[:5])}")
    return names[same[0]]
