"""`memsync history diff` and `memsync history digest`: what the memory learnt and dropped between two states."""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from memsync.errors import UsageError
from memsync.features.difference import _grouped, _item, _Said
from memsync.memory import Memory
from memsync.model.commits import Diff, Stated
from memsync.model.vocabulary import NotePath
from memsync.system import clock
from tests.conftest import Patch, Write
from tests.support.repository import AUTUMN, SPRING, SUMMER, Repository

HOSTILE = [
    "# not a heading", "- - nested", "> quote", "```", "~~~", "---", "***", "1. one", "2) two", "<script>alert(1)",
    "<!-- comment", "</li></ul><h1>out", "![x](https://evil.example/pixel.png)", "\\![x](https://evil.example/a.png)",
    "\\<img src=x>", "\\\\<img src=x>", "`<b>`", "` <img src=x>", "[x]: https://evil.example", "[a][x] ~~x~~ y~~",
    "<?php", "<![CDATA[", "<https://evil.example>", "&lt;b>", "=====", "+++", "* * *", "| a | b |", "ends with \\",
    "** bold", "_ _ _", "- [ ] task", "[ ] task", "#tag and text", "\x1b[31mred", "a\u202eb", "$x$", "<a\u2028href=x>",
]  # fmt: skip

FIRST = "---\ntags: [x]\n---\n# A\n\nThe heron nests\nin the alder.\n\n## Store\n\n- SQLite\n- one file\n"


def said(diff: Diff) -> list[tuple[str, tuple[str, ...], list[str], list[str]]]:
    return [
        (change.path, change.heading_path, [one.text for one in change.learnt], [one.text for one in change.dropped])
        for change in diff.changes
    ]


@pytest.fixture
def first(repository: Repository, write: Write) -> Repository:
    """Commit a first state."""
    write("a.md", FIRST)
    write("b.md", "# B\n\nThe tern dives.\n")
    repository.commit(SPRING)
    return repository


# --------------------------------------------------------------------------------------------- statements


def test_changes_are_listed_by_note_and_heading(memory: Memory, first: Repository, write: Write) -> None:
    """Each statement with its lines, which `get` gives in that state; equal ones are in no list."""
    write("a.md", FIRST.replace("SQLite", "PostgreSQL"))
    write("c.md", "# C\n\nThe ketch sails.\n")
    first.commit(SUMMER)
    diff = memory.diff("main~1", "main")
    assert said(diff) == [
        ("a.md", ("A", "Store"), ["PostgreSQL"], ["SQLite"]),
        ("c.md", ("C",), ["The ketch sails."], []),
    ]
    (learnt,), (dropped,) = diff.changes[0].learnt, diff.changes[0].dropped
    assert memory.get(f"a.md@{diff.after.name}:{learnt.start_line}").text == "- PostgreSQL"
    assert memory.get(f"a.md@{diff.before.name}:{dropped.start_line}").text == "- SQLite"
    assert said(memory.diff("main", "main~1"))[0] == ("a.md", ("A", "Store"), ["SQLite"], ["PostgreSQL"])


def test_files_as_they_are_now_are_the_default(memory: Memory, first: Repository, write: Write, root: Path) -> None:
    """With uncommitted edits, new notes and deleted ones; what is only in the index of git does not count."""
    assert memory.diff("main").changes == ()
    write("b.md", "# B\n\nThe tern dives deep.\n")
    write("new.md", "The ketch sails.\n")
    (root / "a.md").unlink()
    diff = memory.diff("main")
    assert [change.path for change in diff.changes] == ["a.md", "a.md", "a.md", "b.md", "new.md"]
    assert diff.after.name == ""
    assert [one.text for one in diff.changes[0].dropped][:1] == ["tags: [x]"]


def test_statements_that_moved_are_no_change(memory: Memory, first: Repository, write: Write, root: Path) -> None:
    """To another heading, note or line, in another order; but one that is said once less often is."""
    write("a.md", "---\ntags: [x]\n---\n# A\n\n- one file\n- SQLite\n")
    write("b.md", "# B\n\nThe tern dives.\n\n## More\n\nThe heron nests\nin the alder.\n")
    first.commit(SUMMER)
    (root / "b.md").rename(root / "c.md")
    first.commit(AUTUMN)
    assert memory.diff("main~2", "main").changes == ()
    write("c.md", "# B\n\nThe tern dives.\n\nThe tern dives.\n\nThe heron nests\nin the alder.\n")
    assert said(memory.diff("main")) == [("c.md", ("B",), ["The tern dives."], [])]


def test_other_line_breaks_and_attributes_are_no_change(memory: Memory, first: Repository, write: Write) -> None:
    """A paragraph says the same however it is wrapped, with CRLF, and with marks that are no words."""
    text = FIRST.replace("heron nests\nin", "heron\nnests in").replace("one file", "one file {id=f}")
    write("a.md", text.replace("\n", "\r\n"))
    write("b.md", "# B\n\n\n\nThe   tern dives.")
    assert memory.diff("main").changes == ()


