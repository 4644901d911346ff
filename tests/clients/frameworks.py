"""Install memsync's wheel beside frameworks of agents, each alone, and import both: `make frameworks`.

uv resolves; it is downloaded from PyPI, as the frameworks are (some gigabytes, removed at the end). Without uv or a
network, this says so and does nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.clients.run import INSTALL_SECONDS, PROJECT, Unavailable

FRAMEWORKS = {
    "anthropic": "memsync.integrations.anthropic",
    "crewai": "crewai",
    "google-adk": "google.adk",
    "strands-agents": "strands",
    "langchain-mcp-adapters": "langchain_mcp_adapters",
    "openai-agents": "memsync.integrations.openai_agents",
    "claude-agent-sdk": "memsync.integrations.claude_agent_sdk",
    "pydantic-ai": "pydantic_ai",
}
"""Package -> what is imported: memsync's adapter, if there is one. Its extra is installed as well."""
BOTH = """
import importlib, importlib.metadata, sys
importlib.import_module(sys.argv[2])
import memsync
from memsync import Memory
import memsync.mcp_server.calls
names = (sys.argv[1], "mcp", "watchdog", "starlette", "click")
installed = {one.name for one in importlib.metadata.distributions()}
print(", ".join(f"{name} {importlib.metadata.version(name)}" for name in names if name in installed))
"""


def _run(*command: str) -> str:
    """Run a program and return what it prints. Raises Unavailable with the end of its errors."""
    environ = {**os.environ, "CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_SECONDS, env=environ, cwd="/", check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(str(error)) from None
    if done.returncode:
        raise Unavailable(done.stderr.strip()[-600:])
    return done.stdout.strip()


def main() -> int:
    """Print a line for each framework, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names of packages, separated by commas (default: all)")
    parser.add_argument("--extra", default="", help="an extra of memsync, such as web")
    given = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        try:
            _run("uv", "--version")
            _run(
                sys.executable,
                "-m",
                "pip",
                "wheel",
                "-q",
                "--no-deps",
                "--no-build-isolation",
                "-w",
                scratch,
                str(PROJECT),
            )
        except Unavailable as reason:
            print(f"skipped: {reason}")
            return 0
        (wheel,) = Path(scratch).glob("*.whl")
        for name, module in FRAMEWORKS.items():
            if name not in (given.only or name).split(","):
                continue
            adapter = name if module.startswith("memsync.") else ""
            extras = ",".join(filter(None, (given.extra, adapter)))
            wanted = f"{wheel}[{extras}]" if extras else str(wheel)
            folder = Path(scratch) / name
            try:
                _run("uv", "venv", "--quiet", "--python", sys.executable, str(folder))
                _run("uv", "pip", "install", "--quiet", "--python", str(folder), wanted, name)
                print(f"{name}: shown: {_run(str(folder / 'bin' / 'python'), '-c', BOTH, name, module)}", flush=True)
            except Unavailable as reason:
                print(f"{name}: failed: {reason}", flush=True)
                failures += 1
            shutil.rmtree(folder, ignore_errors=True)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
