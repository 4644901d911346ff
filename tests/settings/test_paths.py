"""Settings that are paths."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memsync.errors import ConfigError, RootError
from memsync.settings.load import load_settings
from memsync.settings.registering import add_root

CONTROL = ["\r", "\n", "\t", "\x1b", "\x7f", "\x85", "\u2028"]


@pytest.mark.parametrize("character", CONTROL)
def test_a_control_character_in_a_path_of_the_settings_is_refused(tmp_path: Path, character: str) -> None:
    """It could begin a line of its own in a service file, and nobody would see it in a message."""
    name = f"notes{character}ExecStartPre=x"
    (tmp_path / name).mkdir()
    (tmp_path / "config.toml").write_text(f"[memsync]\nroot = {json.dumps(name)}\n")
    with pytest.raises(ConfigError, match="control character") as caught:
        load_settings(config=tmp_path / "config.toml")
    assert caught.value.message.isprintable()
    for refused in (
        lambda: load_settings(root=tmp_path / name),
        lambda: load_settings(cwd=tmp_path, environ={"MEMSYNC_ROOT": str(tmp_path / name)}),
        lambda: add_root("odd", str(tmp_path / name)),
    ):
        with pytest.raises(ConfigError, match="control character"):
            refused()


def test_a_control_character_in_a_folder_above_is_refused(tmp_path: Path) -> None:
    """The path counts as it is in the end: a link or a folder above may bring the character."""
    folder = tmp_path / "a\rb" / "notes"
    folder.mkdir(parents=True)
    (tmp_path / "link").symlink_to(folder)
    for root in (folder, tmp_path / "link"):
        with pytest.raises(ConfigError, match="control character"):
            load_settings(root=root, environ={}, cwd=tmp_path)


def test_a_link_to_a_missing_folder_is_a_missing_root(tmp_path: Path) -> None:
    """The error names the setting and says what to do."""
    (tmp_path / "link").symlink_to("gone")
    with pytest.raises(RootError, match="does not exist"):
        load_settings(root=tmp_path / "link", environ={}, cwd=tmp_path)


def test_a_root_with_two_slashes_at_its_beginning_is_read(tmp_path: Path) -> None:
    """POSIX keeps them: the search for config files upwards has to end at `//`, too."""
    assert load_settings(root=f"/{tmp_path}", environ={}, cwd=tmp_path).root == tmp_path
