"""Turn the words of a query into a MATCH expression for FTS5.

Every word is quoted, so that FTS5 does not read it as an operator; its tokenizer then splits `foo-bar` into the phrase
`foo bar`. Words are joined with OR, because hardly any chunk has all words of a question.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memsync.index.fields import bigrams, cjk_runs, without_cjk


def any_of(words: Iterable[str]) -> str:
    """Return a MATCH expression for chunks that have at least one of `words`; empty if there is no word."""
    terms: dict[str, None] = {}
    for word in words:
        for part in _parts(word):
            terms[part] = None
    return " OR ".join(terms)


def is_single_word(word: str) -> bool:
    """Tell whether the tokenizer reads a query's word as one word and not as a phrase."""
    return word.isalnum() or len(cjk_runs(word)) == 1


def all_of(phrases: Sequence[str]) -> str:
    """Return a MATCH expression for chunks that contain each of `phrases` word for word."""
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
