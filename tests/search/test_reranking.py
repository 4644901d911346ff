"""`--rerank`: a cross-encoder reads the first hits; its relevance is blended with their scores, or they stay the same.

The model is a real one of a few hundred bytes (tests/support/tiny_cross_encoder.py) where fastembed takes part. Where
only the use of its judgement is tested, a stand-in judges by a word in the text.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import jsonschema
import pytest

from memsync.embed import cross_encoder
from memsync.errors import EmbedderError
from memsync.memory import Memory
from memsync.model.answer import Hit, Rank, SearchResult
from memsync.search.budget import CITATION_TOKENS
from memsync.search.reranking import Reranking
from memsync.settings.load import load_settings
from memsync.settings.settings_list import RERANK_MODEL
from memsync.wiring import make_reranker
from tests.conftest import COUNTER, PROJECT, MakeMemory, Patch, Write
from tests.support.daemon_fixtures import PATIENCE_SECONDS, Served
from tests.support.daemon_process import Cli, until
from tests.support.tiny_cross_encoder import MOST_TOKENS, RELEVANCE, put_in_cache

RESULTS = json.loads((PROJECT / "docs" / "results.schema.json").read_text())
SCHEMA = {**RESULTS["properties"]["search"], "$defs": RESULTS["$defs"]}
NAMES = ("alder", "birch", "cedar", "dogwood")
WORDS = ("heron", "alder", "rope")
QUESTION = "where does the heron nest"
NO_NETWORK = {"HF_ENDPOINT": "http://127.0.0.1:9"}


class Judge:
    """Stands in for a cross-encoder: a text is as relevant as the first of the words in it; `asked` is what it read.

    `fail` makes it raise what it holds; it answers when `goes_on` is set.
    """

    def __init__(self, words: Mapping[str, float] | None = None, otherwise: float = 0.5) -> None:
        self.words = words or {}
        self.otherwise = otherwise
        self.asked: list[tuple[str, list[str]]] = []
        self.fail: Exception | None = None
        self.goes_on = threading.Event()
        self.goes_on.set()

    def relevance(self, question: str, texts: Sequence[str]) -> list[float]:
        self.asked.append((question, list(texts)))
        assert self.goes_on.wait(PATIENCE_SECONDS)
        if self.fail is not None:
            raise self.fail
        return [next((said for word, said in self.words.items() if word in text), self.otherwise) for text in texts]

    def unload(self) -> None:
        """Nothing is loaded."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def judge() -> Judge:
    """Give a judge that likes best what answers least well."""
    return Judge(dict(zip(NAMES, (0.2, 0.4, 0.6, 0.8), strict=True)))


@pytest.fixture
def judged(root: Path, write: Write, make_memory: MakeMemory, judge: Judge) -> Callable[..., Memory]:
    """Open four notes that answer QUESTION less and less well, with the judge and under settings of a test's own."""
    for number, name in enumerate(NAMES):
        write(f"{name}.md", f"# Trees\n\n## {name.title()}\n\nWhere the heron is: a {name}{' nest' * number}.\n")

    def begin(**variables: str) -> Memory:
        settings = load_settings(root=root, environ=variables, cwd=root)
        memory = make_memory(own_settings=settings, reranker=judge)
        memory.sync()
        return memory

    return begin


@pytest.fixture
def cached(monkeypatch: Patch, tmp_path: Path) -> Path:
    """Put the tiny model where fastembed looks for the default one; return the folder of its files."""
    monkeypatch.setenv("HF_ENDPOINT", NO_NETWORK["HF_ENDPOINT"])
    return put_in_cache(tmp_path / "cache" / "memsync" / "models")


def paths(result: SearchResult) -> list[str]:
    return [hit.path for hit in result.hits]


def blend(hit: Hit, relevance: float) -> float:
    return round(0.5 * hit.score + 0.5 * relevance, 6)


# ------------------------------------------------------------------------------------------ the order


def test_score_is_the_blend_of_the_first_score_and_the_relevance(judged: MakeMemory, judge: Judge) -> None:
    """By hand for each hit; the rank by relevance alone is beside it. A limit and a budget of tokens leave the best."""
    memory = judged()
    plain = {str(hit.path): hit for hit in memory.search(QUESTION).hits}
    hits = memory.search(QUESTION, rerank=True).hits
    expected = {name: blend(plain[f"{name}.md"], judge.words[name]) for name in NAMES}
    assert {hit.path.removesuffix(".md"): hit.score for hit in hits} == expected
    assert [hit.score for hit in hits] == sorted(expected.values(), reverse=True)
    found = {hit.path.removesuffix(".md"): hit.ranks["rerank"] for hit in hits}
    assert found == {"dogwood": Rank(1, 0.8), "cedar": Rank(2, 0.6), "birch": Rank(3, 0.4), "alder": Rank(4, 0.2)}
    assert paths(memory.search(QUESTION, limit=1, rerank=True)) == [hits[0].path]
    budget = CITATION_TOKENS + COUNTER.count([hits[0].text])[0]
    assert paths(memory.search(QUESTION, tokens=budget, rerank=True)) == [hits[0].path]
    assert hits[0].path != next(iter(plain))


