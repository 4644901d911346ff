"""What the hooks of agents recall: answerable prompts that hear their answer, and others that hear something."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import fmean, median
from uuid import uuid4

from benchmarks import everyday, quality
from benchmarks.figures import Row, in_turn, seconds
from benchmarks.measures import Question, read_questions
from benchmarks.memories import MEMSYNC, opened, own_user_folders, serving
from memsync.agents.ingest import ingest
from memsync.features.evaluation.measures import interval
from memsync.memories.hook_answer import Recaller
from memsync.memory import Through, open_memory
from memsync.settings.load import settings_of
from memsync.settings.roots import TRANSCRIPTS, RegisteredRoot, add, registered_roots, remove_root
from memsync.wiring import make_token_counter

RUNS = 40
DAYS = Path(__file__).parent / "data" / "recall.json"
"""Memories of people's work, each with prompts by what a right answer says; some say it in a conversation."""
_PLACE = re.compile(r"^- [a-z]+:(.+?):(\d+)(?:-(\d+))?(?: \([^)]*\))?: ", re.MULTILINE)


def hooks(data: Path, state: Path) -> list[Row]:
    """Ask facts and three small memories what they know and what they do not know; then take the time of a hook."""
    with own_user_folders(state / "hooks"):
        facts = read_questions(data / "facts" / "questions.jsonl")
        coding = [question.text for question in read_questions(data / "faq" / "questions.jsonl")]
        firing: list[bool] = []
        useful: list[bool] = []
        tokens = lines = 0
        for root, answerable, others in _memories(data, state):
            with _recalling(root, state) as recall:
                for prompt, is_answer in answerable.items():
                    text = recall(prompt)
                    answers = [is_answer(*place) for place in _places(text)]
                    useful.append(any(answers))
                    lines += sum(answers)
                    tokens += make_token_counter().count([text])[0]
                firing += [bool(recall(prompt)) for prompt in others]
        with _recalling(data / "facts" / "notes", state) as recall:
            day = [bool(recall(prompt)) for prompt in coding]
            known = [bool(recall(question.text)) for question in facts]
        return [
            Row(f"recall: of {len(useful)} answerable prompts, those that hear an answer", fmean(useful), "≥ 0.7",
                fmean(useful) >= 0.7, interval([float(value) for value in useful])),
            Row(f"recall: of {len(firing)} others, those that hear something", fmean(firing), "≤ 0.05",
                fmean(firing) <= 0.05),
            Row(f"recall: of {len(day)} coding questions over facts, those that hear something", fmean(day), "≤ 0.03",
                fmean(day) <= 0.03),
            Row("recall: questions about these facts that hear something", fmean(known), "printed"),
            Row("recall: tokens for each useful line", tokens / max(1, lines), "printed"),
            *_days(data, state),
            *_times(data, [question.text for question in facts]),
        ]  # fmt: skip


Answers = Callable[[str, int, int], bool]


def _memories(data: Path, state: Path) -> Iterator[tuple[Path, dict[str, Answers], list[str]]]:
    """Yield roots with the prompts that they answer, what tells an answer by its lines, and other prompts."""
    facts = read_questions(data / "facts" / "questions.jsonl")
    others = [question.text for question in read_questions(data / "faq" / "questions.jsonl")]
    root = quality._facts_among_notes(data, state)
    answers: dict[str, Answers] = {question.text: partial(_states, question) for question in facts}
    yield root, answers, others
    for memory in json.loads(everyday.DATA.read_text(encoding="utf-8"))["memories"]:
        root = everyday._written(memory, state)
        answers = {prompt: partial(_holds, root, words) for prompt, words in memory["answerable"].items()}
        yield root, answers, memory["unanswerable"]


def _states(question: Question, path: str, first: int, last: int) -> bool:
    lines = {(path, line) for line in range(first, last + 1)}
    return any(not lines.isdisjoint(stating) for stating in question.evidence)


def _holds(root: Path, words: str, path: str, first: int, last: int) -> bool:
    return words in "\n".join((root / path).read_text(encoding="utf-8").split("\n")[first - 1 : last])


def _places(text: str) -> Iterable[tuple[str, int, int]]:
    return [(path, int(first), int(last or first)) for path, first, last in _PLACE.findall(text)]


