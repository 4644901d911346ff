"""The YAML head: what is read from it, and that nothing hostile in it costs the note more than a warning."""

from __future__ import annotations

import json

import pytest
import yaml

from memsync.model.note import Chunk, Note
from memsync.model.vocabulary import NotePath
from memsync.notes.frontmatter import MAX_DEPTH
from memsync.notes.parse import NoteReader

BODY = "The heron nests in the alder."


def read(reader: NoteReader, head: str, *, path: str = "note.md", ending: str = "\n") -> tuple[Note, list[Chunk]]:
    text = f"---\n{head}\n---\n\n{BODY}\n"
    return reader.read(NotePath(path), text.replace("\n", ending).encode())


def words(chunks: list[Chunk]) -> str:
    return "\n".join(chunk.words for chunk in chunks)


HOSTILE = {
    "25,000 open brackets": "key: " + "[" * 25_000,
    "60,000 open brackets": "key: " + "[" * 60_000,
    "open brackets on lines of their own": "key:\n" + " [\n" * 10_000,
    "open braces": "{a: " * 15_000,
    "nested blocks": "\n".join(" " * depth + "key:" for depth in range(300)),
    "nested sequences on one line": "- " * 25_000 + "end",
    "complex keys": "? " * 25_000 + "end",
    "alias bomb": "a: &a [x, x, x, x, x, x, x, x]\n"
    + "\n".join(
        f"{new}: &{new} [{', '.join([f'*{old}'] * 8)}]" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    ),
    "merge key bomb": "a0: &a0 {k: v}\n"
    + "\n".join(f"a{i}: &a{i}\n  <<: [{', '.join([f'*a{i - 1}'] * 20)}]" for i in range(1, 30)),
    "merge key": "<<: {a: b}",
    "alias": "a: &x one\nb: *x",
    "tab indentation": "a:\n\tb: c",
    "second colon": "a: b: c",
    "comment above": "# words\n\na: b: c",
    "30 February": "created: 2026-02-30",
    "year zero": "created: 0000-01-01",
    "unclosed quote": 'a: "one',
    "unknown tag": "a: !!python/object:os.system x",
    "number key": "1: one",
    "date key": "2026-11-21: one",
    "null key": "null: one",
    "boolean key": "yes: one",
    "key twice": "a: one\na: two",
    "5,000-digit integer": "a: " + "9" * 5_000,
    "5,000-digit hexadecimal integer": "a: 0x" + "f" * 5_000,
    "5,000-digit hexadecimal key": "0x" + "f" * 5_000 + ": a",
    "60,000 sexagesimal digits": "a: 1" + ":1" * 29_000,
    "control character": "a: \x07one",
    "over 64 kB": "\n".join(f"key{i}: value" for i in range(5_000)),
}


@pytest.mark.parametrize("head", HOSTILE.values(), ids=HOSTILE.keys())
def test_head_that_is_not_understood_is_indexed_as_text_with_one_warning(head: str, reader: NoteReader) -> None:
    """Searches find the body and the raw head, one warning tells the user, and the index keeps short, strict JSON."""
    note, chunks = read(reader, head)
    assert len(json.dumps(note.front_matter, allow_nan=False)) <= 2 * len(head) + 20
    assert len(note.warnings) == 1
    assert note.head_is_text
    assert BODY in words(chunks)
    covered = {line for chunk in chunks for line in range(chunk.start_line, chunk.end_line + 1)}
    assert covered >= set(range(1, note.head_lines + 1))
    squeezed = "".join(chunk.words for chunk in chunks if chunk.start_line <= note.head_lines)
    assert "".join(squeezed.split()) == "".join(f"---{head}---".split())


