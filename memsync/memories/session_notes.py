"""Says in a few lines what a session was about, from its kept conversation, by rules alone. Pure.

Each line quotes the conversation and cites the lines that it is from: what was asked, decided, changed, learnt the hard
way and left open. What a person decides is mostly an imperative; rules find these in English and in German.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from itertools import groupby
from typing import NamedTuple

from memsync.model.note import Message
from memsync.model.text import count, quotable
from memsync.notes.decode import split_lines
from memsync.notes.frontmatter import read_head
from memsync.notes.links import outside_code
from memsync.notes.message_format import find_headings, messages_in
from memsync.search.stop_words import STOP_WORDS

MAX_CHARS = 200
"""A longer sentence is cut: the cited line has all of it."""
MAX_TYPED_CHARS = 600
"""A longer message is mostly pasted: a specification, a review, a log. What it says is not what its sender decides."""
MOST = {"asked": 2, "decided": 3, "learnt": 2, "open": 2}
MAX_FILES = 5
MIN_WORDS = 3
_SENTENCE = re.compile(r"(?<=[^\d\s][.!?])\s+(?=[\W\d]*[A-ZÄÖÜ])|\s*[\r\n]+")
_ADDRESS = re.compile(r"\S*(?:://|/\S+/)\S*")
_WORD = re.compile(r"[^\W\d_]{2,}")
_NO_WORDS = re.compile(
    r"""(?:[>|<{}\[\]$]|--?[A-Za-z]|"[^"]*":|at \S+\(|(?:bug|fix|issue|error|warning):)|.*(?:[;{\\]$|"\})""",
    re.IGNORECASE,
)
"""Lines that are quoted, of a table, code, of a trace, or the labels of a review."""
_MARKER = re.compile(r"^\s*(?:[-*+•]|\d+[.)]|#{1,6}|\[[ xX]\])\s+")
_STRESS = re.compile(r"\*\*|__|`")
_FIRMLY = re.compile(
    r"(?:^|[,;:.–—-] *|\b(?:please|you should|you must|we should|we must|but|and|so) )(?:always|never|only ever)\b"
    r"|\bmust(?:n't| not)?\b(?! (?:be (?:an?\b|the\b|some|one of|[\"'`])|have (?:been|had)))"
    r"|\b(?:from now on|i(?:'d)? (?:prefer|rather)|instead of|rather than|we(?:'ve| have)? (?:decided|agreed))\b"
    r"|^(?:no|nope|nein)\b[,.!:;]? +\w+ +\w+"
    r"|\b(?:niemals|ab jetzt|ab sofort|stattdessen|wir haben (?:uns )?(?:entschieden|beschlossen))\b"
    r"|\b(?:bitte|es) (?:immer|nie)\b|^(?:immer|nie)\b"
    r"|\b(?:muss|müssen|darf nicht|dürfen nicht|darf kein\w*|dürfen kein\w*)\b",
    re.IGNORECASE,
)
_DECIDES = re.compile(
    r"^(?:(?:ok(?:ay)?|yes|ja|and|so|then|also|please|bitte|actually|just)[,.]? +)*"
    r"(?:use|keep(?! in mind| going)|prefer|avoid|stick|drop|go with|leave(?! an? )|choose|nimm|nutze?|verwende?"
    r"|benutze?|behalte?|vermeide?)\b"
    r"|(?:^|[,;:] *|\b(?:please|but|and|so) )(?:don't|do not|dont)\b(?! (?:know|see|think|understand|worry|get|have))"
    r"|\b(?:let's|lets|let us) (?:use|go with|keep|stick|not|leave|drop|stay)\b"
    r"|\bwe(?:'ll| will) (?:use|go with|keep)\b"
    r"|\bshould(?:n't| not| always| never| only)\b|\b(?:lieber|lass uns|wir (?:nehmen|nutzen|verwenden|bleiben))\b",
    re.IGNORECASE,
)
_LEARNT = re.compile(
    r"\b(?:(?:root cause|culprit)(?= was| is|:)|(?:the|this) (?:actual |real |main )?(?:problem|issue|cause|bug|reason)"
    r" (?:was|is|turned out|came)|it turn(?:s|ed) out (?:that|the)|(?:was|were) caused by|fail(?:s|ed) because"
    r"|the fix (?:was|is) (?:to|an?)|fixed (?:it )?(?:by \w+ing|with)|das problem (?:war|ist)|lag daran"
    r"|der fehler (?:war|lag|ist))\b",
    re.IGNORECASE,
)
_UNSURE = re.compile(
    r"\b(?:let me|i'll|i will|might|may be|maybe|perhaps|probably|likely|seems?|appears?|could be|if the|whether"
    r"|check|vielleicht|vermutlich|wahrscheinlich)\b|\?",
    re.IGNORECASE,
)
_LEFT_OPEN = re.compile(
    r"\b(?:next steps?|still (?:needs?|to do|open|missing|fails?|have to)|remaining|not (?:yet|done|implemented)"
    r"|left to do|follow-?ups?|todo|you(?:'ll| will)? (?:still )?need to|noch (?:offen|nicht|zu tun)|fehlt noch"
    r"|als nächstes|nächste schritte)\b",
    re.IGNORECASE,
)
_PARTS_OF_SUMMARY = {
    "decided": re.compile(r"user preferences|user feedback|decisions", re.IGNORECASE),
    "learnt": re.compile(r"errors? and fix|problem solving|lessons", re.IGNORECASE),
    "open": re.compile(r"pending tasks|open (?:tasks|questions)|next step|remaining", re.IGNORECASE),
}
_HEADING_OF_SUMMARY = re.compile(r"^(?:#{1,6} +|\d+[.)] +)(?:\*\*)?(?P<title>[^:*\n]{3,60})(?:\*\*)?:?(?:\*\*)?\s*$")
_TOOL = re.compile(r"^> (?P<name>\S+) (?P<given>.*)$")
_WRITES = re.compile(r"edit|write|patch|replace|create|update_file|insert", re.IGNORECASE)
_FILE = re.compile(
    r'"(?:file_?path|filePath|path|target_file|notebook_path)": *"((?:[^"\\]|\\.)+)"'
    r"|\*\*\* (?:Add|Update|Delete) File: ([^\\\s\"]+)"
)
_COMMIT = re.compile(
    r"\bgit(?: -C \S+)? commit\b[^|;&\n]*? (?:-\w*m|--message)[ =]"
    r"(?:\"\$\(cat <<-? ?['\"\\]*\w+['\"]*\s+(?P<here>[^\n]+)|\"(?P<double>[^\"\n]+)|'(?P<single>[^'\n]+))"
)
_OF_AGENT = re.compile(r"/\.\w+/(?:plans|projects|memories|todos)/")
"""Plans and notes of the agent's own."""
_TODO = re.compile(r"todo|plan", re.IGNORECASE)
_TASK = re.compile(
    r'\{(?=[^{}]*"(?:content|step|title|description)": *"(?P<text>(?:[^"\\]|\\.)+)")'
    r'[^{}]*"status": *"(?P<status>\w+)"[^{}]*'
)
_DONE = ("completed", "done", "cancelled")
_GENERIC = re.compile(
    r"^(?:/\w|!|#|(?:(?:can|could) (?:we|you) |please )*(?:continue|go on|go ahead|proceed|resume)|yes|yep|ok(?:ay)?"
    r"|thanks?|thank you|hi|hello|hey|next|do it|try again|weiter|ja|danke|hallo)\b.{0,25}$",
    re.IGNORECASE | re.DOTALL,
)


