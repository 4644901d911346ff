"""`memsync doctor` finds what is wrong around an index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memsync.doctor import check_all
from memsync.settings.load import load_settings
from memsync.settings.roots import add_database, roots_path
from memsync.system.user_folders import config_folder
from tests.support.daemon_process import Cli

DSN = "postgresql://me:s3cret@db/memories"


def permissions(root: Path) -> tuple[bool, str, str]:
    """Return what doctor says of the modes of files."""
    settings = load_settings(root=root, cwd=root)
    (check,) = [check for check in check_all(settings) if check.name == "permissions"]
    return check.ok, check.finding, check.advice


@pytest.mark.parametrize("place", ["config.toml", "roots.toml"])
def test_connection_string_that_others_can_read_is_found(root: Path, place: str) -> None:
    """The advice names the file; nothing prints the password; a private file is no finding."""
    settings = load_settings(root=root, cwd=root)
    settings.index_dir.mkdir(parents=True, mode=0o700)
    if place == "roots.toml":
        add_database("team", DSN, "team")
    else:
        Path(config_folder()).mkdir(parents=True, exist_ok=True)
        (Path(config_folder()) / place).write_text(f'[index]\ndsn = "{DSN}"\n')
    path = Path(roots_path()).with_name(place)
    path.chmod(0o600)
    assert permissions(root)[0]
    path.chmod(0o644)
    ok, finding, advice = permissions(root)
    assert (ok, advice) == (False, f"Run: chmod 600 {path}")
    assert "s3cret" not in finding + advice


def test_each_line_of_advice_is_a_line(cli: Cli, tmp_path: Path) -> None:
    """Outside of a memory root the advice has several."""
    shown = cli("doctor", cwd=tmp_path).stdout
    assert "\\n" not in shown
    assert re.search(r"^ +Run memsync init.*\n +To search your memories", shown, re.MULTILINE)
