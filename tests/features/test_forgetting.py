"""`memsync forget`: what is a user's, and that it can be put back byte for byte until it is purged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memsync.edit.run_records import RunRecords, Work
from memsync.errors import UsageError, WriteRefused
from memsync.mcp_server.tools import offered
from memsync.memory import Memory
from memsync.model.vocabulary import NotePath
from memsync.ports import for_agent
from memsync.settings.load import Settings, with_changes
from tests.conftest import MakeMemory, Patch, Run, Write
from tests.support.repository import SPRING, Repository
from tests.support.sampling import fewer

SHARED = """---
title: Shared
---

Preamble.

## user @ 2026-11-21 10:02 {user=ada}

Which store?

### Details

- one {user=ada}

## assistant @ 2026-11-21 10:03 {model=sonnet}

SQLite.

## user @ 2026-11-21 10:04 {user="ada b"}

I am another one.

## user:ada @ 2026-11-21 10:05

A section by hand.

## user @ 2026-11-21 10:06 {user=ada}

Thanks.
"""
SHARED_WITHOUT_ADA = """---
title: Shared
---

Preamble.

## assistant @ 2026-11-21 10:03 {model=sonnet}

SQLite.

## user @ 2026-11-21 10:04 {user="ada b"}

I am another one.

"""
PREFERENCES = """# Preferences

- language: English

## user:ada

- language: German

### More

- editor: vi

## user:adam

- language: French
"""


def files_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def kept(memory: Memory) -> list[object]:
    """Return every copy that is kept."""
    files = (memory.settings.keep_dir / "forgotten").rglob("*.md")
    return [*memory.writer.runs.steps(Work.FORGET), *files]


def thread_of(user: str) -> str:
    return f"---\ntitle: T\nuser: {user}\n---\n\n## user @ 2026-11-21 10:02\n\nHello.\n"


@pytest.fixture
def adas(write: Write) -> None:
    """Make a memory in which two users have parts of every kind."""
    write("threads/own.md", thread_of("ada"))
    write("archive/threads/old.md", thread_of('"ada"'))
    write("threads/bobs.md", thread_of("bob"))
    write("threads/shared.md", SHARED)
    write("preferences.md", PREFERENCES)
    write("MEMORY.md", "# Memory\n\n## Patterns\n\n- brief {.pattern user=ada count=2}\n- long {.pattern user=bob}\n")
    write("notes/about.md", "# About ada\n\nuser: ada\n\n- `{user=ada}` in code\n")


# ------------------------------------------------------------------------------------------ what is deleted


@pytest.mark.usefixtures("adas")
def test_showing_lists_every_part_and_changes_nothing(memory: Memory, root: Path) -> None:
    """Threads as a whole, messages, sections, preferences and patterns; only lines with the exact name."""
    before = files_of(root)
    shown = memory.forget(user="ada")
    assert [(part.citation, part.what) for part in shown.parts] == [
        ("MEMORY.md:5", "item"), ("archive/threads/old.md:1-8", "thread"), ("preferences.md:5-12", "preferences"),
        ("threads/own.md:1-8", "thread"), ("threads/shared.md:7-14", "message"), ("threads/shared.md:23-26", "section"),
        ("threads/shared.md:27-29", "message"),
    ]  # fmt: skip
    assert shown.counts == {"item": 1, "message": 2, "preferences": 1, "section": 1, "thread": 2}
    assert (shown.notes, shown.done, shown.failed, shown.warnings) == (5, (), (), ())
    assert files_of(root) == before
    assert not kept(memory)


@pytest.mark.usefixtures("adas")
def test_applying_removes_the_parts_and_nothing_else(memory: Memory, root: Path) -> None:
    """Other users' text stays to the byte, and no search finds the deleted text."""
    memory.sync()
    before = files_of(root)
    assert set(memory.forget(user="ada", apply=True).done) == {
        "MEMORY.md", "archive/threads/old.md", "preferences.md", "threads/own.md", "threads/shared.md",
    }  # fmt: skip
    after = files_of(root)
    assert after == {
        **{path: before[path] for path in ("threads/bobs.md", "notes/about.md")},
        "threads/shared.md": SHARED_WITHOUT_ADA.encode(),
        "preferences.md": PREFERENCES.replace(PREFERENCES[PREFERENCES.index("## user:ada\n") :], "").encode()
        + b"## user:adam\n\n- language: French\n",
        "MEMORY.md": b"# Memory\n\n## Patterns\n\n- long {.pattern user=bob}\n",
    }
    assert not memory.search("Which store?", fresh="none", mode="keyword").hits
    assert [thread.path for thread in memory.threads(user="ada").threads] == []
    assert memory.forget(user="ada").parts == ()
    assert memory.forget(user="ada", apply=True).done == ()


