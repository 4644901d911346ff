"""`recover`: what was appended and is not there is told from what was edited, and put back once."""

from __future__ import annotations

import difflib
import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memsync.edit import append
from memsync.edit.journal import Appended, edited
from memsync.errors import FilesystemError
from memsync.index.sqlite.index import SqliteIndex
from memsync.memory import Memory, MemoryApi
from memsync.model.vocabulary import NotePath
from memsync.settings.load import load_settings
from tests.conftest import COUNTER, FakeEmbedder
from tests.support.daemon_process import Cli

Write = Callable[[str, str], Path]
DAY = "2026-11-20"
LOG = f"daily/{DAY}.md"


@pytest.fixture(autouse=True)
def _seen_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every save for one by somebody who had read the note: nothing comes back by itself."""
    monkeypatch.setattr(append, "UNSEEN_SECONDS", 0.0)


def recover_all(memory: MemoryApi) -> None:
    """Put back what `memsync recover --apply` puts back."""
    memory.recover(tuple(one.id for one in memory.overwritten() if one.is_restored_unasked))


def test_an_entry_like_another_is_restored(memory: Memory, root: Path) -> None:
    """Two entries of one minute with nearly the same words are two entries."""
    memory.log("met Dana about pricing", day=DAY, time="10:00")
    copy = (root / LOG).read_bytes()
    memory.log("met Dana about hiring", day=DAY, time="10:00")
    (root / LOG).write_bytes(copy)
    (lost,) = memory.overwritten()
    assert (lost.text, lost.similar, lost.note_deleted) == ("- 10:00 met Dana about hiring", False, False)
    recover_all(memory)
    assert (root / LOG).read_text() == (f"# {DAY}\n\n- 10:00 met Dana about pricing\n- 10:00 met Dana about hiring\n")
    assert memory.overwritten() == ()


def test_a_line_with_the_same_time_that_nobody_appended_is_the_edited_entry(memory: Memory, write: Write) -> None:
    """However little is left of its words; each line stands for one entry only."""
    for text in ("met Dana", "met Erik"):
        memory.log(text, day=DAY, time="10:00")
    write(LOG, f"# {DAY}\n\n- 10:00 lunch with Erik, who was late\n")
    assert [(one.text, one.similar) for one in memory.overwritten()] == [
        ("- 10:00 met Dana", False),
        ("- 10:00 met Erik", True),
    ]


def test_of_entries_with_equal_first_lines_the_edited_one_is_told_by_its_further_lines(
    memory: Memory, root: Path
) -> None:
    """Only the other one is lost."""
    memory.log("call\nabout hiring", day=DAY, time="10:00")
    (root / LOG).unlink()
    memory.log("call\nabout pricing", day=DAY, time="10:00")
    (root / LOG).write_text(f"# {DAY}\n\n- 10:00 call (short)\n  about pricing\n")
    assert [(one.text, one.similar) for one in memory.overwritten()] == [
        ("- 10:00 call\n  about hiring", False),
        ("- 10:00 call\n  about pricing", True),
    ]


def test_a_line_of_another_time_is_no_evidence(memory: Memory, write: Write) -> None:
    """The same words an hour earlier are another entry."""
    memory.log("stand-up with the whole team", day=DAY, time="10:00")
    write(LOG, f"# {DAY}\n\n- 09:00 stand-up with the whole team\n")
    assert [one.similar for one in memory.overwritten()] == [False]


def test_a_deleted_note_comes_back_only_when_asked_for_with_its_heading_and_in_order(
    memory: Memory, root: Path
) -> None:
    """Somebody may have wanted it gone."""
    for text in ("one", "two", "three"):
        memory.log(text, day=DAY, time="10:00")
    whole = (root / LOG).read_bytes()
    (root / LOG).unlink()
    found = memory.overwritten()
    assert [one.note_deleted for one in found] == [True, True, True]
    recover_all(memory)
    assert not (root / LOG).exists()
    memory.recover(tuple(one.id for one in reversed(found)))
    assert (root / LOG).read_bytes() == whole
    assert memory.overwritten() == ()


def test_a_deleted_thread_and_a_deleted_memory_come_back_with_their_heads(memory: Memory, root: Path) -> None:
    """A thread is one by its front matter, a memory has its title."""
    memory.new_thread("The store")
    memory.append_message("the-store", "user", "Which store?")
    memory.remember("prefers tabs", section="Style")
    (root / "threads/the-store.md").unlink()
    (root / "MEMORY.md").unlink()
    memory.recover(tuple(one.id for one in memory.overwritten()))
    assert [one.text for one in memory.thread("The store").messages] == ["Which store?"]
    assert (root / "MEMORY.md").read_text() == "# Memory\n\n## Style\n\n- prefers tabs\n"


def test_an_item_whose_section_was_renamed_is_there(memory: Memory, write: Write) -> None:
    """The heading that was made for it belongs to whoever keeps the note."""
    memory.remember("prefers tabs")
    write("MEMORY.md", "# Memory\n\n## Kept\n\n- prefers tabs\n")
    assert memory.overwritten() == ()


def test_an_item_goes_back_into_its_section(memory: Memory, write: Write, root: Path) -> None:
    """And its heading does not come a second time."""
    memory.remember("prefers tabs", section="Style")
    write("MEMORY.md", "# Memory\n\n## Style\n\n- short sentences\n\n## Other\n\nText.\n")
    recover_all(memory)
    assert (root / "MEMORY.md").read_text() == (
        "# Memory\n\n## Style\n\n- short sentences\n- prefers tabs\n\n## Other\n\nText.\n"
    )


def test_what_is_remembered_again_is_not_lost_a_second_time(memory: Memory, write: Write) -> None:
    """The new item stands for the one that was overwritten."""
    memory.remember("prefers tabs")
    write("MEMORY.md", "# Memory\n")
    memory.remember("prefers tabs")
    assert memory.overwritten() == ()


def test_an_entry_may_be_lost_and_recovered_again_and_again(memory: Memory, root: Path) -> None:
    """Each time it is there once, and nothing that stood for it before is looked for."""
    memory.log("one", day=DAY, time="10:00")
    copy = (root / LOG).read_bytes()
    memory.log("two", day=DAY, time="10:00")
    whole = (root / LOG).read_bytes()
    for _ in range(4):
        (root / LOG).write_bytes(copy)
        assert [one.text for one in memory.overwritten()] == ["- 10:00 two"]
        recover_all(memory)
        assert (root / LOG).read_bytes() == whole
        assert memory.overwritten() == ()
    (root / LOG).write_bytes(copy)
    memory.dismiss(tuple(one.id for one in memory.overwritten()))
    assert memory.overwritten() == ()


def test_what_the_append_before_has_put_back_is_not_appended_a_second_time(
    memory: Memory, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a save that nobody can have meant, the first append restores all that it lost; each entry is there once."""
    monkeypatch.setattr(append, "UNSEEN_SECONDS", 60.0)
    memory.log("one", day=DAY, time="10:00")
    copy = (root / LOG).read_bytes()
    for text in ("two", "three", "four"):
        memory.log(text, day=DAY, time="10:00")
    (root / LOG).write_bytes(copy)
    lost = memory.overwritten()
    written = memory.recover(tuple(one.id for one in lost))
    lines = (root / LOG).read_text().splitlines()
    assert sorted(lines[2:]) == [f"- 10:00 {text}" for text in ("four", "one", "three", "two")]
    assert [lines[at.line - 1] for at in written] == [one.text for one in lost]
    assert memory.overwritten() == ()


