"""The built-in model's files are used only as they were published; any damage is named, and words still answer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import memsync
from memsync.doctor import check_all
from memsync.embed import minilm
from memsync.embed.minilm.digests import SHA256
from memsync.errors import EmbedderError
from memsync.memory import Through, open_memory
from memsync.settings.load import Settings, load_settings
from memsync.wiring import make_embedder, make_token_counter
from tests.conftest import Write

DAMAGED_BYTES = 64
FILES = sorted(SHA256)


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy the model's folder, and use the copy."""
    folder = tmp_path / "model"
    shutil.copytree(minilm.FOLDER, folder)
    monkeypatch.setattr(minilm, "FOLDER", folder)
    return folder


def zero(path: Path, part: float) -> None:
    """Overwrite 64 bytes of a file with zeros, `part` of the way (0 to 1) through it."""
    offset = int(part * (path.stat().st_size - DAMAGED_BYTES))
    with path.open("r+b") as file:
        file.seek(offset)
        assert file.read(DAMAGED_BYTES) != bytes(DAMAGED_BYTES)
        file.seek(offset)
        file.write(bytes(DAMAGED_BYTES))


def test_the_model_is_made_of_exactly_the_files_that_have_a_digest() -> None:
    """A file without one would be loaded unchecked."""
    shipped = {path.name for path in minilm.FOLDER.iterdir() if path.suffix in {".onnx", ".json"}}
    assert shipped == set(FILES)
    assert minilm.check_files() == list(SHA256)


@pytest.mark.parametrize("part", [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0])
@pytest.mark.parametrize("name", FILES)
def test_64_zeroed_bytes_anywhere_are_an_error_that_names_the_file(copy: Path, name: str, part: float) -> None:
    """The model would go on answering, with wrong vectors."""
    zero(copy / name, part)
    with pytest.raises(EmbedderError, match="is damaged") as caught:
        make_embedder("minilm").embed_query("heron")
    assert str(copy / name) in caught.value.message
    assert "Reinstall memsync" in caught.value.hint
    assert caught.value.exit_code == 8


def test_notes_are_not_cut_by_a_damaged_or_missing_tokenizer(copy: Path) -> None:
    """It decides where a chunk ends, so that the index would be another one."""
    zero(copy / "tokenizer.json", 0.5)
    with pytest.raises(EmbedderError, match=r"tokenizer\.json is damaged"):
        make_token_counter().count(["heron"])
    (copy / "tokenizer.json").unlink()
    with pytest.raises(EmbedderError, match=r"tokenizer\.json cannot be read: No such file"):
        make_token_counter().count(["heron"])


@pytest.mark.parametrize("name", FILES)
def test_a_search_answers_by_words_and_says_which_file_is_damaged(
    copy: Path, name: str, settings: Settings, write: Write
) -> None:
    """What is indexed is found, and the warning says what to do; what cannot be indexed counts as pending."""
    write("a.md", "The heron nests.\n")
    with open_memory(settings, Through.HERE) as memory:
        memory.sync()
    zero(copy / name, 0.5)
    write("b.md", "The otter swims.\n")
    with open_memory(settings, Through.HERE) as memory:
        result = memory.search("heron")
        with pytest.raises(EmbedderError, match="is damaged"):  # no difference between index and files
            memory.verify(recompute=True)
    assert [hit.path for hit in result.hits] == ["a.md"]
    assert [w for w in result.warnings if name in w and "words alone. Reinstall memsync" in w] != []
    assert (result.freshness.pending_text > 0) == (name == "tokenizer.json")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("model", ["minilm", "openai:some-model"])
def test_doctor_names_the_damaged_file_whatever_model_embeds(copy: Path, name: str, model: str, root: Path) -> None:
    """The tokenizer counts tokens for every model."""
    settings = load_settings(root=root, environ={"MEMSYNC_EMBEDDER_MODEL": model}, cwd=root)
    assert {check.name: check.ok for check in check_all(settings)}["model files"] is True
    zero(copy / name, 0.5)
    check = {check.name: check for check in check_all(settings)}["model files"]
    assert (check.ok, str(copy / name) in check.finding) == (False, True)
    assert check.advice.startswith("Reinstall memsync")


def test_a_command_that_needs_the_damaged_model_exits_with_8(tmp_path: Path, root: Path, write: Write) -> None:
    """Its message has the file and what to do, on stderr alone."""
    package = tmp_path / "package" / "memsync"
    shutil.copytree(Path(memsync.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    damaged = package / "embed" / "minilm" / "model.onnx"
    zero(damaged, 0.5)
    write("a.md", "The heron nests.\n")
    command = [sys.executable, "-m", "memsync", "--root", str(root), "index", "rebuild", "--drop-vectors"]
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "MEMSYNC_DAEMON_USE": "false"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (8, "")
    assert f"the built-in model's {damaged} is damaged" in done.stderr
    assert "Reinstall memsync" in done.stderr
