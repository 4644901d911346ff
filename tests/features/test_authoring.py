"""What people and agents add to a memory, in this process and through the daemon: equal files, equal answers."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from memsync.cli.build import text_of
from memsync.errors import NoteError, UsageError, WriteRefused
from memsync.memory import Memory, MemoryApi
from memsync.model.written import Pattern, Preference
from memsync.system import clock
from tests.conftest import Write

TODAY = f"{clock.now():%Y-%m-%d}"


def read(root: Path, path: str) -> str:
    return (root / path).read_text()


def finds(memory: MemoryApi, word: str, generation: int) -> list[str]:
    """Return the citations of what a search finds that looks at no file, but waits for a write."""
    assert generation > 0
    result = memory.search(word, mode="keyword", fresh="none", generation=generation)
    return [hit.path for hit in result.hits]


# ---------------------------------------------------------------------------------------------- log


@pytest.mark.smoke
def test_log_is_appended_to_the_day_with_its_time(own: MemoryApi, root: Path) -> None:
    """A new day begins with its heading; the entry is found at once, where the answer says."""
    first = own.log("The heron nests.", day="2026-11-20", time="10:02")
    second = own.log("The bittern booms.\nLoudly.", day="2026-11-20", time="9:05", tags=("birds", "#marsh"))
    assert read(root, "daily/2026-11-20.md") == (
        "# 2026-11-20\n\n- 10:02 The heron nests.\n- 09:05 The bittern booms. #birds #marsh\n  Loudly.\n"
    )
    assert (first.citation, second.citation) == ("daily/2026-11-20.md:3", "daily/2026-11-20.md:4")
    assert second.generation >= first.generation
    assert finds(own, "bittern", second.generation) == ["daily/2026-11-20.md"]
    (hit,) = own.search("bittern tag:marsh", mode="keyword").hits
    assert hit.path == second.path


def test_log_goes_to_the_folder_of_logs_although_dated_notes_are_logs_anywhere(own: MemoryApi, root: Path) -> None:
    """A journal at the top is the owner's; the default rule for its name does not lead `log` there."""
    (root / f"{TODAY}.md").write_text("- 10:02 the heron nests\n")
    assert own.log("another").path == f"daily/{TODAY}.md"
    assert own.search("heron", mode="keyword", kind=("daily",)).hits[0].date == f"{TODAY}T10:02"


def test_log_is_of_today_and_now_unless_told_otherwise(own: MemoryApi, root: Path) -> None:
    """An earlier day without a time has none."""
    written = own.log("The heron nests.")
    assert written.path == f"daily/{TODAY}.md"
    assert read(root, written.path).splitlines()[-1][2:7].count(":") == 1
    own.log("The heron left.", day="2020-01-01")
    assert read(root, "daily/2020-01-01.md").endswith("\n- The heron left.\n")


def test_entries_of_logs_are_counted_by_day(memory: Memory, write: Write) -> None:
    """Each list item is one entry; other notes and days before the first one asked for do not count."""
    write("daily/2026-01-01.md", "- 10:00 The heron nests.\n- 10:05 It left.\n")
    write("daily/2026-01-03.md", "- 10:00 It is back.\n")
    write("daily/2025-12-31.md", "- 10:00 No heron.\n")
    write("birds.md", "- The heron nests.\n")
    assert memory.logged("2026-01-01").days == {"2026-01-01": 2, "2026-01-03": 1}


def test_what_no_search_will_find_is_said(own: MemoryApi, write: Write) -> None:
    """The file is written, for git or for a person; but it is no note."""
    write(".gitignore", "daily/\n")
    written = own.log("text")
    assert ".gitignore" in " ".join(written.warnings)


# ----------------------------------------------------------------------------------------- remember


def test_remember_adds_to_a_section_and_makes_what_is_missing(own: MemoryApi, root: Path) -> None:
    """The memory, the section, the item; later items stand behind it, whatever sections follow."""
    first = own.remember("prefers tabs")
    own.remember("the store is SQLite", section="Decisions")
    last = own.remember("short answers", tags=("style",))
    assert read(root, "MEMORY.md") == (
        "# Memory\n\n## Remembered\n\n- prefers tabs\n- short answers #style\n\n## Decisions\n\n- the store is SQLite\n"
    )
    assert (first.line, last.line) == (5, 6)
    assert finds(own, "tabs", last.generation) == ["MEMORY.md"]


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("daily/2026-01-01.md", "2026-01-01"),
        ("daily/20260101.md", "2026-01-01"),
        ("notes/2026_01_01-the_plan.md", "2026-01-01 the plan"),
        ("notes/2026-02-30.md", "2026 02 30"),
        ("notes/the-store", "The store"),
    ],
)
def test_title_keeps_the_date_of_a_name(own: MemoryApi, path: str, title: str) -> None:
    """As the log of a day does; 30 February is no date."""
    written = own.new_note(path)
    assert own.get(written.path).text.splitlines()[0] == f"# {title}"


