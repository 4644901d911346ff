"""Parse what a person typed into a Query. Pure.

    words "a phrase" -excluded -"excluded phrase" kind:daily tag:work in:projects/ path:*.md role:user session:s1
    after:2026-11-01 before:yesterday after:"2 weeks ago" is:archived is:todo where:emotion=fear roo* all:"boat price"

Anything else is text to search for, with any punctuation. Only `word:value` that looks like a filter must be one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple

from msgspec.structs import replace

from memsync.errors import UsageError
from memsync.index.fields import bigrams, cjk_runs
from memsync.model.filters import FILTER_ALIASES, FILTERS, TASKS, Filters
from memsync.model.query import BUDGET_HITS, Query, SearchRequest
from memsync.model.text import whole_characters
from memsync.model.vocabulary import Mode
from memsync.model.words import PLAIN_WORD, WORD, folded
from memsync.notes.dates import parse_when
from memsync.search.stop_words import STOP_WORDS
from memsync.search.time_hints import time_hints, weekdays_in
from memsync.system import clock

MAX_QUERY_CHARS = 10_000
MAX_WORDS = 64

_TOKEN = re.compile(
    rf"""(?P<minus>-(?![-\s]))?(?:
        (?P<filter>{"|".join(FILTERS)}):(?:"(?P<quoted>[^"]*)"|(?P<bare>[^\s":][^\s"]*(?:(?<==)"[^"]*")?))(?=\s|$)
      | "(?P<phrase>[^"]*)"(?=\s|$)
      | (?P<text>\S+)
    )""",
    re.VERBOSE,
)
_LOOKS_LIKE_FILTER = re.compile(r"(?P<name>[a-z][a-z_-]{1,19}):(?P<value>[^\s:/]\S*|/(?!/)\S*|\"[^\"]*\")")
_SCHEMES = frozenset(
    {"mailto", "tel", "urn", "data", "doi", "arxiv", "isbn", "news", "sip", "geo", "magnet", "javascript"}
)
_PREFIX = re.compile(r"[^\W_]{2,}\*")
_ENGLISH_ENDING = re.compile(r"['’](?:s|t|d|m|re|ve|ll)$", re.IGNORECASE)


@dataclass(slots=True)
class _Parts:
    """The tokens of a query, by what they are."""

    text: list[str] = field(default_factory=list)
    phrases: list[str] = field(default_factory=list)
    exclusions: list[str] = field(default_factory=list)
    filters: list[tuple[str, str]] = field(default_factory=list)


def parse_query(typed: str, *, now: datetime, limit: int, filter_pairs: Sequence[tuple[str, str]] = ()) -> Query:
    """Parse a query. Adds `filter_pairs` (name, value), which come from options, to its own filters.

    Raises UsageError when the value of a filter is invalid or the query is empty.
    """
    warnings = []
    typed = whole_characters(typed.replace("\0", " "))
    typed = unicodedata.normalize("NFC", typed)  # otherwise words are split at combining marks
    if len(typed) > MAX_QUERY_CHARS:
        typed = typed[:MAX_QUERY_CHARS]
        warnings.append(f"only the first {MAX_QUERY_CHARS:,} characters of the query were read")
    parts = _split(typed)
    filters = Filters()
    for name, value in [*filter_pairs, *parts.filters]:
        filters = _add_filter(filters, name, value, now)
    # Look phrases up as words too, so that they count in the ranking and do not only filter.
    text = " ".join([*parts.text, *parts.phrases]).strip()
    times = time_hints(text, now.date())
    read_as_days = weekdays_in(times)
    words = tuple(word for word in _words(text) if word not in read_as_days) or _words(text)
    if len(words) > MAX_WORDS:
        warnings.append(f"only the first {MAX_WORDS} words of the query were looked up")
    if not text and filters == Filters():
        if parts.exclusions:
            raise UsageError("the query only says what to leave out", hint="Add a word to search for.")
        raise UsageError("the query is empty", hint='Example: memsync search "which store did we choose"')
    if text and not words:
        error = _without_word(text)
        warnings.append(f"{error.message}. {error.hint}")
    return Query(
        text=text,
        words=words[:MAX_WORDS],
        phrases=tuple(parts.phrases),
        exclusions=tuple(parts.exclusions),
        filters=filters,
        limit=limit,
        warnings=tuple(warnings),
        times=times,
    )


def parse_request(request: SearchRequest, setting: Callable[[str], Any]) -> Query:
    """Parse a request; `setting` returns the default of its limit and its mode. Raises UsageError."""
    limit = request.limit or (BUDGET_HITS if request.tokens else setting("search.limit"))
    query = parse_query(request.query, now=clock.now(), limit=limit, filter_pairs=request.filters)
    return replace(query, mode=Mode(request.mode or setting("search.mode")), request=request)


class TypedFilter(NamedTuple):
    """A filter as it is typed in a query, and the query without it."""

    name: str
    value: str
    rest: str


def typed_filters(typed: str) -> list[TypedFilter]:
    """Return the filters in a query, in order; one with an unknown value, too."""
    return [
        TypedFilter(
            token["filter"], _value(token), f"{typed[: token.start()].rstrip()} {typed[token.end() :].lstrip()}".strip()
        )
        for token in _TOKEN.finditer(typed[:MAX_QUERY_CHARS])
        if token["filter"] and not token["minus"]
    ]


def without_roots(typed: str) -> tuple[tuple[str, ...], str]:
    """Return the values of the `root:` filters in a query, and the query without them."""
    roots = [token for token in _TOKEN.finditer(typed) if token["filter"] == "root" and not token["minus"]]
    cuts = [0, *chain.from_iterable(token.span() for token in roots), len(typed)]
    rest = "".join(typed[first:end] for first, end in zip(cuts[::2], cuts[1::2], strict=True))
    return tuple(_value(token).strip() for token in roots), rest


def _value(token: re.Match[str]) -> str:
    return token["bare"] if token["quoted"] is None else token["quoted"]


def _split(typed: str) -> _Parts:
    parts, wordless = _Parts(), list[str]()
    for token in _TOKEN.finditer(typed):
        if token["filter"] and token["minus"]:
            text = token.group().removeprefix("-")
            raise UsageError(
                f"a filter cannot be excluded: -{text}", hint=f'To leave out the text, quote it: -"{text}"'
            )
        if token["filter"]:
            value = _value(token)
            if token["filter"] == "all":
                wordless += (others := [word for word in value.split() if not WORD.search(word)])
                parts.phrases += [word for word in value.split() if word not in others]
                parts.text += others
            else:
                parts.filters.append((token["filter"], value))
            continue
        if token["text"] and not token["minus"]:
            _refuse_unknown_filter(token["text"])
        phrase = token["phrase"]
        content = phrase if phrase is not None else token["text"] or token.group().removeprefix("-")
        searchable = WORD.search(content) is not None
        if token["minus"] and searchable:
            parts.exclusions.append(content)
        elif phrase is not None and searchable:
            parts.phrases.append(phrase)
        else:
            parts.text.append(content)
        if phrase is not None and phrase.strip() and not searchable:
            wordless.append(phrase)
    if wordless and not any(map(WORD.search, (*parts.text, *parts.phrases))):
        raise _without_word(wordless[0])
    return parts


def _without_word(text: str) -> UsageError:
    """Return the error for text without a letter or digit: the nearest notes by meaning would be arbitrary ones."""
    hint = "To list open tasks, write is:todo." if "[ ]" in text else "Add a word, or leave it out."
    return UsageError(f"{text[:40]!r} has no word to look up", hint=hint)


def _refuse_unknown_filter(text: str) -> None:
    """Raise UsageError for `word:value` whose word is not a filter, unless it is clearly text.

    Clearly text: addresses (`https://…`, `mailto:…`), times, names with a capital or a digit before the colon, a
    double colon, a colon before a space, and a number after the colon (`localhost:8080`) if no filter has a similar
    name.
    """
    match = _LOOKS_LIKE_FILTER.fullmatch(text)
    if match is None or match["name"] in FILTERS or match["name"] in _SCHEMES:
        return
    import difflib

    name = match["name"]
    similar = difflib.get_close_matches(name, (*FILTERS, *FILTER_ALIASES), n=1, cutoff=0.7)
    if match["value"].isdigit() and not similar:
        return
    meant = f"Filters are {', '.join(FILTERS)}."
    if similar:
        meant = f'Did you mean "{FILTER_ALIASES.get(similar[0], similar[0])}:"?'
    meant += f" For a key of the front matter, write where:{name}={match['value']}."
    raise UsageError(f'Unknown filter "{name}:".', hint=f'{meant} To find the text itself, quote it: "{text}"')


def _words(text: str) -> tuple[str, ...]:
    """Return the words to look up, each once; words joined without a space (`foo-bar`, `a::b(c)`) also as a phrase.

    Leaves out stop words, unless there are no other words. A run of script without spaces may be several words, so its
    pairs of characters are looked up, too.
    """
    words: dict[str, None] = {}
    phrases: dict[str, None] = {}
    for token in folded(text).lower().split():
        if _PREFIX.fullmatch(token):
            words[token] = None
            continue
        parts = PLAIN_WORD.findall(_ENGLISH_ENDING.sub("", token))
        words.update(dict.fromkeys(parts))
        words.update(dict.fromkeys(pair for run in cjk_runs(token) for pair in bigrams(run)))
        if len(parts) > 1:
            phrases[" ".join(parts)] = None
    return (*([word for word in words if word not in STOP_WORDS] or words), *phrases)


def _add_filter(filters: Filters, name: str, value: str, now: datetime) -> Filters:
    value = value.strip()
    if not value:
        raise UsageError(f"{name}: needs a value", hint=f"Example: {name}:{FILTERS[name].example}")
    if name in ("after", "before"):
        moment = parse_when(value, now)
        return replace(filters, after=moment) if name == "after" else replace(filters, before=moment)
    if name == "is":
        if value.lower() in TASKS:
            return replace(filters, where=(*filters.where, (TASKS[value.lower()], "true")))
        if value.lower() in ("current", "superseded"):
            return replace(filters, holds=value.lower() == "current")
        if value.lower() != "archived":
            hint = "Write is:archived to search archived notes too, is:todo, is:done, is:current or is:superseded."
            raise UsageError(f"is:{value} is not known", hint=hint)
        return replace(filters, archived=True)
    if name == "valid":
        return replace(filters, valid=parse_when(value, now)[:10])
    if name == "root":
        raise UsageError(
            f"root:{value} cannot be used here: this is a search of one memory", hint="See docs/memories.md."
        )
    _, field_name, read = FILTERS[name]
    assert read is not None, name
    added: dict[str, Any] = {field_name: (*getattr(filters, field_name), read(value))}
    return replace(filters, **added)
