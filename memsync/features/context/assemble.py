"""Assemble a context from sources within a token budget. Pure: equal sources, budget and counter give equal text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from memsync.features.context.parts import (
    Marks,
    Passage,
    Source,
    as_shown,
    blocks,
    closing,
    cut_mark,
    label,
    marks_for,
    opening,
    written,
)
from memsync.model.context import Context, ContextPart, ContextPassage, LeftOut
from memsync.model.vocabulary import NotePath

CountTokens = Callable[[Sequence[str]], Sequence[int]]
LEAST_TWICE_CHARS = 20
"""A hit shorter than this is shown even if an equal text was shown: it may mean something else in another note."""
_LONG_WORD = re.compile(r"\S{101,}")
LONGEST_TOKEN_CHARS = 12
"""Estimated letters a token in words of over 100 letters, which the tokenizer counts as one unknown token."""


def assemble(sources: Sequence[Source], budget: int, count: CountTokens) -> Context:
    """Fill a budget of tokens with passages of the sources; show each line once and each passage whole.

    First each source, in order, takes up to its share plus what the sources before it left over. Then the rest of the
    budget goes to them in the same order. A line that an earlier source has shown is not shown again.
    """
    sources = [replace(source, passages=[as_shown(one) for one in source.passages]) for source in sources]
    marks = marks_for(passage for source in sources for passage in source.passages)
    costs = _Costs(count)
    costs.learn([one.text for source in sources if not source.is_unbroken for one in source.passages])
    filled = [_Part(source, marks, costs) for source in sources]
    left, shown = budget, _Shown()
    allowance = 0.0
    for part in filled:
        allowance += part.source.share * budget
        used = part.take(min(int(allowance), left), shown)
        allowance, left = allowance - used, left - used
    for part in filled:
        left -= part.take(left, shown)
    text = "\n".join(filter(None, (written(part.source, part.taken, marks, part.cut) for part in filled)))
    return Context(
        text=text,
        tokens=budget - left,
        budget=budget,
        parts=tuple(part.described() for part in filled if part.taken),
        left_out=tuple(one for part in filled for one in part.left_out()),
    )


class _Costs:
    """Token counts of texts, cached."""

    def __init__(self, count: CountTokens) -> None:
        self._count = count
        self._known: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        if text not in self._known:
            self.learn([text])
        return self._known[text]

    def learn(self, texts: Sequence[str]) -> None:
        """Count and cache many texts in one batch, which is faster."""
        counts = zip(texts, self._count(texts), strict=True)
        self._known.update((text, tokens + _unread(text)) for text, tokens in counts)


class _Part:
    """One source, and the passages taken from it."""

    def __init__(self, source: Source, marks: Marks, costs: _Costs) -> None:
        self.source = source
        self.taken: list[Passage] = []
        self._waiting: Sequence[Passage] = source.passages
        self._marks = marks
        self._costs = costs
        self._tokens = 0
        self._all_of = Counter(passage.path for passage in source.passages)
        self._count: Counter[NotePath] = Counter()
        self._cut: set[NotePath] = set()
        # Blocks of neighbouring passages: (path, position of the first passage) -> the last one, and the reverse.
        self._starts: dict[tuple[str, int], Passage] = {}
        self._ends: dict[tuple[str, int], Passage] = {}

    def take(self, limit: int, shown: _Shown) -> int:
        """Take the passages that fit into `limit` tokens and are not shown yet; return the tokens used."""
        before, waiting = self._tokens, []
        self._cut.clear()
        is_broken = False
        for passage in self._waiting:
            for run in [passage] if is_broken else self._unseen(passage, shown):
                max_cost = self._costs(run.text) + self._label(run, run) + (0 if self.taken else self._frame())
                max_cost += self._mark(run.path, 1) - self._mark(run.path, 0)
                if is_broken or run.path in self._cut or max_cost > limit - (self._tokens - before):
                    waiting.append(run)
                    is_broken = is_broken or self.source.is_unbroken
                    if not self.source.is_quoted:
                        self._cut.add(run.path)
                else:
                    self._take(run)
                    shown.add(run)
        self._waiting = waiting
        return self._tokens - before

    def _take(self, run: Passage) -> None:
        """Take a passage and count its tokens: its text, and how it changes the labels of its block.

        Counts of lines add up, because no token spans two lines.
        """
        self._tokens += self._costs(run.text) + (0 if self.taken else self._frame())
        self._tokens += self._mark(run.path, 1) - self._mark(run.path, 0)
        self.taken.append(run)
        self._count[run.path] += 1
        first = last = run
        if run.position >= 0 and not self.source.in_rank_order:
            before, after = (run.path, run.position - 1), (run.path, run.position + 1)
            if before in self._ends:
                first = self._ends.pop(before)
                self._tokens -= self._label(first, self._starts.pop((run.path, first.position)))
            if after in self._starts:
                last = self._starts.pop(after)
                self._tokens -= self._label(self._ends.pop((run.path, last.position)), last)
            self._starts[run.path, first.position] = last
            self._ends[run.path, last.position] = first
        self._tokens += self._label(first, last)

    def _unseen(self, passage: Passage, shown: _Shown) -> list[Passage]:
        """Return the runs of a passage that are not shown yet; a note lacking only lines shown elsewhere is not cut."""
        runs = shown.without(passage)
        self._tokens -= self._mark(passage.path, 0)
        self._all_of[passage.path] += len(runs) - 1
        self._tokens += self._mark(passage.path, 0)
        return runs

    @property
    def cut(self) -> list[NotePath]:
        """The notes to mark as cut."""
        return [path for path in self._count if self._mark(path, 0)]

    def _mark(self, path: NotePath, more: int) -> int:
        """Return the tokens of the note's cut mark after `more` further passages are taken; 0 if it is not cut then."""
        count = self._count[path] + more
        is_cut = not self.source.is_quoted and 0 < count < self._all_of[path]
        return self._costs(cut_mark(path)) if is_cut else 0

    def _label(self, first: Passage, last: Passage) -> int:
        text = label(first, last, self.source, self._marks)
        return self._costs(text) if text else 0

    def _frame(self) -> int:
        return self._costs(opening(self.source, self._marks)) + self._costs(closing(self.source, self._marks))

    def described(self) -> ContextPart:
        """Return the part as the public ContextPart."""
        ordered = [passage for block in blocks(self.source, self.taken) for passage in block]
        passages = (ContextPassage(*passage[:4], self._costs(passage.text)) for passage in ordered)
        return ContextPart(self.source.name, self._tokens, tuple(passages))

    def left_out(self) -> list[LeftOut]:
        """Return the passages that did not fit, by note, in the order of the source."""
        by_path: dict[NotePath, list[Passage]] = {}
        for passage in self._waiting:
            by_path.setdefault(passage.path, []).append(passage)
        return [LeftOut(self.source.name, path, len(left), self._sum(left)) for path, left in by_path.items()]

    def _sum(self, passages: Sequence[Passage]) -> int:
        self._costs.learn([one.text for one in passages])
        return sum(self._costs(one.text) for one in passages)