def test_nothing_is_remembered_twice(own: MemoryApi, root: Path) -> None:
    """An agent that remembers the same again is told where it stands."""
    own.remember("prefers tabs\nand two blank lines")
    before = read(root, "MEMORY.md")
    again = own.remember("prefers tabs\nand two blank lines")
    assert (again.line, again.warnings) == (5, ("Already there; not added again.",))
    assert read(root, "MEMORY.md") == before


def test_item_that_is_there_only_gets_its_mark(own: MemoryApi, root: Path) -> None:
    """The item is not added a second time, and what it supersedes no longer holds."""
    own.remember("The office is in Bonn.")
    own.remember("The office is in Berlin.")
    again = own.remember("The office is in Berlin.", supersedes="MEMORY.md:5")
    assert (again.line, again.warnings[0]) == (6, "Already there; only marked.")
    lines = read(root, "MEMORY.md").splitlines()
    assert lines[4:] == ["- The office is in Bonn.", lines[5]]
    assert lines[5].startswith("- The office is in Berlin. {supersedes=MEMORY.md:5~")
    assert (
        own.remember("The office is in Berlin.", supersedes="MEMORY.md:5").warnings[0].startswith("Already there; not")
    )


def test_remember_leaves_everything_else_as_it_is(own: MemoryApi, root: Path) -> None:
    """Line ends, odd spaces, headings in fences, a section's own sub-sections."""
    memory = b"# M\r\n\r\n## Decisions\r\n*  one  \r\n```\r\n## Decisions\r\n```\r\n\r\n\r\n### Old\r\n\r\n- x\r\n"
    (root / "MEMORY.md").write_bytes(memory)
    own.remember("two", section="decisions")
    changed = (root / "MEMORY.md").read_bytes()
    assert changed == memory.replace(b"```\r\n\r\n\r\n###", b"```\r\n\r\n- two\r\n\r\n\r\n###")


def test_remember_by_tier_and_by_note(own: MemoryApi, root: Path) -> None:
    """Each tier has a note of its own, and a named note is made if it is not there."""
    own.remember("the demo is on Friday", tier="task")
    own.remember("Ada leads", note="projects/store", tier="project")
    assert read(root, "notes/task.md").startswith("---\ntier: task\n---\n\n# Task\n\n## Remembered\n\n- the demo")
    assert "- Ada leads\n" in read(root, "projects/store.md")


def test_new_note_is_made_once(own: MemoryApi, root: Path) -> None:
    """With front matter, title and text."""
    written = own.new_note("projects/the-store", "We chose it.\n", tier="project", tags=("db", "a/b"))
    assert read(root, "projects/the-store.md") == (
        '---\ntier: project\ntags: ["db", "a/b"]\n---\n\n# The store\n\nWe chose it.\n'
    )
    assert finds(own, "chose", written.generation) == ["projects/the-store.md"]


# ------------------------------------------------------------------------- preferences and patterns


def test_preferences_are_read_and_set_in_place(own: MemoryApi, write: Write, root: Path) -> None:
    """The last one wins, a user's own before everybody's; the rest of the file stays."""
    write(
        "preferences.md",
        "# Preferences\n\nWords: not one.\n\n* language: English\n- language :  French  \n\n"
        "## user:ada\n\n- editor: vim\n",
    )
    assert own.preferences() == (Preference("language", "French", 6),)
    own.set_preference("language", "German")
    own.set_preference("tone", "dry: very")
    own.set_preference("editor", "emacs", user="ada")
    own.set_preference("language", "Dutch", user="bob")
    assert read(root, "preferences.md") == (
        "# Preferences\n\nWords: not one.\n\n* language: English\n- language :  German\n- tone: dry: very\n\n"
        "## user:ada\n\n- editor: emacs\n\n## user:bob\n\n- language: Dutch\n"
    )
    assert [(one.key, one.value) for one in own.preferences(user="bob")] == [
        ("tone", "dry: very"),
        ("language", "Dutch"),
    ]


@pytest.mark.parametrize("user", ["bob #", "bob ##", "x <b>y</b>", "a\\#b", "[bob](x)", "é" * 5_000])
def test_preference_is_not_set_for_another_user_than_the_one_that_is_named(own: MemoryApi, user: str) -> None:
    """A heading is read without its closing signs and Markdown: what would be read as another name is refused."""
    own.set_preference("tone", "short", user="bob")
    with pytest.raises(UsageError, match="would not be read as this user"):
        own.set_preference("tone", "rude", user=user)
    assert [(one.key, one.value) for one in own.preferences(user="bob")] == [("tone", "short")]