@pytest.mark.smoke
def test_brackets_beyond_the_depth_limit_are_not_scanned(reader: NoteReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyYAML looks a thousand brackets ahead, in time that grows with their square, and does so for each key alone."""
    depths = []
    fetch = yaml.SafeLoader.fetch_flow_collection_start

    def counted(loader: yaml.SafeLoader, kind: type) -> None:
        fetch(loader, kind)
        depths.append(loader.flow_level)

    monkeypatch.setattr(yaml.SafeLoader, "fetch_flow_collection_start", counted)
    note, _ = read(reader, "\n".join(f"key{number}: {'[' * 1_000}" for number in range(3)))
    assert note.head_is_text and max(depths) == MAX_DEPTH


@pytest.mark.parametrize(
    "head", ["a: !!float 1_0:59.9", "a: .inf\nb: .nan", 'a: "\\ud800\\0"', "a: 99999999999999999999"]
)
def test_value_that_json_or_a_database_cannot_hold_becomes_text(head: str, reader: NoteReader) -> None:
    """Infinities, lone surrogates, NUL and integers beyond 64 bits are kept in writing."""
    note, _ = read(reader, head)
    written = json.dumps(note.front_matter, allow_nan=False, ensure_ascii=False)
    assert "\0" not in written
    written.encode()
    assert all(not isinstance(value, int) for value in note.front_matter.values())


def test_number_key_is_kept_under_its_written_form(reader: NoteReader) -> None:
    """A key that is not text can still be filtered on."""
    note, _ = read(reader, "2026: one\ntitle: Two")
    assert note.front_matter == {"2026": "one", "title": "Two"}
    assert note.title == "Two"


def test_keys_that_python_frontmatter_gives_a_meaning_are_ordinary(reader: NoteReader) -> None:
    """`content` and `handler` are names of its parameters, not of ours."""
    note, chunks = read(reader, "content: short\nhandler: yaml")
    assert note.front_matter == {"content": "short", "handler": "yaml"}
    assert note.warnings == ()
    assert words(chunks[:1]) == BODY


def test_byte_order_mark_before_the_head_is_skipped(reader: NoteReader) -> None:
    """Windows editors write one; the head behind it is a head."""
    note, chunks = reader.read(NotePath("note.md"), f"\ufeff---\ntitle: One\n---\n{BODY}\n".encode())
    assert (note.title, note.warnings, words(chunks)) == ("One", (), BODY)


@pytest.mark.parametrize("ending", ["\r\n", "\r"])
def test_line_endings_do_not_matter(ending: str, reader: NoteReader) -> None:
    """CRLF and CR heads read as LF ones."""
    note, chunks = read(reader, "title: One\ntags: [a, b]", ending=ending)
    assert (note.title, [tag.name for tag in note.tags], note.warnings) == ("One", ["a", "b"], ())
    assert (chunks[0].start_line, chunks[0].words) == (6, BODY)


def test_head_that_nothing_closes_is_body_with_a_warning(reader: NoteReader) -> None:
    """Without a closing fence there is no telling where the head ends, so all of it is text."""
    note, chunks = reader.read(NotePath("note.md"), f"---\ntitle: One\n\n{BODY}\n".encode())
    assert (note.head_lines, len(note.warnings)) == (0, 1)
    assert "title: One" in words(chunks)
    assert BODY in words(chunks)


@pytest.mark.parametrize(
    "text",
    ["Only prose here", "- one\n- two", "42", "[a, b]: c", "**HERON & CO**\n12 Quay Street\nTel: 555", "| a: b |\n@ x"],
)
def test_text_between_two_thematic_breaks_is_no_head(text: str, reader: NoteReader) -> None:
    """A letterhead, a list or prose is Markdown, not front matter with a fault."""
    note, chunks = read(reader, text)
    assert (note.head_lines, note.warnings) == (0, ())
    assert text.split("\n")[-1].strip("-| ") in words(chunks)


def test_second_head_names_the_note_and_does_nothing_else(reader: NoteReader) -> None:
    """Importers write one above that of the file. A clipped page may begin with one, and must gain no rank by it."""
    second = "title: Two\ntags: [b]\ncreated: 2026-11-20\npinned: true\nkind: prompt\nlocal-only: yes"
    for between in ("", "\n"):
        text = f"---\nmood: good\n---\n{between}---\n{second}\n---\n{BODY}\n"
        note, chunks = reader.read(NotePath("note.md"), text.encode())
        assert (note.title, note.tags[0].name, note.date, note.local_only) == ("Two", "b", "2026-11-20", True)
        assert (note.pinned, note.kind, note.warnings, words(chunks[:1])) == (False, "note", (), BODY)
    assert read(reader, "title: One\n---\n---\ntitle: Two")[0].title == "One"
    assert read(reader, "mood: good\n---\n---\nNote: important")[0].head_lines == 3


def test_logseq_properties_name_the_note(reader: NoteReader) -> None:
    """They are the first lines of a page; below other text, they are about a block."""
    text = "title:: Heron\nalias:: [[Wader]], K. L.\ntags:: #bird, [[of water]]\ncreated:: [[2026-11-20]]\n\n- text\n"
    note, _ = reader.read(NotePath("pages/x.md"), text.encode())
    assert (note.title, note.aliases, note.date) == ("Heron", ("Wader", "K. L."), "2026-11-20")
    assert [tag.name for tag in note.tags if tag.line == 0] == ["bird", "of water"]
    assert reader.read(NotePath("a___b.md"), f"Text.\n\n{text}".encode())[0].title == "a/b"


def test_nul_byte_in_the_head_is_replaced_with_one_warning(reader: NoteReader) -> None:
    """A NUL becomes a replacement character; the head is read all the same."""
    note, chunks = read(reader, "title: O\0ne")
    assert note.title == "O\ufffdne"
    assert len(note.warnings) == 1
    assert words(chunks) == BODY


def test_empty_head_is_no_fault(reader: NoteReader) -> None:
    """Two fences with nothing between them are a head without values."""
    note, chunks = read(reader, "")
    assert (note.head_lines, note.front_matter, note.warnings) == (3, {}, ())
    assert words(chunks) == BODY


def test_values_keep_their_types(reader: NoteReader) -> None:
    """Numbers, truth values, lists and mappings stay what YAML says; dates become ISO text; unknown keys are kept."""
    note, _ = read(
        reader,
        "count: 3\nshare: 0.5\ndone: true\nnone:\nnames: [a, 1]\nnested: {a: {b: c}}\nday: 2026-11-21\n"
        "moment: 2026-11-21T10:02:03+01:00\nset: !!set {b, a}",
    )
    assert note.front_matter == {
        "count": 3, "share": 0.5, "done": True, "none": None, "names": ["a", 1], "nested": {"a": {"b": "c"}},
        "day": "2026-11-21", "moment": "2026-11-21T10:02:03+01:00", "set": ["a", "b"],
    }  # fmt: skip
    assert note.warnings == ()


@pytest.mark.parametrize(
    "tags",
    [
        "tags: [work, home]", "tags: work, home", "tags: '#work, #home'", "tags: \n- work\n- home",
        "tags: [work, '', home]", "tags: work home", "tags: #work, #home", "tags: [#work, #home]",
        "tags: work\ntag: [[home]]",
    ],
)  # fmt: skip
def test_tags_are_a_list_or_text(tags: str, reader: NoteReader) -> None:
    """Each form tags the whole note; YAML alone would read `#work` as a comment."""
    note, _ = read(reader, tags)
    assert [(tag.name, tag.line) for tag in note.tags] == [("work", 0), ("home", 0)]


def test_note_fields_come_from_the_head(reader: NoteReader) -> None:
    """The keys of the format set the note's own fields."""
    note, _ = read(reader, "aliases: [one, two]\nsession: 7\nimportance: 1\npinned: true\ncreated: 2026-11-20")
    assert (note.aliases, note.session, note.importance, note.pinned) == (("one", "two"), "7", 1.0, True)
    assert note.date == "2026-11-20"


@pytest.mark.parametrize(
    ("key", "rank"),
    [
        *(
            (key, 2)
            for key in ("updated", "updated_at", "last-modified", "lastmod", "dateModified", "Last edited time")
        ),
        *((key, 2) for key in ("modified", "date updated", "mtime", "changed", "last_modified_at", "lastUpdated")),
        *(
            (key, 1)
            for key in ("Created", "created_at", "date created", "date_created", "dateCreated", "creation-date")
        ),
        *((key, 0) for key in ("date", "Date", "publishDate", "published", "pubDate", "Date Published", "Datum")),
        ("Erstellt am", 1),
        ("zuletzt geändert", 2),
        *((key, -1) for key in ("update", "due date", "created by", "dates", "mod")),
    ],
)
def test_key_of_a_date_in_any_spelling(key: str, rank: int, reader: NoteReader) -> None:
    """A change counts before the creation, and that before any other date."""
    note, _ = read(reader, f"date: 2026-11-01\ncreated: 2026-11-11\n{key}: 2026-11-21")
    given = {0: "2026-11-11", 1: "2026-11-11", 2: "2026-11-21", -1: "2026-11-11"}
    assert read(reader, f"{key}: 2026-11-21")[0].date == ("" if rank < 0 else "2026-11-21")
    assert note.date == given[rank] or key.lower() in ("date", "created")


@pytest.mark.parametrize(
    ("value", "date"),
    [
        *((day, "2024-07-05") for day in ("2024/07/05", "20240705", "2024.07.05", "2024-7-5", "[[2024-07-05]]")),
        *((day, "2024-07-05") for day in ("5 July 2024", "July 5, 2024", "Friday, 5th of July 2024", "5. Juli 2024")),
        *(
            (day, "2024-07-05")
            for day in ("'[[2024-07-05|Friday]]'", "<2024-07-05 Fri>", "Jul 5th 2024", "05-Jul-2024")
        ),
        ("Fri, 05 Jul 2024 10:02:00 +0200", "2024-07-05T10:02+02:00"),
        ("Fri Jul 05 2024 10:02:00 GMT+0200 (CEST)", "2024-07-05T10:02+02:00"),
        ("2024-07-05 10:02:03 +0200", "2024-07-05T10:02:03+02:00"),
        ("2024-07-05T10:02:03.5Z", "2024-07-05T10:02:03+00:00"),
        ("July 5, 2024 10:02 PM", "2024-07-05T22:02"),
        *((day, "2024-07-15") for day in ("15.07.2024", "15/7/2024", "07-15-2024")),
        ("202407051002", "2024-07-05T10:02"),
        ("1720166520000", "2024-07-05T08:02+00:00"),
        *((first, "2024-07-01") for first in ("2024-07", "July 2024", "2024-W27")),
        *((empty, "") for empty in ("", "''", "2024", "<% tp.date.now() %>", "'{{date}}'", "YYYY-MM-DD", "false")),
        *((wrong, None) for wrong in ("07/05/2024", "05.07.2024", "15.13.2024", "soon", "2024-13-05", "32 July 2024")),
    ],
)
def test_value_of_a_date_in_any_form_that_is_certain(value: str, date: str | None, reader: NoteReader) -> None:
    """07/05/2024 has two meanings. A value without a date warns, unless it is empty, a year or a placeholder."""
    note, _ = read(reader, f"created: {value}")
    assert (note.date, len(note.warnings)) == (date or "", date is None)


@pytest.mark.parametrize("head", ["importance: 2", "importance: high", "importance: true", "created: soon"])
def test_value_out_of_range_warns_and_the_default_stands(head: str, reader: NoteReader) -> None:
    """A wrong value costs a warning, not the note."""
    note, _ = read(reader, head)
    assert (note.importance, note.date, len(note.warnings)) == (0.5, "", 1)


@pytest.mark.parametrize(("path", "count"), [("prompts/a.md", 1), ("notes/a.md", 0)])
def test_only_a_prompt_is_warned_of_values_that_prompts_have(reader: NoteReader, path: str, count: int) -> None:
    """`priority` may mean anything elsewhere."""
    note, _ = reader.read(NotePath(path), b"---\npriority: high\n---\nSay hello.\n")
    assert len(note.warnings) == count


@pytest.mark.parametrize(
    "bad",
    ["pattern: *.md", "date: {{date}}", "url: a: b", "created: 2026-02-30", "note: 'it", "list: [a, b", "m:\n\tx: 1"],
)
def test_one_bad_value_loses_no_other_key(bad: str, reader: NoteReader) -> None:
    """Each key that can be read alone counts; the note still says that its front matter has a fault."""
    note, chunks = read(reader, f"title: Heron\n{bad}\nphones:\n  - +41 79 123 45 67\ntags: [bird]\nlast: 'x: y'")
    assert note.front_matter.keys() - {"list"} == {"title", "phones", "tags", "last"}
    assert (note.title, note.tags[0].name, note.front_matter["phones"]) == ("Heron", "bird", ["+41 79 123 45 67"])
    assert [warning for warning in note.warnings if "cannot be read" in warning] == list(note.warnings)
    assert bad in words(chunks)


@pytest.mark.parametrize(
    "head",
    [
        "local-only: true\nx: a: b",
        "x: 'a\nLocal_Only: yes",
        "local-only: maybe\nlocal-only: false",
        "{local-only: true",
    ],
)
def test_a_bad_value_makes_no_private_note_public(head: str, reader: NoteReader) -> None:
    """The words count anywhere in front matter that cannot be read as a whole."""
    assert read(reader, head)[0].local_only


def test_of_a_key_that_appears_twice_the_first_counts(reader: NoteReader) -> None:
    """Which one was meant nobody can tell; the warning names the key."""
    note, _ = read(reader, "title: One\nmood: good\ntitle: Two")
    assert (note.title, note.front_matter["mood"]) == ("One", "good")
    assert '"title" appears more than once' in note.warnings[0]


TOML = """+++
title = "Heron"
date = 2024-05-03
tags = ["bird", "water"]
aliases = ["wader"]
local-only = false
[params]
phone = "+41 79 123 45 67"
+++

The heron nests in the alder.
"""


def test_hugo_head_is_front_matter(reader: NoteReader) -> None:
    """Between two lines of three plus signs, in TOML; everything after it is body."""
    note, chunks = reader.read(NotePath("note.md"), TOML.encode())
    assert (note.title, note.aliases, note.local_only, note.warnings) == ("Heron", ("wader",), False, ())
    assert [tag.name for tag in note.tags] == ["bird", "water"]
    assert note.front_matter["date"] == "2024-05-03"
    assert note.front_matter["params"] == {"phone": "+41 79 123 45 67"}
    assert [chunk.start_line for chunk in chunks if BODY in chunk.words] == [11]


def test_private_hugo_head_is_private_even_if_it_cannot_be_read(reader: NoteReader) -> None:
    """As in YAML: damaged, unclosed or below blank lines."""
    for text in (
        TOML.replace("= false", "= true"),
        TOML.replace("= false", "= true\nx = "),
        TOML.replace("= false", "= true").replace("\n+++\n\n", "\n"),
        "\n\n" + TOML.replace("= false", "= true"),
        TOML.replace("local-only = false", 'local_only = "ja"'),
    ):
        assert reader.read(NotePath("note.md"), text.encode())[0].local_only
    note, _ = reader.read(NotePath("note.md"), TOML.replace("2024-05-03", "soon").encode())
    assert (note.title, len(note.warnings), "date" in note.front_matter) == ("Heron", 1, False)


@pytest.mark.parametrize(
    "head",
    [
        ".".join("a" * 20_000) + " = 1", '"a".' * 15_000 + "b = 1", "x = " + "[" * 60_000, "x = " + "{a = " * 12_000,
        ".".join("a" * 40) + " = 1", "x = " + "9" * 60_000, "a = 1\n" * 10_000,
    ],
)  # fmt: skip
def test_hostile_hugo_head_costs_one_warning(head: str, reader: NoteReader) -> None:
    """Size, depth and the length of dotted names are limited; the body is indexed as usual."""
    note, chunks = reader.read(NotePath("note.md"), f"+++\n{head}\n+++\n\n{BODY}\n".encode())
    assert len(note.warnings) == 1
    assert note.head_is_text and BODY in words(chunks)