def _unread(text: str) -> int:
    """Return the estimated tokens of very long words beyond the one that the tokenizer counts for each."""
    return sum(len(word) // LONGEST_TOKEN_CHARS for word in _LONG_WORD.findall(text)) if len(text) > 100 else 0


class _Shown:
    """The lines that are in the context already."""

    def __init__(self) -> None:
        self._lines: set[_Line] = set()
        self._said: set[tuple[str, int, str]] = set()
        self._texts: set[str] = set()

    def add(self, passage: Passage) -> None:
        """Remember that a passage is shown."""
        lines = _lines(passage)
        self._lines.update(lines)
        self._said.update((line.path, line.number, line.text) for line in lines)
        self._texts.add(passage.text)

    def without(self, passage: Passage) -> list[Passage]:
        """Return the passage, or the runs of its lines that are not shown yet, without blank lines at their ends."""
        is_hit = passage.position < 0
        if is_hit and len(passage.text) >= LEAST_TWICE_CHARS and passage.text in self._texts:
            return []  # an equal text is shown already
        lines = _lines(passage)
        if not any(self._has(line, is_hit=is_hit) for line in lines):
            return [passage]
        runs: list[list[_Line]] = [[]]
        for line in lines:
            if self._has(line, is_hit=is_hit):
                runs.append([])
            else:
                runs[-1].append(line)
        return [
            passage._replace(
                start_line=run[0].number,
                end_line=run[-1].number,
                text="\n".join(line.text for line in run),
                position=-1,
            )
            for run in map(_trimmed, runs)
            if run
        ]

    def _has(self, line: _Line, *, is_hit: bool) -> bool:
        """Tell whether a line is shown; for a hit ignore the column, which hits do not have."""
        if (line.path, line.number, ANY_TEXT) in self._said:
            return True
        return (line.path, line.number, line.text) in self._said if is_hit else line in self._lines


class _Line(NamedTuple):
    """A line, or the piece of an overlong line that begins at `column`."""

    path: str
    number: int
    column: int
    text: str


ANY_TEXT = "\0"
"""Text of a line whose passage does not quote it: a prompt taken from the front matter."""


def _lines(passage: Passage) -> list[_Line]:
    texts = passage.text.split("\n")
    count = passage.end_line - passage.start_line + 1
    if len(texts) != count:
        texts = [ANY_TEXT] * count
    return [_Line(passage.path, number, passage.column, text) for number, text in enumerate(texts, passage.start_line)]


def _trimmed(run: Sequence[_Line]) -> Sequence[_Line]:
    filled = [at for at, line in enumerate(run) if line.text.strip() and line.text != ANY_TEXT]
    return run[filled[0] : filled[-1] + 1] if filled else []
