"""Ask a memory questions with known answers, without counting that as use, and measure its hits."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from memsync.errors import EmbedderError, NoteError, UsageError
from memsync.features.evaluation.measures import (
    MEASURES,
    Range,
    answer_rank,
    area_under_roc,
    bins_of,
    highest_floor,
    interval,
    mean_of,
    middle,
    resampled_areas,
)
from memsync.features.evaluation.questions import Question, paths_besides, questions_of, read_questions, without_answers
from memsync.model.note import Note
from memsync.model.query import Query, SearchRequest
from memsync.model.vocabulary import Fresh, Mode, NotePath
from memsync.notes.decode import BinaryFileError
from memsync.notes.parse import parse_note
from memsync.ports import Progress, active_space
from memsync.search.retrievals import percentile
from memsync.workspace import Workspace

HITS = 10
AUC = "AUC"


@dataclass(frozen=True, slots=True)
class Figure:
    """The mean of a measure over the questions, with its 95 % bootstrap interval."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Bin:
    """Questions whose first hit has a score from `low` to `high`: their number, mean score and answered share."""

    low: float
    high: float
    questions: int
    score: float
    answered: float


@dataclass(frozen=True, slots=True)
class Floor:
    """The effect of `search.min_score` = `score`: `lost` of `answered` questions, `silenced` of `unanswerable` ones.

    An answered question is lost when no hit with its answer is still shown. An unanswerable question is silenced when
    no hit is shown.
    """

    score: float
    lost: int
    answered: int
    silenced: int
    unanswerable: int


