"""Make the snippet of a hit: the lines around the matched words, and where the matches are. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from memsync.model.words import WORD
from memsync.notes.entry_text import stem

MAX_SNIPPET_CHARS = 300
_IN_A_COMPOUND = frozenset(("", " ", "-", "\u2010", "\u2011"))
"""What may be between the parts of one word."""
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u31f0-\u9fff\uac00-\ud7af\uf900-\ufaff]")


def mark(text: str, stems: frozenset[str]) -> list[tuple[int, int, str]]:
    """Return (start, end, stem) of each word of `text` whose stem is one of `stems`, in order.

    In scripts without spaces it finds stems anywhere. Of `oncall` it marks `on-call`, too.
    """
    words = list(WORD.finditer(text))
    beginnings = _beginnings(stems)
    places = [(*word.span(), own) for word in words if (own := stem(word.group())) in stems]
    for first, second in pairwise(words):
        if first.group().lower() in beginnings and text[first.end() : second.start()] in _IN_A_COMPOUND:
            own = stem(first.group() + second.group())
            places += [(first.start(), second.end(), own)] * (own in stems)
    for part in stems:
        if part.endswith("*"):
            places += [(*word.span(), part) for word in words if word.group().lower().startswith(part[:-1])]
        if not part.isascii() and _UNSPACED.match(part):
            places += [(match.start(), match.end(), part) for match in re.finditer(re.escape(part), text)]
    return list(_disjoint(sorted(places)))


@lru_cache(maxsize=8)
def _beginnings(stems: frozenset[str]) -> frozenset[str]:
    return frozenset(part[:length] for part in stems for length in range(1, len(part) + 1))


def stems_of(words: Sequence[str]) -> frozenset[str]:
    """Return the stems of a query's words and phrases; a word such as `roo*`, which may go on, stays as it is."""
    return frozenset(stem(part) for word in words for part in ([word] if word.endswith("*") else WORD.findall(word)))


def holds_all(text: str, stems: frozenset[str]) -> bool:
    """Tell whether a text has words with all these stems; False without stems."""
    return bool(stems) and {word_stem for _, _, word_stem in mark(text, stems)} == stems


def make_snippet(text: str, stems: frozenset[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return up to MAX_SNIPPET_CHARS around the best line, and the (start, end) of matched words in it.

    The best line is the first with the most different stems.
    """
    lines = text.split("\n")
    stems_in = [len({word_stem for _, _, word_stem in mark(line, stems)}) for line in lines]
    first = last = stems_in.index(max(stems_in))
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
    return snippet, tuple((start, end) for start, end, _ in mark(snippet, stems))


def _around_most_words(text: str, stems: frozenset[str]) -> str:
    """Return the part of a long line with the most different stems."""
    words = mark(text, stems)
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
