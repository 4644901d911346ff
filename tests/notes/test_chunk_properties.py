"""What holds of the chunks of any text at all: made-up Markdown, the specification's examples, real notes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsync.model.note import Chunk, Note
from memsync.model.vocabulary import NotePath
from memsync.notes.chunk import ChunkLimits, readable
from memsync.notes.decode import BinaryFileError
from memsync.notes.parse import NoteReader
from tests.conftest import COUNTER, LIMITS, RULES, SMALL_DATA, data_folders

TIGHT = ChunkLimits(max_tokens=32, small_tokens=12, run_tokens=24, window_entries=3, window_stride=2)
READERS = [NoteReader(COUNTER.count, RULES, limits) for limits in (LIMITS, TIGHT)]
PATHS = [NotePath(path) for path in ("note.md", "daily/2026-11-21.md", "threads/one.md")]


def assert_sound(note: Note, chunks: Sequence[Chunk], limits: ChunkLimits) -> None:
    """Every line with text is in a chunk, each chunk quotes the file, and none is larger than the model reads."""
    covered: dict[int, int] = {}
    lines = readable(note)
    for ordinal, chunk in enumerate(chunks):
        own = [lines[line - 1][: note.cuts.get(line)] for line in range(chunk.start_line, chunk.end_line + 1)]
        if chunk.end_column:
            assert len(own) == 1
            assert chunk.words == own[0][chunk.start_column : chunk.end_column]
            assert covered.get(chunk.start_line, 0) >= chunk.start_column
        else:
            assert chunk.words == "\n".join(own)
        assert chunk.ordinal == ordinal
        for line, text in enumerate(own, chunk.start_line):
            covered[line] = chunk.end_column or len(text)
        assert chunk.entries[0].start_line == chunk.start_line
        assert chunk.entries[-1].end_line == chunk.end_line
        chunk.words.encode()
    first = 1 if note.head_is_text else note.head_lines + 1
    for line in range(first, len(note.lines) + 1):
        text = lines[line - 1][: note.cuts.get(line)]
        assert covered.get(line, 0) >= len(text.rstrip()), f"line {line} is lost: {text!r}"
    counts = COUNTER.count([chunk.text for chunk in chunks])
    assert max(counts, default=0) <= limits.max_tokens


# ------------------------------------------------------------------------------------- made-up Markdown

PRINTABLE = st.characters(exclude_categories=("Cs", "Cc"))
SNIPPETS = """
a the heron nests 10:02 #tag #123 [[wiki]] [a](b) `code` **b** _i_ <b> &amp; http://x.org/y?z=1 {a=b} {.c} \\ [^1]
![i](j) ``` | --- === # > - * + 1. ( ) [ ] < ! ` ~~~ 漢字 größe 😀 e\u0301 \u200b
"""
WORD = st.one_of(
    st.sampled_from([*SNIPPETS.split(), "", "\u2028", "\x85", "\x0c", "\ufeff"]), st.text(PRINTABLE, max_size=12)
)
LINE = st.one_of(
    st.lists(WORD, max_size=9).map(" ".join),
    st.text(PRINTABLE, max_size=40),
    st.sampled_from(["word " * 60, "x" * 700, "[" * 300, "漢" * 300, "", "   ", "\t"]),
)
MARKERS = "# |## |### |## user @ 2026-11-21 10:02 |- |- 10:02 |  - |    - |1. |- [ ] |> |> > |- > |    |\t|  |"
PREFIX = st.sampled_from(
    ["", "", "", "| ", "[^1]: ", "[a]: ", "<div>", "<!-- ", "--> ", "```", "~~~ ", "---", "===", *MARKERS.split("|")]
)
ANY_LINES = st.lists(st.tuples(PREFIX, LINE).map("".join), max_size=25)
END = st.sampled_from(["\n", "\n", "\r\n", "\r", "\n\n"])
HEAD = st.sampled_from(
    ["", "", "---\n", "---\ntitle: x\n---\n", "---\na: b: c\n---\n", "---\n- a\n", "\ufeff---\n---\n"]
)


@given(ANY_LINES, END, HEAD, st.sampled_from(PATHS), st.sampled_from(READERS))
def test_any_markdown_is_covered_quoted_and_within_the_limit(
    lines: list[str], end: str, head: str, path: NotePath, reader: NoteReader
) -> None:
    """Headings, lists, fences, tables, quotes and HTML in any order, with any line end."""
    note, chunks = reader.read(path, (head + end.join(lines)).encode())
    assert_sound(note, chunks, reader.limits)


@hypothesis.example(b"<<<<<<<")
@hypothesis.example(b"```\n<<<<<<< x\n```\n\n=======\n\n>>>>>>> y\n")
@given(st.one_of(st.binary(max_size=300), st.text(max_size=300).map(lambda text: text.encode("utf-16"))))
def test_any_bytes_are_read_or_refused_as_binary(content: bytes) -> None:
    """Nothing else is ever raised."""
    try:
        note, chunks = READERS[1].read(PATHS[0], content)
    except BinaryFileError:
        return
    assert_sound(note, chunks, TIGHT)


@given(ANY_LINES, st.sampled_from(READERS))
def test_equal_bytes_give_equal_chunks(lines: list[str], reader: NoteReader) -> None:
    """Chunks are a function of path, bytes and settings."""
    content = "\n".join(lines).encode()
    assert reader.read(PATHS[0], content) == reader.read(PATHS[0], content)


# --------------------------------------------------------------------------------------- edited sections

SAFE = "a the heron nests #tag [[wiki]] [a](b) `code` **b** 漢字 http://x.org"
SAFE_WORDS = st.lists(st.sampled_from(SAFE.split()), min_size=1)
TEXT_BLOCK = st.one_of(
    SAFE_WORDS.map(" ".join),
    st.lists(SAFE_WORDS.map(lambda words: "- " + " ".join(words)), min_size=1, max_size=12).map("\n".join),
    SAFE_WORDS.map(lambda words: "```\n# " + "\n".join(words) + "\n```"),
    SAFE_WORDS.map(lambda words: "| a | b |\n|---|---|\n" + "\n".join(f"| {word} | c |" for word in words)),
    SAFE_WORDS.map(lambda words: "> " + "\n> ".join(words)),
    SAFE_WORDS.map(lambda words: "<div>\n" + " ".join(words) + "\n</div>"),
    SAFE_WORDS.map(lambda words: "[a]: " + words[0]),
)
SECTION = st.lists(TEXT_BLOCK, max_size=5).map("\n\n".join)


def hashes(chunks: list[Chunk], section: int) -> list[bytes]:
    return [chunk.content_hash for chunk in chunks if chunk.section == section]


@given(st.lists(SECTION, min_size=1, max_size=5), SECTION, st.integers(0, 4), st.sampled_from(READERS))
def test_editing_one_section_leaves_the_passages_of_all_others(
    sections: list[str], edited: str, place: int, reader: NoteReader
) -> None:
    """So that a vector is computed again only for what was touched."""
    place %= len(sections)

    def read(bodies: list[str]) -> list[Chunk]:
        text = "".join(f"## Heading {number}\n\n{body}\n\n" for number, body in enumerate(bodies))
        return reader.read(PATHS[0], text.encode())[1]

    before, after = read(sections), read([*sections[:place], edited, *sections[place + 1 :]])
    for section in range(len(sections)):
        if section != place:
            assert hashes(before, section) == hashes(after, section)


# --------------------------------------------------------------------------------- specification, real notes


FOLDERS = data_folders()
SHARES = [(folder, share) for folder in FOLDERS for share in range(1 if folder == SMALL_DATA else 8)]


def notes_of(folder: Path) -> list[Path]:
    """Return the notes of a folder of data."""
    found = sorted(path for name in ("notes", "rfcs", "locomo") for path in (folder / name).rglob("*.md"))
    assert len(found) > (7 if folder == SMALL_DATA else 700)
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_examples_of_markdown_are_covered_quoted_and_within_the_limit(folder: Path) -> None:
    """Each example, of our own or of the specification, alone and as part of a note."""
    name, fewest = ("examples.json", 100) if folder == SMALL_DATA else ("commonmark.json", 600)
    examples = json.loads((folder / name).read_text("utf-8"))
    assert len(examples) > fewest
    for reader in READERS:
        for example in examples:
            for text in (example["markdown"], f"# Title\n\nintro\n\n{example['markdown']}\n\n## After\n\ntext\n"):
                assert_sound(*reader.read(PATHS[0], text.encode()), reader.limits)


@pytest.mark.parametrize(("folder", "share"), SHARES, ids=str)
def test_real_notes_are_covered_quoted_and_within_the_limit(folder: Path, share: int) -> None:
    """Every note of the data, under the default settings."""
    for path in notes_of(folder)[share::8] if folder != SMALL_DATA else notes_of(folder):
        note, chunks = READERS[0].read(NotePath(f"{path.parent.name}/{path.name}"), path.read_bytes())
        assert_sound(note, chunks, LIMITS)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_line_added_to_a_real_note_changes_the_passages_of_its_section_only(folder: Path) -> None:
    """A paragraph put behind a heading leaves every other section as it was."""
    names = [folder / "notes" / "harbour.md"] if folder == SMALL_DATA else sorted((folder / "rfcs").rglob("*.md"))[::40]
    for path in names:
        note, before = READERS[0].read(PATHS[0], path.read_bytes())
        place = len(note.sections) // 2
        lines = list(note.lines)
        lines[note.sections[place].start_line :] = ["", "An added line.", *lines[note.sections[place].start_line :]]
        edited, after = READERS[0].read(PATHS[0], "\n".join(lines).encode())
        assert len(edited.sections) == len(note.sections) > 4
        for section in range(len(note.sections)):
            if section != place:
                assert hashes(before, section) == hashes(after, section), path.name
