"""`memsync daemon service`: what it writes for systemd and launchd, and its errors when they refuse that."""

from __future__ import annotations

import json
import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from memsync.daemon.user_service import service_of
from memsync.errors import ConfigError, DaemonError
from memsync.settings.load import load_settings
from tests.conftest import Patch
from tests.support.daemon_process import Cli

Fake = Callable[[str], None]
HOSTILE = ["plain", "with space", "50%n", "$HOME and ${PATH}", 'a "quoted" one', "it's", "back\\slash", "a;b#c", "ж"]
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: systemd is found there only")


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: Patch) -> Fake:
    """Give PATH a systemctl that notes its arguments and then does what the shell text says; no systemd-analyze."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(folder))

    def fake(shell: str) -> None:
        program = folder / "systemctl"
        program.write_text(f'#!/bin/sh\necho "$@" >> {folder}/calls\n{shell}\n')
        program.chmod(0o755)

    return fake


def unit_of(cli: Cli) -> Path:
    return service_of(cli.settings).path


def systemd_words(line: str) -> list[str]:
    """Read a command line as systemd.service(5) says: quotes, backslashes, then %% and $$."""
    words, word, quoted, escaped = [], "", False, False
    for sign in line:
        if escaped:
            word, escaped = word + sign, False
        elif sign == "\\":
            escaped = True
        elif sign == '"':
            quoted = not quoted
        elif sign == " " and not quoted:
            words.append(word)
            word = ""
        else:
            word += sign
    return [word.replace("%%", "%").replace("$$", "$") for word in [*words, word]]


@pytest.mark.parametrize("name", HOSTILE)
def test_unit_starts_the_daemon_of_this_root_whatever_it_is_called(name: str, tmp_path: Path) -> None:
    """Quotes, %, $ and backslashes reach memsync as they are in the name."""
    root = tmp_path / name
    root.mkdir()
    text = service_of(load_settings(root=root), "linux").text
    (line,) = [line for line in text.splitlines() if line.startswith("ExecStart=")]
    words = systemd_words(line.removeprefix("ExecStart="))
    assert words == [sys.executable, "-P", "-m", "memsync", "--root", str(root), "daemon", "watch"]


@linux_only
@pytest.mark.parametrize("name", HOSTILE)
def test_systemd_accepts_the_unit(name: str, tmp_path: Path) -> None:
    """As its own verifier says."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze; install systemd")
    root = tmp_path / name
    root.mkdir()
    service = service_of(load_settings(root=root), "linux")
    service.path.parent.mkdir(parents=True)

    def is_accepted(text: str) -> bool:
        service.path.write_text(text)
        command = ["systemd-analyze", "--user", "verify", str(service.path)]
        runtime = {"XDG_RUNTIME_DIR": str(tmp_path)}  # the verifier needs one
        return subprocess.run(command, env={**runtime, **os.environ}, capture_output=True, check=False).returncode == 0

    assert is_accepted(service.text)
    assert not is_accepted(service.text.replace("Type=exec", "Type=nonsense\nExecStart=relative"))


@pytest.mark.parametrize("name", [*HOSTILE, "<tag> & 'x'"])
def test_launchd_agent_starts_the_daemon_of_this_root(name: str, tmp_path: Path) -> None:
    """A property list that the standard library reads back."""
    root = tmp_path / name
    root.mkdir()
    service = service_of(load_settings(root=root), "darwin")
    about = plistlib.loads(service.text.encode())
    assert about["ProgramArguments"] == [sys.executable, "-P", "-m", "memsync", "--root", str(root), "daemon", "watch"]
    assert about["Label"] == service.name
    assert (about["RunAtLoad"], about["KeepAlive"]) == (True, {"SuccessfulExit": False})
    assert service.path == tmp_path / "home" / "Library" / "LaunchAgents" / f"{service.name}.plist"


def test_each_root_has_a_service_of_its_own(tmp_path: Path) -> None:
    """Two roots have two names; a config file is named in the unit only if the user named it."""
    one, two = tmp_path / "one", tmp_path / "two"
    for root in (one, two):
        root.mkdir()
    config = one / "config.toml"
    config.write_text('[memsync]\nroot = "."\n')
    services = [service_of(load_settings(root=root), "linux") for root in (one, two)]
    assert services[0].name != services[1].name
    assert f'"memsync" "--root" "{one}" "daemon" "watch"' in services[0].text
    assert f'"memsync" "--config" "{config}" "daemon" "watch"' in service_of(load_settings(config=config), "linux").text
    with pytest.raises(DaemonError, match="cannot install a service on plan9"):
        service_of(load_settings(root=one), "plan9")


