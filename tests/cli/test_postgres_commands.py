"""The command line on an index in PostgreSQL says what is true of it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from memsync.cli.main import run
from memsync.errors import ConfigError
from memsync.index.postgres import access
from memsync.index.postgres.migrate import LATEST
from memsync.index.postgres.opening import name_of
from memsync.settings.load import load_settings
from memsync.settings.registering import add_root
from memsync.settings.roots import add_database
from memsync.system.user_folders import config_folder
from tests.conftest import Patch, Printed, Write
from tests.support.daemon_process import Cli
from tests.support.postgres_server import new_database, shared_database

Answer = tuple[int, str, str]
Memsync = Callable[..., Answer]


@pytest.fixture
def name(monkeypatch: Patch) -> str:
    """Set the user's settings to a memory of its own in the shared database, and return its name."""
    name = f"commands-{secrets.token_hex(4)}"
    settings = {"INDEX_BACKEND": "postgres", "INDEX_DSN": shared_database(), "INDEX_NAME": name}
    for variable, value in {**settings, "DAEMON_USE": "false", "SEARCH_MODE": "keyword"}.items():
        monkeypatch.setenv(f"MEMSYNC_{variable}", value)
    return name


@pytest.fixture
def memsync(name: str, root: Path, capsys: Printed) -> Memsync:
    """Run a command line on the memory root in this process; return exit code, standard output and errors."""

    def call(*arguments: str, at: Path | None = root) -> Answer:
        code = run([*(("--root", str(at)) if at else ()), *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def as_json(answer: Answer) -> Any:
    """Return the JSON document that a command printed."""
    return json.loads(answer[1])


@pytest.mark.parametrize("name", ["   ", " notes", "notes\t", "a\nb", "a (b)", "x" * 201])
def test_name_that_people_cannot_tell_from_another_is_refused(root: Path, monkeypatch: Patch, name: str) -> None:
    """Blanks at its ends and control characters do not show."""
    monkeypatch.setenv("MEMSYNC_INDEX_NAME", name)
    with pytest.raises(ConfigError, match="cannot be the name of a memory"):
        name_of(load_settings(root=root))
    monkeypatch.setenv("MEMSYNC_INDEX_NAME", "our notes")
    assert name_of(load_settings(root=root)) == "our notes"


def test_size_of_one_memory_in_a_database_is_not_known(memsync: Memsync, write: Write) -> None:
    """JSON has null, and text does not mention it; 0 would be a figure."""
    write("a.md", "The heron nests.\n")
    memsync("sync")
    memsync("search", "heron")
    assert as_json(memsync("status", "--json"))["index_bytes"] is None
    assert [size["index_bytes"] for size in as_json(memsync("stats", "--json"))["growth"]] == [None]
    assert "MB" not in memsync("status")[1].partition("daemon")[0]
    growth = memsync("stats")[1].partition("growth:\n")[2]
    assert growth.splitlines()[0].endswith("passage")


def write_own_config(text: str) -> None:
    own = Path(config_folder()) / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text(text)


def test_status_of_a_database_needs_no_files(
    memsync: Memsync, name: str, write: Write, tmp_path: Path, monkeypatch: Patch
) -> None:
    """A connection string is enough, from the environment or of a registered memory."""
    write("a.md", "The heron nests.\n")
    memsync("sync")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MEMSYNC_INDEX_BACKEND")
    add_database("team", shared_database(), name)
    by_environment = memsync("index", "status", at=None)
    assert by_environment[0] == 0
    assert f"{name}: 1 note, 1 passage, synced 20" in by_environment[1]
    monkeypatch.delenv("MEMSYNC_INDEX_DSN")
    assert memsync("index", "status", "team", at=None) == by_environment
    code, out, errors = memsync("index", "status", at=None)
    assert (code, out) == (3, "") and "memsync index status NAME" in errors
    code, out, errors = memsync("index", "status", "none", at=None)
    assert (code, out) == (2, "") and "team" in errors


def test_status_of_a_registered_folder_is_that_of_its_database(
    memsync: Memsync, name: str, root: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    """A folder whose index is not in PostgreSQL is refused."""
    memsync("sync")
    add_root("work", str(root))
    monkeypatch.chdir(tmp_path)
    assert as_json(memsync("index", "status", "work", "--json", at=None))["tables"] == LATEST
    monkeypatch.setenv("MEMSYNC_INDEX_BACKEND", "sqlite")
    code, _, errors = memsync("index", "status", "work", at=None)
    assert code == 2 and "not in PostgreSQL" in errors


def test_status_before_the_first_migration_says_who_installs_pgvector(memsync: Memsync, monkeypatch: Patch) -> None:
    """`memsync index migrate` does, if the role may and the server has the files."""
    monkeypatch.setenv("MEMSYNC_INDEX_DSN", new_database("empty"))
    _, out, _ = memsync("index", "status")
    assert "pgvector not installed yet; memsync index migrate installs it if it may" in out
    found = as_json(memsync("index", "status", "--json"))
    assert (found["pgvector"], found["tables"]) == ("", 0) and found["installable"] >= "0.8"
    assert memsync("index", "migrate")[0] == 0
    assert as_json(memsync("index", "status", "--json"))["pgvector"] == found["installable"]
    monkeypatch.setattr(access, "_PGVECTOR", b"SELECT '', '' WHERE false")
    assert "pgvector not installed; the server has no files of it" in memsync("index", "status")[1]


def test_memory_that_another_folder_writes_is_a_fault(memsync: Memsync, write: Write, tmp_path: Path) -> None:
    """Every sync there is refused: status, doctor and start say so, with what to do, although all can be read."""
    write("a.md", "The heron nests.\n")
    assert memsync("sync")[0] == 0
    (other := tmp_path / "other").mkdir()
    (other / "a.md").write_text("The heron nests.\n")
    assert memsync("sync", at=other)[0] == 6
    (failure,) = as_json(memsync("status", "--json", at=other))["failures"]
    assert failure["path"] == "(index)"
    assert (
        f"folder {tmp_path / 'notes'}" in failure["reason"] and "memsync index claim --take-over" in failure["reason"]
    )
    assert "is written by" in memsync("status", at=other)[1]
    code, out, _ = memsync("doctor", "--json", at=other)
    (check,) = [check for check in json.loads(out)["checks"] if check["name"] == "index"]
    assert (code, check["ok"]) == (1, False) and "--take-over" in check["advice"]
    assert "is written by" in check["finding"]
    assert as_json(memsync("status", "--json"))["failures"] == []


def test_writer_of_the_memory_is_checked_without_waiting_for_another_write(
    memsync: Memsync, name: str, write: Write
) -> None:
    """A sync may hold the memory for a long time."""
    write("a.md", "The heron nests.\n")
    memsync("sync")
    with psycopg.connect(shared_database()) as connection:
        connection.execute("SET lock_timeout = '1s'")
        connection.execute("SELECT 1 FROM memsync.memory WHERE name = %s FOR UPDATE", (name,))
        answer = memsync("status", "--json")
    assert as_json(answer)["failures"] == []


@pytest.mark.usefixtures("name")
def test_status_without_the_index_names_root_daemon_and_fault(cli: Cli, monkeypatch: Patch) -> None:
    """It claims nothing about notes; the exit code is that of the fault; the hint names the file with the string."""
    monkeypatch.delenv("MEMSYNC_INDEX_DSN", raising=False)
    write_own_config('[index]\ndsn = "postgresql://me:secret@127.0.0.1:9/none"\n')
    (Path(config_folder()) / "config.toml").chmod(0o600)
    monkeypatch.setenv("MEMSYNC_DAEMON_USE", "true")
    for begin, daemon in ((lambda: None, "daemon        not running"), (cli.start, "daemon        process ")):
        begin()
        done = cli("status")
        assert done.returncode == 6 and "secret" not in done.stdout + done.stderr
        assert done.stdout.startswith("memory root") and daemon in done.stdout and "notes  " not in done.stdout
        assert "no connection to PostgreSQL at 127.0.0.1:9/none: " in done.stdout
        assert "Connection refused" in done.stdout and f"sslmode in {config_folder()}/config.toml" in done.stdout


def test_one_memory_is_shared_and_the_others_are_not(
    memsync: Memsync, name: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    """As docs/postgres.md says: the user's own file has the connection string, a trusted one chooses the backend."""
    dsn = new_database("one")
    for variable in ("BACKEND", "DSN", "NAME"):
        monkeypatch.delenv(f"MEMSYNC_INDEX_{variable}")
    write_own_config(f"[index]\ndsn = '{dsn}'\n")
    for folder, settings in (("shared", f'[index]\nbackend = "postgres"\nname = "{name}"\n'), ("private", "")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.toml").write_text(f'[memsync]\nroot = "."\n{settings}')
        (tmp_path / folder / "a.md").write_text(f"The heron of {folder} nests.\n")
    assert memsync("sync", at=tmp_path / "shared")[0] == 3
    assert memsync("trust", str(tmp_path / "shared" / "config.toml"), at=None)[0] == 0
    assert memsync("index", "migrate", at=tmp_path / "shared")[0] == 0
    for folder in ("shared", "private"):
        assert memsync("sync", at=tmp_path / folder)[0] == 0
        add_root(folder, str(tmp_path / folder))
    monkeypatch.chdir(tmp_path)
    _, out, _ = memsync("search", "--all-roots", "heron", at=None)
    assert "shared:a.md:1" in out and "private:a.md:1" in out
    assert [memory["name"] for memory in as_json(memsync("index", "status", "--json", at=None))["memories"]] == [name]
