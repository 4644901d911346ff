"""Make text safe for terminals and models."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence


def whole_characters(text: str) -> str:
    """Return text with U+FFFD for each half of a surrogate pair that lacks its other half: UTF-8 cannot encode it."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def count(number: int, thing: str, things: str = "") -> str:
    """Return a number with its noun: `1 thread`, `2 threads`; `things` is an irregular plural."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def duration(seconds: float) -> str:
    """Format a duration: `40 s`, `3 min 40 s`, `2 h 5 min`."""
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, seconds_left = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {seconds_left} s" if seconds_left else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def still_indexing(pending: int, of_files: int | None = None) -> str:
    """Return the sentence about files that an answer lacks; `of_files` is the total number of files."""
    if of_files is None:
        return f"Still indexing: {count(pending, 'file is', 'files are')} not searched yet."
    are = "is" if pending == 1 else "are"
    return f"Still indexing: {pending:,} of {count(of_files, 'file')} {are} not searched yet."


def also_searched(words: Sequence[str]) -> str:
    """Return what an answer says about words that were searched in place of unknown ones."""
    return f"also searched: {', '.join(words)}"


def not_shared(notes: Sequence[str]) -> tuple[str, ...]:
    """Return the warning about local-only notes that are not in an index that others can read; nothing without any."""
    if not notes:
        return ()
    them = "it" if len(notes) == 1 else "them"
    hidden = count(len(notes), "local-only note is", "local-only notes are")
    return (f"{hidden} not in the shared index, so this command does not see {them} (see memsync status)",)


def did_you_mean(name: str, names: Iterable[str], otherwise: str, cutoff: float = 0.6, form: str = "{}") -> str:
    """Return `Did you mean …?` with the most similar of `names`, or what is said if none is."""
    import difflib

    close = difflib.get_close_matches(name, list(names), n=1, cutoff=cutoff)
    return f"Did you mean {form.format(close[0])}?" if close else otherwise


def shortened(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters, with an ellipsis at its end if it is cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def listed(texts: Sequence[str], limit: int, joint: str = ", ") -> str:
    """Return the first `limit` texts on one line, and how many others there are: `a, b and 3 more`."""
    more = len(texts) - limit
    return joint.join(texts[:limit]) + (f" and {more:,} more" if more > 0 else "")


def printable(text: str) -> str:
    """Return a name or other text on one line, with each invisible character written as an escape.

    Neither a terminal nor a model may get these from a file: line ends, control characters, marks that change the
    writing direction, zero-width and tag characters, fillers, variation selectors, lone surrogates.
    """
    return _replaced(text, _IN_A_LINE)


def quoted(text: str, limit: int = 60) -> str:
    """Return text that a message takes from a file, in quotes: at most `limit` characters on one line.

    A stranger may have written it, and an agent reads the message. Every such text in an error or a warning goes
    through this function; a quote in it cannot end the quotation.
    """
    text = quotable(printable(" ".join(text.split()))).replace('"', "'")
    return f'"{shortened(text, limit)}"'


def visible(text: str) -> str:
    """Return text with line ends and tabs kept and every other invisible character replaced by U+FFFD."""
    return _replaced(text, _IN_LINES)


def quotable(text: str) -> str:
    """Return `visible` text in which nothing looks like a frame that agents and chat templates put around texts.

    `</system-reminder>` becomes `‹/system-reminder›`, and `Human:` at the start of a line `Human∶`. It may be in any
    case, in full-width letters, with blanks and attributes, or split by invisible characters. Other tags are
    left alone.
    """
    characters = list(text := visible(text))
    if (
        text.isascii() and "\t" not in text and not re.search(_FRAME, text.lower(), re.MULTILINE)
    ):  # most texts, in half the time
        return text
    folded = [(fold, place) for place, one in enumerate(characters) for fold in _FOLDS[one]]
    for match in re.finditer(_FRAME, "".join(fold for fold, _ in folded), re.MULTILINE):
        marks = ":" if match["role"] else "[]" if match[0][0] == "[" else "<>"
        for fold, place in folded[match.start() : match.end()]:
            characters[place] = _HARMLESS[fold] if fold in marks else characters[place]
    return "".join(characters)


def json_line(text: str) -> str:
    """Return a JSON document with every invisible character written as a JSON escape."""
    return _replaced(text, _IN_JSON)


_FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\uffa0"
_SELECTORS = "\ufe00-\ufe0d\U000e0100-\U000e01ef"
_LOOK = "(?<![#*0-9\xa9\xae\u203c-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff])[\ufe0e\ufe0f]"
_UNSEEN = f"[{_FILLERS}{_SELECTORS}]|{_LOOK}"  # compiled at its first use: most commands print ASCII only
"""Characters that are invisible even though Python calls them printable; a run of them can carry a hidden sentence.

