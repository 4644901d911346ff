"""Show with the real programs what memsync promises about agents: `make clients`, or `make clients ONLY=codex`.

Each client runs in a home of its own, with a scripted model on loopback. For each it is shown that

- recall: what memsync's hook answered to the prompt stands in a request that the model got;
- tool: the model's call of `memory_search` arrives, and its answer is in the next request;
- session: `memsync search` finds what was said, within two seconds of the session's end;
- settings: after `connect` and `disconnect` every file is as it was, to the byte.

Packages are kept in ~/.cache/memsync-clients, or in the folder that MEMSYNC_CLIENTS names: over a gigabyte.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from tests.clients.clients import CLIENTS, PROMPT, Client
from tests.clients.model import Script, model
from tests.clients.record import record
from tests.support.daemon_process import until

PROJECT = Path(__file__).parents[2]
RECALLED = "The heron nests in the tall alder by the quiet pond."
SEARCHED = "The ferry to Visby leaves from pier nine at half past six."
QUESTION = "ferry to Visby pier"
LAST_WORDS = "Your word is zanzibarquux."
SEARCH_SECONDS = 2.0
INSTALL_SECONDS = 900
RUN_SECONDS = 120
OWN = re.compile(r"(bin|notes|payloads)/|(\.cache|\.config|\.local/(share|state))/memsync/")
"""Files in a home that are memsync's or the user's notes."""
# It is what connect names in an agent's settings, so that each payload can be kept.
MEMSYNC = """#!{python}
import io, sys
sys.path.insert(0, {project!r})  # an MCP server does not get the environment
if sys.argv[1:2] == ["hook"]:
    payload = sys.stdin.buffer.read()
    with open({payloads!r} + "/" + sys.argv[2] + ".json", "wb") as file:
        file.write(payload)
    sys.stdin = io.TextIOWrapper(io.BytesIO(payload))
