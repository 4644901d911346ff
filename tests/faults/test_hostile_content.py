"""Files that no one would write: every one is read within bounded work, or refused by name."""

from __future__ import annotations

import pytest

from memsync.memory import Memory
from memsync.model.note import Chunk
from memsync.model.vocabulary import NotePath
from memsync.notes import parse
from memsync.notes.parse import MAX_PLAIN_BLOCKS, NoteReader
from tests.conftest import Write

NOTE = NotePath("note.md")


def words(chunks: list[Chunk]) -> str:
    return "\n".join(chunk.words for chunk in chunks)


# ------------------------------------------------------------------------------------------- encodings


@pytest.mark.parametrize(
    "content", [b"caf\xe9 heron", b"\xff heron", b"\xed\xa0\x80 heron", b"heron \xf0\x9f", b"\xc0\x80 heron"]
)
def test_invalid_utf8_is_read_with_replacement_and_a_warning(content: bytes, reader: NoteReader) -> None:
    """Latin-1, lone surrogates, cut sequences, overlong forms: the rest of the line is found all the same."""
    note, chunks = reader.read(NOTE, b"first\n" + content + b"\nlast\n")
    assert "heron" in words(chunks)
    assert "\ufffd" in words(chunks)
    assert [warning.split(":")[0] for warning in note.warnings] == ["line 2 is not valid UTF-8"]
    assert len(note.lines) == 3


def test_utf16_mark_before_other_text_does_not_hide_it(reader: NoteReader) -> None:
    """Two stray bytes in front, or a line appended to a file that was mistaken for text, cost two bytes."""
    note, _ = reader.read(NOTE, b"\xff\xfe\xfd heron\nbittern\n")
    assert "heron" in note.lines[0]
    assert note.lines[1] == "bittern"
    assert any("not valid UTF-8" in warning for warning in note.warnings)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_read_with_a_warning(encoding: str, reader: NoteReader) -> None:
    """Windows tools write it, with a byte order mark."""
    mark = "" if encoding == "utf-16" else "\ufeff"
    note, chunks = reader.read(NOTE, f"{mark}# Über\n\nheron\n".encode(encoding))
    assert (note.title, len(note.warnings)) == ("Über", 1)
    assert words(chunks) == "# Über\n\nheron"


def test_utf16_with_lone_surrogates_and_odd_length_is_read(reader: NoteReader) -> None:
    """What is broken becomes replacement characters, so that every text can be stored."""
    _, chunks = reader.read(NOTE, b"\xff\xfe" + "heron ".encode("utf-16-le") + b"\x00\xd8a\x00\x00\x00x")
    words(chunks).encode()
    assert "heron \ufffd" in words(chunks)
    assert "\0" not in words(chunks)


def test_nul_byte_is_read_as_a_replacement_character(reader: NoteReader) -> None:
    """One stray NUL does not make a note binary."""
    note, chunks = reader.read(NOTE, b"The heron nests here.\nAnd th\0ere, by the water.\n")
    assert [warning.split(":")[0] for warning in note.warnings] == ["line 2 has a NUL byte"]
    assert "And th\ufffdere" in words(chunks)


def test_terminal_colours_and_form_feeds_are_text(reader: NoteReader) -> None:
    """A pasted log with escape sequences is no binary file."""
    note, chunks = reader.read(NOTE, b"\x1b[31mred\x1b[0m\n\x0cpage\n" * 20)
    assert note.warnings == ()
    assert "red" in words(chunks)


@pytest.mark.parametrize(
    "content", [bytes(range(256)) * 40, b"\x7fELF\x02\x01\x01" + bytes(900), b"PK\x03\x04" + bytes(60), b"\0"]
)
def test_binary_file_named_md_is_refused_by_name(content: bytes, memory: Memory, write: Write) -> None:
    """The sync says which file it was; all others are indexed."""
    write("picture.md", content)
    write("note.md", "heron\n")
    report = memory.sync()
    assert [(failure.path, failure.reason) for failure in report.failed] == [("picture.md", "not a text file")]
    assert [hit.path for hit in memory.search("heron").hits] == ["note.md"]


# -------------------------------------------------------------------------------------------- line ends


def test_lines_are_counted_as_editors_count_them(reader: NoteReader) -> None:
    """LF, CRLF and CR end a line; form feeds, NEL and Unicode separators do not."""
    note, _ = reader.read(NOTE, "a\r\nb\rc\nd\x0be\x0cf\x85g\u2028h\u2029i".encode())
    assert note.lines == ("a", "b", "c", "d\x0be\x0cf\x85g\u2028h\u2029i")


def test_hits_of_a_crlf_file_have_its_lines(reader: NoteReader) -> None:
    """Line numbers are those of the file."""
    _, chunks = reader.read(NOTE, b"# A\r\n\r\none\r\n\r\n# B\r\n\r\ntwo\r\n")
    assert [(chunk.start_line, chunk.end_line, chunk.words) for chunk in chunks] == [
        (1, 3, "# A\n\none"),
        (5, 7, "# B\n\ntwo"),
    ]


# --------------------------------------------------------------------------------------------- too large


def test_file_over_the_cap_is_indexed_as_plain_paragraphs(reader: NoteReader) -> None:
    """Its Markdown structure is not read, its front matter and its words are."""
    paragraph = "# The heron nests in the alder #tag\n\n"
    text = "---\ntitle: Large\n---\n" + paragraph * (2_000_000 // len(paragraph) + 1)
    note, chunks = reader.read(NOTE, text.encode())
    assert note.warnings == ("file is over 2 MB: indexed as plain paragraphs",)
    assert (note.title, note.tags, {section.heading_path for section in note.sections}) == ("Large", (), {()})
    assert max(map(len, note.blocks)) == MAX_PLAIN_BLOCKS
    covered = {line for chunk in chunks for line in range(chunk.start_line, chunk.end_line + 1)}
    assert {number for number, line in enumerate(note.lines[3:], 4) if line} <= covered


def test_file_of_exactly_the_cap_keeps_its_structure(reader: NoteReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cap is the last size that is parsed."""
    monkeypatch.setattr(parse, "MAX_STRUCTURED_BYTES", 10)
    assert reader.read(NOTE, b"# A\n\n# B\n\n")[0].title == "A"
    assert reader.read(NOTE, b"# A\n\n# B\n\n\n")[0].title == "note"
