"""What `memsync search` can be asked: its options, as data, and a reader of plain command lines that needs no click.

The whole command takes 80 ms when a daemon answers, and loading click would add 30. So the options stand here once:
click's command is made of them (search.py), and `read_plainly` understands what is written in the plainest way. What
it does not understand it leaves to click, and with it every error and every help text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from memsync.cli.entry import looks_like_option

if TYPE_CHECKING:
    from memsync.daemon.client import Client
    from memsync.memory_api import MemoryApi
    from memsync.model import Neighbours, SearchResult

NO_MATCH_EXIT_CODE = 1
NOT_KNOWN_YET_EXIT_CODE = 13


class Option(NamedTuple):
    """One option. With neither `choices`, `least` nor `metavar` it is a flag; `many` may be given several times.

    `is_share` is a number from 0 to 1.
    """

    name: str
    explanation: str
    short: str = ""
    metavar: str = ""
    choices: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    many: bool = False
    default: Any = None
    is_share: bool = False

    @property
    def is_flag(self) -> bool:
        """True when it takes no value."""
        return not (self.choices or self.metavar or self.least is not None)

    def value_of(self, text: str) -> Any:
        """Return what `text` means for this option, None when that is for click to judge."""
        if self.least is not None:
            plain = text.isascii() and text.isdigit() and len(text) < 10
            return int(text) if plain and self.least <= int(text) <= (self.most or int(text)) else None
        if self.is_share:
            # Only plain numbers: click judges 1e-3, nan and 2, and its messages say what is wrong.
            return float(text) if re.fullmatch(r"0?\.\d{1,9}|[01]", text, re.ASCII) else None
        return text if not self.choices or text in self.choices else None


FILTERS = (
    Option("kind", "soul, memory, daily, thread, prompt or note", metavar="VALUE", many=True),
    Option("tier", "personal, project or task", metavar="VALUE", many=True),
    Option("tag", "what has this tag, or one beneath it", metavar="VALUE", many=True),
    Option("in", "beneath this folder", metavar="VALUE", many=True),
    Option("path", "paths like this; * also matches slashes", metavar="VALUE", many=True),
    Option("role", "said by: user, assistant, agent, …", metavar="VALUE", many=True),
    Option("session", "of this thread", metavar="VALUE", many=True),
    Option("status", "threads and messages of this status: active, completed, …", metavar="VALUE", many=True),
    Option("after", 'since: 2026-11-01, 2026-11, yesterday, 3d, "2 weeks ago"', metavar="VALUE", many=True),
    Option("before", "until, the named day included", metavar="VALUE", many=True),
)
OPTIONS = (
    Option("limit", "How many hits. [default: search.limit, 10]", "-n", least=1, most=1000),
    Option("mode", "Which retrievers answer.", choices=("hybrid", "keyword", "vector")),
    Option("tokens", "Return as many hits as fit into N tokens.", metavar="N", least=1),
    Option("min-score", "Leave out hits with a lower score, from 0 to 1.", metavar="P", is_share=True),
    Option("rerank", "Let a cross-encoder read the first hits, and blend its relevance with their scores."),
    Option("where", "Only where an attribute or front matter key has this value.", metavar="KEY=VALUE", many=True),
    Option("archived", "Search retired notes too."),
    Option(
        "fresh",
        "How fresh the answer must be: strict (compare all files first), bounded (trust the daemon), "
        "none (use the index as it is).",
        choices=("strict", "bounded", "none"),
        default="strict",
    ),
    Option("generation", "Wait until the index has reached generation N.", metavar="N", least=0, default=0),
    Option(
        "context", "With each hit in a thread, print N messages before and after it.", metavar="N", least=1, most=100
    ),
    Option("full", "Print each hit whole instead of a snippet."),
    Option("explain", "Print ranks, scores, filters and the time of each stage."),
    Option("json", "Print one JSON document (docs/json.md)."),
)
_PLACES = (Option("config", "", metavar="FILE"), Option("root", "", metavar="DIR"))
_BY_FLAG = {
    flag: option for option in (*OPTIONS, *FILTERS, *_PLACES) for flag in (f"--{option.name}", option.short) if flag
}
_FILTER_NAMES = frozenset(option.name for option in FILTERS)


class Asked(NamedTuple):
    """One question as the command line puts it: its words, and the value of each option by name.

    `config` and `root` are those given after the command's name, empty without any.
    """

    words: Sequence[str]
    options: Mapping[str, Any]
    config: str = ""
    root: str = ""

    def of(self, memory: MemoryApi | Client, root: str) -> SearchResult:
        """Ask a memory, whose root has the real path `root`. Raises as Memory.search does."""
        options = self.options
        pairs = [(f.name, value) for f in FILTERS for value in options.get(f.name, ())]
        text = " ".join(_requoted(word, alone=len(self.words) == 1) for word in self.words)
        if "in:" in text or options.get("in"):
            from memsync.cli.here import Here
            from memsync.wiring import beneath_root

            here = Here(root, beneath_root)
            text = here.words(text)
            pairs = [(name, here.folder(value) if name == "in" else value) for name, value in pairs]
        pairs += [("where", pair) for pair in options.get("where", ())]
        pairs += [("is", "archived")] * bool(options.get("archived"))
        return memory.search(
            text,
            limit=options.get("limit"),
            mode=options.get("mode"),
            filter_pairs=pairs,
            tokens=options.get("tokens"),
            min_score=options.get("min-score"),
            rerank=bool(options.get("rerank")),
            fresh=options.get("fresh", "strict"),
            generation=options.get("generation", 0),
        )

    def show(self, result: SearchResult, around: Sequence[Neighbours | None] = ()) -> int:
        """Print the answer and return the exit code; `around` has what stands around each hit, where that was asked."""
        explain = bool(self.options.get("explain"))
        if self.options.get("json"):
            from memsync.cli.text import say_json
            from memsync.model.plain import plain, plain_result

            document = plain_result(result)
            for hit, neighbours in zip(document["hits"], around, strict=False):
                if neighbours is not None:
                    hit["context"] = plain(neighbours)
            say_json(document if explain else {name: value for name, value in document.items() if name != "explain"})
        else:
            from memsync.cli.render import render

            options = self.options
            fresh = options.get("fresh", "strict")
            render(result, full=bool(options.get("full")), explain=explain, fresh=fresh, around=around)
        return self._exit_code(result)

    def _exit_code(self, result: SearchResult) -> int:
        """Return 1 only for an answer that is no: as long as files are not searched yet, nothing found says nothing."""
        if result.hits:
            return 0
        fresh = result.freshness
        is_known = not fresh.pending_text and fresh.generation >= self.options.get("generation", 0)
        return NO_MATCH_EXIT_CODE if is_known else NOT_KNOWN_YET_EXIT_CODE


def read_plainly(arguments: Sequence[str]) -> Asked | None:
    """Return what the arguments behind `search` ask, or None when only click can tell."""
    words: list[str] = []
    options: dict[str, Any] = {}
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            words += rest
        elif not looks_like_option(argument):
            words.append(argument)
        else:
            flag, equals, text = argument.partition("=")
            option = _BY_FLAG.get(flag)
            if option is None or (equals and (option.is_flag or flag == option.short)):
                return None
            value = True if option.is_flag else option.value_of(text if equals else next(rest, "-"))
            if value is None or (isinstance(value, str) and value.startswith("-")):
                return None
            options[option.name] = (*options.get(option.name, ()), value) if option.many else value
    if "context" in options:  # which takes more than one question
        return None
    config, root = options.pop("config", ""), options.pop("root", "")
    return Asked(words, options, config, root)


_SPOKEN_DATE = r"(?:\d+|an?|one) \w+ ago|last \w+"


def _requoted(word: str, *, alone: bool) -> str:
    """Give a filter's value back the quotes that the shell took: after:"2 weeks ago" arrives as one word.

    A single argument may also be the whole query in quotes; there only what can be nothing but a date is one value.
    """
    name, colon, value = word.partition(":")
    if not colon or name not in (*_FILTER_NAMES, "where") or " " not in value or '"' in value:
        return word
    is_value = re.fullmatch(_SPOKEN_DATE, value, re.IGNORECASE) if name in ("after", "before") else not alone
    return f'{name}:"{value}"' if is_value else word
