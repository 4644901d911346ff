"""Find statements that contradict each other: they give one slot of one subject two values that exclude each other. Pure.

A statement gets a frame, its words without their order, with a placeholder for each slot, and a filling, the values of
these slots. Two statements contradict each other if they have the same frame, may be about the same thing, and differ in
exactly one value, or in a negation. So comparing all statements of a memory takes linear time, and a pair can be
explained. Statements in other words are not compared.

A short statement ("The office is in Hamburg.") has slots only after a verb that takes one value at a time: people own
many things and meet many people, but an office is in one place. In a long one every number and name is a slot, because
two people rarely write the same long sentence about two things.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, pairwise
from typing import NamedTuple, TypeVar

from memsync.notes.attributes import cut_attributes
from memsync.notes.entry_text import stem

T = TypeVar("T")
MIN_WORDS = 4
"""Fewest words and numbers of a long statement."""
MAX_OPEN = 6
"""Most words of a statement whose value is any text."""
MAX_FILLINGS = 2
"""A frame with more fillings is a form that many notes fill in, or a series: no two of them contradict each other."""
MAX_CHARS = 1_000
"""Of a longer paragraph only these characters are compared."""
MAX_VALUE_WORDS = 6
MAX_KEY_WORDS = 5
_FENCE = re.compile(r"\s*(?:```|~~~)")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?(?:\d{1,2}:\d\d\s+)?")
_NO_TEXT = re.compile(
    r"\s*(?:[|<]|\[[^\]]*\]:|={3,}|-{3,}|!?\[\[[^\]]*\]\]\s*$|!\[)|\s*#{1,6}(?:\s|$)|.*(?:\s\|\s|\{\{|<%|\[[\w -]+:: )"
)
_PROPERTY = re.compile(r"\s*(?:[-*+]\s+)?[\w][\w /-]{0,40}::(?:\s|$)")
_QUOTED = re.compile(r"\s*>|On .{5,80} wrote:$|-+ ?(?:Original|Forwarded) [Mm]essage|Begin forwarded message|From: .*@")
"""A block that is quoted, as far as the next empty line."""
_OUTPUT = re.compile(
    r"\s*(?:[\w.@:~/-]*[$%] |>>> |\$|[\[(]?(?:INFO|WARN|WARNING|ERROR|DEBUG|TRACE)\b|\[?\d{4}-\d\d-\d\d[T ]\d\d:)"
)
_LINK = re.compile(
    r"!?\[\[(?:[^\[\]|]{0,200}\|)?([^\[\]]{0,200})\]\]|!?\[([^\[\]]{0,300})\](?:\([^()]{0,300}\)|\[[^\[\]]{0,100}\])"
)
_REFERENCE = re.compile(r"`|\]\(|\[\[")
"""What a value refers to is no value: each note may refer to something else under the same key."""
_EMPHASIS = re.compile(r"[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}|~~")
_QUOTES = re.compile("[\"'‘’“”„]")
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!\b[A-Z]\.)(?<!\b[A-Z][a-z]\.)(?<!\bMrs\.)(?<!\bProf\.)\s+(?=[A-Z])")
_CLAUSE = re.compile(r"(?:[,;(–—]|\s-)\s?(?=[a-z])|\s(?:because|so|since|which|where|but|due to|as of|until)\s")
"""Where a statement ends and what is said about it begins."""
_KEY = re.compile(r"([^\W\d_][^:`|<>\[\]]{1,48}):\s+(\S.{0,80})")
_MONTH = r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?|(?:Nov|Dec)(?:ember)?)\b"
_TOKEN = re.compile(
    rf"""(?P<code>`[^`]*`|[\w./-]*\#\w+)
    |(?P<address>[\w.+-]{{1,64}}@[\w-]+\.[\w.-]+\w|https?://[^\s)>]+\b/?|\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?::\d+)?|(?<!\S)[.~]?/[\w./-]+\w)
    |(?P<date>\d{{4}}[-/.]\d\d?(?:[-/.]\d\d?)?\b|\d\d?[-/.]\d\d?[-/.]\d{{4}}\b|(?:\d{{1,2}}(?:st|nd|rd|th|\.)?\ (?:of\ )?)?{_MONTH}(?:\ \d{{1,2}}(?:st|nd|rd|th)?\b)?(?:,?\ \d{{4}}\b)?
        |(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?\b)
    |(?P<time>\d{{1,2}}:\d\d(?:\ ?[ap]m\b)?|\d{{1,2}}\ ?[ap]m\b)
    |(?P<phone>\+\d[\d\ ()/-]{{5,20}}\d)
    |(?P<money>[€$£]\ ?\d[\d.,]*|\d[\d.,]*\ ?(?:[€$£]|(?:EUR|USD|GBP|euros?|dollars?|pounds?)\b))
    |(?P<number>:?v?\d[\d.,/:-]*%?)
    |(?P<word>[^\W\d_][\w-]*)|(?P<sign>[%€$£])""",
    re.VERBOSE,
)
_NEGATIONS = frozenset(
    "not never no longer cannot without neither nor dont doesnt didnt isnt wasnt arent werent wont cant nicht kein keine"
    " nie niemals".split()
)
_UNSTRESSED = frozenset(
    "do does did a an the is are was were be been being will would can has have had to any ever always already that der"
    " die das ist sind war hat haben ein eine in on at by of for with and our my your its we i us now currently still"
    " just today located based situated date day called named name user im am auf von mit wir ich unser mein dr mr mrs".split()
)
"""Words that come and go with a negation ("uses", "does not use"), articles, and words that a value implies."""
_ALIKE = dict(pair.split(":") for pair in "run:use price:cost favourite:prefer favorite:prefer responsible:own led:lead kept:keep held:hold built:build".split())
_STATING = frozenset(
    map(
        stem,
        "is are was be ist sind live reside work sit born host deploy store run use write build like call name own lead maintain"
        " manage prefer want cost start end begin close open expire launch ship release schedule listen report belong point"
        " default require need target weigh last keep meet hold expose go contain have has allow take wohnt kostet heißt arbeitet".split(),
    )
)
"""Verbs that say one thing at a time of a subject; of `_OF_MANY`, this holds for numbers only."""
_OF_MANY = frozenset(map(stem, "use need like require have has contain allow take go run".split()))
_OTHERWISE = re.compile(
    r"\b(?:([Ww]as|were|had|formerly|previously|used to|until|ago|last (?:year|month|week)|[Ii]n (?:19|20)\d\d)"
    r"|(will|would|could|might|may|[Mm]aybe|[Pp]erhaps|plan(?:s|ned)? to|going to|propos\w+|consider\w*|if|unless|ideas?))\b"
)
_MANY = re.compile(
    r"\b(?:also|another|one of|for example|e\.g|such as|among|others?|there (?:is|are)|(?:has|have) an?)\b|\?$", re.I
)
_OPEN = re.compile(
    r"(?P<verb>\b(?:is|are|live|lives)(?: \w+(?:ed|pt|en))?) (?:in|at|on|under|behind|near) (?:the|my|our) "
    r"(?P<place>[a-z][\w-]*(?: [a-z][\w-]*)?)$|(?P<prefers>\bprefers?) (?P<choice>[a-z][\w-]*)(?P<what> (?:over )?[a-z][\w-]*)?$"
)
"""Other texts that exclude each other: places, and kinds of one thing."""
_VAGUE = frozenset("it this that these those they he she there what which who".split())
_CONDITION = re.compile(
    r"(?:When|If|In|On|With|Without|For|After|Before|At|During|Under|Since|While|Until|By|From)\b[^,]{1,100},|(?:If|When|Unless)\b"
)
_UNCLEAR = re.compile(
    r"(?:See|As|Were|No|Not|This (?:RFC|note|page|document|proposal|post|section|release|chapter|article))\b"
)
_PERSON = r"((?:Dr\. )?[A-ZÄÖÜ][\w-]+(?:(?: and|,)? [A-ZÄÖÜ][\w-]+)*)"
_OWNS = re.compile(
    rf"{_PERSON} (?:now )?(?:(owns|leads|maintains|manages|heads|coordinates|runs) (the .+)"
    r"|is (?:now )?(?:(responsible) for|in (charge) of|the) (.+))"
)
_EVENT = re.compile(
    r"(?:\w+ed|got|ran|went|met|spent|bought|saw|read|slept|woke|ate|did|made|took|paid|swam|wrote)\b", re.I
)
_SCALES = tuple(
    tuple(frozenset(words.split("/")) for words in scale.split())
    for scale in (
        "done/finished/completed/complete/closed/resolved/shipped/merged/live active/ongoing/running/progress/started paused/hold/blocked/"
        "stalled/suspended/stopped cancelled/canceled/abandoned/dropped open/pending/planned",
        "approved/accepted/granted/passed rejected/declined/denied/failed pending", "enabled disabled", "paid unpaid",
        "public private", "required/mandatory optional", "online offline", "tabs spaces", "dark light", "single double",
        "morning afternoon evening night", "manual automatic", "daily weekly monthly yearly", "available unavailable",
        "open closed/filled/taken", "true false", "yes no", "short/brief/concise/terse long/verbose/detailed", "up down", "valid invalid", "vegan vegetarian",
        "red blue green yellow black white grey", "healthy sick", "aisle window", "merge rebase",
        "active inactive", "allowed forbidden", "signed unsigned", "remote onsite", "full empty",
    )
)  # fmt: skip
_GRADED = frozenset(word for scale in _SCALES for words in scale for word in words)
_NUMBERS = {
    word: str(number)
    for number, word in enumerate("two three four five six seven eight nine ten eleven twelve".split(), 2)
}
_GENERIC = frozenset(
    "notes note docs logs files pages meetings journals threads memories ideas facts topics references resources areas"
    " archives drafts sessions conversations lists decisions rfcs reviews reports summaries prompts rules settings tips"
    " posts articles releases tasks plans days updates later update log todo misc general info infrastructure setup"
    " configuration basics background context history current remembered summary details overview status preferences".split()
)
_ENVIRONMENTS = frozenset("staging production prod dev development test testing local qa preview".split())
_UNSAID = re.compile(r"(?:^|/)(?:_?templates?(?:/|\b)|changelog|changes\.|news\.|release[ _-]?notes|releases/)", re.I)
_VERSION = re.compile(r"\[?v?\d+\.\d+")


class Said(NamedTuple):
    """A statement on a line of a note, under a heading; `about` is the person or thing it is about, empty if unknown.

    `frame` says which slots it fills in, and `filling` has their values and, last, its negations.
    """

    line: int
    heading: str
    text: str
    frame: tuple[str, ...]
    filling: tuple[str, ...]
    about: str = ""
    is_field: bool = False
    """It is an item `key: value`."""


def about(path: str) -> str | None:
    """Return the person or thing that a note is about, by its path; empty if unknown, None if it states nothing.

    A folder with a plural name (`people/`, `projects/`) has a note or a folder for each thing; notes of templates and
    changelogs state nothing.
    """
    if _UNSAID.search(path):
        return None
    *folders, name = path.lower().rpartition(".")[0].split("/")
    for folder, thing in pairwise([*folders, name]):
        if (folder.endswith("s") or folder in ("people", "team")) and folder not in _GENERIC:
            return thing
    is_part = folders and name in ("readme", "index", "_index", "overview", "about")
    return folders[-1] if is_part else name if name in _ENVIRONMENTS else ""


def said_in(lines: Sequence[str], first: int = 1, thing: str = "", day: str = "") -> Iterator[Said]:
    """Yield the statements of a text about a `thing`, which begins on line `first`: items, and sentences of paragraphs.

    In the log of a `day`, a number under a key of one word (`Weight: 81.2`) is about this day.
    """
    for line, heading, block, is_item in _blocks(lines, first):
        linked = _LINK.sub(lambda link: link[1] or link[2] or "", block[:MAX_CHARS])
        text = _QUOTES.sub("", _EMPHASIS.sub("", re.sub(r"['’]s\b", "", linked)))
        pair = _KEY.fullmatch(text) if is_item and not _REFERENCE.search(block) else None
        if pair and len(pair[1].split()) <= MAX_KEY_WORDS and len(pair[2].split()) <= MAX_VALUE_WORDS:
            if not set("/#") & set(pair[2].replace("://", "")) - {"/"}:
                yield from _of_key(Said(line, heading, block, (), (), thing), pair[1], pair[2].strip().rstrip("."), day)
        else:
            for sentence in _SENTENCE_END.split(text):
                yield from _of_sentence(Said(line, heading, sentence.strip(), (), (), thing))


def opposed(said: Iterable[tuple[Said, T]]) -> Iterator[tuple[list[T], list[T]]]:
    """Yield what came with the statements of two contradicting values, in the order of the statements."""
    by_frame: dict[tuple[str, ...], dict[str, dict[tuple[str, ...], list[T]]]] = {}
    for one, place in said:
        by_frame.setdefault(one.frame, {}).setdefault(one.about, {}).setdefault(one.filling, []).append(place)
    for by_thing in by_frame.values():
        if len(by_thing) == 2 and "" in by_thing:  # what a statement of a log is about is known if one thing has it
            for filling, places in by_thing.pop("").items():
                next(iter(by_thing.values())).setdefault(filling, []).extend(places)
        for fillings in by_thing.values():
            if 2 <= len(fillings) <= MAX_FILLINGS:
                for left, right in combinations(fillings, 2):
                    if _exclude(left, right):
                        yield fillings[left], fillings[right]


def _exclude(left: Sequence[str], right: Sequence[str]) -> bool:
    """Tell whether two fillings differ in one value, or a negation, and cannot both be true."""
    differing = [pair for pair in zip(left, right, strict=True) if pair[0] != pair[1]]
    if len(differing) != 1:
        return False
    (one, other), kind = differing[0], differing[0][0][:1]
    if kind == "@":  # one of two names may be more exact
        return not (set(one[1:].split()) <= set(other[1:].split()) or set(other[1:].split()) <= set(one[1:].split()))
    if kind == '"':
        return not set(one[1:].split()) & set(other[1:].split())
    if kind == "~":
        scales = (sum(bool({one[1:], other[1:]} & words) for words in scale) for scale in _SCALES)
        return any(count == 2 for count in scales)
    if kind == "d":
        return any(a != b for a, b in zip(one[1:].split("/"), other[1:].split("/"), strict=True) if a and b)
    return not (kind in "#a" and kind and (f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")))


def _blocks(lines: Sequence[str], first: int) -> Iterator[tuple[int, str, str, bool]]:
    """Yield (line, heading, text, whether it is an item) of each paragraph and item."""
    heading, start, block = "", 0, list[str]()
    is_item = is_code = is_quoted = has_title = False
    for number, line in enumerate([*lines, ""], first):
        marker = _ITEM.match(line)
        is_text = line.strip() and not _NO_TEXT.match(line) and not _PROPERTY.match(line)
        ends = not is_text or marker or _FENCE.match(line) or is_code
        if ends and block:
            if not _VERSION.match(heading) and not any(map(_OUTPUT.match, block)):
                yield start, heading, " ".join(block), is_item
            block = []
        is_quoted = bool(line.strip()) and (is_quoted or bool(_QUOTED.match(line)))
        if _FENCE.match(line):
            is_code = not is_code
        elif line.startswith("#") and not is_code:
            heading, has_title = line.strip("# ") if has_title or line[:2] == "##" else "", True
        elif is_code or not is_text or is_quoted:
            continue
        elif marker or block or not line.startswith(("    ", "\t")):
            plain = line[: cut_attributes(line)[0]]
            start, is_item = (start, is_item) if block else (number, marker is not None)
            block.append((plain[marker.end() :] if marker else plain).strip())


def _scope(heading: str) -> list[str]:
    """Return the words of a heading that names a thing."""
    words = [word for word in re.findall(r"\w+", heading.casefold()) if word not in _UNSTRESSED]
    return [] if len(words) > 3 or any(word in _GENERIC or word.isdigit() for word in words) else words


def _of_key(said: Said, key: str, value: str, day: str) -> Iterator[Said]:
    """Yield `key: value` if the value can be compared; any other text only under a heading, or a key of two words."""
    words = [_ALIKE.get(stem(word), stem(word)) for word in re.findall(r"\w+", key.casefold())]
    own = [word for word in words if word not in _UNSTRESSED] or words
    is_bare, thing = len(own) == 1, re.findall(r"\w+", said.about)
    own += [word for word in thing if word not in key.casefold()] or [
        word for word in _scope(said.heading) if is_bare or word in _ENVIRONMENTS
    ]
    is_bare = is_bare and not thing
    frame, filling, negations, _ = _read_slots([*_tokens(f"x {value}")][1:], -1)
    if value.casefold() in ("n/a", "none", "tbd", "unknown", "todo", "?", "-", "..."):
        return
    if not filling and (said.heading or not is_bare) and len(value.split()) <= 3:
        frame, filling = ["text", said.heading.casefold()], [f'"{value.casefold()}']
    if filling and (not is_bare or said.heading or filling[0][0] != "~"):
        frame, of_day = ["", *sorted([*own, *frame])], day if is_bare and filling[0][0] == "#" else ""
        yield said._replace(frame=(*frame,), filling=(*filling, "not " * negations), about=of_day, is_field=True)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each word and value; neighbouring names are one, as are a number and its names."""
    last, last_text, end = "", "", 0
    for match in _TOKEN.finditer(text):
        kind, token, gap = match.lastgroup or "", match[0], text[end : match.start()]
        if kind == "word" and ((token[0].isupper() and match.start()) or last_text in ("called", "named")):
            kind = "name"
        if kind == "name" and last in ("name", "number") and (gap in (" ", ", ", " & ") or (gap == ". " and len(last_text) < 5)):
            last, last_text = "name", f"{last_text} {token}"
        else:
            if last:
                yield last, last_text
            last, last_text = kind, token
        end = match.end()
    if last:
        yield last, last_text


def _value(kind: str, token: str) -> str:
    """Return a value so that two ways to write it are equal, after a character for its kind."""
    lowered = token.casefold().strip(".,:")
    if kind == "name":
        return "@" + " ".join(word for word in re.findall(r"\w+", lowered) if word not in _UNSTRESSED)
    if kind == "date":
        day = re.search(r"(?<!\d)\d{1,2}(?!\d)", lowered)
        month, year = re.search(_MONTH.lower(), lowered), re.search(r"\d{4}", lowered)
        if iso := re.match(r"(\d{4})\D(\d+)\D?(\d+)?|(\d+)\D(\d+)\D(\d{4})", lowered):  # or the day first
            number = int(iso[2] or iso[5])
            return f"d{iso[1] or iso[6]}/{_MONTHS[number % 13]}/{(iso[3] or iso[4] or '').lstrip('0')}/"
        week = "" if month else lowered.rstrip("s")
        return f"d{year[0] if year else ''}/{month[0][:3] if month else ''}/{day[0].lstrip('0') if day else ''}/{week}"
    if kind == "time":
        hour, minute = re.match(r"(\d+):?(\d\d)?", lowered).groups()  # type: ignore[union-attr]
        return f"t{(int(hour) % 12 + 12) if 'pm' in lowered else int(hour)}:{minute or '00'}"
    if kind == "money":
        sign = re.sub(r"[\d., ]", "", lowered)[0]
        return _SIGNS.get(sign, sign) + re.sub(r"[^\d.]", "", lowered).removesuffix(".00")
    if kind == "phone":
        return "p" + re.sub(r"\D", "", lowered)
    if kind == "number":
        return "#" + re.sub(r"(?<=\d),(?=\d{3})", "", lowered.lstrip("v"))
    return "a" + lowered.rstrip("/")


_SIGNS = {"e": "€", "u": "$", "d": "$", "g": "£", "p": "£"}
_MONTHS = ("", *"jan feb mar apr may jun jul aug sep oct nov dec".split())


def _read_slots(tokens: Sequence[tuple[str, str]], verb: int, start: int = -1) -> tuple[list[str], list[str], int, int]:
    """Return the frame, the filling, how many negations there are, and how many words.

    Only what comes after the verb is a slot; in a sentence without one, only a long one has any.
    """
    frame, filling, negations, words = list[str](), list[str](), 0, 0
    is_of_many = start == verb and 0 <= verb < len(tokens) and stem(tokens[verb][1].casefold()) in _OF_MANY
    for position, (given, token) in enumerate(tokens):
        lowered = token.casefold()
        kind = "number" if lowered in _NUMBERS else given
        value = _value(kind, _NUMBERS.get(lowered, token)) if kind not in ("word", "code", "sign") else ""
        if kind == "word" and lowered in _GRADED and verb < position:
            value = f"~{lowered}"
        if lowered in _NEGATIONS:
            negations += 1
        elif value and position > start and not (is_of_many and value[0] == "@"):
            frame.append(f"<{value[0]}>")
            filling.append(value)
        elif value or kind == "code":
            frame.append(value or lowered)
        elif kind == "word" and lowered not in _UNSTRESSED:
            root = stem(lowered)
            frame.append(_ALIKE.get(root, root))
            words += 1
    if negations == 1 and len(filling) == 1 and len(frame) <= MIN_WORDS and filling[0][0] == "~":
        pairs = [scale for scale in _SCALES if len(scale) == 2 and any(filling[0][1:] in one for one in scale)]
        if len(pairs) == 1:  # not enabled: disabled
            filling, negations = ["~" + min(next(one for one in pairs[0] if filling[0][1:] not in one))], 0
    return frame, filling, negations, words


def _of_sentence(said: Said) -> Iterator[Said]:
    text = said.text
    if text.endswith((":", "?")) or text[:1] == "\\" or not text:
        return
    owner = _OWNS.match(text)
    if owner and owner[1].split()[0].casefold() not in _UNSTRESSED | _VAGUE:
        text = f"{owner[3] or owner[6]} is {owner[2] or owner[4] or owner[5] or ''} by {owner[1]}"
    yield from _of_clause(said, text)
    if cut := _CLAUSE.search(text, 10):
        yield from _of_clause(said, text[: cut.start()], is_head=True)


def _of_clause(said: Said, text: str, *, is_head: bool = False) -> Iterator[Said]:
    tokens = list(_tokens(text))
    condition = _CONDITION.match(text)
    start = len(list(_tokens(condition[0]))) if condition else 0
    if len(tokens) < 2 or (text.startswith("See ") and len(tokens) < 12) or (is_head and condition):
        return
    other = _OTHERWISE.search(text)
    tense = "" if not other else "past" if other[1] else "plan"
    stems = [stem(token.casefold()) for _, token in tokens]
    copula = next((number for number, (_, token) in enumerate(tokens) if token in ("is", "are", "was", "ist")), -1)
    verb = copula if copula >= 0 else next((number for number, one in enumerate(stems) if one in _STATING), len(tokens))
    frame, filling, negations, words = _read_slots(tokens, verb, start - 1)
    is_event = _EVENT.match(text) is not None
    is_open = not filling and verb < len(tokens) and len(frame) <= MAX_OPEN and tokens[0][1].casefold() not in _VAGUE
    if is_open and (other_text := _OPEN.search(text.rstrip("."))):
        rest = other_text["what"] or ""
        known = text[: other_text.end("verb" if other_text["verb"] else "prefers")] + rest
        known += f" {other_text['choice']}" if rest.startswith(" over ") else ""
        frame, _, negations, words = _read_slots(list(_tokens(known)), verb, verb)
        filling = [f'"{other_text["place"] or other_text["choice"]}']
        frame.append("text")
    elif is_head or is_event or len(frame) < MIN_WORDS or words < max(2, len(filling)):
        first = tokens[0][1].casefold()
        if is_event or _MANY.search(text):
            verb = len(tokens)
        frame, filling, negations, words = _read_slots(tokens, verb, verb)
        is_vague = len(frame) < (MIN_WORDS if filling else 3) or is_head
        if (
            (is_vague and (first in _VAGUE or _UNCLEAR.match(text)))
            or len(frame) < 2
            or (not filling and (words < 2 or is_head or tense == "plan"))
        ):
            return
        if is_head and negations:
            return
        if verb == 0:
            frame += re.findall(r"\w+", said.about) or _scope(said.heading)
            said = said._replace(about="")
    if set(re.findall(r"\w+", said.about)) <= {token.casefold() for _, token in tokens}:
        said = said._replace(about="")
    frame += [word for word in _scope(said.heading) if word in _ENVIRONMENTS]
    yield said._replace(frame=(tense, *(sorted(frame) if filling else frame)), filling=(*filling, "not " * negations))
