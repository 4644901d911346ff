"""Connects agents: plans the edits of their settings files, makes them, and undoes them.

A record in the state of the user has each file's bytes before the edit, and its digests after it. Disconnecting
restores the bytes of a file that was not edited since. From any other file, it removes only memsync's own entries.
"""

from __future__ import annotations

import base64
import difflib
import json
import os
import shlex
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from memsync.agents import agents
from memsync.agents.agent import NAME, Agent, SetupFile
from memsync.agents.edits import added, parsed, removed, text_of
from memsync.agents.events import at
from memsync.edit import note_file
from memsync.edit.note_paths import cannot_write, check_writable
from memsync.errors import ConfigError, FilesystemError, IndexBusy, UsageError, WriteRefused
from memsync.model.vocabulary import NotePath
from memsync.notes.files import open_folder
from memsync.settings.paths import is_inside
from memsync.settings.roots import OWN_MEMORY
from memsync.system.file_lock import file_lock
from memsync.system.state_file import state_of_user
from memsync.system.user_folders import digest_of, user_folder

MAX_BYTES = 20_000_000
LOCK_SECONDS = 5.0
LEFTOVER_SECONDS = 60.0
"""A younger hidden file may be the only copy of a note that another process is replacing at this moment."""
Record = Mapping[str, Any]
"""`before`: the bytes before the edit in base64, or None; `after`: digests of the contents that memsync wrote;
`entries`: the entries that it added, None if it owns the whole file; `project`: the project's folder, or empty."""


class SetupChange(NamedTuple):
    """The bytes of one file before and after (None: no file), and the record to store afterwards (None: no record)."""

    path: str
    old: bytes | None
    new: bytes | None
    record: Record | None


def connections(agent: Agent) -> dict[str, Record]:
    """Return the record of each file that memsync edited for an agent, by path. Raises FilesystemError, IndexBusy."""
    return dict(json.loads(state_of_user().single(f"connected {agent.name}") or "{}"))


def connected_projects() -> set[str]:
    """Return the folders of the projects in which the user connected an agent. Raises FilesystemError, IndexBusy."""
    return {record["project"] for agent in agents() for record in connections(agent).values()} - {""}


def places(agent: Agent, project: Path | None) -> list[tuple[SetupFile, str]]:
    """Return the files that connect an agent for the user, or in a project, each with its path after all links.

    Raises UsageError if a link leads out of the project.
    """
    found = []
    for setup in agent.setup:
        place = (setup.user and setup.user()) if project is None else setup.project and project / setup.project
        if place:
            path = os.path.realpath(place)
            if project is not None and not is_inside(path, os.path.realpath(project)):
                raise UsageError(f"{place} leads out of the project", hint="Replace the link with a file.")
            found.append((setup, path))
    return found


def planned(agent: Agent, program: Sequence[str], project: Path | None) -> list[SetupChange]:
    """Return the changes that connect an agent for the user, or in a project. Raises MemsyncError.

    If the user installed memsync's plugin, they remove what would answer besides it.
    """
    if plugged(agent, project):
        kept = {path for setup, path in places(agent, None) if setup.is_for_plugin}
        return [change for change in taken_back(agent, program)[0] if change.path not in kept]
    found = places(agent, project)
    if not found:
        raise UsageError(f"{agent.title} cannot be connected in a project", hint="Leave out --project.")
    project_path = os.path.realpath(project) if project else ""
    return [_connected(agent, path, _entries(agent, setup, program), project_path) for setup, path in found]


def _entries(agent: Agent, setup: SetupFile, program: Sequence[str]) -> Mapping[str, Any] | str:
    return setup.entries(program, lambda event: shlex.join([*program, "hook", event, "--agent", agent.name]))


def plugged(agent: Agent, folder: Path | None = None) -> list[str]:
    """Return the files with the hooks of memsync's plugin that the user installed: everywhere, or also in a folder.

    Raises ConfigError for a broken settings file.
    """

    def read(path: Path) -> Any:
        return parsed(str(path), text_of(str(path), read_settings(str(path))))

    try:
        return [*dict.fromkeys(os.path.realpath(path) for path in agent.plugged(read, folder) if path.exists())]
    except ValueError as error:  # settings may have any text for a path
        raise ConfigError(f"the settings of {agent.title} name no folder of a plugin: {error}") from None


