"""What retires, what repeats itself, what nobody asks for: shown first, moved only when asked, and back again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memsync.cli.render import render
from memsync.edit import note_paths
from memsync.errors import UsageError, WriteRefused
from memsync.features import pruning
from memsync.memory import Memory, MemoryApi
from memsync.model.query import IndexedNote
from memsync.model.upkeep import NoteUse, Pruning, Retirement
from memsync.model.vocabulary import Kind, NotePath, Tier
from memsync.notes.prune_ages import due, unused
from memsync.settings.load import Settings, with_changes
from memsync.system import clock
from memsync.system.renames import rename_new
from tests.conftest import MakeMemory, Parse, Patch, Printed, Write
from tests.support.daemon_process import Cli

TODAY = date(2026, 11, 21)
NOW = datetime(2026, 11, 21, 10, 2).astimezone()


BEGUN = date(2026, 11, 25)


@pytest.fixture(autouse=True)
def _today(set_day: Callable[[str], None]) -> None:
    set_day(str(BEGUN))


def day(ago: int) -> str:
    return (BEGUN - timedelta(days=ago)).isoformat()


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.md")}


NOW_NS = int(NOW.timestamp()) * 10**9
NOON = int(datetime(2025, 6, 15, 12).timestamp()) * 10**9
"""Of 2025-06-15, in nanoseconds."""


def note(path: str = "notes/a.md", tier: Tier = Tier.TASK, **fields: object) -> IndexedNote:
    kind = Kind.DAILY if path.startswith("daily/") else Kind.THREAD if path.startswith("threads/") else Kind.NOTE
    plain = IndexedNote(
        NotePath(path), kind, tier, "", "", "", False, False, {}, NOON, NOON
    )  # fmt: skip
    return plain._replace(**fields)  # type: ignore[arg-type]  # because each test names the fields it is about


# ------------------------------------------------------------------------------------------ what is due


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (note(), "task, 524 days old"),
        (note(tier=Tier.PROJECT), ""),
        (note(tier=Tier.PERSONAL), ""),
        (note(pinned=True), ""),
        (note(archived=True), ""),
        (note(date="2026-11-20", front_matter={"updated": "2026-11-20"}), ""),
        (note(date="2026-10-22", front_matter={"updated": "2026-10-22"}), ""),
        (note(date="2026-10-21", front_matter={"updated": "2026-10-21"}), "task, 31 days old"),
        (note("daily/2026-10-01.md", date="2026-10-01", mtime_ns=NOW_NS), "task, 51 days old"),
        (note("threads/a.md", last_time="2026-11-20T10:00"), ""),
        (note("threads/a.md", last_time="2026-01-20T10:00", mtime_ns=NOW_NS), "task, 305 days old"),
        (note(front_matter={"expires": "2026-11-21"}), "expired 2026-11-21"),
        (note(front_matter={"expires": "2026-11-22"}), ""),
        (note(tier=Tier.PROJECT, front_matter={"expires": "2026-11-21T10:00"}), "expired 2026-11-21"),
        (note(tier=Tier.PROJECT, front_matter={"expires": "2026-11-21T23:59"}), ""),
        (note("daily/README.md"), ""),
        (note("README.md"), "task, 524 days old"),
        (note(date="2020-01-01", front_matter={"created": "2020-01-01", "updated": "lately"}), "task, 524 days old"),
        (note(front_matter={"created": "2026-11-01", "updated": "2026-11-20", "expires": "19d"}), "expired 2026-11-20"),
        (note(tier=Tier.PERSONAL, front_matter={"expires": "2026-11-20"}), ""),
        (note(pinned=True, front_matter={"expires": "2026-11-20"}), ""),
        (note(tier=Tier.PROJECT, front_matter={"expires": "30d"}), "expired 2025-07-15"),
        (note(tier=Tier.PROJECT, date="2026-11-01", front_matter={"expires": "30d", "created": "2026-11-01"}), ""),
        (note(date="2026-11-01", front_matter={"expires": "19d", "created": "2026-11-01"}), "expired 2026-11-20"),
    ],
)
def test_due_is_what_is_old_or_expired(one: IndexedNote, reason: str) -> None:
    """`expires` decides where it stands, else the age of task memory; personal and pinned notes never retire."""
    found, warnings = due([one], NOW, 30)
    assert ([each.reason for each in found], warnings) == ([reason] if reason else [], [])


@pytest.mark.parametrize("value", ["soon", 30, True, "2026-02-30", ["2026-01-01"]])
def test_expiry_that_is_not_understood_keeps_its_note(value: object, parse: Parse) -> None:
    """And says so, in prune and on the note."""
    found, warnings = due([note(front_matter={"expires": value})], NOW, 30)
    assert (found, len(warnings)) == ([], 1)
    (warning,) = parse(f"---\nexpires: {json.dumps(value)}\n---\ntext\n").warnings
    assert "30d" in warning


# ------------------------------------------------------------------------------------------------ prune


@pytest.fixture
def aged(own: MemoryApi, write: Write) -> MemoryApi:
    """Two logs that are due, one expired note, and thirty others."""
    for ago in (100, 40, 3):
        write(f"daily/{day(ago)}.md", f"- 10:02 saw zebra number {ago}\n")
    write("projects/trip.md", f"---\nexpires: {day(1)}\n---\n# Trip\n\nThe zebra trip.\n")
    write("personal.md", f"---\ntier: personal\nexpires: {day(1)}\n---\nzebras for ever\n")
    write("pinned.md", "---\npinned: true\nexpires: 2020-01-01\n---\nzebras for ever\n")
    for number in range(30):
        write(f"notes/{number}.md", f"Antelope {number}.\n")
    return own


DUE = [f"daily/{day(100)}.md", f"daily/{day(40)}.md", "projects/trip.md"]


def test_prune_shows_and_changes_nothing(aged: MemoryApi, root: Path) -> None:
    """Unless it is told to."""
    before = files(root)
    found = aged.prune()
    assert [one.path for one in found.due] == DUE
    assert [one.target for one in found.due] == [f"archive/{path}" for path in DUE]
    assert (found.moved, found.is_refused, files(root)) == ((), False, before)
    assert [one.path for one in aged.prune(days=50).due] == [DUE[0], DUE[2]]


def test_prune_moves_to_the_archive_and_back(aged: MemoryApi, root: Path) -> None:
    """Folders are kept, every byte is, searches pass over it, kind and tier stay."""
    before = files(root)
    assert [one.path for one in aged.prune(apply=True).moved] == DUE
    assert files(root) == {(f"archive/{path}" if path in DUE else path): text for path, text in before.items()}
    assert not {hit.path for hit in aged.search("zebra", mode="keyword").hits} & {*DUE, *(f"archive/{p}" for p in DUE)}
    hits = aged.search("zebra is:archived kind:daily tier:task", mode="keyword").hits
    assert {hit.path for hit in hits} == {f"archive/{path}" for path in DUE[:2]} | {f"daily/{day(3)}.md"}
    assert aged.prune().due == ()
    assert [one.target for one in aged.undo_prune().moved] == DUE
    assert files(root) == before
    assert DUE[2] in {hit.path for hit in aged.search("zebra", mode="keyword").hits}
    with pytest.raises(UsageError, match="nothing to undo"):
        aged.undo_prune()


def test_more_than_a_tenth_is_moved_only_by_force(aged: MemoryApi, root: Path, write: Write) -> None:
    """A clock that is wrong, or a wrong setting, must not empty a memory."""
    for ago in range(200, 205):
        write(f"daily/{day(ago)}.md", "- old\n")
    before = files(root)
    assert aged.prune().is_refused
    with pytest.raises(WriteRefused, match="more than a tenth") as raised:
        aged.prune(apply=True)
    assert "--force" in raised.value.hint
    assert files(root) == before
    assert len(aged.prune(apply=True, force=True).moved) == 8


def test_name_that_is_taken_in_the_archive_is_left_alone(aged: MemoryApi, root: Path, write: Write) -> None:
    """Nothing is overwritten, neither on the way there nor on the way back."""
    write(f"archive/{DUE[2]}", "an older trip\n")
    found = {one.path: one.target for one in aged.prune(apply=True).moved}
    assert found[NotePath(DUE[2])] == "archive/archive/projects/trip.md"
    write(DUE[2], "a new trip\n")
    undone = aged.undo_prune()
    assert [one.path for one in undone.failed] == [DUE[2]]
    assert ((root / DUE[2]).read_text(), (root / f"archive/{DUE[2]}").read_text()) == (
        "a new trip\n",
        "an older trip\n",
    )
    (root / DUE[2]).unlink()
    assert [one.target for one in aged.undo_prune().moved] == [DUE[2]]


@pytest.fixture
def private(make_memory: MakeMemory, settings: Settings) -> Callable[..., Memory]:
    """Open a memory whose local-only notes have these patterns."""

    def make(*patterns: str) -> Memory:
        own = with_changes(settings, {"privacy.local_only": ",".join(patterns)}, "test")
        return make_memory(own_settings=own)

    return make


@pytest.mark.parametrize("pattern", ["*.secret.md", "notes/plan.secret.md", "/notes/plan.se*.md", "plan.secret.md"])
def test_note_whose_name_is_taken_in_the_archive_stays_local_only(
    private: MakeMemory, write: Write, root: Path, pattern: str
) -> None:
    """However often: if no pattern matches the name with a number, another folder takes it."""
    memory = private(pattern)
    for text in ("one", "two", "three"):
        write("notes/plan.secret.md", f"---\nexpires: 2020-01-01\n---\n{text}\n")
        assert memory.prune(apply=True, force=True).failed == ()
    archived = files(root)
    assert len(archived) == 3
    assert all(memory.reader.rules.is_local_only(NotePath(path)) for path in archived)
    (root / "notes").rmdir()
    memory.undo_prune()
    assert (root / "notes/plan.secret.md").read_text().endswith("three\n")


def test_note_that_is_local_only_in_the_archive_is_not_moved_out_of_it(
    private: MakeMemory, write: Write, root: Path
) -> None:
    """Neither an undo nor a message makes a note public."""
    memory = private("archive/")
    write("notes/old.md", "---\nexpires: 2020-01-01\n---\nold\n")
    write("archive/threads/talk.md", "---\ntitle: Talk\n---\n")
    memory.prune(apply=True, force=True)
    before = files(root)
    assert ["would not be" in failure.reason for failure in memory.undo_prune().failed] == [True]
    with pytest.raises(WriteRefused, match="would not be"):
        memory.append_message("talk", "user", "Hello")
    assert files(root) == before


def test_new_thread_is_as_local_only_as_the_one_whose_name_it_would_have(
    private: MakeMemory, write: Write, root: Path
) -> None:
    """A number in its name is no way out of a pattern."""
    memory = private("threads/therapy.md")
    write("threads/therapy.md", "---\ntitle: Older\n---\n")
    before = files(root)
    with pytest.raises(WriteRefused, match=r"threads/therapy-2.md would not be"):
        memory.new_thread("Therapy")
    assert files(root) == before


def test_note_that_changes_meanwhile_stays(memory: Memory, root: Path, write: Write, monkeypatch: Patch) -> None:
    """It was judged by what it said; and a file with a second name is no file of this memory alone."""
    write("notes/a.md", "---\nexpires: 2020-01-01\n---\ntext\n")
    os.link(write("notes/b.md", "---\nexpires: 2020-01-01\n---\nother\n"), root / "other")
    judge = due

    def judged_before_the_edit(*arguments: Any) -> object:
        found = judge(*arguments)
        write("notes/a.md", "---\nupdated: 2026-11-21\n---\nnew text\n")
        return found

    monkeypatch.setattr(pruning, "due", judged_before_the_edit)
    found = memory.prune(apply=True, force=True)
    assert [(one.path, found.moved) for one in found.failed] == [("notes/a.md", ()), ("notes/b.md", ())]
    assert (root / "notes/a.md").read_text().endswith("new text\n")


def test_two_prunes_at_once_move_everything_once(
    memory: Memory, make_memory: MakeMemory, root: Path, write: Write
) -> None:
    """The one that waited finds nothing left to do, and is no run to be undone."""
    for number in range(30):
        write(f"old/{number}.md", "---\nexpires: 2020-01-01\n---\nzebra\n")
    before = files(root)
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(one.prune, apply=True, force=True) for one in (memory, make_memory())]
        moved = [one.result() for one in both]
    assert [one.failed for one in moved] == [(), ()]
    assert sum(len(one.moved) for one in moved) == 30
    assert len(memory.undo_prune().moved) == 30
    assert files(root) == before


def test_note_that_is_worked_on_is_not_old(own: MemoryApi, write: Write) -> None:
    """Whatever its head says of when it was updated."""
    age(write("old.md", "---\ntier: task\nupdated: 2020-01-01\n---\nx\n"), "2020-01-01")
    write("new.md", "---\ntier: task\nupdated: 2020-01-01\n---\nx\n")
    assert [one.path for one in own.prune().due] == ["old.md"]


def test_undo_knows_what_a_run_really_moved(aged: MemoryApi, root: Path, write: Write) -> None:
    """Runs that moved nothing are none; what failed and was moved by hand stays where the person put it."""
    os.link(write("old/linked.md", "---\nexpires: 2020-01-01\n---\nzebra\n"), root / "other")
    assert [one.path for one in aged.prune(apply=True, force=True).failed] == ["old/linked.md"]
    for _ in range(3):
        assert aged.prune(apply=True, force=True).moved == ()
    (root / "other").unlink()
    (root / "archive/old").mkdir()
    (root / "old/linked.md").rename(root / "archive/old/linked.md")
    assert [one.target for one in aged.undo_prune().moved] == DUE
    assert (root / "archive/old/linked.md").exists()
    with pytest.raises(UsageError, match="nothing to undo"):
        aged.undo_prune()


def test_run_that_was_killed_can_be_undone(memory: Memory, root: Path, write: Write, monkeypatch: Patch) -> None:
    """What has moved comes back; where a move is two steps, one that was left half done is finished."""
    for number in range(3):
        write(f"old/{number}.md", "---\nexpires: 2020-01-01\n---\nzebra\n")
    before = files(root)
    moves: list[str] = []

    def killed(folder: int, source: str, target: str, there: int) -> None:
        if len(moves) == 1:
            os.link(source, target, src_dir_fd=folder, dst_dir_fd=there)
            raise KeyboardInterrupt
        moves.append(source)
        rename_new(folder, source, target, there)

    with monkeypatch.context() as killing:
        killing.setattr(note_paths, "rename_new", killed)
        with pytest.raises(KeyboardInterrupt):
            memory.prune(apply=True, force=True)
    assert len(files(root)) == 4
    assert len(memory.undo_prune().moved) == 2
    assert files(root) == before


def test_half_a_move_is_finished_by_the_next_prune(memory: Memory, root: Path, write: Write) -> None:
    """Two names of one file are no hard link to somewhere else."""
    path = write("old/a.md", "---\nexpires: 2020-01-01\n---\nzebra\n")
    (root / "archive/old").mkdir(parents=True)
    os.link(path, root / "archive/old/a.md")
    assert [one.target for one in memory.prune(apply=True, force=True).moved] == ["archive/old/a.md"]
    assert list(files(root)) == ["archive/old/a.md"]


def test_retired_thread_is_the_one_that_is_meant(own: MemoryApi, root: Path, write: Write) -> None:
    """Though archive/ had another of that name; its sums go on counting, and writing to it brings it back."""
    write("archive/threads/talk.md", "## user\n\nAnother talk.\n")
    write("threads/talk.md", "## user @ 2020-01-01 10:00 {cost=0.5}\n\nThis talk.\n")
    own.prune(apply=True, force=True)
    assert not (root / "threads/talk.md").exists()
    assert own.costs().total.cost == 0.5
    assert own.thread("talk").messages[0].text == "This talk."
    assert own.append_message("talk", "user", "A quagga.").path == "threads/talk.md"
    assert [one.text for one in own.thread("talk").messages] == ["This talk.", "A quagga."]
    assert [hit.path for hit in own.search("quagga", mode="keyword").hits] == ["threads/talk.md"]
    assert "Another" in (root / "archive/threads/talk.md").read_text()


def test_retired_thread_that_cannot_be_written_stays_retired(own: MemoryApi, root: Path, write: Write) -> None:
    """Nothing is half done."""
    text = "## user @ 2020-01-01 10:00\n\n<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n"
    write("threads/talk.md", text)
    own.prune(apply=True, force=True)
    for writes in (True, False):
        with pytest.raises(WriteRefused, match="conflict"):
            own.append_message("talk", "user", "x") if writes else own.set_thread_status("talk", "active")
        assert (root / "archive/threads/talk.md").read_text() == text
        assert not (root / "threads/talk.md").exists()


def test_archive_that_no_search_reads_is_told(own: MemoryApi, write: Write) -> None:
    """Else what retires would seem to be gone."""
    write(".gitignore", "archive/\n")
    write("daily/2020-01-01.md", "- old\n")
    (warning,) = own.prune(apply=True, force=True).warnings
    assert ".gitignore" in warning


def test_what_was_appended_and_retired_is_not_missed(own: MemoryApi) -> None:
    """`recover` looks for it in the archive."""
    for word in ("a zebra", "another"):
        own.log(f"saw {word}", day="2020-01-01")
        own.prune(apply=True, force=True)
    own.log("saw a third", day="2020-01-01")
    assert own.overwritten() == ()


def test_thread_that_comes_back_is_one_commit(committing: Memory, git: Callable[..., str], write: Write) -> None:
    """Neither half of the move is left over."""
    write("threads/old.md", "## user @ 2020-01-01 10:00\n\nHi\n")
    git("add", ".")
    git("commit", "-qm", "old")
    committing.prune(apply=True, force=True)
    back = committing.set_thread_status("old", "active")
    assert back.commit and back.path == "threads/old.md"
    assert git("status", "--porcelain") == ""


def test_prune_is_one_commit_where_git_commits(committing: Memory, git: Callable[..., str], write: Write) -> None:
    """And what the person has staged stays staged."""
    write("daily/2020-01-01.md", "- old\n")
    write("daily/2020-01-02.md", "- never tracked\n")
    git("add", "daily/2020-01-01.md")
    git("commit", "-qm", "old")
    write("staged.md", "mine\n")
    git("add", "staged.md")
    assert committing.prune(apply=True, force=True).warnings == ()
    assert git("show", "--stat", "--format=%s", "-M").startswith("memsync prune: 2 notes")
    assert git("status", "--porcelain").split() == ["A", "staged.md"]


def test_prune_on_the_command_line(cli: Cli, write: Write, root: Path) -> None:
    """Shown with its reasons, refused, forced, undone."""
    write("daily/2020-01-01.md", "- old\n")
    shown = cli("prune")
    assert "daily/2020-01-01.md -> archive/daily/2020-01-01.md  task, " in shown.stdout
    assert "--force" in shown.stderr
    assert cli("prune", "--apply").returncode == 12
    assert cli("prune", "--apply", "--force").returncode == 0
    assert (root / "archive/daily/2020-01-01.md").exists()
    undone = json.loads(cli("prune", "--undo", "--json").stdout)
    assert [one["target"] for one in undone["moved"]] == ["daily/2020-01-01.md"]
    assert cli("prune", "--undo").returncode == 2
    assert cli("prune", "--undo", "--apply").returncode == 2


def test_what_could_not_be_moved_is_not_printed_as_moved(capsys: Printed) -> None:
    """With --apply the lines are what was moved, not what was due."""
    moves = [Retirement(NotePath(f"{name}.md"), NotePath(f"archive/{name}.md"), "", "old") for name in "ab"]
    pruned = Pruning((*moves,), (moves[0],), 9, applied=True)
    render(pruned, pruning.prune, pruning.prune.commands[0])
    assert capsys.readouterr() == ("a.md -> archive/a.md  old\n", "memsync: notes moved: 1\n")


# ------------------------------------------------------------------------------------- the other views

LONG = "The heron nests in the tall alder by the old harbour wall every spring."


def test_duplicates_are_equal_and_near_passages_of_several_notes(own: MemoryApi, write: Write) -> None:
    """The equal first; what one note says twice, what is short, and what is archived are left out."""
    own.sync()
    write("a.md", f"{LONG}\n\n# Heron\n\n{LONG}\n\n# Heron\n\n{LONG}\n")
    write("b.md", f"Birds.\n\n# Heron\n\n{LONG}\n")
    write("c.md", f"Birds.\n\n# Heron\n\n{LONG.replace('spring', 'summer')}\n")
    write("archive/f.md", f"# Heron\n\n{LONG}\n")
    own.sync()
    (equal,) = own.duplicates(similarity=1).repetitions
    assert ([place.citation for place in equal.places], equal.score) == (["a.md:3-5", "a.md:7-9", "b.md:3-5"], 1.0)
    assert equal.text == f"# Heron\n\n{LONG}"
    near = own.duplicates(similarity=0.9).repetitions
    assert {place.path for one in near for place in one.places} == {"a.md", "b.md", "c.md"}
    assert all(LONG[:20] in one.text for one in near)


def test_duplicates_quote_their_text_below_their_places(cli: Cli, write: Write) -> None:
    """The first lines of it; what is cut is marked."""
    text = "\n".join(f"{LONG} It is heron number {number}." for number in range(9))
    for name in ("a.md", "b.md"):
        write(name, f"# Heron\n\n{text}\n")
    assert cli("sync").returncode == 0
    lines = cli("duplicates").stdout.splitlines()
    assert lines[:4] == ["a.md:1-11  equal", "b.md:1-11  equal", "  # Heron", ""]
    assert lines[4:-1] == [f"  {line}" for line in text.splitlines()[: len(lines) - 5]]
    assert lines[-1] == "  …"


def age(path: Path, day: str) -> None:
    """Let a file be last changed at noon of a day."""
    moment = datetime.fromisoformat(f"{day}T12:00").timestamp()
    os.utime(path, (moment, moment))


def test_collections_are_folders_as_their_readme_describes_them(own: MemoryApi, write: Write) -> None:
    """Notes beneath count too; a folder without one is named after itself. Tags have the number of their notes."""
    age(write("work/README.md", "---\ntitle: Work\ndescription: What pays.\n---\ntext\n"), "2026-01-01")
    age(write("work/deep/a.md", "---\nupdated: 2026-02-03\ntags: [t/u]\n---\nx #d\n\n# D\n\ny #d\n"), "2026-01-02")
    write("archive/old/b.md", "x #old\n")
    tags = own.collections().tags
    assert (tags["t/u"], tags["d"], tags.get("old")) == (1, 1, None)
    found = {one.folder: one for one in own.collections().collections}
    assert "archive/" not in found
    work, deep = found["work/"], found["work/deep/"]
    assert (work.title, work.description, work.notes, work.last_active) == ("Work", "What pays.", 2, "2026-02-03")
    assert (deep.title, deep.description, deep.notes) == ("deep", "", 1)


def test_notes_are_listed_by_folder(own: MemoryApi, write: Write, cli: Cli) -> None:
    """The archived ones only when asked for."""
    age(write("work/a.md", "---\npinned: true\n---\n# Heron\n"), "2026-02-03")
    write("workshop/b.md", "x\n")
    write("archive/work/c.md", "x\n")
    (found,) = own.notes(folder="work/").notes
    assert (found.path, found.title, found.kind, found.last_active, found.pinned) == (
        "work/a.md", "Heron", Kind.NOTE, "2026-02-03", True,
    )  # fmt: skip
    assert "archive/work/c.md" in {one.path for one in own.notes(archived=True).notes}
    assert "archive/work/c.md" not in {one.path for one in own.notes().notes}
    assert cli("note", "list", "nowhere").returncode == 1
    assert cli("note", "list", "work").stdout == "work/a.md  note  project  2026-02-03  pinned  Heron\n"


def test_unused_are_old_notes_that_nothing_retrieved() -> None:
    """What was retrieved lately is not stale, however old."""
    old = [note(f"notes/{name}.md", Tier.PROJECT) for name in "abc"]
    used = {
        NotePath("notes/a.md"): NoteUse(NotePath("notes/a.md"), 3, "2026-11-20T10:00:00+00:00"),
        NotePath("notes/b.md"): NoteUse(NotePath("notes/b.md"), 1, "2026-01-20T10:00:00+00:00"),
    }
    personal, pinned = note("p.md", Tier.PERSONAL), note("q.md", pinned=True)
    found = unused([*old, personal, pinned], used, TODAY, 90)
    assert [(one.path, one.retrieved) for one in found] == [("notes/b.md", 1), ("notes/c.md", 0)]


@pytest.fixture
def talk(own: MemoryApi, write: Write) -> MemoryApi:
    messages = [f"## {role} @ 2026-11-21 10:0{n}\n\nTurn {n}.\n" for n, role in enumerate(["user", "assistant"] * 3)]
    write("threads/talk.md", "\n".join(messages))
    return own


def test_neighbours_are_the_messages_around_a_hit(talk: MemoryApi) -> None:
    """As many as asked for, as many as there are; a note that is no thread has none."""
    (hit,) = talk.search('"Turn 2"', mode="keyword", limit=1).hits
    around = talk.neighbours(hit.path, hit.start_line, end_line=hit.end_line, count=1)
    assert [one.text for one in around.before + around.after] == ["Turn 1.", "Turn 3."]
    around = talk.neighbours(hit.path, hit.start_line, end_line=hit.end_line, count=9)
    assert [one.text for one in around.before] == ["Turn 0.", "Turn 1."]
    assert [one.text for one in around.after] == ["Turn 3.", "Turn 4.", "Turn 5."]


def test_search_prints_neighbours(cli: Cli, write: Write) -> None:
    """With `--context`, in text and in JSON; hits elsewhere have none."""
    write("threads/talk.md", "## user\n\nWhich zebra?\n\n## assistant\n\nThe striped one.\n")
    write("note.md", "A zebra.\n")
    shown = cli("search", "zebra", "--mode", "keyword", "--context", "2").stdout
    assert "  | threads/talk.md:5  assistant" in shown
    hits = json.loads(cli("search", "zebra", "--mode", "keyword", "--context", "2", "--json").stdout)["hits"]
    by_path = {hit["path"]: hit.get("context") for hit in hits}
    assert by_path["note.md"] is None
    assert [one["text"] for one in by_path["threads/talk.md"]["after"]] == ["The striped one."]


def test_imported_conversation_is_as_old_as_its_import(memory: Memory, root: Path) -> None:
    """Its messages may be years old, and keep their times; nobody imports them to have them retired."""
    file = root.with_name("old.jsonl")
    line = {"thread": "old", "role": "user", "time": "2019-05-01 10:02", "text": "Which herons?"}
    file.write_text(json.dumps(line) + "\n")
    memory.import_file(file)
    assert memory.prune(days=1).due == ()
    assert [one.path for one in memory.stale(days=1).notes] == []
    assert [note.tier for note in memory.notes().notes] == ["project"]
    thread = root / "threads/old.md"
    content = thread.read_text()
    thread.write_text(content.replace(f'imported: "{clock.today()}"', 'imported: "2020-01-01"'))
    before = thread.read_bytes()
    assert before != content.encode()
    assert memory.import_file(file).known == 1
    assert thread.read_bytes() == before
    assert [one.path for one in memory.stale(days=1).notes] == ["threads/old.md"]
    assert [hit.path for hit in memory.search("herons before:2019-06-01").hits] == ["threads/old.md"]


# --------------------------------------------------------------------------------------------- boundaries


@pytest.mark.parametrize(("others", "is_refused"), [(18, False), (17, True)])
def test_exactly_a_tenth_of_the_notes_that_are_not_archived_may_retire_at_once(
    memory: Memory, write: Write, others: int, is_refused: bool
) -> None:
    """What has retired already is no part of the whole."""
    for number in range(others):
        write(f"note-{number}.md", f"Zebra {number}.\n")
    for number in range(5):
        write(f"archive/note-{number}.md", f"Zebra {number}.\n")
    write("daily/2020-01-01.md", "- 10:02 saw a zebra\n")
    write("daily/2020-01-02.md", "- 10:02 saw a zebra\n")
    found = memory.prune()
    assert (len(found.due), found.notes, found.is_refused) == (2, others + 2, is_refused)