They are in Unicode's Default_Ignorable_Code_Point. U+FE0E and U+FE0F, which choose between a symbol and its emoji, are
allowed once after each such symbol.
"""


def _replaced(text: str, escapes: _Escapes) -> str:
    if not text.isprintable():
        text = text.translate(escapes)
    return text if text.isascii() else re.sub(_UNSEEN, lambda match: escapes.escape(match[0]), text)


class _Escapes(dict[int, str]):
    """A table for `str.translate` that computes the replacement of each character once."""

    def __init__(self, escape: Callable[[str], str], kept: str = "") -> None:
        super().__init__()
        self.escape = escape
        self._kept = kept

    def __missing__(self, code: int) -> str:
        character = chr(code)
        is_seen = character.isprintable() or character in self._kept or unicodedata.category(character) == "Zs"
        self[code] = character if is_seen else self.escape(character)
        return self[code]


_IN_A_LINE = _Escapes(lambda character: character.encode("unicode_escape").decode())
_IN_LINES = _Escapes(lambda character: "\N{REPLACEMENT CHARACTER}", kept="\n\t")


class _Folds(dict[str, str]):
    """What each character is when case, width and ornament do not count; empty for those that cannot be seen."""

    def __missing__(self, character: str) -> str:
        folded = unicodedata.normalize("NFKC", re.sub(f"[\ufffd{_FILLERS}]", "", character)).casefold()
        self[character] = "".join(one for one in folded if one == "\n" or unicodedata.category(one)[0] not in "CM")
        return self[character]


_FOLDS = _Folds()
_HARMLESS = {"<": "\u2039", ">": "\u203a", "[": "\u2039", "]": "\u203a", ":": "\u2236"}
_TAGS = (
    "system(?:-(?:reminder|prompt|message|instructions?))?|assistant|human|developer|memsync-recall|antml:\\w+|invoke"
    "|(?:hook|session|environment)-context|(?:(?:user|permissions)-)?instructions|user-prompt-submit-hook|turn-aborted"
    "|(?:local-command|bash)-(?:input|stdout|stderr|caveat)|task-notification|user-shell-command|think(?:ing)?"
    "|command-(?:name|message|args|contents)|ide-[^\\s<>/]{1,40}|(?:start|end)-of-turn|[be]os|user-(?:memory-input|info|action"
    "|query)|git-status|(?:environment|additional)-(?:details|context)|open-and-recently-viewed-files|agent-transcripts"
    "|(?:attached|referenced)-files|(?:teammate|subagent)-(?:message|notification)|new-diagnostics|post-tool-use-hook"
    "|(?:tool|function)-(?:use|calls?|results?|response)|(?:begin|end)-of-text"
).replace("-", r"[\s_-]*")
"""Tags that agents use for text that their user did not write; `-`, `_`, blanks and nothing in them are the same."""
_FRAME = (  # compiled at its first use, too
    rf"<(?:[/!?]*(?:{_TAGS})(?=[\s/>]|\Z)[^<>]{{0,200}}>?|[\s/!?]+(?:{_TAGS})(?=[\s/>])[^<>]{{0,200}}>)"
    r"|<\s*\|\s*[a-z][\w\u2581]{2,40}\s*\|\s*>"  # a token of a chat template
    r"|<<[\s/]*sys\s*>>|\[[\s/]*(?:inst|system_prompt|available_tools|tool_calls|tool_results)\s*\]"
    r"|^[ \t>*_+#-]*(?P<role>human|assistant)[ \t*_]*:"
)


def _json_escape(character: str) -> str:
    import json

    return json.dumps(character)[1:-1]


_IN_JSON = _Escapes(_json_escape, kept="\n")
