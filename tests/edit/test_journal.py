"""What an editor overwrites without having seen it: put back when it cannot have been meant, else kept and shown."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from memsync.edit import append as append_module
from memsync.edit.addition import Addition
from memsync.edit.journal import Appended, Journal, missing
from memsync.edit.note_writer import NoteWriter
from memsync.model.vocabulary import NotePath
from memsync.system import clock
from memsync.system.state_file import ROOT, StateFile, state_of_root

LOG = NotePath("log.md")


@pytest.fixture
def writer(root: Path, tmp_path: Path) -> NoteWriter:
    return NoteWriter(root, state_of_root(tmp_path / "keep"))


def append(writer: NoteWriter, text: str) -> tuple[str, ...]:
    return writer.append(LOG, Addition(f"- {text}")).warnings


def save(root: Path, text: str) -> None:
    """Save as an editor does that writes a new file and gives it the old one's name."""
    (root / ".save.tmp").write_text(text)
    (root / ".save.tmp").rename(root / LOG)


def test_what_was_overwritten_at_once_is_put_back_by_the_next_append(writer: NoteWriter, root: Path) -> None:
    """The editor had read the file before, and nobody deletes within two seconds what he has not seen."""
    (root / LOG).write_text("- mine\n")
    append(writer, "one")
    append(writer, "two")
    save(root, "- mine, edited\n")
    (warning,) = append(writer, "three")
    assert "2 earlier appends" in warning
    assert (root / LOG).read_text() == "- mine, edited\n- one\n- two\n- three\n"
    assert append(writer, "four") == ()


def test_only_what_is_missing_is_put_back(writer: NoteWriter, root: Path) -> None:
    """The editor's file may well have some of it."""
    for text in ("one", "two", "one"):
        append(writer, text)
    save(root, "- one\n- two\n- mine\n")
    append(writer, "three")
    assert (root / LOG).read_text() == "- one\n- two\n- mine\n- one\n- three\n"


MESSAGE = "## user @ 2026-11-21T10:02:03\n\n"


def test_message_that_is_edited_at_once_is_not_put_back(writer: NoteWriter, root: Path) -> None:
    """Its heading shows that the editor had read it, even if another message of that second was overwritten."""
    for text in ("My boat is in Kiel.", "Noted, Kiel."):
        writer.append(LOG, Addition(MESSAGE + text))
    save(root, (root / LOG).read_text().replace("in Kiel", "in Skagen"))
    assert writer.append(LOG, Addition(MESSAGE + "Where?")).warnings == ()
    texts = [text.strip() for text in (root / LOG).read_text().split(MESSAGE)]
    assert texts == ["", "My boat is in Skagen.", "Noted, Kiel.", "Where?"]
    save(root, (root / LOG).read_text().partition("Noted")[0].removesuffix(MESSAGE))
    (warning,) = writer.append(LOG, Addition(MESSAGE + "When?")).warnings
    assert "2 earlier appends" in warning and "Noted, Kiel." in (root / LOG).read_text()


