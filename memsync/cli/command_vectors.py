"""`memsync vectors`: the vectors that all of the user's memories share."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from memsync.cli.common import json_option, load, progress_on_stderr
from memsync.cli.output import printable, say, say_json
from memsync.errors import FilesystemError, UsageError

if TYPE_CHECKING:
    from memsync.embed.cache.vector_files import Exchanged
    from memsync.ports import Progress

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

    path, most_bytes = vector_cache_path(), vector_cache_bytes(load(context))
    spaces, used_bytes = cached_spaces(path)
    if as_json:
        found = [{"name": one.space.name, "model": one.space.model, "vectors": one.vectors} for one in spaces]
        say_json({"path": str(path), "bytes": used_bytes, "most_bytes": most_bytes, "spaces": found})
        return
    bound = f"of at most {most_bytes / 1e6:,.0f} MB" if most_bytes else "switched off: index.vector_cache_mb is 0"
    say(f"vector cache  {printable(str(path))}\nsize          {used_bytes / 1e6:,.1f} MB ({bound})")
    for one in spaces:
        say(f"space         {printable(one.space.name)}: {one.vectors:,} vectors")


@vectors.command("export")
@click.argument("file")
@click.option("--space", "spaces", multiple=True, metavar="NAME", help="Only this space or model; may be repeated.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@json_option
def export(file: str, spaces: tuple[str, ...], force: bool, as_json: bool) -> None:
    """Write the cached vectors to FILE (-: standard output), for `memsync vectors import` on another machine.

    FILE holds neither texts nor paths, but vectors can tell what a text is about: keep it as private as the notes.
    """
    from memsync.embed.cache.vector_files import export_vectors
    from memsync.wiring import vector_cache_path

    if file == STANDARD and as_json:
        raise UsageError("--json and - both need standard output", hint="Name a file.")
    if file == STANDARD and sys.stdout.isatty():
        raise UsageError("vectors are no text for a terminal", hint="Name a file, or redirect standard output.")
    with _progress() as progress, _output(file, force=force) as stream:
        done = export_vectors(vector_cache_path(), spaces, stream, progress)
    if as_json:
        say_json({"file": file, "spaces": [{"name": one.space, "vectors": one.vectors} for one in done]})
        return
    for one in done:
        say(f"{printable(one.space)}: {one.vectors:,} vectors written", err=file == STANDARD)


@vectors.command("import")
@click.argument("file")
@json_option
@click.pass_context
def import_(context: click.Context, file: str, as_json: bool) -> None:
    """Put the vectors of FILE (-: standard input) into the cache: all of them, or none if anything is wrong.

    A file from somebody else can hold wrong vectors, which make searches find the wrong notes: import only your own.
    `memsync verify --recompute` finds them.
    """
    from memsync.embed.cache.vector_files import import_vectors
    from memsync.wiring import vector_cache_bytes, vector_cache_path

    most_bytes = vector_cache_bytes(load(context))
    if not most_bytes:
        raise UsageError("the vector cache is switched off", hint="Set index.vector_cache_mb to a number above 0.")
    with _input(file) as (stream, size), _progress() as progress:
        done = import_vectors(vector_cache_path(), most_bytes, stream, size, progress)
    if as_json:
        say_json({"file": file, "spaces": [_counts(one) for one in done]})
        return
    for one in done:
        say(f"{printable(one.space)}: {one.added:,} vectors added, {one.vectors - one.added:,} already there")


def _counts(one: Exchanged) -> dict[str, object]:
    return {"name": one.space, "vectors": one.vectors, "added": one.added}


@contextmanager
def _progress() -> Iterator[Progress]:
    with progress_on_stderr() as progress:
        yield progress or (lambda what, done, total: None)


@contextmanager
def _input(file: str) -> Iterator[tuple[BinaryIO, int]]:
    """Yield what is to be read, and its size in bytes, 0 if that is not known. Raises UsageError."""
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
    """Yield what is to be written to: a new file for this user alone, which is kept if nothing goes wrong.

    With `force` it takes the place of another file in the end. Raises FilesystemError, UsageError.
    """
    if file == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(file)
    if force and path.exists() and not stat.S_ISREG(path.stat().st_mode):
        raise UsageError(f"{file} is no file that could be overwritten", hint="Name another.")
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
