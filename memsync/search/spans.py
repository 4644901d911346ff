"""Scored chunks -> the spans that become hits. Pure.

A log line is found by itself and in the windows over it; both say something, so its score is a mixture of its own
chunk's and its windows' mean. The best entries are then taken in tiers, and those that stand next to each other
become one span: near-identical neighbours are one hit, and a budget of tokens is not spent on the same lines twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from memsync.model import Entry, IndexedChunk, NotePath

OWN_SHARE = 0.4
TIER_ENTRIES = 25
MAX_SPAN_TOKENS = 600
MAX_GAP_LINES = 2
ENTRY_SHARE = 0.7
SECTION_SHARE = 0.8
"""Of the better one's score: what a neighbour must have to be shown with it."""

_Key = tuple[NotePath, int, int]
"""path, section, position: one entry."""


@dataclass(frozen=True, slots=True)
class ScoredChunk:
    """A chunk that was found, with its fused score."""

    chunk: IndexedChunk
    score: float


@dataclass(frozen=True, slots=True)
class Span:
    """Neighbouring entries of one note: what becomes one hit. `chunks` are those that found it, the best first."""

    entries: tuple[Entry, ...]
    score: float
    chunks: tuple[IndexedChunk, ...]

    @property
    def start_line(self) -> int:
        """The first line of the first entry."""
        return self.entries[0].start_line

    @property
    def end_line(self) -> int:
        """The last line of the last entry."""
        return self.entries[-1].end_line


@dataclass(slots=True)
class _Found:
    """What was found of one entry."""

    entry: Entry
    chunks: list[ScoredChunk]
    own: float | None = None
    windows: float = 0.0
    windows_found: int = 0
    piece: bool = False


def form_spans(
    scored: Sequence[ScoredChunk], *, allows: Callable[[IndexedChunk, Entry], bool] = lambda chunk, entry: True
) -> Iterator[Span]:
    """Yield spans, best first within each tier of entries, tiers in order.

    `allows` tells which entries of a chunk may be shown: filters on tags, attributes and times hold for each entry, not
    for its window. A chunk that was not found counts as the lowest score that was. Ties go to path, then line.
    """
    found = _entries(scored, allows)
    lowest = min((item.score for item in scored), default=0.0)
    scores = {key: _score(entry, lowest) for key, entry in found.items()}
    ranked = sorted(scores, key=lambda key: (-round(scores[key], 9), key))
    for start in range(0, len(ranked), TIER_ENTRIES):
        spans = [_span(run, found, scores) for run in _neighbours(ranked[start : start + TIER_ENTRIES], found, scores)]
        yield from sorted(spans, key=lambda span: (-round(span.score, 9), span.chunks[0].path, span.start_line))


def _entries(scored: Sequence[ScoredChunk], allows: Callable[[IndexedChunk, Entry], bool]) -> dict[_Key, _Found]:
    found: dict[_Key, _Found] = {}
    for item in scored:
        chunk = item.chunk
        for entry in chunk.entries:
            if not allows(chunk, entry):
                continue
            one = found.setdefault((chunk.path, chunk.section, entry.position), _Found(entry, []))
            one.chunks.append(item)
            if len(chunk.entries) == 1:
                one.own, one.piece = item.score, chunk.end_column > 0
            else:
                one.windows += item.score
                one.windows_found += 1
    return found


def _score(found: _Found, lowest: float) -> float:
    own = lowest if found.own is None else found.own
    count = found.entry.window_count
    if not count:
        return own
    windows = found.windows + lowest * max(0, count - found.windows_found)
    return OWN_SHARE * own + (1.0 - OWN_SHARE) * windows / count


def _neighbours(keys: Sequence[_Key], found: dict[_Key, _Found], scores: dict[_Key, float]) -> Iterator[list[_Key]]:
    """Yield runs of entries that stand next to each other, none larger than a hit may be."""
    run: list[_Key] = []
    total = 0
    for key in sorted(keys):
        tokens = found[key].entry.token_count
        touches = run and (_continues(run[-1], key, found, scores) or _follows(run[-1], key, found, scores))
        if run and not (touches and total + tokens <= MAX_SPAN_TOKENS):
            yield run
            run, total = [], 0
        run.append(key)
        total += tokens
    if run:
        yield run


def _continues(left: _Key, right: _Key, found: dict[_Key, _Found], scores: dict[_Key, float]) -> bool:
    """Tell whether `right` is the next entry of the same section and answers nearly as well.

    A piece of a line is quoted alone.
    """
    next_entry = left[:2] == right[:2] and right[2] == left[2] + 1
    pieces = found[left].piece or found[right].piece
    return next_entry and not pieces and _alike(scores[left], scores[right], ENTRY_SHARE)


def _follows(left: _Key, right: _Key, found: dict[_Key, _Found], scores: dict[_Key, float]) -> bool:
    """Tell whether `right` begins the next section of the same expository text and answers about as well.

    Entries of a log belong to their section, and messages to their speaker.
    """
    one, other = found[left], found[right]
    if left[0] != right[0] or right[1] != left[1] + 1 or one.piece or other.piece:
        return False
    exposition = not one.entry.window_count and not other.entry.window_count
    same_speaker = not one.chunks[0].chunk.role and not other.chunks[0].chunk.role
    near = other.entry.start_line - one.entry.end_line <= MAX_GAP_LINES
    return exposition and same_speaker and near and _alike(scores[left], scores[right], SECTION_SHARE)


def _alike(one: float, other: float, share: float) -> bool:
    return min(one, other) >= share * max(one, other)


def _span(run: Sequence[_Key], found: dict[_Key, _Found], scores: dict[_Key, float]) -> Span:
    chunks = {item.chunk.chunk_id: item for key in run for item in found[key].chunks}
    best_first = sorted(chunks.values(), key=lambda item: (-item.score, item.chunk.start_line, item.chunk.end_line))
    return Span(
        tuple(found[key].entry for key in run),
        max(scores[key] for key in run),
        tuple(item.chunk for item in best_first),
    )
