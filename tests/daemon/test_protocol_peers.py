"""Peers that are slow, greedy, rude or many: each is answered or told why not, and nobody else is held up."""

from __future__ import annotations

import json
import os
import socket
import threading
from contextlib import ExitStack, suppress

import pytest

from memsync.client import wire
from memsync.daemon import peer as peer_module
from memsync.daemon import server
from tests.conftest import Patch, Write
from tests.support.daemon_fixtures import PATIENCE_SECONDS, Peer, Served, wait_until

HELLO = b'{"id": 1, "method": "hello"}\n'


def padded(length: int) -> bytes:
    """Return a request of exactly so many bytes, without its line end."""
    head, tail = b'{"id": 1, "method": "hello", "pad": "', b'"}'
    return head + b"x" * (length - len(head) - len(tail)) + tail


def test_request_of_the_largest_size_is_answered(served: Served) -> None:
    """The limit itself is allowed."""
    with served.peer() as peer:
        peer.send(padded(wire.MAX_REQUEST_BYTES) + b"\n")
        assert "result" in peer.line()


@pytest.mark.parametrize("end", [b"\n", b"", b"\n" + HELLO], ids=["whole", "unfinished", "followed"])
def test_request_over_that_size_is_told_so_and_hung_up_on(end: bytes, served: Served) -> None:
    """With its line end or without; what came before it is answered first, what comes after it is not read."""
    with served.peer() as peer:
        peer.send(HELLO + padded(wire.MAX_REQUEST_BYTES + 1) + end)
        assert "result" in peer.line()
        answer = peer.line()
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
        assert "16,000,000 bytes" in answer["error"]["message"]
        assert peer.is_hung_up_on()
    with served.peer() as other:
        assert other.result("hello")


def test_half_a_request_is_cut_off_after_a_while(served: Served, monkeypatch: Patch) -> None:
    """The error says that it did not arrive in time; what came before it was answered."""
    monkeypatch.setattr(peer_module, "SLOW_SECONDS", 0.2)
    with served.peer() as peer:
        peer.send(HELLO + b'{"id": 2, "meth')
        assert peer.line()["id"] == 1
        answer = peer.line()
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
        assert "did not arrive within 0.2 s" in answer["error"]["message"]
        assert peer.is_hung_up_on()


def test_a_byte_now_and_then_gives_a_request_no_more_time(served: Served, monkeypatch: Patch) -> None:
    """The time counts from the first byte of a request, not from the last."""
    monkeypatch.setattr(peer_module, "SLOW_SECONDS", 0.3)
    with served.peer() as peer:
        told = threading.Event()

        def drip() -> None:
            while not told.wait(0.02):
                try:
                    peer.send(b" ")
                except OSError:
                    return

        peer.send(b"{")
        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            assert "did not arrive" in peer.line()["error"]["message"]
        finally:
            told.set()
            dripping.join()


def test_idle_peer_is_not_cut_off(served: Served, monkeypatch: Patch) -> None:
    """Only half a request is under way; an open connection may be silent."""
    monkeypatch.setattr(peer_module, "SLOW_SECONDS", 0.05)
    with served.peer() as peer, served.peer() as slow:
        peer.result("hello")
        slow.send(b"{")
        assert "error" in slow.line()  # so much time has passed
        assert peer.result("hello")


def test_half_a_request_is_not_late_while_the_daemon_itself_does_not_read(served: Served, monkeypatch: Patch) -> None:
    """With many requests waiting nothing is read, and the rest of the last one may lie in the socket."""
    monkeypatch.setattr(peer_module, "SLOW_SECONDS", 0.2)
    with served.peer() as peer:
        wait = b'{"id": 1, "method": "wait", "params": {"generation": 9007199254740993, "seconds": 0.3}}\n'
        peer.send(wait * 2 + b'{"id": 3, "me')
        assert [peer.line()["result"]["reached"] for _ in range(2)] == [False, False]
        peer.send(b'thod": "hello"}\n')
        assert peer.line()["id"] == 3


def test_half_closed_peer_gets_every_answer(served: Served) -> None:
    """Who stops sending still reads; a last request needs no line end."""
    with served.peer() as peer:
        peer.send(b'{"id": 1, "method": "sync"}\n{"id": 2, "method": "search", "params": {"query": "heron"}}')
        peer.socket.shutdown(socket.SHUT_WR)
        assert [peer.line()["id"] for _ in range(2)] == [1, 2]
        assert peer.is_hung_up_on()


def test_silent_peer_that_ends_is_forgotten(served: Served) -> None:
    """Connections that come and go leave nothing behind."""
    for _ in range(3):
        served.peer().close()
    with served.peer() as peer:
        assert peer.result("hello")  # they come in order: the silent ones have been let in too
        peer.send(b"{")
    wait_until(lambda: served.peers() == 0, "every peer is forgotten")


def test_peer_that_never_reads_is_cut_off_and_holds_nobody_up(served: Served, write: Write, monkeypatch: Patch) -> None:
    """Its answers pile up to a bound; another one is answered meanwhile."""
    monkeypatch.setattr(peer_module, "SLOW_SECONDS", 1.0)
    write("long.md", "The bittern booms.\n" * 20_000)
    with served.peer() as greedy, served.peer() as other:
        request = b'{"id": 1, "method": "get", "params": {"location": "long.md"}}\n'
        greedy.send(request * 10)
        for _ in range(5):
            assert other.result("search", query="heron")["hits"]
        wait_until(lambda: served.peers() == 1, "the greedy peer is cut off")


