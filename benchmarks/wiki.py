"""Make a wiki of link lists, one link a line, from the words of other Markdown.

    python -m benchmarks.wiki SOURCE TARGET          1,063 notes, 16 MB

Equal sources give equal notes. The sizes are distributed as in a real wiki of this kind: the 20 largest of 1,063 notes
hold a fifth of the text.
"""

from __future__ import annotations

import math
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import NormalDist

NOTES = 1_063
WIKI_BYTES = 16_000_000
SPREAD = 1.2
"""Standard deviation of the logarithms of the notes' sizes."""
TOPICS = 40
NESTED = 0.15
"""Share of the items that belong to the item above them."""
DATES = tuple(range(2019, 2026))

_WORD = re.compile(r"[A-Za-z][a-z']{1,14}")


def make_wiki(source: Path, target: Path) -> int:
    """Write NOTES notes with about WIKI_BYTES in total under `target`; return how many bytes were written.

    They consist of runs of words of the Markdown under `source`, so that tokenizer and model work as on real text.
    """
    words = [word for file in sorted(source.rglob("*.md")) for word in _WORD.findall(file.read_text(errors="replace"))]
    written = 0
    for number, own_size in enumerate(_sizes()):
        chance = random.Random(number)
        title = _title(words, chance)
        path = target / f"topic-{number % TOPICS:02d}" / f"{_slug(title)}-{number:04d}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "\n".join(_lines(words, chance, title, own_size)) + "\n"
        path.write_text(text, encoding="utf-8")
        written += len(text.encode())
    return written


def _sizes() -> list[int]:
    """Return the bytes of each note: log-normal, in random order."""
    normal = NormalDist()
    weights = [math.exp(SPREAD * normal.inv_cdf((number + 0.5) / NOTES)) for number in range(NOTES)]
    random.Random(NOTES).shuffle(weights)
    return [int(WIKI_BYTES * weight / sum(weights)) for weight in weights]


def _lines(words: list[str], chance: random.Random, title: str, size: int) -> Iterator[str]:
    """Yield the lines of one note: two sentences, then lists under headings and sub-headings."""
    opening = [f"# {title}", "", f"{_run(words, chance, 18).capitalize()}. {_run(words, chance, 14).capitalize()}.", ""]
    yield from opening
    left = size - sum(len(line) + 1 for line in opening)
    level = 2
    while left > 0:
        heading = f"{'#' * level} {_title(words, chance)}"
        items = list(_items(words, chance, min(left, chance.randrange(800, 8_000))))
        yield from (heading, "", *items, "")
        left -= len(heading) + 3 + sum(len(item) + 1 for item in items)
        level = chance.choice((2, 3, 3))


def _items(words: list[str], chance: random.Random, size: int) -> Iterator[str]:
    """Yield the items of one list, some nested."""
    is_first = True
    while size > 0:
        name = _title(words, chance)
        year = f" ({chance.choice(DATES)})" if chance.random() < 0.3 else ""
        address = f"https://{_slug(_run(words, chance, 1))}.example/{_slug(name)}/{chance.randrange(10**6)}"
        item = f"- [{name}]({address}){year} - {_run(words, chance, chance.randrange(6, 19)).capitalize()}."
        item = f"  {item}" if not is_first and chance.random() < NESTED else item
        yield item
        size -= len(item) + 1
        is_first = False


def _run(words: list[str], chance: random.Random, length: int) -> str:
    start = chance.randrange(len(words) - length)
    return " ".join(words[start : start + length])


def _title(words: list[str], chance: random.Random) -> str:
    return _run(words, chance, chance.randrange(1, 4)).title()


def _slug(text: str) -> str:
    return text.lower().replace(" ", "-").replace("'", "")


if __name__ == "__main__":
    print(f"{make_wiki(Path(sys.argv[1]), Path(sys.argv[2])):,} bytes")
