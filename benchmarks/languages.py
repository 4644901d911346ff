"""Questions about facts in five languages, in the fact's own language and in English, for both built-in models.

There are 40 facts in each language, each about something else, and for each a question that shares few words with it.
First each model ranks all facts by cosine, without keywords. Then the facts are lines of daily logs, in mixed order,
and memsync searches for them as usual: is the line the first hit?
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean, median

import numpy as np

from benchmarks.figures import Row, seconds
from benchmarks.memories import opened
from memsync.errors import EmbedderError
from memsync.ports import Embedder
from memsync.wiring import make_embedder, make_token_counter

DATA = Path(__file__).parent / "data" / "languages.jsonl"
MODELS = ("minilm", "multilingual")
ROUNDS = 5
PASSAGES = 60
FACTS_A_DAY = 5
FACTS_A_PASSAGE = 12
"""About 200 word pieces, as passages of a large vault have."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A fact in some language, with its questions."""

    language: str
    fact: str
    question: str
    question_en: str


def both_models(state: Path) -> list[Row]:
    """Ask both models, in each language and in all languages, search with them, and time them in turn."""
    try:
        embedders = {model: make_embedder(model) for model in MODELS}
    except EmbedderError as error:
        return [Row("languages", f"skipped: {error.message}")]
    entries = [Entry(**json.loads(line)) for line in DATA.read_text(encoding="utf-8").splitlines()]
    hits = {model: _hits(embedder, entries) for model, embedder in embedders.items()}
    rows = []
    for number, asked_in in enumerate(("its own language", "English")):
        for language in [*dict.fromkeys(entry.language for entry in entries), ""]:
            chosen = [place for place, entry in enumerate(entries) if language in ("", entry.language)]
            for model in MODELS:
                measure = f"{language or 'all five languages'}, asked in {asked_in}: hit@1, {model}"
                rows.append(Row(measure, fmean(float(hits[model][number, place]) for place in chosen)))
    root = state / "languages"
    places = _write_logs(root, entries)
    for model in MODELS:
        rows += _searched(root, state / model, model, entries, places)
    return rows + _speeds(embedders, entries)


def _write_logs(root: Path, entries: list[Entry]) -> list[str]:
    """Write the facts as lines of daily logs, in mixed order; return where each of them is."""
    order = list(range(len(entries)))
    Random(1).shuffle(order)
    places = [""] * len(entries)
    (root / "daily").mkdir(parents=True, exist_ok=True)
    for day, start in enumerate(range(0, len(order), FACTS_A_DAY)):
        date = f"2026-{day // 28 + 1:02}-{day % 28 + 1:02}"
        lines = [f"# {date}", ""]
        for number in order[start : start + FACTS_A_DAY]:
            lines.append(f"- {entries[number].fact}")
            places[number] = f"daily/{date}.md:{len(lines)}"
        (root / "daily" / f"{date}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return places


def _searched(root: Path, state: Path, model: str, entries: list[Entry], places: list[str]) -> list[Row]:
    rows = []
    with opened(root, state, embedder_model=model) as memory:
        memory.sync()
        for asked_in, attribute in (("its own language", "question"), ("English", "question_en")):
            first = [memory.search(getattr(entry, attribute)).hits[:1] for entry in entries]
            are_first = [[hit.citation for hit in hits] == [place] for hits, place in zip(first, places, strict=True)]
            measure = f"all five as lines of daily logs, searched in {asked_in}: line hit@1, {model}"
            rows.append(Row(measure, fmean(are_first)))
    return rows


def _hits(embedder: Embedder, entries: list[Entry]) -> np.ndarray:
    """Return whether each fact is nearest to its question, and to its English one; shape (2, facts)."""
    facts = np.stack(embedder.embed_passages([entry.fact for entry in entries]))
    own = np.stack([embedder.embed_query(entry.question) for entry in entries])
    english = np.stack([embedder.embed_query(entry.question_en) for entry in entries])
    places = np.arange(len(entries))
    return np.stack([(questions @ facts.T).argmax(axis=1) == places for questions in (own, english)])


def _speeds(embedders: dict[str, Embedder], entries: list[Entry]) -> list[Row]:
    facts = [entry.fact for entry in entries if entry.language != "Japanese"]
    passages = [
        " ".join(facts[(number + step) % len(facts)] for step in range(FACTS_A_PASSAGE)) for number in range(PASSAGES)
    ]
    pieces = fmean(make_token_counter().count(passages))
    times: dict[str, list[float]] = {model: [] for model in MODELS}
    for _ in range(ROUNDS):
        for model, embedder in embedders.items():
            times[model].append(seconds(embedder.embed_passages, passages))
    speed = {model: PASSAGES / median(times[model]) for model in MODELS}
    return [
        *(Row(f"passages of {pieces:.0f} word pieces embedded per second, {m}", f"{speed[m]:.0f}") for m in MODELS),
        Row("multilingual's speed over minilm's", speed["multilingual"] / speed["minilm"]),
    ]
