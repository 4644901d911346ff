"""Positions and edits of what an editor holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsync.lsp.documents import Document, path_of

TEXTS = st.text("aü😀𝄞\t \n\r", max_size=30)


def document(text: str) -> Document:
    return Document("file:///n.md", "/n.md", text, 1)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_columns_are_counted_as_the_editor_counts(end: str) -> None:
    """An umlaut and an emoji have other lengths in UTF-16; line ends are no part of a line."""
    note = document(f"first{end}ü😀: x{end}")
    assert note.position(1, 4) == {"line": 1, "character": 5}
    assert note.place({"line": 1, "character": 5}) == (1, 4)
    assert note.place({"line": 1, "character": 999}) == (1, 5)
    assert note.selected({"start": note.position(1, 1), "end": note.position(1, 2)}) == "😀"


@given(text=TEXTS, new=TEXTS, data=st.data())
def test_a_change_of_a_range_gives_the_same_text_as_in_the_editor(text: str, new: str, data: st.DataObject) -> None:
    """Whatever the characters and the line ends."""
    before = document(text)
    places = [(line, column) for line in range(len(before.lines)) for column in range(len(before.line(line)) + 1)]
    start, end = sorted(data.draw(st.tuples(*(st.sampled_from(places or [(0, 0)]),) * 2)))
    span = {"start": before.position(*start), "end": before.position(*end)}
    rows = [*re.findall(r"[^\r\n]*(?:\r\n|\n|\r)", text), ""]
    offsets = [len("".join(rows[:line])) + column for line, column in (start, end)]
    after = before.changed([{"range": span, "text": new}], 2)
    assert (after.text, after.version) == (text[: offsets[0]] + new + text[offsets[1] :], 2)
    assert before.changed([{"text": new}], 2).text == new
    assert before.selected(span) == text[offsets[0] : offsets[1]]


@given(text=TEXTS, changes=st.lists(st.tuples(*(st.integers(0, 9),) * 4, TEXTS), max_size=5))
def test_many_ranges_in_one_message_are_many_changes(text: str, changes: list[tuple[int, int, int, int, str]]) -> None:
    """Each is a range of the text after the one before, even if a CRLF is torn or made."""
    spans = [
        {
            "range": {
                "start": {"line": min(line, until), "character": start},
                "end": {"line": max(line, until), "character": start + more},
            },
            "text": new,
        }
        for line, until, start, more, new in changes
    ]
    one_by_one = document(text)
    for span in spans:
        one_by_one = one_by_one.changed([span], 2)
    assert document(text).changed(spans, 2).text == one_by_one.text


def test_thousands_of_ranges_are_applied_at_once() -> None:
    """As an editor sends them that replaces a word everywhere: a test may cost 2 s of CPU."""
    note = document("- an item with a word\n" * 20_000)
    spans = [
        {"range": {"start": {"line": line, "character": 17}, "end": {"line": line, "character": 21}}, "text": "thing"}
        for line in range(0, 20_000, 10)
    ]
    after = note.changed(spans, 2)
    assert after.text.count("a thing\n") == 2_000 and after.text.count("word") == 18_000


@given(before=st.text("aü😀\n", max_size=20), added=st.text("aü😀\n", max_size=9), after=st.text("aü😀\n", max_size=20))
def test_an_insertion_gives_the_new_text(before: str, added: str, after: str) -> None:
    """One edit is enough for what memsync adds to a note."""
    old, new = document(before + after), before + added + after
    edit = old.insertion(new)
    assert old.changed([{"range": edit["range"], "text": edit["newText"]}], 2).text == new


@pytest.mark.parametrize("name", ["a b.md", "100%.md", "grün 😀.md", "a#b?.md", "%41.md"])
def test_a_uri_names_the_same_file(tmp_path: Path, name: str) -> None:
    """Also one that the editor escapes more than we do, and one through a link."""
    path = tmp_path / name
    path.touch()
    (tmp_path / "link").symlink_to(path)
    escaped = "file://" + "".join(f"%{byte:02X}" if byte != ord("/") else "/" for byte in str(path).encode())
    real = str(path.resolve())
    assert {path_of(path.as_uri()), path_of(escaped), path_of((tmp_path / "link").as_uri())} == {real}


@pytest.mark.parametrize("uri", [None, 3, "", "untitled:1", "https://example.org/a.md", "file:a.md", "file:///a%00.md"])
def test_what_names_no_file_has_no_path(uri: object) -> None:
    """Editors have documents that are no files."""
    assert path_of(uri) == ""