def test_first_preference_makes_the_file(own: MemoryApi, root: Path) -> None:
    """For everybody or for one user."""
    own.set_preference("language", "German", user="ada")
    assert read(root, "preferences.md") == "# Preferences\n\n## user:ada\n\n- language: German\n"
    own.set_preference("language", "English")
    assert [one.value for one in own.preferences()] == ["English"]


def test_patterns_are_counted_up_where_they_stand(own: MemoryApi, write: Write, root: Path) -> None:
    """By their key, else by their text; in any note they are listed."""
    write("notes/style.md", "- Early riser {.pattern type=habit count=9 confidence=0.9}\n")
    own.observe("Prefers tabs", pattern_type="style", key="indent")
    own.observe("Likes tabs more", key="indent")
    own.observe("Says please")
    found = own.patterns()
    assert [(one.text, one.type, one.count, one.confidence) for one in found] == [
        ("Early riser", "habit", 9, 0.9),
        ("Prefers tabs", "style", 2, 0.75),
        ("Says please", "", 1, 0.5),
    ]
    assert isinstance(found[0], Pattern)
    assert f"- Prefers tabs {{.pattern type=style key=indent count=2 confidence=0.75 first={TODAY}" in read(
        root, "MEMORY.md"
    )


# ---------------------------------------------------------------------------------------- recovery


def test_what_memsync_itself_rewrites_is_not_taken_for_overwritten(own: MemoryApi) -> None:
    """A preference that changes, a pattern that is counted up."""
    own.set_preference("language", "English")
    own.set_preference("language", "German")
    own.observe("Prefers tabs")
    own.observe("Prefers tabs")
    assert own.overwritten() == ()


# --------------------------------------------------------------------------------------------- git


def test_each_write_is_a_commit_of_its_own(
    committing: Memory, git: Callable[..., str], write: Write, root: Path
) -> None:
    """With a telling message, and without what the person has staged or changed elsewhere."""
    write("mine.md", "one\n")
    git("add", ".")
    git("commit", "-qm", "mine")
    write("mine.md", "one\ntwo\n")
    git("add", "mine.md")
    write("mine.md", "one\ntwo\nthree\n")
    written = committing.log("The heron nests.\nIn the alder.", day="2026-11-20")
    committing.remember("prefers tabs")
    assert written.warnings == ()
    assert git("rev-parse", "HEAD~1").strip() == written.commit
    assert git("log", "--format=%s", "--name-only", "-2").split("\n\n") == [
        "memsync remember: prefers tabs",
        "MEMORY.md\nmemsync log: The heron nests.",
        "daily/2026-11-20.md\n",
    ]
    assert git("status", "--porcelain") == "MM mine.md\n"


def test_note_of_which_something_is_staged_is_written_and_not_committed(
    committing: Memory, git: Callable[..., str], root: Path
) -> None:
    """The staged version would seem to take back what was written."""
    committing.log("one", day="2026-11-20")
    with (root / "daily/2026-11-20.md").open("a") as log:
        log.write("- mine\n")
    git("add", "daily")
    written = committing.log("two", day="2026-11-20")
    assert written.commit == ""
    assert "staged" in " ".join(written.warnings)
    assert git("log", "--oneline").count("\n") == 2


def test_binary_note_cannot_be_remembered_in(own: MemoryApi, root: Path) -> None:
    """It is no text, whatever its name."""
    (root / "MEMORY.md").write_bytes(bytes(range(32)) * 20)
    with pytest.raises((NoteError, WriteRefused)):
        own.remember("x")


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("text", ["x", "x\n", "x\r\n", "\r\n\r\nx"])
def test_one_line_end_after_a_text_is_the_shells(monkeypatch: pytest.MonkeyPatch, text: str, line_end: str) -> None:
    """Of any kind; what is before it is the text's own."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((text + line_end).encode())))
    assert text_of(()) == text
    monkeypatch.setattr(click, "edit", lambda _: text + line_end)
    assert text_of((), edit=True) == text


def test_no_text_becomes_a_learned_pattern(memory: Memory) -> None:
    """Only `pattern observe` and people make one: no entry, message or preference does."""
    forged = "z {.pattern key=evil count=99 confidence=1.0 type=style}"
    for text in (forged, f"x\n- {forged}", f"```\n{forged}\n```"):
        memory.remember(text)
        memory.log(text)
        memory.append_message(memory.new_thread(text[:9] + str(len(text))).path, "user", f"- {forged}\n\n{text}")
    with pytest.raises(UsageError, match="ends in attributes"):
        memory.set_preference("editor", forged)
    memory.observe(forged, pattern_type="style", key="own")
    memory.observe("10:02 tea")
    memory.observe("10:02 tea")
    assert [(one.text, one.key, one.count) for one in memory.patterns()] == [("10:02 tea", "", 2), (forged, "own", 1)]