@pytest.mark.usefixtures("adas")
def test_undo_restores_every_byte(memory: Memory, root: Path) -> None:
    """After an undo the notes are as before, are found again, and no copy is left."""
    (root / "threads/own.md").chmod(0o640)
    before = files_of(root)
    memory.forget(user="ada", apply=True)
    restored = memory.undo_forget()
    assert (len(restored.restored), restored.failed) == (5, ())
    assert files_of(root) == before
    assert (root / "threads/own.md").stat().st_mode & 0o777 == 0o640
    assert not kept(memory)
    assert memory.search("Which store?", fresh="strict", mode="keyword").hits
    with pytest.raises(UsageError, match="nothing to undo"):
        memory.undo_forget()


@pytest.mark.usefixtures("adas")
def test_undo_leaves_changed_notes_alone_and_restores_the_rest(memory: Memory, root: Path, write: Write) -> None:
    """A note that somebody has changed, made again or deleted is named, with the place of its copy."""
    before = files_of(root)
    memory.forget(user="ada", apply=True)
    write("threads/own.md", "Something new.\n")
    write("preferences.md", "- tabs: no\n")
    (root / "MEMORY.md").unlink()
    undone = memory.undo_forget()
    assert sorted(failure.path for failure in undone.failed) == ["MEMORY.md", "preferences.md", "threads/own.md"]
    assert sorted(undone.restored) == ["archive/threads/old.md", "threads/shared.md"]
    for failure in undone.failed:
        copy = Path(failure.reason.rpartition(" ")[2])
        assert copy.read_bytes() == before[failure.path]
    assert (root / "threads/own.md").read_text() == "Something new.\n"
    write("threads/shared.md", "edited after the undo\n")  # must not be touched by a second undo
    (root / "threads/own.md").unlink()
    again = memory.undo_forget()
    assert again.restored == ("threads/own.md",)
    assert sorted(failure.path for failure in again.failed) == ["MEMORY.md", "preferences.md"]
    assert (root / "threads/own.md").read_bytes() == before["threads/own.md"]
    assert (root / "threads/shared.md").read_text() == "edited after the undo\n"


def test_undo_keeps_the_copy_of_an_edited_note_that_a_killed_run_had_changed(
    make_memory: MakeMemory, write: Write, monkeypatch: Patch
) -> None:
    """A run was killed after its change, and somebody goes on writing: the copy is the only one, and stays.

    The undo names the note and the place of its copy each time, until somebody purges the run.
    """

    class Killed(BaseException):
        pass

    def kill(kept: RunRecords, run: int, paths: Iterable[NotePath]) -> None:
        raise Killed

    content = "# Log\n\n- tea {user=ada}\n- coffee\n"
    log = write("a.md", content)
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(RunRecords, "drop", kill)
        make_memory().forget(user="ada", apply=True)
    assert "tea" not in log.read_text()
    write("a.md", log.read_text() + "- a new line\n")
    memory = make_memory()
    for _ in range(2):
        (failure,) = memory.undo_forget().failed
        assert failure.path == "a.md"
        assert Path(failure.reason.rpartition(" ")[2]).read_text() == content
    assert "- a new line" in log.read_text()
    memory.purge_forgotten()
    assert not kept(memory)


