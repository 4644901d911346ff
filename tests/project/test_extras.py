"""memsync without its optional parts: what still works, and what the rest says."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tomllib
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from memsync.cli.main import run
from memsync.doctor import _extras
from memsync.system import extras
from memsync.system.extras import EXTRAS, how_to_install
from tests.conftest import PROJECT, Write
from tools.lock import FRAMEWORKS

PIP = f"{sys.executable} -m pip"


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no optional package be there."""
    real = importlib.util.find_spec
    optional = {package for packages, _ in EXTRAS.values() for package in packages}

    def find_spec(name: str) -> ModuleSpec | None:
        return None if name in optional else real(name)

    monkeypatch.setattr(extras, "find_spec", find_spec)


@pytest.mark.parametrize(
    ("arguments", "feature"),
    [
        (("web", "--no-browser"), "memsync web"),
        (("http",), "memsync http"),
        (("mcp", "--http"), "memsync mcp --http"),
        (("mcp", "install", "cursor", "--http"), "memsync mcp --http"),
        (("thread", "export", "heron", "--html", "page.html"), "memsync thread export --html"),
    ],
)
def test_command_says_how_to_install_what_it_needs(
    plain: None, root: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], feature: str
) -> None:
    """And does nothing."""
    assert run(["--root", str(root), *arguments]) == 3
    said = capsys.readouterr().err
    assert f"{feature} needs jinja2, which is not installed" in said
    assert how_to_install("web") in said
    assert not Path("page.html").exists()


def test_daemon_gets_the_reason_from_its_web_server(plain: None, root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It goes on without the pages."""
    assert run(["--root", str(root), "http", "--until-eof"]) == 3
    assert "pip install" in json.loads(capfd.readouterr().out)["error"]["data"]["hint"]


def test_doctor_names_the_extras_that_are_missing(plain: None) -> None:
    """With what needs them; that is no fault."""
    ok, finding, _ = _extras()
    assert ok and all(f"{extra} ({use})" in finding for extra, (_, use) in EXTRAS.items())


def test_extras_are_those_of_the_project() -> None:
    """`all` has every other one, and the plain installation has no package of theirs."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    optional: dict[str, Any] = project["optional-dependencies"]
    assert optional["all"] == [f"memsync[{','.join(sorted(EXTRAS))}]"]
    for extra, (packages, _) in EXTRAS.items():
        assert all(any(one.startswith(package) for one in optional[extra]) for package in packages)
        assert not any(one.startswith(packages) for one in project["dependencies"])
    assert {*optional} == {*EXTRAS, *FRAMEWORKS, "all", "dev"}


@pytest.mark.slow
def test_plain_memory_and_mcp_load_no_optional_package(root: Path, write: Write) -> None:
    """In a process in which none of them can be imported."""
    write("a.md", "The heron nests.\n")
    optional = sorted({package for packages, _ in EXTRAS.values() for package in packages})
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({[*optional, 'anyio', 'mcp', 'rich', 'jsonschema']!r}))\n"
        "from memsync.mcp_server.protocol import McpServer, Peer\n"
        "from memsync.cli.main import run\n"
        "import memsync.daemon.process, memsync.daemon.web_server\n"
        f"assert run(['--root', {str(root)!r}, 'sync']) == 0\n"
        f"assert run(['--root', {str(root)!r}, 'search', 'heron']) == 0\n"
        f"assert run(['--root', {str(root)!r}, 'check', 'secrets']) == 0\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and "a.md" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("made_by", "source", "wanted"),
    [
        ("", {}, f"{PIP} install 'memsync[web]'"),
        (
            "",
            {"url": "file:///a%20b", "dir_info": {"editable": True}},
            f"{sys.executable} -m pip install -e '/a b[web]'",
        ),
        ("uv-receipt.toml", {"url": "file:///clone", "dir_info": {}}, "uv tool install '/clone[web]'"),
        (
            "uv-receipt.toml",
            {"url": "file:///m.whl", "archive_info": {}},
            "uv tool install 'memsync[web] @ file:///m.whl'",
        ),
        (
            "",
            {"url": "https://a.example/m.git", "vcs_info": {"vcs": "git", "commit_id": "0a1b"}},
            f"{PIP} install 'memsync[web] @ git+https://a.example/m.git'",
        ),
        (
            "uv-receipt.toml",
            {"url": "https://a.example/m", "vcs_info": {"vcs": "git", "commit_id": "0a1b", "requested_revision": "v1"}},
            "uv tool install 'memsync[web] @ git+https://a.example/m@v1'",
        ),
        ("pipx_metadata.json", {}, "pipx install --force 'memsync[web]'"),
    ],
)
def test_hint_is_the_command_for_this_installation(
    plain: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made_by: str, source: dict[str, Any], wanted: str
) -> None:
    """By the installer that made the environment, from where memsync was installed, with the parts that are there."""
    info = tmp_path / "memsync-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: memsync\nVersion: 0.1.0\n")
    if source:
        (info / "direct_url.json").write_text(json.dumps(source))
    if made_by:
        (tmp_path / made_by).touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert how_to_install("web") == f"Run: {wanted}"
    monkeypatch.setattr(extras, "find_spec", lambda name: name != "uvicorn" or None)
    assert how_to_install("web") == f"Run: {wanted.replace('[', '[postgres,openai,multilingual,')}"
