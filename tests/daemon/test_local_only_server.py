"""The command, the daemon and the process of its model: a server with OpenAI's protocol gets no private text."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.support.daemon_process import Cli, until

SECRET = "zanzibar"
DIMENSION = 8


class Server(BaseHTTPRequestHandler):
    """Answers each text with a vector. `texts` has every text that it was sent."""

    texts: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Server.texts += asked["input"]
        rows: list[dict[str, Any]] = [
            {"index": number, "embedding": [1.0, *[len(text) % 7 / 10] * (DIMENSION - 1)], "object": "embedding"}
            for number, text in enumerate(asked["input"])
        ]
        answer = {"data": rows, "model": "m", "object": "list", "usage": {"prompt_tokens": 0, "total_tokens": 0}}
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Run a server for `openai:` models, and return the list of the texts that it gets."""
    pytest.importorskip("openai")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    Server.texts = []
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.setenv("MEMSYNC_EMBEDDER_MODEL", "openai:m")
    monkeypatch.setenv("MEMSYNC_PRIVACY_LOCAL_ONLY", "journal/")
    yield Server.texts
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.slow
def test_daemon_and_commands_send_public_texts_only(
    cli: Cli, write: Callable[[str, str | bytes], Path], root: Path, texts: list[str]
) -> None:
    """Indexing, saving, moving, searching, rebuilding, verifying and evaluating send no private text or heading."""
    write("journal/a.md", f"# Our {SECRET} journey last summer\n\nThe {SECRET} ferry was late.\n")
    write("b.md", f"---\nlocal-only: yes\n---\n# The {SECRET} file of my own\n\nNobody reads {SECRET}.\n")
    write("c.md", "# The heron of the lake in spring\n\nThe heron nests in the alder.\n")
    cli.start()
    write("journal/d.md", f"A new {SECRET} day.\n")
    write("e.md", "A coot dives.\n")
    until(lambda: any("coot" in text for text in texts), "the daemon has embedded a new note")
    (root / "journal/d.md").rename(root / "journal/f.md")
    assert "journal/f.md" in cli("search", "--mode", "keyword", "--", "new day").stdout
    status = json.loads(cli("status", "--json").stdout)
    assert (status["pending_vectors"], status["local_only"], status["failures"]) == (0, 3, [])
    assert "found by their words only" in cli("status").stdout
    assert cli("daemon", "stop").returncode == 0
    for arguments in (
        ("sync",),
        ("index", "rebuild", "--drop-vectors"),
        ("index", "verify", "--recompute"),
        ("eval",),
        ("duplicates",),
    ):
        done = cli(*arguments)
        assert done.returncode == 0, (arguments, done.stderr)
    assert any("heron" in text for text in texts)
    assert not [text for text in texts if SECRET in text.casefold()]
