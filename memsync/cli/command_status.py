"""`memsync status`: what the index holds and what the daemon does; also what is known if the index cannot be read."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import click

from memsync.cli.build import help_of, run_on, show
from memsync.cli.common import json_option, load, opened
from memsync.cli.output import KEPT, NotServed
from memsync.cli.render import say_facts
from memsync.errors import IndexFailure, MemsyncError
from memsync.features.indexing import status as status_operation
from memsync.memory import RemoteMemory

if TYPE_CHECKING:
    from memsync.settings.load import Settings

SECTION = "Index"

_OFFERED = status_operation.commands[0]


@click.command("status", help=help_of(status_operation, _OFFERED))
@json_option
@click.pass_context
def status(context: click.Context, as_json: bool) -> None:
    """Run the operation and print its result. If the index cannot be read, print what is known without it."""
    with opened(context) as memory:
        try:
            result = run_on(memory, status_operation, {})
        except IndexFailure as error:
            if KEPT.get():  # the client knows as much as its daemon
                raise NotServed from error
            if not as_json:
                _say_what_is_known(load(context), error, has_daemon=isinstance(memory, RemoteMemory))
            raise
    show(context, result, status_operation, _OFFERED, as_json=as_json)


def _say_what_is_known(settings: Settings, error: IndexFailure, *, has_daemon: bool) -> None:
    """Print the memory root, the place of its index, the daemon, and the fault."""
    from memsync.daemon import daemon_lock
    from memsync.daemon.process import why_not_served
    from memsync.wiring import make_index

    place = settings.index_name
    with suppress(MemsyncError):
        index = make_index(settings)
        place = index.place
        index.close()
    running = (daemon_lock.running(settings) or {}) if has_daemon else {}
    daemon = f"process {running['process']}" if "process" in running else why_not_served(settings)
    say_facts(("memory root", settings.root_name), ("index", place), ("daemon", daemon), ("fault", error.message))
