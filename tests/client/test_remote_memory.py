"""RemoteMemory is the same memory over the socket: equal answers, equal errors, and no mix-ups when something fails."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from memsync import Memory, __version__, errors
from memsync.client import connection as client
from memsync.client import wire
from memsync.memory import RemoteMemory
from memsync.model.answer import SearchResult
from memsync.model.vocabulary import Mode
from tests.conftest import Patch, Write
from tests.support.daemon_fixtures import Served
from tests.support.daemon_process import Cli

QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    ("heron", {}), ("harbour", {"mode": Mode.VECTOR}), ("kind:daily", {}), ("heron", {"tokens": 1}),
    ("heron", {"tag": ("birds",), "folder": ("daily/",), "after": ("2026",), "before": ("2026-12",)}),
    ("heron", {"fresh": "bounded", "limit": 2}), ("no such word anywhere", {"mode": "keyword"}),
    ("漢字 🐦 C++", {}), ("heron \ud800", {}), ('"the harbour" -rope', {"min_score": 0.01, "archived": True}),
]  # fmt: skip


def told(result: SearchResult) -> SearchResult:
    """Return an answer without what differs between any two: the times, and who answered."""
    freshness = replace(result.freshness, scanned_at="", generation=0)
    return replace(result, freshness=freshness, explain=replace(result.explain, timings_ms={}))


@pytest.fixture
def remote(served: Served) -> Iterator[RemoteMemory]:
    """Connect to the daemon."""
    with served.connect() as found:
        yield found


@pytest.mark.parametrize(("query", "options"), QUESTIONS, ids=lambda value: ascii(value)[:50])
def test_remote_answer_equals_the_one_given_in_process(
    query: str, options: dict[str, Any], served: Served, remote: RemoteMemory
) -> None:
    """Hits, ranks, scores, mode, filters, warnings: everything but times."""
    here = served.memory.search(query, **options)
    assert told(remote.search(query, **options)) == told(here)
    assert remote.search(query, **options).explain.timings_ms.keys() == here.explain.timings_ms.keys()


def test_remote_excerpt_status_and_report_are_of_the_same_types(served: Served, remote: RemoteMemory) -> None:
    """Equal as dataclasses, tuples included."""
    assert remote.get("birds.md:3-5") == served.memory.get("birds.md:3-5")
    assert remote.status().daemon is not None
    here, there = served.engine.memory.status(), remote.status()
    assert replace(there, daemon=None, last_sync="", index_bytes=0) == replace(
        here, daemon=None, last_sync="", index_bytes=0
    )
    report = remote.sync()
    assert replace(report, seconds=0, generation=0) == replace(served.memory.sync(), seconds=0, generation=0)
    assert remote.wait(generation=report.generation, vectors=True)


def test_progress_of_a_remote_sync_reaches_the_callback(remote: RemoteMemory, write: Callable[..., Path]) -> None:
    """As Memory.sync tells it; the answers after it are not confused."""
    write("new.md", "The bittern booms.\n")
    write("other.md", "The rail squeals.\n")
    seen: list[tuple[str, int, int]] = []
    report = remote.sync(progress=lambda what, done, total: seen.append((what, done, total)))
    steps = [(done, total) for what, done, total in seen if what == "reading notes"]
    assert steps == sorted(set(steps))
    done, total = steps[-1]
    assert done == total >= 2  # the others are read again, too, while their stamps are young
    assert (report.added, report.unchanged) == (2, 3)
    assert remote.search("heron").hits


EVERY_ERROR = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.MemsyncError)
]


@pytest.mark.parametrize("kind", EVERY_ERROR)
def test_every_error_comes_back_as_itself(kind: type[errors.MemsyncError]) -> None:
    """Class, message, hint and exit code survive the way through JSON."""
    sent = json.loads(json.dumps(wire.error_message(kind("what", hint="do this"))))
    back = wire.error_of(sent)
    assert (type(back), back.message, back.hint, back.exit_code) == (kind, "what", "do this", kind.exit_code)


@pytest.mark.parametrize("name", ["", "ValueError", "annotations", "__name__", "os"])
def test_error_of_an_unknown_name_is_a_memsync_error(name: str) -> None:
    """A name from the other side is looked up among memsync's errors and nowhere else."""
    assert type(wire.error_of({"message": "what", "data": {"type": name}})) is errors.MemsyncError


class Impostor:
    """Listens on a socket and gives each connection the same bytes, whatever it asks."""

    def __init__(self, path: Path, says: bytes) -> None:
        self.path = str(path)
        self._says = says
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.path)
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        peer, _ = self._socket.accept()
        with peer:
            peer.recv(100_000)
            peer.sendall(self._says)

    def close(self) -> None:
        self._thread.join()
        self._socket.close()


