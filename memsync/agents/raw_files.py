"""The raw transcripts, byte for byte: gzip files in the folder raw/ of the transcripts root, only ever appended to."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from memsync.errors import UsageError
from memsync.model.text import quoted
from memsync.settings.roots import TRANSCRIPTS, registered_roots
from memsync.system.user_folders import open_private

FOLDER = "raw"
BLOCK_BYTES = 1_000_000
_LEVEL = 3
_GZIP = 31


def unpacked(path: Path, packed_bytes: int = 2**62) -> Iterator[bytes]:
    """Yield the content of a raw file, as far as it is whole. Raises OSError."""
    with path.open("rb") as file:
        decompress = zlib.decompressobj(_GZIP)
        while block := file.read(min(BLOCK_BYTES, max(0, packed_bytes - file.tell()))):
            while block:
                try:
                    yield decompress.decompress(block)
                except zlib.error:  # the end, which a killed process has written in part
                    return
                block = decompress.unused_data
                if decompress.eof:
                    decompress = zlib.decompressobj(_GZIP)


def append(path: Path, packed_bytes: int, source: BinaryIO, start: int, end: int, *, sync: bool) -> int:
    """Append source[start:end] after the first `packed_bytes` of a raw file, and return its new length.

    What was there after them is from a process that was killed. If the disk is full, the file is as before. With 0, the
    file is replaced in one step. Raises OSError.
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
    for block in unpacked(path, packed_bytes):
        same = source.read(len(block))
        if same != block:
            return None if block.startswith(same) and not source.read(1) else False
    return True


def raw_file(session: str) -> Path:
    """Return the raw file of a session: of this thread, name or end of a name. Raises UsageError."""
    root = registered_roots().get(TRANSCRIPTS)
    files = Path(root.path, FOLDER).glob("*/*.gz") if root is not None and root.path else ()
    names = {f"{path.parent.name}-{path.name.partition('.json')[0]}": path for path in sorted(files)}
    wanted = session.removeprefix("threads/").removesuffix(".md")
    same = [wanted] if wanted in names else [name for name in names if name.endswith(f"-{wanted}")]
    if not same:
        hint = "See: memsync --root transcripts sessions. With a secret in it, a raw transcript is not kept."
        raise UsageError(f"there is no raw transcript of {quoted(session)}", hint=hint)
    if len(same) > 1:
        raise UsageError(f"several raw transcripts match {quoted(session)}", hint=f"Name one: {', '.join(same[:5])}")
    return names[same[0]]
