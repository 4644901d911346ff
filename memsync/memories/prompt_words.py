"""Tells what in a prompt can be looked up: its telling words, or the names in what was pasted. Pure.

Most prompts steer the work ("continue", "make it shorter", "fix the failing test"), and every conversation has their
words. Pasted code, logs and stack traces are full of words that nobody means.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from memsync.notes.entry_text import stem
from memsync.search.stop_words import STOP_WORDS

MAX_QUESTION_CHARS = 1_000
"""From a longer prompt, memsync takes half of this at each end."""
MAX_NAMES = 12
BEGINNING = 6
MIN_TASK_WORDS = 3
"""Fewer words are a topic rather than a task, unless they are a question."""
_TALK = """
    yes yep yeah yup no nope ok okay k sure thanks thank thx please good great nice perfect cool awesome fine well
    wrong hi hello hey morning bye sorry wow continue proceed resume go going gone ahead carry next again retry try
    redo undo revert back stop wait done finish finished ready start begin keep make makes do does doing let lets get
    gets give put take want need like know think say tell ask show see look looks help mean matter seem feel guess
    assume pick ignore skip swap it one ones two three other others another onto sound sounds whatever anyway alright
    hmm oh ah both either neither same different thing things stuff way bit lot some any all every everything anything
    something nothing first second third last previous earlier before after above below here now then just also too
    still only even more less most least much many very really quite so but than because while though instead rather
    maybe perhaps already yet later soon shorter longer simpler better faster easier cleaner nicer bigger smaller
    short long simple quick quickly brief briefly clear clearer concise detail details detailed further exactly option
    options choice step steps part point idea suggestion version answer reply respond message question questions
    prompt explain summarize summarise summary rephrase reword rewrite translate shorten expand elaborate repeat
    double a b c d e i j n x y we us our them they he she his her mine yours myself yourself out up off over down
    about against without within ll ve re don doesn didn isn won t m s ja nein doch bitte danke gut weiter
    weitermachen mach mache machen macht noch mal nochmal einmal das dies diese dieser dieses der die den dem des ein
    eine einen einem einer es er sie kürzer länger besser einfacher anders rückgängig wieder zurück und oder aber ist
    sind war kann kannst können könntest soll sollst sollte will möchte du ich mir mich dir dich wir uns ihr wie was
    wer wo wann warum wieso welche welcher nicht kein keine auch nur jetzt dann hier da zu zum zur für mit von vom im
    in ins auf an am bei aus als ob dass wenn fass fasse fassen zeig zeige erklär erkläre schreib schreibe übersetze
    genau stimmt passt super prima fertig los alles etwas nichts beide
"""
"""Words about the talk itself."""
_WORK = """
    run rerun running fix fixes fixed fixing test tests tested testing lint linter linting format formatter formatting
    typecheck type types typed checker check checks checked verify validate build builds building compile code coding
    file files folder directory path function functions method methods class classes module variable variables
    constant argument arguments parameter parameters line lines text paragraph sentence sentences word words list
    table title heading json yaml csv xml html regex string number output result results error errors exception
    warning warnings bug bugs issue issues problem change changes changed edit edits update updates refactor clean
    cleanup tidy rename copy paste convert merge split sort reverse extract replace add added remove removed delete
    deleted create created generate write written open close save print load commit commits push pushed pull rebase
    branch diff pr repo git review docs doc documentation docstring comment comments readme name names script command
    commands terminal shell fail fails failed failing failure crash broken break breaks work works working slow fast
    log logs traceback stack trace debug use uses using implement implemented implementation feature features project
    app program task tasks todo plan approach snippet example examples suite everywhere red green empty missing unused
    handle handles case cases import imports loop loops array object null main master ship deploy deploys deployed
    release released publish install installed upgrade downgrade dependency dependencies package packages config
    setting settings style css div button page typo typos quote quotes comma indent timeout memory time times second
    seconds minute minutes current default freundlicher freundlich höflicher änderung änderungen sätze wort wörter
    datei dateien fehler zeile zeilen funktion satz absatz liste tabelle ändere ändern lösche füge umbenennen
"""
"""Words of any work on texts and code."""
_DEEDS = """
    commit push pull merge rebase branch review lint format test build ship deploy release publish install upgrade
    dependency package refactor rename delete remove docs config changelog
