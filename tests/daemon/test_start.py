"""What `start` promises: the next search is answered by the daemon, by meaning, with the settings that hold now."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Write
from tests.support.daemon_process import Cli, until


@pytest.fixture
def configured(tmp_path: Path, write: Write) -> Path:
    """Write config.toml beside a root with one note, and return its folder."""
    write("a.md", "The heron nests.\n")
    (tmp_path / "config.toml").write_text(f'[memsync]\nroot = "{tmp_path / "notes"}"\n')
    return tmp_path


@pytest.mark.parametrize("synced", [True, False])
def test_first_search_after_a_start_answers_by_meaning(cli: Cli, write: Write, synced: bool) -> None:
    """Model and first vectors are there when `start` returns, whether or not the notes were indexed before."""
    write("a.md", "The heron nests.\n")
    if synced:
        assert cli("sync").returncode == 0
    started = json.loads(cli("daemon", "start", "--json").stdout)
    assert (started["started"], started["restarted"], started["lacks"]) == (True, "", "")
    answer = cli("search", "where the heron nests", "--json")
    assert (json.loads(answer.stdout)["mode"], answer.stderr) == ("hybrid", "")
    assert json.loads(answer.stdout)["warnings"] == []
    assert json.loads(cli("daemon", "restart", "--json").stdout)["lacks"] == ""
    assert json.loads(cli("search", "where the heron nests", "--json").stdout)["mode"] == "hybrid"


def test_start_that_cannot_load_the_model_says_so(cli: Cli, write: Write) -> None:
    """Words are searched all the same, so it is no failure; and nobody waits for what will not come."""
    write("a.md", "The heron nests.\n")
    environ = {
        "MEMSYNC_EMBEDDER_MODEL": "openai:none",
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": "http://127.0.0.1:9",
    }
    done = cli("daemon", "start", environ=environ)
    assert done.returncode == 0
    assert "could not be loaded" in done.stderr
    assert "searches answer by words alone" in done.stderr
    assert cli("search", "heron", environ=environ).stdout.startswith("a.md:1")


def test_start_without_its_database_does_not_promise_answers(cli: Cli, write: Write) -> None:
    """Searches need the index, by words too: `start` has its error, and so has a search."""
    write("a.md", "The heron nests.\n")
    environ = {"MEMSYNC_INDEX_BACKEND": "postgres", "MEMSYNC_INDEX_DSN": "postgresql://127.0.0.1:9/none"}
    done = cli("daemon", "start", environ=environ)
    assert done.returncode == 0
    assert "no connection to PostgreSQL at 127.0.0.1:9/none" in done.stderr
    assert "searches fail with this error, too" in done.stderr and "by words" not in done.stderr
    search = cli("search", "heron", environ=environ)
    assert search.returncode == 6 and "no connection to PostgreSQL" in search.stderr


@pytest.mark.parametrize(
    "change", ["[search]\nlimit = 3\n", "[cli]\npager = false\n", '[privacy]\nlocal_only = ["x/"]\n']
)
def test_start_after_an_edit_of_config_toml_leaves_a_daemon_with_it(cli: Cli, configured: Path, change: str) -> None:
    """Whether the daemon began anew before or is restarted, the next search is served."""
    cli("daemon", "start", cwd=configured)
    config = configured / "config.toml"
    config.write_text(config.read_text() + change)
    assert cli("daemon", "start", cwd=configured).returncode == 0
    until(lambda: cli("search", "heron", cwd=configured).stderr == "", "it serves")
    assert json.loads(cli("daemon", "start", "--json", cwd=configured).stdout)["restarted"] == ""


@pytest.mark.parametrize(("name", "value"), [("SEARCH_LIMIT", "7"), ("DAEMON_AUTOSTART", "never")])
def test_start_with_other_settings_of_the_environment_restarts_the_daemon(
    cli: Cli, write: Write, name: str, value: str
) -> None:
    """The daemon cannot see them change; that it was restarted, and why, is said."""
    write("a.md", "The heron nests.\n")
    first, environ = cli.start(), {f"MEMSYNC_{name}": value}
    again = cli("daemon", "start", environ=environ)
    assert "other settings" in again.stderr and "it was restarted" in again.stderr
    second = json.loads(cli("status", "--json", environ=environ).stdout)["daemon"]["process"]
    assert second != first
    assert again.stdout == f"process {second} serves {cli.root}\n"
    third = json.loads(cli("daemon", "start", "--json", environ=environ).stdout)
    assert (third["started"], third["restarted"], third["process"]) == (False, "", second)
