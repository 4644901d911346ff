"""Make the snippet of a hit: the lines around the matched words, and where the matches are. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memsync.notes.entry_text import stem

MAX_SNIPPET_CHARS = 300
_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u31f0-\u9fff\uac00-\ud7af\uf900-\ufaff]")


@dataclass(frozen=True, slots=True)
class Marked:
    """A text, and the query's words in it as (start, end, stem), in order."""

    text: str
    words: tuple[tuple[int, int, str], ...]


def mark(text: str, stems: frozenset[str]) -> Marked:
    """Find every word of `text` whose stem is one of `stems`; in scripts without spaces, find stems anywhere."""
    begun = [part for part in stems if part.endswith("*")]
    places = []
    for word in _WORD.finditer(text):
        own = stem(word.group())
        places += [(word.start(), word.end(), own)] if own in stems else []
        places += [(word.start(), word.end(), part) for part in begun if word.group().lower().startswith(part[:-1])]
    for part in stems:
        if not part.isascii() and _UNSPACED.match(part):
            places += [(match.start(), match.end(), part) for match in re.finditer(re.escape(part), text)]
    return Marked(text, tuple(_disjoint(sorted(places))))


def stems_of(words: Sequence[str]) -> frozenset[str]:
    """Return the stems of a query's words and phrases; a word such as `roo*`, which may go on, stays as it is."""
    return frozenset(stem(part) for word in words for part in ([word] if word.endswith("*") else _WORD.findall(word)))


def holds_all(text: str, stems: frozenset[str]) -> bool:
    """Tell whether a text has words with all these stems; False without stems."""
    return bool(stems) and {word_stem for _, _, word_stem in mark(text, stems).words} == stems


def _best_line(marked: Marked) -> int:
    """Return the number, from 0, of the first line with the most different stems."""
    stems: dict[int, set[str]] = {}
    line, position = 0, 0
    for start, _, word_stem in marked.words:
        line += marked.text.count("\n", position, start)
        position = start
        stems.setdefault(line, set()).add(word_stem)
    return max(stems, key=lambda line: len(stems[line]), default=0)


def make_snippet(marked: Marked, stems: frozenset[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return up to MAX_SNIPPET_CHARS around the best line, and the (start, end) of matched words in it."""
    lines = marked.text.split("\n")
    first = last = _best_line(marked)
    size = len(lines[first])
    while True:
        if last + 1 < len(lines) and size + len(lines[last + 1]) < MAX_SNIPPET_CHARS:
            last += 1
            size += len(lines[last]) + 1
        elif first > 0 and size + len(lines[first - 1]) < MAX_SNIPPET_CHARS:
            first -= 1
            size += len(lines[first]) + 1
        else:
            break
    snippet = "\n".join(line.rstrip() for line in lines[first : last + 1] if line.strip())
    if len(snippet) > MAX_SNIPPET_CHARS:
        snippet = _around_most_words(snippet, stems)
    return snippet, tuple((start, end) for start, end, _ in mark(snippet, stems).words)


def _around_most_words(text: str, stems: frozenset[str]) -> str:
    """Return the part of a long line with the most different stems."""
    words = mark(text, stems).words
    reach = MAX_SNIPPET_CHARS * 3 // 4

    def stems_from(number: int) -> int:
        near = words[number : number + reach // 2]  # a word has at least one letter, and a space before the next
        return len({word_stem for start, _, word_stem in near if start < words[number][0] + reach})

    best = max(range(len(words)), key=stems_from, default=-1)
    start = max(0, words[best][0] - MAX_SNIPPET_CHARS // 4) if words else 0
    if start:
        start = text.find(" ", start, start + 40) + 1 or start
    end = min(len(text), start + MAX_SNIPPET_CHARS)
    if end < len(text):
        end = text.rfind(" ", start + MAX_SNIPPET_CHARS // 2, end)
        end = end if end > 0 else start + MAX_SNIPPET_CHARS
    return "… " * (start > 0) + text[start:end] + " …" * (end < len(text))


def _disjoint(places: Sequence[tuple[int, int, str]]) -> Iterator[tuple[int, int, str]]:
    reached = 0
    for start, end, word_stem in places:
        if start >= reached:
            yield start, end, word_stem
            reached = end
