"""The part of a hit that shows why it was found, with the matched words marked. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

MAX_SNIPPET_CHARS = 300
_WORD = re.compile(r"[^\W_]+")
_SUFFIX = re.compile(r"(?<=\w{3})(?:ings?|edly|ed|ers?|es|ies|ly|s|y|e)$")


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """Return a word without a common English ending: enough to mark `chosen`'s relatives, not to search by."""
    return _SUFFIX.sub("", word.lower())


def matched_spans(text: str, stems: frozenset[str]) -> list[tuple[int, int]]:
    """Return (start, end) of every word of `text` whose stem is in `stems`; unspaced scripts match anywhere."""
    spans = [found.span() for found in _WORD.finditer(text) if stem(found.group()) in stems]
    for word in stems:
        if not word.isascii():
            spans += [found.span() for found in re.finditer(re.escape(word), text, re.IGNORECASE)]
    return _merged(sorted(spans))


def best_line_share(text: str, stems: frozenset[str]) -> float:
    """Return the largest share of `stems` that stand together in one line of `text`."""
    if not stems:
        return 0.0
    found = (len({stem(word) for word in _WORD.findall(line)} & stems) for line in text.split("\n"))
    return max(found, default=0) / len(stems)


def make_snippet(text: str, words: Sequence[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return up to MAX_SNIPPET_CHARS of `text` around its best line, and the (start, end) of matched words in it."""
    stems = frozenset(stem(part) for word in words for part in _WORD.findall(word))
    lines = [line.rstrip() for line in text.split("\n")]
    best = max(range(len(lines)), key=lambda i: (len({stem(w) for w in _WORD.findall(lines[i])} & stems), -i))
    first = last = best
    size = len(lines[best])
    while True:
        if last + 1 < len(lines) and size + len(lines[last + 1]) < MAX_SNIPPET_CHARS:
            last += 1
            size += len(lines[last]) + 1
        elif first > 0 and size + len(lines[first - 1]) < MAX_SNIPPET_CHARS:
            first -= 1
            size += len(lines[first]) + 1
        else:
            break
    snippet = "\n".join(line for line in lines[first : last + 1] if line.strip())
    if len(snippet) > MAX_SNIPPET_CHARS:
        snippet = _around_first_match(snippet, stems)
    return snippet, tuple(matched_spans(snippet, stems))


def _around_first_match(text: str, stems: frozenset[str]) -> str:
    spans = matched_spans(text, stems)
    start = max(0, (spans[0][0] if spans else 0) - MAX_SNIPPET_CHARS // 4)
    if start:
        start = text.find(" ", start, start + 40) + 1 or start
    end = min(len(text), start + MAX_SNIPPET_CHARS)
    if end < len(text):
        end = (
            text.rfind(" ", start + MAX_SNIPPET_CHARS // 2, end)
            if " " in text[start + MAX_SNIPPET_CHARS // 2 : end]
            else end
        )
    return "… " * (start > 0) + text[start:end] + " …" * (end < len(text))


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
