"""Tells what in a prompt can be looked up: its telling words, or the names in what was pasted. Pure.

Most prompts steer the work ("continue", "make it shorter", "fix the failing test"), and every conversation has their
words. Pasted code, logs and stack traces are full of words that nobody means.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from memsync.notes.entry_text import stem
from memsync.search.stop_words import STOP_WORDS

MAX_QUESTION_CHARS = 1_000
"""From a longer prompt, memsync takes half of this at each end."""
MAX_NAMES = 12
MIN_TASK_WORDS = 3
"""Fewer words are a topic rather than a task, unless they are a question."""
_TALK = """yes yep yeah nope ok okay sure thanks please good great nice perfect fine well wrong hi hello hey
    continue proceed resume go going gone ahead next again retry try redo undo revert back stop wait done finish
    ready start begin keep make doing let get give put take want need like know think say tell ask show see look
    help mean matter seem ignore one two three other another onto sound hmm oh ah both either same different
    thing way some any all every everything anything something nothing first second third last previous earlier
    before after above below now just also too still only even more less most least much many very really quite
    so than because while though instead rather maybe perhaps already yet later soon shorter longer simpler
    better faster easier quick brief clear detail option step part point idea suggestion version answer reply
    message question prompt explain summarize summarise summary rephrase rewrite translate shorten repeat them
    yourself out up off over down about against without within ll ve re doesn didn isn won ja nein doch bitte
    danke gut weiter mach machen macht noch mal nochmal einmal das dies diese der den dem des ein einen einem es
    er sie kürzer länger besser einfacher rückgängig wieder zurück und oder aber ist sind war kann kannst können
    sollte möchte du ich mir mich wir uns ihr wie wo wann warum wieso welche nicht kein auch nur jetzt dann hier
    da zu zum zur für mit von vom im ins auf am bei aus als ob wenn fasse zeig erklär schreib genau passt super
    fertig"""
"""Words about the talk itself."""
_WORK = """empty run running fix test lint format formatter type checker verify validate build compile code file
    folder directory path function method class classes module variable argument parameter line text paragraph
    sentence word list table title heading json yaml regex string number output result error exception warning
    bug issue problem change edit update refactor cleanup rename copy paste convert merge split sort reverse
    extract replace add remove delete create generate write written open close save print load commit push pull
    rebase branch diff pr repo git review docs documentation docstring comment readme name script command fail
    failure crash broken break work slow log stack trace debug use using implement implementation feature
    project app program task todo plan approach example everywhere missing handle case import loop array object
    null main master ship deploy deploys release publish install upgrade dependency package config setting style
    css div button page typo quote timeout memory time minute current default änderung änderungen wort datei
    dateien fehler zeile zeilen ändere ändern lösche füge"""
"""Words of any work on texts and code."""
_DEEDS = """commit push pull merge rebase branch review lint format test build ship deploy release publish
    install upgrade dependency package refactor rename delete remove docs config changelog"""
"""Those of them that rules are about."""
_ASKS = r"\s*(?:wh\w+|how|is|are|am|was|were|do|does|did|ha[sdv]e?|may|might|must|should|we[rn]|wo|wann|wie|ist|sind)\b"
_QUESTION = re.compile(_ASKS, re.IGNORECASE)
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
    r"\b(?:\w{10,}(?:Error|Exception)|[A-Za-z]\w*_\w+|[a-z]+[A-Z]\w+|(?:[A-Z][a-z0-9]+){3,}|E[A-Z]{5,}"
    r"|[A-Z]{1,4}-?\d{3,5})\b"
)
"""An identifier, or the name or number of an error that is not in every program, as `TypeError` is."""


def stems_of(text: str) -> frozenset[str]:
    """Return the stems of the words of a text."""
    return frozenset(map(stem, _WORD.findall(text.lower())))


_ABOUT_TALK = stems_of(_TALK) | frozenset(map(stem, STOP_WORDS))
_ABOUT_WORK = stems_of(_WORK) - _ABOUT_TALK
_ABOUT_DEEDS = stems_of(_DEEDS)


class PromptWords(NamedTuple):
    """What in a prompt can be looked up.

    `text` is to be searched for, empty for nothing. `words` are the stems of what is not talk; `telling` are those that
    not every work has, and `deeds` those of which a rule may be the condition. `names` are identifiers from pasted
    lines; without telling words, an answer must have one. `is_task` is whether it tells to do something, `is_foreign`
    whether the model does not know its words, so that an answer must have one of them, or its beginning.
    """

    text: str = ""
    words: frozenset[str] = frozenset()
    telling: frozenset[str] = frozenset()
    deeds: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    is_task: bool = False
    is_foreign: bool = False

    @classmethod
    def of(cls, prompt: str) -> PromptWords:
        """Read a prompt. A slash command has nothing to look up."""
        if _COMMAND.match(prompt):
            return cls()
        half = MAX_QUESTION_CHARS // 2
        typed, pasted = _typed_and_pasted(prompt)
        typed = typed if len(typed) <= MAX_QUESTION_CHARS else f"{typed[:half]} {typed[-half:]}"
        names = list(dict.fromkeys(_NAME.findall("\n".join(pasted))))[:MAX_NAMES]
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
