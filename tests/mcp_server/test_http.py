"""MCP over HTTP beside clients that connect and send nothing, or hardly anything: they lock nobody out."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from memsync.settings.load import load_settings
from tests.conftest import Write
from tests.support.daemon_process import until

IDLE_CLIENTS = 300
MOST_CONNECTIONS = 40
REQUEST_SECONDS = 5.0
FEW_DESCRIPTORS = 120
SERVE = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({FEW_DESCRIPTORS}, {FEW_DESCRIPTORS}))
from memsync.web import serving
serving.REQUEST_SECONDS, serving.MAX_CONNECTIONS = {REQUEST_SECONDS}, {MOST_CONNECTIONS}
from memsync.cli.entry import run
run()
"""
BODY = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}'


class Http:
    """A server with little patience, and how to reach it."""

    def __init__(self, port: int, token: str) -> None:
        self.port = port
        self._token = token

    def connected(self) -> socket.socket:
        """Return a new connection to it."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def request(self, token: str = "") -> bytes:
        """Return a request for the list of tools."""
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {token or self._token}\r\n"
            "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(BODY)}\r\n\r\n"
        )
        return head.encode() + BODY

    def answers(self) -> bool:
        """Tell whether a client with the token gets its answer."""
        with self.connected() as client:
            client.sendall(self.request())
            return client.recv(100).startswith(b"HTTP/1.1 200")


@contextmanager
def serving(root: Path) -> Iterator[Http]:
    command = [sys.executable, "-c", SERVE, "--root", str(root), "mcp", "--http", "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://\S+", line)
        assert found, line
        token = (load_settings(root=root).keep_dir / "mcp-token").read_text()
        yield Http(urlsplit(found.group()).port or 0, token)
    finally:
        process.terminate()
        process.communicate(timeout=120)


@pytest.fixture
def http(root: Path, write: Write) -> Iterator[Http]:
    """Serve a root with one note."""
    write("a.md", "The heron nests.\n")
    with serving(root) as server:
        yield server


def is_closed(client: socket.socket) -> bool:
    """Tell whether the server has hung up; what it sent before does not matter."""
    client.setblocking(False)
    with suppress(BlockingIOError):
        try:
            while client.recv(10_000):
                pass
        except ConnectionResetError:
            pass
        return True
    return False


def test_idle_clients_lock_nobody_out(http: Http) -> None:
    """More of them than the server has descriptors: the oldest are closed, and who has the token is answered."""
    with ExitStack() as stack:
        idle = [stack.enter_context(http.connected()) for _ in range(IDLE_CLIENTS)]
        assert http.answers()
        closed = [is_closed(client) for client in idle]
        assert sum(closed) >= IDLE_CLIENTS - MOST_CONNECTIONS
        assert closed.index(False) > IDLE_CLIENTS // 2, "the oldest go first"
        assert http.answers()


def test_clients_without_the_token_lock_nobody_out(http: Http) -> None:
    """Nor do those that were refused and stay."""
    with ExitStack() as stack:
        for _ in range(IDLE_CLIENTS):
            stack.enter_context(http.connected()).sendall(http.request(token="0" * 43))
        assert http.answers()


def test_client_that_sends_no_more_is_hung_up_on(http: Http) -> None:
    """The client stops sending: before its request, within a header, within the body, or after the request."""
    whole = http.request()
    with ExitStack() as stack:
        clients = [stack.enter_context(http.connected()) for _ in range(4)]
        for client, sent in zip(clients, (b"", whole[:40], whole[:-20], whole), strict=True):
            client.sendall(sent)
        for client in clients:
            until(partial(is_closed, client), "it is hung up on")
    assert http.answers()


def test_client_that_sends_a_byte_now_and_then_is_hung_up_on(http: Http) -> None:
    """The whole request has to come in time, not its next byte."""
    whole = http.request()
    with http.connected() as client:
        for number in range(len(whole) - 1):
            try:
                client.sendall(whole[number : number + 1])
            except OSError:
                break
            if is_closed(client):
                break
            time.sleep(0.05)
        else:
            pytest.fail("it was listened to for as long as it liked")
    assert http.answers()
