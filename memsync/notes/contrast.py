"""Find statements that are about the same thing and differ: another value of a key, number, name, or a negation. Pure.

Each statement gets a frame, its words without numbers, names and negations, and a filling, which is these. Statements
with the same frame and another filling differ. So comparing all statements of a memory takes linear time, and a pair
can be explained. Statements in other words are not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from memsync.notes.attributes import cut_attributes
from memsync.notes.entry_text import stem

MIN_WORDS = 4
"""Fewest words and numbers of a frame; a shorter one ("See the 2021 edition") is about anything."""
MAX_FILLINGS = 2
"""A frame with more fillings is a form that many notes fill in, or a series: no two of them contradict each other."""
MAX_CHARS = 1_000
"""Of a longer paragraph only these characters are compared."""
MAX_VALUE_WORDS = 6
MAX_KEY_WORDS = 5
_FENCE = re.compile(r"\s*(?:```|~~~)")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?(?:\d{1,2}:\d\d\s+)?")
_NO_TEXT = re.compile(r"\s*(?:[|>#<]|\[[^\]]*\]:|={3,}|-{3,})")
_LINK = re.compile(
    r"!?\[\[(?:[^\[\]|]{0,200}\|)?([^\[\]]{0,200})\]\]|!?\[([^\[\]]{0,300})\](?:\([^()]{0,300}\)|\[[^\[\]]{0,100}\])"
)
_URL = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{0,20}://\S+")
_REFERENCE = re.compile(r"`|\]\(|\[\[|://")
"""What a value refers to is no value: each note may refer to something else under the same key."""
_EMPHASIS = re.compile(r"[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}|~~")
_QUOTES = re.compile("[\"'‘’“”„]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_KEY = re.compile(r"([^\W\d_][^:`|<>\[\]]{1,48}):\s+(\S.{0,80})")
_TOKEN = re.compile(r"`[^`]*`|[^\W\d_][\w-]*|[€$£]?\d[\d.,:/-]*%?|[%€$£]")
_NAMES = re.compile(r"[A-ZÄÖÜ][\w-]*(?: [A-ZÄÖÜ][\w-]*){0,2}")
_NEGATING = """
    not never no longer cannot without neither nor dont doesnt didnt isnt wasnt arent werent wont cant nicht kein keine
    nie niemals
"""
_NEGATIONS = frozenset(_NEGATING.split())
_AUXILIARY = """
    do does did a an the is are was were be been will would can has have had to any ever already that der die das ist
    sind war hat haben ein eine
"""
_UNSTRESSED = frozenset(_AUXILIARY.split())
"""Words that come and go with a negation ("uses", "does not use"), and articles."""


class Said(NamedTuple):
    """A statement on a line of a note, under a heading.

    `frame` says what it is about, `filling` what it says of that; fillings of one frame are compared as they are.
    """

    line: int
    heading: str
    text: str
    frame: tuple[str, ...]
    filling: tuple[str, ...]


def said_in(lines: Sequence[str], first: int = 1) -> Iterator[Said]:
    """Yield the statements of a text, which begins on line `first`: its items, and the sentences of its paragraphs."""
    for line, heading, block, is_item in _blocks(lines, first):
        linked = _LINK.sub(lambda link: link[1] or link[2] or "", block[:MAX_CHARS])
        text = _QUOTES.sub("", _EMPHASIS.sub("", _URL.sub(" ", linked)))
        pair = _KEY.fullmatch(text) if is_item and not _REFERENCE.search(block) else None
        if pair and len(pair[1].split()) <= MAX_KEY_WORDS and len(pair[2].split()) <= MAX_VALUE_WORDS:
            yield from _of_key(line, heading, block, pair[1], pair[2])
        else:
            for sentence in _SENTENCE_END.split(text):
                yield from _of_sentence(line, heading, sentence.strip())


def _blocks(lines: Sequence[str], first: int) -> Iterator[tuple[int, str, str, bool]]:
    """Yield (line, heading, text, whether it is an item) of each paragraph and item."""
    heading, start, block = "", 0, list[str]()
    is_item = is_code = False
    for number, line in enumerate([*lines, ""], first):
        marker = _ITEM.match(line)
        ends = not line.strip() or marker or _NO_TEXT.match(line) or _FENCE.match(line) or is_code
        if ends and block:
            yield start, heading, " ".join(block), is_item
            block = []
        if _FENCE.match(line):
            is_code = not is_code
        elif line.startswith("#"):
            heading = line.strip("# ")
        elif is_code or not line.strip() or (_NO_TEXT.match(line) and not marker):
            continue
        elif marker or block or not line.startswith(("    ", "\t")):
            plain = line[: cut_attributes(line)[0]]
            start, is_item = (start, is_item) if block else (number, marker is not None)
            block.append((plain[marker.end() :] if marker else plain).strip())


def _of_key(line: int, heading: str, text: str, key: str, value: str) -> Iterator[Said]:
    """Yield `key: value` if the value can be compared: a number or a name; any other only under the same heading."""
    plain = value.strip().rstrip(".")
    is_quantity = any(map(str.isdigit, plain)) and not set("/#") & set(plain)
    kind = "number" if is_quantity else "name" if _NAMES.fullmatch(plain) else "text"
    scope = heading.casefold() if kind == "text" else ""
    if scope or kind != "text":
        yield Said(line, heading, text, (kind, scope, " ".join(key.casefold().split())), (plain.casefold(),))


def _of_sentence(line: int, heading: str, text: str) -> Iterator[Said]:
    frame: list[str] = []
    filling: list[str] = []
    negations = words = 0
    for position, token in enumerate(_TOKEN.findall(text)):
        lowered = token.casefold()
        if lowered in _NEGATIONS:
            negations += 1
        elif token[0] == "`":
            frame.append(token)
        elif not token[0].isalpha() or (position and token[0].isupper()):
            frame.append("#" if not token[0].isalpha() else "@")
            filling.append(lowered.strip(".,:"))
        elif lowered not in _UNSTRESSED:
            frame.append(stem(lowered))
            words += 1
    if len(frame) >= MIN_WORDS and words >= max(2, len(filling)) and not text.endswith(":") and text[:1] != "\\":
        yield Said(line, heading, text, tuple(frame), (*filling, "not " * negations))
