"""Merge the candidates of both retrievers into scored entries. Pure.

The scores of both retrievers mean the same for every query (model.Candidate), so they are added without scaling.
Scaling each list by its best and worst score would rank equally well, but would make the best hit of a hopeless query
look as good as that of a good one. Small bonuses for properties of an entry are added; each of them helps on several
kinds of notes (docs/measuring.md).
"""

from __future__ import annotations

import math
import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from memsync.model.answer import SUPERSEDED_BY, holds
from memsync.model.filters import Filters
from memsync.model.note import Entry
from memsync.model.query import Candidate, IndexedChunk, TimeHint, is_between, names_tag
from memsync.model.vocabulary import Form, NotePath, Trait, is_remembered, may_instruct
from memsync.notes.entry_text import LINK, stem_number, stems
from memsync.notes.inline import wiki_parts
from memsync.search.question_wording import Wording, asks_about_self, asks_for_answer
from memsync.search.time_hints import asks_when

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_CLOCK = re.compile(r"[T ]\d{2}:\d{2}", re.ASCII)
KEYWORD_WEIGHT = 0.2
"""Weight of the keyword score against the semantic score."""
MEMORY_KEYWORD_WEIGHT = 0.35
"""The same in logs, threads, MEMORY.md and preferences."""
RECENCY = 0.01
"""Maximum recency bonus in the score."""
HALF_LIFE_DAYS = 90
"""Half-life of the recency bonus."""
A_DAY, MAX_DAYS = 2e-9, 50_000
"""Beside that, each day less than so many adds twice the precision of scores: of two old notes one is the newer."""
IMPORTANCE = 0.02
"""Maximum effect of a note's `importance` on the score."""
PINNED = 0.01
"""Bonus in the score for `pinned: true`."""


def entry_filter(
    filters: Filters, in_groups: Set[tuple[int, int]] | None = None
) -> Callable[[IndexedChunk, Entry, int], bool]:
    """Return a predicate that tells whether an entry (numbered from 1) of a chunk that passed the filters may be shown.

    The index lets a window or a group pass if one of its entries passes; the other entries must not be shown.
    `in_groups` has (chunk id, number) of the entries of groups that contain the required words; None: all of them.
    """
    if filters == Filters(archived=filters.archived) and in_groups is None:
        return lambda chunk, entry, number: True

    def allows(chunk: IndexedChunk, entry: Entry, number: int) -> bool:
        if in_groups is not None and chunk.form == Form.GROUP and (chunk.chunk_id, number) not in in_groups:
            return False
        moments = (entry.time or chunk.date, *entry.later)
        if not any(is_between(moment, filters.after, filters.before) for moment in moments):
            return False
        if filters.tags and not any(names_tag(wanted, tag) for tag in entry.tags for wanted in filters.tags):
            return False
        return all(_has(chunk, entry, key, value) for key, value in filters.where)

    return allows


def _has(chunk: IndexedChunk, entry: Entry, key: str, value: str) -> bool:
    """Tell whether an entry matches a pair that its chunk matches: by itself, or by the note's front matter."""
    matching = [candidate for candidate in chunk.entries if _matches(candidate, key, value)]
    return not matching or entry in matching


def _matches(entry: Entry, key: str, value: str) -> bool:
    own = entry.attributes.get(key, "")
    if own.lower() == value.lower() or (key == "class" and value in own.split()):
        return True
    return _DAY.fullmatch(value) is not None and _CLOCK.match(own, len(value)) is not None and own.startswith(value)


SECONDS_A_DAY = 86_400


def prior_of(chunk: IndexedChunk, now: float) -> float:
    """Return the bonus for importance, pins and recency; it is small, so that it decides only near ties."""
    standing = IMPORTANCE * 2.0 * (chunk.importance - 0.5) + PINNED * chunk.pinned
    if not may_instruct(chunk.origin):  # a web page cannot raise its own
        standing = min(standing, 0.0)
    age = age_in_days(chunk, now)
    recency: float = RECENCY * 0.5 ** (age / HALF_LIFE_DAYS) + A_DAY * max(0.0, MAX_DAYS - age)
    return standing + recency


