"""What a served command keeps of the settings: it counts while everything that decides is as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from memsync.client.kept_settings import MOST, Served, keep, kept
from memsync.settings.config_trust import revoke, trust
from memsync.settings.load import find_config, load_settings, settings_to_trust
from memsync.system.state_file import state_of_user
from memsync.system.user_folders import cache_folder
from tests.conftest import Patch

PLAIN = '[memsync]\nroot = "."\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: Patch) -> Path:
    """Enter a folder in a memory root, for which nothing is kept."""
    inner = tmp_path / "notes" / "daily"
    inner.mkdir(parents=True)
    (tmp_path / "notes" / "config.toml").write_text(PLAIN)
    monkeypatch.chdir(inner)
    return inner


def kept_now(root: str = "") -> Served | None:
    """Keep what the current folder says; return what is found then."""
    settings = load_settings(root=root or None)
    keep(settings, Served.by(settings), root)
    return kept(root)


def test_what_was_kept_is_what_the_settings_say(folder: Path) -> None:
    """Above all the socket and the digest, by which the daemon knows that it serves these settings.

    What else is written into the user's state, such as a recall, changes no settings that need no trust.
    """
    assert kept() is None
    found = kept_now()
    assert found is not None
    state_of_user().keep_single("name", "value")
    assert kept() is not None
    assert vars(found) == vars(Served.by(load_settings()))


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder.parent / "config.toml").write_text(f"{PLAIN}[search]\nlimit = 3\n"),
        lambda folder: (folder.parent / "config.toml").unlink(),
        lambda folder: (folder / "config.toml").write_text("[server]\nport = 1\n"),
        lambda folder: (folder.parent.parent / "config.toml").write_text(PLAIN),
        lambda folder: write(folder.parent.parent / "config" / "memsync" / "config.toml"),
        lambda folder: write(folder.parent.parent / "config" / "memsync" / "roots.toml"),
    ],
)
def test_any_change_of_a_file_that_decides_ends_it(
    folder: Path, change: Callable[[Path], object], monkeypatch: Patch
) -> None:
    """The config files in and above the folder, the user's own, and the list of memories."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder.parent.parent / "config"))
    assert kept_now() is not None
    change(folder)
    assert kept() is None


def test_a_root_that_an_option_names_is_kept_apart(folder: Path) -> None:
    """By its real path: a link may lead elsewhere tomorrow, and so may a config.toml above."""
    assert kept_now() is not None
    plain = folder.parent.parent / "plain"
    plain.mkdir()
    found = kept_now(str(plain))
    assert found is not None
    assert vars(found) == vars(Served.by(load_settings(root=plain)))
    link = folder / "link"
    link.symlink_to(plain)
    assert [kept_now(str(link)), kept_now("link/"), kept_now(str(folder))] == [None, None, None]
    (plain / "config.toml").write_text(PLAIN)
    assert kept(str(plain)) is None


def write(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("")


@pytest.mark.parametrize("name", ["MEMSYNC_SEARCH_LIMIT", "XDG_STATE_HOME", "HOME"])
def test_another_environment_ends_it(folder: Path, name: str, monkeypatch: Patch) -> None:
    """A variable overrides a file, or leads to other files."""
    assert kept_now() is not None
    monkeypatch.setenv(name, str(folder))
    assert kept() is None


def test_trust_that_ended_is_not_remembered(folder: Path) -> None:
    """A stranger's setting must not outlive the user's trust in it."""
    (folder.parent / "config.toml").write_text(f'{PLAIN}[embedder]\nmodel = "multilingual"\n')
    file = find_config()
    assert file is not None
    trust(file, settings_to_trust(file))
    assert kept_now() is not None
    revoke(file.path)
    assert kept() is None


def test_nothing_is_kept_where_more_decides_than_files(folder: Path, monkeypatch: Patch) -> None:
    """A link may lead elsewhere tomorrow; a root that the environment or another folder's file names, too."""
    (folder.parent / "real").mkdir()
    (folder.parent / "link").symlink_to("real")
    (folder.parent / "config.toml").write_text('[memsync]\nroot = "link"\n')
    assert kept_now() is None
    (folder.parent / "config.toml").write_text(PLAIN)
    (folder / "config.toml").write_text("title = 'a blog'\n")  # `memsync init` may make it a root of its own
    assert kept_now() is None
    (folder / "config.toml").unlink()
    monkeypatch.setenv("MEMSYNC_ROOT", str(folder.parent))
    assert kept_now() is None


@pytest.mark.parametrize("content", ["", "[]", "{", '{"x": 1}', "\xff", "null"])
def test_damaged_file_is_read_anew(folder: Path, content: str) -> None:
    """It is a cache."""
    assert kept_now() is not None
    (Path(cache_folder()) / "served.json").write_text(content.replace("x", str(folder)), encoding="latin-1")
    assert kept() is None
    assert kept_now() is not None


def test_only_the_last_folders_are_kept(folder: Path, monkeypatch: Patch) -> None:
    """An agent works in many."""
    for number in range(MOST + 1):
        (folder / str(number)).mkdir()
        monkeypatch.chdir(folder / str(number))
        assert kept_now() is not None
    monkeypatch.chdir(folder / "0")
    assert kept() is None
