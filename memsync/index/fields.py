"""Make the words that the word index stores with a chunk's text, and the MATCH expressions of FTS5 that find words.

With a text it stores headings, date, path, tags and speaker. They are not embedded, so renaming a file or a heading
never changes a vector. In a MATCH expression every word is quoted, so that FTS5 does not read it as an operator; its
tokenizer then splits `foo-bar` into the phrase `foo bar`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from datetime import date
from functools import lru_cache
from pathlib import PurePosixPath
from typing import NamedTuple

from memsync.model.note import Note
from memsync.model.words import PLAIN_WORD, folded, indexed

_RUN = re.compile(
    "[\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"  # kana, Han
    "\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]+"  # Hangul, compatibility, rarer Han
)

_PREFIX = re.compile(r"[^*]*[^\W_]{2}\*")


def cjk_runs(text: str) -> list[str]:
    """Return the runs of script without spaces (Chinese, Japanese, Thai, ...) in `text`, in order."""
    return _RUN.findall(text)


def without_cjk(text: str) -> str:
    """Return `text` with each run of script without spaces replaced by one space."""
    return text if text.isascii() else _RUN.sub(" ", text)


def bigrams(run: str) -> list[str]:
    """Return the overlapping pairs of characters of one run, or the run itself if it is a single character."""
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


def cjk_words(text: str) -> str:
    """Return the pairs and last characters that the word index stores for the runs of `text`, separated by spaces."""
    return " ".join(" ".join([*bigrams(run), run[-1]] if len(run) > 1 else [run]) for run in cjk_runs(text))


_MONTHS = [
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
]  # fmt: skip
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


@lru_cache(maxsize=1_024)
def heading_words(heading_path: tuple[str, ...], moment: str) -> str:
    """Return the headings above a chunk, outermost first, and its date in digits and words."""
    return indexed(" ".join(part for part in (*heading_path, date_words(moment)) if part))


def context_words(note: Note, *, without_title: bool) -> str:
    """Return the note's path, its title if that is different, aliases and note-wide tags, as words."""
    path = PurePosixPath(note.path)
    stem = path.stem.replace("_", " ").replace("-", " ")
    title = "" if without_title or note.title == path.stem else note.title
    tags = [tag.name for tag in note.tags if tag.line == 0]
    return indexed(" ".join(part for part in (*path.parent.parts, stem, title, *note.aliases, *tags) if part))


def name_word(name: str) -> str:
    """Return the word under which the word index has a whole name; empty if the name has no word.

    Names that differ only in case, accents, punctuation or the order of their words have the same word.
    """
    words = sorted(set(PLAIN_WORD.findall(folded(name).casefold())))
    return f"name{hashlib.sha256(' '.join(words).encode()).hexdigest()[:16]}" if words else ""


def name_words(note: Note) -> str:
    """Return the words under which the word index has the note's title, first heading, file name and aliases."""
    heading = next((section.heading_path[0] for section in note.sections if section.heading_path), "")
    names = (note.title, heading, PurePosixPath(note.path).stem, *note.aliases)
    return " ".join(dict.fromkeys(filter(None, map(name_word, names))))


def date_words(moment: str) -> str:
    """Return an ISO date or datetime as people search for it: `2026-11-21 21 November 2026 Saturday`."""
    try:
        day = date.fromisoformat(moment[:10])
    except ValueError:
        return ""
    return f"{moment[:10]} {day.day} {_MONTHS[day.month - 1]} {day.year} {_DAYS[day.weekday()]}"


# ------------------------------------------------------------------------------------ MATCH expressions


def any_of(words: Iterable[str]) -> str:
    """Return a MATCH expression for chunks that have at least one of `words`; empty if there is no word.

    Hardly any chunk has all words of a question.
    """
    return " OR ".join(dict.fromkeys(part for word in words for part in _parts(word)))


def every_of(words: Iterable[str]) -> str:
    """Return a MATCH expression for chunks that have every one of `words`; empty if there are fewer than two.

    It has the same phrases in the same order as `any_of`, so FTS5 gives a row the same bm25 for both.
    """
    parts = list(dict.fromkeys(part for word in words for part in _parts(word)))
    return " AND ".join(parts) if len(parts) > 1 else ""


def is_single_word(word: str) -> bool:
    """Tell whether the tokenizer reads a query's word as one word and not as a phrase."""
    return word.removesuffix("*").isalnum() or len(cjk_runs(word)) == 1


def all_of(phrases: Sequence[str]) -> str:
    """Return a MATCH expression for chunks that contain each of `phrases` word for word."""
    groups = (_parts(phrase) for phrase in phrases)
    return " AND ".join("(" + " AND ".join(parts) + ")" for parts in groups if parts)


class Phrase(NamedTuple):
    """Words that must follow each other; the tokenizer reads the words of `text`.

    With `is_cjk` they are pairs of characters in their own column; with `is_prefix` the last one may go on.
    """

    text: str
    is_cjk: bool = False
    is_prefix: bool = False


def phrases_of(text: str) -> list[Phrase]:
    """Return what a word or phrase of a query must match: the words outside of script without spaces, and each run.

    The last word may go on if it ends in `*`: `roo*` matches root and roof.
    """
    text = folded(text)
    spaced = without_cjk(text).replace("\0", " ").strip()
    words = Phrase(spaced.removesuffix("*"), is_prefix=_PREFIX.fullmatch(spaced) is not None)
    phrases = [words] if any(c.isalnum() for c in spaced) else []
    runs = (Phrase(" ".join(bigrams(run)), is_cjk=True, is_prefix=len(run) == 1) for run in cjk_runs(text))
    return [*phrases, *runs]


def _parts(text: str) -> list[str]:
    return [
        f"{'cjk : ' if phrase.is_cjk else ''}{_quote(phrase.text)}{'*' if phrase.is_prefix else ''}"
        for phrase in phrases_of(text)
    ]


def _quote(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
