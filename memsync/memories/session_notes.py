"""Says in a few lines what a session was about, from its kept conversation, by rules alone. Pure.

Each line quotes the conversation and cites the lines that it is from: what was asked, decided, changed, learnt the hard
way and left open. What a person decides is mostly an imperative; rules find these in English and in German.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from itertools import groupby
from typing import NamedTuple

from memsync.memories import session_wording as wording
from memsync.memories.prompt_words import PromptWords
from memsync.model.note import Message
from memsync.model.text import count, quotable
from memsync.notes.decode import split_lines
from memsync.notes.links import outside_code
from memsync.notes.message_format import read_messages
from memsync.search.stop_words import STOP_WORDS

MAX_CHARS = 200
"""A longer sentence is cut: the cited line has all of it."""
TYPED_LINES = 6
"""A message of more lines is mostly pasted: a specification, a review, a log."""
MOST = {"asked": 2, "decided": 3, "learnt": 2, "open": 2}
ORDER = ("asked", "decided", "changed", "committed", "learnt", "open")
MAX_LINE_CHARS = 1_000
MAX_FINDINGS = 50
MAX_FILES = 5
MIN_WORDS = 3
MIN_BRIEF = 4
"""With so many telling words, the first message says what to do however it is put."""
BOILERPLATE = 3
"""A sentence that is in so many messages is of a wrapper."""


class NoteLine(NamedTuple):
    """A line of a session's note: what kind it is of, what it says, and the lines of the conversation it is from."""

    kind: str
    text: str
    path: str
    first: int
    last: int
    is_owners: bool = False
    """Whether it is in the owner's words; others may be from a page that the agent has read."""

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
    last: int = 0
    """The last line that proves it, if it is not on one line."""


class Part(NamedTuple):
    """A note of a conversation: its path as it is cited, its lines and its messages."""

    path: str
    lines: Sequence[str]
    messages: Sequence[Message]


def part_of(path: str, text: str) -> Part:
    """Return a note of a conversation with its messages."""
    lines = split_lines(text)
    return Part(path, lines, read_messages(lines))


def day_of(time: str) -> date | None:
    """Return the local day of a message; None without a time."""
    return datetime.fromisoformat(time).astimezone().date() if time else None


def by_rules(parts: Sequence[Part]) -> list[NoteLine]:
    """Return what these messages of a session say, at most ten lines; none for greetings alone."""
    said, calls = [*said_in(parts)], [*_calls(parts)]
    asked, decided = _asked(said), _decided(said)
    decided = [line for line in decided if line.text not in [one.text for one in asked[:1]]]
    asked = [line for line in asked if line.text not in [one.text for one in decided]]
    left = [line for line in _open(said, calls) if line.text not in [one.text for one in asked]]
    lines = [*decided, *_changed(calls), *_learnt(said), *left]
    lines = [*asked[: MOST["asked"] if lines else 1], *lines]
    return sorted(lines, key=lambda line: ORDER.index(line.kind))


# -------------------------------------------------------------------------------------------- reading


def said_in(parts: Sequence[Part]) -> Iterator[Said]:
    """Yield the sentences that are neither code nor quoted, of people, of the agent, and lines of its summaries."""
    last = max((number for number, (_, message) in _messages(parts) if message.role == "assistant"), default=-1)
    for number, (part, message) in _messages(parts):
        if message.role in ("user", "assistant", "system"):
            for place, text in _sentences(part, message):
                yield Said(message.role, text, part.path, place, number, number == last)


def _messages(parts: Sequence[Part]) -> Iterator[tuple[int, tuple[Part, Message]]]:
    return enumerate((part, message) for part in parts for message in part.messages)


def _sentences(part: Part, message: Message) -> Iterator[tuple[int, str]]:
    """Yield the sentences of a message, each with its line; of a summary its lines, because an item is one thing."""
    thinks = False
    for offset, line in outside_code(_body(part, message)):
        thinks = (thinks or "<thinking>" in line) and "</thinking>" not in line
        line = line[:MAX_LINE_CHARS]  # a longer one is pasted, and patterns take long on it
        if not thinks and not wording.NO_WORDS.match(plain(line)):
            is_one = message.role == "system" or wording.QUESTION.fullmatch(line)
            for text in [line] if is_one else wording.SENTENCE.split(line):
                if text.strip():
                    yield message.body_line + offset - 1, text.rstrip()


