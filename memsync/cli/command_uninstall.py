"""`memsync uninstall`: take out of this machine what memsync put there, but for the notes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

import click

from memsync.cli.common import answering, own_program
from memsync.cli.output import CommandAnswer
from memsync.errors import IndexBusy, UsageError
from memsync.settings.config_file import NAME as CONFIG_NAME
from memsync.settings.paths import is_inside
from memsync.settings.roots import FILE_NAME, TRANSCRIPTS, registered_roots
from memsync.system.extras import installer
from memsync.system.user_folders import cache_folder, config_folder, data_folder, filesystem_errors, state_folder

if TYPE_CHECKING:
    from memsync.agents.agent import Agent
    from memsync.agents.connecting import SetupChange
    from memsync.sync.stored_indexes import IndexFolder

SECTION = "Set up"
_STATE = ("kept", "last_search", "recall", "registered", "started", "stored", "user", "vectors")
_CACHE = ("models", "secrets", "served.json")
"""What memsync has in its folders besides indexes. On macOS notes and settings are in the same folder."""


@click.command()
@click.option("--apply/--dry-run", "is_applied", default=False, help="Do it; by default only print what would be done.")
@answering
def uninstall(_: click.Context, is_applied: bool) -> CommandAnswer:
    """Remove what memsync put on this machine: services, agents' hooks and MCP servers, daemons, state and caches.

    Without --apply only prints it. Notes, kept conversations and your own settings stay. With the state goes what
    `memsync recover` and `--undo` could bring back. The last line says how to remove the program itself.
    """
    from memsync.cli.command_agents import take_back
    from memsync.daemon import user_service
    from memsync.sync.stored_indexes import stored_indexes

    services, connected, indexes = user_service.installed(), list(_connected()), stored_indexes()
    notes = sorted({index.root for index in indexes if index.root and not index.gone} | _registered() | _transcripts())
    own = {index.folder: f"index        {index.folder} (of {index.root or 'an earlier folder'})" for index in indexes}
    own |= {place: f"own files    {place}" for place in _own()}
    if swallowed := [note for note in notes for folder in own if is_inside(note, folder)]:
        raise UsageError(f"a memory root is among memsync's own files: {swallowed[0]}", hint="Move it elsewhere first.")
    complaints = [remark for _, _, remarks in connected for remark in remarks]
    removed = {str(service.path): f"service      {service.path}" for service in services}
    for agent, changes, _remarks in connected:
        removed |= {
            change.path: f"connection   {agent.title}: {change.path}" for change in changes if change.new != change.old
        }
    removed |= own
    settings = (os.path.join(config_folder(), name) for name in (CONFIG_NAME, FILE_NAME))
    lines = [f"{'removed ' * is_applied}{line}" for line in removed.values()]
    lines += [f"stays        {place}" for place in (*notes, *filter(os.path.exists, settings))]
    if is_applied:
        for service in services:
            complaints += user_service.uninstall(service)
        for agent, changes, _remarks in connected:
            take_back(agent, changes)
        _remove_state(indexes, own)
    next_step = f"{'Next' if is_applied else 'Nothing was changed. To do it, add --apply; then'}: {installer().remove}"
    document = {"applied": is_applied, "removed": [*removed], "kept": notes, "next": installer().remove}
    return CommandAnswer(document, [*lines, "", next_step], complaints, code=int(bool(complaints)))


def _connected() -> Iterator[tuple[Agent, Sequence[SetupChange], Sequence[str]]]:
    """Yield each agent that is connected, the changes that disconnect it, and remarks about files that stay."""
    from memsync.agents import agents
    from memsync.agents.connecting import taken_back

    for agent in agents():
        changes, remarks = taken_back(agent, own_program())
        if changes or remarks:
            yield agent, changes, remarks


def _own() -> list[str]:
    """Return the files and folders of memsync's own that exist, without those of indexes."""
    places = [os.path.join(state_folder(), name) for name in _STATE]
    places += [os.path.join(cache_folder(), name) for name in _CACHE]
    return [place for place in places if os.path.lexists(place)]


def _registered() -> set[str]:
    return {root.path for root in registered_roots().values() if root.path}


def _transcripts() -> set[str]:
    folder = os.path.join(data_folder(), TRANSCRIPTS)
    return {folder} if os.path.isdir(folder) else set()


def _remove_state(indexes: Sequence[IndexFolder], own: Iterable[str]) -> None:
    """End the daemons, keep others from starting, and delete memsync's own. Raises IndexBusy, FilesystemError."""
    from memsync.sync.without_daemon import held, without_daemon

    with ExitStack() as locks:
        for index in indexes:
            locks.enter_context(without_daemon(index.folder, partial(_busy, index)))
            locks.enter_context(held(f"{index.folder}/sync.lock", partial(_busy, index), 0.0))
        for folder in own:
            with filesystem_errors(f"{folder} cannot be removed"):
                if os.path.isdir(folder) and not os.path.islink(folder):
                    shutil.rmtree(folder)
                else:
                    os.unlink(folder)
    for folder in (state_folder(), cache_folder()):
        with suppress(OSError):  # it has something else, or is that of the settings
            os.rmdir(folder)


def _busy(index: IndexFolder) -> IndexBusy:
    name = index.root or index.folder
    return IndexBusy(f"a daemon or a sync uses the index of {name}", hint="End it, and run this again.")
