"""`memsync eval`: questions with known answers give known figures, and asking them leaves no trace."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memsync.errors import UsageError
from memsync.features.evaluation.evaluator import AskedQuestion, Bin, measured
from memsync.features.evaluation.measures import area_under_roc, bins_of, highest_floor
from memsync.features.evaluation.questions import Question, paths_besides, questions_of, read_questions, without_answers
from memsync.memory import Memory
from memsync.model.vocabulary import Mode, NotePath
from tests.conftest import PROJECT, Parse, Run, Write

KNOWN = [NotePath("a.md"), NotePath("b.md")]


def lines(*rows: Any) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def asked(rank: int, score: float, *, answerable: bool = True) -> AskedQuestion:
    """Return a question with ten hits of falling score, of which that at `rank` has the answer."""
    answers = (("a.md", 1, 1),) if answerable else ()
    hits = tuple(("a.md" if place == rank else "b.md", 1, 1) for place in range(1, 11))
    scores = tuple(score - place / 1000 for place in range(10))
    return AskedQuestion(Question("q", answers, "here"), hits, scores, 5.0)


def figures(*found: AskedQuestion) -> dict[str, float]:
    return {figure.name: figure.value for figure in measured(found, Mode.HYBRID, 0.01).figures}


# --------------------------------------------------------------------------------------------- a file


def test_answers_are_paths_lines_and_ranges() -> None:
    """Each form means what a citation of a search means; a path alone is the whole note."""
    (question,) = read_questions(lines({"question": "q", "answers": ["a.md", "b.md:12", "./b.md:3-9"]}), "f", KNOWN)
    whole, line, part = question.answers
    assert (whole[0], whole[1], line, part) == ("a.md", 1, ("b.md", 12, 12), ("b.md", 3, 9))
    assert whole[2] > 10**9


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "f line 2: this is not a question"),
        ("[" * 100_000, "f line 2: this is not a question"),
        ("\udcff", "f line 2: this is not a question"),
        ('{"question": " ", "answers": []}', "f line 2: this is not a question: it is empty"),
        ('{"question": "q"}', "f line 2: this is not a question: Object missing required field `answers`"),
        ('{"question": "q", "answers": ["a.md:9-3"]}', "an answer is PATH, PATH:LINE or PATH:FIRST-LAST"),
        ('{"question": "q", "answers": [3]}', "f line 2: this is not a question: Expected `str`, got `int`"),
        ('{"question": "q", "answers": [""]}', "an answer is PATH, PATH:LINE or PATH:FIRST-LAST"),
        ('{"question": "q", "answers": ["c.md:3"]}', "f line 2: there is no note 'c.md'"),
        (" ", "f holds no questions"),
    ],
)
def test_a_line_that_is_no_question_is_named(line: str, said: str) -> None:
    """With its number, blank lines counted, and what is wrong with it. No figures are made of nothing."""
    with pytest.raises(UsageError) as error:
        read_questions(f"\n{line}\n".encode("utf-8", "surrogateescape"), "f", KNOWN)
    assert said in error.value.message


# --------------------------------------------------------------------------------------------- headings


def test_a_heading_asks_for_its_section_and_all_under_it(parse: Parse) -> None:
    """Headings of one telling word, of several sections, or without text under them ask nothing."""
    text = (
        "# Pricing\n\nx\n\n## Choice of store\n\nSQLite.\n\n### Why\n\nx\n\n## Open questions\n\nx\n\n## No old part\n"
    )
    (question,) = questions_of([parse(text), parse("## Open questions\n\ny\n", "b.md")], 100)
    assert (question.text, question.answers) == ("Choice of store", (("note.md", 5, 11),))
    hopeless = without_answers(question)
    assert (hopeless.text, hopeless.answers, hopeless.without) == ("Choice of store", (), "note.md")


def test_equal_notes_give_equal_questions_in_any_order(parse: Parse) -> None:
    """The content decides which are drawn."""
    notes = [parse(f"# Grey heron number{n}\n\nText.\n", f"n{n}.md") for n in range(9)]
    drawn = questions_of(notes, 6)
    assert len(drawn) == 6
    assert drawn == questions_of(notes[::-1], 6)


PATHS = st.text("ab]-[*?^", min_size=1, max_size=5)


@given(PATHS, st.lists(PATHS, max_size=8))
@example("a]-b", ["a]-", "a]-bc", "a]xb"])
def test_globs_match_every_path_but_the_one_left_out(missing: str, others: list[str]) -> None:
    """Whatever characters are in the paths: those of globs, too."""
    import apsw

    database = apsw.Connection(":memory:")
    globs = paths_besides(missing)
    for path in [missing, *others]:
        passed = any(database.execute("SELECT ? GLOB ?", (path, glob)).fetchone()[0] for glob in globs)  # type: ignore[index]  # because SELECT gives a row
        assert passed == (path != missing)


# -------------------------------------------------------------------------------------------- measures


def test_figures_are_those_that_one_can_work_out_by_hand() -> None:
    """Ranks 1, 2, 6 and none: a quarter first, half among five, three quarters among ten."""
    found = figures(asked(1, 0.9), asked(2, 0.9), asked(6, 0.9), asked(0, 0.9))
    assert found["recall@1"] == 0.25
    assert found["recall@5"] == 0.5
    assert found["recall@10"] == 0.75
    assert found["MRR@10"] == pytest.approx((1 + 1 / 2 + 1 / 6) / 4)
    assert "AUC" not in found


def test_auc_is_the_chance_that_an_answerable_question_scores_higher() -> None:
    """Three of four pairs in order and one tie: 3.5 of 4."""
    scores = [asked(1, 0.9), asked(1, 0.5), asked(0, 0.5, answerable=False), asked(0, 0.2, answerable=False)]
    assert figures(*scores)["AUC"] == 0.875
    assert area_under_roc([0.5], [0.5]) == 0.5


def test_calibration_counts_each_question_in_one_tenth() -> None:
    """0 is in the first, 1 in the last, and a tenth without questions is left out."""
    found = bins_of([(0.0, False), (0.05, True), (0.5, True), (1.0, True)])
    assert [(low, high, len(pairs)) for low, high, pairs in found] == [(0.0, 0.1, 2), (0.5, 0.6, 1), (0.9, 1.0, 1)]


def test_the_highest_floor_loses_one_in_a_hundred() -> None:
    """Of 100 scores the lowest may go and the next may not; of 99 none may."""
    scores = [n / 1000 for n in range(100, 200)]
    assert highest_floor(scores) == 0.101
    assert highest_floor(scores[:99]) == 0.1


def test_a_floor_says_what_it_loses_and_silences() -> None:
    """A hit goes by its own score: the answer may be lost although a better hit is shown."""
    found = [asked(1, 0.3), asked(3, 0.401), asked(0, 0.2, answerable=False), asked(0, 0.3)]
    said = measured(found, Mode.HYBRID, 0.4)
    assert (said.floor.lost, said.floor.answered, said.floor.silenced, said.floor.unanswerable) == (2, 2, 1, 1)
    assert said.suggested is not None
    assert (said.suggested.score, said.suggested.lost, said.suggested.silenced) == (0.3, 0, 1)
    assert measured([asked(0, 0.1)], Mode.HYBRID, 0.0).reason == "no question was answered"
    assert "min_score does not apply" in measured(found, Mode.KEYWORD, 0.4).reason


def test_latency_is_that_of_searches_in_the_whole_memory() -> None:
    """A search that leaves out notes costs more than anybody's; it counts only where there are no others."""
    plain = asked(1, 0.9)
    without = replace(plain, question=replace(plain.question, without="b.md"), milliseconds=50.0)
    assert measured([plain, without], Mode.HYBRID, 0.0).p95_ms == 5.0
    assert measured([without], Mode.HYBRID, 0.0).p95_ms == 50.0