def _body(part: Part, message: Message) -> list[str]:
    """Return the lines of a message, without a fence around all of it; of a command's text only what the user typed."""
    body = [*part.lines[message.body_line - 1 : message.end_line]]
    fences = [place for place, line in enumerate(body) if line.startswith("```")]
    if "fenced" in message.attributes.get("written", ""):
        for place in (*fences[:1], *fences[-1:]):
            body[place] = ""
    elif (first := next((place for place, line in enumerate(body) if wording.INPUT.match(line)), -1)) >= 0:
        begin, end = [*(place for place in fences if place > first), -1, -1][:2]
        body = [line if begin < place < end else "" for place, line in enumerate(body)]
    return body


class _Call(NamedTuple):
    name: str
    given: str
    path: str
    line: int
    message: int


def _calls(parts: Sequence[Part]) -> Iterator[_Call]:
    """Yield the calls of tools, as conversations keep them: their names, and the beginnings of their arguments."""
    for place, (part, message) in _messages(parts):
        if message.role == "tool":
            for number in range(message.body_line, message.end_line + 1):
                if match := wording.TOOL.match(part.lines[number - 1]):
                    yield _Call(match["name"], match["given"], part.path, number, place)


def _typed(said: Iterable[Said]) -> Iterator[Sequence[Said]]:
    """Yield the sentences of each message of the owner's, without the texts of commands."""
    of_owner = (one for one in said if one.role == "user")
    messages = [[*sentences] for _, sentences in groupby(of_owner, lambda one: one.message)]
    seen = set[str]()
    for message in messages:
        is_repeated = len(message) > TYPED_LINES and message[0].text in seen
        seen.add(message[0].text)
        if not is_repeated and not any(wording.TEMPLATE.search(one.text) for one in message):
            yield message


def _is_pasted(message: Sequence[Said]) -> bool:
    return message[-1].line - message[0].line > TYPED_LINES


def _are_alike(one: Said, other: Said) -> bool:
    words, others = _words(one.text), _words(other.text)
    return 2 * len(words & others) > min(len(words), len(others))


def _words(text: str) -> set[str]:
    return {word.lower() for word in wording.WORD.findall(wording.ADDRESS.sub("", text))} - STOP_WORDS


def plain(text: str) -> str:
    """Return a sentence as one line without Markdown's marks and quotes around it, cut to MAX_CHARS."""
    line = " ".join(quotable(wording.STRESS.sub("", wording.MARKER.sub("", text))).split())
    line = line[1:-1] if line[:1] == line[-1:] == '"' else line
    return line if len(line) <= MAX_CHARS else line[:MAX_CHARS].rsplit(" ", 1)[0] + " …"


def _line(kind: str, one: Said | _Call, text: str, last: int = 0) -> NoteLine:
    last = max(one.line, last, one.last if isinstance(one, Said) else 0)
    return NoteLine(kind, text, one.path, one.line, last, isinstance(one, Said) and one.role == "user")


def _chosen(kind: str, found: Iterable[tuple[int, Said]]) -> list[NoteLine]:
    """Return the heaviest of some sentences, each once, in their order; of equal ones the last: it may correct one."""
    once = {plain(one.text).casefold(): (weight, number, one) for number, (weight, one) in enumerate(found)}
    heaviest = sorted(once.values(), key=lambda item: item[:2], reverse=True)[: MOST[kind]]
    return [_line(kind, one, plain(one.text)) for _, _, one in sorted(heaviest, key=lambda item: item[1])]


# ---------------------------------------------------------------------------------------------- rules


def _asked(said: Sequence[Said]) -> list[NoteLine]:
    """Return what was asked first and, if it is another thing, what was asked last."""
    asked, clear = dict[str, Said](), list[str]()
    often = Counter(plain(one.text) for one in said if one.role == "user")
    answers = _answers(said)
    for sentences in (one for one in _typed(said) if one[0].message not in answers):
        if not wording.GENERIC.match(" ".join(one.text for one in sentences).strip()):
            typed = [one for one in sentences if one.line - sentences[0].line <= TYPED_LINES or one is sentences[-1]]
            able = {plain(one.text): one for one in typed if len(_words(one.text)) >= MIN_WORDS}
            asking = [text for text in able if wording.ASKS.search(text) and often[text] < BOILERPLATE]
            for text in [*(text for text in asking if not text.endswith("?")), *asking, *able][:1]:
                asked.setdefault(text, able[text])
                is_brief = len(asked) == 1 and len(PromptWords.of(text).telling) >= MIN_BRIEF
                clear += [text] * (text not in clear and (text in asking or is_brief))
    telling = [text for text in clear if PromptWords.of(text).telling] or clear
    work = [text for text in telling if not text.endswith("?")] or telling
    last = [text for text in work[1:] if len(_words(text)) > MIN_WORDS][-1:]
    return [_line("asked", asked[text], text) for text in (*(work or [*asked])[:1], *last)]