OTHERS = {
    "version": {"result": {"protocol": wire.PROTOCOL, "version": "0.0.1", "process": 1, "settings": "same"}},
    "protocol": {"result": {"protocol": 1, "version": __version__, "process": 1, "settings": "same"}},
    "refusal": {"error": {"code": wire.OTHER_PROTOCOL, "message": "the daemon speaks protocol 3, not 2"}},
    "settings": {"result": {"protocol": wire.PROTOCOL, "version": __version__, "process": 1, "settings": "other"}},
}


@pytest.mark.parametrize("other", OTHERS)
def test_daemon_of_another_version_protocol_or_settings_is_asked_to_restart(
    other: str, short_runtime_folder: Path
) -> None:
    """Nothing is asked of it; DaemonUnavailable is what lets the command line work in process."""
    says = json.dumps({"jsonrpc": "2.0", "id": 1, **OTHERS[other]}).encode() + b"\n"
    impostor = Impostor(short_runtime_folder / "s", says)
    with pytest.raises(errors.DaemonUnavailable) as raised:
        RemoteMemory(impostor.path, "same")
    impostor.close()
    assert raised.value.hint == "Run: memsync daemon restart"


@pytest.mark.parametrize(
    "says", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"[]\n", b"1\n", b"{}\n", b"\xff\n", b'{"jsonrpc": "2.0"']
)
def test_whatever_else_answers_at_the_socket_is_no_daemon(says: bytes, short_runtime_folder: Path) -> None:
    """DaemonUnavailable, never a traceback: the command line goes on without."""
    impostor = Impostor(short_runtime_folder / "s", says)
    with pytest.raises(errors.DaemonUnavailable):
        RemoteMemory(impostor.path, "")
    impostor.close()


def test_refusal_at_the_greeting_means_that_there_is_no_daemon_to_use(short_runtime_folder: Path) -> None:
    """A program that knows no hello is not asked anything else."""
    impostor = Impostor(short_runtime_folder / "s", b'{"id": 1, "error": {"code": -32601, "message": "no"}}\n')
    with pytest.raises(errors.DaemonUnavailable, match="no"):
        RemoteMemory(impostor.path, "")
    impostor.close()


def test_answer_that_came_too_late_is_not_taken_for_the_next_one(served: Served, monkeypatch: Patch) -> None:
    """A question that was given up is answered all the same; the next question waits for its own answer."""
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.2)
    with served.connect() as remote:
        with pytest.raises(errors.DaemonUnavailable, match="does not answer"):
            remote.call("wait", {"generation": 2**60, "seconds": 0.5})
        remote._socket.settimeout(20)
        assert remote.get("birds.md:1").text == "# Birds"


def test_daemon_that_ends_under_a_client_is_told_as_unavailable(served: Served, remote: RemoteMemory) -> None:
    """One error, whichever call meets it."""
    served.stop()
    for _ in range(2):
        with pytest.raises(errors.DaemonUnavailable):
            remote.search("heron")


def test_daemon_that_was_restarted_is_found_again(cli: Cli, write: Write, root: Path) -> None:
    """Also with other settings, as it restarts itself when they change; a program need not notice."""
    cli.start()
    with Memory.connect(root) as remote:
        remote.log("The heron nests.")
        cli("daemon", "stop")
        for _ in range(2):
            with pytest.raises(errors.DaemonUnavailable):
                remote.search("heron")
        cli.start()
        assert remote.search("heron").hits
        write("config.toml", '[memsync]\nroot = "."\n[search]\nlimit = 7\n')
        cli("daemon", "restart")
        remote.log("The stork, too.")
        assert remote.wait(seconds=0.0) in (True, False) and remote.search("stork").hits


def test_memory_connect_gives_the_daemons_memory(served: Served, monkeypatch: Patch) -> None:
    """The public way in; without a daemon it says so."""
    with Memory.connect(served.settings.root) as remote:
        assert remote.search("heron").hits[0].path == "birds.md"
        remote.shutdown()
    served.stop()
    with pytest.raises(errors.DaemonUnavailable, match="no daemon is running"):
        Memory.connect(served.settings.root)


@pytest.mark.parametrize(("at", "is_patient"), [("", False), ("main", True)])
def test_only_a_question_about_a_commit_may_take_long(
    at: str, is_patient: bool, remote: RemoteMemory, monkeypatch: Patch
) -> None:
    """Its state may have to be made; a daemon that hangs holds up no other search."""
    seen: list[float | None] = []

    def patient(seconds: float | None) -> AbstractContextManager[None]:
        seen.append(seconds)
        return nullcontext()

    monkeypatch.setattr(remote, "patient", patient)
    with suppress(errors.UsageError):  # there is no repository
        remote.search("heron", at=at)
    assert [seconds is not None for seconds in seen] == [is_patient]