def test_model_reads_the_question_without_filters_and_each_hit_with_its_headings(
    judged: MakeMemory, judge: Judge
) -> None:
    """A line alone does not say what it is about. It is not asked by default, without hits, or with filters alone."""
    memory = judged()
    plain, filtered = memory.search(QUESTION), memory.search("kind:note", rerank=True)
    assert [hit.ranks.keys() & {"rerank"} for hit in plain.hits] == [set()] * 4
    assert memory.search('"no such phrase"', rerank=True).hits == ()
    assert filtered.hits == memory.search("kind:note").hits
    assert [warning for warning in filtered.warnings if "reranking has no effect" in warning]
    assert (judge.asked, plain.explain.timings_ms.keys() & {"rerank"}) == ([], set())
    memory.search(f"{QUESTION} kind:note path:birch.md", rerank=True)
    assert judge.asked == [(QUESTION, ["Trees › Birch\n## Birch\n\nWhere the heron is: a birch nest."])]


def test_min_score_applies_to_the_blend(judged: MakeMemory, judge: Judge) -> None:
    """A hit that is lifted over the floor is shown, one that falls under it is not."""
    memory = judged()
    judge.words, judge.otherwise = {"birch": 1.0}, 0.0
    assert len(memory.search("heron roosting", min_score=0.0).hits) == 4
    assert paths(memory.search("heron roosting", min_score=0.6, rerank=True)) == ["birch.md"]


def test_by_words_alone_the_first_score_is_the_share_of_the_best(judged: MakeMemory, judge: Judge) -> None:
    """No score is a probability there; without this the cross-encoder would decide nearly alone."""
    memory, question = judged(), "heron nest roosting"
    plain = {str(hit.path): hit.score for hit in memory.search(question, mode="keyword").hits}
    assert 0.001 < (best := max(plain.values())) < 0.5
    found = memory.search(question, mode="keyword", rerank=True).hits
    assert len(found) == len(plain) == 4
    for hit in found:
        relevance = judge.words[hit.path.removesuffix(".md")]
        assert hit.score == pytest.approx(0.5 * plain[hit.path] / best + 0.5 * relevance, abs=1e-3)


# ------------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize("limit", [2, 10])
def test_a_model_that_fails_leaves_the_answer_as_it_is(judged: MakeMemory, judge: Judge, limit: int) -> None:
    """The same hits with the same scores, and a warning with the reason and what to do."""
    memory = judged()
    judge.fail = EmbedderError("the model broke", hint="Mend it.")
    found = memory.search(QUESTION, limit=limit, rerank=True)
    assert found.hits == memory.search(QUESTION, limit=limit).hits
    assert found.warnings == ("the model broke; hits are not reranked. Mend it.",)
    judge.fail = None
    assert memory.search(QUESTION, limit=limit, rerank=True).warnings == ()


def test_model_that_cannot_be_had_leaves_the_answer_as_it_is(cli: Cli, write: Write) -> None:
    """Without a network the hits and the exit code stay; stderr says what to do. A wrong name is an error."""
    for name in NAMES:
        write(f"{name}.md", f"The heron nests in the {name}.\n")
    words = ("search", "heron", "alder", "--mode", "keyword")
    done = cli(*words, "--rerank", environ=NO_NETWORK)
    assert (done.returncode, done.stdout) == (0, cli(*words).stdout)
    assert f"the reranking model {RERANK_MODEL} cannot be fetched into" in done.stderr
    assert "not reranked. Its first use downloads 80 MB. Check the network" in done.stderr
    typo = {**NO_NETWORK, "MEMSYNC_SEARCH_RERANK_MODEL": "xenova/ms-marco-minilm-l6-v2"}
    done = cli(*words, "--rerank", environ=typo)
    assert (done.returncode, done.stdout) == (8, "") and f"Did you mean {RERANK_MODEL}" in done.stderr
    assert "no reranking model is called 'xenova/ms-marco-minilm-l6-v2'" in done.stderr


def test_model_that_could_not_be_had_is_not_tried_at_each_search(monkeypatch: Patch, tmp_path: Path) -> None:
    """Searches of a program without a network would each wait for it."""
    from fastembed.rerank.cross_encoder import TextCrossEncoder

    asked: list[bool] = []

    def refuse(source: str, folder: str, files: list[str], **options: bool) -> str:
        asked.append(options.get("local_files_only", False))
        raise OSError("no\n\nroute")

    monkeypatch.setattr(TextCrossEncoder, "download_files_from_huggingface", refuse)
    model = make_reranker(RERANK_MODEL)
    for _ in range(3):
        with pytest.raises(EmbedderError, match=r"cannot be fetched into .*: no route"):
            model.relevance("heron", ["heron"])
    assert asked == [True, False]
    monkeypatch.setattr(cross_encoder, "RETRY_SECONDS", 0.0)
    with pytest.raises(EmbedderError, match="no route"):
        model.relevance("heron", ["heron"])
    assert asked == [True, False] * 2


