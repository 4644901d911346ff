"""Read the front matter of a note, YAML or Hugo's TOML, without trusting it.

PyYAML's C loader crashes on deeply nested input, and aliases and merge keys can make any loader run for minutes. So the
front matter is limited in size and depth, read by the pure-Python loader, and may have no aliases or merge keys. If it
cannot be parsed, the note gets a warning, the front matter is indexed as text, and each key that can be read alone
counts. The body is indexed as usual.
"""

from __future__ import annotations

import math
import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from itertools import dropwhile, pairwise, takewhile
from typing import Any

import yaml
from frontmatter.default_handlers import YAMLHandler

from memsync.model.text import quoted
from memsync.model.vocabulary import JsonValue
from memsync.notes.dates import is_date_key

MAX_HEAD_BYTES = 64_000
MAX_DEPTH = 16
MAX_TOML_DOTS = 100
"""Dots in a line of TOML: its parser takes time that grows with the square of the names in `a.b.c`."""
MAX_PROPERTY_CHARS = 2_000
MAX_KEYS_ALONE = 200
"""If the whole cannot be parsed and has more keys than this, they are not tried one by one: that would take long."""

_OPENING = re.compile(r"(---|\+\+\+)[ \t]*")
_CLOSING = {"---": re.compile(r"(?:---|\.\.\.)[ \t]*"), "+++": re.compile(r"\+\+\+[ \t]*")}
_TEXTLESS = re.compile("[\x00\ud800-\udfff]")
"""Characters that YAML escapes can produce but files, databases and terminals cannot store as text."""

_MAX_INTEGER = 2**63
_GLOBS = re.compile(r"^(globs:[ \t]*)(\*[^\n\"\\]*)$", re.MULTILINE)
"""The line of a rule of Cursor that says where it holds, as Cursor writes it; to YAML its `*` would be an alias."""
_HASHES = re.compile(r"^((?:tags?:|[ \t]*-)[ \t]+)\[?(#[^\s#\]\"\\][^\n\"\\\]]*)(?:\][ \t]*)?$", re.MULTILINE)
"""Tags with their `#`, which YAML would read as a comment."""
_KEY_LINE = re.compile(r"(?:\s*#[^\n]*\n)*\s*\w[\w-]*(?: [\w-]+)?[ \t]*:(?:\s|$)")
_PROPERTY = re.compile(r"[ \t]*([^\W\d_][\w -]{0,50})::(?:[ \t](.*))?")
"""A property of Logseq's or Dataview's: `alias:: Kim, K. L.`."""
_NAMING = frozenset({"title", "tags", "tag", "aliases", "alias"})
_LOCAL_ONLY_KEY = "localonly"
"""The key `local-only` without all that is not a letter or a digit."""
_LOCAL_ONLY_TEXT = re.compile(r"local[\W_]{0,3}only[\"']?\s*[:=]\s*[\"']?([^\s\"',#}\]]*)")
_NO = frozenset({"false", "no", "off", "n", "0"})
_YES = frozenset({"true", "yes", "on", "y", "1"})
_ORIGIN_LINE = re.compile(r"^(by|url|source|source[_-]url|clipped[_-]from)[ \t]*[:=](.{1,2000})", re.I | re.M)


@dataclass(frozen=True, slots=True)
class Head:
    """The front matter of a note: `line_count` lines including both `---` or `+++`, 0 if there is none.

    `raw` is true if it must also be indexed as text, because not all of it could be parsed. `local_only` is true if it
    says `local-only: true`, also if it could not be parsed; see `_says_local_only`. `first_lines` counts only the lines
    of the first block if there are two.
    """

    line_count: int = 0
    values: Mapping[str, JsonValue] = field(default_factory=dict)
    raw: bool = False
    warning: str = ""
    local_only: bool = False
    first_lines: int = 0


class _HeadError(yaml.YAMLError):
    """The front matter is valid YAML that memsync does not accept."""


class _HeadLoader(yaml.SafeLoader):
    """The pure-Python safe loader, bounded in depth, without aliases and merge keys."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.depth = 0

    def fetch_flow_collection_start(self, TokenClass: type[Any]) -> None:  # noqa: N803 (because PyYAML names it so)
        if self.flow_level >= MAX_DEPTH:
            raise _HeadError(f"nested deeper than {MAX_DEPTH} levels")
        super().fetch_flow_collection_start(TokenClass)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise _HeadError("aliases are not supported")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _HeadError(f"nested deeper than {MAX_DEPTH} levels")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        if any(key.tag == "tag:yaml.org,2002:merge" for key, _ in node.value):
            raise _HeadError("merge keys are not supported")
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        repeated = next((name for name, times in Counter(names).items() if times > 1), None)
        if repeated is not None:
            raise _HeadError(f"key {quoted(repeated)} appears more than once")


class _BoundedYAMLHandler(YAMLHandler):
    """python-frontmatter's YAML handler with the bounded loader."""

    def load(self, fm: str, **_: object) -> Any:
        return yaml.load(fm, Loader=_HeadLoader)  # noqa: S506 (because _HeadLoader is a SafeLoader)


