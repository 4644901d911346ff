"""`memsync http` as a process, over real sockets."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from memsync.settings.load import load_settings
from memsync.web.access import TOKEN
from memsync.web.health import MAX_LISTENERS
from memsync.web.serving import HOST
from tests.conftest import Write
from tests.mcp_server.test_http import is_closed
from tests.support.daemon_process import Cli, until

SERVE = """
from memsync.web import serving
serving.REQUEST_SECONDS = 2.0
from memsync.cli.entry import run
run()
"""


class Web:
    """A server, and how to reach it."""

    def __init__(self, process: subprocess.Popen[str], root: Path) -> None:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + process.stderr.read()
        self.process, self.line = process, line
        self.port = urlsplit(found.group()).port or 0
        self.token = (load_settings(root=root).keep_dir / TOKEN).read_text()

    def get(self, path: str, method: str = "GET", body: str | None = None, **headers: str) -> tuple[int, Any]:
        """Return the status and the JSON of an answer."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
        connection.request(method, path, body, {"Authorization": f"Bearer {self.token}", **headers})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text)

    def connected(self, request: str) -> socket.socket:
        """Return a connection on which the head of a request was sent, without the line that ends it."""
        client = socket.create_connection((HOST, self.port), timeout=60)
        head = f"{request} HTTP/1.1\r\nHost: {HOST}:{self.port}\r\nAuthorization: Bearer {self.token}\r\n"
        client.sendall(head.encode())
        return client

    def has_room(self) -> bool:
        """Tell whether one more may listen."""
        client, line = self.listener()
        client.close()
        return line == b"HTTP/1.1 200 OK"

    def listener(self) -> tuple[socket.socket, bytes]:
        """Return a connection on which events were asked for, and the first line of the answer."""
        client = self.connected("GET /events")
        client.sendall(b"\r\n")
        return client, client.recv(10_000).partition(b"\r\n")[0]


@pytest.fixture
def web(cli: Cli, write: Write) -> Web:
    """Serve a root with one note."""
    write("a.md", "The heron nests.\n")
    return Web(cli.begin("http", "--port", "0"), cli.root)


def test_server_says_where_it_is_and_answers(web: Web) -> None:
    """With the place of the token; with another Host it answers nobody."""
    assert TOKEN in web.line and web.token not in web.line
    status, found = web.get("/v1/search?query=heron&mode=keyword")
    assert (status, [hit["citation"] for hit in found["hits"]]) == (200, ["a.md:1"])
    assert web.get("/v1/status", Host="evil.example")[0] == 403
    assert web.get("/v1/status", Authorization="Bearer x")[0] == 401


def test_server_writes_and_reads_its_settings_again(web: Web, cli: Cli) -> None:
    """A changed config.toml counts for the next request."""
    assert web.get("/v1/log", "POST", '{"text": "chose SQLite"}')[0] == 200
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "memsync" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[search]\nlimit = 1\n")
    _, found = web.get("/v1/search?query=heron+sqlite+chose&mode=keyword")
    assert len(found["hits"]) == 1


def test_signal_ends_it(web: Web) -> None:
    """At once if nobody waits for an answer, and without a trace on stderr."""
    assert web.get("/v1/status")[0] == 200
    web.process.send_signal(signal.SIGINT)
    assert web.process.communicate(timeout=60) == ("", "")


def test_listener_that_leaves_makes_room(web: Web) -> None:
    """The server notices it without a change to send."""
    for _ in range(2):
        listeners = [web.listener() for _ in range(MAX_LISTENERS)]
        assert {line for _, line in listeners} == {b"HTTP/1.1 200 OK"}
        assert web.get("/events")[0] == 503
        for client, _ in listeners:
            client.close()
        until(web.has_room, "there is room")
        until(lambda: web.get("/v1/status")[0] == 200, "it answers")


@contextmanager
def impatient(root: Path) -> Iterator[Web]:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, "--root", str(root), "http", "--port", "0"], stderr=subprocess.PIPE, text=True
    )
    try:
        yield Web(process, root)
    finally:
        process.terminate()
        process.communicate(timeout=120)


def test_client_that_sends_its_body_too_slowly_is_hung_up_on(root: Path) -> None:
    """Also one with the token; a listener, to whom nothing is sent, stays."""
    with impatient(root) as web:
        patient, line = web.listener()
        with patient, web.connected("POST /v1/status") as client:
            client.sendall(b"Content-Length: 100\r\n\r\n{")
            until(partial(is_closed, client), "it is hung up on")
            assert line == b"HTTP/1.1 200 OK" and not is_closed(patient)
