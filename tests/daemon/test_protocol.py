"""Every method of the daemon's protocol, asked as any client would: a line in, a line out."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from memsync import errors
from memsync.daemon.methods import method_names
from memsync.memory import Memory
from tests.conftest import Patch, Write
from tests.support.daemon_fixtures import Held, Served
from tests.support.repository import SPRING, Repository

REQUESTS: dict[str, dict[str, object]] = {
    "hello": {"protocol": 2, "version": "any"}, "search": {"query": "heron"}, "get": {"location": "birds.md:5"},
    "answer_request": {"request": {"query": "heron"}}, "embed_question": {"query": "heron"}, "status": {}, "web": {},
    "sync": {}, "wait": {}, "command": {"arguments": ["get", "birds.md:5"]},
    "hook": {"event": "prompt", "agent": "claude-code"}, "delivered": {"receipt": ""}, "shutdown": {},
    "note_session": {"session": "s1", "agent": "codex", "day": "2026-11-20", "time": "10:02", "lines": ["asked: why"]},
    "log": {"text": "The stork clatters."}, "remember": {"text": "prefers tabs"}, "new_note": {"path": "new"},
    "overwritten": {}, "recover": {"ids": []}, "dismiss": {"ids": []}, "preferences": {},
    "set_preference": {"key": "language", "value": "German"}, "patterns": {}, "observe": {"text": "prefers tabs"},
    "new_thread": {"title": "The store"}, "append_message": {"thread": "talk", "role": "user", "text": "Which store?"},
    "set_thread_status": {"thread": "talk", "status": "paused"}, "thread": {"thread": "talk"}, "threads": {},
    "sessions": {}, "costs": {}, "messages": {"role": "agent"},
    "neighbours": {"path": "threads/talk.md", "start_line": 1}, "context": {}, "prune": {}, "undo_prune": {},
    "contradictions": {},
    "check": {}, "check_text": {"note": "birds.md", "text": "[[nowhere]]"}, "names": {},
    "links": {"note": "birds.md"}, "move": {"old": "birds.md", "new": "herons.md"},
    "undo_move": {}, "curate": {}, "propose": {"text": "The heron nests here.", "sources": ["old.md:3"]},
    "proposals": {}, "proposal": {"number": 1}, "accept": {"number": 1}, "reject": {"number": 1},
    "edit_proposal": {"number": 1, "text": "The heron nests there."}, "undo_accept": {}, "duplicates": {}, "stale": {},
    "notes": {}, "collections": {}, "stats": {}, "logged": {}, "history": {"location": "birds.md:5"},
    "blame": {"location": "birds.md:5"}, "diff": {"before": "main"}, "digest": {"since": "main"},
    "share": {"stop": True}, "read_note": {"path": "birds.md"}, "write_note": {"path": "new.md", "text": "The stork."},
    "delete_note": {"path": "old.md"}, "read_thread": {"thread": "talk"},
    "truncate_thread": {"thread": "talk", "keep": 0},
    "append_messages": {"thread": "id:s1", "messages": [{"role": "user", "text": "Which store?"}]},
}  # fmt: skip


@pytest.mark.parametrize("method", method_names())
def test_every_result_says_how_fresh_it_is(method: str, served: Served, write: Callable[[str, str], Path]) -> None:
    """No method is left out, and freshness has the same members everywhere."""
    write("threads/talk.md", "## user\n\nWhich store?\n")
    if method == "undo_prune":
        write("old.md", "---\nexpires: 2020-01-01\n---\nOver.\n")
        served.memory.prune(apply=True, force=True)
    if method in ("history", "blame", "diff", "digest"):
        repository = Repository(served.settings.root)
        repository.git("init", "-q")
        repository.commit(SPRING)
    if method == "undo_move":
        served.memory.move("birds.md", "herons.md")
    write("old.md", "# Old\n\nThe heron nests here, says the old note.\n")
    if method in ("proposal", "accept", "reject", "edit_proposal", "undo_accept"):
        served.memory.propose("The heron nests here.", ("old.md:3",))
    if method == "undo_accept":
        served.memory.accept(1)
    with served.peer() as peer:
        freshness = peer.result(method, **REQUESTS[method])["freshness"]
    expected = {"scanned_at", "pending_text", "pending_vectors", "watcher", "reason", "generation", "stale"}
    assert freshness.keys() == expected
    assert (freshness["watcher"], freshness["reason"], freshness["stale"]) == ("live", "", False)


def test_sync_sends_progress_with_its_own_id_before_its_result(served: Served, write: Write) -> None:
    """Only to whoever asks for it, and in order."""
    for number in range(20):
        write(f"many/{number}.md", f"Note {number} of many.\n")
    with served.peer() as peer:
        peer.send('{"id": "mine", "method": "sync", "params": {"progress": true}}\n')
        told = []
        while "result" not in (message := peer.line()):
            told.append(message)
        peer.send('{"id": 2, "method": "sync", "params": {}}\n')
        assert peer.line()["id"] == 2
    assert {(message["method"], message["params"]["id"]) for message in told} == {("progress", "mine")}
    last = told[-1]["params"]
    assert (last["done"], last["what"]) == (last["total"], "computing vectors")


def test_wait_returns_once_the_generation_is_reached(served: Served, write: Write) -> None:
    """It is answered by the commit that reaches the generation, not before."""
    with served.peer() as waiting, served.peer() as peer:
        before = peer.result("status")["freshness"]["generation"]
        waiting.send(f'{{"id": 1, "method": "wait", "params": {{"generation": {before + 1}, "seconds": 20}}}}\n')
        write("new.md", "The bittern booms.\n")
        peer.result("search", query="bittern")
        answer = waiting.line()["result"]
    assert answer["reached"] is True
    assert answer["freshness"]["generation"] > before


def test_wait_for_vectors_waits_for_the_model(served: Served, write: Write, held: Held) -> None:
    """While a text waits for its vector the answer is no; once the model has answered it is yes."""
    write("new.md", "The bittern booms.\n")
    with served.peer() as peer:
        peer.result("search", query="bittern", mode="keyword")
        assert peer.result("wait", vectors=True, seconds=0.05)["reached"] is False
        assert peer.result("wait", seconds=0)["reached"] is True
        served.watcher.on_path("new.md")
        held.goes_on.set()
        answer = peer.result("wait", vectors=True, seconds=20)
    assert answer["reached"] is True
    assert answer["freshness"]["pending_vectors"] == 0


def test_wait_for_vectors_waits_for_what_was_reported_too(served: Served, write: Write, monkeypatch: Patch) -> None:
    """A change that the watcher knows of is waited for, though nothing of it is known to be pending yet."""
    goes_on = threading.Event()
    step = served.engine.keeper.step

    def held_back() -> float:
        assert goes_on.wait(120)
        return step()

    monkeypatch.setattr(served.engine.keeper, "step", held_back)
    try:
        with served.peer() as peer:
            write("new.md", "The bittern booms.\n")
            served.watcher.on_path("new.md")
            assert peer.result("wait", vectors=True, seconds=0.05)["reached"] is False
            goes_on.set()
            assert peer.result("wait", vectors=True, seconds=20)["reached"] is True
            found = peer.result("search", query='"bittern"', fresh="none")
    finally:
        goes_on.set()
    assert [hit["path"] for hit in found["hits"]] == ["new.md"]


def test_other_protocol_is_refused_by_name(served: Served) -> None:
    """A code of its own, and what to do."""
    with served.peer() as peer:
        error = peer.ask("hello", protocol=1)["error"]
        assert (error["code"], error["data"]["hint"]) == (-32001, "Run: memsync daemon restart")
        assert peer.result("hello", protocol=2)["protocol"] == 2


def test_unexpected_error_tells_neither_peer_nor_log_what_a_note_says(
    served: Served, memory: Memory, monkeypatch: Patch, caplog: pytest.LogCaptureFixture
) -> None:
    """Type and place only: the message of an error may quote anything."""

    def fail(*_: object) -> None:
        raise ValueError("the heron nests in the alder")

    monkeypatch.setattr("memsync.search.excerpt.read_excerpt", fail)
    with caplog.at_level(logging.DEBUG, logger="memsync"), served.peer() as peer:
        answer = peer.ask("get", location="birds.md")
    assert answer["error"]["code"] == -32603
    assert "ValueError" in answer["error"]["message"]
    assert "heron" not in json.dumps(answer)
    assert "ValueError < test_protocol.py:" in caplog.text
    assert "heron" not in caplog.text


def test_what_needs_no_index_is_answered_while_it_cannot_be_read(served: Served, monkeypatch: Patch) -> None:
    """Freshness is null then, and the rest is true; what needs the index fails with the reason."""

    def fail() -> None:
        raise errors.IndexDamaged("the index is broken", hint="It is rebuilt.")

    monkeypatch.setattr(served.engine, "freshness", fail)
    with served.peer() as peer:
        assert peer.result("get", location="birds.md:5")["freshness"] is None
        assert peer.result("hello")["freshness"] is None
        assert peer.ask("wait")["error"]["data"]["type"] == "IndexDamaged"