def test_undo_of_two_runs_goes_backwards(memory: Memory, root: Path, write: Write) -> None:
    """Two users had messages in one thread: both come back, in the right order."""
    content = "## user {user=ada}\n\na\n\n## user {user=bob}\n\nb\n"
    write("threads/t.md", content)
    memory.forget(user="ada", apply=True)
    memory.forget(user="bob", apply=True)
    assert (root / "threads/t.md").read_text() == ""
    failed = memory.undo_forget(user="ada").failed
    assert [failure.path for failure in failed] == ["threads/t.md"]
    assert memory.undo_forget().failed == ()
    assert (root / "threads/t.md").read_text() == content


def test_applying_looks_again_when_no_other_memsync_writes(memory: Memory, write: Write, monkeypatch: Patch) -> None:
    """What another process appends while this one waits for the writers' lock goes, too."""
    write("threads/a.md", thread_of("ada"))
    lock, late = memory.writer.lock, ["threads/late.md"]

    @contextmanager
    def waiting() -> Iterator[None]:
        while late:
            write(late.pop(), thread_of("ada"))
        with lock():
            yield

    monkeypatch.setattr(memory.writer, "lock", waiting)
    assert memory.forget(user="ada", apply=True).done == ("threads/a.md", "threads/late.md")


def test_note_that_changes_at_the_last_moment_is_left_alone(
    memory: Memory, root: Path, write: Write, monkeypatch: Patch
) -> None:
    """An editor saves between the copy and the deletion: its text stays, the note is named, and an undo passes it over.

    No copy of it is kept.
    """
    write("threads/a.md", thread_of("ada"))
    write("threads/b.md", "## user {user=ada}\n\nb\n\n## user\n\nc\n")
    write("threads/c.md", thread_of("ada"))
    begin = memory.writer.runs.begin

    def beginning(*arguments: Any) -> Any:
        run = begin(*arguments)
        write("threads/a.md", "saved just now\n")
        write("threads/b.md", "saved just now, too\n")
        return run

    monkeypatch.setattr(memory.writer.runs, "begin", beginning)
    result = memory.forget(user="ada", apply=True)
    assert sorted(failure.path for failure in result.failed) == ["threads/a.md", "threads/b.md"]
    saved = {"threads/a.md": b"saved just now\n", "threads/b.md": b"saved just now, too\n"}
    assert (result.done, files_of(root)) == (("threads/c.md",), saved)
    undone = memory.undo_forget()
    assert (undone.restored, undone.failed) == (("threads/c.md",), ())
    assert files_of(root) == {**saved, "threads/c.md": thread_of("ada").encode()}
    assert not kept(memory)


def test_forgetting_and_undoing_are_one_commit_each(committing: Memory, git: Callable[..., str], write: Write) -> None:
    """With git.commit; the message does not name the user."""
    write("threads/a.md", thread_of("ada"))
    write("threads/b.md", "## user {user=ada}\n\na\n\n## user\n\nb\n")
    git("add", ".")
    git("commit", "-qm", "notes")
    assert committing.forget(user="ada", apply=True).warnings == ()
    assert committing.undo_forget().warnings == ()
    subjects = ["memsync forget --undo", "memsync forget: 2 notes", "notes", "first"]
    assert git("log", "--format=%s").splitlines() == subjects
    assert git("status", "--porcelain") == ""


