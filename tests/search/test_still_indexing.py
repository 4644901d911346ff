"""Nothing found while files are not searched yet: not a "no", and what the question is about is indexed first."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest

from memsync.model.status import ChangeType, FileChange
from memsync.model.vocabulary import NotePath, WatcherState
from memsync.notes.files import FileScan, NoteFiles
from memsync.notes.parse import NoteReader
from memsync.settings.load import Settings
from memsync.sync import order as relevance_module
from memsync.sync.order import newest_first, relevance
from memsync.system import clock
from tests.conftest import MakeMemory, Patch, Write
from tests.support.daemon_process import Cli
from tests.support.index_checks import open_database

MANY = 200
NOT_KNOWN_YET = 13


def changes_of(scan: FileScan) -> list[FileChange]:
    return [FileChange(ChangeType.ADDED, path) for path in sorted(scan.files)]


def relevant(root: Path, *words: str) -> dict[str, int]:
    files = NoteFiles(root)
    scan = files.scan()
    return {str(path): count for path, count in relevance(changes_of(scan), scan, words, files, time).items()}


def write_many(write: Write) -> None:
    for number in range(MANY):
        write(f"n{number:03}.md", f"Note {number} about tides.\n")


# ------------------------------------------------------------------------------------------- relevance


def test_relevance_counts_the_words_in_name_and_text(root: Path, write: Write) -> None:
    """The more of the question's words a file holds, the sooner it is indexed; one without any has its turn last."""
    write("heron.md", "It nests.\n")
    write("a.md", "The HERON nests in the alder.\n")
    write("b.md", "The tide.\n")
    assert relevant(root, "heron", "alder") == {"heron.md": 1, "a.md": 2}


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("nesting", "It nested here."),
        ("Überblick", "ein überblick"),
        ("café", "cafe\u0301s of Paris"),
        ("漢字", "用漢字"),
        ("tide", "---\ntags: [tides]\n---\n"),
    ],
)
def test_relevance_knows_other_forms_of_a_word(root: Path, write: Write, word: str, text: str) -> None:
    """Endings, case and the two ways to write an accent make no difference."""
    write("a.md", text)
    assert relevant(root, word) == {"a.md": 1}


def test_relevance_survives_what_cannot_be_read(root: Path, write: Write) -> None:
    """Bytes that are no text, a file that goes, a file that becomes a pipe: the others are told apart all the same."""
    (root / "bytes.md").write_bytes(b"\xff\xfe heron \x00")
    write("gone.md", "heron\n")
    write("pipe.md", "heron\n")
    write("there.md", "heron\n")
    files = NoteFiles(root)
    scan = files.scan()
    (root / "gone.md").unlink()
    (root / "pipe.md").unlink()
    os.mkfifo(root / "pipe.md")
    found = relevance(changes_of(scan), scan, ["heron"], files, time)
    assert found == {"bytes.md": 1, "there.md": 1}


def test_relevance_is_bounded_and_looks_at_the_newest_first(root: Path, write: Write, monkeypatch: Patch) -> None:
    """When its time is over, what changed last was looked at."""
    for name, day in (("old.md", 1), ("new.md", 3), ("middle.md", 2)):
        os.utime(write(name, "heron\n"), (86_400 * day, 86_400 * day))
    scan = NoteFiles(root).scan()
    assert [change.path for change in newest_first(changes_of(scan), scan)] == ["new.md", "middle.md", "old.md"]

    class Ticking:
        """A clock that reads later each time."""

        def __init__(self) -> None:
            self.now = 0.0

        def monotonic(self) -> float:
            self.now += 0.3
            return self.now

        time_ns, sleep = staticmethod(clock.time_ns), staticmethod(time.sleep)

    monkeypatch.setattr(relevance_module, "LOOK_SECONDS", 0.5)
    assert relevance(changes_of(scan), scan, ["heron"], NoteFiles(root), Ticking()) == {"new.md": 1}


# ---------------------------------------------------------------------------------------- one process


def test_search_indexes_first_what_it_asks_for(
    make_memory: MakeMemory, settings: Settings, write: Write, monkeypatch: Patch
) -> None:
    """Of more files than the deadline suffices for, those with the question's words are searched."""
    write_many(write)
    write("zz/heron.md", "The heron nests.\n")
    memory = make_memory()
    read: list[str] = []
    real = NoteReader.read

    def read_five(reader: NoteReader, path: NotePath, content: bytes) -> object:
        read.append(path)
        found = real(reader, path, content)
        if len(read) == 5:
            monkeypatch.setattr("time.monotonic", lambda: 1e9)  # the deadline is over
        return found

    monkeypatch.setattr(NoteReader, "read", read_five)
    result = memory.search("heron nests", mode="keyword")
    assert [hit.path for hit in result.hits] == ["zz/heron.md"]
    assert read[0] == "zz/heron.md"
    assert f"Still indexing: {MANY - 4} of {MANY + 1} files are not searched yet." in result.warnings[0]


