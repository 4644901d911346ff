"""What becomes of requests when the daemon ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from memsync.daemon import server
from tests.conftest import Write
from tests.support.daemon_fixtures import Held, Served, wait_until


def test_shutdown_is_answered_and_then_the_daemon_ends(served: Served) -> None:
    """The reply comes before the end, the socket file goes, and every other peer is hung up on."""
    with served.peer() as other, served.peer() as peer:
        assert peer.result("shutdown")["stopping"] is True
        assert peer.is_hung_up_on()
        assert other.is_hung_up_on()
    assert served.stopped_by_request.is_set()
    wait_until(lambda: not served.is_serving(), "the end of the server")
    assert not Path(served.path).exists()


def test_whoever_waits_when_the_daemon_ends_is_told_so(served: Served) -> None:
    """A wait, and what was asked after it, end in the error that says that the daemon is stopping."""
    with served.peer() as waiting, served.peer() as peer:
        waiting.send('{"id": 1, "method": "wait", "params": {"generation": 1152921504606846976, "seconds": 60}}\n')
        waiting.send('{"id": 2, "method": "get", "params": {"location": "birds.md"}}\n')
        peer.result("hello")
        peer.result("shutdown")
        assert [waiting.line()["error"]["code"] for _ in range(2)] == [-32002, -32002]
        assert waiting.is_hung_up_on()


def test_half_a_request_is_no_request_when_the_daemon_ends(served: Served) -> None:
    """Its sender did not get to finish it: it is hung up on, and not told of an error of its own."""
    with served.peer() as sending, served.peer() as peer:
        sending.send('{"id": 1, "method": "hello"}\n{"id": 2, "meth')
        assert sending.line()["id"] == 1
        peer.result("shutdown")
        assert sending.is_hung_up_on()


def test_sync_under_way_when_the_daemon_ends_is_told_so(
    served: Served, write: Write, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not finished first: what it has committed stays, and the next start goes on."""
    monkeypatch.setattr(server, "STOP_SECONDS", 20.0)
    write("new.md", "The bittern booms.\n")
    with served.peer() as syncing, served.peer() as peer:
        syncing.send('{"id": 1, "method": "sync"}\n')
        assert held.begun.wait(120)
        peer.result("shutdown")
        wait_until(lambda: not Path(served.path).exists(), "the daemon ends")
        held.goes_on.set()
        assert syncing.line()["error"]["code"] == -32002