# -------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize("name", ["", " ", "\t\n", "\u200b", "\u00a0", "\u2028", "\x00"])
def test_blank_name_is_an_error(memory: Memory, write: Write, root: Path, name: str) -> None:
    """It must never select threads without a user."""
    write("threads/a.md", "---\ntitle: T\n---\n\n## user\n\nHello.\n")
    write("threads/b.md", thread_of('""'))
    before = files_of(root)
    with pytest.raises(UsageError, match="a user needs a name"):
        memory.forget(user=name, apply=True)
    assert files_of(root) == before


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("ada", "Ada"), ("ada", "adam"), ("ada", "ada lovelace"), ("ada lovelace", "ada"), ("null", "null"),
        ("None", "null"), ("[]", "[]"), ("ada", "[ada, bob]"), (".*", "ada"), ("*", "ada"), ("ada}", "ada"),
        ("T", "ada"), ("True", "yes"), ('"ada"', '"ada"'), ("true", "false"),
    ],
)  # fmt: skip
def test_name_selects_no_other_user(memory: Memory, write: Write, root: Path, name: str, written: str) -> None:
    """A name is compared as a whole, with its case, and is no pattern."""
    write("threads/a.md", thread_of(written))
    write(
        "threads/b.md", f'## user {{user="{written}"}}\n\nb\n\n## user:{written}\n\nc\n' if "[" not in written else "x"
    )
    write("preferences.md", f"## user:{written} x\n\n- a: b\n")
    before = files_of(root)
    found = {part.path for part in memory.forget(user=name, apply=True).parts}
    if name != written:
        assert found == set()
        assert files_of(root) == before
    else:
        assert "threads/a.md" not in found  # YAML reads these values as no text at all


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("007", "007"),
        ("yes", "yes"),
        ("1e3", "1e3"),
        ("2026-11-21", "2026-11-21"),
        ("a: b", '"a: b"'),
        ("- x", "'- x'"),
        ("ada\nbob", '"ada\\nbob"'),
        ("'", '"\'"'),
        ("caf\u00e9", "cafe\u0301"),
        ("ada", "  ada  # a comment"),
        ("\u5f20\u4f1f", "\u5f20\u4f1f"),
        ("---", '"---"'),
        ("{user=x}", '"{user=x}"'),
    ],
)
def test_odd_names_are_found_as_they_are_written(
    memory: Memory, write: Write, root: Path, name: str, written: str
) -> None:
    """YAML reads some names as numbers, dates or truth values; the text that was written counts."""
    write("threads/a.md", thread_of(written))
    write("threads/b.md", thread_of("bob"))
    assert memory.forget(user=name, apply=True).done == ("threads/a.md",)
    assert list(files_of(root)) == ["threads/b.md"]
    memory.undo_forget()
    assert memory.forget(user=name).notes == 1


def test_names_that_commands_write_are_found(memory: Memory, root: Path) -> None:
    """Whatever `thread new`, `thread append` and `pref set` write of a user, `forget` finds."""
    for number, name in enumerate(("ada", "a b", 'quo"te', "br{ace}", "line\nend", "back\\slash", "#x", "@y")):
        memory.new_thread(f"T{number}", user=name)
        memory.append_message(f"shared{number}", "user", "Hello.", attributes={"user": name}, begin=True)
        assert {part.what for part in memory.forget(user=name).parts} == {"thread", "message"}, name
    memory.set_preference("language", "German", user="ada")
    memory.set_preference("language", "French", user="ada b")
    assert memory.forget(user="ada", apply=True).counts == {"message": 1, "preferences": 1, "thread": 1}
    assert [pref.value for pref in memory.preferences(user="ada b")] == ["French"]


def test_case_and_shared_threads_give_a_hint(memory: Memory, write: Write) -> None:
    """Nearly equal names, lists of users and heads that cannot be read are left alone, and named."""
    write("threads/a.md", thread_of("Ada"))
    write("threads/b.md", thread_of("[ada, bob]"))
    write("threads/c.md", "---\nuser: ada\ntitle: [\n---\n\n## user\n\nHi.\n")
    write("threads/e.md", "---\nuser: ada\nuser: bob\n---\n\n## user\n\nHi.\n")
    write("notes/d.md", "---\nuser: ada\n---\n\nText.\n")
    found = memory.forget(user="ada")
    assert [warning.partition(":")[0] for warning in found.warnings] == [
        "notes/d.md", "threads/a.md", "threads/b.md", "threads/c.md", "threads/e.md",
    ]  # fmt: skip
    assert not found.parts


