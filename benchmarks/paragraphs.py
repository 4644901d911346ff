"""Questions about paragraphs in other languages (XQuAD), for the multilingual model.

For each `languages/xquad.LANGUAGE.json` of the data folder, a note is an article, and a section is a paragraph under a
heading that is only a number. Is the paragraph the first hit, asked in its language and in English?
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

from benchmarks.figures import Row
from benchmarks.memories import opened
from memsync.errors import EmbedderError
from memsync.features.evaluation.measures import Range, answer_rank, reciprocal
from memsync.wiring import make_embedder

OWN, IN_ENGLISH = 0.93, 0.75
ENGLISH = "en"


def asked_in_both(data: Path, state: Path) -> list[Row]:
    """Ask every question of each language's paragraphs, in the language and in English."""
    texts = {path.name.split(".")[1]: path for path in sorted((data / "languages").glob("xquad.*.json"))}
    if ENGLISH not in texts:
        return [Row("paragraphs", f"skipped: no languages/xquad.{ENGLISH}.json in the data folder")]
    try:
        make_embedder("multilingual")
    except EmbedderError as error:
        return [Row("paragraphs", f"skipped: {error.message}")]
    questions = {language: _questions(path) for language, path in texts.items()}
    rows = []
    for language, path in texts.items():
        root = state / f"paragraphs-{language}"
        places = _write_notes(root, path)
        with opened(root, state, embedder_model="multilingual", search_min_score="0") as memory:
            memory.sync()
            for asked_in in dict.fromkeys((language, ENGLISH)):
                ranks = []
                for number, place in places.items():
                    hits = memory.search(questions[asked_in][number]).hits
                    ranks.append(answer_rank([(hit.path, hit.start_line, hit.end_line) for hit in hits], [place]))
                first, target = fmean(rank == 1 for rank in ranks), OWN if asked_in == language else IN_ENGLISH
                measure = f"paragraphs in {language}, {len(ranks)} questions in {asked_in}"
                rows.append(Row(f"{measure}: hit@1", first, f"≥ {target:g}", first >= target))
                rows.append(Row(f"{measure}: MRR@10", fmean(map(reciprocal, ranks))))
    return rows


def _questions(path: Path) -> dict[str, str]:
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    return {asked["id"]: asked["question"] for a in articles for p in a["paragraphs"] for asked in p["qas"]}


def _write_notes(root: Path, path: Path) -> dict[str, Range]:
    """Write a note for each article; return the place of the paragraph that answers each question."""
    root.mkdir(parents=True, exist_ok=True)
    places: dict[str, Range] = {}
    for number, article in enumerate(json.loads(path.read_text(encoding="utf-8"))["data"], 1):
        name, lines = f"{number:02}.md", [f"# {number}", ""]
        for section, paragraph in enumerate(article["paragraphs"], 1):
            lines += [f"## {section}", "", *paragraph["context"].lstrip("\ufeff").split("\n"), ""]
            first = len(lines) - paragraph["context"].count("\n") - 1
            places |= {asked["id"]: (name, first, len(lines) - 1) for asked in paragraph["qas"]}
        (root / name).write_text("\n".join(lines), encoding="utf-8")
    return places