def _decided(said: Sequence[Said]) -> list[NoteLine]:
    """Return what the owner decided: what he demands or rules out; not what he asks, reports, quotes or pastes."""
    answers = _answers(said)
    found = [(1, one) for one in answers.values() if not wording.GO_AHEAD.match(one.text)]
    found += [(3, one) for one in _options(said)]
    answered = {plain(one.text): one.message for one in reversed(said) if one.role == "assistant"}
    for message in (one for one in _typed(said) if one[0].message not in answers):
        ends = (message[0].line, message[-1].line) if _is_pasted(message) else ()
        for one in (one for one in message if not ends or one.line in ends):
            text = plain(one.text)
            is_quoted = answered.get(text, one.message) < one.message or bool(wording.REPORTS.search(text))
            is_lasting = not wording.REVIEWS.match(text) and not wording.PASSING_BY.search(text)
            is_said = not is_quoted and is_lasting and "?" not in text and not text.endswith(":")
            weight = 2 * bool(wording.FIRMLY.search(text)) or int(bool(wording.DECIDES.search(text)))
            found += [(weight, one)] * (is_said and len(_words(text)) >= MIN_WORDS and bool(weight))
    found += [(3, one) for one in _of_summaries(said, "decided") if len(_words(one.text)) >= MIN_WORDS]
    return _chosen("decided", sorted(found, key=lambda item: item[1].message))


def _answers(said: Sequence[Said]) -> dict[int, Said]:
    """Return what the owner answered to questions that the agent asked by a tool, with the question, by message.

    Only the answer is the owner's, so the whole is not.
    """
    questions = {one.message + 1: one for one in said if wording.QUESTION.fullmatch(one.text.strip())}
    found = dict[int, Said]()
    for number, message in groupby(said, lambda one: one.message):
        asked, (first, *more) = questions.get(number), message
        if asked is not None and (asked.role, first.role) == ("assistant", "user"):
            text = f"{plain(' '.join(one.text for one in (first, *more)))} — {plain(asked.text)}"
            last = [first, *more][-1].line * (first.path == asked.path)
            found[number] = asked._replace(text=text, message=number, last=last)
    return found


def _options(said: Sequence[Said]) -> Iterator[Said]:
    """Yield the options, as the agent put them, that the owner has chosen by their number or letter alone."""
    offered = dict[int, list[Said]]()
    for one in said:
        offered.setdefault(one.message, []).append(one)
    before = sorted(offered)
    for place, number in enumerate(before[1:]):
        sentences, choice = offered[before[place]], wording.CHOICE.match(offered[number][0].text.strip())
        if not choice or len(offered[number]) > 1 or offered[number][0].role != "user":
            continue
        asks = [one.text for one in sentences if "?" in one.text or wording.OFFERS.search(one.text)][-1:]
        option = re.compile(wording.OPTION.format(choice["name"]), re.IGNORECASE)
        if asks and not wording.HOW_MUCH.search(asks[0]):
            yield from [one._replace(message=number) for one in sentences if option.match(one.text)][-1:]


def _changed(calls: Sequence[_Call]) -> list[NoteLine]:
    """Return the files that tools wrote most often, and the commits; what was written after the last one is open."""
    files, commits, open_files = dict[str, list[_Call]](), dict[str, _Call](), list[tuple[str, _Call]]()
    for call in calls:
        if wording.WRITES.search(call.name) or "*** Begin Patch" in call.given:
            for found in wording.FILE.finditer(call.given):
                path = (found[1] or found[2]).replace("\\\\", "/")
                if not any(form.search(path) for form in (wording.PASSING, wording.MADE_UP, wording.CUT)):
                    open_files.append((path.rpartition("/")[2], call))
                    files.setdefault(open_files[-1][0], []).append(call)
            continue
        for found in wording.COMMIT.finditer(call.given.replace('\\"', '"').replace("\\n", "\n")):
            text = plain(found["here"] or found["double"] or found["single"])
            if not wording.MADE_UP.search(text):
                open_files, commits[text] = [], call
    lines = []
    if files:
        most = sorted(files, key=lambda name: -len(files[name]))
        more = f" and {count(len(files) - MAX_FILES, 'more file')}" if len(files) > MAX_FILES else ""
        first = min((calls_of[0] for calls_of in files.values()), key=calls.index)
        last = max(call.line for calls_of in files.values() for call in calls_of if call.path == first.path)
        lines.append(_line("changed", first, f"{quotable(', '.join(most[:MAX_FILES]))}{more}", last))
    if commits:
        told = sorted(commits, key=lambda text: (not wording.CUT.search(text), not wording.MINOR.match(text)))[-1]
        more = f" and {count(len(commits) - 1, 'other commit')}" if len(commits) > 1 else ""
        lines.append(_line("committed", commits[told], f"{wording.CUT.sub(' …', told)}{more}"))
    if commits and open_files:
        lines.append(_line("open", open_files[-1][1], f"not committed: {quotable(open_files[-1][0])}"))
    return lines