def test_front_matter_is_compared_line_by_line(memory: Memory, first: Repository, write: Write) -> None:
    """Under no heading, also if it begins and ends only then."""
    write("a.md", FIRST.replace("[x]", "[y]\npinned: true"))
    write("b.md", "+++\ntitle = 'B'\n+++\n# B\n\nThe tern dives.\n")
    assert said(memory.diff("main")) == [
        ("a.md", (), ["tags: [y]", "pinned: true"], ["tags: [x]"]),
        ("b.md", (), ["title = 'B'"], []),
    ]


@pytest.mark.parametrize(
    "line", ["[a]: #a", '[b c]: https://example.org "B"', "  [a]: ./b.md 'B'", "[a]: mailto:a@b (A)"]
)
def test_where_links_lead_is_no_statement(memory: Memory, first: Repository, write: Write, line: str) -> None:
    """Lines that define links, alone or in a block."""
    write("b.md", f"# B\n\nThe tern dives.\n\n{line}\n{line}\n\n{line}\n")
    assert memory.diff("main").changes == ()


@pytest.mark.parametrize(
    "line",
    [
        "[a]: two words", "[^1]: Deep.", "[Ada]: yes [Bob]: no", "[ ]: #todo", "[deadline]: 2026-12-01",
        "[12:05]: deployed", "[TODO]: ship", '[status]: done "shipped on Monday"', "[a]: https://example.org or not",
    ],
)  # fmt: skip
def test_what_looks_like_a_link_definition_is_a_statement(
    memory: Memory, first: Repository, write: Write, line: str
) -> None:
    """A person may write so, and only what leads somewhere says nothing itself."""
    write("b.md", f"# B\n\nThe tern dives.\n\n{line}\n")
    assert said(memory.diff("main")) == [("b.md", ("B",), [line], [])]


def test_notes_that_are_no_text_or_too_large_are_named_or_left_out(
    memory: Memory, first: Repository, write: Write, root: Path
) -> None:
    """A picture says nothing; what cannot be read is no change."""
    write("b.md", bytes(range(256)) * 20)
    assert said(memory.diff("main")) == [("b.md", ("B",), [], ["The tern dives."])]
    (root / "b.md").unlink()
    (root / "b.md").write_bytes(b"x\n" * 2_100_000)
    diff = memory.diff("main")
    assert diff.changes == ()
    assert "b.md" in diff.warnings[0]


def test_unreadable_note_is_not_dropped(memory: Memory, first: Repository, write: Write, monkeypatch: Patch) -> None:
    """Nor is one in a folder that cannot be listed."""
    import os

    write("deep/c.md", "The ketch sails.\n")
    first.commit(SUMMER)
    listed = os.scandir

    def scandir(path: str) -> object:
        if str(path).rstrip("/").endswith("deep"):
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr("memsync.notes.files.os.scandir", scandir)
    diff = memory.diff("main")
    assert diff.changes == ()
    assert "deep/" in diff.warnings[0]


def test_many_changes_under_one_heading_take_seconds() -> None:
    """The time grows with their number, not with its square."""
    listed = [_Said(NotePath("a.md"), ("A",), Stated(n, n, str(n)), str(n)) for n in range(100_000)]
    (change,) = _grouped(listed, listed)
    assert (len(change.learnt), len(change.dropped)) == (100_000, 100_000)


def test_note_that_is_ignored_now_was_dropped(memory: Memory, first: Repository, write: Write) -> None:
    """Each state has its own rules; what was ignored in both is in neither list."""
    write(".gitignore", "b.md\n")
    assert said(memory.diff("main")) == [("b.md", ("B",), [], ["The tern dives."])]
    first.commit(SUMMER)
    write("b.md", "Changed.\n")
    assert memory.diff("main").changes == ()
    first.commit(AUTUMN)
    assert memory.diff("main~1", "main").changes == ()


# --------------------------------------------------------------------------------------------- queries


def test_query_leaves_what_a_search_finds_in_one_of_the_states(memory: Memory, first: Repository, write: Write) -> None:
    """Also filters; words of the query may be in only one of them."""
    write("a.md", "# A\n\nThe heron left.\n\n## Store\n\n- PostgreSQL\n- one file\n")
    write("b.md", "# B\n\nThe puffin dives.\n")
    first.commit(SUMMER)
    assert [change.path for change in memory.diff("main~1", "main", "path:b.md").changes] == ["b.md"]
    by_word = memory.diff("main~1", "main", '"PostgreSQL"')
    assert said(by_word) == [("a.md", ("A", "Store"), ["PostgreSQL"], [])]
    assert memory.diff("main~1", "main", '"walrus"').changes == ()
    assert [change.path for change in memory.diff("main~1", query='"puffin"').changes] == ["b.md"]
    with pytest.raises(UsageError):
        memory.diff("main~1", "main", "mood:good")