# -------------------------------------------------------------------------------------------- the command


def test_a_small_vault_gives_known_figures(run: Run, write: Write, tmp_path: Path) -> None:
    """Two of three are found first; the third asks for what no note says."""
    write("a.md", "# Birds\n\nThe heron eats fish.\n")
    write("b.md", "# Tools\n\nThe hammer is in the shed.\n")
    rows = [
        {"question": "heron", "answers": ["a.md:3"]},
        {"question": "hammer", "answers": ["b.md"]},
        {"question": "heron", "answers": ["b.md:3"]},
        {"question": "violin", "answers": []},
    ]
    (tmp_path / "q.jsonl").write_bytes(lines(*rows))
    code, out, _ = run("eval", str(tmp_path / "q.jsonl"))
    assert code == 0
    assert "3 questions with an answer, 1 without\n" in out
    assert "recall@1   0.667 [" in out
    assert "MRR@10     0.667 [" in out


def test_json_is_one_document_with_what_is_documented(run: Run, write: Write, tmp_path: Path) -> None:
    """Its keys are those that docs/programs.md names."""
    write("a.md", "# Birds\n\nThe heron eats fish.\n")
    (tmp_path / "q.jsonl").write_bytes(lines({"question": "heron", "answers": ["a.md:3"]}))
    code, out, _ = run("eval", str(tmp_path / "q.jsonl"), "--json")
    document = json.loads(out)
    assert code == 0
    assert set(document) == {"questions", "measured", "warnings"}
    page = (PROJECT / "docs" / "programs.md").read_text()
    section = page.partition("\n- `eval`: ")[2].partition("\n## ")[0]
    keys = {*document, *document["questions"], *document["measured"], *document["measured"]["floor"]}
    keys |= {*document["measured"]["figures"][0], *Bin.__dataclass_fields__}
    assert {key for key in keys if f'"{key}"' not in section} == set()


