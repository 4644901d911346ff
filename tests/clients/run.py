"""Show with the real programs what memsync promises about agents: `make clients`, or `make clients ONLY=codex`.

Each client runs in a home of its own, with a scripted model on loopback. For each it is shown that

- recall: what memsync's hook answered to the prompt is in the first request that the model got;
- offered: the first request that the model got has the tool `memory_search`, with its schema (OpenClaw: its name);
- tool: the model's call of `memory_search` arrives, and its answer is in a later request, as text with its quotation;
- session: `memsync search` finds what was said, within two seconds of the session's end;
- note: five seconds after the session's end, today's log has what the user decided, once; the cited line says so;
- next: the first request of the next session has that line;
- settings: after `connect` and `disconnect` every file is as it was, to the byte.

Then, in another home, memsync's plugin is validated and installed by the client's own commands:

- plugin: they succeed, and `connect` adds no hooks and says that the plugin is there;
- recall, offered, tool and session, as above. What was recalled is in the request only once.

A client that cannot be installed is skipped, with the reason. Packages are kept in ~/.cache/memsync-clients, or in the
folder that MEMSYNC_CLIENTS names: over a gigabyte.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from memsync.mcp_server.tools import QUOTED
from tests.clients.clients import CLIENTS, PROMPT, Client
from tests.clients.model import TOOL, Script, model, offered
from tests.clients.record import record
from tests.support.daemon_process import until
from tools.integrations import INSTALL

PROJECT = Path(__file__).parents[2]
RECALLED = "The heron nests in the tall alder by the quiet pond."
SEARCHED = "The ferry to Visby leaves from pier nine at half past six."
QUESTION = "ferry to Visby pier"
WORD = "zanzibarquux"
DECISION = "Never guess where a bird nests, always cite the line of a note."
NEXT = "What did we decide about birds the last time?"
SEARCH_SECONDS = 2.0
NOTE_SECONDS = 5.0
INSTALL_SECONDS = 900
RUN_SECONDS = 120
OWN = re.compile(r"(bin|notes|payloads)/|(\.cache|\.config|\.local/(share|state))/memsync/")
"""Files in a home that are memsync's, the notes, or this program's."""
# `connect` writes the path of this program into the settings, so that each payload is kept.
MEMSYNC = """#!{python}
import io, sys
sys.path.insert(0, {project!r})  # agents do not pass the environment on to MCP servers
if sys.argv[1:2] == ["hook"]:
    payload = sys.stdin.buffer.read()
    with open({payloads!r} + "/" + sys.argv[2] + ".json", "wb") as file:
        file.write(payload)
    sys.stdin = io.TextIOWrapper(io.BytesIO(payload))
from memsync.cli.entry import run
run()
"""


class Unavailable(Exception):
    """A client cannot be installed or started here."""


class World:
    """A home for one client: the settings of its user, a project, and a memory."""

    def __init__(self, home: Path, client: Client, url: str) -> None:
        self.home, self.project, self.payloads = home, home / "project", home / "payloads"
        self._memsync, self._daemons = home / "bin" / "memsync", list[int]()
        for folder in (self.project, self.payloads, self._memsync.parent):
            folder.mkdir()
        text = MEMSYNC.format(python=sys.executable, project=str(PROJECT), payloads=str(self.payloads))
        self._memsync.write_text(text)
        self._memsync.chmod(0o755)
        own = {"HOME": str(home), "PYTHONPATH": str(PROJECT), "TERM": "dumb", "LANG": "C.UTF-8"}
        self._environ = {"PATH": f"{self._memsync.parent}:{os.environ['PATH']}", **own, **client.environ(url)}
        for name, content in client.settings(url).items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(content)

    def remember(self) -> None:
        """Make a memory with two facts the default one, with a daemon."""
        notes = self.home / "notes"
        self("init", str(notes))
        (notes / "birds.md").write_text(f"# Birds\n\n{RECALLED}\n")
        (notes / "ships.md").write_text(f"# Ships\n\n{SEARCHED}\n")
        self("roots", "add", "mine", str(notes))
        self("roots", "default", "mine")
        self.start("mine")

    def start(self, name: str) -> None:
        """Start the daemon of a memory."""
        self._daemons.append(int(json.loads(self("daemon", "start", "--root", name, "--json"))["process"]))

    def __call__(self, *arguments: str) -> str:
        """Run memsync as the user does, and return what it prints. Raises AssertionError if it fails."""
        done = self.run(str(self._memsync), *arguments)
        assert done.returncode == 0, f"memsync {' '.join(arguments)}: {done.stderr.strip()}"
        return done.stdout

    def run(self, *command: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program in the project, or in another folder."""
        return run(command, self._environ, folder or self.project, RUN_SECONDS)

    def files(self) -> dict[str, bytes]:
        """Return the content of each file in the home that is the user's or the client's."""
        files = {str(path.relative_to(self.home)): path for path in self.home.rglob("*") if path.is_file()}
        return {name: path.read_bytes() for name, path in files.items() if not OWN.match(name)}

    def close(self) -> None:
        """End the daemons."""
        for daemon in self._daemons:
            with suppress(ProcessLookupError):
                os.kill(daemon, signal.SIGTERM)


