"""docs/format.md is the contract with people who write notes: every example and every name on that page is so."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from memsync.errors import UsageError
from memsync.memory import Memory
from memsync.model.conversation import Usage
from memsync.model.note import Note
from memsync.notes.message_format import read_message_heading
from tests.conftest import PROJECT, Parse, Write

PAGE = (PROJECT / "docs" / "format.md").read_text()
LAYOUT, *_ = re.findall(r"```\n(.*?)```", PAGE, re.DOTALL)
ATTRIBUTES, VALIDITY, THREAD = re.findall(r"```markdown\n(.*?)```", PAGE, re.DOTALL)


def test_marks_of_the_example_say_when_lines_hold(parse: Parse) -> None:
    """The page's example is read as the page says."""
    first, second = (block.attributes for blocks in parse(VALIDITY).blocks for block in blocks)
    assert first == {"supersedes": "MEMORY.md:12"}
    assert second == {"valid_from": "2026-11-01", "valid_until": "2026-11-30"}


def section(heading: str) -> str:
    """Return what the page says under a heading."""
    found = re.search(rf"^## {re.escape(heading)}.*?\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert found, heading
    return found.group(1)


def quoted(text: str) -> list[str]:
    """Return what stands between backticks."""
    return re.findall(r"`([^`]+)`", text)


# --------------------------------------------------------------------------------------------- layout

ROWS = re.findall(r"^(\S+).*?kind (\w+) +tier (\w+)$", LAYOUT, re.MULTILINE)


@pytest.mark.parametrize(("path", "kind", "tier"), ROWS)
def test_kind_and_tier_are_those_of_the_layout(path: str, kind: str, tier: str, parse: Parse) -> None:
    """Each row, here and beneath archive/; front matter wins over both."""
    name = path.replace("<slug>", "a-slug").replace("<any", "projects/").replace("/…", "")
    name = "projects/plan.md" if name == "projects/" else name
    for place in (name, f"archive/{name}"):
        note = parse("text\n", place)
        assert (note.kind, note.tier, note.archived) == (kind, tier, place != name)
    note = parse("---\nkind: prompt\ntier: personal\n---\ntext\n", name)
    assert (note.kind, note.tier) == ("prompt", "personal")


def test_layout_has_every_kind() -> None:
    """A kind that is not on the page is one that nobody knows of."""
    assert [row[1] for row in ROWS] == ["soul", "memory", "note", "daily", "thread", "prompt", "daily", "note"]


# --------------------------------------------------------------------------------------- front matter


def head(line: str, parse: Parse, path: str = "notes/plan.md") -> Note:
    return parse(f"---\n{line}\n---\n# Heading #inbody\n\ntext\n", path)


KEYS: dict[str, Callable[[Parse], bool]] = {
    "title": lambda parse: (
        (head("title: A plan", parse).title, head("x: 1", parse).title) == ("A plan", "Heading #inbody")
    ),
    "name": lambda parse: (
        head("name: plan-b", parse).aliases == ("plan-b",) and parse("---\nname: plan-b\n---\nx\n").title == "plan-b"
    ),
    "tier": lambda parse: (
        [head(f"tier: {t}", parse).tier for t in ("personal", "project", "task")] == ["personal", "project", "task"]
    ),
    "tags": lambda parse: all(
        {tag.name for tag in head(line, parse).tags if tag.line == 0} == {"work", "travel"}
        for line in ("tags: [work, travel]", "tags: work, travel")
    ),
    "date": lambda parse: (
        [head(f"{line}date: 2026-11-20", parse).date for line in ("", "created: 2026-11-19\n")]
        == ["2026-11-20", "2026-11-19"]
    ),
    "created": lambda parse: head("created: 2026-11-20", parse).date == "2026-11-20",
    "updated": lambda parse: (
        (
            head("created: 2026-11-20\nupdated: 2026-11-21 10:02", parse).date,
            head("created: 2026-11-20", parse, "daily/2026-11-19.md").date,
            head("x: 1", parse).date,
        )
        == ("2026-11-21T10:02", "2026-11-19", "")
    ),
    "expires": lambda parse: (
        not any(head(f"expires: {v}", parse).warnings for v in ("2026-11-21", "30d"))
        and bool(head("expires: soon", parse).warnings)
    ),
    "importance": lambda parse: (head("importance: 1", parse).importance, head("x: 1", parse).importance) == (1.0, 0.5),
    "pinned": lambda parse: (head("pinned: true", parse).pinned, head("x: 1", parse).pinned) == (True, False),
    "archived": lambda parse: head("archived: true", parse).archived and not head("x: 1", parse).archived,
    "source": lambda parse: head("source: a letter", parse).front_matter["source"] == "a letter",
    "imported": lambda parse: (
        (head("imported: 2026-11-20", parse).front_matter["imported"], head("imported: 2026-11-20", parse).date)
        == ("2026-11-20", "")
    ),
    "aliases": lambda parse: head("aliases: [Plan B, B]", parse).aliases == ("Plan B", "B"),
    "local-only": lambda parse: head("local-only: true", parse).local_only and not head("x: 1", parse).local_only,
}


@pytest.mark.parametrize("key", KEYS)
def test_key_of_the_front_matter_means_what_the_page_says(key: str, parse: Parse) -> None:
    """One case a key."""
    assert KEYS[key](parse)


def test_every_key_on_the_page_has_its_case() -> None:
    """And no other."""
    rows = re.findall(r"^\| (`.*?) \|", section("Front matter"), re.MULTILINE)
    assert {key for row in rows for key in quoted(row)} == set(KEYS)


# ------------------------------------------------------------------------------- tags and attributes


def test_tags_are_as_the_page_says(parse: Parse, memory: Memory, write: Write) -> None:
    """Of an item, a section, a whole note; what is none; a tag is found by those above it."""
    none = [text for text in quoted(section("Tags")) if text in ("C#", "#12", "page#part")]
    assert len(none) == 3
    assert all(parse(f"about {text} here\n").tags == () for text in none)
    found = parse("# Title #ofsection\n\n#whole #note\n\n- item #ofitem\n- other `#incode`\n")
    assert {(tag.name, tag.line) for tag in found.tags} == {("ofsection", 1), ("whole", 0), ("note", 0), ("ofitem", 5)}
    write("a.md", "- zebra #work/travel\n- zebra at home\n")
    assert [hit.text for hit in memory.search("zebra tag:work", mode="keyword").hits]


def test_attributes_of_the_example(memory: Memory, parse: Parse, write: Write) -> None:
    """They are metadata, and no text."""
    write("a.md", f"{ATTRIBUTES}\n- other\n")
    assert memory.search("where:emotion=fear", mode="keyword").hits
    assert memory.search("where:class=pattern where:count=3", mode="keyword").hits
    assert not memory.search('"emotion=fear"', mode="keyword").hits
    (pattern,) = memory.patterns()
    assert (pattern.text, pattern.type, pattern.key, pattern.count) == (
        "Prefers tabs over spaces",
        "style",
        "indent",
        3,
    )
    parsed = parse('## A {cost=0.0031 note="two words" said="a \\"b\\" \\\\ \\n \\(c\\)"}\n').sections[0].attributes
    assert parsed == {"cost": "0.0031", "note": "two words", "said": 'a "b" \\ \n {c}'}
    assert parse("## A {not a block=}\n").sections[0].heading_path == ("A {not a block=}",)


# --------------------------------------------------------------------------------- logs and threads


def test_thread_of_the_example(memory: Memory, write: Write) -> None:
    """Messages, roles, times, tokens, dollars; runs, routes and handoffs are views."""
    write("threads/getting-started.md", THREAD)
    found = memory.thread("getting-started")
    about = found.thread
    assert (about.title, about.session, about.status) == ("Getting started", "session-001", "active")
    assert found.prompt == "Answer briefly."
    said = [(one.role, one.time, one.text) for one in found.messages]
    assert said == [
        ("user", "2026-11-21T10:02", "How do I use the memory system?"),
        ("assistant", "2026-11-21T10:02", "Run `memsync init`."),
        ("agent:researcher", "2026-11-21T10:05", "SQLite is enough for one person."),
        ("router", "2026-11-21T10:05", "Short factual question."),
        ("handoff", "2026-11-21T18:00", "Open: choose the store."),
    ]
    assert memory.costs().total == Usage(2, 9812, 820, 0.0431)
    (run,) = memory.messages("agent").messages
    assert (run.attributes["task"], run.attributes["status"]) == ("compare stores", "completed")
    assert memory.messages("router").messages[0].attributes["workflow"] == "answer"
    assert memory.messages("handoff").messages[0].attributes["to"] == "session-002"


def test_roles_and_times_of_the_page_are_read() -> None:
    """Each of them; anything else is an ordinary section."""
    (listed,) = re.findall(r"^Roles: (.*?)\. The time", PAGE, re.MULTILINE | re.DOTALL)
    assert quoted(listed) == ["user", "assistant", "system", "tool", "agent:NAME", "router", "handoff"]
    for role in quoted(listed):
        assert read_message_heading(f"{role} @ 2026-11-21 10:02") == (role, "2026-11-21T10:02", {})
    assert read_message_heading("message", {"role": "developer"}) == ("developer", "", {})
    assert read_message_heading("message") is read_message_heading("Summary") is None


def test_statuses_of_the_page_are_those_that_can_be_set(memory: Memory) -> None:
    """And no other; `archived` takes the thread out of searches."""
    (listed,) = re.findall(r"`status` \((.*?)\)", section("Threads"), re.DOTALL)
    memory.new_thread("A zebra")
    memory.append_message("a-zebra", "user", "Which zebra?")
    for status in quoted(listed):
        memory.set_thread_status("a-zebra", status)
        assert bool(memory.search("zebra", mode="keyword").hits) == (status != "archived")
    with pytest.raises(UsageError):
        memory.set_thread_status("a-zebra", "done")


# ------------------------------------------------------------------------------------------ the rest


LEFTOVERS = ("*.swp", "*~", "#x#", ".#x", "*.tmp", "*___jb_*")


def test_what_editors_leave_over_is_listed() -> None:
    """The page names each pattern."""
    assert [name for name in LEFTOVERS if f"`{name}`" not in section("Ignored")] == []