def head_is_open(lines: Sequence[str]) -> bool:
    """Tell whether lines begin with front matter that is not closed."""
    return bool(_OPENING.fullmatch(lines[0])) and _end_of_head(lines) is None


def closes_head(line: str) -> bool:
    """Tell whether a line may close front matter."""
    return any(closing.fullmatch(line) for closing in _CLOSING.values())


def _end_of_head(lines: Sequence[str], first: int = 0) -> int | None:
    """Return the index of the line that closes the front matter that line `first` opens."""
    opening = _OPENING.fullmatch(lines[first])
    assert opening is not None
    return next((i for i in range(first + 1, len(lines)) if _CLOSING[opening[1]].fullmatch(lines[i])), None)


def read_head(lines: Sequence[str]) -> Head:
    """Return the front matter at the start of `lines`. Never raises.

    An unclosed `---`, and prose between two of them, are Markdown. A key that is not text becomes text, with a warning.
    A second block directly below only names the note, because a clipped page may begin with it: its other keys do not
    count, except `local-only`.
    """
    head = _read_block(lines)
    below = next((number for number in range(head.line_count, len(lines)) if lines[number].strip()), 0)
    second = _read_block(lines[below:]) if 0 < head.line_count <= below else Head()
    head = replace(
        head, local_only=head.local_only or (second.line_count > 0 and second.local_only), first_lines=head.line_count
    )
    names = {} if second.warning else _naming(second.values)
    return replace(head, line_count=below + second.line_count, values={**names, **head.values}) if names else head


def properties_in(body: Sequence[str]) -> dict[str, JsonValue]:
    """Return what Logseq's properties in the first lines of a body call the note."""
    lines = dropwhile(lambda line: not line.strip(), body)
    found = takewhile(bool, (_PROPERTY.fullmatch(line[:MAX_PROPERTY_CHARS]) for line in lines))
    return _naming({match[1]: match[2] for match in found if match})


