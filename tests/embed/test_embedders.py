"""The built-in model without a network, fastembed's others by name, and an OpenAI-compatible endpoint."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from memsync.embed import fastembed, minilm
from memsync.errors import EmbedderError, UnknownModel
from memsync.wiring import make_embedder, model_of


def test_built_in_model_answers_with_the_network_made_to_raise(root: Path) -> None:
    """A search embeds with every function that could open a connection raising."""
    (root / "a.md").write_text("Oscar is our guinea pig.\n")
    code = """
import socket, sys
def refuse(*_, **__):
    raise AssertionError("network used")
socket.socket.connect = socket.socket.connect_ex = socket.socket.sendto = refuse
socket.create_connection = socket.getaddrinfo = socket.gethostbyname = refuse
from memsync import Memory
with Memory.open(sys.argv[1]) as memory:
    memory.sync()
    hit = memory.search("which small animal lives with us", mode="vector").hits[0]
    print(hit.citation, sorted(hit.ranks))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(root)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.stderr) == ("a.md:1 ['vector']\n", "")


def test_a_vector_depends_on_its_text_alone() -> None:
    """Whatever stands beside it in the call, bit for bit: the index is a pure function of files and model."""
    embedder = make_embedder("minilm")
    alone = embedder.embed_passages(["The heron nests."])[0]
    beside = embedder.embed_passages(["x " * 300, "The heron nests.", "other"])[1]
    assert alone.tobytes() == beside.tobytes()
    assert alone.shape == (embedder.space.dimension,)
    assert float(np.linalg.norm(alone)) == pytest.approx(1.0, abs=1e-5)


def test_model_revision_is_the_artefacts_digest() -> None:
    """Another model file is another space."""
    digest = hashlib.sha256((minilm.FOLDER / "model.onnx").read_bytes()).hexdigest()
    assert minilm.SPACE.revision == f"int8-{digest[:12]}"
    assert "digests.py" in (minilm.FOLDER / "PROVENANCE.md").read_text()
    assert "Apache License" in (minilm.FOLDER / "LICENSE").read_text()


def test_tokenizer_has_no_padding_and_is_cut_where_the_model_ends() -> None:
    """Fixed padding would make every text cost 128 pieces."""
    tokenizer = json.loads((minilm.FOLDER / "tokenizer.json").read_text())
    assert tokenizer["padding"] is None
    assert tokenizer["truncation"]["max_length"] == minilm.MAX_TOKENS + 2
    assert minilm.WordPieceCounter().count(["unbelievable", "", "a " * 1000]) == [1, 0, 1000]


def test_missing_model_file_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An incomplete installation is named as such."""
    monkeypatch.setattr(minilm, "FOLDER", tmp_path)
    with pytest.raises(EmbedderError, match="missing") as caught:
        make_embedder("minilm")
    assert "Reinstall" in caught.value.hint


def test_other_models_carry_their_prefixes() -> None:
    """A model that was trained with prefixes gets them, and they are part of its space."""
    space = make_embedder("baai/bge-small-en-v1.5").space
    assert (space.model, space.dimension) == ("BAAI/bge-small-en-v1.5", 384)
    assert space.query_prefix.startswith("Represent this sentence")
    e5 = make_embedder("intfloat/multilingual-e5-large").space
    assert (e5.query_prefix, e5.passage_prefix) == ("query: ", "passage: ")
    assert model_of(e5) == "intfloat/multilingual-e5-large"


def test_every_model_said_to_need_prefixes_has_them() -> None:
    """The list of fastembed is the reference: a model added there must not be used without."""
    from fastembed import TextEmbedding

    for model in TextEmbedding.list_supported_models():
        if "Prefixes for queries/documents: necessary" in model["description"]:
            assert any(model["model"].startswith(start) for start in fastembed.PREFIXES), model["model"]


def test_unknown_model_is_refused_with_the_nearest_names() -> None:
    """A typo costs a message, not a download."""
    with pytest.raises(UnknownModel, match="bge-smal-en") as caught:
        make_embedder("BAAI/bge-smal-en-v1.5")
    assert "BAAI/bge-small-en-v1.5" in caught.value.hint


def test_long_text_is_embedded_whole_by_a_model_with_a_smaller_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit is the mean of its halves: its end counts too."""
    embedder = fastembed.FastembedEmbedder(minilm.SPACE, "sentence-transformers/all-MiniLM-L6-v2", folder=minilm.FOLDER)
    start, end = "the heron nests " * 150, "a database stores vectors " * 150
    whole = embedder.embed_passages([start + end])[0]
    first, second = embedder.embed_passages([start[:200], end[:200]])
    assert float(whole @ second) > 0.5
    assert float(whole @ first) > 0.5