class NoteLine(NamedTuple):
    """A line of a session's note: what kind it is of, what it says, and the lines of the conversation it is from."""

    kind: str
    text: str
    path: str
    first: int
    last: int

    @property
    def citation(self) -> str:
        """`path:line` or `path:first-last`."""
        return f"{self.path}:{self.first}" + (f"-{self.last}" if self.last > self.first else "")


class Said(NamedTuple):
    """A sentence of a message, and the line on which it begins; `is_last` marks those of the last answer."""

    role: str
    text: str
    path: str
    line: int
    message: int
    is_last: bool = False


class Part(NamedTuple):
    """A note of a conversation: its path as it is cited, its lines and its messages."""

    path: str
    lines: Sequence[str]
    messages: Sequence[Message]


def part_of(path: str, text: str, day: date | None = None) -> Part:
    """Return a note of a conversation with its messages, or only those of a local day."""
    lines = split_lines(text)
    sections = [section for section, _ in find_headings(lines, read_head(lines).line_count + 1)]
    found = (one for one in messages_in(sections, lines) if day is None or day_of(one.time) == day)
    return Part(path, lines, [*found])


def day_of(time: str) -> date | None:
    """Return the local day of a message; None without a time."""
    return datetime.fromisoformat(time).astimezone().date() if time else None


