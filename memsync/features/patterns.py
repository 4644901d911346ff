"""Learned patterns: list items `- text {.pattern type=… key=… count=3 confidence=0.8}`, counted up in place."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from memsync.edit.addition import replace_line
from memsync.edit.append import Done
from memsync.edit.markdown import list_item, one_line
from memsync.edit.note_paths import NOTE_OF_TIER
from memsync.edit.titles import TITLE_OF_MEMORY
from memsync.model.note import Note, with_children
from memsync.model.vocabulary import Kind, NotePath, Tier
from memsync.model.written import Pattern, Written
from memsync.notes.attributes import attribute_block, cut_attributes
from memsync.operation import Cli, Command, operation
from memsync.system import clock

if TYPE_CHECKING:
    from memsync.workspace import Workspace

SECTION = "Notes"

MEMORY = NotePath(NOTE_OF_TIER[Tier.PERSONAL])
HEADING = "Patterns"


@operation(Command("pattern list", help="Print every learned pattern, highest confidence first."))
def patterns(memory: Workspace) -> tuple[Pattern, ...]:
    """Return the learned patterns of all notes, highest confidence first."""
    with memory.as_of_now() as (reader, _):
        paths = reader.notes_where("class", "pattern")
    notes = filter(None, map(memory.editor.read, paths))
    learned = [pattern for note in notes for pattern in _patterns(note)]
    return tuple(sorted(learned, key=lambda pattern: (-pattern.confidence, -pattern.count, pattern.path, pattern.line)))


@operation(
    Command("pattern observe", help="Record one observation of the pattern TEXT and print its path:line."), writes=True
)
def observe(
    memory: Workspace,
    text: Annotated[str, Meta(description="The pattern."), Cli(metavar="TEXT", is_text=True)],
    *,
    pattern_type: Annotated[str, Meta(description="The type of pattern: style, habit, …"), Cli(("--type",))] = "",
    key: Annotated[str, Meta(description="What it is about; equal keys are one pattern.")] = "",
    confidence: Annotated[
        float, Meta(ge=0, le=1, description="How sure it is. [default: grows with each observation]")
    ] = 0.0,
) -> Written:
    """Add a pattern to MEMORY.md, or count it up if it is there: with the same `key` or, without one, the same text."""
    return memory.write("pattern", text, lambda: _observe(memory, text, pattern_type, key, confidence))


def _observe(memory: Workspace, text: str, pattern_type: str, key: str, confidence: float) -> Done:
    today = clock.today().isoformat()
    text = one_line(text)

    def known(note: Note | None) -> Pattern | None:
        candidates = _patterns(note) if note else ()
        return next((p for p in candidates if (p.key == key if key else p.text == _shown(text))), None)

    def edit(content: str) -> str:
        note = memory.editor.parse(MEMORY, content)
        pattern = known(note)
        if pattern is None:
            return content
        line = note.lines[pattern.line - 1]
        column, attributes = cut_attributes(line)
        count = pattern.count + 1
        changed = {"count": str(count), "confidence": _confidence(confidence, count), "last": today}
        return replace_line(content, pattern.line, f"{line[:column]} {attribute_block({**attributes, **changed})}")

    if known(memory.editor.read(MEMORY)) is not None:
        return memory.writer.rewrite(MEMORY, edit)
    attributes = {"class": "pattern", "type": pattern_type, "key": key, "count": "1"}
    attributes |= {"confidence": _confidence(confidence, 1), "first": today, "last": today}
    item = list_item(text, attributes={name: value for name, value in attributes.items() if value})
    return memory.editor.add_to_section(MEMORY, HEADING, item, f"# {TITLE_OF_MEMORY}\n")


def _patterns(note: Note) -> Iterator[Pattern]:
    """Yield the patterns of a note, in order; none from a thread, which quotes what people said."""
    if note.kind is not Kind.THREAD:
        for block in with_children(itertools.chain.from_iterable(note.blocks)):
            line = note.lines[block.start_line - 1]
            column, attributes = cut_attributes(line)
            if block.entry and attributes == block.attributes and "pattern" in attributes.get("class", "").split():
                yield Pattern(
                    note.path,
                    block.start_line,
                    _shown(" ".join(line[:column].lstrip(" \t-*+").split())),
                    attributes.get("type", ""),
                    attributes.get("key", ""),
                    _count(attributes.get("count", "")),
                    _share(attributes.get("confidence", "")),
                    attributes.get("first", ""),
                    attributes.get("last", ""),
                )


def _shown(text: str) -> str:
    """Return text without the backslashes that escape a time or attributes."""
    return text.replace("\\:", ":").replace("\\{", "{")


def _confidence(given: float, count: int) -> str:
    """Return `given` or, if it is 0, a confidence that grows with each observation: 0.5, 0.75, 0.88."""
    return f"{given if given else 1 - 0.5 ** min(count, 10):.2g}"


def _count(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 1


def _share(text: str) -> float:
    try:
        return min(1.0, max(0.0, float(text)))
    except ValueError:
        return 0.0