# ---------------------------------------------------------------------------------------- the rest of a note


@pytest.mark.parametrize(
    "content",
    [
        "## user {user=ada}\n\n```\nopen\n\n## assistant\n\nhidden in the fence\n",
        "- a {user=ada}\n  - b {user=bob}\n",
        "Not a heading\n- x {user=ada}\n---\n",
        "## A {user=ada}\n\ntext\n\n### B {user=bob}\n\nbob's\n",
        "<<<<<<< ours\n\n- a {user=ada}\n\n>>>>>>> theirs\n",
        "- a {user=ada}\n".encode("utf-16"),
    ],
)
def test_part_is_cut_only_if_the_rest_stays_as_it_is(
    memory: Memory, write: Write, root: Path, content: str | bytes
) -> None:
    """A cut that takes another user's text, or cannot be written, fails with a reason and changes nothing."""
    is_thread = "hidden" in str(content)
    path = "threads/t.md" if is_thread else "notes/n.md"
    place = write(path, content)
    before = place.read_bytes()
    result = memory.forget(user="ada", apply=True)
    if is_thread:  # the whole text belongs to the fence, so to the message
        assert place.read_bytes() == b""
    else:
        assert [failure.path for failure in result.failed] == [path]
        assert place.read_bytes() == before


_USERS = st.sampled_from(["ada", "bob", "ada b", "Ada"])
_TEXTS = st.sampled_from(
    [
        "Hello.",
        "- a\n- b",
        "```\n## user {user=ada}\n```",
        "> quote",
        "### Deep\n\ntext",
        "<div>\n",
        "a\n---",
        "",
        "| x |",
    ]
)
_ENDS = st.sampled_from(["\n", "\r\n"])


@st.composite
def _threads(draw: st.DrawFn) -> bytes:
    """Return a thread with messages of several users."""
    head = draw(st.sampled_from(["", "---\ntitle: T\n---\n\n", "---\nuser: ada\n---\n", "---\nuser: bob\n---\n"]))
    messages = draw(st.lists(st.tuples(_USERS, _TEXTS, st.booleans()), max_size=5))
    body = "".join(
        f"## user{f' {{user={json.dumps(user)}}}' if marked else ''}\n\n{text}\n\n" for user, text, marked in messages
    )
    end = draw(_ENDS)
    return (draw(st.sampled_from(["", "\ufeff"])) + (head + body).replace("\n", end)).encode()[
        : draw(st.none() | st.just(-1))
    ]


@st.composite
def _lists(draw: st.DrawFn) -> bytes:
    """Return a note with sections and list items of several users."""
    lines = draw(
        st.lists(
            st.sampled_from(
                ["- a {user=ada}", "- b {user=bob}", "  - c", "  - d {user=ada}", "", "# H", "## S {user=ada}", "text",
                 "## user:ada", "- key: value", "1. x {.pattern user=ada}"]
            ),
            max_size=12,
        )
    )  # fmt: skip
    return draw(_ENDS).join([*lines, ""]).encode()


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=fewer(60, 10))
@given(contents=st.tuples(_threads(), _threads(), _lists(), _lists()))
def test_apply_and_undo_give_the_same_bytes(contents: tuple[bytes, ...], memory: Memory, root: Path) -> None:
    """Of any notes: after applying, no part of the user is left, and after an undo every byte is back."""
    names = ("threads/a.md", "threads/b.md", "notes/c.md", "preferences.md")
    for name, content in zip(names, contents, strict=True):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(content)
    result = memory.forget(user="ada", apply=True)
    failed = {failure.path for failure in result.failed}
    assert {part.path for part in memory.forget(user="ada").parts} <= failed
    if result.done:
        assert memory.undo_forget().failed == ()
    assert files_of(root) == dict(sorted(zip(names, contents, strict=True)))


# ------------------------------------------------------------------------------------------- purge and traces


