"""What an editor overwrites without having seen it: put back when it cannot have been meant, else kept and shown."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from memsync.edit import append as append_module
from memsync.edit import journal
from memsync.edit.addition import Addition
from memsync.edit.journal import Appended, Journal, missing
from memsync.edit.note_writer import NoteWriter
from memsync.errors import FilesystemError
from memsync.model.vocabulary import NotePath

LOG = NotePath("log.md")


@pytest.fixture
def writer(root: Path, tmp_path: Path) -> NoteWriter:
    return NoteWriter(root, tmp_path / "keep")


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
    now = time.time()
    with monkeypatch.context() as earlier:
        earlier.setattr(time, "time", lambda: now - 15.0)
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


def test_an_append_is_kept_though_the_journal_cannot_be(
    writer: NoteWriter, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full state folder costs the insurance, not the text; that is said."""

    def full(self: Journal, at: float, line: object) -> None:
        raise FilesystemError("no space left")

    monkeypatch.setattr(Journal, "_write", full)
    (warning,) = append(writer, "one")
    assert "memsync recover cannot restore it" in warning
    assert (root / LOG).read_text() == "- one\n"


# ------------------------------------------------------------------------------------------- journal


def test_journal_gives_back_what_is_not_settled(tmp_path: Path) -> None:
    """In order, from a moment on, over blocks and half lines."""
    kept = Journal(tmp_path / "journal")
    appended = [kept.append(LOG, f"- {number} é {'x' * 500}") for number in range(300)]
    (day,) = (tmp_path / "journal").iterdir()
    with day.open("ab") as file:
        file.write(b'{"id": "half')
        file.write(b"\n")
    kept.settle([appended[3].id])
    assert kept.since(0) == appended[:3] + appended[4:]
    assert kept.since(appended[250].at) == appended[250:]


def test_journal_of_one_note_leaves_other_lines_unparsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A month of log entries costs `remember` no more than reading them; what is settled or undone still counts."""
    kept = Journal(tmp_path / "journal")
    other = NotePath('notes/"é.md')
    texts = ["one", f'"path": "{LOG}"', "two", "three", "four"]
    pairs = [(kept.append(LOG, text), kept.append(other, f'{text} "path": "{LOG}"')) for text in texts]
    kept.settle([pairs[0][0].id, pairs[2][1].id])
    kept.undo(pairs[3][0])
    kept.append(other, "five", replaces=[pairs[4][1].id])
    parsed: list[bytes] = []
    loads = json.loads

    def noting(line: bytes) -> object:
        parsed.append(line)
        return loads(line)

    monkeypatch.setattr(json, "loads", noting)
    assert kept.since(0.0, LOG) == [pairs[number][0] for number in (1, 2, 4)]
    assert [line for line in parsed if b"notes/" in line] == []
    assert [one.text for one in kept.since(0.0, other)] == [*(pairs[number][1].text for number in (0, 1, 3)), "five"]
    assert kept.since(pairs[4][0].at, LOG) == [pairs[4][0]]


def test_journal_forgets_after_a_month(tmp_path: Path) -> None:
    """It is insurance against old buffers, not a second memory."""
    folder = tmp_path / "journal"
    folder.mkdir()
    (folder / "2020-01-01.jsonl").write_text('{"id": "1", "at": 1.0, "path": "log.md", "text": "old"}\n')
    kept = Journal(folder)
    assert [one.text for one in kept.since(0)] == ["old"]
    kept.append(LOG, "new")
    assert [one.text for one in kept.since(0)] == ["new"]
    assert journal.KEEP_DAYS >= 30


@pytest.mark.parametrize(
    ("content", "lost"),
    [
        ("- a\n- b\n  more\n- a\n", []),
        ("- a\r\n- b\r\n  more\r\n- a", []),
        ("- a\n- b\n  more\n", ["4"]),
        ("- a\n- b\n", ["2", "4"]),
        ("- aa\n- b\n  more, later\n", ["1", "2", "4"]),
        ("", ["1", "2", "4"]),
    ],
)
def test_missing_is_what_does_not_stand_there_as_often_as_it_was_appended(content: str, lost: list[str]) -> None:
    """By whole lines, whatever their ends."""
    appends = [Appended(name, 0.0, LOG, text) for name, text in (("1", "- a"), ("2", "- b\n  more"), ("4", "- a"))]
    assert [one.id for one in missing(appends, content)] == lost


@pytest.mark.parametrize(
    "torn",
    [
        b'\n{"id": "1", "at": 1.0, "path": "log.md", "te',
        b'\n{"settled": ["',
        b"\n\0\0\0\0\n",
        b"\n\xff\xfe\n",
        b"\n\n\n",
        b'{"id": "1"}{"id": "2"}\n',
    ],
)
def test_torn_journal_lines_hide_none_of_the_others(tmp_path: Path, torn: bytes) -> None:
    """A process that was killed, or a disk that lost power, leaves half a line: before it and after it all is read."""
    kept = Journal(tmp_path / "journal")
    first = kept.append(LOG, "- first")
    (day,) = (tmp_path / "journal").iterdir()
    whole = day.read_bytes()
    day.write_bytes(torn + whole + torn)
    second = kept.append(LOG, "- second")
    assert kept.since(0) == [first, second]
    kept.settle([first.id])
    assert kept.since(0) == [second]
    with day.open("ab") as file:
        file.write(torn)
    assert kept.since(0) == [second]


def test_journal_cut_off_at_any_byte_keeps_what_is_before(tmp_path: Path) -> None:
    """Whatever part of the last line is on disk, the lines before it count and the next one is read."""
    kept = Journal(tmp_path / "journal")
    first = kept.append(LOG, "- first")
    (day,) = (tmp_path / "journal").iterdir()
    before = day.read_bytes()
    second = kept.append(LOG, "- second")
    whole = day.read_bytes()
    for size in range(len(before), len(whole) + 1):
        day.write_bytes(whole[:size])
        own = [first, second] if size >= len(whole) - 1 else [first]
        assert kept.since(0) == own, size
        assert [*kept.since(0), kept.append(LOG, "- third")] == kept.since(0), size
