"""When nothing is found: how sure an answer must be, and what no model can read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memsync.memory import Memory, Through, open_memory
from memsync.model.note import Entry
from memsync.model.query import IndexedChunk
from memsync.model.vocabulary import Form, Mode, NotePath
from memsync.search.confidence import certainty
from memsync.search.rank import QuestionWords, Scored
from memsync.settings.load import load_settings
from tests.conftest import MakeMemory, Write
from tests.support.daemon_process import Cli

NOTES = {
    "MEMORY.md": "# Memory\n\n## Pets\n\nOscar is our guinea pig.\n\n## Work\n\nThe store is SQLite.\n",
    "daily/2026-11-20.md": "# 2026-11-20\n\n- 09:10 Signed the lease for a flat in Leith.\n- 10:30 See the dentist.\n",
    "recipes.md": "# Bread\n\nMix flour, water, salt and yeast; let it rise overnight; bake for forty minutes.\n",
}


@pytest.fixture
def small(root: Path, write: Write, tmp_path: Path) -> Iterator[Callable[..., Memory]]:
    """Open a memory of three short notes with the built-in model."""
    for path, text in NOTES.items():
        write(path, text)
    opened: list[Memory] = []

    def opened_with(**settings: str) -> Memory:
        environ = {f"MEMSYNC_SEARCH_{name.upper()}": value for name, value in settings.items()}
        memory = open_memory(load_settings(root=root, environ={**os.environ, **environ}, cwd=root), Through.HERE)
        memory.sync()
        opened.append(memory)
        return memory

    yield opened_with
    for memory in opened:
        memory.close()


def found(*scores: float) -> list[Scored]:
    """Return entries with these scores, of one note."""
    chunk = IndexedChunk(
        1, NotePath("a.md"), 0, 1, 1, 0, 0, b"", [], "", [], "note", "project", "A", "", 0.5, False, 0, (0, 0, 0, 0),
        Form.TEXT,
    )  # fmt: skip
    return [Scored(Entry(1, 1, 0, 0, 10), chunk, False, score=score) for score in scores]


@pytest.mark.parametrize(
    ("name", "speakers"), [("robin", ["robin", "kim", "", "", ""]), ("tool", ["tool", "user"] * 3)]
)
def test_a_role_or_a_speaker_among_notes_makes_nothing_surer(name: str, speakers: list[str]) -> None:
    """Only in a conversation between people does a name in the question tell who answers it."""
    ranked = found(*[0.3] * len(speakers))
    for scored, speaker in zip(ranked, speakers, strict=True):
        scored.entry = scored.entry._replace(speaker=speaker)
    named, plain = (QuestionWords({}, frozenset(words), asks_when=False) for words in ([name], []))
    assert named.speakers(ranked)[0] == {name}
    assert certainty(ranked, named)(0.3) == certainty(ranked, plain)(0.3)


def test_a_better_first_entry_is_surer_and_more_entries_less() -> None:
    """Among many, one looks like an answer by chance."""
    question = QuestionWords({}, frozenset(), asks_when=False)

    def probability(ranked: list[Scored], question: QuestionWords) -> float:
        return certainty(ranked, question)(ranked[0].score)

    assert probability(found(0.3), question) < probability(found(0.5), question)
    assert probability(found(0.5, *[0.1] * 200), question) < probability(found(0.5, *[0.1] * 5), question)
    assert probability(found(0.5, *[0.1] * 300), question) == probability(found(0.5, *[0.1] * 900), question)
    assert 0.0 < probability(found(-0.5), question) < 0.01


def test_question_in_another_language_is_as_sure_as_its_cosine() -> None:
    """It shares no word with the notes; the built-in model knows only English."""
    ranked, question = found(*[0.2] * 200), QuestionWords({}, frozenset(), asks_when=False)
    ranked[0].cosine = 0.3
    assert certainty(ranked, question)(0.2) < 0.05
    assert 0.05 < certainty(ranked, question, is_multilingual=True)(0.2) < 0.3
    ranked[0].cosine = 0.05
    assert certainty(ranked, question, is_multilingual=True)(0.2) < 0.05


def test_a_small_memory_answers_in_other_words(small: MakeMemory) -> None:
    """Few words of the question, or none, stand in the note that answers it."""
    memory = small()
    for question, path in (
        ("which small animal lives with us", "MEMORY.md"),
        ("when do I have to see somebody about my teeth", "daily/2026-11-20.md"),
    ):
        first = memory.search(question).hits[0]
        assert (first.path, first.score > 0.3) == (path, True)


@pytest.mark.parametrize("question", ["who won the world cup in 1998", "when did the Roman empire fall", "zzzqqqxxx"])
def test_what_no_note_answers_is_met_with_silence(small: MakeMemory, question: str) -> None:
    """Yet whoever wants to see what is nearest is shown it."""
    memory = small()
    silent = memory.search(question)
    nearest = memory.search(question, min_score=0)
    assert silent.hits == ()
    assert f"the best hit has a score of {nearest.hits[0].score:.2f}, which is too low" in silent.warnings[-1]
    assert nearest.warnings == ()


def test_each_hit_under_the_least_score_is_left_out(small: MakeMemory) -> None:
    """By the setting or by the search, which comes first; a hit says how likely it is itself."""
    question = "which animal lives with us"
    scores = [hit.score for hit in small(min_score="0").search(question).hits]
    assert scores[0] > 5 * scores[-1]
    assert [hit.score for hit in small(min_score=str(scores[0])).search(question).hits] == scores[:1]
    assert [hit.score for hit in small().search(question, min_score=scores[0]).hits] == scores[:1]
    assert small(min_score=str(scores[0] + 0.001)).search(question).hits == ()
    assert len(small(min_score="1").search(question, min_score=0).hits) == len(scores)


def test_what_was_typed_as_it_stands_there_is_found(small: MakeMemory) -> None:
    """Nobody would understand that it was not."""
    first, *others = small().search("yeast overnight").hits
    assert (first.path, first.score > 0.5) == ("recipes.md", True)
    assert all(hit.score < first.score / 2 for hit in others)


def test_letters_that_stand_in_no_note_find_nothing_but_where_they_stand(small: MakeMemory, write: Write) -> None:
    """A model reads them one by one, and takes them for something else."""
    memory = small()
    assert memory.search("xkcd psql").hits == ()
    write("tools.md", "# Tools\n\nRun psql on the host.\n")
    assert memory.search("xkcd psql").hits[0].path == "tools.md"


def test_letters_of_other_scripts_are_words_that_the_built_in_model_cannot_read(
    small: MakeMemory, write: Write
) -> None:
    """The nearest texts mean nothing then, and no score is a probability."""
    memory = small()
    assert memory.search("zzzqqqxxx", min_score=0).hits[0].score == 0.0
    assert memory.search("寿司").hits == ()
    write("tokyo.md", "# 東京\n\n寿司が好き。\n")
    memory.sync()
    result = memory.search("寿司")
    assert ([hit.path for hit in result.hits], result.mode) == (["tokyo.md"], Mode.KEYWORD)


def test_nothing_found_exits_with_one(cli: Cli, write: Write) -> None:
    """A sentence on stderr, nothing on stdout."""
    for path, text in NOTES.items():
        write(path, text)
    cli("sync")
    answer = cli("search", "zzzqqqxxx")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "nothing found" in answer.stderr
