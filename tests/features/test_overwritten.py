"""`recover`: what was appended and is not there is told from what was edited, and put back once."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memsync.edit import append
from memsync.index.sqlite.index import SqliteIndex
from memsync.memory import Memory, MemoryApi
from memsync.settings.load import load_settings
from tests.conftest import COUNTER, DEADLINE, FakeEmbedder, Write
from tests.support.daemon_process import Cli
from tests.support.sampling import fewer

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


def test_a_line_with_the_same_time_that_nobody_appended_may_be_the_edited_entry(memory: Memory, write: Write) -> None:
    """However little is left of its words. Which of several entries of that minute it was, nobody knows."""
    for text, time in (("met Dana", "10:00"), ("met Erik", "10:00"), ("left", "10:01")):
        memory.log(text, day=DAY, time=time)
    write(LOG, f"# {DAY}\n\n- 10:00 lunch with Erik, who was late\n")
    assert [(one.text, one.similar) for one in memory.overwritten()] == [
        ("- 10:00 met Dana", True),
        ("- 10:00 met Erik", True),
        ("- 10:01 left", False),
    ]


def test_an_item_without_a_time_was_edited_if_a_line_is_like_it(memory: Memory, write: Write) -> None:
    """Only the first characters of long lines are compared."""
    words = " ".join(map(str, range(15_000)))
    for text in ("prefers tabs over spaces", f"prefers {words}", "likes tea"):
        memory.remember(text)
    write("MEMORY.md", f"# Memory\n\n- prefers tabs over 2 spaces\n- prefers some {words}\n- Text.\n")
    assert [one.similar for one in memory.overwritten()] == [True, True, False]


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
    settings = load_settings(root=root, environ={}, cwd=root)
    settings.index_name = f"{folder}/index"
    index = SqliteIndex(settings.index_dir / "index.db")
    memory = Memory(settings, index, COUNTER, FakeEmbedder, lambda space: FakeEmbedder(), deadline=DEADLINE)
    try:
        yield memory
    finally:
        memory.close()


@pytest.mark.slow
@given(ACTIONS)
@hypothesis_settings(max_examples=fewer(100, 15))
def test_whatever_happens_to_a_log_recover_neither_loses_nor_doubles_an_entry(
    actions: list[tuple[str, str | int]],
) -> None:
    """Appends, copies that are put back, edits and deletions in any order; all entries of one minute.

    At the end an entry is in the note once, unless somebody may have edited it: then `overwritten` has it.
    """
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
        marked = {one.text for one in memory.overwritten() if one.similar}
        for entry in entries:
            first, *rest = entry.split("\n")
            whole = "\n".join([f"- 10:00 {first}", *(f"  {line}" for line in rest)])
            edited = "\n".join([f"- 10:00 {first} (edited)", *(f"  {line}" for line in rest)])
            times = text.count(f"{whole}\n") + text.count(f"{edited}\n")
            assert times == 1 or (not times and whole in marked), (entry, text)
        if entries:
            assert text.startswith(f"# {DAY}\n\n- ")


def test_recovery_says_what_it_leaves_to_be_named(cli: Cli, root: Path, write: Write) -> None:
    """Edited entries, and those of deleted notes, are put back only by their IDs."""
    assert cli("log", "--day", DAY, "--time", "10:00", "met Dana").returncode == 0
    write(LOG, f"# {DAY}\n\n- 10:00 lunch with Dana, who was late\n")
    done = cli("recover", "--apply")
    assert "1 entry was edited, deleted with the note, or on another branch: memsync recover shows them" in done.stderr
    assert "met Dana" not in (root / LOG).read_text()


def test_a_preference_that_was_given_another_value_is_not_lost(memory: Memory, root: Path) -> None:
    """However differently the new value is worded, restoring the old one would revert it."""
    memory.set_preference("deploy", "never")
    text = (root / "preferences.md").read_text()
    (root / "preferences.md").write_text(text.replace("never", "only on Mondays after the standup, ask Bob first"))
    assert [entry.is_restored_unasked for entry in memory.overwritten()] == [False]


def test_note_that_no_program_writes_to_leaves_nothing_when_it_is_replaced(
    memory: Memory, root: Path, write: Write
) -> None:
    """Many programs have a note open to read it."""
    note = write("threads/t.md", "---\ntitle: T\nstatus: active\n---\n")
    with note.open():
        memory.set_thread_status("t", "paused")
    assert os.listdir(note.parent) == ["t.md"]


def test_an_entry_of_another_branch_is_marked_and_stays_there(cli: Cli, root: Path, git: Callable[..., str]) -> None:
    """A checkout removed it, and nobody overwrote it: only its own branch gets it back, or who names it."""
    (root / "daily").mkdir()
    (root / LOG).write_text(f"# {DAY}\n")
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
