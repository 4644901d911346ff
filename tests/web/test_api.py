"""The API: each operation by POST, what only reads also by GET, errors as problem documents, and its description."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from starlette.testclient import TestClient

from memsync import errors
from memsync.errors import MemsyncError
from memsync.memory import Memory
from memsync.model.json import to_json
from memsync.web import site as site_module
from memsync.web.api import offered
from memsync.web.app import make_app
from memsync.web.problems import MEANINGS, PROBLEM
from memsync.web.site import Site, public_url_of
from tests.support.repository import SPRING, Repository
from tests.web.conftest import URL, Failing

OPERATIONS = offered()
READING = [name for name, operation in OPERATIONS.items() if not operation.writes]
THREAD = "---\nstatus: active\n---\n# Bridge\n\n## 2026-11-20 10:00 user\n\nDoes the heron fish there?\n"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "search": {"query": "heron"}, "answer_request": {"request": '{"query": "heron"}'},
    "check_text": {"note": "birds.md", "text": "x"},
    "embed_question": {"query": "heron"}, "get": {"location": "birds.md"}, "links": {"note": "birds.md"},
    "context": {"query": "heron"}, "thread": {"thread": "bridge"},
    "read_note": {"path": "threads/bridge.md"}, "read_thread": {"thread": "bridge"},
    "neighbours": {"path": "threads/bridge.md", "start_line": 6, "end_line": 8}, "messages": {"role": "user"},
    "history": {"location": "birds.md:3"}, "blame": {"location": "birds.md:3"}, "diff": {"before": "main"},
    "digest": {"since": "main"},
}  # fmt: skip
"""The arguments that the operations need, as texts of a query."""
PASSING = {"seconds", "generation", "scanned_at", "timings_ms", "since", "counted_since", "last_sync", "index_bytes"}
"""Members whose value depends on when the operation ran."""
ERRORS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, MemsyncError)]


def lasting(value: Any) -> Any:
    """Return a JSON value without PASSING."""
    if isinstance(value, dict):
        return {name: lasting(item) for name, item in value.items() if name not in PASSING}
    return [lasting(item) for item in value] if isinstance(value, list) else value


@contextmanager
def serving(site: Site, client: TestClient) -> Iterator[TestClient]:
    """Open a client of another site, with the token and what else `client` sends."""
    with TestClient(make_app(site), base_url=URL, headers=dict(client.headers)) as other:
        yield other


def problem(response: Any) -> dict[str, Any]:
    """Return the problem document of an answer."""
    assert response.headers["content-type"] == PROBLEM
    document: dict[str, Any] = response.json()
    assert document["status"] == response.status_code
    return document


# ------------------------------------------------------------------------------------------- operations


@pytest.mark.parametrize("name", [name for name in READING if name not in ("stats", "stale", "proposal")])
def test_what_reads_answers_get_as_the_memory_does(name: str, client: TestClient, memory: Memory, root: Path) -> None:
    """The document is that of the operation's result, as the daemon sends it and --json prints it."""
    (root / "threads").mkdir()
    (root / "threads" / "bridge.md").write_text(THREAD)
    repository = Repository(root)
    repository.git("init", "-q")
    repository.commit(SPRING)
    memory.sync()
    operation, given = OPERATIONS[name], ARGUMENTS.get(name, {})
    answer = client.get(f"/v1/{name}", params=given)
    assert answer.status_code == 200, answer.text
    arguments = operation.arguments_from({"request": {"query": "heron"}} if name == "answer_request" else given)
    assert lasting(answer.json()) == lasting(to_json(memory.run(operation, **arguments)))


@pytest.mark.parametrize("name", ["stats", "stale"])
def test_what_counts_use_answers_get(name: str, client: TestClient) -> None:
    """Its answer changes with each search, so that only its form is compared."""
    assert client.get(f"/v1/{name}").json().keys() == client.post(f"/v1/{name}").json().keys()


@pytest.mark.smoke
def test_post_takes_the_arguments_as_an_object(client: TestClient) -> None:
    """An operation that needs none takes an empty body, too."""
    hits = client.post("/v1/search", json={"query": "heron", "limit": 1}).json()["hits"]
    assert len(hits) == 1 and hits[0]["citation"].startswith(("birds.md", "daily/"))
    assert client.post("/v1/status").json()["notes"] == 2


