"""What every test may use: a memory root in a temporary folder, a quick embedder, folders of data, a seed a run."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
import numpy as np
import pytest
from hypothesis import Phase

from memsync.cli.main import main
from memsync.embed.minilm import WordPieceCounter
from memsync.memory import Memory
from memsync.model.note import Note
from memsync.model.query import EmbeddingSpace
from memsync.model.vocabulary import NotePath
from memsync.notes.chunk import ChunkLimits
from memsync.notes.parse import NoteReader
from memsync.notes.rules import PathRules
from memsync.ports import Reranker
from memsync.settings.load import Settings, load_settings
from memsync.settings.settings_list import DEFAULT_KINDS, DEFAULT_TIERS
from memsync.system import clock
from memsync.system.user_folders import cache_folder
from memsync.wiring import make_vector_cache
from tests.support import sampling
from tests.support.backends import opener
from tests.support.daemon_process import FAKE_MODEL, Cli
from tests.support.repository import Repository

FRESH = hypothesis.settings(deadline=None, max_examples=150, derandomize=False, print_blob=True)
hypothesis.settings.register_profile("fresh", FRESH)
hypothesis.settings.register_profile("sample", FRESH, max_examples=20)
# For runs that only ask whether anything fails (`make mutants`): what fails is not made smaller, nor kept.
hypothesis.settings.register_profile("quick", FRESH, phases=(Phase.explicit, Phase.generate), database=None)

pytest_plugins = ["tests.support.daemon_fixtures", "tests.support.cost"]

COUNTER = WordPieceCounter()
DEADLINE = 120.0
"""Seconds that a search may spend on indexing: a slow machine keeps this, too."""
LIMITS = ChunkLimits(max_tokens=254, small_tokens=120, run_tokens=400, window_entries=5, window_stride=2)
RULES = PathRules(DEFAULT_KINDS, DEFAULT_TIERS)

NOON = time(12)
"""When the tests begin: in no run is midnight between a test's own day and memsync's."""

PROJECT = Path(__file__).parent.parent
SMALL_DATA = PROJECT / "tests" / "data"
FAST_FOLDER = Path("/dev/shm")
FAST_FOLDER_BYTES = 2_000_000_000
"""Temporary folders are made in memory if so much is free there, and programs may run there: on a disk every commit of
SQLite waits."""
COMPILED = PROJECT / ".pytest_cache" / "memsync"
"""What is compiled of the rules for secrets, which takes 4 s of CPU, is kept here from run to run."""

Parse = Callable[..., Note]
Write = Callable[[str, str | bytes], Path]
MakeMemory = Callable[..., Memory]
Patch = pytest.MonkeyPatch
Printed = pytest.CaptureFixture[str]


def ahead_on(day: str) -> str:
    """Return by how many seconds the clock must be ahead to say that it is noon of a day."""
    return str(
        (datetime.combine(date.fromisoformat(day), NOON) - datetime.fromtimestamp(clock.file_seconds())).total_seconds()
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `make test` ask for a sample, and `make soak` for everything."""
    parser.addoption("--sample", action="store_true", help="run a few drawn cases of each long enumeration")
    parser.addoption("--day", default="", help="the day on which the tests run: YYYY-MM-DD (default: today)")
    parser.addoption("--every", action="store_true", help="run every case of the longest enumerations, too")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Decide the seed, the day and the place of temporary folders before any test is collected."""
    sampling.configure(config)
    is_fit = os.access(FAST_FOLDER, os.W_OK) and not os.statvfs(FAST_FOLDER).f_flag & os.ST_NOEXEC
    if is_fit and shutil.disk_usage(FAST_FOLDER).free > FAST_FOLDER_BYTES:
        tempfile.tempdir = os.environ.setdefault("TMPDIR", str(FAST_FOLDER))
    if clock.AHEAD not in os.environ:  # xdist's workers, and memsync itself as a child, inherit it
        os.environ[clock.AHEAD] = ahead_on(config.option.day or clock.today().isoformat())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a sample leaves out."""
    sampling.thin(config, items)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell each worker of xdist the seed, which otherwise would draw its own."""
    node.workerinput["seed"] = node.config.option.hypothesis_seed


def pytest_sessionstart(session: pytest.Session) -> None:
    """Say how to repeat this run, in a quiet run too, which prints no header."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(session.config, "workerinput"):
        seed = session.config.option.hypothesis_seed
        sample = "--sample " * session.config.option.sample
        again = f"pytest {sample}--day={clock.today()} --hypothesis-seed={seed}"
        reporter.write_line(f"this run has the seed {seed}; repeat it with: {again}")


