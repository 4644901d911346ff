"""`memsync web`: the daemon serves the pages while they are on, at the same port over every restart."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from unittest.mock import Mock

import pytest

from memsync.daemon import process, web_server
from memsync.daemon.health import DaemonFaults
from memsync.daemon.web_server import Page, WebServer, turn_on, turned_on
from memsync.errors import MemsyncError
from memsync.settings.load import Settings
from memsync.web.access import Access
from memsync.web.serving import HOST, listening
from tests.conftest import Patch, Write
from tests.support.daemon_fixtures import Served
from tests.support.daemon_process import Cli, until


@pytest.fixture
def port() -> int:
    """Return a port that is free now."""
    with listening(0) as bound:
        return int(bound.getsockname()[1])


@pytest.fixture
def on(cli: Cli, write: Write, port: int) -> Cli:
    """Turn the pages of a root with one note on."""
    write("a.md", "The heron nests.\n")
    done = cli("web", "--port", str(port), "--json")
    assert done.returncode == 0, done.stderr
    return cli


def status_of(port: int, path: str = "/", cookie: str = "") -> int:
    """Return the status of an answer; 0 if nothing listens."""
    with closing(http.client.HTTPConnection(HOST, port, timeout=60)) as connection:
        try:
            connection.request("GET", path, headers={"Cookie": cookie})
            return connection.getresponse().status
        except ConnectionError:
            return 0


def cookie_of(cli: Cli, port: int) -> str:
    return f"memsync-{port}={Access(cli.settings.keep_dir).make_cookie()}"


def servers(cli: Cli) -> list[int]:
    """Return the processes that serve the pages of a root."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (place / "cmdline").read_bytes().split(b"\0")
            if b"--until-eof" in words and os.fsencode(cli.root) in words:
                found.append(int(place.name))
    return found


def test_link_opens_the_pages_and_off_ends_them(on: Cli, port: int) -> None:
    """A second call prints another link and changes nothing; --off returns when the port is free."""
    before = servers(on)
    link = on("web").stdout.strip()
    assert link.startswith(f"http://{HOST}:{port}/enter?key=") and servers(on) == before
    path = link.removeprefix(f"http://{HOST}:{port}")
    assert [status_of(port, path), status_of(port, path)] == [303, 403]
    assert f"http://{HOST}:{port}" in on("status").stdout
    assert on("web", "--off").stdout == "the pages are off\n"
    assert (servers(on), status_of(port)) == ([], 0)
    assert json.loads(on("web", "--off", "--json").stdout) == {"url": ""}
    assert "web" not in on("status").stdout


def test_restart_keeps_the_port_and_the_cookie(on: Cli, port: int) -> None:
    """So a page that is open comes back by itself. Nothing is served between the two."""
    cookie = cookie_of(on, port)
    assert status_of(port, cookie=cookie) == 200
    assert on("daemon", "stop").returncode == 0
    assert (servers(on), status_of(port)) == ([], 0)
    on.start()
    until(lambda: status_of(port, cookie=cookie) == 200, "the pages are back")


def test_server_ends_with_a_daemon_that_is_killed(on: Cli, port: int) -> None:
    """It would hold the port, and answer without the daemon; the next daemon serves at the same one."""
    (daemon,) = on.processes()
    os.kill(daemon, signal.SIGKILL)
    until(lambda: not servers(on) and status_of(port) == 0, "the server has ended")
    on.start()
    until(lambda: status_of(port) == 401, "the pages are back")


def test_server_that_dies_is_started_again(on: Cli, port: int) -> None:
    """The fault is in the status until it has served for a while."""
    (server,) = servers(on)
    os.kill(server, signal.SIGKILL)
    until(lambda: servers(on) not in ([], [server]) and status_of(port) == 401, "the pages are back")
    until(lambda: "fault" not in on("status").stdout, "the fault is gone")
    assert "web: the web server ended with exit code -9" in on.log


def test_port_in_use_names_who_has_it_and_changes_nothing(on: Cli, port: int) -> None:
    """What was on before stays on."""
    with listening(0) as taken:
        other = taken.getsockname()[1]
        refused = on("web", "--port", str(other))
        assert refused.returncode == 2 and f"in use, by process {os.getpid()} " in refused.stderr
        assert "Set another with --port." in refused.stderr
        until(lambda: status_of(port) == 401, "the pages are back")
    assert on("web", "--port", str(other)).returncode == 0
    assert (status_of(port), status_of(other)) == (0, 401)


