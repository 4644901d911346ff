"""Lists: items of a log by themselves, those of a conversation also in windows, those of a reference list in groups."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import pairwise

import pytest

from memsync.model.note import Chunk
from memsync.model.vocabulary import Form, NotePath, Trait
from memsync.notes.chunk import ChunkLimits, chunk_note
from memsync.notes.parse import parse_note
from tests.conftest import COUNTER, RULES

LIMITS = ChunkLimits(max_tokens=64, small_tokens=16, run_tokens=40, window_entries=3, window_stride=2)
LOG, REFERENCE = "daily/2026-11-21.md", "note.md"


def cut(text: str, limits: ChunkLimits = LIMITS, path: str = LOG) -> list[Chunk]:
    return chunk_note(parse_note(NotePath(path), text.encode(), RULES), COUNTER.count, limits)


def items(count: int, words: str = "one two three four five six seven") -> str:
    return "".join(f"- {words}\n" for _ in range(count))


def talk(count: int, first: int = 0) -> str:
    """Return lines of a conversation, each of them another."""
    return "".join(
        f"- **{'Anna' if number % 2 else 'Ben'}**: two {number} four\n" for number in range(first, first + count)
    )


def spans(chunks: list[Chunk], form: Form) -> list[tuple[int, int]]:
    return [(chunk.start_line, chunk.end_line) for chunk in chunks if chunk.form is form]


def singles(chunks: list[Chunk]) -> list[tuple[int, int]]:
    return spans(chunks, Form.TEXT)


def windows(chunks: list[Chunk]) -> list[tuple[int, int]]:
    return spans(chunks, Form.WINDOW)


def groups(chunks: list[Chunk]) -> list[tuple[int, int]]:
    return spans(chunks, Form.GROUP)


# ------------------------------------------------------------------------------------------ logs


@pytest.mark.parametrize("path", ["daily/2026-11-21.md", "MEMORY.md", "SOUL.md", "preferences.md", "threads/a.md"])
@pytest.mark.parametrize("count", [1, 2, 8])
def test_each_item_of_a_log_is_a_chunk_of_its_own(path: str, count: int) -> None:
    """However short the list: its neighbours are about something else, so there are no windows."""
    chunks = cut(items(count), path=path)
    assert singles(chunks) == [(line, line) for line in range(1, count + 1)]
    assert [entry.window_count for chunk in chunks for entry in chunk.entries] == [0] * count


def test_the_passage_of_a_log_line_is_what_it_says() -> None:
    """Neither its marker nor its clock time says anything of the matter; the word index has both."""
    chunks = cut(
        "- 10:02 saw a heron\n- [ ] 2026-11-21T10:04 [fed](https://x.org) it\n- **10:05** – left\n1. 10:06:07 slept\n"
    )
    assert [chunk.text for chunk in chunks] == ["saw a heron", "fed it", "left", "slept"]
    assert chunks[0].words == "- 10:02 saw a heron"


def test_a_heading_over_a_log_is_found_by_its_words_alone() -> None:
    """It is no part of the first item, and has no vector: its words are known of each item below it."""
    chunks = cut("## Log\n\n" + items(3))
    assert spans(chunks, Form.HEADING) == [(1, 1)]
    assert singles(chunks) == [(3, 3), (4, 4), (5, 5)]
    assert {chunk.heading_path for chunk in chunks} == {("Log",)}


@pytest.mark.parametrize("path", [LOG, REFERENCE])
def test_a_section_without_text_is_a_heading(path: str) -> None:
    """In any note."""
    chunks = cut("# Plan\n\n## pricing\n\n## staff\n\nTwo people.\n", path=path)
    assert spans(chunks, Form.HEADING) == [(1, 1), (3, 3)]
    assert singles(chunks) == [(5, 7)]


# ------------------------------------------------------------------------------------------ conversations


def test_windows_of_a_conversation_overlap_and_cover_it() -> None:
    """They hold three lines, begin one to three further on, and each line is in one at least."""
    chunks = cut(talk(40))
    found = windows(chunks)
    assert singles(chunks) == [(line, line) for line in range(1, 41)]
    assert {last - first + 1 for first, last in found[:-1]} == {3}
    assert {later[0] - earlier[0] for earlier, later in pairwise(found)} <= {1, 2, 3}
    assert {line for first, last in found for line in range(first, last + 1)} == set(range(1, 41))
    assert [chunk.indexed_words for chunk in chunks if chunk.form is Form.WINDOW] == [()] * len(found)


@pytest.mark.parametrize("at", [0, 1, 20])
def test_a_line_that_is_inserted_changes_the_windows_around_it_and_no_others(at: int) -> None:
    """Those before it and, a little further on, those after it are of the same text as before."""
    lines = talk(900).splitlines(keepends=True)
    before = {chunk.text for chunk in cut("".join(lines))}
    after = {chunk.text for chunk in cut("".join([*lines[:at], "- **Carla**: a new line\n", *lines[at:]]))}
    assert 0 < len(after - before) < 10


def test_one_speaker_makes_no_conversation() -> None:
    """Two do."""
    assert windows(cut("- **Anna**: one two\n" * 8)) == []
    assert windows(cut("- **Anna**: one two\n" * 8 + "- **Ben:** three\n")) != []


def test_lines_know_their_speaker_and_whether_they_ask_or_name_a_time() -> None:
    """In a thread the messages do, by the user's name and the agent's."""
    chunks = cut("- 10:02 **Anna Lee**: Where to?\n- **Ben:** To Rome, last week\n- ordinary line\n")
    entries = [entry for chunk in chunks if chunk.form is Form.TEXT for entry in chunk.entries]
    assert [entry.speaker for entry in entries] == ["anna lee", "ben", ""]
    assert [Trait(entry.traits) for entry in entries] == [
        Trait.ITEM | Trait.QUESTION,
        Trait.ITEM | Trait.NAMES_TIME,
        Trait.ITEM,
    ]
    thread = (
        "---\nuser: Ada\n---\n## user @ 2026-11-21 10:00\n\nhi\n\n## agent:Planner\n\nhello\n\n## assistant\n\nyes\n"
    )
    messages = [chunk for chunk in cut(thread, path="threads/a.md") if chunk.form is not Form.FIELD]
    assert [chunk.entries[0].speaker for chunk in messages] == ["ada", "planner", "assistant"]


def test_entries_count_their_positions_and_windows() -> None:
    """Equal in the entry's own chunk and in each window that holds it."""
    chunks = cut(talk(7))
    entries = {entry.start_line: entry for chunk in chunks for entry in chunk.entries}
    assert [entries[line].position for line in range(1, 8)] == list(range(7))
    assert all(entry == entries[entry.start_line] for chunk in chunks for entry in chunk.entries)
    for entry in entries.values():
        holding = [chunk for chunk in chunks if chunk.form is Form.WINDOW and entry in chunk.entries]
        assert len(holding) == entry.window_count > 0