def everything_under(folder: Path) -> bytes:
    return b"\0".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_purge_deletes_copies_journal_and_questions(
    make_memory: MakeMemory, settings: Settings, root: Path, write: Write
) -> None:
    """After a purge nothing that memsync keeps next to the index has the text, or a question; other entries stay."""
    memory = make_memory(own_settings=with_changes(settings, {"usage.queries": "true"}, "test"))
    memory.new_thread("Private plans", user="ada")
    memory.append_message("private-plans", "user", "The xylophone lessons begin.")
    memory.append_message("shared", "user", "My zither is broken.", attributes={"user": "ada"}, begin=True)
    memory.append_message("shared", "user", "Bob plays the oboe.", attributes={"user": "bob"})
    memory.set_preference("instrument", "glockenspiel", user="ada")
    memory.search("when do the xylophone lessons begin")
    memory.search("what does bob play")
    memory.usage.flush()
    words = (b"xylophone", b"zither", b"glockenspiel", b"private-plans", b"does bob")
    keep = memory.settings.keep_dir
    memory.forget(user="ada", apply=True)
    assert memory.overwritten() == ()  # nothing brings the text back
    assert all(word in everything_under(keep) for word in words)
    leftover = root / "threads/.memsync-9999999-1.tmp"
    leftover.write_text("The xylophone lessons begin.")
    purge = memory.purge_forgotten()
    assert (purge.notes, purge.queries) == (3, 2)
    assert not leftover.exists()
    rest = everything_under(keep)
    assert b"oboe" in rest
    assert memory.stats().searches == 2
    assert not any(word in rest for word in words)
    with pytest.raises(UsageError, match="nothing to undo"):
        memory.undo_forget()
    assert "zither" not in everything_under(root).decode()


def test_overwritten_entries_of_the_user_are_not_offered_again(memory: Memory, write: Write) -> None:
    """An editor had overwritten a message of the user: `recover` does not bring it back, and a purge deletes it."""
    memory.append_message("t", "user", "Bob's words.", attributes={"user": "bob"}, begin=True)
    memory.append_message("t", "user", "Ada's zither.", attributes={"user": "ada"})
    write("threads/t.md", "An old version.\n")
    write("threads/a.md", thread_of("ada"))
    memory.forget(user="ada", apply=True)
    assert ["Bob" in entry.text for entry in memory.overwritten()] == [True]
    memory.purge_forgotten()
    assert b"zither" not in everything_under(memory.settings.keep_dir)
    assert ["Bob" in entry.text for entry in memory.overwritten()] == [True]


@pytest.mark.parametrize(
    ("appended", "marked"),
    [
        ("Ada's zither is in the attic", "Ada's zither is in the attic {user=ada}"),
        ("Ada's zither is in the attic", "Ada's old zither is in the red attic {user=ada tone=sad}"),
        ("Ada's old zither is in the red attic near the oboe", "zither, in the attic {user=ada}"),
        ("Ada's zither\n\nis in the attic", "zither in the attic {user=ada}"),
    ],
)
def test_text_that_was_marked_or_edited_later_is_forgotten_too(
    memory: Memory, root: Path, appended: str, marked: str
) -> None:
    """The journal has it without the user's name: no `recover` brings it back, and a purge deletes it there."""
    memory.remember("The cello is at school")
    memory.remember("The oboe is broken")
    memory.remember(appended)
    note = root / "MEMORY.md"
    text = note.read_text()
    note.write_text(f"{text[: text.index('- Ada')]}- {marked}\n".replace("- The oboe is broken\n", ""))
    memory.forget(user="ada", apply=True)
    assert ["oboe is" in entry.text for entry in memory.overwritten()] == [True]
    memory.purge_forgotten()
    assert b"zither" not in everything_under(memory.settings.keep_dir)
    assert ["oboe is" in entry.text for entry in memory.overwritten()] == [True]


