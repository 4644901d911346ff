"""What the commands share: settings, the memory and its daemon, a pager, progress on stderr."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import click

from memsync.cli.output import CommandAnswer, is_terminal, paged, remark, say, say_json
from memsync.errors import NoMemoryRoot
from memsync.model.text import printable

if TYPE_CHECKING:
    from memsync.cli.typed_paths import Here
    from memsync.memory import Memory, MemoryApi
    from memsync.ports import Progress
    from memsync.settings.load import Settings

_SETTINGS = "memsync.settings"
REDRAW_SECONDS = 0.1


class Invocation(NamedTuple):
    """How memsync was called: the global options.

    If a daemon runs the command for a client, also the daemon's memory, the client's current folder and the client's
    setting `cli.open_with`.
    """

    config: str | None = None
    root: str | None = None
    memory: Memory | None = None
    folder: str | None = None
    open_with: str = ""


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def answering(command: Callable[..., CommandAnswer]) -> Callable[..., None]:
    """Make a callback of a function that returns a command's answer: print that, and exit with its code.

    The command gets the option --json. Each line and each remark is made safe for a terminal.
    """

    @wraps(command)
    def callback(context: click.Context, /, as_json: bool, **given: Any) -> None:
        answer = command(context, **given)
        if as_json:
            say_json(answer.document)
        else:
            for line in answer.lines:
                say(printable(line))
        for text in answer.remarks:
            remark(printable(text))
        if answer.code:
            sys.exit(answer.code)

    return json_option(click.pass_context(callback))


def own_program() -> list[str]:
    """Return the command that starts memsync in any folder and environment: this program by its full path."""
    program = os.path.abspath(sys.argv[0])
    is_installed = os.path.basename(program) == "memsync" and os.access(program, os.X_OK)
    return [program] if is_installed else [sys.executable, "-P", "-m", "memsync"]


def load(context: click.Context) -> Settings:
    """Return the settings that the global options name; read them, and print their warnings, once per command.

    This recognises a memory root that was moved, before anything opens its index.
    """
    from memsync.settings.load import load_settings
    from memsync.wiring import recognise_root

    if context.obj.memory is not None:
        served: Settings = context.obj.memory.settings
        return served
    settings: Settings | None = context.meta.get(_SETTINGS)
    if settings is None:
        settings = context.meta[_SETTINGS] = load_settings(config=context.obj.config, root=context.obj.root)
        for warning in settings.warnings:
            remark(printable(warning))
        recognise_root(settings, lambda text: remark(printable(text)))
    return settings


def here(context: click.Context) -> Here:
    """Return the current folder as seen from the memory root that the global options name."""
    from memsync.cli.typed_paths import Here

    return Here(load(context).root_name, context.obj.folder)


def setting_of(context: click.Context, name: str) -> Any:
    """Return a setting of the memory root, or outside of one the user's own."""
    from memsync.settings.load import default_of

    try:
        return load(context)[name]
    except NoMemoryRoot:
        return default_of(name)


@contextmanager
def opened(context: click.Context) -> Iterator[MemoryApi]:
    """Yield the memory that the global options name, through its daemon if that serves it; otherwise say why not."""
    from memsync.daemon.autostart import start_if_wanted
    from memsync.memory import RemoteMemory, open_memory

    if context.obj.memory is not None:
        yield context.obj.memory
        return
    settings = load(context)
    with open_memory(settings, notice=lambda text: remark(printable(text))) as memory:
        if not isinstance(memory, RemoteMemory):  # once the answer is printed
            context.find_root().call_on_close(lambda: start_if_wanted(settings, remark))
        yield memory


def opened_here(context: click.Context, settings: Settings | None = None) -> Memory:
    """Open the memory that the global options name in this process, whether or not there is a daemon.

    `settings` replaces the memory's settings.
    """
    from memsync.memory import Through, open_memory

    return open_memory(settings or load(context), Through.HERE)


def long_output(context: click.Context) -> AbstractContextManager[None]:
    """Show what a block prints in a pager if it is longer than the terminal and the settings allow a pager."""
    return paged() if is_terminal() and setting_of(context, "cli.pager") else nullcontext()


def name_of(file: BinaryIO) -> str:
    """Return the name of a file that click has opened, as it was typed: `-` for standard input."""
    return "-" if file.name == sys.stdin.buffer.name else file.name


@contextmanager
def progress_on_stderr() -> Iterator[Progress]:
    """Yield a progress callback that counts on the last line of stderr, or does nothing when stderr is no terminal."""
    if not sys.stderr.isatty():
        from memsync.ports import no_progress

        yield no_progress
        return
    erase, columns, shown_at = "\r\x1b[K", max(20, get_terminal_size().columns), 0.0

    def show(what: str, done: int, total: int) -> None:
        nonlocal shown_at
        now = time.monotonic()
        if total and now - shown_at < REDRAW_SECONDS:
            return
        shown_at = now
        if total:
            sys.stderr.write(f"{erase}{f'{printable(what):<18} {done:,} of {total:,}'[: columns - 1]}")
        else:
            sys.stderr.write(f"{erase}{printable(what)}\n")
        sys.stderr.flush()

    try:
        yield show
    finally:
        if shown_at:
            sys.stderr.write(erase)
            sys.stderr.flush()


def say_waiting(holder: str) -> None:
    """Say on stderr for which process a command waits."""
    remark(f"waiting for {printable(holder)}, which is syncing the same index")