# --------------------------------------------------------------------------------------- command line


@pytest.fixture
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands in this process index nothing before they answer."""
    monkeypatch.setattr("memsync.search.fresh_search.DEADLINE_SECONDS", 0.0)


@pytest.mark.usefixtures("no_time")
def test_nothing_found_while_files_are_not_searched_is_no_no(cli: Cli, write: Write) -> None:
    """Exit code 13 and not 1, in words how many of how many, and in JSON the same."""
    write("a.md", "heron\n")
    write("b.md", "tern\n")
    done = cli("search", "heron", "--mode", "keyword")
    assert (done.returncode, done.stdout) == (NOT_KNOWN_YET, "")
    assert "memsync: Still indexing: 2 of 2 files are not searched yet. Run memsync sync.\n" in done.stderr
    assert "memsync: nothing found in the files that were searched\n" in done.stderr
    answer = cli("search", "heron", "--mode", "keyword", "--json")
    document = json.loads(answer.stdout)
    assert (answer.returncode, document["hits"], document["freshness"]["pending_text"]) == (NOT_KNOWN_YET, [], 2)


@pytest.mark.usefixtures("no_time")
def test_hits_found_while_files_are_not_searched_are_an_answer(cli: Cli, write: Write) -> None:
    """Exit code 0, with the same warning."""
    write("a.md", "heron\n")
    assert cli("sync").returncode == 0
    write("b.md", "tern\n")
    done = cli("search", "heron", "--mode", "keyword")
    assert (done.returncode, done.stdout.partition(":")[0]) == (0, "a.md")
    # A file that was saved within the last two seconds is looked at again, too.
    assert re.search(r"Still indexing: (1 of 2 files is|2 of 2 files are) not searched yet\.", done.stderr)


@pytest.mark.parametrize("through_click", [False, True])
def test_served_search_that_finds_nothing_yet_is_no_no(cli: Cli, write: Write, through_click: bool) -> None:
    """The daemon gives the same codes, whether or not click reads the command line."""
    assert json.loads(cli("daemon", "start", "--json").stdout)["started"]
    command = ("search", "heron", "--mode", "keyword", *(("--context", "1") if through_click else ()))
    assert cli(*command).returncode == 1
    connection = open_database(cli.settings.index_dir / "index.db")
    connection.execute("BEGIN IMMEDIATE")  # so that the daemon cannot commit anything
    try:
        write("a.md", "heron\n")
        done = cli(*command)
    finally:
        connection.execute("ROLLBACK")
        connection.close()
    assert done.returncode == NOT_KNOWN_YET
    assert "Still indexing: 1 of 1 file is not searched yet." in done.stderr
    assert cli(*command).returncode == 0


def test_nothing_found_in_all_files_is_a_no(root: Path, write: Write, cli: Cli) -> None:
    """Exit code 1, from this process and from the daemon, through click and without it."""
    write("a.md", "heron\n")
    assert cli("search", "tern", "--mode", "keyword").returncode == 1
    cli.start()
    assert cli("search", "tern", "--mode", "keyword").returncode == 1
    assert cli("search", "tern", "--mode", "keyword", "--context", "1").returncode == 1


@pytest.mark.usefixtures("no_time")
def test_generation_that_is_not_reached_is_no_no(cli: Cli, write: Write) -> None:
    """What came with that state is missing from the answer."""
    write("a.md", "heron\n")
    assert cli("sync").returncode == 0
    late = str(2**62)
    assert cli("search", "tern", "--mode", "keyword", "--generation", late).returncode == NOT_KNOWN_YET


# --------------------------------------------------------------------------------------------- daemon


class Backlog:
    """A live memory whose background has yet to index everything."""

    pending_text = 0

    def watching(self) -> tuple[WatcherState, str]:
        return WatcherState.LIVE, ""

    def catch_up(self, seconds: float) -> bool:
        return False

    def notice(self) -> None:
        """Somebody else's work."""


@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
def test_daemon_that_finds_no_word_in_what_is_indexed_looks_at_the_backlog(
    make_memory: MakeMemory, write: Write, mode: str
) -> None:
    """It leaves many changed files to the background, but for those that the question is about."""
    memory = make_memory()
    write("a.md", "tide\n")
    memory.sync()
    write_many(write)
    write("zz/heron.md", "The heron nests.\n")
    memory.fresh_search.live = Backlog()
    result = memory.search("heron", mode=mode)
    assert "zz/heron.md" in [hit.path for hit in result.hits]
    assert f" of {MANY + 2} files are not searched yet." in " ".join(result.warnings)
    assert memory.search("absent", mode=mode).freshness.pending_text >= MANY
    assert memory.status().notes == 2