def test_damaged_model_and_relevance_that_is_no_number_are_errors(cached: Path, monkeypatch: Patch) -> None:
    """A download that was cut off is not fetched anew by itself; a NaN would put a hit anywhere."""
    from fastembed.rerank.cross_encoder import TextCrossEncoder

    whole = (model := cached / "onnx" / "model.onnx").read_bytes()
    model.write_bytes(b"half")
    with pytest.raises(EmbedderError, match="cannot be loaded") as caught:
        make_reranker(RERANK_MODEL).relevance("heron", ["heron"])
    assert f"Remove {cached.parent.parent} " in caught.value.hint
    model.write_bytes(whole)
    monkeypatch.setattr(TextCrossEncoder, "rerank", lambda self, question, texts: [float("nan")])
    with pytest.raises(EmbedderError, match="not a number"):
        make_reranker(RERANK_MODEL).relevance("heron", ["heron"])


# -------------------------------------------------------------------------------- fastembed's real path


def test_relevance_is_the_logistic_of_the_logit_and_depends_on_the_text_alone(cached: Path) -> None:
    """Computed by hand, and in the order of the texts. Text beyond the window of the model counts for nothing."""
    model, question = make_reranker(RERANK_MODEL.lower()), "does the heron nest in an alder?"
    inside, outside = "x " * (MOST_TOKENS // 4) + "heron", "x " * MOST_TOKENS + "heron"
    texts = ["nothing", "a heron", "The HERON in the alder", "alder, nest, heron", "heron " * 5, inside, outside]
    expected = [*RELEVANCE, RELEVANCE[1], RELEVANCE[1], RELEVANCE[0]]
    assert model.relevance(question, texts) == pytest.approx(expected, abs=1e-7)
    for text, relevance in zip(texts, expected, strict=True):
        assert model.relevance(question, [text]) == pytest.approx([relevance], abs=1e-7)
    assert model.relevance("heron " + "x" * 1_000_000, ["heron"]) == pytest.approx([RELEVANCE[1]], abs=1e-7)


def test_command_prints_relevance_and_json_that_fits_the_schema(cli: Cli, write: Write, cached: Path) -> None:
    """The whole way from the command line, model included."""
    write("one.md", "# One\n\nThe heron and the tern are in the harbour.\n")
    write("two.md", "# Two\n\nThe harbour: heron, alder, rope.\n")
    words = (*WORDS, "--mode", "keyword", "--rerank")
    document = json.loads(cli("search", *words, "--json", "--explain").stdout)
    jsonschema.validate(document, SCHEMA)
    ranks = {hit["path"]: hit["ranks"]["rerank"] for hit in document["hits"]}
    assert ranks == {
        "two.md": {"rank": 1, "score": pytest.approx(RELEVANCE[3], abs=1e-7)},
        "one.md": {"rank": 2, "score": pytest.approx(RELEVANCE[1], abs=1e-7)},
    }
    assert document["explain"]["timings_ms"]["rerank"] > 0
    assert document["warnings"] == []
    assert "rerank #1 (0.953)" in cli("search", *words, "--explain").stdout


# ------------------------------------------------------------------------------------------ the daemon


def test_one_search_waits_for_a_model_that_hangs(served: Served, judge: Judge, monkeypatch: Patch) -> None:
    """It says what to do. Those after it are answered at once; the model is not asked again before it has answered."""
    monkeypatch.setattr("memsync.search.fresh_search.RERANK_PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(served.memory.reranking, "_make", lambda: judge)
    plain = served.memory.search("heron").hits
    judge.goes_on.clear()
    with served.connect() as remote:
        for _ in range(3):
            late = remote.search("heron", rerank=True)
            assert (late.hits, len(judge.asked)) == (plain, 1)
            assert "the reranking model does not answer; hits are not reranked. It may still be" in late.warnings[0]
        judge.goes_on.set()
        until(lambda: bool(remote.search("heron", rerank=True).hits[0].ranks.keys() & {"rerank"}), "it answers")


def test_closed_memory_leaves_no_model_open(judge: Judge, monkeypatch: Patch) -> None:
    """One that is made while everything is being closed is closed as well."""
    closed: list[bool] = []
    monkeypatch.setattr(judge, "close", lambda: closed.append(True))
    used, model = Reranking(lambda: judge, time), Reranking(lambda: judge, time)
    assert (used.is_loaded, used.relevance("heron", ["heron"]), used.is_loaded) == (False, [0.5], True)
    model.close()
    assert closed == []
    assert model.relevance("heron", ["heron"]) == [0.5]
    assert closed == [True]
    model.close()
    assert closed == [True, True]
