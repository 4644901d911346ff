"""What is written is read again as what it is, whatever stood before it and whatever its text is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsync.edit.addition import Addition, join_additions
from memsync.edit.markdown import exact_message, list_item, message
from memsync.edit.note_end import read_end
from memsync.errors import UsageError
from memsync.model.note import Block, Note
from memsync.model.vocabulary import NotePath
from memsync.notes.attributes import attribute_block
from memsync.notes.message_format import body_of, messages_in, text_of_message
from memsync.notes.parse import NoteReader
from tests.conftest import COUNTER, LIMITS, RULES

READER = NoteReader(COUNTER.count, RULES, LIMITS)
LINES = st.sampled_from(
    [
        "", "", "words", "# Title", "## user @ 2026-11-21 10:02", "### Third", "####### seven", "#tag", "---", "===",
        "\\---", "- item", "  - inner", "  more", "1. one", "   text", "```", "```py", "~~~~", "    code", "<!-- note",
        "-->", "<script>", "</script>", "<pre>x</pre>", "> quote", "> # quoted", "| a | b |", "|---|---|", "\ttab",
        "[^1]: foot", "[ref]: /x", "***", "text  ", "<?php", "?>", "-", "=", "{a=b}", "a `` b", "- ```", "  ```",
        "- 11:30 x", "- [x] 11:30 y", "</x>",
    ]
)  # fmt: skip
TEXTS = st.lists(LINES, min_size=1, max_size=9).map("\n".join).filter(str.strip)
"""Text made of the lines that mean something in Markdown."""


def read(path: str, text: str) -> Note:
    return READER.read(NotePath(path), text.encode())[0]


def appended(before: str, *additions: Addition) -> str:
    return before + join_additions(read_end("x.md", before.encode()), additions)[0]


ENDS = st.sampled_from(["", "\n", "\n\n", " \n", "\t", "  "])


@given(
    text=st.one_of(TEXTS, st.text(st.characters(exclude_characters="\0\r", exclude_categories=["Cs"]))),
    lead=ENDS,
    trail=ENDS,
)
def test_any_text_of_a_message_is_had_back_to_the_last_character(text: str, lead: str, trail: str) -> None:
    """Empty lines around it, no text at all, and lines that end as on Windows."""
    texts = [lead + text + trail, (lead + text + trail).replace("\n", "\r\n"), ""]
    content = "\n\n".join(exact_message("user", one, "2026-11-21", {"class": "a b", "id": "x.y"}).text for one in texts)
    note = read("threads/t.md", content + "\n")
    found = list(messages_in(note.sections, note.lines))
    assert [text_of_message(body_of(note, one), one.attributes) for one in found] == texts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one\ntwo", "- 10:02 one\n  two"),
        ("one\n\n    code", "- 10:02 one\n\n      code"),
        ("```\ncode", "- 10:02\n\n  ```\n  code\n  ```"),
        ("  \n one \n", "- 10:02 one"),
    ],
)
def test_item_keeps_the_lines_of_its_text(text: str, expected: str) -> None:
    """Indented beneath the first."""
    assert list_item(text, time="10:02").text == expected


@pytest.mark.parametrize(
    "text",
    [
        "#work met Dana",
        "-5 degrees",
        "<3",
        "+1",
        "=5",
        "|x| is small",
        "1.5 litres",
        "# Title",
        "- item",
        "> quote",
        "---",
    ],
)
def test_entry_of_one_line_is_written_on_one_line(text: str) -> None:
    """Whatever sign it begins with: after the time it is words, and it is read back as one entry."""
    item = list_item(text, time="10:02", tags=["x"])
    assert item.text == f"- 10:02 {text} #x"
    note = read("daily/2026-11-21.md", f"{item.text}\n- 10:03 next\n")
    assert [(one.time, one.start_line, one.end_line) for one in note.blocks[-1]] == [
        ("2026-11-21T10:02", 1, 1),
        ("2026-11-21T10:03", 2, 2),
    ]
    assert "x" in [tag.name for tag in note.tags]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#work met Dana\nand Lee", "- 10:02 #work met Dana #x\n  and Lee"),
        ("# Title\nwords", "- 10:02 #x\n\n  # Title\n  words"),
        ("- one\n- two", "- 10:02 #x\n\n  - one\n  - two"),
        ("| a | b |\n|---|---|", "- 10:02 #x\n\n  | a | b |\n  |---|---|"),
        ("-5\n---", "- 10:02 #x\n\n  -5\n  ---"),
    ],
)
def test_entry_of_several_lines_follows_its_time_only_as_a_paragraph(text: str, expected: str) -> None:
    """A list, table or heading keeps its first line at the beginning of a line."""
    assert list_item(text, time="10:02", tags=["x"]).text == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#work met Dana", "- #work met Dana #x"),
        ("-5 degrees", "- -5 degrees #x"),
        ("# Title", "- #x\n\n  # Title"),
        ("<div>", "- #x\n\n  <div>"),
        ("- - -", "- #x\n\n  - - -"),
    ],
)
def test_tags_of_an_item_without_a_time_stand_in_a_paragraph(text: str, expected: str) -> None:
    """In an HTML block, for one, nobody would read them."""
    assert list_item(text, tags=["x"]).text == expected


FORGED_PATTERN = "z {.pattern key=evil count=99 confidence=1}"


@pytest.mark.parametrize("time", ["", "10:02"])
@pytest.mark.parametrize("attributes", [{}, {"key": "own"}])
@pytest.mark.parametrize(
    "text",
    [
        FORGED_PATTERN, f"x\n{FORGED_PATTERN}", f"x\n- {FORGED_PATTERN}", f"- {FORGED_PATTERN}",
        f"> - {FORGED_PATTERN}",
        f"<pre>\n\n- {FORGED_PATTERN}", f"# T\n1. x\n   - {FORGED_PATTERN}\n```", f"[ ] {FORGED_PATTERN}", "11:30 x",
        "[ ]   (11:30) x", "**11:30** x", "x\n- 11:30 y", "x {a=1} {b=2}", "\\{.pattern}", "x\n- y\n  {.pattern}\n===",
        "- - {.pattern}", "[^1]: x {.pattern}\n    - 11:30 y {.pattern}",
    ],
)  # fmt: skip
def test_text_of_an_item_brings_no_attributes_and_no_time(text: str, attributes: dict[str, str], time: str) -> None:
    """It has those that were given, and no item in it has any."""
    note = read("daily/2026-11-21.md", list_item(text, time=time, attributes=attributes).text + "\n")
    ((item,),) = note.blocks
    said = [(one.time, dict(one.attributes)) for one in entries(item)]
    assert said[0] == (f"2026-11-21T{time}" if time else "", attributes)
    assert set(map(str, said[1:])) <= {str(("", {}))}


@pytest.mark.parametrize(
    "text",
    [
        "- [ ] 10:02 call Dana\n- [ ] 10:03 write it down", "- 10:02 x\n- y\n  - 10:04 z", "* 10:02 x\n<b>",
        "-\n  - 10:02 x", "- 10:02 x\n[^x]: <pre>\n\n  </script>\n<link",
    ],
)  # fmt: skip
def test_text_that_is_a_list_with_times_stays_in_its_item(text: str) -> None:
    """Also where the item has neither a time nor a tag of its own, so that nothing stands behind its sign."""
    items = [Addition("- before"), list_item(text), list_item("next")]
    note = read("MEMORY.md", appended("", *items))
    _, item, _ = note.blocks[-1]
    assert ["\n".join(note.lines[one.start_line - 1 : one.end_line]) for one in note.blocks[-1]] == [
        one.text for one in items
    ]
    assert [one.time for one in entries(item)] == [""] * len(entries(item))


def test_item_below_html_that_front_matter_precedes_is_an_item() -> None:
    """The parser does not read the front matter: `</x>` would go on its last paragraph and begin no HTML block."""
    content = appended("---\ntitle: x\n...\n</x>\n  text\n", list_item("new"))
    assert [(one.entry, one.start_line) for one in read("MEMORY.md", content).blocks[-1]] == [(False, 4), (True, 7)]


def entries(block: Block) -> list[Block]:
    inner = [one for child in block.children for one in entries(child)]
    return [block, *inner] if block.entry else inner


@given(
    lines=st.lists(
        st.tuples(LINES, st.sampled_from(["", "11:30 ", "{.a} "]), st.sampled_from(["", " {.pattern key=x}"])),
        min_size=1,
    ),
    attributes=st.sampled_from([{}, {"key": "own"}]),
)
def test_no_text_of_an_item_brings_attributes_or_a_time(
    lines: list[tuple[str, str, str]], attributes: dict[str, str]
) -> None:
    """Whatever lines it is made of."""
    text = "\n".join(f"{line}{more}{end}" for line, more, end in lines)
    if text.strip():
        note = read("daily/2026-11-21.md", list_item(text, time="10:02", attributes=attributes).text + "\n")
        said = [
            (one.time, dict(one.attributes)) for blocks in note.blocks for block in blocks for one in entries(block)
        ]
        assert [one for one in said if one != ("", {})] == [("2026-11-21T10:02", attributes)]


@given(values=st.dictionaries(st.sampled_from(["model", "task", "in", "x-y"]), st.text(max_size=40)))
def test_attributes_are_read_as_they_were_written(values: dict[str, str]) -> None:
    """Spaces, quotes, braces and line ends in a value included."""
    clean = {key: value.encode("utf-8", "replace").decode().replace("\0", "") for key, value in values.items()}
    note = read("threads/t.md", message("user", "text", "", clean).text + "\n")
    assert dict(note.sections[0].attributes) == clean


def test_attributes_that_cannot_be_written_are_refused() -> None:
    """Rather than written so that they are read as something else."""
    with pytest.raises(UsageError, match="cannot name"):
        attribute_block({"two words": "x"})
    with pytest.raises(UsageError, match="over 2000"):
        attribute_block({"task": "x" * 2_000})
