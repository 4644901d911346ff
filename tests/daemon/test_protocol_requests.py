"""Whatever a line holds, it is answered with a result or an error that says what is wrong, and the next one is too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memsync.errors import NoteError, UsageError
from tests.support.daemon_fixtures import Peer, Served

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602


def answered(peer: Peer, line: bytes) -> dict[str, Any]:
    """Return what a line is answered with, once it is shown that the connection still serves."""
    peer.send(line + b"\n" + b'{"id": "next", "method": "hello"}\n')
    found = peer.line()
    assert "protocol" in peer.line()["result"]
    return found


@pytest.mark.parametrize(
    "line",
    [
        b"hello", b"{", b'{"id": 1, "method": "hello"', b'{"id": 1, "method": "hello"} {}',
        b'{"id": NaN, "method": "hello"}', b'{"id": 1, "method": "wait", "params": {"seconds": Infinity}}',
        b'{"id": 1, "method": "wait", "params": {"seconds": 1e999}}',
        b'{"id": 1, "method": "wait", "params": {"seconds": %s}}' % (b"9" * 5_000), b'{"id": 1, "method": "\xff\xfe"}',
        b'\xef\xbb\xbf{"id": 1, "method": "hello"}', b"[" * 400_000, b'{"a":' * 100_000, b"\0",
    ],
    ids=lambda line: line[:30].decode(errors="replace"),
)  # fmt: skip
def test_what_is_no_json_is_a_parse_error_without_an_id(line: bytes, served: Served) -> None:
    """Text, halves, numbers that JSON does not have, broken UTF-8, nesting without end."""
    with served.peer() as peer:
        answer = answered(peer, line)
    assert (answer["id"], answer["error"]["code"]) == (None, PARSE_ERROR)


def test_parse_error_says_where_and_quotes_nothing(served: Served) -> None:
    """The line may hold what a person wrote."""
    with served.peer() as peer:
        message = answered(peer, b'{"id": 1, "secret" "heron"}')["error"]["message"]
    assert message == "the line is not JSON: Expecting ':' delimiter at character 20"


@pytest.mark.parametrize(
    "line",
    [
        b"[]", b'[{"id": 1, "method": "hello"}]', b'"hello"', b"1", b"null", b"{}", b'{"foo": "bar"}',
        b'{"id": true, "method": "hello"}', b'{"id": [1], "method": "hello"}', b'{"id": {"a": 1}, "method": "hello"}',
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused_without_an_id(line: bytes, served: Served) -> None:
    """A batch, another kind of JSON, no method, an id that none can be."""
    with served.peer() as peer:
        answer = answered(peer, line)
    assert (answer["id"], answer["error"]["code"]) == (None, INVALID_REQUEST)


@pytest.mark.parametrize("method", [b"1", b"null", b'["hello"]', b"{}"])
def test_method_of_another_type_is_refused_under_the_id_of_the_request(method: bytes, served: Served) -> None:
    """The id was sound, so the client learns which request it is about."""
    with served.peer() as peer:
        answer = answered(peer, b'{"id": 7, "method": %s}' % method)
    assert (answer["id"], answer["error"]["code"]) == (7, INVALID_REQUEST)


def test_unknown_method_is_told_the_known_ones(served: Served) -> None:
    """However long its name is, and whatever it holds."""
    with served.peer() as peer:
        for name in ("find", "_hello", "answer", "", "x" * 900_000, "\\ud800", "Search"):
            error = answered(peer, b'{"id": 1, "method": "%s"}' % name.encode())["error"]
            assert error["code"] == METHOD_NOT_FOUND
            assert len(error["message"]) < 200
            assert "search" in error["data"]["hint"]


@pytest.mark.parametrize(
    "number",
    ["0", "-1", "1.5", "1e3", "12345678901234567890123", '""', '"text"', '"\\ud800"', '"\\u0000"', '"漢字"', "null"],
)
def test_id_comes_back_as_it_was(number: str, served: Served) -> None:
    """Text, whole or broken number, null: an id is the client's business."""
    with served.peer() as peer:
        answer = answered(peer, f'{{"id": {number}, "method": "hello"}}'.encode())
    assert answer["id"] == json.loads(number)
    assert type(answer["id"]) is type(json.loads(number))
    assert "result" in answer


@pytest.mark.parametrize(
    "line",
    [
        b'{"method": "hello"}', b'{"method": "find"}', b'{"method": "get", "params": {"location": 1}}',
        b'{"method": "get", "params": [1]}', b'{"method": "get", "params": {"location": "nowhere.md"}}', b"", b"   \t ",
        b"\r",
    ],
)  # fmt: skip
def test_notification_and_empty_line_are_not_answered(line: bytes, served: Served) -> None:
    """A request without an id gets no answer, not even an error; the next line gets its own."""
    with served.peer() as peer:
        assert answered(peer, line + b'\n{"id": "first", "method": "hello"}')["id"] == "first"


def test_notification_is_carried_out(served: Served) -> None:
    """No answer does not mean that nothing is done."""
    with served.peer() as peer:
        peer.send('{"method": "shutdown"}\n')
        assert peer.is_hung_up_on()
    assert served.stopped_by_request.is_set()


def test_line_may_end_in_crlf_and_leave_out_the_version(served: Served) -> None:
    """What a terminal or a careless client sends is understood."""
    with served.peer() as peer:
        assert "result" in answered(peer, b'{"id": 1, "method": "hello"}\r')
        assert "result" in answered(peer, b'{"jsonrpc": "2.0", "id": 1, "method": "hello", "params": null}')


def test_half_a_surrogate_pair_anywhere_is_text_like_any_other(served: Served) -> None:
    """It is no Unicode, so neither SQLite nor a file's name can hold it; nothing falls over."""
    half = "\ud800"
    asked: list[tuple[str, dict[str, Any], int | None]] = [
        ("search", {"query": f"heron {half}", "tag": [half], "where": [f"{half}={half}"]}, None),
        ("search", {"query": "heron", "role": [half], "session": [half], "path": [half]}, None),
        ("search", {"query": f'{half} "{half}" -{half}'}, UsageError.exit_code),
        ("get", {"location": half}, NoteError.exit_code),
    ]
    with served.peer() as peer:
        for method, params, code in asked:
            assert peer.ask(method, **params).get("error", {}).get("code") == code, params


def test_null_is_as_if_left_out(served: Served) -> None:
    """Languages without optional members send null."""
    with served.peer() as peer:
        plain = peer.result("search", query="heron")
        nulls = dict.fromkeys(("limit", "mode", "kind", "archived", "tokens", "fresh", "generation"))
        assert peer.result("search", query="heron", **nulls)["hits"] == plain["hits"]


def test_numbers_beyond_what_is_sensible_are_taken_for_the_largest(served: Served) -> None:
    """A time is a number from 0: a large one means the longest there is."""
    with served.peer() as peer:
        assert peer.result("wait", seconds=10**300)["reached"] is True
        assert peer.result("sync", wait_seconds=1e308)["failed"] == []


def test_file_whose_name_is_no_text_is_told_of_in_json(served: Served, root: Path) -> None:
    """A file's name need not be UTF-8; what is sent always is."""
    (root / "caf\udce9.md").write_text("The bittern booms.\n")
    with served.peer() as peer:
        (failed,) = peer.result("sync")["failed"]
        assert failed["path"] in peer.result("search", query="bittern")["warnings"][0]
    assert "caf" in failed["path"]