def _naming(values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {key: value for key, value in values.items() if key in _NAMING or is_date_key(key)}


def _read_block(lines: Sequence[str]) -> Head:
    if not lines or not _OPENING.fullmatch(lines[0]):
        return Head(local_only=_says_local_only_below_blank_lines(lines))
    closing = _end_of_head(lines)
    if closing is None:
        unclosed = len(lines) > 1 and _KEY_LINE.match(lines[1])
        warning = "front matter is not closed: add a line with --- after it" if unclosed else ""
        text = "\n".join(lines[1:])
        return Head(0, _origin_in(text) if unclosed else {}, warning=warning, local_only=_says_local_only(text))
    text = "\n".join(lines[1:closing])
    count = closing + 1
    if len(text.encode("utf-8", "replace")) > MAX_HEAD_BYTES:
        warning = f"front matter is over {MAX_HEAD_BYTES // 1000} kB: indexed as text"
        return Head(count, _origin_in(text), raw=True, warning=warning, local_only=_says_local_only(text))
    if lines[0].startswith("+"):
        return _parse(text, count, _load_toml)
    return _parse(_HASHES.sub(r'\1"\2"', _GLOBS.sub(r'\1"\2"', text)), count, _BoundedYAMLHandler().load)


def _origin_in(text: str) -> dict[str, JsonValue]:
    """Return what front matter that is not parsed says of its origin: otherwise a page could count as the owner's."""
    found: dict[str, JsonValue] = {}
    for match in _ORIGIN_LINE.finditer(text):
        known = found.setdefault(match[1].casefold(), [])
        assert isinstance(known, list)
        known.append(match[2].strip("'\" "))
    return found


def is_clear(value: JsonValue) -> bool:
    """Tell whether a value of `local-only` means yes or no; any other value counts as yes, with a warning."""
    return isinstance(value, bool) or _folded(str(value)) in _YES | _NO


def names_local_only(key: str) -> bool:
    """Tell whether a key of the front matter is `local-only`, in any spelling (`local_only`, `Local-Only`)."""
    return "".join(filter(str.isalnum, _folded(key))) == _LOCAL_ONLY_KEY


def _says_local_only(text: str) -> bool:
    """Tell whether front matter that cannot be parsed says `local-only` with a value that is not a clear no.

    A damaged head must not make a private note public, so this looks for the words anywhere in it.
    """
    return any(match[1] not in _NO for match in _LOCAL_ONLY_TEXT.finditer(_folded(text)))


def _says_local_only_below_blank_lines(lines: Sequence[str]) -> bool:
    """Tell whether what would be front matter, if there were no blank lines above it, says `local-only`."""
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    if first == 0 or not _OPENING.fullmatch(lines[first]):
        return False
    return _says_local_only("\n".join(lines[first : _end_of_head(lines, first)]))


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().strip()


def value_span(text: str, key: str) -> tuple[int, int] | None:
    """Return the start and end of a key's value in the text between the `---` lines, or None without that key.

    Only for front matter that `read_head` could parse.
    """
    for form in (_GLOBS, _HASHES):  # as long, but valid YAML
        text = form.sub(lambda match: match[1] + "x" * (len(match[0]) - len(match[1])), text)
    node = yaml.compose(text, Loader=_HeadLoader)
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    node = next((value for name, value in pairs if name.value == key), None)
    if node is None:
        return None
    start, end = node.start_mark.index, node.end_mark.index
    return start, start + len(text[start:end].rstrip())  # a block value ends after its line end


def _load_toml(text: str) -> dict[str, Any]:
    if max(line.count(".") for line in text.split("\n")) > MAX_TOML_DOTS:
        raise _HeadError(f"a line has more than {MAX_TOML_DOTS} dots")
    return tomllib.loads(text)


def _parse(text: str, count: int, load: Callable[[str], Any]) -> Head:
    try:
        loaded = load(text)
        values = {_key(key): _plain(value) for key, value in loaded.items()} if isinstance(loaded, dict) else {}
    except Exception as error:  # noqa: BLE001 (because PyYAML also raises ValueError, OverflowError, RecursionError, KeyError on bad input)
        warning = f"front matter cannot be read: {_one_line(error)}"
        values = _read_alone(text.split("\n"), load)
        local_only = _says_local_only(text) or _marks_local_only(values)
        if not (isinstance(error, _HeadError) or load is _load_toml or _KEY_LINE.match(text)):  # a letterhead
            return Head(0, _origin_in(text), local_only=local_only)
        return Head(count, values, raw=True, warning=warning, local_only=local_only)
    if loaded is None:
        return Head(count)
    if isinstance(loaded, dict):
        odd_keys = [_key(key) for key in loaded if not isinstance(key, str)]
        warning = f"front matter key {quoted(odd_keys[0])} is not text: quote it" if odd_keys else ""
        return Head(count, values, raw=bool(odd_keys), warning=warning, local_only=_marks_local_only(values))
    return Head(local_only=_says_local_only(text))  # prose between two thematic breaks


def _marks_local_only(values: Mapping[str, JsonValue]) -> bool:
    return any(_folded(str(value)) not in _NO for key, value in values.items() if names_local_only(key))


def _read_alone(lines: Sequence[str], load: Callable[[str], Any]) -> dict[str, JsonValue]:
    """Return the top-level keys that can be read one by one, with their lines; of a repeated key, the first one.

    Of TOML, only those before the first table: the lines of a table mean nothing alone.
    """
    if load is _load_toml:
        lines = list(takewhile(lambda line: not line.startswith("["), lines))
    starts = [number for number, line in enumerate(lines) if line[:1].strip(" \t#-]}")]
    values: dict[str, JsonValue] = {}
    for first, end in pairwise([*starts, len(lines)] if len(starts) <= MAX_KEYS_ALONE else ()):
        with suppress(Exception):  # as in `_parse`
            read = load("\n".join(lines[first:end]))
            values = {**{_key(key): _plain(value) for key, value in read.items()}, **values}
    return values


def _key(key: object) -> str:
    """Return a key of any type as text."""
    return _TEXTLESS.sub("�", str(key))


def _plain(value: object, depth: int = 0) -> JsonValue:
    """Return a value as a JSON value: dates become ISO text, sets become lists, unknown types become text.

    Raises ValueError for a number with more digits than Python converts to text, and for a value that is nested deeper
    than MAX_DEPTH.
    """
    if depth > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < _MAX_INTEGER else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, datetime):
        return value.isoformat(sep="T", timespec="seconds")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {_key(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(_key(item) for item in value)
    return _key(value)


def _one_line(error: Exception) -> str:
    """Return what is wrong and in which line; PyYAML's words may have some of the note's."""
    problem = getattr(error, "problem", None) or str(error) or type(error).__name__
    reason = problem if isinstance(error, _HeadError) else quoted(str(problem), 120)
    mark = getattr(error, "problem_mark", None)
    where = f" (line {mark.line + 2})" if mark is not None else ""
    return f"{reason}{where}"