def test_text_of_a_renamed_note_is_forgotten_too(memory: Memory, root: Path) -> None:
    """The journal has the note's old path, and the text without the name that somebody added."""
    memory.remember("Ada's zither is in the attic", note="old.md")
    (root / "old.md").unlink()
    (root / "new.md").write_text("# New\n\n- Ada's zither is in the attic {user=ada}\n")
    memory.forget(user="ada", apply=True)
    assert memory.overwritten() == ()
    memory.purge_forgotten()
    assert b"zither" not in everything_under(memory.settings.keep_dir)


def test_purge_of_one_user_keeps_what_others_can_undo(memory: Memory, root: Path, write: Write) -> None:
    """`--purge --user` deletes only the copies of that user."""
    write("threads/a.md", thread_of("ada"))
    write("threads/b.md", thread_of("bob"))
    memory.forget(user="ada", apply=True)
    memory.forget(user="bob", apply=True)
    assert memory.purge_forgotten(user="ada").notes == 1
    assert memory.undo_forget().restored == ("threads/b.md",)
    assert memory.purge_forgotten().notes == 0


def test_agents_cannot_forget(memory: Memory, write: Write, root: Path) -> None:
    """No tool offers it, and a request of an agent is refused."""
    write("threads/a.md", thread_of("ada"))
    with for_agent("codex"):
        for call in (lambda: memory.forget(user="ada", apply=True), memory.undo_forget, memory.purge_forgotten):
            with pytest.raises(WriteRefused):
                call()
    assert (root / "threads/a.md").exists()
    assert not [name for name in offered(read_only=False) if "forg" in name]


# ------------------------------------------------------------------------------------------ the command


def test_command_shows_applies_undoes_and_purges(run: Run, write: Write, root: Path) -> None:
    """Stdout has one place a line, stderr says what happened and what to do next."""
    place = write("threads/a.md", thread_of("ada"))
    code, out, err = run("forget", "--user", "ada")
    assert (code, out) == (0, "threads/a.md:1-8  thread\n")
    assert "Nothing was deleted; --apply deletes it" in err
    assert place.exists()
    code, out, err = run("forget", "--user", "ada", "--apply")
    assert (code, out) == (0, "threads/a.md:1-8  thread\n")
    assert "--undo puts them back" in err
    assert not place.exists()
    code, out, err = run("forget", "--undo")
    assert (code, out) == (0, "threads/a.md\n")
    assert place.exists()
    assert json.loads(run("forget", "--user", "ada", "--apply", "--json")[1])["done"] == ["threads/a.md"]
    assert json.loads(run("forget", "--purge", "--json")[1]) == {"notes": 1, "appends": 0, "queries": 0}
    assert run("forget", "--undo")[0] == 2


@pytest.mark.parametrize(
    "arguments", [(), ("--apply",), ("--user", " "), ("--undo", "--user", ""), ("--undo", "--purge"), ("ada",)]
)
def test_wrong_arguments_are_refused(run: Run, write: Write, root: Path, arguments: tuple[str, ...]) -> None:
    """Without a name, with a blank one, or with two things to do, nothing happens."""
    write("threads/a.md", "---\ntitle: x\n---\n\n## user\n\nHello.\n")
    code, out, err = run("forget", *arguments)
    assert (code, out) == (2, "")
    assert err
    assert (root / "threads/a.md").exists()


def test_states_of_the_past_are_deleted_when_a_user_is_forgotten_and_purged(
    memory: Memory, repository: Repository, write: Write
) -> None:
    """They are copies of the notes; git itself still has what its commits say."""
    write("threads/a.md", thread_of("ada"))
    repository.commit(SPRING)
    states = memory.settings.index_dir / "past"
    for forget in (lambda: memory.forget(user="ada", apply=True), memory.purge_forgotten):
        assert [hit.at for hit in memory.search("hello", at="main").hits]
        assert any(path.suffix == ".md" for path in states.rglob("*"))
        forget()
        assert [path.name for path in states.rglob("*")] == ["lock"]
    assert [hit.path for hit in memory.search("hello", at="main").hits] == ["threads/a.md"]