class EmbeddingServer(BaseHTTPRequestHandler):
    """Speaks the protocol; `script` holds the status codes of the next answers, 200 when empty; `most` cuts them."""

    script: ClassVar[list[int]] = []
    requests: ClassVar[list[dict[str, Any]]] = []
    most: ClassVar[int | None] = None

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).requests.append({**body, "key": self.headers["Authorization"], "path": self.path})
        status = self.script.pop(0) if self.script else 200
        vectors = [[1.0, float(len(text)), 0.0] for text in body["input"]][: self.most]
        rows = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
        answer = {
            "object": "list",
            "data": rows[::-1],
            "model": body["model"],
            "usage": {"prompt_tokens": 1, "total_tokens": 1},
        }
        content = json.dumps(answer if status == 200 else {"error": {"message": "scripted"}}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Retry-After-Ms", "1")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[EmbeddingServer]]:
    """Serve the protocol on this machine."""
    EmbeddingServer.script, EmbeddingServer.requests, EmbeddingServer.most = [], [], None
    server = ThreadingHTTPServer(("127.0.0.1", 0), EmbeddingServer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    yield EmbeddingServer
    server.shutdown()
    server.server_close()
    thread.join()


def test_openai_endpoint_is_asked_in_batches_and_answers_in_order(endpoint: type[EmbeddingServer]) -> None:
    """Key and address come from the environment; rows are put back in order by their index."""
    embedder = make_embedder("openai:local-model")
    assert embedder.space.dimension == 3
    vectors = embedder.embed_passages(["x" * n for n in range(1, 131)])
    assert [round(float(v[1] / v[0])) for v in vectors] == list(range(1, 131))
    assert [len(request["input"]) for request in endpoint.requests] == [1, 64, 64, 2]
    assert {request["key"] for request in endpoint.requests} == {"Bearer secret"}
    assert model_of(embedder.space) == "openai:local-model"
    embedder._client.close()  # type: ignore[attr-defined]  # because only this embedder has one


def test_openai_failures_are_retried(endpoint: type[EmbeddingServer]) -> None:
    """A busy or broken server is asked again before it counts as failed."""
    embedder = make_embedder("openai:text-embedding-3-small")
    endpoint.script = [503, 429]
    assert len(embedder.embed_query("heron")) == 3
    assert len(endpoint.requests) == 3
    embedder._client.close()  # type: ignore[attr-defined]  # because only this embedder has one


@pytest.mark.parametrize(
    ("status", "message"),
    [(401, "refused the API key"), (404, "has no embedding model"), (400, "answered 400"), (429, "rate limit")],
)
def test_each_openai_failure_says_what_it_is(endpoint: type[EmbeddingServer], status: int, message: str) -> None:
    """The message tells them apart, the hint what to do."""
    embedder = make_embedder("openai:text-embedding-3-small")
    endpoint.script = [status] * 10
    with pytest.raises(EmbedderError, match=message) as caught:
        embedder.embed_query("heron")
    assert caught.value.hint
    embedder._client.close()  # type: ignore[attr-defined]  # because only this embedder has one


def test_openai_without_a_server_or_key(endpoint: type[EmbeddingServer], monkeypatch: pytest.MonkeyPatch) -> None:
    """No server and no key are told apart."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setattr("memsync.embed.openai.MAX_RETRIES", 0)
    embedder = make_embedder("openai:text-embedding-3-small")
    with pytest.raises(EmbedderError, match="cannot be reached"):
        embedder.embed_query("heron")
    embedder._client.close()  # type: ignore[attr-defined]  # because only this embedder has one
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(EmbedderError, match="no API key") as caught:
        make_embedder("openai:m")
    assert "OPENAI_API_KEY" in caught.value.hint
    with pytest.raises(EmbedderError, match="the model after openai: is missing"):
        make_embedder("openai:")


def test_openai_model_of_a_known_dimension_is_not_asked_for_it(endpoint: type[EmbeddingServer]) -> None:
    """Opening a memory costs no request, and works without a network."""
    embedder = make_embedder("openai:text-embedding-3-small")
    assert (embedder.space.dimension, endpoint.requests) == (1_536, [])


def test_openai_answer_with_too_few_vectors_is_refused(endpoint: type[EmbeddingServer]) -> None:
    """Passages would get the vectors of others."""
    endpoint.most = 1
    with pytest.raises(EmbedderError, match="returned 1 vector for 2 texts"):
        make_embedder("openai:text-embedding-3-small").embed_passages(["heron", "alder"])


def test_openai_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no dependency of memsync."""
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(EmbedderError, match="needs the openai package") as caught:
        make_embedder("openai:text-embedding-3-small")
    assert "pip install" in caught.value.hint
