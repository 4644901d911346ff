"""`memsync eval`."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import click

from memsync.cli.common import answering, load, name_of, opened_here, progress_on_stderr, say_waiting
from memsync.cli.output import CommandAnswer
from memsync.errors import UsageError
from memsync.model.text import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memsync.features.evaluation.evaluator import AskedQuestion, Floor, Measured
    from memsync.features.evaluation.questions import Question
    from memsync.ports import Progress
    from memsync.settings.load import Settings

SECTION = "Upkeep"

GENERATED = 200
MAX_BYTES = 64_000_000
WAIT_SECONDS = 600.0
FEW_ANSWERS = 100
"""With fewer answered questions, one of them is more than the 1 % that a suggested floor may lose."""


@click.command("eval")
@click.argument("file", type=click.File("rb"), required=False)
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help=f"Maximum number of questions to generate (default: {GENERATED}).",
)
@answering
def eval_(context: click.Context, file: BinaryIO | None, limit: int | None) -> CommandAnswer:
    """Measure how well searches find answers in the notes, with the questions of FILE (-: standard input).

    \b
    memsync eval
    MEMSYNC_SEARCH_MODE=keyword memsync eval questions.jsonl

    Each line of FILE is a question and the places that answer it; any one of them will do. None: nothing answers it.

    \b
    {"question": "which store did we choose", "answers": ["decisions/store.md:3-9"]}
    {"question": "who plays the piano", "answers": []}

    Without FILE, memsync makes questions of headings. They contain words of the notes that answer them, so they are
    easier than real questions and favour search by word. eval counts no retrievals and writes no notes.
    """
    settings = load(context)
    name = None if file is None else name_of(file)
    content = None if file is None else file.read(MAX_BYTES + 1)
    if content is not None and len(content) > MAX_BYTES:
        raise UsageError(f"{name} has more than {MAX_BYTES // 1_000_000} MB", hint="Ask fewer questions at once.")
    if content is not None and limit is not None:
        raise UsageError("--limit is for generated questions, not for FILE", hint="Leave one of them out.")
    with progress_on_stderr() as progress:
        questions, asked, warnings = _asked(context, content, name, limit or GENERATED, progress)
    return _answer(name, questions, asked, settings, warnings)


def _asked(
    context: click.Context, content: bytes | None, file: str | None, limit: int, progress: Progress
) -> tuple[list[Question], list[AskedQuestion], list[str]]:
    """Index changed notes; return the questions, their answers, and warnings."""
    with opened_here(context) as memory:
        report = memory.sync(progress=progress, wait_seconds=WAIT_SECONDS, on_wait=say_waiting)
        failed = dict.fromkeys(f"{failure.path}: {failure.reason}" for failure in report.failed)
        evaluator = memory.evaluator()
        if content is not None:
            questions = evaluator.from_file(content, "standard input" if file == "-" else str(file))
        else:
            questions = evaluator.generated(limit, progress)
        asked = evaluator.ask(questions, progress)
    return questions, asked, [*{**failed, **evaluator.warnings}]


# ------------------------------------------------------------------------------------------------- output


def _answer(
    file: str | None,
    questions: Sequence[Question],
    asked: Sequence[AskedQuestion],
    settings: Settings,
    warnings: Sequence[str],
) -> CommandAnswer:
    from memsync.features.evaluation.evaluator import measured
    from memsync.model.vocabulary import Mode

    run = measured(asked, Mode(settings["search.mode"]), settings["search.min_score"])
    unanswerable = sum(not question.answers for question in questions)
    answerable = len(questions) - unanswerable
    warnings = [*warnings, *_cautions(run, is_generated=file is None)]
    lines = [f"{count(answerable, 'question')} with an answer, {unanswerable} without"]
    if file is None:
        again = f"{unanswerable} asked again without the notes that answer them"
        lines = [f"{count(answerable, 'question')} made of headings, {again}"]
    lines += [f"{one.name:<10} {one.value:.3f} [{one.low:.3f}, {one.high:.3f}]" for one in run.figures]
    lines += [f"{'latency':<10} p50 {run.p50_ms:.1f} ms, p95 {run.p95_ms:.1f} ms", *_calibration(run)]
    counted = {"file": file, "answerable": answerable, "unanswerable": unanswerable}
    return CommandAnswer({"questions": counted, "measured": run, "warnings": warnings}, lines, warnings)


def _cautions(run: Measured, *, is_generated: bool) -> Iterator[str]:
    """Yield why a suggested floor may be wrong."""
    if run.suggested is None:
        return
    if is_generated:
        yield "Titles find their notes more easily than questions do: ask your own before you raise min_score."
    if run.suggested.answered < FEW_ANSWERS:
        yield f"Few questions were answered ({run.suggested.answered}): the suggested min_score is a rough guess."


def _calibration(run: Measured) -> Iterator[str]:
    if not run.calibration:
        return
    yield from ("", "first hit's score  questions  mean score  answered")
    for row in run.calibration:
        yield f"{f'{row.low:.1f} to {row.high:.1f}':<17}  {row.questions:>9}  {row.score:>10.2f}  {row.answered:>8.2f}"
    yield f"min_score {run.floor.score:g} (now): {_effect(run.floor)}"
    if run.suggested is None:
        yield f"No other min_score is suggested: {run.reason}."
    else:
        yield f"min_score {run.suggested.score:g} (suggested): {_effect(run.suggested)}"


def _effect(floor: Floor) -> str:
    lost = f"loses {floor.lost} of {count(floor.answered, 'answered question')}"
    if not floor.unanswerable:
        return lost
    return f"{lost}, silences {floor.silenced} of {floor.unanswerable} without an answer"
