"""The model's own process: equal vectors, and an end that costs nothing but the texts under way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from memsync.daemon import isolated
from memsync.daemon.isolated import IsolatedEmbedder, IsolatedReranker
from memsync.errors import EmbedderError, UnknownModel
from memsync.settings.settings_list import RERANK_MODEL
from memsync.sync.gate import Stopped
from memsync.wiring import make_embedder, make_reranker
from tests.conftest import Patch
from tests.support.tiny_cross_encoder import put_in_cache

TEXTS = [f"The heron number {number} nests in the alder." for number in range(7)]


@pytest.fixture
def embedder() -> Iterator[IsolatedEmbedder]:
    made = IsolatedEmbedder("minilm")
    yield made
    made.unload()


@pytest.fixture
def reranker(tmp_path: Path) -> Iterator[IsolatedReranker]:
    put_in_cache(tmp_path / "cache" / "memsync" / "models")
    made = IsolatedReranker(RERANK_MODEL)
    yield made
    made.unload()


def process_of(model: IsolatedEmbedder | IsolatedReranker) -> int:
    assert model._child is not None
    return model._child.process.pid


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{process}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_vectors_and_space_are_those_of_the_model_in_this_process(embedder: IsolatedEmbedder) -> None:
    """Where the model runs changes no byte of a vector."""
    here = make_embedder("minilm")
    assert embedder.space == here.space
    for ours, theirs in zip(embedder.embed_passages(TEXTS), here.embed_passages(TEXTS), strict=True):
        assert ours.dtype == np.float32
        assert ours.tobytes() == theirs.tobytes()
    assert embedder.embed_query("who nests?").tobytes() == here.embed_query("who nests?").tobytes()


def test_unloading_ends_the_process_and_the_next_text_begins_another(embedder: IsolatedEmbedder) -> None:
    """All of the model's memory is given back, and it comes again on demand."""
    before = embedder.embed_query("heron")
    first = process_of(embedder)
    embedder.unload()
    assert not is_alive(first)
    assert embedder.embed_query("heron").tobytes() == before.tobytes()
    assert process_of(embedder) != first


def test_killed_process_is_an_error_once_and_begins_anew(embedder: IsolatedEmbedder) -> None:
    """A model that dies takes nothing with it: the text is tried again later."""
    embedder.embed_query("heron")
    child = embedder._child
    assert child is not None
    os.kill(process_of(embedder), signal.SIGSTOP)
    asked = child.ask("embed_query", "who waits?")
    os.kill(process_of(embedder), signal.SIGKILL)
    with pytest.raises(EmbedderError, match="ended"):
        embedder._answered(child, asked)
    assert len(embedder.embed_query("heron")) == embedder.space.dimension


def test_hanging_process_is_ended(embedder: IsolatedEmbedder, monkeypatch: Patch) -> None:
    """A model that does not answer is not waited for without end."""
    embedder.embed_query("heron")
    monkeypatch.setattr(isolated, "ANSWER_SECONDS", 0.2)
    hanging = process_of(embedder)
    os.kill(hanging, signal.SIGSTOP)
    with pytest.raises(EmbedderError, match="has not answered"):
        embedder.embed_query("heron")
    assert not is_alive(hanging)


def test_errors_come_across_as_they_were_raised() -> None:
    """An unknown model is named, with its hint, as in this process."""
    embedder = IsolatedEmbedder("BAAI/bge-smoll-en")
    try:
        with pytest.raises(UnknownModel, match="bge-smoll-en") as raised:
            _ = embedder.space
        assert "bge-small-en" in raised.value.hint
    finally:
        embedder.unload()


def test_pause_is_called_before_each_text_and_may_end_the_work(embedder: IsolatedEmbedder) -> None:
    """What stands aside for searches, and what stops, does so between two texts."""
    calls: list[int] = []

    def pause() -> None:
        calls.append(1)
        if len(calls) == 4:
            raise Stopped

    with pytest.raises(Stopped):
        embedder.embed_passages(TEXTS, pause)
    assert len(calls) == 4
    assert len(embedder.embed_passages(TEXTS[:2])) == 2


def test_process_ends_with_the_one_that_asks() -> None:
    """A daemon that is killed leaves no model behind."""
    code = (
        "from memsync.daemon.isolated import IsolatedEmbedder\n"
        "import os, signal\n"
        "embedder = IsolatedEmbedder('minilm')\n"
        "embedder.space\n"
        "print(embedder._child.process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    process = int(done.stdout)
    deadline = time.monotonic() + 120
    while is_alive(process):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_closed_model_begins_no_process(embedder: IsolatedEmbedder) -> None:
    """Whoever asks late, when the daemon has exchanged its settings, leaves nothing behind."""
    embedder.close()
    with pytest.raises(EmbedderError, match="closed"):
        _ = embedder.space
    with pytest.raises(EmbedderError, match="closed"):
        embedder.embed_passages(TEXTS)
    assert embedder._child is None


def test_relevance_is_that_of_the_model_in_this_process(reranker: IsolatedReranker) -> None:
    """Where the model runs changes no digit of it, in the order of the texts; unloading ends its process."""
    texts = ["nothing", "heron, alder", "the heron nests", "“heron”\u2028line\n" * 9]
    found = reranker.relevance("heron nest alder", texts)
    assert found == make_reranker(RERANK_MODEL).relevance("heron nest alder", texts)
    process = process_of(reranker)
    reranker.unload()
    assert not is_alive(process)
    assert reranker.relevance("heron nest alder", texts) == found


def test_reranking_process_that_hangs_is_ended_and_begins_anew(reranker: IsolatedReranker, monkeypatch: Patch) -> None:
    """Whoever waits is told, and the next question is answered."""
    before = reranker.relevance("heron", ["heron", "tern"])
    hanging = process_of(reranker)
    os.kill(hanging, signal.SIGSTOP)
    with monkeypatch.context() as patch, pytest.raises(EmbedderError, match="has not answered"):
        patch.setattr(isolated, "ANSWER_SECONDS", 0.2)
        reranker.relevance("heron", ["heron", "tern"])
    assert not is_alive(hanging)
    assert reranker.relevance("heron", ["heron", "tern"]) == before


def test_unknown_reranking_model_is_named_across_processes() -> None:
    """The error is that of this process, hint included."""
    reranker = IsolatedReranker("BAAI/bge-reranker-bass")
    try:
        with pytest.raises(UnknownModel, match="bge-reranker-bass") as raised:
            reranker.relevance("heron", ["heron"])
        assert "BAAI/bge-reranker-base" in raised.value.hint
    finally:
        reranker.unload()
