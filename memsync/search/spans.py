"""Join scored entries into the spans that become hits. Pure.

Entries are taken best first, in tiers of TIER_ENTRIES. Within a tier, neighbouring entries with about equal scores
become one span: so neighbours are one hit, and a budget of tokens is not spent on the same lines twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from memsync.model.note import Entry
from memsync.model.query import IndexedChunk
from memsync.model.vocabulary import Form, Kind, NotePath
from memsync.search.rank import Scored

TIER_ENTRIES = 25
MAX_SPAN_TOKENS = 600
MAX_GAP_LINES = 2
LINE_SHARE = 0.7
"""The next line of a conversation joins a span if the lower score is at least this share of the higher one."""
ENTRY_SHARE = 0.8
"""The same for any other entry, in the same section or in the next."""


@dataclass(frozen=True, slots=True)
class Span:
    """Neighbouring entries of one note, which become one hit.

    `best` is the entry with the best score; `chunks` are all chunks that found the entries.
    """

    entries: tuple[Entry, ...]
    best: Scored
    chunks: tuple[IndexedChunk, ...]

    @property
    def score(self) -> float:
        """The best entry's score."""
        return self.best.score

    @property
    def shown(self) -> IndexedChunk:
        """The best entry's chunk."""
        return self.best.chunk

    @property
    def parts(self) -> dict[str, float]:
        """What the best entry's score is the sum of: the retrievers' score, and the amount for each reason."""
        best = self.best
        amounts = {reason: amount for reason, amount in best.added.items() if round(amount, 3)}
        return {"retrievers": best.plain, **amounts} if best.added else {}

    @property
    def start_line(self) -> int:
        """The first line of the first entry."""
        return self.entries[0].start_line

    @property
    def end_line(self) -> int:
        """The last line of the last entry."""
        return self.entries[-1].end_line


def form_spans(ranked: Sequence[Scored]) -> Iterator[Span]:
    """Yield the spans of ranked entries, best first within each tier, tiers in order; ties go to path, then line."""
    for start in range(0, len(ranked), TIER_ENTRIES):
        spans = [_span(run) for run in _neighbours(ranked[start : start + TIER_ENTRIES])]
        yield from sorted(spans, key=lambda span: (-round(span.score, 9), span.shown.path, span.start_line))


def _place(scored: Scored) -> tuple[NotePath, int, int]:
    return scored.chunk.path, scored.chunk.section, scored.entry.position


def _neighbours(tier: Sequence[Scored]) -> Iterator[list[Scored]]:
    """Yield runs of neighbouring entries, each of at most MAX_SPAN_TOKENS (or one entry)."""
    run: list[Scored] = []
    total = 0
    for scored in sorted(tier, key=_place):
        tokens = scored.entry.token_count
        touches = run and (_continues(run[-1], scored) or _follows(run[-1], scored))
        if run and not (touches and total + tokens <= MAX_SPAN_TOKENS):
            yield run
            run, total = [], 0
        run.append(scored)
        total += tokens
    if run:
        yield run


def _continues(left: Scored, right: Scored) -> bool:
    """Tell whether `right` is the next entry of the same section with nearly the same score.

    A piece of a line is always a span of its own, and so is a heading or a line of front matter.
    """
    path, section, position = _place(left)
    if _place(right) != (path, section, position + 1) or _stands_alone(left) or _stands_alone(right):
        return False
    return _alike(left, right, LINE_SHARE if left.in_conversation else ENTRY_SHARE)


def _follows(left: Scored, right: Scored) -> bool:
    """Tell whether `right` begins the next section of the same text with about the same score.

    List items are not joined across sections, and messages not across speakers.
    """
    if (right.chunk.path, right.chunk.section) != (left.chunk.path, left.chunk.section + 1):
        return False
    pair = (left, right)
    if left.chunk.kind == Kind.THREAD or any(_stands_alone(s) or s.in_conversation or s.is_fact for s in pair):
        return False
    near = right.entry.start_line - left.entry.end_line <= MAX_GAP_LINES
    return near and _alike(left, right, ENTRY_SHARE)


def _stands_alone(scored: Scored) -> bool:
    return scored.chunk.end_column > 0 or Form(scored.chunk.form).is_words_only


def _alike(left: Scored, right: Scored, share: float) -> bool:
    """Tell whether two entries are of the same origin, hold alike, and have nearly the same score.

    The scores are compared with and without the bonus for literal words, which is so large that all lines with a typed
    word would be alike.
    """
    if left.chunk.origin != right.chunk.origin or left.validity != right.validity:
        return False
    scores = [(side.score, side.score - side.added.get("wording", 0.0)) for side in (left, right)]
    return all(min(pair) >= share * max(pair) for pair in zip(*scores, strict=True))


def _span(run: Sequence[Scored]) -> Span:
    best = max(run, key=lambda scored: scored.score)
    chunks: Mapping[int, IndexedChunk] = {chunk.chunk_id: chunk for scored in run for chunk in scored.chunks}
    return Span(tuple(scored.entry for scored in run), best, tuple(chunks.values()))
