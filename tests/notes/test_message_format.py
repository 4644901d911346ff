"""Threads: a level-2 heading that names a role begins a message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from memsync.model.note import Section
from memsync.model.vocabulary import NotePath
from memsync.notes import parse
from memsync.notes.parse import NoteReader

Sections = Callable[..., tuple[Section, ...]]


@pytest.fixture
def sections(reader: NoteReader) -> Sections:
    def read(text: str, path: str = "threads/one.md") -> tuple[Section, ...]:
        return reader.read(NotePath(path), text.encode())[0].sections

    return read


@pytest.mark.parametrize(
    "role",
    ["user", "assistant", "system", "tool", "router", "handoff", "agent:researcher", "agent:a.b-c_1", "agent:größe"],
)
def test_heading_that_names_a_role_begins_a_message(role: str, sections: Sections) -> None:
    """With or without a time; an agent is named behind a colon."""
    timed, untimed = sections(f"## {role} @ 2026-11-21 10:02\n\nhello\n\n## {role}\n\nagain\n")
    assert (timed.role, timed.time, timed.end_line) == (role, "2026-11-21T10:02", 3)
    assert (untimed.role, untimed.time) == (role, "")


@pytest.mark.parametrize(
    ("written", "time"),
    [
        ("2026-11-21 10:02", "2026-11-21T10:02"),
        ("2026-11-21 10:02:03", "2026-11-21T10:02:03"),
        ("2026-11-21T10:02", "2026-11-21T10:02"),
        ("2026-11-21T10:02:03Z", "2026-11-21T10:02:03+00:00"),
        ("2026-11-21T10:02+01:00", "2026-11-21T10:02+01:00"),
        ("2026-11-21 10:02:03.5+01:00", "2026-11-21T10:02:03+01:00"),
        ("2026-11-21", "2026-11-21"),
    ],
)
def test_time_of_a_message_is_iso_text(written: str, time: str, sections: Sections) -> None:
    """A zone that was written is kept and none is added."""
    assert [section.time for section in sections(f"## user @ {written}\n\nhello\n")] == [time]


@pytest.mark.parametrize(
    "heading",
    [
        "user @ yesterday", "user @ 2026-02-30 10:02", "user @ 10:02", "user @", "user 2026-11-21 10:02", "User",
        "users", "the user", "agent:", "agent: researcher", "agent:two words", "@ 2026-11-21 10:02", "Notes",
    ],
)  # fmt: skip
def test_heading_that_is_no_message_is_an_ordinary_section(heading: str, sections: Sections) -> None:
    """An unknown role or a time that cannot be read makes no message, and loses nothing."""
    assert [(section.role, section.time, section.heading_path) for section in sections(f"## {heading}\n\nhello\n")] == [
        ("", "", (heading,))
    ]


def test_message_heading_has_attributes(sections: Sections) -> None:
    """Costs have dots, tasks have spaces."""
    (message,) = sections(
        '## agent:researcher @ 2026-11-21 10:05 {task="compare stores" status=completed in=9000 cost=0.0031}\n\nDone.\n'
    )
    assert message.role == "agent:researcher"
    assert message.attributes == {"task": "compare stores", "status": "completed", "in": "9000", "cost": "0.0031"}
    assert message.heading_path == ("agent:researcher @ 2026-11-21 10:05",)


def test_setext_message_heading_is_a_message(sections: Sections) -> None:
    """A level-2 heading may be written either way."""
    (message,) = sections("user @ 2026-11-21 10:02 {in=3}\n---\n\nhello\n")
    assert (message.role, message.time, message.attributes) == ("user", "2026-11-21T10:02", {"in": "3"})


def test_deeper_headings_stay_in_the_message(sections: Sections) -> None:
    """What an assistant wrote under headings of its own is its message still."""
    found = sections("## assistant @ 2026-11-21 10:02\n\n### Plan\n\none\n\n#### user\n\ntwo\n")
    assert [(section.role, section.time) for section in found] == [("assistant", "2026-11-21T10:02")] * 3


@pytest.mark.parametrize("marker", ["#", "##"])
def test_other_heading_of_level_1_or_2_ends_the_message(marker: str, sections: Sections) -> None:
    """And what is below it belongs to no message."""
    found = sections(f"## user @ 2026-11-21 10:02\n\nhello\n\n{marker} Summary\n\n### Deeper\n\ntext\n")
    assert [(section.role, section.time) for section in found] == [("user", "2026-11-21T10:02"), ("", ""), ("", "")]


def test_text_before_the_first_message_has_no_role(sections: Sections) -> None:
    """A thread may begin with a title and an introduction."""
    assert [section.role for section in sections("# Title\n\nintro\n\n## user\n\nhello\n")] == ["", "user"]


@pytest.mark.parametrize("level", ["#", "###"])
def test_role_in_a_heading_of_another_level_is_no_message(level: str, sections: Sections) -> None:
    """Only level 2 begins a message."""
    assert [section.role for section in sections(f"{level} user @ 2026-11-21 10:02\n\nhello\n")] == [""]


@pytest.mark.parametrize("fence", ["```", "~~~~"])
def test_message_heading_in_a_fence_is_content(fence: str, sections: Sections) -> None:
    """Code protects what it holds."""
    found = sections(f"## user\n\n{fence}\n## assistant\n{fence}\n")
    assert [(section.role, section.end_line) for section in found] == [("user", 5)]


@pytest.mark.parametrize("path", ["note.md", "daily/2026-11-21.md", "prompts/one.md"])
def test_role_heading_outside_a_thread_is_an_ordinary_heading(path: str, sections: Sections) -> None:
    """Only notes of kind thread have messages."""
    assert [section.role for section in sections("## user @ 2026-11-21 10:02\n\nhello\n", path)] == [""]


def test_front_matter_can_make_a_thread(sections: Sections) -> None:
    """Kind decides, wherever the file lies."""
    assert [section.role for section in sections("---\nkind: thread\n---\n## user\n\nhello\n", "note.md")] == ["user"]


def test_chunks_of_a_message_carry_its_role_and_time(reader: NoteReader) -> None:
    """A search can be narrowed to a role; what was said when is known of every part."""
    text = "## user @ 2026-11-21 10:02\n\n" + "one two three\n\n" * 200 + "### Deeper\n\nhello\n"
    _, chunks = reader.read(NotePath("threads/one.md"), text.encode())
    assert len(chunks) > 2
    assert {chunk.role for chunk in chunks} == {"user"}
    assert {entry.time for chunk in chunks for entry in chunk.entries} == {"2026-11-21T10:02"}


@pytest.mark.parametrize(
    "text",
    [
        "## user @ 2026-11-21 10:02 {in=1 cost=0.5}\ntext at once\n\nand more\n\n## assistant ##\n\nyes\n",
        "above\n\n## user\n\n```\n## assistant\n```\n\n## Summary\n\n~~~~\n```\n~~~\n## tool\n~~~~\n\n## tool\n\nx\n",
        "---\nsession: s\n---\n\n## agent:a @ yesterday\n\ntext\n\n## router\n## handoff\n### user\n\n    ## user\n",
        "no message at all " * 20,
        "## user\n\n``` `not a fence\n\n## assistant\n\nx\n",
    ],
)
def test_messages_of_a_thread_that_is_too_large_are_those_it_would_have(
    text: str, reader: NoteReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read line by line: sums over a thread do not end at 2 MB."""
    path = NotePath("threads/one.md")
    text += "\n" + "word " * 30
    whole, _ = reader.read(path, text.encode())
    monkeypatch.setattr(parse, "MAX_STRUCTURED_BYTES", 100)
    note, chunks = replace(reader).read(path, text.encode())  # a new reader has no results of before
    assert note.warnings and not whole.warnings
    assert note.messages == whole.messages
    roles = {line: chunk.role for chunk in chunks for line in range(chunk.start_line, chunk.end_line + 1)}
    for message in note.messages:
        assert {roles[line] for line in (message.start_line, message.end_line)} == {message.role}
