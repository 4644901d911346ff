"""The only file that names concrete backends. To add a backend, write its file and add one line here."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from memsync.errors import ConfigError, IndexBusy
from memsync.settings.load import Settings
from memsync.settings.settings_list import BUILT_IN_MODEL
from memsync.system.plugins import MODELS, load_plugin, plugins

if TYPE_CHECKING:
    from pathlib import Path

    from memsync.index.postgres.access import DatabaseStatus
    from memsync.index.postgres.database import Database
    from memsync.index.postgres.stored import ReadOnlyIndex
    from memsync.model.query import EmbeddingSpace
    from memsync.model.status import HeldByIndex
    from memsync.ports import Embedder, Index, Reranker, TokenCounter, VectorCache

# The setting index.backend -> what opens it, and the name of its file in the index folder; empty: the index is not
# there, and does not move with the root.
INDEXES = {
    "sqlite": ("memsync.index.sqlite.index:SqliteIndex", "index.db"),
    "postgres": ("memsync.index.postgres.opening:open_postgres", ""),
}
DATABASE = "memsync.index.postgres.database:Database"
DATABASE_STATUS = "memsync.index.postgres.database:status_of"
FORGET = "memsync.index.postgres.database:forget_memory"
MOVED_DATABASE = ("memsync.index.postgres.opening:open_moved", "memory.json")
STORED_INDEX = "memsync.index.postgres.stored:ReadOnlyIndex"

EMBEDDERS = {BUILT_IN_MODEL: "memsync.embed.minilm:load", "multilingual": "memsync.embed.multilingual:load"}
_OPENAI = "openai:"


def make_embedder(model: str) -> Embedder:
    """Return the embedder that `[embedder] model` names, not loaded yet. Raises UnknownModel or EmbedderError."""
    if model in EMBEDDERS:
        embedder: Embedder = _load(EMBEDDERS[model])()
    elif model.startswith(_OPENAI):
        embedder = _load("memsync.embed.openai:load")(model.removeprefix(_OPENAI))
    else:
        embedder = _of_plugin(model) or _load("memsync.embed.fastembed:load")(model)
    return embedder


def make_reranker(model: str) -> Reranker:
    """Return the cross-encoder that `[search] rerank_model` names, not loaded yet. Raises UnknownModel."""
    reranker: Reranker = _of_plugin(model) or _load("memsync.embed.cross_encoder:load")(model)
    return reranker


def _of_plugin(model: str) -> Any:
    """Return the model with this name from another package: its entry point has the name, or the part up to a colon."""
    known = plugins(MODELS)
    point = known.get(model) or known.get(f"{model.partition(':')[0]}:")
    return load_plugin(point, model) if point is not None else None


def model_of(space: EmbeddingSpace) -> str:
    """Return the `[embedder] model` setting whose vectors are in `space`."""
    names = {"minilm": BUILT_IN_MODEL, "multilingual": "multilingual", "openai": f"openai:{space.model}"}
    return names.get(space.provider, space.model)


def make_index(settings: Settings) -> Index:
    """Open the index of the settings' memory root; create it if there is none. Raises ConfigError, IndexFailure."""
    opened, file = _index_backend(settings)
    if file:
        return opened(settings.index_dir / file)
    index: Index = _load(INDEXES[settings["index.backend"]][0])(settings)
    return index


def _index_backend(settings: Settings) -> tuple[Callable[[Path], Index], str]:
    backend = settings["index.backend"]
    if backend not in INDEXES:
        raise ConfigError(f"index.backend is {backend!r}", hint=f"Set it to one of: {', '.join(INDEXES)}.")
    target, file = INDEXES[backend]
    return lambda path: _load(target)(path), file


def shared_database(settings: Settings) -> Database:
    """Return the PostgreSQL database that the settings name, for the commands that manage it. Raises ConfigError."""
    database: Database = _load(DATABASE)(settings)
    return database


def database_status(dsn: str, source: str = "") -> DatabaseStatus:
    """Return what the database of a connection string holds, for a user without files, too. Raises IndexFailure.

    `source` says where the list of memories has the connection string, for errors; empty if it is the user's own.
    """
    found: DatabaseStatus = _load(DATABASE_STATUS)(dsn, source)
    return found