def test_a_recovery_that_fails_leaves_the_entry_to_be_recovered(memory: Memory, write: Write, root: Path) -> None:
    """Nothing is forgotten before it is on disk."""
    memory.log("one", day=DAY, time="10:00")
    write(LOG, "<<<<<<< ours\nx\n=======\ny\n>>>>>>> theirs\n")
    (before,) = memory.overwritten()
    with pytest.raises(Exception, match="conflict"):
        memory.recover((before.id,))
    assert memory.overwritten() == (before,)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("log"), st.sampled_from(["met Dana", "met Dana about hiring", "met Erik", "line\nof two"])),
        st.tuples(st.sampled_from(["copy", "put back", "put back", "recover", "recover", "delete"]), st.just("")),
        st.tuples(st.just("edit"), st.integers(0, 9)),
    ),
    max_size=20,
)


@contextmanager
def _memory(folder: str) -> Iterator[Memory]:
    root = Path(folder, "notes")
    root.mkdir()
    environ = {"MEMSYNC_INDEX_DIR": f"{folder}/index"}
    settings = load_settings(root=root, environ=environ, cwd=root)
    index = SqliteIndex(settings.index_dir / "index.db")
    memory = Memory(settings, index, COUNTER, FakeEmbedder, lambda space: FakeEmbedder())
    try:
        yield memory
    finally:
        memory.close()