def test_what_writes_writes(client: TestClient, root: Path) -> None:
    """POST /v1/log appends to today's log."""
    written = client.post("/v1/log", json={"text": "chose SQLite", "tags": ["store"]}).json()
    assert "chose SQLite #store" in (root / written["path"]).read_text()


def test_query_has_values_of_each_type(client: TestClient) -> None:
    """Numbers, true and false, and a name repeated for a list."""
    query = "query=heron&limit=1&min_score=0&archived=true&kind=daily&kind=note"
    filters = client.get(f"/v1/search?{query}").json()["explain"]["filters"]
    assert filters["kinds"] == ["daily", "note"]


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("limit=1", "search needs query"),
        ("query=a&limit=many", "limit must be a whole number from 1 to 1,000"),
        ("query=a&limit=1&limit=2", "limit is given 2 times"),
        ("query=a&limt=1", "search has no parameter limt"),
        ("query=a&archived=perhaps", "archived must be true or false"),
    ],
)
def test_wrong_argument_is_named(query: str, detail: str, client: TestClient) -> None:
    """As on the command line, with what to do."""
    document = problem(client.get(f"/v1/search?{query}"))
    assert detail in document["detail"] and document["hint"]
    assert (document["status"], document["exit_code"]) == (400, 2)


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'"a"', b"\xff", b"[" * 100_000, b'{"limit": NaN}', b'{"limit": 1e999}', b"1" * 5_000]
)
def test_body_that_is_no_object_is_refused(body: bytes, client: TestClient) -> None:
    """Also one that is nested too deeply to be read."""
    assert problem(client.post("/v1/search", content=body))["detail"].startswith("the body is not ")


def test_unknown_operation_lists_the_nearest(client: TestClient) -> None:
    """What only this process could do is unknown, too."""
    document = problem(client.get("/v1/serch"))
    assert (document["status"], document["hint"]) == (404, "Did you mean search?")
    assert {client.post(f"/v1/{name}").status_code for name in ("rebuild", "forget", "hello")} == {404}


@pytest.mark.parametrize("path", ["/v1/log?text=a", "/v1/contradictions?dismiss=1a2b3c4d"])
def test_get_writes_nothing(path: str, client: TestClient) -> None:
    """A link must not write, not even with a parameter of an operation that otherwise reads."""
    answer = client.get(path)
    assert (problem(answer)["status"], answer.headers["allow"]) == (405, "POST")


def test_server_that_only_reads_refuses_what_writes(client: TestClient, site: Site) -> None:
    """Its description leaves that out."""
    with serving(replace(site, is_read_only=True), client) as reading:
        assert problem(reading.post("/v1/log", json={"text": "a"}))["status"] == 403
        assert problem(reading.post("/v1/contradictions", json={"dismiss": ["1a"]}))["status"] == 403
        assert reading.post("/v1/contradictions").status_code == 200
        paths = reading.get("/openapi.json").json()["paths"]
        assert "/v1/log" not in paths and "post" in paths["/v1/search"]


# ----------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_each_error_is_a_problem(kind: type[MemsyncError], client: TestClient, site: Site) -> None:
    """With the exit code that the command would have, and a status of HTTP that says whose fault it is."""
    broken = Failing(kind("it failed\u202e", hint="Do this."))
    with serving(replace(site, open=lambda: nullcontext(broken)), client) as other:
        document = problem(other.get("/v1/status"))
    status, title = next(MEANINGS[base] for base in kind.__mro__ if base in MEANINGS)
    assert document == {
        "type": f"urn:memsync:error:{kind.__name__}", "title": title, "status": status, "detail": "it failed\\u202e",
        "hint": "Do this.", "exit_code": kind.exit_code,
    }  # fmt: skip


