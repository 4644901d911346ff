"""The user hears that the built-in model cannot read their notes, and nobody else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from memsync.notes.languages import is_foreign, is_of_other_script
from tests.conftest import Write
from tests.support.daemon_process import Cli

OTHER_SCRIPTS = (
    "双向链接",
    "GPU 显存不足怎么办",
    "Привет, как дела?",
    "今日はいい天気です",
    "مرحبا بالعالم",
    "한국어 문서",
    "ελληνικά",
)
LATIN = (
    "Ich habe heute die Milch gekauft und nicht bezahlt.",
    "Bonjour tout le monde, je suis là pour vous aider",
    "Dnes je krásný den a v parku jsou děti, které není vidět",
    "Tiếng Việt là ngôn ngữ của người Việt và được nói",
    "Kysymys on siitä että se ei ole niin",
)
ENGLISH = (
    "The α and β parameters of the model, and π ≈ 3.14",
    "σ = √(1/n Σ(x-μ)²)",
    "docker run --rm -it ubuntu bash; el.value = el.x",
    "As de la Cruz said, c'est la vie is the motto of the house.",
    "naïve café résumé",
    "",
    "2026-11-21 12:30",
)


@pytest.mark.parametrize("text", [*OTHER_SCRIPTS, *LATIN, *ENGLISH])
def test_texts_that_an_english_model_cannot_read(text: str) -> None:
    """Another script, or the commonest words of another language; not a symbol, a name or code."""
    assert is_of_other_script(text) == (text in OTHER_SCRIPTS)
    assert is_foreign(text) == (text not in ENGLISH)


@pytest.mark.parametrize(("foreign", "is_told"), [(2, True), (1, False)])
def test_a_fifth_of_the_text_is_said_once_by_each_command(
    cli: Cli, root: Path, write: Write, foreign: int, is_told: bool
) -> None:
    """`init`, the first sync and `status` say so, with the line for config.toml; code and a few quotes do not count."""
    for number in range(8):
        write(f"{number}.md", "The heron is in the alder of the pond, and it is not at home.\n\n    x = el.value\n")
    for number in range(foreign):
        write(f"de{number}.md", "Der Reiher ist nicht in der Erle, und er wird auch nicht kommen.\n\n" * 2)
    said = [cli("init", ".", cwd=root).stdout, cli("status").stdout]
    first = cli("sync")
    assert ['model = "multilingual"' in text for text in (*said, first.stderr)] == [is_told] * 3
    assert "multilingual" not in cli("sync").stderr