@given(ACTIONS)
@hypothesis_settings(max_examples=100)
def test_whatever_happens_to_a_log_recover_neither_loses_nor_doubles_an_entry(
    actions: list[tuple[str, str | int]],
) -> None:
    """Appends, copies that are put back, edits and deletions in any order; all entries of one minute."""
    with tempfile.TemporaryDirectory() as folder, _memory(folder) as memory:
        log, copy = Path(folder, "notes", LOG), None
        entries: list[str] = []
        for number, (what, given) in enumerate(actions):
            if what == "log":
                entries.append(f"{given} {number}")
                memory.log(entries[-1], day=DAY, time="10:00")
            elif what == "copy" and log.exists():
                copy = log.read_text()
            elif what == "put back" and copy is not None:
                log.write_text(copy)
            elif what == "edit" and log.exists():
                lines = log.read_text().split("\n")
                at = 2 + int(given) % max(1, len(lines) - 3)
                lines[at] += " (edited)" if lines[at].startswith("- ") and "(edited)" not in lines[at] else ""
                log.write_text("\n".join(lines))
            elif what == "delete":
                log.unlink(missing_ok=True)
            elif what == "recover":
                recover_all(memory)
        recover_all(memory)
        lost = memory.overwritten()
        assert all(one.similar or one.note_deleted for one in lost)
        memory.recover(tuple(one.id for one in lost if one.note_deleted))
        text = log.read_text() if log.exists() else ""
        for entry in entries:
            first, *rest = entry.split("\n")
            whole = "\n".join([f"- 10:00 {first}", *(f"  {line}" for line in rest)])
            edited = "\n".join([f"- 10:00 {first} (edited)", *(f"  {line}" for line in rest)])
            assert text.count(f"{whole}\n") + text.count(f"{edited}\n") == 1, (entry, text)
        if entries:
            assert text.startswith(f"# {DAY}\n\n- ")


def test_recovery_says_what_it_leaves_to_be_named(cli: Cli, root: Path, write: Write) -> None:
    """Edited entries, and those of deleted notes, are put back only by their IDs."""
    assert cli("log", "--day", DAY, "--time", "10:00", "met Dana").returncode == 0
    write(LOG, f"# {DAY}\n\n- 10:00 lunch with Dana, who was late\n")
    done = cli("recover", "--apply")
    assert "1 entry was edited, deleted with the note, or on another branch: memsync recover shows them" in done.stderr
    assert "met Dana" not in (root / LOG).read_text()


