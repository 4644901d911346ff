"""Find statements that contradict each other: the same slot of the same thing has values that exclude each other. Pure.

A statement gets a frame, its words without their order and a placeholder for each slot, and a filling, the values of
these slots. Two statements contradict each other if they have the same frame, may be about the same thing, and differ
in exactly one value, or in a negation. So comparing all statements of a memory takes linear time, and a pair can be
explained. Statements in other words are not compared.

A short statement ("The office is in Hamburg.") has slots only after a verb that takes one value at a time: people own
many things and meet many people, but an office is in one place. In a long one every number and name is a slot, because
two people rarely write the same long sentence about two things.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

from memsync.notes.attributes import cut_attributes
from memsync.notes.dates import MONTH_NUMBERS, numbered
from memsync.notes.entry_text import stem
from memsync.notes.word_lists import word_lists

T = TypeVar("T")
MIN_WORDS = 4
"""Fewest words and numbers of a long statement."""
MAX_OPEN = 6
"""Most words of a statement whose value is any text."""
MAX_HEAD = 12
"""Most words of a first clause that is a statement of its own."""
MAX_CHARS = 1_000
"""Of a longer paragraph or heading only these characters are compared."""
MAX_VALUE_WORDS = 6
MAX_KEY_WORDS = 5
_WORDS = word_lists("contrast_words.txt")
_ALIKE = dict(pair.split("=") for pair in _WORDS["alike"])
_NUMBERS = numbered(2, "two three four five six seven eight nine ten eleven twelve")
_STATING = frozenset(map(stem, _WORDS["stating"]))
"""Verbs that say one thing at a time of a subject; of `_OF_MANY`, this holds for numbers only."""
_OF_MANY = frozenset(map(stem, _WORDS["of_many"]))
_UNSTRESSED = _WORDS["unstressed"]
"""Words that come and go with a negation ("uses", "does not use"), articles, and words that a value implies."""
_SCALES = [[frozenset(words.split("/")) for words in scale.split("|")] for scale in _WORDS["scales"]]
"""On a scale, words of different classes exclude each other."""
_GRADED = frozenset(word for scale in _SCALES for words in scale for word in words)
_FENCE = re.compile(r"\s*(?:```|~~~)")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?(?:\d{1,2}:\d\d\s+)?")
_NO_TEXT = re.compile(
    r"\s*(?:[|<]|%%|\[[^\]]*\]:|={3,}|-{3,}|!?\[\[[^\]]*\]\]\s*$|!\[)|\s*#{1,6}(?:\s|$)"  # tables, comments, embeds
    r"|\s*(?:[-*+]\s+)?\w[\w /-]{0,40}::(?:\s|$)|.*(?:\s\|\s|\{\{|<%|\[[\w -]+:: )"  # properties, templates
)
_QUOTED = re.compile(r"\s*(?:>|<!--(?!.*-->)|%%(?!.*%%))|On .{5,80} wrote:$|-{5,} ?\w+ [Mm]essage|From: .*@")
"""A block that is quoted or hidden, as far as the next empty line."""
_OUTPUT = re.compile(
    r"\s*(?:[\w.@:~/-]*[$%] |>>> |\$|[\[(]?(?:INFO|WARN|WARNING|ERROR|DEBUG|TRACE)\b|\[?\d{4}-\d\d-\d\d[T ]\d\d:)"
)
_LINK = re.compile(
    r"!?\[\[(?:[^\[\]|]{0,200}\|)?([^\[\]]{0,200})\]\]|!?\[([^\[\]]{0,300})\](?:\([^()]{0,300}\)|\[[^\[\]]{0,100}\])"
)
_REFERENCE = re.compile(r"`|\]\(|\[\[|#")
"""What a value refers to is no value: each note may refer to something else under the same key."""
_UNSPOKEN = re.compile("[*_]{1,3}(?=\\S)|(?<=\\S)[*_]{1,3}|~~|['’]s\\b|[\"'‘’“”„]")
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!\b[A-Z]\.)(?<!\b[A-Z][a-z]\.)(?<!\bMrs\.)(?<!\bProf\.)\s+(?=[A-Z])")
_CLAUSE = re.compile(r"(?:[,;(–—]|\s-)\s?(?=[a-z])|\s(?:because|so|since|which|where|but|due to|as of|until)\s")
"""Where a statement ends and what is said about it begins."""
_KEY = re.compile(r"([^\W\d_][^:`|<>\[\]]{1,48}):\s+(\S.{0,80})")
_MONTH = rf"(?:{'|'.join(map(str.capitalize, sorted(MONTH_NUMBERS, key=len, reverse=True)))})\b"
_TOKEN = re.compile(
    rf"""\ ?(?:(?P<word>[a-z]+(?![\w@\#/:-]|\.\w))
    |(?P<code>`[^`]*`|[\w./-]{{0,40}}\#\w+)
    |(?P<address>[\w.+-]{{1,64}}@[\w-]+\.[\w.-]+\w|https?://[^\s)>]+\b/?|\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?::\d+)?
        |(?<!\S)[.~]?/[\w./-]+\w)
    |(?P<date>\d{{4}}[-/.]\d\d?(?:[-/.]\d\d?)?\b|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?\b
        |(?:\d{{1,2}}(?:st|nd|rd|th|\.)?\ (?:of\ )?)?{_MONTH}(?:\ \d{{1,2}}(?:st|nd|rd|th)?\b)?(?:,?\ \d{{4}}\b)?)
    |(?P<time>\d{{1,2}}:\d\d(?:\ ?[ap]m\b)?|\d{{1,2}}\ ?[ap]m\b)
    |(?P<phone>\+\d[\d\ ()/-]{{5,20}}\d)
    |(?P<money>[€$£]\ ?\d[\d.,]*|\d[\d.,]*\ ?(?:[€$£]|(?:EUR|USD|GBP|euros?|dollars?|pounds?)\b))
    |(?P<number>:?v?\d[\d.,/:-]*%?)
    |(?P<other>[^\W\d_][\w-]*))""",
    re.VERBOSE,
)
_SIGNS = {"e": "€", "u": "$", "d": "$", "g": "£", "p": "£"}
_TENSE = re.compile(
    r"\b(?:(?P<past>[Ww]as|were|had|formerly|previously|used to|until|ago|last (?:year|month)|[Ii]n (?:19|20)\d\d)"
    r"|(?P<plan>will|would|could|might|may|[Mm]aybe|[Pp]erhaps|plan(?:s|ned)? to|going to|propos\w+|consider\w*"
    r"|if|unless|ideas?))\b"
)
_MANY = re.compile(
    r"\b(?:also|another|one of|for example|e\.g|such as|among|others?|there (?:is|are)|(?:has|have) an?)\b", re.I
)
_EVENT = re.compile(
    r"(?:One of|Another|\w+ed|got|ran|went|met|spent|bought|saw|read|slept|woke|ate|did|made|took|paid|swam|wrote)\b",
    re.I,
)
_CONDITION = re.compile(
    r"(?:When|If|In|On|With|Without|For|After|Before|At|During|Under|Since|While|Until|By|From)\b[^,]{1,100},"
    r"|(?:If|When|Unless)\b"
)
_UNCLEAR = re.compile(
    r"(?:As|Were|No|Not|This (?:RFC|note|page|document|proposal|post|section|release|chapter|article)"
    rf"|(?i:{'|'.join(_WORDS['vague'])}))\b"
)
_OPEN = re.compile(
    r"(.*\b(?:prefers?|(?:is|are|lives?)(?: \w+(?:ed|pt|en))?(?= (?:in|at|on|under|behind|near) (?:the|my|our) )))"
    r" (?:[a-z]+ (?:the|my|our) ([a-z][\w-]*(?: [a-z][\w-]*)?)"
    r"|([a-z][\w-]*)( (?!over )[a-z][\w-]*)?(?: over [a-z][\w-]*)?)\.?"
)
"""Before another text, which excludes others: a place, or a kind of one thing (`prefers green tea`)."""
_PERSON = r"((?:Dr\. )?[A-ZÄÖÜ][\w-]+(?:(?: and|,)? [A-ZÄÖÜ][\w-]+)*)"
_OWNS = re.compile(
    rf"{_PERSON} (?:now )?(?:(owns|leads|maintains|manages|heads|coordinates|runs) (?=the )"
    r"|is (?:now )?(?:(responsible) for|in (charge) of|(?=the ))) ?(.+)"
)
_UNSAID = re.compile(r"(?:^|/)(?:_?templates?(?:/|\b)|changelog|changes\.|news\.|release[ _-]?notes|releases/)", re.I)
_VERSION = re.compile(r"\[?v?\d+\.\d+")


class FramedStatement(NamedTuple):
    """A statement on a line of a note, under a heading; `about` is the person or thing it is about, empty if unknown.

    `frame` says which slots it fills in, and `filling` has their values and, last, its negations. `is_field`: it is an
    item `key: value`.
    """

    line: int
    heading: str
    text: str
    frame: tuple[str, ...] = ()
    filling: tuple[str, ...] = ()
    about: str = ""
    is_field: bool = False


_Token = tuple[str, str, int]


class _Read(NamedTuple):
    """The frame and the filling of a text, without its negations, and how many of these and of other words it has."""

    frame: list[str]
    filling: list[str]
    negations: int
    words: int


def _about(path: str) -> str | None:
    """Return the person or thing that a note is about, by its path; empty if unknown, None if it states nothing.

    A folder with a plural name (`people/`, `projects/`) has a note or a folder for each thing; notes of templates and
    changelogs state nothing.
    """
    if _UNSAID.search(path):
        return None
    *folders, name = path.lower().rpartition(".")[0].split("/")
    for folder, thing in pairwise([*folders, name]):
        if (folder.endswith("s") or folder in ("people", "team")) and folder not in _WORDS["generic"]:
            return thing
    is_part = folders and name in ("readme", "index", "_index", "overview", "about")
    return folders[-1] if is_part else name if name in _WORDS["environments"] else ""


def said_in(lines: Sequence[str], first: int = 1, path: str = "", *, is_log: bool = False) -> Iterator[FramedStatement]:
    """Yield the statements of a text of a note, which begins on line `first`: items, and sentences of paragraphs.

    In the log of a day, a number or a word under a key (`Weight: 81.2`, `Mood: good`) is about this day.
    """
    thing = _about(path)
    for line, heading, block, is_item in _blocks(lines, first) if thing is not None else ():
        text = _UNSPOKEN.sub("", _LINK.sub(lambda link: link[1] or link[2] or "", block[:MAX_CHARS]))
        said = FramedStatement(line, heading, block, about=thing or "")
        pair = _KEY.fullmatch(text) if is_item and not _REFERENCE.search(block) else None
        if pair and len(pair[1].split()) <= MAX_KEY_WORDS and len(pair[2].split()) <= MAX_VALUE_WORDS:
            yield from _of_key(said, pair[1], pair[2].strip().rstrip("."), path if is_log else "")
        else:
            for sentence in _SENTENCE_END.split(text):
                yield from _of_sentence(said._replace(text=sentence.strip()))


def opposed(said: Iterable[tuple[FramedStatement, T]]) -> Iterator[tuple[list[T], list[T]]]:
    """Yield what came with the statements of two contradicting values, in the order of the statements."""
    by_frame: dict[tuple[str, ...], dict[str, dict[tuple[str, ...], list[T]]]] = {}
    for one, place in said:
        by_frame.setdefault(one.frame, {}).setdefault(one.about, {}).setdefault(one.filling, []).append(place)
    for by_thing in by_frame.values():
        values = {filling for thing, fillings in by_thing.items() if thing for filling in fillings}
        if "" in by_thing and len(values) == 1:  # things with the same value are as good as one
            for thing in [*filter(None, by_thing)]:
                for filling, places in by_thing.pop(thing).items():
                    by_thing[""].setdefault(filling, []).extend(places)
        for fillings in by_thing.values():
            if len(fillings) == 2 and _exclude(*fillings):  # three are a form that many notes fill in, or a series
                left, right = fillings.values()
                yield left, right


def _exclude(left: Sequence[str], right: Sequence[str]) -> bool:
    """Tell whether two fillings differ in one value, or a negation, and cannot both be true."""
    (one, other), *others = [pair for pair in zip(left, right, strict=True) if pair[0] != pair[1]]
    kind = one[:1]
    if others:
        return False
    if kind == "~":
        return any(sum(bool({one[1:], other[1:]} & words) for words in scale) == 2 for scale in _SCALES)
    if kind == "d":
        return any(a != b for a, b in zip(one[1:].split("/"), other[1:].split("/"), strict=True) if a and b)
    shorter, longer = sorted((one, other), key=len)  # the longer one may be more exact
    if kind in ("@", '"'):
        return not set(shorter[1:].split()) <= set(longer[1:].split())
    return kind not in ("#", "a") or not longer.startswith(f"{shorter}.")


def _blocks(lines: Sequence[str], first: int) -> Iterator[tuple[int, str, str, bool]]:
    """Yield (line, heading, text, whether it is an item) of each paragraph and item. A title is no heading."""
    heading, start, block = "", 0, list[str]()
    is_item = is_code = is_quoted = has_title = False
    for number, line in enumerate([*lines, ""], first):
        is_fence = _FENCE.match(line) is not None
        if is_code and not is_fence:
            continue
        marker, is_text = _ITEM.match(line), bool(line.strip()) and not _NO_TEXT.match(line)
        if block and (not is_text or marker or is_fence):
            if not _VERSION.match(heading) and not any(map(_OUTPUT.match, block)):
                yield start, heading, " ".join(block), is_item
            block = []
        is_quoted = bool(line.strip()) and (is_quoted or bool(_QUOTED.match(line)))
        if is_fence:
            is_code = not is_code
        elif line.startswith("#"):
            heading, has_title = line[:MAX_CHARS].strip("# ") if has_title or line[:2] == "##" else "", True
        elif is_text and not is_quoted and (marker or block or not line.startswith(("    ", "\t"))):
            plain = line[: cut_attributes(line)[0]]
            start, is_item = (start, is_item) if block else (number, marker is not None)
            block.append((plain[marker.end() :] if marker else plain).strip())


def _scope(said: FramedStatement, *, is_bare: bool) -> list[str]:
    """Return the words of the thing that a statement without a subject is about, or of the environment of any other."""
    words = [word for word in re.findall(r"\w+", said.heading.casefold()) if word not in _UNSTRESSED]
    is_place = len(words) == 1 and words[0] in _WORDS["environments"]
    is_name = len(words) <= 3 and not any(word in _WORDS["generic"] or word.isdigit() for word in words)
    return words if is_place or (is_bare and is_name) else []


def _root(word: str) -> str:
    return _ALIKE.get(stem(word), stem(word))


def _of_key(said: FramedStatement, key: str, value: str, day: str) -> Iterator[FramedStatement]:
    """Yield `key: value` if the value can be compared; any other text only under a heading, or a key of two words."""
    words = re.findall(r"\w+", key.casefold())
    own = [_root(word) for word in words if word not in _UNSTRESSED] or words
    thing = [word for word in re.findall(r"\w+", said.about) if word not in words]
    is_bare = len(own) == 1 and not thing
    own += thing or _scope(said, is_bare=is_bare)
    read = _read_slots(_tokens(f"x {value}")[1:], -1)
    if not read.filling and (said.heading or not is_bare) and len(value.split()) <= 3:
        read = _Read(["<text>", said.heading.casefold()], [f'"{value.casefold()}'], 0, 0)
    is_said = read.filling and (not is_bare or said.heading or read.filling[0][0] != "~")
    if is_said and value.casefold() not in _WORDS["no_value"]:
        of_day = day if read.filling[0][0] in '#~"' else ""
        frame, filling = ("", *sorted([*own, *read.frame])), (*read.filling, "not " * read.negations)
        yield said._replace(frame=frame, filling=filling, about=of_day, is_field=True)


def _tokens(text: str) -> list[_Token]:
    """Return kind, text and end of each word and value; neighbouring names are one, as are a number and its names."""
    tokens: list[_Token] = []
    last, last_text, end = "", "", 0
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        token = match[kind]
        if kind in ("word", "other"):
            is_name = (token[0].isupper() and match.start()) or last_text in ("called", "named")
            kind = "name" if is_name else "word"
        if kind == "name" and last in ("name", "number"):
            gap = text[end : match.start(match.lastgroup or 0)]
            if gap in (" ", ", ", " & ") or (gap == ". " and len(last_text) < 5):
                token = f"{tokens.pop()[1]} {token}"
        last, last_text, end = kind, token, match.end()
        tokens.append((last, last_text, end))
    return tokens


def _value(kind: str, token: str) -> str:
    """Return a value so that two ways to write it are equal, after a character for its kind."""
    lowered = token.casefold().strip(".,:")
    if kind == "name":
        return "@" + " ".join(word for word in re.findall(r"\w+", lowered) if word not in _UNSTRESSED)
    if kind == "date":
        return _date(lowered)
    if kind == "time":
        hour, _, minute = lowered.rstrip("apm ").partition(":")
        return f"t{int(hour) % 12 + 12 * ('p' in lowered) if 'm' in lowered else int(hour)}:{minute or '00'}"
    amount = re.sub(r"(?<=\d),(?=\d{3})", "", lowered).replace(",", ".")
    if kind == "money":
        sign = re.sub(r"[\d. ]", "", amount)[0]
        return _SIGNS.get(sign, sign) + re.sub(r"[^\d.]", "", amount).removesuffix(".00")
    if kind == "number":
        return "#" + amount.lstrip("v")
    return "p" + re.sub(r"\D", "", lowered) if kind == "phone" else "a" + lowered.rstrip("/")


def _date(lowered: str) -> str:
    """Return `dYEAR/MONTH/DAY/WEEKDAY`; what is not said is empty."""
    if parts := re.match(r"(\d{4})\D(\d+)\D?(\d*)", lowered):
        return f"d{'/'.join(part.lstrip('0') for part in parts.groups())}/"
    patterns = (r"\d{4}", _MONTH.lower(), r"(?<!\d)[1-9]\d?(?!\d)", r"\w+day")
    year, month, day, weekday = (found[0] if (found := re.search(form, lowered)) else "" for form in patterns)
    return f"d{year}/{MONTH_NUMBERS.get(month, '')}/{day}/{weekday}"


def _read_slots(tokens: Sequence[_Token], verb: int, start: int = -1) -> _Read:
    """Read a text, whose slots are the values after the token at `start`, and words of a scale after the verb."""
    frame, filling, negations, words = list[str](), list[str](), 0, 0
    is_of_many = start == verb and 0 <= verb < len(tokens) and stem(tokens[verb][1].casefold()) in _OF_MANY
    for position, (given, token, _) in enumerate(tokens):
        lowered = token.casefold()
        kind = "number" if lowered in _NUMBERS else given
        value = _value(kind, str(_NUMBERS.get(lowered, token))) if kind not in ("word", "code") else ""
        if kind == "word" and lowered in _GRADED and verb < position:
            value = f"~{lowered}"
        if lowered in _WORDS["negating"]:
            negations += 1
        elif value and position > start and not (is_of_many and value[0] == "@" and not re.search(r"\d", value)):
            frame.append(f"<{value[0]}>")
            filling.append(value)
        elif value or kind == "code":
            frame.append(value or lowered)
        elif lowered not in _UNSTRESSED:
            frame.append(_root(lowered))
            words += 1
    return _Read(frame, filling, negations, words)


def _of_sentence(said: FramedStatement) -> Iterator[FramedStatement]:
    text = said.text
    if not text.endswith((":", "?")) and not (
        text.startswith("\\") or text.partition(" ")[0].casefold() in _WORDS["steps"]
    ):
        owner = _OWNS.match(text)
        if owner and owner[1].split()[0].casefold() not in _UNSTRESSED | _WORDS["vague"]:
            text = f"{owner[5]} is {owner[2] or owner[3] or owner[4] or ''} by {owner[1]}"
        tokens = _tokens(text)
        yield from _of_clause(said, text, tokens)
        if cut := _CLAUSE.search(text, 10):
            head = [token for token in tokens if token[2] <= cut.start()]
            yield from _of_clause(said, text[: cut.start()], head, is_head=True)


def _of_clause(
    said: FramedStatement, text: str, tokens: Sequence[_Token], *, is_head: bool = False
) -> Iterator[FramedStatement]:
    """Yield a statement, if a sentence or its first clause is one."""
    condition = _CONDITION.match(text)
    if len(tokens) < 2 or (is_head and (condition or len(tokens) > MAX_HEAD)):
        return
    words = [token.casefold() for _, token, _ in tokens]
    verbs = [words.index(word) for word in ("is", "are", "was", "ist") if word in words]
    verbs = sorted(verbs) or [number for number, word in enumerate(words) if _root(word) in _STATING]
    is_event = _EVENT.match(text) is not None
    verb = verbs[0] if verbs and not is_event and not _MANY.search(text) else len(tokens)
    tense = tense.lastgroup if (tense := _TENSE.search(text)) else ""
    start = len(_tokens(condition[0])) - 1 if condition else -1
    read = _read_slots(tokens, verbs[0] if verbs else len(tokens), start)
    is_open = not read.filling and verb < len(tokens) and len(read.frame) <= MAX_OPEN and not _UNCLEAR.match(text)
    if is_open and (opened := _OPEN.fullmatch(text)):
        read = _read_slots(_tokens(f"{opened[1]}{opened[4] or ''}"), verb, verb)
        read = read._replace(frame=[*read.frame, "<text>"], filling=[f'"{opened[2] or opened[3]}'])
    elif is_head or is_event or len(read.frame) < MIN_WORDS or read.words < max(2, len(read.filling)):
        read = _read_slots(tokens, verb, verb)
        is_denied = not read.filling and (read.words < 2 or tense == "plan")
        if len(read.frame) < 2 or is_denied or (is_head and (read.negations or not read.filling)):
            return
        if (is_head or len(read.frame) < (MIN_WORDS if read.filling else 3)) and _UNCLEAR.match(text):
            return
    thing, is_bare = re.findall(r"\w+", said.about), verb == 0 and len(read.frame) <= MIN_WORDS
    own = [word for word in thing if is_bare and word not in words] or _scope(said, is_bare=is_bare)
    frame = (tense or "", *(sorted(read.frame + own) if read.filling else read.frame + own))
    about = "" if is_bare or set(thing) <= set(words) else said.about
    yield said._replace(frame=frame, filling=(*read.filling, "not " * read.negations), about=about)
