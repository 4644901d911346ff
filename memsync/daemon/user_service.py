"""Run the daemon as a user service: a systemd user unit on Linux, a launchd agent on macOS."""

from __future__ import annotations

import hashlib
import os
import plistlib
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from memsync.errors import ConfigError, DaemonError
from memsync.settings.load import Settings
from memsync.settings.paths import require_clean
from memsync.system.user_folders import config_folder, deciding_variables, filesystem_errors

_CONTROL = ("systemctl", "--user")
UNIT = """\
[Unit]
Description=memsync, memory in {root}
Documentation=https://github.com/memsync/memsync

[Service]
Type=exec
{environment}ExecStart={command}
Restart=on-failure
RestartSec=5
Nice=5
NoNewPrivileges=yes

[Install]
WantedBy=default.target
"""


@dataclass(frozen=True, slots=True)
class Service:
    """A service file: its path, its content, and the commands that enable the service."""

    name: str
    path: Path
    text: str = ""
    enable: Sequence[Sequence[str]] = ()

    @property
    def disable(self) -> Sequence[Sequence[str]]:
        """The commands that disable it: one before its file is deleted, and those after that."""
        if self.path.suffix == ".service":
            return [*_CONTROL, "disable", "--now", self.name], [*_CONTROL, "daemon-reload"]
        return (["launchctl", "bootout", f"gui/{os.getuid()}/{self.name}"],)


def service_of(settings: Settings, platform: str = sys.platform) -> Service:
    """Return the service of a memory root. Raises DaemonError without user services, ConfigError for odd values."""
    for text in (*_command(settings), *_variables().values(), settings.index_name):
        require_clean(text, "a service file")
    digest = hashlib.sha256(os.fsencode(settings.root)).hexdigest()[:32]
    if platform == "linux":
        return _systemd(settings, f"memsync-{digest}.service")
    if platform == "darwin":
        return _launchd(settings, f"memsync.{digest}")
    raise DaemonError(
        f"memsync cannot install a service on {platform}", hint="Start memsync daemon watch in another way."
    )


def _command(settings: Settings) -> list[str]:
    return [sys.executable, "-P", "-m", "memsync", *settings.options, "daemon", "watch"]


def _systemd(settings: Settings, name: str) -> Service:
    command = " ".join(_setting(part.replace("$", "$$")) for part in _command(settings))  # systemd expands variables
    variables = _variables().items()
    environment = "".join(f"Environment={_setting(f'{name}={value}')}\n" for name, value in variables)
    root = str(settings.root).replace("%", "%%")
    text = UNIT.format(root=root, environment=environment, command=command)
    return Service(
        name,
        _folder_of_systemd() / name,
        text,
        enable=([*_CONTROL, "daemon-reload"], [*_CONTROL, "enable", "--now", name]),
    )


def installed(platform: str = sys.platform) -> list[Service]:
    """Return the services of all memory roots for which there is a file, each with what removes it alone."""
    digest = "[0-9a-f]" * 32
    if platform == "darwin":
        return [Service(path.stem, path) for path in sorted(_folder_of_launchd().glob(f"memsync.{digest}.plist"))]
    return [Service(path.name, path) for path in sorted(_folder_of_systemd().glob(f"memsync-{digest}.service"))]


def _folder_of_systemd() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"


def _folder_of_launchd() -> Path:
    return Path.home() / "Library" / "LaunchAgents"


def _setting(value: str) -> str:
    """Quote a value for systemd and escape the characters that are special to it."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _variables() -> dict[str, str]:
    """Return the environment variables that the service needs. Raises ConfigError for a password among them."""
    variables = deciding_variables(os.environ)
    if "MEMSYNC_INDEX_DSN" in variables:
        raise ConfigError(
            "a service file would show MEMSYNC_INDEX_DSN, which may hold a password, to other users",
            hint=f"Set dsn under [index] in {os.path.join(config_folder(), 'config.toml')} instead, with mode 0600.",
        )
    return variables


def _launchd(settings: Settings, label: str) -> Service:
    path = _folder_of_launchd() / f"{label}.plist"
    content = {
        "Label": label,
        "ProgramArguments": _command(settings),
        "EnvironmentVariables": _variables(),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ProcessType": "Background",
        "StandardErrorPath": str(settings.index_dir / "service.log"),
    }
    return Service(
        label,
        path,
        plistlib.dumps(content, sort_keys=False).decode(),
        enable=(["launchctl", "bootstrap", f"gui/{os.getuid()}", str(path)],),
    )


def install(service: Service) -> list[str]:
    """Write the service file and enable the service; return the commands that failed, each with its reason."""
    with filesystem_errors(f"{service.path} cannot be written"):
        service.path.parent.mkdir(parents=True, exist_ok=True)
        service.path.write_text(service.text, encoding="utf-8")
    return _run_all(service.enable)


def uninstall(service: Service) -> list[str]:
    """Disable the service and remove its file; return the commands that failed, each with its reason."""
    complaints = _run_all(service.disable[:1])
    with filesystem_errors(f"{service.path} cannot be removed"):
        service.path.unlink(missing_ok=True)
    return complaints + _run_all(service.disable[1:])


def is_active(service: Service) -> bool:
    """Return whether the service is running now."""
    if service.path.suffix == ".service":
        return _run(["systemctl", "--user", "is-active", "--quiet", service.name]).returncode == 0
    return _run(["launchctl", "print", f"gui/{os.getuid()}/{service.name}"]).returncode == 0


def _run_all(commands: Sequence[Sequence[str]]) -> list[str]:
    complaints = []
    for command in commands:
        outcome = _run(command)
        if outcome.returncode != 0:
            reason = (outcome.stderr or outcome.stdout).strip() or outcome.returncode
            complaints.append(f"{' '.join(command)}: {reason}")
    return complaints


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(  # noqa: S603 (because all commands come from this module)
            command, capture_output=True, text=True, timeout=30, check=False
        )
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, "", f"{command[0]} is not installed")
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", "no answer within 30 s")