def run(
    command: tuple[str, ...], environ: dict[str, str], folder: Path, seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run a program without a terminal."""
    nothing = subprocess.DEVNULL
    return subprocess.run(
        command, cwd=folder, env=environ, stdin=nothing, capture_output=True, text=True, timeout=seconds, check=False
    )


def installed(client: Client, folder: Path) -> tuple[list[str], str]:
    """Return the command that starts a client, and its version. Installs it if it is not in the folder yet."""
    source, _, package = client.package.partition(":")
    program = [str(folder / part) if "/" in part else shutil.which(part) or part for part in client.program]
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder))
    npm = ("npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder))
    newer = {
        **os.environ,
        "PATH": f"{folder}/node_modules/.bin:{os.environ['PATH']}",
    }  # a package may need its own Node
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if not all(Path(part).exists() for part in program):
            for name in package.split():
                done = run((*(pip if source == "pypi" else npm), name), newer, folder, INSTALL_SECONDS)
                if done.returncode:
                    raise Unavailable(f"{name} cannot be installed: {done.stderr.strip()[-300:]}")
        done = run((*program, "--version"), environ, folder, RUN_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{package} cannot be started: {error}") from None
    if version := re.search(r"\d+(\.\d+)+", done.stdout):
        return program, version[0]
    raise Unavailable(f"{package} does not say its version: {done.stderr.strip()[-300:]}")


def shown(client: Client, program: list[str], world: World, script: Script) -> Iterator[tuple[str, str]]:
    """Run a session. Yields each promise, and what is wrong with it: empty if it was kept."""
    world.remember()
    before = world.files()
    world("agents", "connect", client.name, "--yes")
    connected = {name for name, content in world.files().items() if before.get(name) != content}
    world("agents", "disconnect", client.name, "--yes")
    after = world.files()
    changed = [name for name in {*before, *after} if before.get(name) != after.get(name)]

    world("agents", "connect", client.name, "--yes")
    yield from _session(client, program, world, script)
    world("agents", "disconnect", client.name, "--yes")
    after = world.files()
    changed += [name for name in connected if b"memsync" in after.get(name, b"")]
    yield "settings", f"changed: {', '.join(changed)}" if changed or not connected else ""


def shown_by_plugin(client: Client, program: list[str], world: World, script: Script) -> Iterator[tuple[str, str]]:
    """Install memsync's plugin as its README says, and run a session. Yields as `shown` does."""
    world.remember()
    for line in (*INSTALL[client.name].splitlines(), *client.validate):
        agrees = client.agrees if " install " in line else ()
        command = [*program, *shlex.split(line.replace("$PWD", str(PROJECT)))[1:], *agrees]
        done = world.run(*command, folder=PROJECT)
        if done.returncode:
            yield "plugin", f"{line}: {done.stdout.strip()[-300:]} {done.stderr.strip()[-300:]}"
    before = world.files()
    said = json.loads(world("agents", "connect", client.name, "--yes", "--json"))
    changed = [name for name, content in world.files().items() if before.get(name) != content]
    known = json.loads(world("agents", "--json"))["agents"]
    is_known = any(one["plugin"] for one in known if one["name"] == client.name)
    yield "plugin", "" if is_known and not changed and not said["changed"] else f"connect changed: {changed}"
    yield from _session(client, program, world, script)


def _session(client: Client, program: list[str], world: World, script: Script) -> Iterator[tuple[str, str]]:
    """Run a session, and yield what `shown` promises about it."""
    world.start("transcripts")
    rules = world.home / ".cache" / "memsync" / "secrets"
    until(lambda: list(rules.glob("*")), "the rules that find secrets are compiled, once on a machine")
    done = world.run(*program, *client.arguments)
    session = _search(world, time.monotonic())
    requests = [json.dumps(request) for request in script.requests if request.get("tools")]
    first, later = requests[:1], requests[1:]
    said = f"; it said: {(done.stderr or done.stdout).strip()[-300:]!r}" if done.returncode or not first else ""
    is_recalled = any("memsync-recall" in text and RECALLED in text for text in first)
    is_recalled &= not any(text.count(RECALLED) > 1 for text in first)
    yield "recall", "" if is_recalled else f"not once in the first of {len(requests)} requests{said}"
    is_offered = any(offered(json.loads(text)["tools"]) and TOOL in text for text in first)
    yield "offered", "" if is_offered else f"not in the first of {len(requests)} requests"
    is_answered = any(SEARCHED in text and QUOTED in text for text in later)
    is_answered &= not any(SEARCHED in text for text in first) and not any('\\"start_line\\"' in text for text in later)
    yield "tool", "" if is_answered else f"its answer is not in the later ones of {len(requests)} requests{said}"
    yield "session", session

    world.run(*program, *(DECISION if part == PROMPT else part for part in client.arguments))
    yield "note", _note(world, client.name, time.monotonic())
    known = len(script.requests)
    world.run(*program, *(NEXT if part == PROMPT else part for part in client.arguments))
    begun = [json.dumps(request) for request in script.requests[known:] if request.get("tools")][:1]
    is_next = any("The last session in this project" in text and DECISION in text for text in begun)
    yield "next", "" if is_next else f"not in the first of {len(script.requests) - known} requests"


def _search(world: World, ended: float) -> str:
    """Search for the word that was said in a session until it is found. Returns what is wrong."""
    while time.monotonic() < ended + SEARCH_SECONDS:
        time.sleep(0.1)
        with suppress(AssertionError):  # nothing is found yet
            if WORD in world("search", "--root", "transcripts", WORD):
                return ""
    return f"not found within {SEARCH_SECONDS:g} s"


def _note(world: World, agent: str, ended: float) -> str:
    """Wait until the log has what was decided. Returns what is wrong."""
    log, line = "", ""
    while time.monotonic() < ended + NOTE_SECONDS and not line:
        time.sleep(0.1)
        log = "".join(path.read_text() for path in (world.home / "notes" / "daily").glob("*.md"))
        line = next((line for line in log.split("\n") if DECISION in line), "")
    cited = re.search(rf" \(transcripts:(\S+):(\d+)\) \{{by={agent} session=\S+\}}$", line)
    if log.count(DECISION) != 1 or not cited:
        return f"not once in the log within {NOTE_SECONDS:g} s: {log[-300:]!r}"
    said = world("get", "--root", "transcripts", f"{cited[1]}:{cited[2]}")
    return "" if DECISION in said else f"{cited[1]}:{cited[2]} says {said[:100]!r}"


def main() -> int:
    """Run the clients that were asked for, print a line for each promise, and return the exit code."""
    parser = argparse.ArgumentParser(description="Show with the real programs what memsync promises about agents.")
    parser.add_argument("--only", default="", help="names of clients, separated by commas (default: all)")
    parser.add_argument("--record", type=Path, help="write payloads and transcripts into this folder")
    arguments = parser.parse_args()
    cache = Path(os.environ.pop("MEMSYNC_CLIENTS", "") or Path.home() / ".cache" / "memsync-clients")
    failures = 0
    for client in (client for client in CLIENTS if client.name in (arguments.only or client.name).split(",")):
        try:
            program, version = installed(client, cache / client.name)
        except Unavailable as reason:
            print(f"{client.name}: skipped: {reason}", flush=True)
            continue
        for show in (shown, shown_by_plugin) if client.name in INSTALL else (shown,):
            script = Script(QUESTION, f"Your word is {WORD}.")
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, model(script) as url:
                world = World(Path(folder), client, url)
                try:
                    for promise, wrong in show(client, program, world, script):
                        way = "by its plugin: " if show is shown_by_plugin else ""
                        print(f"{client.name} {version}: {way}{promise}: {wrong or 'shown'}", flush=True)
                        failures += bool(wrong)
                    if arguments.record and show is shown:
                        record(client.name, world.home, world.payloads, arguments.record / client.name)
                finally:
                    world.close()
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