@linux_only
def test_dry_run_writes_and_runs_nothing(cli: Cli, systemctl: Fake, tmp_path: Path) -> None:
    """It prints what it would write and run."""
    systemctl("exit 0")
    done = cli("daemon", "service", "install", "--dry-run")
    assert done.returncode == 0
    assert done.stdout.startswith(f"# {unit_of(cli)}\n[Unit]\n")
    assert done.stdout.count("# would run: systemctl --user ") == 2
    gone = cli("daemon", "service", "uninstall", "--dry-run")
    assert f"# would remove: {unit_of(cli)}" in gone.stdout
    assert not unit_of(cli).exists()
    assert not (tmp_path / "bin" / "calls").exists()


@linux_only
def test_install_writes_what_it_printed_and_uninstall_takes_it_away(cli: Cli, systemctl: Fake, tmp_path: Path) -> None:
    """The unit is taken up and started; both can be done twice."""
    systemctl("exit 0")
    for _ in range(2):
        done = cli("daemon", "service", "install")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"# {unit_of(cli)}\n{unit_of(cli).read_text()}# installed and started\n"
    name = unit_of(cli).name
    took_up = ["--user daemon-reload", f"--user enable --now {name}"]
    assert (tmp_path / "bin" / "calls").read_text().splitlines() == took_up * 2
    assert cli("daemon", "service", "uninstall").stdout == f"# removed {unit_of(cli)}\n"
    assert not unit_of(cli).exists()
    let_go = [f"--user disable --now {name}", "--user daemon-reload"]
    assert (tmp_path / "bin" / "calls").read_text().splitlines()[4:] == let_go
    again = cli("daemon", "service", "uninstall")
    assert (again.returncode, again.stdout) == (0, "no service is installed for this memory root\n")


@linux_only
def test_systemd_that_is_absent_or_refuses_is_told(cli: Cli, systemctl: Fake) -> None:
    """Exit code 1 and its own words on stderr; the file is written all the same."""
    absent = cli("daemon", "service", "install")
    assert absent.returncode == 1
    assert "memsync: systemctl --user daemon-reload: systemctl is not installed\n" in absent.stderr
    assert unit_of(cli).exists()
    assert "installed and started" not in absent.stdout
    systemctl('echo "Failed to connect to bus" >&2; exit 1')
    refused = cli("daemon", "service", "install")
    assert refused.returncode == 1
    assert "systemctl --user enable --now" in refused.stderr
    assert "Failed to connect to bus" in refused.stderr
    gone = cli("daemon", "service", "uninstall")
    assert gone.returncode == 1
    assert not unit_of(cli).exists()


@linux_only
def test_status_tells_whether_it_is_installed_and_runs(cli: Cli, systemctl: Fake) -> None:
    """0 when it runs, else 1; in JSON too."""
    systemctl("exit 0")
    missing = cli("daemon", "service", "status")
    assert (missing.returncode, "is not installed" in missing.stdout) == (1, True)
    cli("daemon", "service", "install")
    runs = cli("daemon", "service", "status")
    assert (runs.returncode, f"{unit_of(cli).name} runs: " in runs.stdout) == (0, True)
    systemctl("exit 3")
    stopped = cli("daemon", "service", "status", "--json")
    about = json.loads(stopped.stdout)
    assert stopped.returncode == 1
    assert (about["installed"], about["active"]) == (True, False)
    assert "is installed and does not run" in cli("daemon", "service", "status").stdout


@linux_only
def test_a_folder_that_cannot_be_written_is_a_clear_error(cli: Cli, systemctl: Fake) -> None:
    """9, and nothing is started."""
    systemctl("exit 0")
    Path(os.environ["XDG_CONFIG_HOME"]).write_text("in the way")
    done = cli("daemon", "service", "install")
    assert done.returncode == 9
    assert "cannot be written" in done.stderr


@linux_only
def test_unit_has_the_variables_that_decide_settings(cli: Cli, monkeypatch: Patch) -> None:
    """A service has nothing of this shell's environment; a key for an endpoint is not written down."""
    monkeypatch.setenv("MEMSYNC_SEARCH_LIMIT", "3")
    monkeypatch.setenv("MEMSYNC_FILES_EXCLUDE", 'a "b"$%\\')
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    text = service_of(cli.settings, "linux").text
    assert 'Environment="MEMSYNC_SEARCH_LIMIT=3"\n' in text
    assert 'Environment="MEMSYNC_FILES_EXCLUDE=a \\"b\\"$%%\\\\"\n' in text
    assert f'Environment="XDG_STATE_HOME={os.environ["XDG_STATE_HOME"]}"\n' in text
    assert "secret" not in text


@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize("character", ["\r", "\n", "\x0b"])
def test_no_variable_adds_a_line_to_a_service_file(cli: Cli, monkeypatch: Patch, platform: str, character: str) -> None:
    """What ends a line is refused in everything that the file names."""
    monkeypatch.setenv("MEMSYNC_SEARCH_RERANK_MODEL", f"x{character}ExecStartPre=/bin/false")
    with pytest.raises(ConfigError, match="control character"):
        service_of(cli.settings, platform)