def by_rules(parts: Sequence[Part]) -> list[NoteLine]:
    """Return what these messages of a session say, at most ten lines; none for greetings alone."""
    said, calls = [*said_in(parts)], [*_calls(parts)]
    lines = [*_decided(said), *_changed(calls), *_learnt(said), *_open(said, calls)]
    texts = {line.text for line in lines}
    asked = [line for line in _asked(said) if line.text not in texts]
    return [*asked[: MOST["asked"] if lines else 1], *lines]


# -------------------------------------------------------------------------------------------- reading


def said_in(parts: Sequence[Part]) -> Iterator[Said]:
    """Return the sentences that are neither code nor quoted, of people, of the agent, and of its summaries."""
    everyone = [(part, message) for part in parts for message in part.messages]
    last = next((n for n, (_, one) in reversed([*enumerate(everyone)]) if one.role == "assistant"), -1)
    for number, (part, message) in enumerate(everyone):
        if message.role not in ("user", "assistant", "system"):
            continue
        body = part.lines[message.body_line - 1 : message.end_line]
        if "fenced" in message.attributes.get("written", ""):
            body = ["", *body[1:-1]]
        for offset, line in outside_code(body):
            if _NO_WORDS.match(plain(line)):
                continue
            for sentence in _SENTENCE.split(line):
                if sentence.strip():
                    yield Said(
                        message.role, sentence.rstrip(), part.path, message.body_line + offset - 1, number,
                        number == last,
                    )  # fmt: skip


class _Call(NamedTuple):
    name: str
    given: str
    path: str
    line: int


def _calls(parts: Sequence[Part]) -> Iterator[_Call]:
    """Yield the calls of tools, as conversations keep them: their names, and the beginnings of their arguments."""
    for part in parts:
        for message in part.messages:
            if message.role == "tool":
                for number in range(message.body_line, message.end_line + 1):
                    if match := _TOOL.match(part.lines[number - 1]):
                        yield _Call(match["name"], match["given"], part.path, number)


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(_ADDRESS.sub("", text))} - STOP_WORDS


def plain(text: str) -> str:
    """Return a sentence as one line without Markdown's marks and quotes around it, cut to MAX_CHARS."""
    line = " ".join(quotable(_STRESS.sub("", _MARKER.sub("", text))).split())
    line = line[1:-1] if line[:1] == line[-1:] == '"' else line
    return line if len(line) <= MAX_CHARS else line[:MAX_CHARS].rsplit(" ", 1)[0] + " …"


def _line(kind: str, one: Said | _Call, text: str, last: int = 0) -> NoteLine:
    return NoteLine(kind, text, one.path, one.line, max(one.line, last))


def _chosen(kind: str, found: Iterable[tuple[int, Said]]) -> list[NoteLine]:
    """Return the heaviest of some sentences, each once, in their order."""
    once: dict[str, tuple[int, int, Said]] = {}
    for number, (weight, one) in enumerate(found):
        once.setdefault(plain(one.text).casefold(), (-weight, number, one))
    heaviest = sorted(once.values(), key=lambda item: item[:2])[: MOST[kind]]
    return [_line(kind, one, plain(one.text)) for _, _, one in sorted(heaviest, key=lambda item: item[1])]


# ---------------------------------------------------------------------------------------------- rules


def _asked(said: Sequence[Said]) -> list[NoteLine]:
    """Return the first sentence of what was asked first and, if it is another thing, of what was asked last."""
    asked = list[Said]()
    for sentences in _typed(said):
        if not _GENERIC.match(" ".join(one.text for one in sentences).strip()):
            asked += [one for one in sentences if len(_words(one.text)) >= MIN_WORDS][:1]
    return [_line("asked", one, plain(one.text)) for one in dict.fromkeys((*asked[:1], *asked[-1:]))]


def _typed(said: Sequence[Said]) -> Iterator[Sequence[Said]]:
    """Yield the sentences of each message of the owner's."""
    for _, message in groupby((one for one in said if one.role == "user"), lambda one: one.message):
        yield [*message]


