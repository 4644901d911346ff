"""`memsync index vectors`: the vectors that all of the user's memories share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import click

from memsync.cli.common import answering, name_of, progress_on_stderr
from memsync.cli.output import CommandAnswer
from memsync.errors import UsageError
from memsync.model.text import count
from memsync.system.user_folders import filesystem_errors, open_private

SECTION = "Index"

STANDARD = "-"


@click.group("index vectors")
def vectors() -> None:
    """Show, export or import the vectors that all your memories share. No text is embedded twice on one machine.

    \b
    memsync index vectors status
    memsync index vectors export vectors.db       # on one machine
    memsync index vectors import vectors.db       # on the other
    """


@vectors.command()
@answering
def status(_: click.Context) -> CommandAnswer:
    """Print how many vectors are cached in each space, and how much disk they take."""
    from memsync.embed.cache.cache import MAX_BYTES
    from memsync.embed.cache.vector_files import cached_spaces
    from memsync.wiring import vector_cache_path

    path = vector_cache_path()
    spaces, used_bytes = cached_spaces(path)
    described = [{"name": s.space.name, "model": s.space.model, "vectors": s.vectors} for s in spaces]
    document = {"path": str(path), "bytes": used_bytes, "most_bytes": MAX_BYTES, "spaces": described}
    size = f"{used_bytes / 1e6:,.1f} MB (of at most {MAX_BYTES // 1_000_000} MB)"
    lines = [f"vector cache  {path}", f"size          {size}"]
    lines += [f"space         {cached.space.name}: {count(cached.vectors, 'vector')}" for cached in spaces]
    return CommandAnswer(document, lines)


@vectors.command("export")
@click.argument("file")
@click.option("--space", "spaces", multiple=True, metavar="NAME", help="Only this space or model; may be repeated.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@answering
def export(context: click.Context, file: str, spaces: tuple[str, ...], force: bool) -> CommandAnswer:
    """Write the cached vectors to FILE (-: standard output), for `memsync index vectors import` on another machine.

    FILE holds neither texts nor paths, but vectors can reveal what a text is about: keep it as private as the notes.
    """
    from memsync.embed.cache.vector_files import export_vectors
    from memsync.wiring import vector_cache_path

    if file == STANDARD and context.params["as_json"]:
        raise UsageError("--json and - both need standard output", hint="Name a file.")
    if file == STANDARD and sys.stdout.isatty():
        raise UsageError("vectors cannot be printed on a terminal", hint="Name a file, or redirect standard output.")
    with progress_on_stderr() as progress, _output(file, force=force) as stream:
        exported = export_vectors(vector_cache_path(), spaces, stream, progress)
    lines = [f"{part.space}: {count(part.vectors, 'vector')} written" for part in exported]
    document = {"file": file, "spaces": [{"name": part.space, "vectors": part.vectors} for part in exported]}
    return CommandAnswer(document, remarks=lines) if file == STANDARD else CommandAnswer(document, lines)


@vectors.command("import")
@click.argument("file", type=click.File("rb"))
@answering
def import_(_: click.Context, file: BinaryIO) -> CommandAnswer:
    """Add the vectors of FILE (-: standard input) to the cache: all of them, or none if anything is wrong.

    A file from somebody else can hold wrong vectors, which make searches find the wrong notes: import only your own.
    `memsync index verify --recompute` finds them.
    """
    from memsync.embed.cache.cache import MAX_BYTES
    from memsync.embed.cache.vector_files import import_vectors
    from memsync.wiring import vector_cache_path

    with progress_on_stderr() as progress:
        spaces = import_vectors(vector_cache_path(), MAX_BYTES, file, progress)
    described = [{"name": part.space, "vectors": part.vectors, "added": part.added} for part in spaces]
    lines = [
        f"{part.space}: {count(part.added, 'vector')} added, {part.vectors - part.added:,} already there"
        for part in spaces
    ]
    return CommandAnswer({"file": name_of(file), "spaces": described}, lines)


@contextmanager
def _output(file: str, *, force: bool) -> Iterator[BinaryIO]:
    """Yield the stream to write: a file that only this user can read, and that has its name once it is complete.

    Then it replaces an existing file, but only with `force`. Raises FilesystemError, UsageError.
    """
    if file == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(file)
    if path.exists() and not (force and path.is_file()):
        raise UsageError(f"{file} exists already", hint="Name another file, or overwrite a file with --force.")
    part = path.with_name(f"{path.name}.part-{os.getpid()}")
    try:
        with filesystem_errors(f"{file} cannot be written"):
            with open(part, "xb", opener=open_private) as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(part, path)
    finally:
        with suppress(OSError):
            part.unlink()
