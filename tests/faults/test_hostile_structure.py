"""Text that is quadratic or worse for a parser without limits: read in bounded work, and no line of it lost."""

from __future__ import annotations

import subprocess
import sys

import pytest

from memsync.model.vocabulary import NotePath
from memsync.notes import blocks
from memsync.notes.parse import NoteReader
from tests.conftest import PROJECT, Patch
from tests.support.sampling import sampled

NOTE = NotePath("note.md")

KINDS = {
    "quotes in quotes": "'>' * size",
    "quotes ever deeper": "''.join('> ' * i + 'a\\n\\n' for i in range(1, 400))",
    "deep quotes with lazy lines": "('> ' * 90 + 'a\\n' + 'b\\n' * 100) * (size // 382)",
    "lists in lists on one line": "'- ' * (size // 2)",
    "lists ever deeper": "''.join('  ' * i + '- a\\n' for i in range(400))",
    "rules that are none": "('- - - - ' * 500 + 'a\\n') * (size // 4002)",
    "tables of 5,000 cells": "('|' + 'a|' * 5000 + '\\n|' + '-|' * 5000 + '\\n' + ('|' + 'b|' * 5000 + '\\n') * 15)",
    "table with short rows": "('|' + 'a|' * 5000 + '\\n|' + '-|' * 5000 + '\\n' + '|x|\\n' * (size // 5))",
    "opening brackets": "('[' * 19_000 + '\\n\\n') * (size // 19_002)",
    "links that never end": "('[[a](b' * 3000 + '\\n\\n') * (size // 18_002)",
    "images that never end": "('![[' * 6000 + ' #t\\n\\n') * (size // 18_005)",
    "references": "'[a]: b\\n\\n' + ('[' * 9000 + ']' * 9000 + '\\n\\n') * (size // 18_002)",
    "wiki links that never end": "('[[' * 9000 + '\\n\\n') * (size // 18_002)",
    "backticks of every length": "''.join('`' * i + 'a' for i in range(1, 600)) + ' #t'",
    "unclosed comments": "'<!-- a\\n' * (size // 7)",
    "unclosed comments in a paragraph": "('#t <!-- a ' * 1800 + '\\n\\n') * (size // 18_002)",
    "link definitions": "''.join(f'[a{i}]: b\\n' for i in range(size // 13))",
    "definition that never ends": "'[a\\n' * (size // 3)",
    "footnotes in footnotes": "'[^a]: ' * (size // 6)",
    "emphasis": "('*a_ ' * 4500 + '#t\\n\\n') * (size // 18_004)",
    "stars": "('*' * 18_000 + 'a #t\\n\\n') * (size // 18_006)",
    "headings": "'# a\\n' * (size // 4)",
    "list items": "'- a\\n' * (size // 4)",
    "one paragraph of short lines": "'a\\n' * (size // 2)",
    "attributes": "('- a ' + '{' * 1900 + '}\\n') * (size // 1906)",
    "blank lines": "'\\n' * size",
}


PROGRAM = """
from tests.conftest import PROJECT, COUNTER, LIMITS, RULES
from memsync.notes.parse import NoteReader
reader = NoteReader(COUNTER.count, RULES, LIMITS)
size = 60_000
for kind, source in {kinds!r}.items():
    print(kind, flush=True)
    note, chunks = reader.read("note.md", eval(source).encode())
    covered = {{line for chunk in chunks for line in range(chunk.start_line, chunk.end_line + 1)}}
    assert all(number in covered for number, line in enumerate(note.lines, 1) if line.strip()), kind
"""
HANG_SECONDS = 200
"""Many times what it takes: a guard against work without bounds, not a measure of speed."""


@pytest.mark.slow
@pytest.mark.parametrize("share", sampled(range(8), 1))
def test_pathological_text_is_read_in_bounded_work(share: int) -> None:
    """Whatever it is made of; the last kind printed is the one that hangs."""
    kinds = dict(list(KINDS.items())[share::8])
    program = PROGRAM.format(kinds=kinds)
    subprocess.run([sys.executable, "-c", program], cwd=PROJECT, check=True, timeout=HANG_SECONDS)


def test_text_of_too_many_elements_falls_back_to_paragraphs(reader: NoteReader, monkeypatch: Patch) -> None:
    """A table of tiny cells would take 500 bytes of memory a byte; up to the limit its structure is read."""
    monkeypatch.setattr(blocks, "MAX_TOKENS", 100)
    assert reader.read(NOTE, b"# A\n\n" * 33)[0].warnings == ()
    note, _ = reader.read(NOTE, b"# A\n\n" * 34)
    assert note.warnings == ("file has too many or too deeply nested elements: indexed as plain paragraphs",)
    assert (len(note.sections), len(note.blocks[0])) == (1, 34)


def test_text_that_takes_too_many_trials_falls_back_to_paragraphs(reader: NoteReader, monkeypatch: Patch) -> None:
    """The limit counts work and not time: equal bytes give equal notes on a slow machine too."""
    monkeypatch.setattr(blocks, "MAX_CHECKS", 20_000)
    text = (b"> " * 90 + b"a\n" + b"b\n" * 100) * 3
    note, _ = reader.read(NOTE, text)
    assert len(note.warnings) == 1
    assert reader.read(NOTE, text)[0] == note
    assert reader.read(NOTE, text[:300])[0].warnings == ()