def test_an_answer_at_a_line_that_its_note_does_not_have_is_an_error(run: Run, write: Write, tmp_path: Path) -> None:
    """Else a note that was edited since would count as one that is never found."""
    write("a.md", "heron\n")
    for line, expected in ((1, 0), (2, 0), (3, 2)):
        (tmp_path / "q.jsonl").write_bytes(lines({"question": "heron", "answers": [f"a.md:{line}"]}))
        code, _, err = run("eval", str(tmp_path / "q.jsonl"))
        assert code == expected, err
    assert "q.jsonl line 1: a.md has no line 3" in err


def test_a_wrong_line_is_an_error_and_prints_nothing(run: Run, write: Write, tmp_path: Path) -> None:
    """A question that no search understands is one, too."""
    write("a.md", "heron\n")
    good = {"question": "heron", "answers": ["a.md"]}
    (tmp_path / "q.jsonl").write_bytes(lines(good, {"question": "tags:work", "answers": ["a.md"]}))
    code, out, err = run("eval", str(tmp_path / "q.jsonl"))
    assert (code, out) == (2, "")
    assert 'q.jsonl line 2: Unknown filter "tags:"' in err
    code, out, err = run("eval", str(tmp_path / "none.jsonl"))
    assert (code, out) == (2, "")


def test_a_vault_that_asks_nothing_is_an_error(run: Run, write: Write) -> None:
    """With advice to write questions."""
    write("a.md", "heron\n")
    code, out, err = run("eval")
    assert (code, out) == (2, "")
    assert "no questions can be made of these notes" in err


def test_asking_counts_as_no_use_and_writes_no_note(run: Run, root: Path, write: Write) -> None:
    """`stats` knows of no search afterwards, and every file has the stamp it had."""
    write("a.md", "# The grey heron\n\nIt eats fish.\n")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in root.rglob("*")}
    assert run("eval")[0] == 0
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in root.rglob("*")} == before
    assert json.loads(run("stats", "--json")[1])["searches"] == 0


def test_an_unanswerable_question_is_asked_without_its_notes(memory: Memory, write: Write) -> None:
    """Its hits are of other notes only, and eval sees those of any score."""
    write("a.md", "# The grey heron\n\nIt eats fish.\n")
    write("b.md", "# An old hammer\n\nIt is in the shed.\n")
    memory.sync()
    evaluator = memory.evaluator()
    found = evaluator.ask(evaluator.generated(10, lambda *_: None), lambda *_: None)
    assert len(found) == 4
    assert [one.rank for one in found if one.question.answers] == [1, 1]
    for one in found:
        assert one.question.without not in {path for path, _, _ in one.hits}
        assert one.hits
