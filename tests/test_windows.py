"""Logs: small entries are found by themselves and in overlapping windows."""

from __future__ import annotations

import pytest

from memsync.model import Chunk, NotePath
from memsync.notes.chunk import ChunkLimits, chunk_note
from memsync.notes.parse import parse_note
from tests.conftest import COUNTER, RULES

LIMITS = ChunkLimits(max_tokens=64, small_tokens=16, run_tokens=40, window_entries=3, window_stride=2)


def cut(text: str, limits: ChunkLimits = LIMITS, path: str = "note.md") -> list[Chunk]:
    return chunk_note(parse_note(NotePath(path), text.encode(), RULES, 2_000_000), COUNTER.count, limits)


def items(count: int, words: str = "one two three four five six seven") -> str:
    return "".join(f"- {words}\n" for _ in range(count))


def singles(chunks: list[Chunk]) -> list[tuple[int, int]]:
    return [(chunk.start_line, chunk.end_line) for chunk in chunks if len(chunk.entries) == 1]


def windows(chunks: list[Chunk]) -> list[tuple[int, int]]:
    return [(chunk.start_line, chunk.end_line) for chunk in chunks if len(chunk.entries) > 1]


def test_each_entry_of_a_log_has_a_chunk_of_its_own_and_windows_overlap() -> None:
    """Windows of three begin two further on, until one reaches the end."""
    chunks = cut(items(8))
    assert singles(chunks) == [(line, line) for line in range(1, 9)]
    assert windows(chunks) == [(1, 3), (3, 5), (5, 7), (7, 8)]


def test_entries_count_their_positions_and_windows() -> None:
    """Equal in the entry's own chunk and in each window that holds it."""
    chunks = cut(items(7))
    entries = {entry.start_line: entry for chunk in chunks for entry in chunk.entries}
    assert windows(chunks) == [(1, 3), (3, 5), (5, 7)]
    assert [entries[line].position for line in range(1, 8)] == list(range(7))
    assert [entries[line].window_count for line in range(1, 8)] == [1, 1, 2, 1, 2, 1, 1]
    assert all(entry == entries[entry.start_line] for chunk in chunks for entry in chunk.entries)
    for entry in entries.values():
        holding = [chunk for chunk in chunks if len(chunk.entries) > 1 and entry in chunk.entries]
        assert len(holding) == entry.window_count


def test_entries_cover_their_window() -> None:
    """A window's span is that of its entries."""
    for chunk in cut(items(9)):
        assert chunk.start_line == chunk.entries[0].start_line
        assert chunk.end_line == chunk.entries[-1].end_line


def test_positions_go_on_over_what_is_no_log() -> None:
    """The section's entries are counted through, logs and paragraphs alike."""
    chunks = cut("# A\n\nintro\n\n" + items(6) + "\nthe end\n")
    positions = {entry.position: entry.start_line for chunk in chunks for entry in chunk.entries}
    assert positions == {0: 1, 1: 5, 2: 6, 3: 7, 4: 8, 5: 9, 6: 10, 7: 12}


def test_window_never_exceeds_the_limit() -> None:
    """Where three entries do not fit, a window has two or there is none."""
    limits = ChunkLimits(max_tokens=20, small_tokens=16, run_tokens=40, window_entries=3, window_stride=2)
    chunks = cut(items(8), limits)
    assert {last - first + 1 for first, last in windows(chunks)} == {2}
    assert max(COUNTER.count([chunk.text for chunk in chunks])) <= 20
    assert windows(cut(items(8, "one two three four five six seven eight nine ten"), limits)) == []


def test_short_list_is_no_log() -> None:
    """Up to `run_tokens` a list is text like any other."""
    (chunk,) = cut(items(4))
    assert (chunk.start_line, chunk.end_line, len(chunk.entries)) == (1, 4, 1)
    assert chunk.entries[0].window_count == 0


def test_large_items_are_no_entries() -> None:
    """An item over `small_tokens` is packed as a paragraph would be."""
    chunks = cut(items(6, "one two three four five six seven eight nine ten " * 2))
    assert windows(chunks) == []
    assert len(chunks) == 2


def test_entry_with_nested_items_is_one_entry() -> None:
    """A log line's own points belong to it."""
    chunks = cut("- one two three\n  - four\n  - five\n" * 8)
    assert singles(chunks)[0] == (1, 3)


def test_log_under_a_heading_begins_with_it() -> None:
    """The heading is part of the first entry."""
    chunks = cut("## Log\n\n" + items(8))
    assert singles(chunks)[0] == (1, 3)
    assert {chunk.heading_path for chunk in chunks} == {("Log",)}


def test_windows_do_not_cross_sections() -> None:
    """The last line of one day is no neighbour of the first of the next."""
    chunks = cut("# A\n\n" + items(7) + "\n# B\n\n" + items(7))
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


@pytest.mark.parametrize("count", [500, 20_000])
def test_long_log_is_cut_in_proportion(count: int) -> None:
    """Entries and windows grow with the log, not with its square."""
    chunks = cut(items(count, "one two"))
    assert len(singles(chunks)) == count
    assert len(windows(chunks)) == (count - 2) // 2 + (count % 2 == 0)
