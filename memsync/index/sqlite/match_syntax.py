"""What a person typed -> a MATCH expression that FTS5 can never misread.

Every word goes into a quoted string, in which FTS5 knows no operators; its own tokenizer then splits `foo-bar` into the
phrase `foo bar`. Words are joined with OR: a question whose words all had to match would find almost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memsync.index.fields import bigrams, cjk_runs, without_cjk


def any_of(words: Iterable[str]) -> str:
    """Return a MATCH expression for chunks that hold at least one of `words`; empty when there is no word."""
    terms: dict[str, None] = {}
    for word in words:
        for part in _parts(word):
            terms[part] = None
    return " OR ".join(terms)


def is_single_word(word: str) -> bool:
    """Tell whether a query's word is one word to the tokenizer, not a phrase."""
    return word.isalnum() or len(cjk_runs(word)) == 1


def all_of(phrases: Sequence[str]) -> str:
    """Return a MATCH expression for chunks that hold every one of `phrases` word for word."""
    groups = (_parts(phrase) for phrase in phrases)
    return " AND ".join("(" + " AND ".join(parts) + ")" for parts in groups if parts)


def _parts(text: str) -> list[str]:
    spaced = without_cjk(text).replace("\0", " ").strip()
    parts = [_quote(spaced)] if any(c.isalnum() for c in spaced) else []
    return parts + [f"cjk : {_phrase(run)}" for run in cjk_runs(text)]


def _phrase(run: str) -> str:
    pairs = bigrams(run)
    return _quote(" ".join(pairs)) + ("*" if len(run) == 1 else "")


def _quote(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