def _learnt(said: Sequence[Said]) -> list[NoteLine]:
    """Return what the agent found to be the cause of an error, the last finding first.

    Guesses do not count, nor what it withdraws, nor what the owner then says has not helped.
    """
    found, before, asked = list[Said](), 0, 0
    for one in said:
        text = plain(one.text)
        if one.role == "user":
            before, asked = (before if asked == one.message else asked), one.message
            if wording.STILL_WRONG.search(text):
                found = [finding for finding in found if finding.message < before]
        elif one.role == "assistant" and wording.WITHDRAWS.search(text):
            is_passing = text[:4].lower() in ("wait", "hmm,", "hmm ", "hmm.")
            found = [finding for finding in found if finding.message < one.message] if is_passing else []
        elif one.role == "assistant" and wording.LEARNT.search(text) and not wording.UNSURE.search(text):
            found += [one] * (len(_words(text)) > MIN_WORDS + 1 and not text.endswith(":"))
    causes = (one for one in _of_summaries(said, "learnt") if not wording.SUCCEEDED.search(one.text))
    found = [*(one for one in causes if len(_words(one.text)) > MIN_WORDS), *found][-MAX_FINDINGS:]
    latest = [one for place, one in enumerate(found) if not any(_are_alike(one, other) for other in found[place + 1 :])]
    return _chosen("learnt", enumerate(latest))


def _open(said: Sequence[Said], calls: Sequence[_Call]) -> list[NoteLine]:
    """Return what the agent's list of tasks, its last answer or its summary says is left; or what has no answer."""
    answers = _answers(said)
    requests = [one for one in _typed(said) if one[0].message not in answers]
    numbers = (one[0].message for one in requests if not wording.GENERIC.match(" ".join(s.text for s in one).strip()))
    asked = max(numbers, default=-1)
    listed = [call for call in calls if wording.TASK_LIST.search(call.name) and wording.TASK.search(call.given)][-1:]
    # A list that the agent has not touched since the last request is of another one.
    tasks = [task for call in listed if call.message > asked for task in wording.TASK.finditer(call.given)]
    if tasks := [task for task in tasks if task["status"] not in wording.DONE]:
        left = [plain(_unescaped(task["text"])) for task in tasks]
        return [_line("open", listed[0], "; ".join(left[: MOST["open"] + 1]))]
    answer, found = [one for one in said if one.is_last], list[Said]()
    for place, one in enumerate(answer):
        if wording.LEFT_OPEN.search(one.text) and not one.text.rstrip().endswith("?"):
            is_title = one.text.rstrip(" *").endswith(":") or wording.HEADING.match(one.text)
            found += answer[place + 1 : place + 1 + MOST["open"]] if is_title else [one]
    if not found:
        said_last = max([asked, *(one.message for one in answer)])
        found = [one for one in _of_summaries(said, "open") if one.message > said_last]
    if not found:
        found = [one for one in answer if wording.OFFERS.search(one.text) and one.message > asked][-1:]
    if not found and answer and answer[0].message < asked:
        found = [one for message in requests[-1:] for one in message if wording.ASKS.search(plain(one.text))][:1]
    return _chosen("open", ((-place, one) for place, one in enumerate(found) if len(_words(one.text)) >= MIN_WORDS))


def _of_summaries(said: Sequence[Said], kind: str) -> Iterator[Said]:
    """Yield the items in one section of the agent's last summary, and what the owner has made clear in the others."""
    last = max((one.message for one in said if one.role == "system"), default=-1)
    is_in = False
    for one in said:
        if one.message == last:
            if title := wording.HEADING.match(one.text.strip()):
                is_in = bool(wording.PARTS_OF_SUMMARY[kind].search(title["title"]))
            elif not wording.MARKER.match(one.text) or wording.NOTHING.match(plain(one.text)) or one.text[-1] == ":":
                continue
            elif is_in or (kind == "decided" and wording.OF_USER.search(one.text)):
                yield one


def _unescaped(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return text
