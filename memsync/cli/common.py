"""What the commands share: settings from the global options, JSON output, progress on a terminal's stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from memsync.cli.output import has_colour, is_terminal, paged, printable, say

if TYPE_CHECKING:
    from memsync.cli.here import Here
    from memsync.memory import Memory, MemoryApi
    from memsync.ports import Progress
    from memsync.settings.load import Settings


_SETTINGS = "memsync.settings"


class Invocation(NamedTuple):
    """How memsync was called: the global options, and, where a daemon runs the command for a client, its memory.

    `folder` is the client's current folder, `open_with` its setting `cli.open_with`.
    """

    config: str | None = None
    root: str | None = None
    memory: Memory | None = None
    folder: str | None = None
    open_with: str = ""


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def load(context: click.Context) -> Settings:
    """Return the settings that the global options name; they are read, and warned about, once a command.

    A memory root that was moved is recognised here, before anything looks for what is kept of it.
    """
    from memsync.wiring import recognise_root

    if context.obj.memory is not None:
        served: Settings = context.obj.memory.settings
        return served
    settings: Settings | None = context.meta.get(_SETTINGS)
    if settings is None:
        settings = context.meta[_SETTINGS] = load_again(context)
        recognise_root(settings, lambda text: say(f"memsync: {printable(text)}", err=True))
    return settings


def load_again(context: click.Context) -> Settings:
    """Return the settings that the global options name, as their files are now."""
    from memsync.settings.load import load_settings

    settings = load_settings(config=context.obj.config, root=context.obj.root)
    for warning in settings.warnings:
        say(f"memsync: {printable(warning)}", err=True)
    return settings


def here(context: click.Context) -> Here:
    """Return the current folder as seen from the memory root that the global options name."""
    from memsync.cli.here import Here
    from memsync.wiring import beneath_root

    return Here(load(context).root_name, beneath_root, context.obj.folder)


def link_template(context: click.Context) -> str:
    """Return the URL of a place in a note, with {path} and {line}; empty where no links are printed."""
    if not (is_terminal() and has_colour()):
        return ""
    from urllib.parse import quote

    from memsync.cli.links import template_of

    settings = load(context)
    template = template_of(context.obj.open_with or settings["cli.open_with"])
    return template.replace("{path}", f"{quote(os.fsencode(settings.root_name))}/{{path}}")


@contextmanager
def opened(context: click.Context) -> Iterator[MemoryApi]:
    """Yield the memory that the global options name, its daemon's if one serves it. Say why a daemon does not."""
    from memsync.cli import autostart
    from memsync.memory import RemoteMemory
    from memsync.wiring import connect

    if context.obj.memory is not None:
        yield context.obj.memory
        return
    settings = load(context)
    with connect(settings, lambda text: say(f"memsync: {printable(text)}", err=True)) as memory:
        if not isinstance(memory, RemoteMemory):  # once the answer is printed
            context.find_root().call_on_close(lambda: autostart.start_if_wanted(settings))
        yield memory


@contextmanager
def opened_here(context: click.Context, settings: Settings | None = None) -> Iterator[Memory]:
    """Yield the memory that the global options name in this process, whether or not there is a daemon.

    `settings` are those of that memory with some of them changed.
    """
    from memsync.wiring import connect_here

    with connect_here(settings or load(context)) as memory:
        yield memory


@contextmanager
def long_output(context: click.Context) -> Iterator[None]:
    """Show what is printed meanwhile in a pager if it is longer than the terminal and the settings do not forbid it."""
    if is_terminal() and load(context)["cli.pager"]:
        with paged():
            yield
    else:
        yield


@contextmanager
def progress_on_stderr() -> Iterator[Progress | None]:
    """Yield a progress callback that draws a bar on stderr, or None when stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (TextColumn("{task.description:<18}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with RichProgress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def show(what: str, done: int, total: int) -> None:
            if not total:
                bar.console.print(printable(what), markup=False, highlight=False)
                return
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield show


def waiting_on_stderr() -> Callable[[str], None]:
    """Return a callback that says for whom a command waits."""
    return lambda holder: say(f"memsync: waiting for {printable(holder)}, which is syncing the same index", err=True)