def _decided(said: Sequence[Said]) -> list[NoteLine]:
    """Return what the owner decided: what he demands or rules out; not what he asks, reports or pastes."""
    found = []
    typed = (
        one
        for sentences in _typed(said)
        if sum(len(one.text) for one in sentences) <= MAX_TYPED_CHARS
        for one in sentences
    )
    for one in (*typed, *_of_summaries(said, "decided")):
        text = plain(one.text)
        is_question = text.endswith(("?", ":")) or len(_words(text)) < MIN_WORDS
        weight = 2 * bool(_FIRMLY.search(text)) or int(bool(_DECIDES.search(text)) or one.role == "system")
        if weight and not is_question:
            found.append((weight, one))
    return _chosen("decided", found)


def _changed(calls: Sequence[_Call]) -> list[NoteLine]:
    """Return the files that tools wrote, and the commits."""
    files: dict[str, _Call] = {}
    commits: dict[str, _Call] = {}
    for call in calls:
        if _WRITES.search(call.name) or "*** Begin Patch" in call.given:
            for found in _FILE.finditer(call.given):
                path = (found[1] or found[2]).replace("\\\\", "/")
                if not _OF_AGENT.search(path):
                    files.setdefault(path.rpartition("/")[2], call)
        for found in _COMMIT.finditer(call.given.replace('\\"', '"').replace("\\n", "\n")):
            message = found["here"] or found["double"] or found["single"]
            commits[plain(message)] = call
    lines = []
    if files:
        more = f" and {count(len(files) - MAX_FILES, 'more file')}" if len(files) > MAX_FILES else ""
        names = quotable(", ".join([*files][:MAX_FILES]))
        calls_of = [*files.values()]
        last = max(call.line for call in calls_of if call.path == calls_of[0].path)
        lines.append(_line("changed", calls_of[0], f"{names}{more}", last))
    if commits:
        text, call = [*commits.items()][-1]
        more = f" and {count(len(commits) - 1, 'earlier commit')}" if len(commits) > 1 else ""
        lines.append(_line("committed", call, f"{text}{more}"))
    return lines


def _learnt(said: Sequence[Said]) -> list[NoteLine]:
    """Return what the agent found to be the cause of an error, the last finding first; its guesses do not count."""
    of_agent = (one for one in said if one.role == "assistant")
    found = [one for one in of_agent if _LEARNT.search(plain(one.text)) and not _UNSURE.search(one.text)]
    found = [one for one in found if len(_words(one.text)) > MIN_WORDS + 1 and not one.text.rstrip().endswith(":")]
    summarised = [(1, one) for one in _of_summaries(said, "learnt") if len(_words(one.text)) > MIN_WORDS]
    return _chosen("learnt", [*((number + 2, one) for number, one in enumerate(found)), *summarised])


def _open(said: Sequence[Said], calls: Sequence[_Call]) -> list[NoteLine]:
    """Return the open tasks of the agent's list; otherwise what its last answer, or its summary, says is left."""
    if listed := [call for call in calls if _TODO.search(call.name) and _TASK.search(call.given)]:
        tasks = [(task["text"], task["status"]) for task in _TASK.finditer(listed[-1].given)]
        left = [plain(_unescaped(text)) for text, status in tasks if status not in _DONE]
        return [_line("open", listed[-1], "; ".join(left[: MOST["open"] + 1]))] if left else []
    answer = [one for one in said if one.is_last]
    found = list[Said]()
    for place, one in enumerate(answer):
        if _LEFT_OPEN.search(one.text) and not one.text.rstrip().endswith("?"):
            is_title = one.text.rstrip(" *").endswith(":") or _HEADING_OF_SUMMARY.match(one.text)
            found += answer[place + 1 : place + 1 + MOST["open"]] if is_title else [one]
    if not found and answer and not any(one.message > answer[0].message and one.role == "user" for one in said):
        summaries = [one.message for one in said if one.role == "system"]
        is_recent = bool(summaries) and summaries[-1] > answer[0].message
        found = [*_of_summaries(said, "open")] if is_recent else []
    return _chosen("open", [(1, one) for one in found if len(_words(one.text)) >= MIN_WORDS])


def _of_summaries(said: Sequence[Said], kind: str) -> Iterator[Said]:
    """Yield the sentences in one section of the agent's last summary of the conversation."""
    last = max((one.message for one in said if one.role == "system"), default=-1)
    is_in = False
    for one in said:
        if one.message == last:
            if title := _HEADING_OF_SUMMARY.match(one.text.strip()):
                is_in = bool(_PARTS_OF_SUMMARY[kind].search(title["title"]))
            elif is_in:
                yield one


def _unescaped(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return text