from memsync.cli.entry import run
run()
"""


class Missing(Exception):
    """A client cannot be installed or started here."""


class World:
    """A home for one client: a memory with a daemon, a project, and a user's settings."""

    def __init__(self, folder: Path, client: Client, url: str) -> None:
        self.home, self.payloads, self._memsync = folder, folder / "payloads", folder / "bin" / "memsync"
        self.project = self.home / "project"
        for place in (self.project, self.payloads, self._memsync.parent):
            place.mkdir(parents=True)
        text = MEMSYNC.format(python=sys.executable, project=str(PROJECT), payloads=str(self.payloads))
        self._memsync.write_text(text)
        self._memsync.chmod(0o755)
        path = os.pathsep.join([str(self._memsync.parent), os.environ["PATH"]])
        own = {"PATH": path, "HOME": str(self.home), "PYTHONPATH": str(PROJECT), "TERM": "dumb", "LANG": "C.UTF-8"}
        self.environ = {**own, **client.environ(url)}
        for name, content in client.settings(url).items():
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text(content)
        self._remember()

    def _remember(self) -> None:
        notes = self.home / "notes"
        self("init", str(notes))
        (notes / "notes").mkdir()
        (notes / "notes" / "birds.md").write_text(f"# Birds\n\n{RECALLED}\n")
        (notes / "notes" / "ships.md").write_text(f"# Ships\n\n{SEARCHED}\n")
        self("roots", "add", "mine", str(notes))
        self("roots", "default", "mine")
        self("ingest")  # creates the memory of conversations, whose daemon takes them in
        started = [json.loads(self("start", "--root", name, "--json")) for name in ("mine", "transcripts")]
        self.daemons = [int(each["process"]) for each in started]
        compiled = self.home / ".cache" / "memsync" / "secrets"
        until(lambda: list(compiled.glob("*")), "the rules that find secrets are compiled, once on a machine")

    def __call__(self, *arguments: str) -> str:
        """Run memsync as the user does, and return what it prints. Raises AssertionError if it fails."""
        done = self.run(str(self._memsync), *arguments)
        assert done.returncode == 0, f"memsync {' '.join(arguments)}: {done.stderr.strip()}"
        return done.stdout

    def run(self, *command: str, seconds: int = RUN_SECONDS) -> subprocess.CompletedProcess[str]:
        """Run a program in the project."""
        return subprocess.run(
            command,
            cwd=self.project,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def files(self) -> Mapping[str, bytes]:
        """Return the content of each file in the home that is not memsync's own."""
        files = {str(path.relative_to(self.home)): path for path in self.home.rglob("*") if path.is_file()}
        return {name: path.read_bytes() for name, path in files.items() if not OWN.match(name)}

    def close(self) -> None:
        """End the daemons."""
        for daemon in self.daemons:
            with suppress(ProcessLookupError):
                os.kill(daemon, signal.SIGTERM)


def installed(client: Client, cache: Path) -> tuple[list[str], str]:
    """Return the command that starts a client, and its version; install it if it is not in the cache."""
    source, _, package = client.package.partition(":")
    folder = cache / client.name
    program = [str(folder / part) if "/" in part else shutil.which(part) or "" for part in client.program]
    if not Path(program[-1]).exists():
        print(f"{client.name}: installing {package}", file=sys.stderr)
        folder.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), package]
        npm = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), f"{package}@latest"]
        with suppress(OSError, subprocess.TimeoutExpired):
            command = pip if source == "pypi" else npm
            subprocess.run(command, cwd=folder, capture_output=True, timeout=INSTALL_SECONDS, check=False)
    with tempfile.TemporaryDirectory() as home:
        try:
            environ = {"PATH": os.environ["PATH"], "HOME": home}
            asked = subprocess.run(
                [*program, "--version"], env=environ, capture_output=True, text=True, timeout=60, check=True
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise Missing(f"{package} could not be installed or started: {error}") from None
    return program, next((word.strip(".") for word in asked.stdout.split() if word[0].isdigit()), "unknown")


def shown(client: Client, program: list[str], world: World, script: Script) -> Iterator[tuple[str, str]]:
    """Run a session. Yields what was to be shown, and what is wrong with it: empty if it was shown."""
    before = world.files()
    world("agents", "connect", client.name, "--yes")
    connected = {path for path, content in world.files().items() if before.get(path) != content}
    world("agents", "disconnect", client.name, "--yes")
    after = world.files()
    changed = [path for path in {*before, *after} if before.get(path) != after.get(path)]
    world("agents", "connect", client.name, "--yes")
    done = world.run(*program, *client.arguments)
    ended = time.monotonic()
    asked = [json.dumps(request, ensure_ascii=False) for request in script.requests if PROMPT in json.dumps(request)]
    heard = [text for text in asked if "memsync-recall" in text and RECALLED in text]
    said = f"; it said: {(done.stderr or done.stdout).strip()[-300:]!r}" if done.returncode or not asked else ""
    yield "recall", "" if heard else f"not in any of {len(asked)} requests{said}"
    told = [SEARCHED in text for text in asked]
    yield (
        "tool",
        "" if told[:1] == [False] and any(told) else f"its answer is in {sum(told)} of {len(told)} requests{said}",
    )
    yield "session", _found(world, ended)
    world("agents", "disconnect", client.name, "--yes")
    after = world.files()
    changed += [path for path in connected if b"memsync" in after.get(path, b"")]
    yield "settings", f"changed: {', '.join(changed)}" if changed or not connected else ""


def _found(world: World, ended: float) -> str:
    """Say what is wrong with the search for the last words of a session."""
    while time.monotonic() < ended + SEARCH_SECONDS:
        with suppress(AssertionError):  # there is no such memory yet
            if LAST_WORDS in world("search", "--root", "transcripts", "--mode", "keyword", "zanzibarquux"):
                return ""
        time.sleep(0.05)
    return f"not found within {SEARCH_SECONDS:g} s"


def main() -> int:
    """Run the clients that were asked for, print a line for each promise, and return the exit code."""
    parser = argparse.ArgumentParser(description="Show memsync's promises about agents with their real programs.")
    parser.add_argument("--only", default="", help="names of clients, separated by commas (default: all)")
    parser.add_argument("--record", type=Path, help="write payloads and transcripts into this folder")
    arguments = parser.parse_args()
    cache = Path(os.environ.get("MEMSYNC_CLIENTS") or Path.home() / ".cache" / "memsync-clients")
    failed = False
    for client in CLIENTS:
        if arguments.only and client.name not in arguments.only.split(","):
            continue
        try:
            program, version = installed(client, cache)
        except Missing as missing:
            print(f"{client.name}: skipped, because {missing}", flush=True)
            continue
        script = Script(QUESTION, LAST_WORDS)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, model(script) as url:
            world = World(Path(folder), client, url)
            try:
                for promise, wrong in shown(client, program, world, script):
                    wrong = wrong and client.unless.get(promise, wrong)
                    failed |= bool(wrong) and promise not in client.unless
                    print(f"{client.name} {version}: {promise}: {wrong or 'shown'}", flush=True)
                if arguments.record:
                    record(client.name, world.home, world.payloads, arguments.record / client.name)
            finally:
                world.close()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