def taken_back(agent: Agent, program: Sequence[str]) -> tuple[list[SetupChange], list[str]]:
    """Return the changes that disconnect an agent, and sentences about files that stay. Raises ConfigError.

    Checks the user's files that have no record, too: the record may be lost, or the file may have replaced a link.
    """
    changes, remarks, records, plugin = [], [], connections(agent), plugged(agent)
    is_replaced = any(path in plugin for _, path in places(agent, None))  # the plugin has taken the place of its files
    for path, entries in {path: _entries(agent, setup, program) for setup, path in places(agent, None)}.items():
        old = read_settings(path)
        if old is None or path in records or NAME.encode() not in old or (is_replaced and isinstance(entries, str)):
            continue
        if not isinstance(entries, str):
            base = _base(path, old, None, entries)
        else:  # a file that is memsync's as a whole
            base = None if old == entries.encode() else old
        if base != old:
            changes.append(SetupChange(path, old, base, None))
    for path, record in records.items():
        old = read_settings(path)
        if is_replaced and record["entries"] is None:
            changes.append(SetupChange(path, old, old, None))
        elif old is not None and record["entries"] is None and digest_of(old) not in record["after"]:
            remarks.append(f"{path} stays, because it was edited after memsync wrote it")
        else:
            changes.append(SetupChange(path, old, _base(path, old, record, record["entries"]), None))
    remarks += [f"{path} stays, with the plugin; to remove it: {agent.unplug}" for path in plugin]
    return changes, remarks


def own_memories(agent: Agent) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the folder and the glob patterns of each of an agent's own memories, by the name to register.

    Reads a folder that settings name only from the user's own file, because a clone could name any folder. Raises
    ConfigError.
    """
    memories = {agent.name: (os.path.realpath(agent.home()), agent.memory)} if agent.memory else {}
    file = str(agent.home() / "settings.json")
    named = agent.memory_setting and at(parsed(file, text_of(file, read_settings(file))), agent.memory_setting)
    if isinstance(named, str) and named.startswith(("/", "~/")):
        memories[agent.name + OWN_MEMORY] = (os.path.realpath(os.path.expanduser(named)), ("**/*.md",))
    return memories


def is_as_written(agent: Agent, path: str) -> bool:
    """Tell whether a file is unchanged since memsync wrote it."""
    record = connections(agent).get(path)
    return record is not None and digest_of(read_settings(path) or b"") in record["after"]


def diff_of(change: SetupChange) -> list[str]:
    """Return a change as the lines of a unified diff."""
    texts = [(content or b"").decode("utf-8", "replace").splitlines(keepends=True) for content in change[1:3]]
    names = [change.path if content is not None else os.devnull for content in change[1:3]]
    lines = difflib.unified_diff(texts[0], texts[1], names[0], names[1])
    return [part for line in lines for part in line.rstrip("\r\n").split("\r")]


def apply(agent: Agent, changes: Sequence[SetupChange]) -> None:
    """Make all changes or none. Each file changes in one step, and only if it is still as it was planned.

    The records are stored first. They also fit files that are not changed yet, so `disconnect` cleans up after a
    process that was killed here. Raises WriteRefused, FilesystemError.
    """
    lock = Path(user_folder(), "connecting.lock")
    with file_lock(lock, LOCK_SECONDS, _busy, poll_seconds=0.02):
        records = connections(agent)
        _keep(agent, {**records, **{change.path: change.record for change in changes if change.record is not None}})
        done: list[SetupChange] = []
        try:
            for change in changes:
                if change.new != change.old:
                    _write(change)
                    done.append(change)
        except BaseException:
            for change in reversed(done):
                _write(change._replace(old=change.new, new=change.old))
            _keep(agent, records)
            raise
        finally:
            for change in changes:
                project = (change.record or records.get(change.path, {"project": ""}))["project"]
                with suppress(OSError):
                    _drop_empty_folders(change.path, (project, os.path.realpath(agent.home())))
        wanted = {**records, **{change.path: change.record for change in changes}}
        _keep(agent, {path: record for path, record in wanted.items() if record is not None})


# ------------------------------------------------------------------------------------------------ planning


def _connected(agent: Agent, path: str, entries: Mapping[str, Any] | str, project: str) -> SetupChange:
    """Return the change of one file that connects an agent."""
    old, before, own = read_settings(path), None, None
    # Read after the file, because another process stores the record before it writes the file.
    record = connections(agent).get(path)
    written = record["after"] if old is not None and record and digest_of(old) in record["after"] else []
    if isinstance(entries, str):
        new = entries.encode()
        if old not in (None, new) and not written:
            raise UsageError(f"{path} exists, and memsync did not write it", hint="Move it away first.")
    else:
        before, own = _base(path, old, record, entries), entries
        new = added(path, text_of(path, before), entries).encode()
        if old is not None and parsed(path, text_of(path, old)) == parsed(path, new.decode()):
            new = old  # the agent has only formatted its file in another way
    kept = None if before is None else base64.b64encode(before).decode()
    made = {"before": kept, "after": [*written, digest_of(new)], "entries": own, "project": project}
    return SetupChange(path, old, new, made)


def _base(path: str, old: bytes | None, record: Record | None, entries: Mapping[str, Any]) -> bytes | None:
    """Return a file without memsync's entries (None: no file). A file that was not edited since gets its old bytes."""
    if old is None or record is None:
        return None if old is None else removed(path, text_of(path, old), entries).encode()
    before = None if record["before"] is None else base64.b64decode(record["before"])
    if digest_of(old) in record["after"]:
        return before
    text = removed(path, text_of(path, old), record["entries"] or entries, text_of(path, before))
    return None if before is None and not set(text) - set("{} \t\r\n") else text.encode()


