"""The state of a root and of the user: after a kill or a fault of the disk, a write is there whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memsync.edit.addition import Addition
from memsync.edit.append import VERSION, KnownEnds
from memsync.edit.journal import Journal
from memsync.edit.note_end import read_end
from memsync.edit.note_writer import NoteWriter
from memsync.edit.run_records import RunRecords, Step, Work
from memsync.errors import FilesystemError
from memsync.model.vocabulary import NotePath
from memsync.system.state_file import ROOT, USER, StateFile, Tables, state_of_root
from memsync.system.user_folders import STATE

LOG = NotePath("log.md")

# Appends to a note, and kills its own process before the given one of SQLite's statements.
_SCRIPT = """
import os, signal, sys
from pathlib import Path
import apsw
from memsync.edit.addition import Addition
from memsync.edit.note_writer import NoteWriter
from memsync.system.state_file import state_of_root

left = int(sys.argv[2])

def trace(*_):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    return True

def hook(database):
    database.exec_trace = trace

apsw.connection_hooks.append(hook)
root = Path(sys.argv[1])
NoteWriter(root, state_of_root(root.parent / "keep")).append("log.md", Addition("- two"), replaces=sys.argv[3:])
os._exit(0)
"""


@pytest.mark.slow
def test_append_killed_before_any_statement(root: Path, tmp_path: Path) -> None:
    """Nothing that the journal had is lost, and what was not written to the note can be restored."""
    writer = NoteWriter(root, state_of_root(tmp_path / "keep"))
    ended = -9
    for step in range(100):
        (root / LOG).unlink(missing_ok=True)
        writer.journal.settle([entry.id for entry in writer.journal.since(0)])
        first = writer.journal.append(LOG, "- one")
        command = [sys.executable, "-c", _SCRIPT, str(root), str(step), first.id]
        ended = subprocess.run(command, timeout=120).returncode
        (entry,) = writer.journal.since(0)
        assert entry == first or entry.text == "- two", step
        if (root / LOG).exists():
            assert (entry.text, (root / LOG).read_text()) == ("- two", "- two\n")
        if ended == 0:
            break
    assert (ended, step > 10) == (0, True)


def test_full_disk_leaves_the_state_before(root: Path, tmp_path: Path) -> None:
    """An append goes on without its journal; a run does not begin."""
    writer = NoteWriter(root, state_of_root(tmp_path / "keep"))
    kept = writer.runs
    state = writer.state
    writer.append(LOG, Addition("- one"))
    entries, run = writer.journal.since(0), kept.begin([Step(LOG, LOG, Work.FORGET, "ada", b"one")])
    with state.writing() as database:
        pages = database.pragma("page_count")
        database.pragma("max_page_count", pages)
    long = "x" * 20_000
    with pytest.raises(FilesystemError, match="no space left"):
        kept.begin([Step(LOG, LOG, Work.FORGET, "ada", long.encode())])
    (warning,) = writer.append(LOG, Addition(f"- {long}")).warnings
    assert "no space left" in warning and "memsync recover cannot restore it" in warning
    assert (root / LOG).read_text() == f"- one\n- {long}\n"
    assert (writer.journal.since(0), [step.run for step in kept.steps(Work.FORGET)]) == (entries, [run])
    with state.writing() as database:
        database.pragma("max_page_count", 1_000)
    assert kept.begin([Step(LOG, LOG, Work.FORGET, "ada", long.encode())]) == run + 1


@pytest.mark.parametrize("tables", [ROOT, USER])
@pytest.mark.parametrize("content", [b"no database" * 100, b"SQLite format 3\0" + bytes(4_000)])
def test_damaged_file_is_named(tmp_path: Path, content: bytes, tables: Tables) -> None:
    """Nothing is set aside by itself: the file may have the only copy of a note."""
    StateFile(tmp_path, tables).keep_single("name", "value")
    for path in tmp_path.glob(f"{STATE}*"):
        path.write_bytes(content if path.name == STATE else b"")
    for call in (lambda state: state.single("name"), lambda state: state.keep_single("name", ""), StateFile.wipe):
        with pytest.raises(FilesystemError, match=f"{STATE} is damaged") as caught:
            call(StateFile(tmp_path, tables))
        assert f"{tables.holds}. Move it away" in caught.value.hint
    assert (tmp_path / STATE).read_bytes() == content


def test_file_that_is_not_for_this_process_is_refused(tmp_path: Path) -> None:
    """Of a later version, of which memsync understands nothing; and one that others may have written."""
    state = state_of_root(tmp_path)
    state.keep_single("name", "value")
    state.path.chmod(0o666)
    with pytest.raises(FilesystemError, match="every user can change it"):
        state.single("name")
    state.path.chmod(0o600)
    with state.writing() as database:
        database.pragma("user_version", 99)
    with pytest.raises(FilesystemError, match="later memsync"):
        StateFile(tmp_path, ROOT).single("name")


def test_later_version_adds_to_the_tables(tmp_path: Path) -> None:
    """Each script runs once, whether the file is new or of an earlier version."""
    first = Tables("", ("CREATE TABLE single (name PRIMARY KEY, value)",))
    later = Tables("", (*first.scripts, "ALTER TABLE single ADD COLUMN more DEFAULT 'more'"))
    StateFile(tmp_path, first).keep_single("name", "value")
    for folder in (tmp_path, tmp_path / "new"):
        state = StateFile(folder, later)
        state.write("REPLACE INTO single (name, value) VALUES ('other', 'value')")
        assert state.rows("SELECT more FROM single WHERE name = 'other'") == [("more",)]
    assert StateFile(tmp_path, later).single("name") == "value"


def test_removed_file_is_begun_again(tmp_path: Path) -> None:
    """An open connection would write to a file that has no name any more."""
    state = state_of_root(tmp_path / "keep")
    assert (state.single("name"), (tmp_path / "keep").exists()) == (None, False)  # reading makes nothing
    state.keep_single("name", "first")
    (tmp_path / "keep").rename(tmp_path / "moved")
    assert state.single("name") is None
    state.keep_single("name", "second")
    assert [StateFile(tmp_path / name, ROOT).single("name") for name in ("keep", "moved")] == ["second", "first"]


def test_processes_that_make_the_file_at_once_use_the_same(tmp_path: Path) -> None:
    """None of them meets the tables half made."""
    script = (
        "import sys; from memsync.system.state_file import state_of_root\n"
        "state_of_root(sys.argv[1]).keep_single(sys.argv[2], 1)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "keep")]
    made = [subprocess.Popen([*command, str(number)]) for number in range(8)]
    assert [process.wait(60) for process in made] == [0] * 8
    assert state_of_root(tmp_path / "keep").rows("SELECT count(*) FROM single") == [(8,)]


def test_what_is_deleted_is_wiped(tmp_path: Path) -> None:
    """Neither the database nor its log has the text, and only the user may read them."""
    state, words = state_of_root(tmp_path), b"xylophone"
    journal, runs = Journal(state), RunRecords(state)
    entries = [journal.append(LOG, "- xylophone " * times) for times in (1, 2_000)]
    journal.append(LOG, "- stays, on the page of the first one")
    run = runs.begin([Step(LOG, LOG, Work.FORGET, "ada", words * 10_000)])
    size = state.path.stat().st_size + Path(f"{state.path}-wal").stat().st_size
    journal.settle([entry.id for entry in entries])
    runs.drop(run, [LOG])
    state.wipe()
    files = list(tmp_path.glob(f"{STATE}*"))
    assert not any(words in file.read_bytes() for file in files)
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert sum(file.stat().st_size for file in files) < size


def test_end_of_a_note_that_an_earlier_version_kept_is_not_believed(root: Path, tmp_path: Path) -> None:
    """It may have found another end in the same bytes."""
    (root / LOG).write_text("heron\n")
    state, status, end = state_of_root(tmp_path), os.stat(root / LOG), read_end("a.md", b"heron\n")
    ends = KnownEnds(state)
    ends.put(LOG, status, end)
    assert (ends.get(LOG, status), ends.was_filled(LOG)) == (end, True)
    state.write("UPDATE ending SET ending = json_set(ending, '$.version', ?)", (VERSION - 1,))
    assert ends.get(LOG, status) is None