def forget_memory(name: str, *, apply: bool, take_over: bool = False) -> HeldByIndex:
    """Return what an index has of a memory, and delete it if `apply`: a registered one, or one of the user's database.

    A daemon that serves the memory is stopped first. Raises UsageError if there is no such memory, IndexBusy if a
    daemon or a sync does not end, IndexFailure also if somebody else writes a memory of a database and `take_over` is
    not set.
    """
    from memsync.settings.load import default_of, settings_of
    from memsync.settings.roots import registered_roots, unknown_root
    from memsync.settings.settings_list import DSN

    roots = registered_roots()
    if name in roots and roots[name].path:
        held = _forget_index(settings_of(roots[name]), apply=apply)
        return held._replace(folder=roots[name].path, is_registered=True)
    forget: Callable[..., HeldByIndex] = partial(_load(FORGET), apply=apply, take_over=take_over)
    if name in roots:
        held = forget(roots[name].dsn, roots[name].memory or name, source=roots[name].source)
    elif dsn := default_of(DSN):
        held = forget(dsn, name)
    else:
        raise unknown_root(name, roots)
    return held._replace(is_registered=name in roots)


def _forget_index(settings: Settings, *, apply: bool) -> HeldByIndex:
    """Return what the index of a memory root has, and delete it if `apply`, while no daemon and no sync uses it."""
    import shlex

    from memsync.model.status import HeldByIndex
    from memsync.past import drop_states
    from memsync.sync.syncer import sync_lock
    from memsync.sync.without_daemon import WAIT_SECONDS, without_daemon

    def busy() -> IndexBusy:
        root = shlex.quote(settings.root_name)
        return IndexBusy(
            f"the daemon of {settings.root_name} does not end", hint=f"Run: memsync --root {root} daemon stop"
        )

    index = make_index(settings)
    with closing(index), ExitStack() as locks:
        was_served = False
        if apply:
            was_served = locks.enter_context(without_daemon(settings.index_name, busy, create=True))
            locks.enter_context(sync_lock(settings.index_dir, WAIT_SECONDS))
        with index.reading() as reader:
            counts = reader.counts()
        if apply:
            drop_states(settings.index_dir)
            index.forget()
            for log in settings.index_dir.glob("daemon.log*"):  # it names notes
                with suppress(OSError):
                    log.unlink()
        return HeldByIndex(index.place, counts.notes, counts.passages, daemon_stopped=was_served)


def make_stored_index(dsn: str, name: str, source: str) -> ReadOnlyIndex:
    """Open a memory of a database whose files are elsewhere; `source` says in errors where `dsn` comes from.

    Raises ConfigError, IndexFailure.
    """
    index: ReadOnlyIndex = _load(STORED_INDEX)(dsn, name, source)
    return index


def make_vector_cache() -> VectorCache:
    """Return the vector cache that all memory roots of the user share."""
    from memsync.embed.cache.cache import SqliteVectorCache

    return SqliteVectorCache(vector_cache_path())


def vector_cache_path() -> Path:
    """Return the path of the user's vector cache, whether or not it exists."""
    from pathlib import Path

    from memsync.system.user_folders import state_folder

    return Path(state_folder()) / "vectors" / "vectors.db"


def backend_versions() -> tuple[str, str]:
    """Try SQLite and vec0 and return their versions. Raises IndexFailure when one is missing."""
    from memsync.index.sqlite.schema import capabilities

    return capabilities()


def check_built_in_files() -> list[str]:
    """Check the content of the built-in model's files and return their names. Raises EmbedderError.

    They are needed with every model, because the built-in tokenizer counts all tokens.
    """
    from memsync.embed.minilm import check_files

    return check_files()


def make_token_counter() -> TokenCounter:
    """Return the counter for chunks and token budgets; it is the same for every embedding model."""
    from memsync.embed.minilm import WordPieceCounter

    return WordPieceCounter()


def recognise_root(settings: Settings, notice: Callable[[str], None] = lambda text: None) -> None:
    """If the memory root was moved, take over its index and call `notice` with a sentence about it.

    Raises IndexBusy while another process uses the index, IndexFailure, FilesystemError.
    """
    from memsync.sync.moved_root import recognise

    opened, file = _index_backend(settings)
    if not file:
        target, file = MOVED_DATABASE
        opened = partial(_opened_by, target, settings)
    moved = recognise(settings.root_name, file, opened)
    if moved is not None:
        stopped = ". Its daemon was stopped; run: memsync daemon start" if moved.was_served else ""
        notice(f"Recognised the moved memory root; index kept (was {moved.before}){stopped}")


def _opened_by(target: str, settings: Settings, path: Path) -> Index:
    """Return the index at a path; this imports psycopg only now, if the backend needs it."""
    index: Index = _load(target)(settings, path)
    return index


def _load(target: str) -> Callable[..., Any]:
    module, _, name = target.partition(":")
    try:
        factory: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != "psycopg":
            raise
        from memsync.system.extras import how_to_install

        raise ConfigError(
            "an index in PostgreSQL needs psycopg, which is not installed", hint=how_to_install("postgres")
        ) from error
    return factory