# ------------------------------------------------------------------------------------------ reference lists


def test_long_list_of_a_reference_note_is_cut_into_groups() -> None:
    """Each has one vector, covers whole items, and has the words of each item for itself."""
    chunks = cut(
        "".join(f"- [Tool {number}](https://x.org/{number}) does this\n" for number in range(60)), path=REFERENCE
    )
    found = groups(chunks)
    assert [chunk.form for chunk in chunks] == [Form.GROUP] * len(chunks)
    assert [line for first, last in found for line in range(first, last + 1)] == list(range(1, 61))
    assert max(COUNTER.count([chunk.text for chunk in chunks])) <= LIMITS.max_tokens
    tokens = sum(entry.token_count for chunk in chunks for entry in chunk.entries)
    assert tokens / len(chunks) > LIMITS.max_tokens / 2
    assert chunks[0].indexed_words[0] == "- [Tool 0](https://x.org/0) does this"
    assert [len(chunk.indexed_words) for chunk in chunks] == [last - first + 1 for first, last in found]


@pytest.mark.parametrize("at", [0, 1, 450])
def test_an_item_that_is_inserted_changes_the_groups_around_it_and_no_others(at: int) -> None:
    """Groups end where the text of the items says so."""
    lines = [f"- Tool {number} does this\n" for number in range(900)]
    before = {chunk.text for chunk in cut("".join(lines), path=REFERENCE)}
    after = {chunk.text for chunk in cut("".join([*lines[:at], "- A new tool\n", *lines[at:]]), path=REFERENCE)}
    assert len(before) > 50
    assert 0 < len(after - before) < 10


def test_short_list_of_a_reference_note_is_text() -> None:
    """Up to `run_tokens`."""
    (chunk,) = cut(items(4), path=REFERENCE)
    assert (chunk.start_line, chunk.end_line, chunk.form) == (1, 4, Form.TEXT)


# ------------------------------------------------------------------------------------------ all lists


def test_positions_go_on_over_what_is_no_list() -> None:
    """The section's entries are counted through, its heading, its items and its paragraphs."""
    chunks = cut("# A\n\nintro\n\n" + items(6) + "\nthe end\n")
    positions = {entry.position: entry.start_line for chunk in chunks for entry in chunk.entries}
    assert positions == {0: 1, 1: 5, 2: 6, 3: 7, 4: 8, 5: 9, 6: 10, 7: 12}


def test_large_items_are_no_entries() -> None:
    """An item over `small_tokens` is packed as a paragraph would be."""
    chunks = cut(items(6, "one two three four five six seven eight nine ten " * 2))
    assert len(chunks) == 2


def test_entry_with_nested_items_is_one_entry() -> None:
    """A log line's own points belong to it."""
    chunks = cut("- one two three\n  - four\n  - five\n" * 8)
    assert singles(chunks)[0] == (1, 3)


def test_windows_do_not_cross_sections() -> None:
    """The last line of one day is no neighbour of the first of the next."""
    chunks = cut("# A\n\n" + talk(7) + "\n# B\n\n" + talk(7))
    assert not [chunk for chunk in chunks if chunk.start_line < 10 < chunk.end_line]
    assert next(chunk.entries[0].position for chunk in chunks if chunk.section == 1) == 0


def test_entries_have_their_own_time_attributes_and_tags() -> None:
    """What is said of one line is not said of its neighbours; the section's and the note's hold for all."""
    text = "#note\n\n## Day #section {mood=calm}\n\n" + "".join(
        f"- 10:0{number} one two three four #tag{number} {{n={number}}}\n" for number in range(8)
    )
    chunks = cut(text, path="daily/2026-11-21.md")
    entry = next(entry for chunk in chunks for entry in chunk.entries if entry.start_line == 7)
    assert entry.time == "2026-11-21T10:02"
    assert entry.attributes == {"mood": "calm", "n": "2"}
    assert set(entry.tags) == {"note", "section", "tag2"}


def test_a_conversation_is_cut_in_as_many_steps_for_each_line_however_long_it_is() -> None:
    """Which windows hold a line is not looked for line by line."""
    steps = []
    for count in (250, 1_000):
        note = parse_note(NotePath(LOG), talk(count).encode(), RULES)
        calls = Counter[str]()
        sys.setprofile(lambda frame, event, argument, calls=calls: calls.update([event]))  # type: ignore[misc]  # mypy infers no lambda with a default
        try:
            chunk_note(note, COUNTER.count, LIMITS)
        finally:
            sys.setprofile(None)
        steps.append(calls["call"])
    assert steps[1] < 5 * steps[0]