def _days(data: Path, state: Path) -> list[Row]:
    """Ask memories of people's work over their notes alone, and with the conversations of FOLDER/transcripts."""
    rows: list[Row] = []
    heard: dict[str, list[float]] = {}
    tokens: dict[bool, list[int]] = {False: [], True: []}
    for memory in json.loads(DAYS.read_text(encoding="utf-8"))["memories"]:
        root = everyday._written(memory, state)
        kept = _kept(data / "transcripts", root, state / f"{memory['name']}-conversations")
        said = [item for by_phrase in memory["conversations"].values() for item in by_phrase.items()]
        for with_conversations in (False, True):
            kinds = {"rules": memory["rules"].items(), "facts": memory["facts"].items()}
            kinds |= {"conversations": said} if with_conversations else {}
            with _recalling(root, state, kept if with_conversations else None) as recall:
                for kind, phrases in kinds.items():
                    answers = [(phrase, recall(prompt)) for phrase, prompts in phrases for prompt in prompts]
                    right = [float(_says(answer, phrase)) for phrase, answer in answers]
                    heard.setdefault(f"{kind} {with_conversations}", []).extend(right)
                    tokens[with_conversations] += [make_token_counter().count([answer])[0] for _, answer in answers]
                noise = [float(bool(recall(prompt))) for prompt in memory["nothing"]]
                heard.setdefault(f"nothing {with_conversations}", []).extend(noise)
    for with_conversations, least in ((False, 0.9), (True, 0.8)):
        over = "a day's notes" + " and conversations" * with_conversations
        of = {key.split()[0]: values for key, values in heard.items() if key.endswith(str(with_conversations))}
        noise = of.pop("nothing")
        right = [value for values in of.values() for value in values]
        parts = ", ".join(f"{kind} {fmean(values):.2f}" for kind, values in of.items())
        spent = median(filter(None, tokens[with_conversations]))
        rows += [
            Row(f"recall over {over}: of {len(right)} prompts, those that hear the answer ({parts})", fmean(right),
                f"≥ {least}", fmean(right) >= least, interval(right)),
            Row(f"recall over {over}: of {len(noise)} others, those that hear something", fmean(noise), "≤ 0.07",
                fmean(noise) <= 0.07, interval(noise)),
            Row(f"recall over {over}: tokens of a recall, median", spent, "≤ 120", spent <= 120),
        ]  # fmt: skip
    return rows


def _says(answer: str, phrase: str) -> bool:
    said, *phrases = (" ".join(re.findall(r"\w+", text)) for text in (answer, *phrase.split(" | ")))
    return any(phrase in said for phrase in phrases)


def _kept(transcripts: Path, project: Path, kept: Path) -> Path:
    """Take in transcripts, as if all sessions had been held in one project."""
    for name in registered_roots():
        remove_root(name)
    kept.mkdir(exist_ok=True)
    add(RegisteredRoot(TRANSCRIPTS, str(kept)))
    ingest([str(transcripts)])
    for thread in (kept / "threads").glob("*.md"):
        text = re.sub(r"^(?:project|cwd|folder): .*\n", "", thread.read_text(encoding="utf-8"), flags=re.MULTILINE)
        place = "".join(f"{key}: {json.dumps(str(project.resolve()))}\n" for key in ("project", "folder"))
        thread.write_text(text.replace("---\n", f"---\n{place}", 1), encoding="utf-8")
    return kept


@contextmanager
def _recalling(root: Path, state: Path, kept: Path | None = None) -> Iterator[Callable[[str], str]]:
    """Yield a function that answers a prompt as a hook does, each in a session of its own; `kept` are conversations."""
    with opened(root, state) as memory:
        memory.sync()
        _register(root)
        if kept is not None:
            add(RegisteredRoot(TRANSCRIPTS, str(kept)))
            with open_memory(settings_of(registered_roots()[TRANSCRIPTS]), Through.HERE) as conversations:
                conversations.sync()
        recaller = Recaller(memory)

        def recall(prompt: str) -> str:
            payload = json.dumps({"session_id": uuid4().hex, "prompt": prompt})
            return recaller.answer("claude-code", "prompt", payload, str(root)).text

        yield recall
        recaller.close()


def _register(root: Path) -> None:
    """Make a folder the only and default memory."""
    for name in registered_roots():
        remove_root(name)
    add(RegisteredRoot("memory", str(root), default=True))


def _times(data: Path, prompts: list[str]) -> list[Row]:
    """Compare a hook, as a whole process, with `import click`."""
    root = Path(os.environ["XDG_CONFIG_HOME"]).parent / "hooked"
    shutil.copytree(data / "facts" / "notes", root, dirs_exist_ok=True)
    _register(root)
    remaining = iter(prompts)
    slow: list[float] = []

    def hook() -> None:
        event = json.dumps({"session_id": uuid4().hex, "cwd": str(root), "prompt": next(remaining)}).encode()
        command = [*MEMSYNC, "hook", "prompt", "--agent", "claude-code"]
        slow.append(seconds(subprocess.run, command, input=event, check=True, capture_output=True))

    def click() -> None:
        subprocess.run([sys.executable, "-c", "import click"], check=True)

    with serving(root):
        hook()
        ours, theirs, ratio = in_turn(hook, click, RUNS)
    p95 = sorted(slow[2:])[int(0.95 * RUNS)] * 1000
    return [
        Row("hook: a prompt, whole process, over import click", f"{ratio:.2f} × ({ours * 1000:.0f} ms over "
            f"{theirs * 1000:.0f} ms)", "≤ 1.6 ×", ratio <= 1.6),
        Row("hook: p95, ms", p95, "≤ 150", p95 <= 150),
    ]  # fmt: skip