@pytest.mark.parametrize("before", ["", MESSAGE])
def test_what_was_said_before_does_not_hide_what_was_overwritten(
    writer: NoteWriter, root: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """An older line with an equal text, or an older message with an equal heading."""
    texts = [f"{before}- {text}" for text in ("ping", "deployed", "ping", "next")]
    long_ago = clock.time_ns() - 20 * 10**9
    with monkeypatch.context() as earlier:
        earlier.setattr(clock, "time_ns", lambda: long_ago)
        writer.append(LOG, Addition(texts[0]))
    old = (root / LOG).read_text()
    for text in texts[1:3]:
        writer.append(LOG, Addition(text))
    save(root, old)
    writer.append(LOG, Addition(texts[3]))
    lines = [line for line in (root / LOG).read_text().split("\n") if line.startswith("- ")]
    assert "- deployed" in lines and lines[-1] == "- next"


def test_what_was_deleted_later_is_not_put_back(
    writer: NoteWriter, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person may have meant that."""
    append(writer, "one")
    monkeypatch.setattr(append_module, "UNSEEN_SECONDS", 0.01)
    time.sleep(0.05)
    save(root, "- mine\n")
    assert append(writer, "two") == ()
    assert (root / LOG).read_text() == "- mine\n- two\n"


def test_what_was_there_to_be_read_between_two_times_of_a_file_is_not_put_back(
    writer: NoteWriter, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that keeps its time was written before the append, and put here 15 seconds after it."""
    now = clock.file_seconds()
    with monkeypatch.context() as earlier:
        earlier.setattr(clock, "time_ns", lambda: int((now - 15.0) * 1e9))
        append(writer, "one")
    save(root, "- mine\n")
    os.utime(root / LOG, (now, now - 30.0))
    assert append(writer, "two") == ()
    assert (root / LOG).read_text() == "- mine\n- two\n"


def test_old_version_that_git_puts_back_is_meant(writer: NoteWriter, root: Path) -> None:
    """A checkout or a stash takes lines away on purpose, however soon."""
    git = ["git", "-C", str(root), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    (root / LOG).write_text("- mine\n")
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    append(writer, "one")
    subprocess.run([*git, "stash", "-q"], check=True)
    append(writer, "two")
    assert (root / LOG).read_text() == "- mine\n- two\n"


def test_note_that_is_emptied_to_be_saved_is_waited_for(writer: NoteWriter, root: Path) -> None:
    """An append to the empty file would be written over by the editor's first bytes."""
    append(writer, "one")
    os.truncate(root / LOG, 0)
    filling = subprocess.Popen(["sh", "-c", f"sleep 0.1; printf -- '- one, edited\\n' > '{root / LOG}'"])
    append(writer, "two")
    filling.wait()
    assert (root / LOG).read_text().startswith("- one, edited\n")
    assert (root / LOG).read_text().endswith("- two\n")


# ------------------------------------------------------------------------------------------- journal


def test_journal_gives_back_what_is_not_settled(tmp_path: Path) -> None:
    """In order, from a moment on, and of one note; also in another process, which opens the file anew."""
    kept, other = Journal(state_of_root(tmp_path / "keep")), NotePath('notes/"é.md')
    appended = [kept.append(path, f"- {number} é") for number in range(5) for path in (LOG, other)]
    kept.settle([appended[2].id])
    again = Journal(StateFile(tmp_path / "keep", ROOT))
    for journal in (kept, again):
        assert journal.since(0) == appended[:2] + appended[3:]
        assert journal.since(appended[5].at) == appended[5:]
        assert journal.since(0, other) == appended[1::2]
        assert journal.by_path() == {LOG: [appended[0], *appended[4::2]], other: appended[1::2]}


def test_an_append_that_is_undone_gives_back_what_it_replaced(tmp_path: Path) -> None:
    """And if it is not, the other one is settled for good."""
    kept = Journal(state_of_root(tmp_path / "keep"))
    first = kept.append(LOG, "- one")
    second = kept.append(LOG, "- one", replaces=[first.id])
    assert kept.since(0) == [second]
    kept.undo(second)
    assert kept.since(0) == [first]
    third = kept.append(LOG, "- one", replaces=[first.id])
    kept.settle([third.id])
    assert kept.since(0) == []
    assert int(kept.append(LOG, "- two").id) > int(third.id)  # an id means one entry for good


def test_journal_forgets_after_a_month(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is insurance against old buffers, not a second memory."""
    kept, now = Journal(state_of_root(tmp_path / "keep")), clock.file_seconds()
    for days in (31, 29, 0):
        monkeypatch.setattr(clock, "time_ns", lambda days=days: int((now - days * 86_400) * 1e9))
        kept.append(LOG, f"{days} days old")
    assert [one.text for one in kept.since(0)] == ["29 days old", "0 days old"]


@pytest.mark.parametrize(
    ("content", "lost"),
    [
        ("- a\n- b\n  more\n- a\n", []), ("- a\r\n- b\r\n  more\r\n- a", []), ("- a\n- b\n  more\n", ["4"]),
        ("- a\n- b\n", ["2", "4"]), ("- aa\n- b\n  more, later\n", ["1", "2", "4"]), ("", ["1", "2", "4"]),
    ],
)  # fmt: skip
def test_missing_is_what_does_not_stand_there_as_often_as_it_was_appended(content: str, lost: list[str]) -> None:
    """By whole lines, whatever their ends."""
    appends = [Appended(name, 0.0, LOG, text) for name, text in (("1", "- a"), ("2", "- b\n  more"), ("4", "- a"))]
    assert [one.id for one in missing(appends, content)] == lost