@dataclass(frozen=True, slots=True)
class Measured:
    """The measures; latencies are in milliseconds, figures from 0 to 1.

    `suggested` is None if no floor can be suggested; `reason` says why.
    """

    figures: tuple[Figure, ...]
    p50_ms: float
    p95_ms: float
    calibration: tuple[Bin, ...]
    floor: Floor
    suggested: Floor | None
    reason: str


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question and its first hits: their places and scores."""

    question: Question
    hits: tuple[Range, ...]
    scores: tuple[float, ...]
    milliseconds: float

    @property
    def rank(self) -> int:
        """The rank (from 1) of the first hit with an answer, 0 for none."""
        return answer_rank(self.hits, self.question.answers)

    @property
    def score(self) -> float:
        """The score of the first hit, 0 without any."""
        return self.scores[0] if self.scores else 0.0

    def survives(self, *, answering: bool) -> float:
        """Return the highest floor that still shows a hit (`answering`: a hit with an answer); -inf without any."""
        shown = (
            score
            for hit, score in zip(self.hits, self.scores, strict=True)
            if not answering or answer_rank((hit,), self.question.answers)
        )
        return max(shown, default=-math.inf)


class Evaluator:
    """Asks one memory; `warnings` are those of its answers."""

    def __init__(self, memory: Workspace) -> None:
        self._memory = memory
        self.warnings: dict[str, None] = {}

    def from_file(self, content: bytes, name: str) -> list[Question]:
        """Return the questions of a file. Raises UsageError, with the line, for a question that cannot be asked."""
        with self._memory.as_of_now() as (reader, _):
            known = [note.path for note in reader.notes()]
        questions = read_questions(content, name, known)
        for question in questions:
            self._query(question)
            self._check_lines(question)
        return questions

    def _check_lines(self, question: Question) -> None:
        """Raise UsageError for an answer whose note has fewer lines."""
        for path, _, last in question.answers:
            if last == sys.maxsize:
                continue
            try:
                lines = self._memory.files.read(NotePath(path))[0].count(b"\n") + 1
            except (OSError, NoteError):
                continue  # no search finds a note that is gone or unreadable
            if last > lines:
                raise UsageError(f"{question.source}: {path} has no line {last}", hint="Was the note edited since?")

    def generated(self, limit: int, progress: Progress) -> list[Question]:
        """Return at most `limit` questions made from the notes' headings, and these without their answers.

        If the model may run on another machine, local-only notes are left out, because it gets every question.
        """
        questions = questions_of(self._notes(progress), limit)
        if not questions:
            raise UsageError(
                "no questions can be made of these notes: they have no headings of several words",
                hint='Write questions to a file: {"question": "…", "answers": ["note.md:3"]}, one a line',
            )
        return [*questions, *map(without_answers, questions)]

    def _notes(self, progress: Progress) -> Iterator[Note]:
        """Yield the notes of which questions may be made."""
        with self._memory.as_of_now() as (index, _):
            paths = [note.path for note in index.notes() if not note.archived]
        reader, is_remote = self._memory.reader, self._asks_elsewhere()
        for number, path in enumerate(paths, 1):
            try:
                content, _ = self._memory.files.read(path)
                note = parse_note(path, content, reader.rules)
            except (OSError, NoteError, BinaryFileError):  # it was just deleted or changed
                continue
            if not (is_remote and note.local_only):
                yield note
            progress("reading notes", number, len(paths))

    def _asks_elsewhere(self) -> bool:
        """Tell whether a model that answers questions now or after the next sync may run on another machine."""
        try:
            spaces = [self._memory.models.configured().space]
        except EmbedderError:
            return True
        active = active_space(self._memory.index)
        return any(space.is_remote for space in [*spaces, *filter(None, [active])])

    def ask(self, questions: Sequence[Question], progress: Progress) -> list[AskedQuestion]:
        """Ask all questions of the index as it is, without counting that as use. Raises UsageError."""
        if not questions:
            return []
        self._hits(self._query(questions[0]))  # loads the model, so that the first latency does not include that
        asked = []
        for number, question in enumerate(questions, 1):
            asked.append(self._ask(question))
            progress("asking", number, len(questions))
        return asked

    def _ask(self, question: Question) -> AskedQuestion:
        query = self._query(question)
        started_at = time.perf_counter()
        hits = self._hits(query)
        milliseconds = (time.perf_counter() - started_at) * 1000
        return AskedQuestion(
            question,
            tuple((str(hit.path), hit.start_line, hit.end_line) for hit in hits),
            tuple(hit.score for hit in hits),
            milliseconds,
        )

    def _hits(self, query: Query) -> tuple[Any, ...]:
        result = self._memory.fresh_search.answer_uncounted(query)
        self.warnings.update(dict.fromkeys(result.warnings))
        return result.hits

    def _query(self, question: Question) -> Query:
        besides = tuple(("path", glob) for glob in (paths_besides(question.without) if question.without else ()))
        request = SearchRequest(question.text, limit=HITS, min_score=0.0, fresh=Fresh.NONE, filters=besides)
        try:
            return self._memory.parse(request)
        except UsageError as error:
            raise UsageError(f"{question.source}: {error.message}", hint=error.hint) from None


def measured(asked: Sequence[AskedQuestion], mode: Mode, min_score: float) -> Measured:
    """Return the measures of the answers under the current `mode` and `min_score`."""
    answerable = [answer for answer in asked if answer.question.answers]
    unanswerable_scores = [answer.score for answer in asked if not answer.question.answers]
    figures = []
    for name, measure in MEASURES.items() if answerable else ():
        values = [measure(answer.rank) for answer in answerable]
        figures.append(Figure(name, mean_of(values), *interval(values)))
    if answerable and unanswerable_scores:
        scores = ([answer.score for answer in answerable], unanswerable_scores)
        figures.append(Figure(AUC, area_under_roc(*scores), *middle(resampled_areas(*scores))))
    timed = [answer for answer in asked if not answer.question.without] or asked
    milliseconds = [answer.milliseconds for answer in timed]
    floor = _floor(asked, 0.0 if mode is Mode.KEYWORD else min_score)
    suggested, reason = _suggested(asked, mode, floor)
    graded = [] if mode is Mode.KEYWORD else [(answer.score, answer.rank > 0) for answer in asked]
    return Measured(
        tuple(figures),
        percentile(milliseconds, 0.5),
        percentile(milliseconds, 0.95),
        tuple(
            Bin(low, high, len(pairs), mean_of([score for score, _ in pairs]), mean_of([yes for _, yes in pairs]))
            for low, high, pairs in bins_of(graded)
        ),
        floor,
        suggested,
        reason,
    )


def _suggested(asked: Sequence[AskedQuestion], mode: Mode, current: Floor) -> tuple[Floor | None, str]:
    """Return the highest floor that loses at most 1 % of the answered questions, or why there is none."""
    if mode is Mode.KEYWORD:
        return None, "in keyword mode scores are not probabilities, and min_score does not apply"
    survived = [answer.survives(answering=True) for answer in asked if answer.rank]
    if not survived:
        return None, "no question was answered"
    floor = _floor(asked, highest_floor(survived))
    if (floor.lost, floor.silenced) == (current.lost, current.silenced):
        return None, "the current one does as well"
    return floor, ""


def _floor(asked: Sequence[AskedQuestion], score: float) -> Floor:
    answered = [answer for answer in asked if answer.rank]
    unanswerable = [answer for answer in asked if not answer.question.answers]
    return Floor(
        score,
        sum(answer.survives(answering=True) < score for answer in answered),
        len(answered),
        sum(answer.survives(answering=False) < score for answer in unanswerable),
        len(unanswerable),
    )