# --------------------------------------------------------------------------------------------------- files


def read_settings(path: str) -> bytes | None:
    """Return a file's bytes, None if it does not exist. Raises FilesystemError, ConfigError."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
            raise ConfigError(f"{path} is not a file of at most {MAX_BYTES // 1_000_000} MB", hint="Move it away.")
        return Path(path).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FilesystemError(f"{path} cannot be read: {error.strerror}", hint="Check its permissions.") from error


def _write(change: SetupChange) -> None:
    """Create, replace or delete one file; its mode and attributes stay. Raises WriteRefused, FilesystemError."""
    name, path, is_done = os.path.basename(change.path), NotePath(change.path), True
    try:
        with open_folder(Path("/"), change.path.split("/")[1:-1], create=True) as folder:
            note_file.clear_leftovers(folder, LEFTOVER_SECONDS)
            if change.old is None:
                note_file.create(folder, name, change.new or b"")
                return
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            check_writable(path, status)
            if change.new is None:
                is_done = note_file.remove(folder, path, name, change.old)
            else:
                is_done = note_file.swap(folder, path, change.old, change.new, status)
    except (FileExistsError, FileNotFoundError):
        is_done = False
    except OSError as error:
        raise cannot_write(path, error) from error
    if not is_done:
        raise _changed(change.path)


def _drop_empty_folders(path: str, kept: Sequence[str]) -> None:
    """Remove the empty folders above a deleted file, but never the folders in `kept` or the home."""
    for folder in map(str, Path(path).parents):
        if folder in (*kept, os.path.realpath(Path.home())) or not os.path.isdir(folder) or os.listdir(folder):
            return
        os.rmdir(folder)


def _changed(path: str) -> WriteRefused:
    reason = f"{path} was changed meanwhile, or a program has it open"
    return WriteRefused(reason, hint="Nothing was changed. Run the command again.")


def _keep(agent: Agent, records: Mapping[str, Record | None]) -> None:
    state_of_user().keep_single(f"connected {agent.name}", json.dumps(records), waits=True)


def _busy(holder: str) -> IndexBusy:
    return IndexBusy(f"{holder} is connecting an agent", hint="Try again.")