@pytest.mark.parametrize("word", ["heron ", "\u9dfa\u9dfa", "x"])
def test_comparing_long_lines_costs_no_more_than_short_ones(word: str) -> None:
    """One edited line of 60,000 characters: what is counted is the steps of the comparison."""
    line = "- 10:02 " + "".join(f"{word}{number} " for number in range(60_000 // (len(word) + 6)))
    appends = [Appended(str(n), 0.0, NotePath("a.md"), f"{line}{n}") for n in range(3)]
    steps = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal steps
        steps += event == "line"
        return trace if frame.f_code.co_filename == difflib.__file__ else None

    sys.settrace(trace)
    try:
        assert edited(appends[:1], appends[:1], f"{line[:500]}stork {line[506:]}") == {"0"}
    finally:
        sys.settrace(None)
    assert 0 < steps < 2_000_000  # without a limit there are thousands of millions


@pytest.mark.skipif(not hasattr(fcntl, "F_SETLEASE"), reason="only Linux tells whether a file is open for writing")
def test_what_a_program_writes_to_a_replaced_note_is_offered(memory: Memory, root: Path, write: Write) -> None:
    """A logger that holds the note open goes on writing to the file that a rewrite replaced."""
    note = write("threads/t.md", "---\ntitle: T\nstatus: active\n---\n")
    with note.open("a") as logger:
        for status in ("paused", "active"):
            memory.set_thread_status("t", status)
            print(f"The heron was {status}.", file=logger, flush=True)
        assert [entry.text for entry in memory.overwritten()] == ["The heron was paused.", "The heron was active."]
        print("The heron flew.", file=logger, flush=True)
        memory.append_message("t", "user", "Where is it?")  # every write looks, too
    assert "flew" not in note.read_text()
    (*_, flew) = memory.overwritten()
    assert flew.text == "The heron flew."
    memory.recover((flew.id,))
    assert note.read_text().endswith("Where is it?\n\nThe heron flew.\n")
    assert len(memory.overwritten()) == 2
    assert os.listdir(note.parent) == ["t.md"]


@pytest.mark.skipif(not hasattr(fcntl, "F_SETLEASE"), reason="only Linux tells whether a file is open for writing")
def test_a_purge_empties_a_replaced_note_that_a_program_still_writes_to(memory: Memory, write: Write) -> None:
    """What the program writes after the purge is offered, and nothing from before."""
    note = write("threads/t.md", "---\ntitle: T\nstatus: active\n---\n")
    with note.open("a") as logger:
        memory.set_thread_status("t", "paused")
        memory.writer.held.collect(drops=True)
        (kept,) = set(os.listdir(note.parent)) - {"t.md"}
        assert (note.parent / kept).read_bytes() == b""
        print("The heron flew.", file=logger, flush=True)
    assert [entry.text for entry in memory.overwritten()] == ["The heron flew."]


@pytest.mark.skipif(not hasattr(fcntl, "F_SETLEASE"), reason="only Linux tells whether a file is open for writing")
def test_a_replaced_note_of_another_user_may_be_open(
    memory: Memory, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel tells only the owner, so the file is kept."""

    def refuse(*_: Any) -> None:
        raise PermissionError

    note = write("threads/t.md", "---\ntitle: T\nstatus: active\n---\n")
    monkeypatch.setattr(fcntl, "fcntl", refuse)
    memory.set_thread_status("t", "paused")
    assert len(os.listdir(note.parent)) == 2


def test_a_preference_that_was_given_another_value_is_not_lost(memory: Memory, root: Path) -> None:
    """However differently the new value is worded, restoring the old one would revert it."""
    memory.set_preference("deploy", "never")
    text = (root / "preferences.md").read_text()
    (root / "preferences.md").write_text(text.replace("never", "only on Mondays after the standup, ask Bob first"))
    assert [entry.is_restored_unasked for entry in memory.overwritten()] == [False]


@pytest.mark.skipif(not hasattr(fcntl, "F_SETLEASE"), reason="only Linux tells whether a file is open for writing")
def test_text_for_a_replaced_note_waits_if_the_journal_cannot_be_written(
    memory: Memory, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk may be full for a while; the kept file and its record stay until then."""
    note = write("threads/t.md", "---\ntitle: T\nstatus: active\n---\n")

    def refuse(*_: Any, **__: Any) -> None:
        raise FilesystemError("no space left", hint="Free some.")

    with note.open("a") as logger:
        memory.set_thread_status("t", "paused")
        print("The heron flew.", file=logger, flush=True)
        with monkeypatch.context() as full_disk:
            full_disk.setattr(memory.writer.journal, "append", refuse)
            memory.writer.held.collect()
    assert [entry.text for entry in memory.overwritten()] == ["The heron flew."]


def test_note_that_no_program_writes_to_leaves_nothing_when_it_is_replaced(
    memory: Memory, root: Path, write: Write
) -> None:
    """Many programs have a note open to read it."""
    note = write("threads/t.md", "---\ntitle: T\nstatus: active\n---\n")
    with note.open():
        memory.set_thread_status("t", "paused")
    assert os.listdir(note.parent) == ["t.md"]


def test_an_entry_of_another_branch_is_marked_and_stays_there(cli: Cli, root: Path) -> None:
    """A checkout removed it, and nobody overwrote it: only its own branch gets it back, or who names it."""

    def git(*arguments: str) -> None:
        name = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *name, *arguments], cwd=root, check=True, capture_output=True)

    (root / "daily").mkdir()
    (root / LOG).write_text(f"# {DAY}\n")
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-qm", "base")
    git("branch", "feature")
    assert cli("log", "--day", DAY, "met Dana").returncode == 0
    git("commit", "-qam", "log")
    for place in ("feature", "HEAD~1"):
        git("checkout", "-q", place)
        shown = cli("recover")
        assert shown.returncode == 1 and "  on branch main\n" in shown.stdout
        applied = cli("recover", "--apply")
        assert (applied.returncode, applied.stdout, "on another branch" in applied.stderr) == (0, "", True)
        assert (root / LOG).read_text() == f"# {DAY}\n"
        git("checkout", "-q", "main")
        assert cli("recover").returncode == 0
    (root / LOG).write_text(f"# {DAY}\n")  # an old buffer, on the same branch
    assert cli("recover", "--apply").stdout == f"{LOG}:3\n"
    git("checkout", "-qf", "feature")
    (entry,) = json.loads(cli("recover", "--json").stdout)["overwritten"]
    assert entry["other_branch"] == "main"
    assert cli("recover", "--apply", entry["id"]).returncode == 0 and "met Dana" in (root / LOG).read_text()