def test_unexpected_error_says_nothing_of_a_note(
    client: TestClient, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says where it happened; its message may quote a note, so nothing repeats it."""
    with serving(replace(site, open=lambda: nullcontext(Failing(KeyError("my secret")))), client) as other:
        document = problem(other.get("/v1/status"))
    assert (document["status"], document["detail"]) == (500, "status failed (KeyError)")
    assert "secret" not in caplog.text and "conftest.py" in caplog.text


def test_operation_that_takes_too_long_goes_on(client: TestClient, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client gets an answer in time; what was begun is finished."""
    may_end, has_ended = threading.Event(), threading.Event()

    class Slow:
        def run(self, *_: Any, **__: Any) -> Any:
            may_end.wait()
            has_ended.set()

    monkeypatch.setattr(site_module, "ANSWER_SECONDS", 1.0)
    with serving(replace(site, open=lambda: nullcontext(Slow())), client) as other:
        document = problem(other.get("/v1/status"))
        assert document["status"] == 504 and "It goes on" in document["hint"]
        may_end.set()
        assert has_ended.wait(60)


def test_body_that_is_too_large_is_refused(client: TestClient) -> None:
    """Whether its length is announced or not."""
    large = b'{"text": "' + b"a" * 16_000_000 + b'"}'
    announced = client.post("/v1/log", content=large)
    assert (announced.status_code, problem(announced)["status"]) == (413, 413)
    assert client.post("/v1/log", content=iter([large[:500_000], large[500_000:]])).status_code == 413


# ------------------------------------------------------------------------------------------ description


def references(value: Any) -> Iterator[str]:
    """Yield each reference in a JSON value."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from [item] if name == "$ref" else references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def test_description_is_whole(client: TestClient) -> None:
    """Each operation is in it, each reference leads somewhere, each schema is one, each id is there once."""
    document = client.get("/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    assert set(document["paths"]) == {*(f"/v1/{name}" for name in OPERATIONS), "/health"}
    assert {path for path, methods in document["paths"].items() if "get" in methods} == {
        *(f"/v1/{name}" for name in READING),
        "/health",
    }
    for reference in set(references(document)):
        _, *steps = reference.split("/")
        place = document
        for step in steps:
            place = place[step]
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    methods = [method for path in document["paths"].values() for method in path.values()]
    assert len({method["operationId"] for method in methods}) == len(methods)
    assert document["components"]["schemas"]["Proposal"]["properties"]["number"] == {"type": "integer"}
    assert all("401" in method["responses"] for method in methods)
    assert "dismiss" not in {given["name"] for given in document["paths"]["/v1/contradictions"]["get"]["parameters"]}


@pytest.mark.parametrize("name", ["search", "status", "notes", "stats", "links", "patterns", "context"])
def test_answers_are_as_described(name: str, client: TestClient) -> None:
    """A client made from the description reads them; so are problems."""
    document = client.get("/openapi.json").json()
    method = document["paths"][f"/v1/{name}"]["post"]
    schema = method["responses"]["200"]["content"]["application/json"]["schema"]
    whole = {"components": document["components"]}
    answer = client.post(f"/v1/{name}", json=ARGUMENTS.get(name, {}))
    Draft202012Validator({**schema, **whole}).validate(answer.json())
    given = method["requestBody"]["content"]["application/json"]["schema"]
    Draft202012Validator({**given, **whole}).validate(ARGUMENTS.get(name, {}))
    reference = {"$ref": "#/components/schemas/Problem", **whole}
    Draft202012Validator(reference).validate(client.post(f"/v1/{name}", json={"no such": 1}).json())


def test_unknown_path_is_a_problem_for_programs_and_a_page_for_browsers(client: TestClient) -> None:
    """Both say what was not found."""
    assert problem(client.get("/nothing"))["detail"] == "'/nothing': Not Found"
    page = client.get("/nothing", headers={"Accept": "text/html,*/*"})
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")


# ------------------------------------------------------------------------------------------- public URL


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("", ""),
        ("https://Notes.example.org/", "https://notes.example.org"),
        ("https://notes.example.org:443", "https://notes.example.org"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_public_url_is_as_browsers_write_it(text: str, url: str) -> None:
    """In small letters, without the usual port and without a path."""
    assert public_url_of(text) == url


@pytest.mark.parametrize(
    "text", ["notes.example.org", "https://a/b", "ftp://a", "https://me@a", "https://a?b", "https://"]
)
def test_public_url_that_is_none_is_refused(text: str) -> None:
    """A path would not be part of an Origin."""
    with pytest.raises(errors.UsageError, match="is not the URL of a site"):
        public_url_of(text)
