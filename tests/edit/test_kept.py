"""What outlives an index: whatever happens to its process or its disk, it is as it was before or after."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memsync.edit.addition import Addition
from memsync.edit.append import VERSION, KnownEnds
from memsync.edit.journal import Journal
from memsync.edit.kept import FILE, Kept, Step, Work
from memsync.edit.note_end import read_end
from memsync.edit.note_writer import NoteWriter
from memsync.errors import FilesystemError, MemsyncError
from memsync.model.vocabulary import NotePath

LOG = NotePath("log.md")

# Appends to a note, and kills its own process before the given one of SQLite's statements.
_SCRIPT = """
import os, signal, sys
from pathlib import Path
import apsw
from memsync.edit.addition import Addition
from memsync.edit.note_writer import NoteWriter

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
NoteWriter(root, root.parent / "keep").append("log.md", Addition("- two"), replaces=sys.argv[3:])
os._exit(0)
"""


@pytest.mark.slow
def test_append_killed_before_any_statement(root: Path, tmp_path: Path) -> None:
    """Nothing that the journal had is lost, and what was not written to the note can be restored."""
    writer = NoteWriter(root, tmp_path / "keep")
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
    writer = NoteWriter(root, tmp_path / "keep")
    kept = writer.kept
    writer.append(LOG, Addition("- one"))
    entries, run = writer.journal.since(0), kept.begin([Step(LOG, LOG, Work.FORGET, "ada", b"one")])
    with kept.writing() as database:
        pages = database.pragma("page_count")
        database.pragma("max_page_count", pages)
    long = "x" * 20_000
    with pytest.raises(FilesystemError, match="no space left"):
        kept.begin([Step(LOG, LOG, Work.FORGET, "ada", long.encode())])
    (warning,) = writer.append(LOG, Addition(f"- {long}")).warnings
    assert "no space left" in warning and "memsync recover cannot restore it" in warning
    assert (root / LOG).read_text() == f"- one\n- {long}\n"
    assert (writer.journal.since(0), [step.run for step in kept.steps(Work.FORGET)]) == (entries, [run])
    with kept.writing() as database:
        database.pragma("max_page_count", 1_000)
    assert kept.begin([Step(LOG, LOG, Work.FORGET, "ada", long.encode())]) == run + 1


@pytest.mark.parametrize("content", [b"no database" * 100, b"SQLite format 3\0" + bytes(4_000)])
def test_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    """Nothing is set aside by itself: the file may have the only copy of a note."""
    Kept(tmp_path / "keep").begin([Step(LOG, LOG, Work.PRUNE)])
    for name in os.listdir(tmp_path / "keep"):
        if name.startswith(FILE):
            (tmp_path / "keep" / name).write_bytes(content if name == FILE else b"")
    for call in (lambda kept: kept.steps(Work.PRUNE), lambda kept: kept.begin([]), Kept.wipe):
        with pytest.raises(FilesystemError, match=f"{FILE} is damaged") as caught:
            call(Kept(tmp_path / "keep"))
        assert "Move it away" in caught.value.hint
    assert (tmp_path / "keep" / FILE).read_bytes() == content


def test_file_of_a_later_version_is_refused(tmp_path: Path) -> None:
    """Whatever it has is not understood."""
    kept = Kept(tmp_path / "keep")
    with kept.writing() as database:
        database.pragma("user_version", 3)
    with pytest.raises(MemsyncError, match="later memsync"):
        Kept(tmp_path / "keep").steps(Work.PRUNE)


def test_removed_file_is_begun_again(tmp_path: Path) -> None:
    """An open connection would write to a file that has no name any more."""
    kept = Kept(tmp_path / "keep")
    assert (kept.steps(Work.PRUNE), (tmp_path / "keep").exists()) == ([], False)  # reading makes nothing
    kept.begin([Step(LOG, LOG, Work.PRUNE)])
    (tmp_path / "keep").rename(tmp_path / "moved")
    assert kept.steps(Work.PRUNE) == []
    kept.begin([Step(NotePath("a.md"), LOG, Work.PRUNE)])
    assert [step.path for step in Kept(tmp_path / "keep").steps(Work.PRUNE)] == ["a.md"]
    assert [step.path for step in Kept(tmp_path / "moved").steps(Work.PRUNE)] == [LOG]


def test_what_is_deleted_is_wiped(tmp_path: Path) -> None:
    """Neither the database nor its log has the text, and only the user may read them."""
    kept, path = Kept(tmp_path / "keep"), tmp_path / "keep" / FILE
    journal, words = Journal(kept), b"xylophone"
    entries = [journal.append(LOG, "- xylophone " * times) for times in (1, 2_000)]
    journal.append(LOG, "- stays, on the page of the first one")
    run = kept.begin([Step(LOG, LOG, Work.FORGET, "ada", words * 10_000)])
    size = path.stat().st_size + Path(f"{path}-wal").stat().st_size
    journal.settle([entry.id for entry in entries])
    kept.drop(run, [LOG])
    kept.wipe()
    files = list(path.parent.glob(f"{FILE}*"))
    assert not any(words in file.read_bytes() for file in files)
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert sum(file.stat().st_size for file in files) < size


def test_end_of_a_note_that_an_earlier_version_kept_is_not_believed(root: Path, tmp_path: Path) -> None:
    """It may have found another end in the same bytes."""
    (root / LOG).write_text("heron\n")
    kept, status, end = Kept(tmp_path / "keep"), os.stat(root / LOG), read_end("a.md", b"heron\n")
    ends = KnownEnds(kept)
    ends.put(LOG, status, end)
    assert (ends.get(LOG, status), ends.was_filled(LOG)) == (end, True)
    with kept.writing() as database:
        database.execute("UPDATE ending SET ending = json_set(ending, '$.version', ?)", (VERSION - 1,))
    assert ends.get(LOG, status) is None