def age_in_days(chunk: IndexedChunk, now: float) -> float:
    """Return the age of a chunk in whole days, by its own date, the note's date or the last change; 0 if in the future.

    `now` is the Unix time. Dates are local dates, as people write them.
    """
    moment = chunk.entries[0].time or chunk.note_date
    if not moment:
        return max(0.0, (now - chunk.changed_ns / 1e9) // SECONDS_A_DAY)
    return float(max(0, date.fromtimestamp(now).toordinal() - _day_number(moment[:10])))


@lru_cache(maxsize=4_096)
def _day_number(day: str) -> int:
    """Return the ordinal of an ISO date; an invalid date (or only a month) counts as very old."""
    try:
        return date.fromisoformat(day).toordinal()
    except ValueError:
        return 1


OPENING = 0.09
"""Bonus for a text whose first words include all those of the question, weighted by their rarity."""
NOTE_BONUS = 0.05
"""Share of the scores of a note's second and third best entries: a note on the topic should precede a mention."""
LOG_NOTE_BONUS = 0.025
"""The same in logs and lists of facts, whose items have less to do with each other."""
SPEAKER = 0.04
"""Bonus for a line by a speaker that the question names; a penalty for a line by anybody else."""
NAMED_TIME = 0.04
"""Bonus for an item that names a time, if the question asks for one."""
DATED_THEN = 0.04
"""Bonus for an entry dated at a time that the question names."""
FACT_LENGTH = 0.08
LINE_LENGTH = 0.03
"""Bonus for each factor of e in the length of a fact, or of a line of a conversation: a longer one says more."""
USUAL_TOKENS, MAX_TOKENS = 11, 40
QUESTION = 0.04
"""Penalty for a line of a conversation, or a message, that asks a question: it answers less."""
OWN_SHARE = 0.3
"""In a conversation: the weight of the line's own score; the rest is the weight of the windows around it."""
READ, READ_BY_WORDS = 10, 30
"""How many of the best entries, and of those with the most words, are read to see how literally they have the words.

If the words are a question, READ counts for both."""
NAMED_SHARE = 0.1
"""The best entry of a note whose title, alias or file name is the question gets the best score and this share of its
own."""
KEYWORD_SCALE = 3.0
"""The range of keyword scores alone, over that of both retrievers' scores together."""
ROLE = 0.2
"""Penalty for a message of an assistant, or for one of a user if the question asks what was answered.

Twice as much if the user asks about what he did himself ("have I ever …"): an assistant knows it only from him."""
PAST = 0.3
"""Share of its score that an entry loses if it does not hold now, unless the question asks for the past."""
NEARBY_LINES = 5
"""Distance in lines within which the words of a conversation count for each other; nearer lines count more."""

# Plain ints: each & of an IntFlag makes an object, and a search does that a thousand times.
_ITEM, _QUESTION, _NAMES_TIME = int(Trait.ITEM), int(Trait.QUESTION), int(Trait.NAMES_TIME)
_WORD = re.compile(r"[^\W_]+")
_POSSESSIVE = re.compile(r"['’]s\b")

_Key = tuple[NotePath, int, int]
"""path, section, position: one entry."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the keyword score against the semantic score, from 0 to 1, for reference notes and for facts."""

    reference: float = KEYWORD_WEIGHT
    memory: float = MEMORY_KEYWORD_WEIGHT


@dataclass(frozen=True, slots=True)
class QuestionWords:
    """The words and times of a question.

    `stems` maps the number of each stem to its weight (idf); `words` are all words in lower case; `times` are the
    times that it names. `asks_for_answer` is whether it asks what an assistant answered, None if roles do not matter;
    `asks_about_self` whether the user asks what he did himself.
    """

    stems: Mapping[int, float]
    words: frozenset[str]
    asks_when: bool
    times: Sequence[TimeHint] = ()
    asks_for_answer: bool | None = None
    asks_about_self: bool = False

    @classmethod
    def of(cls, text: str, weights: Mapping[str, float], times: Sequence[TimeHint] = ()) -> QuestionWords:
        """Parse a question; `weights` has the idf of each word that is looked up."""
        numbers = {stem_number(stem): weight for word, weight in weights.items() for stem in stems(word)}
        words = frozenset(_WORD.findall(_POSSESSIVE.sub("", text.lower())))
        return cls(numbers, words, asks_when(text), times, asks_for_answer(text), asks_about_self(text))

    def share_in(self, numbers: Sequence[int]) -> float:
        """Return the weighted share of the question's words that is among these stems."""
        if self.stems.keys().isdisjoint(numbers):  # most texts begin with none of them
            return 0.0
        present = self.stems.keys() & set(numbers)
        return sum(self.stems[number] for number in present) / sum(self.stems.values())

    def speakers(self, entries: Iterable[Scored]) -> tuple[set[str], set[str]]:
        """Return the speakers that the question names, by any part of their names, and all other speakers.

        Both are empty if it names none of them or all of them.
        """
        speakers = {scored.entry.speaker for scored in entries} - {""}
        named = {speaker for speaker in speakers if not self.words.isdisjoint(speaker.split())}
        return (named, speakers - named) if named and named != speakers else (set(), set())


@dataclass(slots=True)
class Scored:
    """One entry that was found, with the chunk to show and all parts of its score.

    `is_fact`: it is an item of a log or of a list of facts. `cosine` is None if its own vector was not among the
    nearest. `keyword_rank` counts from 1, and is 0 if it was not found by words. `plain` is its score by the retrievers
    alone. `validity` says why it does not hold. `added` has the amount that was added for each reason.
    """

    entry: Entry
    chunk: IndexedChunk
    is_fact: bool
    chunks: list[IndexedChunk] = field(default_factory=list)
    keyword: float = 0.0
    keyword_rank: int = 0
    cosine: float | None = None
    windows: list[float] = field(default_factory=list)
    plain: float = 0.0
    validity: str = ""
    added: dict[str, float] = field(default_factory=dict)
    score: float = 0.0

    def add(self, reason: str, amount: float) -> None:
        """Add an amount to the score."""
        self.added[reason] = amount
        self.score += amount

    @property
    def in_conversation(self) -> bool:
        """Whether it is a line of a conversation (windows contain it)."""
        return self.entry.window_count > 0

    @property
    def telling_score(self) -> float:
        """The score without the amounts for a date and for a role, which do not make a text an answer."""
        return self.score - (self.added.get("dated then", 0.0) + self.added.get("role", 0.0))

    @property
    def is_log(self) -> bool:
        """Whether it is a line of a log, a fact or a message."""
        return self.is_fact or self.entry.window_count > 0 or bool(self.entry.speaker)


class Pool(NamedTuple):
    """The candidates of both retrievers, the chunks that contribute, and which of their entries may be shown.

    Both lists are best first; only the first `contributed` of each contribute chunks. `keyword` may be longer, so that
    chunks found by meaning have a keyword score too; it is 0 for chunks not in the list. A chunk that is not in `near`
    gets the last score of `near`, because it cannot have a higher one. `named` are the ids of chunks of notes whose
    name is the question.
    """

    keyword: Sequence[Candidate]
    near: Sequence[Candidate]
    chunks: Mapping[int, IndexedChunk]
    contributed: int
    allows: Callable[[IndexedChunk, Entry, int], bool]
    named: Sequence[int] = ()


def rank(pool: Pool, question: QuestionWords, weights: Weights, prior: Callable[[IndexedChunk], float]) -> list[Scored]:
    """Return the scored entries of the candidates, best first; ties go to path, then line."""
    by_key = {key: scored for key, scored in _collect(pool).items() if _says_something(scored, question)}
    farthest = pool.near[: pool.contributed][-1].score if pool.near else None
    named, others = question.speakers(by_key.values())
    for key, scored in by_key.items():
        scored.plain = _plain(key, scored, by_key, weights, farthest)
        speaker = SPEAKER * ((scored.entry.speaker in named) - (scored.entry.speaker in others))
        scored.added = _added(scored, question, speaker, prior(scored.chunk))
        scored.score = scored.plain + sum(scored.added.values())
    _add_note_bonus(by_key.values())
    return _best_first(by_key.values())


def by_words(
    ranked: Sequence[Scored], pool: Pool, wording: Wording, text_of: Callable[[Scored], str | None], scale: float
) -> list[Scored]:
    """Return ranked entries in the order in which the literal words of the question count, too.

    The first entries by score and by words are read. `text_of` returns the present text of an entry, None if it has
    changed since it was indexed. `scale` is the range of the scores, about 1 for both retrievers together.
    """
    found = sorted((scored for scored in ranked if scored.keyword_rank), key=lambda scored: scored.keyword_rank)
    found = found[: READ if wording.asks else READ_BY_WORDS]  # of a question only words side by side count
    texts: list[tuple[Scored, str]] = []
    for scored in {id(scored): scored for scored in (*ranked[:READ], *found)}.values():
        text = text_of(scored)
        if text is not None:
            texts.append((scored, text))
            headings = dict.fromkeys((*scored.chunk.heading_path, scored.chunk.title))
            scored.add("wording", scale * wording.bonus(text, list(headings)))
    _lower_headings(ranked)
    _credit_names(_best_of_notes(ranked), texts, wording, scale)
    _raise_named(ranked, {pool.chunks[number].path for number in pool.named if number in pool.chunks})
    return _best_first(ranked)


def _credit_names(
    best: Mapping[NotePath, Scored], texts: Iterable[tuple[Scored, str]], wording: Wording, scale: float
) -> None:
    """Add to the best entry of each note what its title, or a link to it in one of these texts, has of the words."""
    for path, name, around, plain in _names(best, texts):
        scored, bonus = best[path], scale * wording.name_bonus(name, around)
        amount = bonus - scored.added.get("wording", 0.0) + max(plain - scored.plain, 0.0)
        before = scored.added.get("title", 0.0)
        if bonus and amount > before:
            scored.add("title", amount)
            scored.score -= before


def _names(
    best: Mapping[NotePath, Scored], texts: Iterable[tuple[Scored, str]]
) -> Iterator[tuple[NotePath, str, Sequence[str], float]]:
    """Yield the names of notes: (note, name, texts above the name, score that the retrievers gave its entry).

    A name is the title of a note, below its folders, or the text of a link to it, below the headings of its entry.
    """
    for path, scored in best.items():
        if may_instruct(scored.chunk.origin):  # a web page cannot raise its own standing
            yield path, scored.chunk.title, path.split("/")[:-1], scored.plain
    by_stem = {path.rpartition("/")[2].rpartition(".")[0].lower(): str(path) for path in best}
    for scored, text in texts:
        for label, inline, wiki in LINK.findall(text if may_instruct(scored.chunk.origin) else ""):
            name, _, shown = wiki_parts(wiki)
            target = posixpath.normpath(posixpath.join(posixpath.dirname(scored.chunk.path), unquote(inline)))
            path = NotePath(by_stem.get(name.lower().rpartition("/")[2], "") if wiki else target)
            if path in best and path != scored.chunk.path:
                yield path, label or shown, scored.chunk.heading_path, scored.plain


def _best_of_notes(ranked: Iterable[Scored]) -> dict[NotePath, Scored]:
    """Return the best entry of each note; a heading without text only if the note has nothing else."""
    best: dict[NotePath, Scored] = {}
    for scored in ranked:
        rival = best.setdefault(scored.chunk.path, scored)
        best[scored.chunk.path] = max(rival, scored, key=lambda s: (s.chunk.form != Form.HEADING, s.score))
    return best


def _says_something(scored: Scored, question: QuestionWords) -> bool:
    """Tell whether an entry may be a hit: a line of front matter must have a word of the question itself.

    The title and the path of its note are not enough, or `tier: project` would be an answer as good as the note's text.
    """
    is_field = scored.chunk.form == Form.FIELD and not scored.chunk.role
    return not is_field or not question.stems or question.share_in(scored.chunk.opening) > 0.0


def past_last(ranked: Sequence[Scored]) -> list[Scored]:
    """Return ranked entries with those that do not hold lower, and each after what replaces it, if that was found."""
    for scored in ranked:
        if not holds(scored.validity):
            scored.add("past", -PAST * max(scored.score, 0.0))
            before, by, place = scored.validity.partition(SUPERSEDED_BY)
            newer = [one.score for one in ranked if one is not scored and _is_cited(one, place)] if by else []
            if newer and not before and max(newer) <= scored.score:
                scored.add("after its successor", max(newer) - 1e-6 - scored.score)
    return _best_first(ranked)


def _is_cited(scored: Scored, place: str) -> bool:
    """Tell whether a citation is of an entry, or of its note."""
    path, _, lines = place.rpartition(":")
    first = lines.partition("-")[0]
    if scored.chunk.path != path or not first.isdecimal():
        return scored.chunk.path == place
    return scored.entry.start_line <= int(first) <= scored.entry.end_line


def in_order(pool: Pool) -> list[Scored]:
    """Return the entries for a query of filters alone, whose candidates have an order but no scores."""
    by_key = _collect(pool)
    for scored in by_key.values():
        scored.score = scored.keyword
    return _best_first(by_key.values())


def _best_first(entries: Iterable[Scored]) -> list[Scored]:
    return sorted(entries, key=lambda scored: (-round(scored.score, 9), scored.chunk.path, scored.entry.start_line))


def _collect(pool: Pool) -> dict[_Key, Scored]:
    found_by_words = {(candidate.chunk_id, candidate.item): candidate for candidate in pool.keyword}
    cosines = {candidate.chunk_id: candidate.score for candidate in pool.near[: pool.contributed]}
    contributed = (*pool.keyword[: pool.contributed], *pool.near[: pool.contributed])
    contributing = dict.fromkeys([*(candidate.chunk_id for candidate in contributed), *pool.named])
    by_key: dict[_Key, Scored] = {}
    for chunk in (pool.chunks[number] for number in contributing if number in pool.chunks):
        cosine = cosines.get(chunk.chunk_id)
        records = is_remembered(chunk.kind, chunk.tier)
        for number, entry in enumerate(chunk.entries, 1):
            if not pool.allows(chunk, entry, number):
                continue
            key = (chunk.path, chunk.section, entry.position)
            scored = by_key.get(key)
            if scored is None:
                scored = by_key[key] = Scored(entry, chunk, records and entry.traits & _ITEM > 0)
            scored.chunks.append(chunk)
            if chunk.form == Form.WINDOW:
                scored.windows.append(cosine or 0.0)
            else:
                scored.chunk, scored.cosine = chunk, cosine
                item = number if chunk.form == Form.GROUP else 0
                by_words = found_by_words.get((chunk.chunk_id, item)) or found_by_words.get((chunk.chunk_id, 0))
                if by_words is not None:
                    scored.keyword, scored.keyword_rank = by_words.score, by_words.rank
    return by_key


def _plain(key: _Key, scored: Scored, by_key: Mapping[_Key, Scored], weights: Weights, farthest: float | None) -> float:
    """Return an entry's score by the retrievers; for a line of a conversation, blended with that of its windows.

    `farthest` is the cosine assumed for a vector that is not among the nearest, None if vectors were not searched.
    """
    if farthest is None:
        return scored.keyword
    is_log = scored.is_fact or scored.in_conversation
    weight = weights.memory if is_log else weights.reference
    own = weight * scored.keyword + (1.0 - weight) * (farthest if scored.cosine is None else scored.cosine)
    if not scored.in_conversation:
        return own
    missing = max(0, scored.entry.window_count - len(scored.windows))
    cosine = (sum(scored.windows) + missing * farthest) / scored.entry.window_count
    around = weight * _words_nearby(key, by_key) + (1.0 - weight) * cosine
    both = OWN_SHARE * own + (1.0 - OWN_SHARE) * around
    return 0.5 * max(own, both) + 0.5 * both


def _words_nearby(key: _Key, by_key: Mapping[_Key, Scored]) -> float:
    """Estimate the keyword score that an entry and the lines around it would have as one text."""
    path, section, position = key
    total = 0.0
    for distance in range(1 - NEARBY_LINES, NEARBY_LINES):
        line = by_key.get((path, section, position + distance))
        if line is not None:
            total += (1.0 - abs(distance) / NEARBY_LINES) * line.keyword**2
    return math.sqrt(total)


def _added(scored: Scored, question: QuestionWords, speaker: float, prior: float) -> dict[str, float]:
    """Return the bonuses and penalties of an entry by their reasons."""
    entry = scored.entry
    length = math.log(min(entry.token_count, MAX_TOKENS) + 1) - math.log(USUAL_TOKENS + 1)
    opens = not scored.in_conversation and scored.chunk.form != Form.FIELD
    by_length = LINE_LENGTH if scored.in_conversation else FACT_LENGTH if scored.is_fact else 0.0
    return {
        "opening": OPENING * question.share_in(scored.chunk.opening) if opens else 0.0,
        "names a time": NAMED_TIME if question.asks_when and entry.traits & _NAMES_TIME and scored.is_log else 0.0,
        "dated then": DATED_THEN if question.times and _is_dated(scored, question.times) else 0.0,
        "speaker": speaker,
        "length": by_length * length,
        "asks": -QUESTION if entry.speaker and entry.traits & _QUESTION else 0.0,
        "role": -_role(scored.chunk.role, question),
        "prior": prior,
    }


def _role(role: str, question: QuestionWords) -> float:
    """Return the penalty for a message by the side that was not asked about."""
    if question.asks_for_answer is None or not role:
        return 0.0
    if question.asks_for_answer:
        return ROLE if role == "user" else 0.0
    return ROLE * (1 + question.asks_about_self) if role.partition(":")[0] in ("assistant", "agent") else 0.0


def _is_dated(scored: Scored, times: Sequence[TimeHint]) -> bool:
    moments = (scored.entry.time or scored.chunk.date, *scored.entry.later)
    return any(time.covers(moment) for time in times for moment in moments)


def _add_note_bonus(entries: Iterable[Scored]) -> None:
    """Add a share of the scores of the note's second and third best entries to each of its entries."""
    by_note: dict[NotePath, list[Scored]] = defaultdict(list)
    for scored in entries:
        by_note[scored.chunk.path].append(scored)
    for of_note in by_note.values():
        following = sum(sorted((scored.score for scored in of_note), reverse=True)[1:3])
        for scored in of_note:
            scored.add("note", (LOG_NOTE_BONUS if scored.is_log else NOTE_BONUS) * following)


def _raise_named(entries: Sequence[Scored], paths: Set[NotePath]) -> None:
    """Rank the best entry of each of these notes first."""
    top = max((scored.score for scored in entries), default=0.0)
    for scored in _best_of_notes(scored for scored in entries if scored.chunk.path in paths).values():
        scored.add("name", top - (1.0 - NAMED_SHARE) * scored.score)


def _lower_headings(entries: Iterable[Scored]) -> None:
    """Rank a heading without text after every text with its words."""
    texts = [scored for scored in entries if scored.chunk.form != Form.HEADING]
    for heading in (scored for scored in entries if scored.chunk.form == Form.HEADING):
        alike = [scored.score for scored in texts if scored.keyword >= 0.5 * heading.keyword > 0.0]
        if alike:
            heading.score = min(heading.score, *alike) - 1e-6
