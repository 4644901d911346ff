"""The wheel in an environment of its own, where there is neither a clone nor make, git or a compiler."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.project.test_build import built


@pytest.mark.skipif(not (PROJECT / ".git").exists(), reason="needs a checkout of git")
@pytest.mark.slow
def test_wheel_works_without_clone_make_and_git(tmp_path: Path) -> None:
    """Installed offline by pip, with the dependencies of this environment; then a first session runs."""
    wheel, _ = built(PROJECT, tmp_path / "dist")
    (tmp_path / "new").mkdir()
    venv.create(tmp_path / "new", with_pip=True)
    (site,) = (tmp_path / "new/lib").glob("python*/site-packages")
    # Packages of this environment, but not the clone: Python follows no .pth in a folder that a .pth names.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    environ = {"HOME": str(tmp_path), "PATH": str(tmp_path / "new/bin"), "TERM": "dumb"}
    environ |= {name: value for name, value in os.environ.items() if name in ("LANG", "LC_ALL", "TMPDIR")}

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    install = ["pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]
    run(str(tmp_path / "new/bin/python"), "-m", *install, "--force-reinstall", str(wheel))
    memsync = str(tmp_path / "new/bin/memsync")
    where = run(str(tmp_path / "new/bin/python"), "-c", "import memsync; print(memsync.__file__)")
    assert Path(where.strip()).is_relative_to(site)
    assert ", commit " in run(memsync, "--version")
    (notes := tmp_path / "notes").mkdir()
    (notes / "birds.md").write_text("# Birds\n\nThe heron nests in the reeds.\n")
    run(memsync, "init", str(notes))
    assert "added" in run(memsync, "--root", str(notes), "sync")
    assert "birds.md:1-3" in run(memsync, "--root", str(notes), "search", "where does the heron breed")