"""
"""Those of them that rules are about."""
_QUESTION = re.compile(
    r"\s*(?:who|whom|whose|what|when|where|why|which|how|is|are|am|was|were|do|does|did|has|have|had|may|might|must"
    r"|should|wer|was|wann|wo|warum|wieso|wie|welche[mnrs]?|ist|sind|hat|haben)\b",
    re.IGNORECASE,
)
_COMMAND = re.compile(r"/[a-z][\w:.-]*(?:\s|$)", re.IGNORECASE)
_SYNTAX = re.compile(r'["“”„:*]|(?<!\S)-+')
_WORD = re.compile(r"\w+")
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_PASTED = re.compile(
    r"""\s*(?:at\ |File\ "|Caused\ by|Traceback\b|\.\.\.\ \d+\ more|goroutine\ |-->|\||\d+\ \|)
      | \[?(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d | \[?(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL)\b
      | (?:npm|yarn|pnpm)\ (?:ERR|WARN|error) | (?:fatal|error|warning)(?:\[\w+\])?:\ | [\w.]+(?:Error|Exception)\b:?
      | (?:[+-]{3}|@@|[$%❯]|>>>)\ | diff\ --git | \S+\.\w+:\d+
      | \s*(?:def|fn|func|function)\s+\w+\s*\( | \s*class\s+\w+.*[:{(]\s*$ | \s*from\s+\S+\s+import\b
      | \s*import\s+(?:[\w.]+;?\s*$|[{*"']) | \s*(?:const|let|var)\s+\w+\s*= | \#include\b | \s{4,}\S
      | .*(?:[{};]|\)\s*:|=>)\s*$""",
    re.VERBOSE,
)
"""The beginning of a line of code, of a log or of a stack trace."""
_NAME = re.compile(
    r"""\b(?:\w+(?:Error|Exception|Warning) | [A-Za-z]\w*_\w+ | [a-z]+[A-Z]\w+ | (?:[A-Z][a-z0-9]+){2,}
      | E[A-Z]{4,} | [A-Z]{1,4}-?\d{3,5})\b""",
    re.VERBOSE,
)
"""An identifier, or the name or number of an error."""
_COMMON_NAME = re.compile(
    r"(?:Type|Value|Key|Index|Name|Syntax|Runtime|Range|Reference|Attribute|Import|Assertion|Timeout|IO|OS|NullPointer"
    r"|Illegal\w+)(?:Error|Exception)|ERROR|EVENT"
)


def stems_of(text: str) -> frozenset[str]:
    """Return the stems of the words of a text."""
    return frozenset(map(stem, _WORD.findall(text.lower())))


def families_of(stems: Iterable[str]) -> frozenset[str]:
    """Return the beginnings of words, which are alike in words of one family (complain, complaint) and in compounds."""
    return frozenset(word[:BEGINNING] for word in stems)


_ABOUT_TALK = stems_of(_TALK) | frozenset(map(stem, STOP_WORDS))
_ABOUT_WORK = stems_of(_WORK) - _ABOUT_TALK
_ABOUT_DEEDS = stems_of(_DEEDS)


class PromptWords(NamedTuple):
    """What in a prompt can be looked up.

    `text` is to be searched for, empty for nothing. `words` are the stems of what is not talk; `telling` are those that
    not every work has, and `deeds` those of which a rule may be the condition. `names` are identifiers from pasted
    lines; without telling words, an answer must have one. `is_task` is whether it tells to do something.
    """

    text: str = ""
    words: frozenset[str] = frozenset()
    telling: frozenset[str] = frozenset()
    deeds: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    is_task: bool = False

    @classmethod
    def of(cls, prompt: str) -> PromptWords:
        """Read a prompt. A slash command has nothing to look up."""
        if _COMMAND.match(prompt):
            return cls()
        half = MAX_QUESTION_CHARS // 2
        typed, pasted = _typed_and_pasted(prompt)
        typed = typed if len(typed) <= MAX_QUESTION_CHARS else f"{typed[:half]} {typed[-half:]}"
        found = dict.fromkeys(name for line in pasted for name in _NAME.findall(line))
        names = [name for name in found if not _COMMON_NAME.fullmatch(name)][:MAX_NAMES]
        words = frozenset(word for word in stems_of(typed) if len(word) > 1) - _ABOUT_TALK
        if not words and not names:
            return cls()
        is_task = not _QUESTION.match(typed) and typed[-1:] != "?" and len(_WORD.findall(typed)) >= MIN_TASK_WORDS
        text = _SYNTAX.sub(" ", " ".join([typed, *names])).strip()
        telling = frozenset(word for word in words - _ABOUT_WORK if not word.isdecimal() or len(word) > 2)
        return cls(text, words, telling, telling | words & _ABOUT_DEEDS, frozenset(names), is_task)


def _typed_and_pasted(prompt: str) -> tuple[str, list[str]]:
    """Return what a person wrote as one text, and the lines that were pasted."""
    typed, pasted, is_fenced = list[str](), list[str](), False
    for line in prompt.split("\n"):
        if _FENCE.match(line):
            is_fenced = not is_fenced
        else:
            (pasted if is_fenced or _PASTED.match(line) else typed).append(line)
    return "\n".join(typed).strip(), pasted
