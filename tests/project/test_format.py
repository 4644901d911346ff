"""docs/format.md is the contract with people who write notes: every example and every name on that page is so."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from memsync.errors import UsageError
from memsync.memory import Memory
from memsync.model.conversation import Usage
from memsync.model.note import Note
from memsync.notes.message_format import read_message_heading
from tests.conftest import PROJECT, FakeEmbedder, Parse, Write

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


@pytest.mark.parametrize("key", ["anything", "Übermut"])
def test_unknown_keys_are_kept_and_filtered_on(key: str, memory: Memory, write: Write) -> None:
    """As the heading of the table says."""
    write("a.md", f"---\n{key}: of mine\n---\nA zebra.\n")
    assert memory.search("zebra", mode="keyword", where=(f"{key}=of mine",)).hits


@pytest.mark.parametrize(
    "text", ["a: [", "a: *x", "<<: {b: c}", f"a: {'[' * 40}{']' * 40}", f"a: {'x' * 64_000}"],
    ids=["malformed", "alias", "merge", "deep", "oversized"],
)  # fmt: skip
def test_front_matter_that_is_not_understood_costs_no_text(text: str, memory: Memory, write: Write) -> None:
    """The body is found, the note carries a warning."""
    write("a.md", f"---\n{text}\n---\nA zebra.\n")
    assert memory.search("zebra", mode="keyword").hits
    assert [one.path for one in memory.status().warnings] == ["a.md"]


def test_front_matter_is_searched_by_meaning_where_it_holds_prose(
    memory: Memory, write: Write, embedder: FakeEmbedder
) -> None:
    """Any value of four words or more; every other value is found by its words alone."""
    write("a.md", "---\nsummary: the quagga is back again\n---\ntext\n")
    write("b.md", "---\nsummary: the okapi\n---\ntext\n")
    memory.sync()
    assert memory.search("quagga", mode="keyword").hits and memory.search("okapi", mode="keyword").hits
    assert sorted(embedder.seen) == ["---\nsummary: the quagga is back again\n---", "text"]


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


def test_entries_of_a_log_are_dated(parse: Parse) -> None:
    """An item or a section that begins with a time, to the minute; else to the day."""
    log = parse("# 2026-11-21\n\n- 10:02 saw it\n- no time\n\n## 11:00 Title\n\ntext\n", "daily/2026-11-21.md")
    times = [block.time for blocks in log.blocks for block in blocks]
    assert "2026-11-21T10:02" in times
    assert log.sections[-1].time == "2026-11-21T11:00"
    assert log.date == "2026-11-21"


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
        for time, read in (("", ""), (" @ 2026-11-21 10:02", "2026-11-21T10:02"),
                           (" @ 2026-11-21 10:02:03", "2026-11-21T10:02:03"),
                           (" @ 2026-11-21T10:02+01:00", "2026-11-21T10:02+01:00")):  # fmt: skip
            assert read_message_heading(f"{role}{time}") == (role, read, {})
    assert read_message_heading("message", {"role": "developer"}) == ("developer", "", {})
    assert read_message_heading("message") is read_message_heading("Summary") is None
    assert read_message_heading("user @ noon") is None


def test_statuses_of_the_page_are_those_that_can_be_set(memory: Memory) -> None:
    """And no other; `archived` takes the thread out of searches."""
    (listed,) = re.findall(r"`status` \((.*?)\)", section("Threads"))
    memory.new_thread("A zebra")
    memory.append_message("a-zebra", "user", "Which zebra?")
    for status in quoted(listed):
        memory.set_thread_status("a-zebra", status)
        assert bool(memory.search("zebra", mode="keyword").hits) == (status != "archived")
    with pytest.raises(UsageError):
        memory.set_thread_status("a-zebra", "done")


def test_thread_without_a_session_is_one_of_its_own(memory: Memory, write: Write) -> None:
    """Called as its file is."""
    write("threads/talk.md", "## user\n\nHi\n")
    assert [one.session for one in memory.sessions().sessions] == ["talk"]


@pytest.mark.parametrize("text", ["## user\n\nnot a message", "```\n## user\n", "a\n=\n", "<!-- open", "> ## user"])
def test_what_is_appended_says_how_it_was_changed_and_comes_back(text: str, memory: Memory) -> None:
    """`demoted=` and `written=`; a heading in a message does not end it."""
    memory.new_thread("Talk")
    memory.append_message("talk", "user", text)
    memory.append_message("talk", "assistant", "next")
    assert [one.text for one in memory.thread("talk").messages] == [text, "next"]


# ------------------------------------------------------------------------------------------ the rest


def test_preferences_of_a_user_win_and_the_last_one_does(memory: Memory, write: Write) -> None:
    """`- key: value`, under `## user:NAME`."""
    write("preferences.md", "- a: 1\n- a: 2\n- b: 3\n\n## user:ada\n\n- a: 4\n")
    assert {one.key: one.value for one in memory.preferences()} == {"a": "2", "b": "3"}
    assert {one.key: one.value for one in memory.preferences(user="ada")} == {"a": "4", "b": "3"}


def test_prompts_have_a_priority_and_can_be_off(memory: Memory, write: Write) -> None:
    """100 and active unless the head says otherwise; the body is the prompt."""
    write("prompts/a.md", "---\npriority: 101\n---\nLast.\n")
    write("prompts/b.md", "Usual.\n")
    write("prompts/c.md", "---\npriority: 99\n---\nFirst.\n")
    write("prompts/d.md", "---\nactive: false\n---\nNever.\n")
    assert memory.context().text == "# Instructions\n\nFirst.\n\nUsual.\n\nLast.\n"


def test_collection_is_described_by_its_readme(memory: Memory, write: Write) -> None:
    """`title` and `description` of the front matter."""
    write("work/README.md", "---\ntitle: Work\ndescription: What pays.\n---\ntext\n")
    (found,) = memory.collections().collections
    assert (found.folder, found.title, found.description) == ("work/", "Work", "What pays.")


LEFTOVERS = ("*.swp", "*~", "#x#", ".#x", "*.tmp", "*___jb_*")


def test_what_editors_leave_over_is_listed() -> None:
    """The page names each pattern."""
    assert [name for name in LEFTOVERS if f"`{name}`" not in section("Ignored")] == []


@pytest.mark.parametrize("name", [*LEFTOVERS, ".hidden.md", ".folder/a.md", "ignored/a.md", "excluded.md", "a.txt"])
def test_what_is_ignored_is_never_found(name: str, memory: Memory, root: Path, write: Write) -> None:
    """Hidden, ignored, excluded, left over by editors, of another type."""
    write(".gitignore", "ignored/\nexcluded.md\n")
    name = name.replace("jb_*", "jb_tmp___").replace("*", "a.md") if name in LEFTOVERS else name
    write(name, "A zebra.\n")
    write("b.markdown", "Another zebra.\n")
    (root / "link.md").symlink_to(root / "b.markdown")
    assert [hit.path for hit in memory.search("zebra", mode="keyword").hits] == ["b.markdown"]


@pytest.mark.parametrize(
    "content", [b"A zebra \xff here.\n", b"A zebra \0 here.\n", "A zebra here.\n".encode("utf-16")]
)  # fmt: skip
def test_what_is_no_plain_utf8_is_read_with_a_warning(content: bytes, memory: Memory, write: Write) -> None:
    """Nothing of it is lost to a search."""
    write("a.md", content)
    assert memory.search("zebra", mode="keyword").hits
    assert memory.status().warnings


def test_large_note_is_indexed_by_paragraphs(memory: Memory, write: Write) -> None:
    """Over 2 MB its headings are no structure any more, and it says so."""
    write("a.md", "# Zebras\n\n" + "word " * 500_000 + "\n\nA zebra.\n")
    (hit, *_) = memory.search('"A zebra"', mode="keyword").hits
    assert hit.heading_path == ()
    assert "2 MB" in memory.status().warnings[0].reason
