"""`memsync vectors`: the vectors that all of the user's memories share."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import click

from memsync.cli.common import json_option, load, progress_on_stderr
from memsync.cli.output import say, say_answer, say_json
from memsync.errors import FilesystemError, UsageError
from memsync.model.text import count, printable
from memsync.ports import no_progress

STANDARD = "-"


@click.group()
def vectors() -> None:
    """Show, export or import the vectors that all your memories share. No text is embedded twice on one machine.

    \b
    memsync vectors status
    memsync vectors export vectors.bin       # on one machine
    memsync vectors import vectors.bin       # on the other
    """


@vectors.command()
@json_option
@click.pass_context
def status(context: click.Context, as_json: bool) -> None:
    """Print how many vectors are cached in each space, and how much disk they take."""
    from memsync.embed.cache.vector_files import cached_spaces
    from memsync.wiring import vector_cache_bytes, vector_cache_path

    path, max_bytes = vector_cache_path(), vector_cache_bytes(load(context))
    spaces, used_bytes = cached_spaces(path)
    described = [{"name": s.space.name, "model": s.space.model, "vectors": s.vectors} for s in spaces]
    document = {"path": str(path), "bytes": used_bytes, "most_bytes": max_bytes, "spaces": described}
    bound = f"of at most {max_bytes / 1e6:,.0f} MB" if max_bytes else "switched off: index.vector_cache_mb is 0"
    lines = [f"vector cache  {printable(str(path))}", f"size          {used_bytes / 1e6:,.1f} MB ({bound})"]
    lines += [f"space         {printable(cached.space.name)}: {count(cached.vectors, 'vector')}" for cached in spaces]
    say_answer(document, lines, as_json=as_json)


@vectors.command("export")
@click.argument("file")
@click.option("--space", "spaces", multiple=True, metavar="NAME", help="Only this space or model; may be repeated.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@json_option
def export(file: str, spaces: tuple[str, ...], force: bool, as_json: bool) -> None:
    """Write the cached vectors to FILE (-: standard output), for `memsync vectors import` on another machine.

    FILE holds neither texts nor paths, but vectors can reveal what a text is about: keep it as private as the notes.
    """
    from memsync.embed.cache.vector_files import export_vectors
    from memsync.wiring import vector_cache_path

    if file == STANDARD and as_json:
        raise UsageError("--json and - both need standard output", hint="Name a file.")
    if file == STANDARD and sys.stdout.isatty():
        raise UsageError("vectors cannot be printed on a terminal", hint="Name a file, or redirect standard output.")
    with progress_on_stderr() as progress, _output(file, force=force) as stream:
        exported = export_vectors(vector_cache_path(), spaces, stream, progress or no_progress)
    if as_json:
        say_json({"file": file, "spaces": [{"name": part.space, "vectors": part.vectors} for part in exported]})
        return
    for part in exported:
        say(f"{printable(part.space)}: {count(part.vectors, 'vector')} written", err=file == STANDARD)


@vectors.command("import")
@click.argument("file")
@json_option
@click.pass_context
def import_(context: click.Context, file: str, as_json: bool) -> None:
    """Add the vectors of FILE (-: standard input) to the cache: all of them, or none if anything is wrong.

    A file from somebody else can hold wrong vectors, which make searches find the wrong notes: import only your own.
    `memsync verify --recompute` finds them.
    """
    from memsync.embed.cache.vector_files import import_vectors
    from memsync.wiring import vector_cache_bytes, vector_cache_path

    max_bytes = vector_cache_bytes(load(context))
    if not max_bytes:
        raise UsageError("the vector cache is switched off", hint="Set index.vector_cache_mb to a number above 0.")
    with _input(file) as (stream, size), progress_on_stderr() as progress:
        spaces = import_vectors(vector_cache_path(), max_bytes, stream, size, progress or no_progress)
    described = [{"name": part.space, "vectors": part.vectors, "added": part.added} for part in spaces]
    lines = [
        f"{printable(part.space)}: {count(part.added, 'vector')} added, {part.vectors - part.added:,} already there"
        for part in spaces
    ]
    say_answer({"file": file, "spaces": described}, lines, as_json=as_json)


@contextmanager
def _input(file: str) -> Iterator[tuple[BinaryIO, int]]:
    """Yield the stream to read and its size in bytes, 0 if that is not known. Raises UsageError."""
    if file == STANDARD:
        yield sys.stdin.buffer, 0
        return
    try:
        with open(file, "rb") as stream:
            yield stream, os.fstat(stream.fileno()).st_size
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", hint="Check its name.") from error


@contextmanager
def _output(file: str, *, force: bool) -> Iterator[BinaryIO]:
    """Yield the stream to write: a new file that only this user can read, which is removed if anything goes wrong.

    With `force` it replaces an existing file when it is complete. Raises FilesystemError, UsageError.
    """
    if file == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(file)
    if force and path.exists() and not stat.S_ISREG(path.stat().st_mode):
        raise UsageError(f"{file} is not a file that can be overwritten", hint="Name another.")
    target = path.with_name(f"{path.name}.part-{os.getpid()}") if force else path
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise UsageError(f"{file} exists already", hint="Name another file, or overwrite it with --force.") from None
    except OSError as error:
        raise _unwritable(file, error) from error
    try:
        with open(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if force:
            os.replace(target, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(target)
        if isinstance(error, OSError):
            raise _unwritable(file, error) from error
        raise


def _unwritable(file: str, error: OSError) -> FilesystemError:
    return FilesystemError(f"{file} cannot be written: {error.strerror}", hint="Check its folder and the disk.")
