"""What may be loaded when, and how large a file may grow: walls that hold without anyone watching."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from memsync.errors import ConfigError
from memsync.system.extras import how_to_install
from memsync.wiring import forget_memory
from tests.conftest import PROJECT

PACKAGE = PROJECT / "memsync"
HEAVY = ("numpy", "onnxruntime", "fastembed", "apsw", "sqlite_vec", "watchdog", "rich", "mcp", "tokenizers", "openai")
MAX_LINES = 600


def loaded_by(code: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter has loaded after `code`."""
    script = f"{code}\nimport sys; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.split())


def test_importing_the_command_line_loads_nothing_heavy() -> None:
    """`memsync --help` must not wait for a model's libraries."""
    assert not loaded_by("import memsync.cli.main") & {*HEAVY, "msgspec"}


def test_importing_the_package_loads_nothing_heavy_and_its_names_are_lazy() -> None:
    """`import memsync` costs next to nothing; every public name resolves."""
    assert not loaded_by("import memsync") & {*HEAVY, "click", "yaml"}
    import memsync

    assert all(getattr(memsync, name) for name in memsync.__all__)


def test_starting_for_mcp_clients_loads_no_backend() -> None:
    """A client waits for its first answer; operations, index and model are loaded when they are asked."""
    not_yet = {*HEAVY, "click", "msgspec", "asyncio", "memsync.operation", "memsync.features"}
    assert not loaded_by("import memsync.cli.entry, memsync.cli.serve_mcp, memsync.mcp_server.stdio") & not_yet


def test_searching_by_words_loads_no_model(root: Path) -> None:
    """Keyword mode needs no numpy and no onnxruntime; vec0 is found without importing sqlite_vec."""
    (root / "a.md").write_text("The heron nests.\n")
    code = (
        "from memsync import Memory\n"
        f"with Memory.open({str(root)!r}) as memory:\n"
        "    assert memory.search('heron', mode='keyword').hits"
    )
    assert not loaded_by(code) & {"numpy", "onnxruntime", "fastembed", "sqlite_vec", "rich", "click"}


def test_searching_without_reranking_loads_nothing_of_it(root: Path) -> None:
    """A model that nobody asks for costs no search a millisecond."""
    (root / "a.md").write_text("The heron nests.\n")
    code = (
        "import sys\n"
        "from memsync import Memory\n"
        f"with Memory.open({str(root)!r}) as memory:\n"
        "    memory.sync()\n"
        "    assert memory.search('heron').mode == 'hybrid'\n"
        "loaded = [name for name in sys.modules if name.startswith('fastembed.rerank') or 'cross_encoder' in name]\n"
        "sys.modules['reranking_is_loaded' if loaded else 'it_is_not'] = sys"
    )
    assert {"fastembed", "it_is_not"} <= loaded_by(code)


def test_no_module_outgrows_its_subject() -> None:
    """A module of over 600 lines has more than one subject."""
    lines = {path: len(path.read_text().splitlines()) for path in PACKAGE.rglob("*.py")}
    assert {str(path): count for path, count in lines.items() if count > MAX_LINES} == {}


def test_extras_are_installed_from_the_clone() -> None:
    """No message and no page advises to install `memsync[…]`, because no registry has memsync."""
    texts = [*PACKAGE.rglob("*.py"), *(PROJECT / "docs").glob("*.md"), PROJECT / "README.md"]
    advising = [path.name for path in texts if re.search(r"pip install '?memsync\[", path.read_text(encoding="utf-8"))]
    assert advising == []


def test_missing_client_of_postgresql_is_named_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that the hint names works in a clone."""
    monkeypatch.setattr("memsync.index.postgres", importlib.import_module("memsync.index.postgres"))  # put back, too
    for name in [name for name in sys.modules if name.startswith(("psycopg", "memsync.index.postgres"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.setenv("MEMSYNC_INDEX_DSN", "postgresql://db/memories")
    with pytest.raises(ConfigError, match="needs psycopg, which is not installed") as caught:
        forget_memory("other", apply=False)
    assert caught.value.hint == how_to_install("postgres")