def test_pages_that_cannot_be_turned_on_stay_off(cli: Cli, write: Write) -> None:
    """A later start of the daemon does not try again."""
    with listening(0) as taken:
        assert cli("web", "--port", str(taken.getsockname()[1])).returncode == 2
    assert turned_on(cli.settings) is None
    assert cli("web", "--public-url", "https://a/b").returncode == 2
    assert turned_on(cli.settings) is None


def test_two_memories_have_their_pages_at_once(on: Cli, port: int, tmp_path: Path) -> None:
    """The second one says that the first one has the usual port; a cookie is for one of them."""
    other = on.another(tmp_path / "other")
    other.root.mkdir()
    refused = other("web", "--port", str(port))
    assert refused.returncode == 2 and f"(memsync --root {on.root} http" in refused.stderr
    with listening(0) as free:
        second = free.getsockname()[1]
    assert other("web", "--port", str(second)).returncode == 0
    assert status_of(second, cookie=cookie_of(other, second)) == 200
    assert status_of(second, cookie=cookie_of(on, second)) == 401


# --------------------------------------------------------------------------------------- in this process


@pytest.fixture
def server(settings: Settings) -> Iterator[WebServer]:
    """Make a server that a test starts."""
    settings.index_dir.mkdir(parents=True, exist_ok=True)
    made = WebServer(settings, DaemonFaults())
    yield made
    made.stop()
    made._end()


def test_later_fault_is_in_health_until_the_server_works(served: Served, monkeypatch: Patch, port: int) -> None:
    """It names who has the port, and the pauses between attempts grow."""
    monkeypatch.setattr(web_server, "LONGEST_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(web_server, "CHECK_SECONDS", 0.01)
    health = served.engine.health
    with listening(port):
        turn_on(served.settings, Page(port))
        until(lambda: f"by process {os.getpid()}" in health.reason("web"), "the fault is known")
        with served.connect() as memory:
            daemon = memory.status().daemon
        assert daemon is not None and daemon.web == "" and any("web: port" in error for error in daemon.errors)
    until(lambda: health.reason("web") == "", "it is mended")
    with served.connect() as memory:
        daemon = memory.status().daemon
    assert daemon is not None and daemon.web == f"http://{HOST}:{port}"


def test_server_that_does_not_start_is_an_error(server: WebServer, settings: Settings, monkeypatch: Patch) -> None:
    """Its process has ended, and it has no URL."""
    turn_on(settings, Page(0))
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(MemsyncError, match="the web server ended before it was ready"):
        server.apply()
    assert (server.url, server._child) == ("", None)


def test_server_that_hangs_at_its_start_does_not_hold_up_the_end(
    server: WebServer, settings: Settings, tmp_path: Path, monkeypatch: Patch
) -> None:
    """The daemon ends within two seconds, so it ends the server first."""
    turn_on(settings, Page(0))
    hanging = tmp_path / "hanging"
    hanging.write_text("#!/bin/sh\nexec sleep 600\n")
    hanging.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(hanging))
    server.start()
    until(lambda: server._child is not None, "it has begun")
    server.stop()
    assert server.join(60.0) and server._child is None


def test_daemon_with_pages_or_shared_notes_is_never_idle(
    settings: Settings, server: WebServer, monkeypatch: Patch
) -> None:
    """Otherwise an open page would stop to be live after some minutes, and changes of other machines would not come."""

    async def ends_when_idle(*, is_shared: bool = False) -> bool:
        daemon = process.Daemon(settings, Mock(), lambda: True, until_idle=True)
        daemon._why_anew = lambda *_: ""  # type: ignore[method-assign]  # because there is no socket
        socket = Mock()
        socket.idle_seconds.return_value = float("inf")
        checks = asyncio.create_task(daemon._check(socket, Mock(web=server, sharer=Mock(is_on=is_shared))))
        while not daemon._until.is_set() and socket.idle_seconds.call_count < 3:
            await asyncio.sleep(0)
        checks.cancel()
        return daemon._until.is_set()

    monkeypatch.setattr(process, "CHECK_SECONDS", 0.01)
    assert asyncio.run(ends_when_idle()) and not asyncio.run(ends_when_idle(is_shared=True))
    turn_on(settings, Page(1))
    assert not asyncio.run(ends_when_idle())