def test_states_are_named_as_for_a_search(memory: Memory, first: Repository, write: Write) -> None:
    """Dates, tags and commits; what is unknown is named."""
    write("b.md", "# B\n\nThe puffin dives.\n")
    first.commit(SUMMER)
    first.git("tag", "v1", "main~1")
    day = datetime.fromtimestamp(SPRING + 86_400).date().isoformat()
    for before in ("v1", day, "2023", "main~1"):
        assert said(memory.diff(before, "main")) == [("b.md", ("B",), ["The puffin dives."], ["The tern dives."])]
    for states in (("v3",), ("v1", "v3"), ("2020",), ("",)):
        with pytest.raises(UsageError):
            memory.diff(*states)


# --------------------------------------------------------------------------------------------- digests


def test_digest_is_markdown_with_citations(memory: Memory, first: Repository, write: Write) -> None:
    """A heading for each note and each heading, an item for each statement, dropped ones struck through."""
    write("a.md", "---\ntags: [x]\n---\n# A\n\nThe heron nests in the alder.\n\n## Store\n\n- PostgreSQL\n- one file\n")
    write("c.md", "The ketch sails.\n")
    commit = first.git("rev-parse", "--short=12", "main")
    digest = memory.digest(since="main")
    today = clock.today().isoformat()
    assert digest.text == (
        "# What changed since main\n\n2 statements learnt, 1 dropped, in 2 notes.\n"
        f"Compared: the commit {commit} of 2023-11-14 with the notes of {today}.\n\n"
        "## a.md\n\n### A › Store\n\n- PostgreSQL  (a.md:10)\n"
        f"- ~~SQLite~~  (a.md@{commit}:11)\n\n## c.md\n\n- The ketch sails.  (c.md:1)\n"
    )
    assert (digest.learnt, digest.dropped) == (2, 1)
    first.commit(SUMMER)
    until = memory.digest(since="main~1", until="main")
    assert "of 2023-11-14 with the notes of 2024-07-03." in until.text
    assert "(c.md@" in until.text


def test_digest_since_a_day_begins_before_it(memory: Memory, first: Repository, write: Write) -> None:
    """What was committed on that day is in it; `monday` is the last one, today included."""
    today = clock.now()
    monday = today - timedelta(days=today.weekday())
    write("b.md", "# B\n\nThe puffin dives.\n")
    first.commit(int(monday.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()))
    assert memory.digest().learnt == memory.digest(since=monday.date().isoformat()).learnt == 1
    assert memory.digest(since="today" if monday.date() != today.date() else "3 months ago").before.name
    assert memory.diff("monday").changes == ()


def test_nothing_that_a_note_says_breaks_out_of_a_digest(memory: Memory, first: Repository, write: Write) -> None:
    """No HTML, no picture, no block, no definition of a link: one item a statement, one heading a note and section."""
    lines = "".join(f"{text}\n\n" for text in HOSTILE)
    write("evil <b>.md", f"# <img src=x> ![x](https://evil.example/x.png)\n\n{lines}")
    write("b.md", "".join(f"- {text}\n" for text in HOSTILE))
    digest = memory.digest(since="main")
    tokens = MarkdownIt("commonmark", {"html": True}).enable("strikethrough").parse(digest.text)
    inner = [child for token in tokens for child in token.children or ()]
    types = [token.type for token in tokens]
    assert {token.type for token in (*tokens, *inner)} & {
        "html_block", "html_inline", "image", "fence", "code_block", "blockquote_open", "hr", "ordered_list_open",
    } == set()  # fmt: skip
    assert types.count("list_item_open") == digest.learnt + digest.dropped
    assert types.count("heading_open") == 1 + 2 + len(
        {change.heading_path for change in memory.diff("main").changes} - {()}
    )
    assert "\x1b" not in digest.text and "\u202e" not in digest.text
    hrefs = {child.attrs["href"] for child in inner if child.type == "link_open"}
    assert "https://evil.example" not in hrefs


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("**bold** and `code` and [[a link]]", "**bold** and `code` and [[a link]]"),
        ("[ ] a task", "[ ] a task"),
        ("a < b and c <- d", "a < b and c <- d"),
        ("#tag", "#tag"),
        ("-5 degrees", "-5 degrees"),
    ],
)
def test_ordinary_text_stays_as_it_is_in_a_digest(text: str, shown: str) -> None:
    """What begins no block is not escaped."""
    assert _item(text) == shown


def test_digest_of_a_moved_folder_is_empty(memory: Memory, first: Repository, root: Path) -> None:
    """Nothing was learnt."""
    (root / "all").mkdir()
    for name in ("a.md", "b.md"):
        shutil.move(root / name, root / "all" / name)
    digest = memory.digest(since="main")
    assert (digest.learnt, digest.dropped) == (0, 0)
    assert "0 statements learnt, 0 dropped, in 0 notes." in digest.text