class FakeEmbedder:
    """Stands in for a model, which is slow: a vector is a function of the words of a text and of nothing else.

    `seen` lists every passage it was asked to embed; `fail` makes it raise what it holds. Its provider is one that runs
    on this machine.
    """

    def __init__(self, name: str = "fake", dimension: int = 16, provider: str = "fastembed") -> None:
        self.space = EmbeddingSpace(provider, name, "1", dimension)
        self.seen: list[str] = []
        self.fail: Exception | None = None

    def embed_passages(self, texts: Sequence[str], pause: Callable[[], None] = lambda: None) -> list[Any]:
        pause()
        if self.fail is not None:
            raise self.fail
        self.seen += texts
        return [self._vector(text) for text in texts]

    def embed_query(self, text: str) -> Any:
        if self.fail is not None:
            raise self.fail
        return self._vector(text)

    def unload(self) -> None:
        """Nothing is loaded."""

    def close(self) -> None:
        """Nothing is open."""

    def _vector(self, text: str) -> Any:
        vector = np.full(self.space.dimension, 0.01, dtype=np.float32)
        for word in text.lower().split():
            digest = hashlib.sha256(f"{self.space.model}{word}".encode()).digest()
            vector[digest[0] % self.space.dimension] += 1.0
        return (vector / np.linalg.norm(vector)).astype(np.float32)


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep every test from the user's own config, state and environment."""
    for name in [name for name in os.environ if name.startswith(("MEMSYNC_", "OPENAI_")) and name != clock.AHEAD]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setattr("memsync.notes.secrets.cache_folder", lambda: str(COMPILED))


@pytest.fixture
def set_day(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Set the clock of this process and of its children to noon of a day."""
    return lambda day: monkeypatch.setenv(clock.AHEAD, ahead_on(day))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty memory root."""
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


@pytest.fixture
def write(root: Path) -> Callable[[str, str | bytes], Path]:
    """Write one file beneath the root, folders included, and return its path."""

    def write_file(name: str, content: str | bytes) -> Path:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


@pytest.fixture
def embedder() -> FakeEmbedder:
    return FakeEmbedder()


@pytest.fixture
def settings(root: Path) -> Settings:
    """Return the default settings."""
    return load_settings(root=root, environ={}, cwd=root)


@pytest.fixture
def backend() -> str:
    """The index backend of `make_memory`; the contract tests set it to each of tests.support.backends.BACKENDS."""
    return os.environ.get("TEST_BACKEND", "sqlite")


@pytest.fixture
def make_memory(settings: Settings, embedder: FakeEmbedder, backend: str) -> Iterator[Callable[..., Memory]]:
    """Open the root with the fake embedder; called again it is a second process's view of the same index."""
    opened: list[Memory] = []
    open_index = opener(backend)

    def make(
        own: FakeEmbedder = embedder,
        old: FakeEmbedder | None = None,
        own_settings: Settings = settings,
        reranker: Reranker | None = None,
        deadline: float = DEADLINE,
    ) -> Memory:
        index = open_index(own_settings.index_dir)
        make_reranker = None if reranker is None else lambda: reranker
        memory = Memory(
            own_settings,
            index,
            COUNTER,
            lambda: own,
            lambda space: old or own,
            make_reranker=make_reranker,
            cache=make_vector_cache(),
            deadline=deadline,
        )
        opened.append(memory)
        return memory

    yield make
    for memory in opened:
        memory.close()


@pytest.fixture
def memory(make_memory: Callable[..., Memory]) -> Memory:
    return make_memory()


@pytest.fixture
def reader() -> NoteReader:
    """The note reader with default settings."""
    return NoteReader(COUNTER.count, RULES, LIMITS)


@pytest.fixture
def parse(reader: NoteReader) -> Parse:
    def parse_text(text: str, path: str = "note.md") -> Note:
        return reader.read(NotePath(path), text.encode())[0]

    return parse_text


def data_folders() -> list[Path]:
    """Return the folders of data that tests read: a small one of our own, and the one that BENCH_DATA names."""
    named = os.environ.get("BENCH_DATA", "")
    if named and not Path(named).is_dir():
        raise pytest.UsageError(f"BENCH_DATA names no folder: {named}")
    return [SMALL_DATA, *([Path(named)] if named else [])]


@pytest.fixture
def cli(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """Run memsync on the root with a fake of the built-in model; daemons that are left over are ended."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (FAKE_MODEL, os.environ.get("PYTHONPATH")))))
    (COMPILED / "secrets").mkdir(parents=True, exist_ok=True)
    cache = Path(cache_folder())
    cache.mkdir(parents=True)
    (cache / "secrets").symlink_to(COMPILED / "secrets")
    found = Cli(root)
    yield found
    found.close()


class Done(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def run(root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run memsync on the root in this process, beside a daemon; words alone, so that no test waits for the model."""
    monkeypatch.setenv("MEMSYNC_SEARCH_MODE", "keyword")
    monkeypatch.setenv("MEMSYNC_DAEMON_USE", "false")

    def call(*arguments: str, with_root: bool = True) -> Done:
        with pytest.raises(SystemExit) as stop:
            main([*(("--root", str(root)) if with_root else ()), *arguments])
        done = capsys.readouterr()
        assert isinstance(stop.value.code, int)
        return Done(stop.value.code, done.out, done.err)

    return call


@pytest.fixture
def real_models(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let daemons and `cli.process` load real models."""
    monkeypatch.setenv("PYTHONPATH", os.environ["PYTHONPATH"].replace(FAKE_MODEL, ""))


@pytest.fixture
def repository(root: Path) -> Repository:
    """Make the memory root a repository, without a commit."""
    found = Repository(root)
    found.git("init", "-q")
    return found
