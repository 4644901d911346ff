"""Measure searches for known items: a person types words that a note contains, and expects that line or note first.

It asks every folder for the first eight words of a line, the two rarest words of a line, titles, and titles with the
name of their folder, all without quotes. The lines are prose: 50 to 400 characters, beginning with a letter, without a
link. No other file has the eight words in this order, no other line the two rare words, and no other note the title.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path, PurePosixPath
from statistics import fmean

from benchmarks.figures import Row
from benchmarks.knowledge import make_wiki
from benchmarks.memories import opened
from memsync.features.evaluation.measures import answer_rank, interval
from memsync.memory import Memory
from memsync.model.vocabulary import Mode
from memsync.search.stop_words import STOP_WORDS

SEED = 11
ASKED = 150
"""Questions of each kind for each folder."""
WIKI_NOTES = 250
FIRST_WORDS = 8
RARE_LETTERS = 4
TITLE_WORDS = 6
HITS = 10
TARGETS = {"eight words": 0.90, "two rare words": 0.90, "title": 0.95, "title and folder": 0.95}

_PROSE = re.compile(r"[^\W\d_][^\n]{49,399}")
_LINK = re.compile(r"\]\(|\]\[|\[\[|://")
_FENCE = re.compile(r"^ {0,3}(```|~~~).*?^ {0,3}\1[^\n]*$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#{1,6}) +(.*?)[ #]*$", re.MULTILINE)
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Known:
    """The words to type, and the line that contains them; the whole note if the line is 0."""

    kind: str
    typed: str
    path: str
    line: int


def known_items(data: Path, state: Path) -> list[Row]:
    """Ask the RFCs, the FAQ and a wiki of links."""
    wiki = state / "verbatim-wiki"
    if not wiki.exists():
        make_wiki(data / "rfcs", wiki, notes=WIKI_NOTES)
    rows: list[Row] = []
    for name, root in (("rfcs", data / "rfcs"), ("faq", data / "faq" / "notes"), ("wiki of links", wiki)):
        with opened(root, state) as memory:
            memory.sync()
            rows += _rows(name, memory, list(known_in(root)))
    return rows


def _rows(name: str, memory: Memory, asked: list[Known]) -> Iterator[Row]:
    for mode in (Mode.HYBRID, Mode.KEYWORD):
        for kind, target in TARGETS.items():
            ranks = [_rank(memory, known, mode) for known in asked if known.kind == kind]
            if not ranks:
                continue
            first, third, tenth = ([float(0 < rank <= k) for rank in ranks] for k in (1, 3, HITS))
            measure = f"{name}, {len(ranks)} × {kind}, {mode.value}: first / in 3 / in 10"
            shares = f"{fmean(first):.3f} / {fmean(third):.3f} / {fmean(tenth):.3f}"
            low, high = interval(first)
            yield Row(measure, f"{shares} [{low:.3f}, {high:.3f}]", f"≥ {target:g}", fmean(first) >= target)


def _rank(memory: Memory, known: Known, mode: Mode) -> int:
    """Return the rank of the first hit in the right place, from 1; 0 if there is none."""
    place = (known.path, known.line or 1, known.line or 10**9)
    hits = memory.search(known.typed, mode=mode, limit=HITS).hits
    return answer_rank([(hit.path, hit.start_line, hit.end_line) for hit in hits], [place])


def known_in(root: Path) -> Iterator[Known]:
    """Yield the known items of a folder: for each kind at most ASKED, chosen at random with a fixed seed."""
    files = {path.relative_to(root).as_posix(): _lines(path) for path in sorted(root.rglob("*.md"))}
    chance = random.Random(SEED)
    titles = _titles(files)
    for of_kind in (_first_words(files, chance), _rare_words(files, chance), titles, _in_folders(titles)):
        yield from chance.sample(of_kind, min(ASKED, len(of_kind)))


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").split("\n")


def _prose(lines: list[str]) -> list[tuple[int, str]]:
    """Return the lines of prose with their numbers."""
    return [(n, line) for n, line in enumerate(lines, 1) if _PROSE.fullmatch(line) and not _LINK.search(line)]


def _first_words(files: dict[str, list[str]], chance: random.Random) -> list[Known]:
    """Return for each file the first words of one line, if no other file has them in this order."""
    texts = {path: " ".join(_WORD.findall(" ".join(lines).lower())) for path, lines in files.items()}
    found = []
    for path, lines in files.items():
        prose = _prose(lines)
        chance.shuffle(prose)
        for number, line in prose[:5]:
            words = line.split()[:FIRST_WORDS]
            run = " ".join(_WORD.findall(" ".join(words).lower()))
            if len(words) == FIRST_WORDS and sum(run in text for text in texts.values()) == 1:
                found.append(Known("eight words", " ".join(words), path, number))
                break
    return found


def _rare_words(files: dict[str, list[str]], chance: random.Random) -> list[Known]:
    """Return for each file the two rarest words of one line of prose, if no other line has both."""
    notes_with = Counter(word for lines in files.values() for word in set(_WORD.findall(" ".join(lines).lower())))
    lines_with: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for path, lines in files.items():
        for number, line in enumerate(lines, 1):
            for word in set(_WORD.findall(line.lower())):
                lines_with[word].add((path, number))
    found = []
    for path, lines in files.items():
        prose = _prose(lines)
        chance.shuffle(prose)
        for number, line in prose[:5]:
            long = {w for w in _WORD.findall(line.lower()) if len(w) >= RARE_LETTERS and w.isalpha()}
            rarest = sorted(long, key=lambda word: (notes_with[word], word))[:2]
            both = [lines_with[a] & lines_with[b] for a, b in combinations(rarest, 2)]
            if both == [{(path, number)}]:
                found.append(Known("two rare words", " ".join(rarest), path, number))
                break
    return found


def _titles(files: dict[str, list[str]]) -> list[Known]:
    """Return the first heading of each note that has one hash, if no other note has it as a heading."""
    headings = {
        path: [match.groups() for match in _HEADING.finditer(_FENCE.sub("", "\n".join(lines)))]
        for path, lines in files.items()
    }
    notes_with = Counter(name.lower() for of_note in headings.values() for name in {name for _, name in of_note})
    titles = {path: next((name for hashes, name in of_note if hashes == "#"), "") for path, of_note in headings.items()}
    return [
        Known("title", title, path, 0)
        for path, title in titles.items()
        if title and len(title.split()) <= TITLE_WORDS and notes_with[title.lower()] == 1
    ]


def _in_folders(titles: list[Known]) -> list[Known]:
    """Return titles without stop words after the name of their folder, as people type them who do not remember more."""
    found = []
    for known in titles:
        words = [word for word in _WORD.findall(known.typed) if word.lower() not in STOP_WORDS]
        folder = PurePosixPath(known.path).parent.name
        if folder and len(words) > 1:
            found.append(Known("title and folder", f"{folder} {' '.join(words)}", known.path, 0))
    return found
