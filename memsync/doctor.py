"""`memsync doctor`: try each thing that memsync depends on, and advise what to do about failures."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sqlite3
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from memsync.agents.recall_records import failures
from memsync.cli.hook import trial
from memsync.daemon.daemon_lock import running
from memsync.errors import IndexDamaged, MemsyncError
from memsync.settings.config_file import NAME as CONFIG_NAME
from memsync.settings.load import Settings
from memsync.settings.roots import registered_roots, roots_path
from memsync.settings.settings_list import DSN
from memsync.system.extras import EXTRAS, how_to_install, lacking
from memsync.system.user_folders import config_folder
from memsync.wiring import backend_versions, check_built_in_files, make_embedder, make_index

MIN_FREE_BYTES = 200_000_000


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check: the finding, and advice if it failed."""

    name: str
    ok: bool
    finding: str
    advice: str = ""


def check_all(settings: Settings) -> list[Check]:
    """Run all checks, dependencies first. A failed check becomes a finding, not an exception."""
    return [
        _guarded("python", _python),
        _guarded("sqlite", _sqlite),
        _guarded("root", _root, settings),
        _guarded("index", _index, settings),
        _guarded("permissions", _permissions, settings),
        _guarded("disk", _disk, settings),
        _guarded("model files", _model_files),
        _guarded("model", _model, settings),
        _guarded("daemon", _daemon, settings),
        _guarded("extras", _extras),
    ]


def _guarded(name: str, check: Callable[..., tuple[bool, str, str]], *arguments: Settings) -> Check:
    try:
        return Check(name, *check(*arguments))
    except MemsyncError as error:
        return Check(name, False, error.message, error.hint)
    except (OSError, ImportError) as error:
        return Check(name, False, str(error), "Reinstall memsync, or fix the problem that the message names.")


def _python() -> tuple[bool, str, str]:
    ok = sys.version_info >= (3, 11)
    return ok, f"{platform.python_version()} on {platform.system()}", "" if ok else "Install Python 3.11 or later."


def _extras() -> tuple[bool, str, str]:
    missing = [f"{extra} ({use})" for extra, (_, use) in EXTRAS.items() if lacking(extra)]
    finding = f"not installed: {'; '.join(missing)}. {how_to_install('NAME')}" if missing else "all are installed"
    return True, finding, ""


def _sqlite() -> tuple[bool, str, str]:
    library, vec0 = backend_versions()
    unused = f"Python's own SQLite {sqlite3.sqlite_version} is not used"
    return True, f"SQLite {library} with FTS5, sqlite-vec {vec0} ({unused})", ""


def _root(settings: Settings) -> tuple[bool, str, str]:
    ok = os.access(settings.root, os.R_OK | os.X_OK)
    conflicts = [entry.name for entry in os.scandir(settings.root) if "conflict" in entry.name.lower()]
    if conflicts:
        finding = f"{settings.root}; copies left by a sync client: {', '.join(conflicts[:5])}"
        return ok, finding, "Compare the copies and remove one of each."
    return ok, str(settings.root), "" if ok else "Give yourself permission to read it."


def _index(settings: Settings) -> tuple[bool, str, str]:
    index = make_index(settings)
    try:
        with suppress(IndexDamaged):  # a new index replaces it, and a warning says so
            index.check(is_quick=True)
        with index.reading() as reader:
            counts = reader.counts()
        index.check_writable()
        warnings = "; ".join(index.take_warnings())
    finally:
        index.close()
    finding = f"{index.place}: notes: {counts.notes}, vectors pending: {counts.pending}"
    return not warnings, warnings or finding, "Run: memsync sync" if warnings or counts.pending else ""


def _permissions(settings: Settings) -> tuple[bool, str, str]:
    mode = stat.S_IMODE(os.stat(settings.index_dir).st_mode)
    if mode & 0o077:
        return False, f"index folder {mode:04o}", f"Run: chmod 700 {settings.index_dir}"
    if readable := [path for path in _files_with_passwords(settings) if os.stat(path).st_mode & 0o077]:
        names = " ".join(map(shlex.quote, readable))
        return False, f"other users can read the connection string in {names}", f"Run: chmod 600 {names}"
    return True, f"index folder {mode:04o}", ""


def _daemon(settings: Settings) -> tuple[bool, str, str]:
    if running(settings) is None:
        return True, failures() or "no daemon is running", ""
    silence = trial(settings)
    finding = f"it does not answer a question: {silence}" if silence else "it answers a question"
    return not silence, "; ".join(filter(None, [finding, failures()])), "See: memsync daemon logs" if silence else ""


def _files_with_passwords(settings: Settings) -> list[str]:
    """Return the user's own files that have the connection string of a database, which may have a password."""
    own = os.path.join(config_folder(), CONFIG_NAME)
    files = [own] if settings.sources[DSN] == own else []
    return [*files, roots_path()] if any(root.dsn for root in registered_roots().values()) else files


def _disk(settings: Settings) -> tuple[bool, str, str]:
    free = shutil.disk_usage(settings.index_dir).free
    ok = free >= MIN_FREE_BYTES
    advice = "" if ok else "Free some space, or set XDG_STATE_HOME to a folder on another disk."
    return ok, f"{free / 1e9:.1f} GB free at the index", advice


def _model_files() -> tuple[bool, str, str]:
    return True, f"{' and '.join(check_built_in_files())}: SHA-256 is correct", ""


def _model(settings: Settings) -> tuple[bool, str, str]:
    embedder = make_embedder(settings["embedder.model"])
    dimension = len(embedder.embed_query("which store did we choose"))
    ok = dimension == embedder.space.dimension
    return ok, f"{embedder.space.name} answers", "" if ok else "Run: memsync index rebuild --drop-vectors"