def test_progress_is_not_kept_for_a_peer_that_does_not_read_it(served: Served) -> None:
    """What waits for the peer does not grow; its answers come once it reads."""
    with served.peer() as peer:
        peer.result("hello")
        assert served.server is not None
        (connection,) = served.server._peers
        waiting: list[int] = []

        def flood() -> None:
            for number in range(10_000):
                connection.notify({"method": "progress", "params": {"id": 1, "what": "x" * 1_000, "done": number}})
            waiting.append(connection._transport.get_write_buffer_size())

        served.on_loop(flood)
        assert waiting[0] < 10_000
        message = peer.ask("get", location="birds.md")
        while message.get("method") == "progress":
            message = peer.line()
        assert message["result"]


@pytest.mark.parametrize("half_closed", [False, True])
def test_peer_that_hangs_up_in_mid_wait_is_no_longer_waited_for(half_closed: bool, served: Served) -> None:
    """Nothing goes on for ten minutes for somebody who left; who only stopped sending has not left."""
    with served.peer() as peer:
        peer.send(b'{"id": 1, "method": "wait", "params": {"generation": 9007199254740993, "seconds": 600}}\n')
        wait_until(lambda: served.engine._in_use > 0, "the wait has begun")
        if half_closed:
            assert served.server is not None
            (found,) = served.server._peers
            peer.socket.shutdown(socket.SHUT_WR)
            wait_until(found._reader.at_eof, "the daemon knows that nothing more comes")
            assert served.engine._in_use > 0
    wait_until(lambda: served.engine._in_use == 0 and served.peers() == 0, "nobody waits")


def test_many_peers_at_once_each_get_the_answer_to_their_own_question(served: Served, write: Write) -> None:
    """64 clients, several requests each, none mixed up, none in another order."""
    for number in range(64):
        write(f"people/{number}.md", f"Person number{number} keeps the key{number}.\n")
    served.memory.sync()
    begin = threading.Barrier(64)
    answers: dict[int, list[tuple[object, str]]] = {}

    def ask(number: int) -> None:
        with served.peer() as peer:
            begin.wait()
            for turn in range(3):
                query = {"query": f'"number{number}"', "mode": "keyword"}
                request = {"id": f"{number}/{turn}", "method": "search", "params": query}
                peer.send(json.dumps(request) + "\n")
            found = [peer.line() for _ in range(3)]
            answers[number] = [(reply["id"], reply["result"]["answer"]["hits"][0]["path"]) for reply in found]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {number: [(f"{number}/{turn}", f"people/{number}.md") for turn in range(3)] for number in range(64)}
    assert answers == expected


def test_long_requests_of_many_peers_hold_no_short_one_up(served: Served, monkeypatch: Patch) -> None:
    """Whoever waits for a state of the index, in a wait or in a search, does not keep the others from asking."""
    reached = threading.Event()

    def awaited(generation: int) -> list[str]:
        return [] if not generation or reached.wait(PATIENCE_SECONDS) else ["in vain"]

    monkeypatch.setattr(served.memory.fresh_search, "_await_generation", awaited)
    later = {"generation": 2**60}
    with ExitStack() as stack:
        stack.callback(reached.set)
        waiting = [stack.enter_context(served.peer()) for _ in range(20)]
        for peer in waiting[:10]:
            peer.send(json.dumps({"id": 1, "method": "wait", "params": {**later, "seconds": 60}}) + "\n")
        for peer in waiting[10:]:
            peer.send(json.dumps({"id": 1, "method": "search", "params": {**later, "query": "heron"}}) + "\n")
        wait_until(lambda: served.engine._in_use >= 20, "all of them wait")
        with served.peer() as other:
            assert other.result("search", query="heron")["hits"]
        reached.set()
        assert all(peer.line()["result"]["answer"]["warnings"] == [] for peer in waiting[10:])


def test_one_peer_too_many_is_told_so(served: Served, monkeypatch: Patch) -> None:
    """There is room again once another has gone."""
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 2)
    with served.peer() as one, served.peer() as two:
        assert one.result("hello") and two.result("hello")
        with served.peer() as three:
            assert "more than 2 connections" in three.line()["error"]["message"]
            assert three.is_hung_up_on()
        wait_until(lambda: served.peers() == 2, "the third is forgotten")
        two.close()
        wait_until(lambda: served.peers() == 1, "the second is forgotten")
        with served.peer() as four:
            assert four.result("hello")


def test_another_user_is_refused(served: Served, monkeypatch: Patch) -> None:
    """The kernel says whose process it is; one that is not ours gets no answer, and the next one of ours does."""
    own = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: own + 1)
    with served.peer() as peer:
        assert is_refused(peer)
    monkeypatch.setattr(os, "getuid", lambda: own)
    with served.peer() as peer:
        assert peer.result("hello")


def is_refused(peer: Peer) -> bool:
    """Tell whether a peer is hung up on without a word."""
    with suppress(BrokenPipeError):
        peer.send(HELLO)
    return peer.is_hung_up_on()
