"""A note that says no date itself has that of the commit which gave it its content; the index follows HEAD."""

from __future__ import annotations

import os
import random
import shutil
from datetime import datetime
from pathlib import Path

import pytest

from memsync.memory import Memory
from memsync.model.query import IndexedNote
from memsync.settings.load import load_settings
from memsync.system import clock
from tests.conftest import FakeEmbedder, MakeMemory, Patch, Write
from tests.convergence.test_index_purity import fresh_dump
from tests.support.backends import only_sqlite
from tests.support.daemon_fixtures import Served, wait_until
from tests.support.index_checks import database, dump, value, without_words
from tests.support.repository import AUTUMN, SORTS, SPRING, SUMMER, Repository, repository_of
from tests.support.sampling import sampled


def forget_git(monkeypatch: Patch) -> None:
    """Let memsync find no git from here on; the test's own still works."""
    monkeypatch.setenv("PATH", "/nonexistent")


def note(memory: Memory, path: str) -> IndexedNote:
    memory.search("heron")
    with memory.index.reading() as reader:
        return next(one for one in reader.notes() if one.path == path)


def dated(memory: Memory, path: str) -> int:
    """Return when a note was changed, as a search of this moment has it; 0 for a file's own time."""
    found = note(memory, path)
    return 0 if found.changed_ns == found.mtime_ns else found.changed_ns // 10**9


def local(moment: int) -> str:
    return datetime.fromtimestamp(moment).isoformat(timespec="minutes")


# ------------------------------------------------------------------------------------------- which date


def test_unchanged_note_is_as_old_as_its_last_commit(memory: Memory, repository: Repository, write: Write) -> None:
    """And an edited one as its file; put back as it was, it is old again."""
    write("a.md", "The heron nests.\n")
    write("b.md", "The heron fishes.\n")
    repository.commit(SPRING)
    write("b.md", "The heron sleeps.\n")
    repository.commit(SUMMER)
    assert (dated(memory, "a.md"), dated(memory, "b.md")) == (SPRING, SUMMER)
    write("a.md", "The heron nests here.\n")
    assert (dated(memory, "a.md"), dated(memory, "b.md")) == (0, SUMMER)
    write("a.md", "The heron nests.\n")
    assert dated(memory, "a.md") == SPRING
    assert memory.verify() is None


def test_untracked_note_and_one_that_is_only_staged_have_their_own_time(
    memory: Memory, repository: Repository, write: Write
) -> None:
    """No commit has them."""
    write("a.md", "The heron nests.\n")
    repository.commit(SPRING)
    write("new.md", "The heron nests.\n")
    write("staged.md", "The heron nests.\n")
    repository.git("add", "staged.md")
    assert [dated(memory, path) for path in ("a.md", "new.md", "staged.md")] == [SPRING, 0, 0]


def test_date_that_a_note_says_itself_counts(memory: Memory, repository: Repository, write: Write) -> None:
    """In its front matter or, of a daily log, in its name."""
    write("a.md", "---\nupdated: 2020-02-02\n---\nThe heron nests.\n")
    write("daily/2020-03-03.md", "- the heron nests\n")
    repository.commit(SPRING)
    found = {hit.path: (hit.date or hit.changed)[:10] for hit in memory.search("heron").hits}
    assert found == {"a.md": "2020-02-02", "daily/2020-03-03.md": "2020-03-03"}


@pytest.mark.parametrize("arrival", ["rename", "copy"])
def test_note_is_as_old_as_its_path(arrival: str, memory: Memory, repository: Repository, write: Write) -> None:
    """A commit that renames or copies a note is what gave that path its content."""
    path = write("a.md", "The heron nests.\n")
    repository.commit(SPRING)
    if arrival == "rename":
        path.rename(path.with_name("b.md"))
    else:
        shutil.copy(path, path.with_name("b.md"))
    assert dated(memory, "b.md") == 0
    repository.commit(SUMMER)
    assert dated(memory, "b.md") == SUMMER


def test_checkout_of_another_branch_dates_by_that_branch(memory: Memory, repository: Repository, write: Write) -> None:
    """Even if it has the same files."""
    write("a.md", "The heron nests.\n")
    repository.commit(SPRING)
    repository.git("branch", "other")
    write("a.md", "The heron sleeps.\n")
    repository.commit(SUMMER)
    write("a.md", "The heron nests.\n")
    repository.commit(AUTUMN)
    assert dated(memory, "a.md") == AUTUMN
    repository.git("checkout", "-q", "other")
    assert dated(memory, "a.md") == SPRING
    repository.git("checkout", "-q", "--detach", "main")
    assert dated(memory, "a.md") == AUTUMN


@pytest.mark.parametrize(("side", "when"), [("ours", SUMMER), ("theirs", AUTUMN), ("both", AUTUMN + 9)])
def test_merge_dates_a_note_by_the_commit_whose_text_it_took(
    side: str, when: int, memory: Memory, repository: Repository, write: Write
) -> None:
    """One side's, though the other changed it later; or the merge itself, when the text is new."""
    write("a.md", "The heron nests.\n")
    repository.commit(SPRING)
    repository.git("checkout", "-qb", "other")
    write("a.md", "The heron sleeps.\n")
    repository.commit(AUTUMN)
    repository.git("checkout", "-q", "main")
    write("a.md", "The heron fishes.\n")
    repository.commit(SUMMER)
    repository.git("merge", "-q", "other", check=False)
    write("a.md", {"ours": "The heron fishes.\n", "theirs": "The heron sleeps.\n", "both": "The heron.\n"}[side])
    repository.commit(AUTUMN + 9)
    assert dated(memory, "a.md") == when
    assert memory.verify() is None


def test_shallow_clone_dates_by_what_it_has(memory: Memory, root: Path, tmp_path: Path, repository: Repository) -> None:
    """What is older seems to be of its last commit; once the rest is fetched, at the same HEAD, true dates count."""
    origin = Repository(tmp_path / "origin")
    shutil.copytree(root, origin.folder)
    for text, at in (("nests", SPRING), ("sleeps", SUMMER)):
        (origin.folder / f"{text}.md").write_text(f"The heron {text}.\n")
        origin.commit(at)
    shutil.rmtree(root / ".git")
    repository.git("clone", "-q", "--depth=1", f"file://{origin.folder}", ".")
    assert (dated(memory, "nests.md"), dated(memory, "sleeps.md")) == (SUMMER, SUMMER)
    repository.git("fetch", "-q", "--unshallow")
    assert (dated(memory, "nests.md"), dated(memory, "sleeps.md")) == (SPRING, SUMMER)


@pytest.mark.parametrize("place", SORTS)
def test_every_sort_of_repository_dates(place: str, tmp_path: Path, make_memory: MakeMemory) -> None:
    """The root a folder of it, a second working tree, a submodule; other names of objects; packed references."""
    root = repository_of(place, tmp_path, {SPRING: "The heron nests.\n", SUMMER: "The heron sleeps.\n"})
    memory = make_memory(own_settings=load_settings(root=root, environ={}, cwd=root))
    assert dated(memory, "a.md") == SUMMER
    assert (memory.status().dated_by, memory.status().undated) == (Repository(root).git("rev-parse", "HEAD"), "")


def test_commit_from_beyond_the_calendar_dates_nothing(memory: Memory, repository: Repository, write: Write) -> None:
    """Anybody may write any number there."""
    write("a.md", "The heron nests.\n")
    repository.git("add", "-A")
    tree = repository.git("write-tree")
    text = f"tree {tree}\nauthor A <a@b> {2**62} +0000\ncommitter A <a@b> {2**62} +0000\n\nx\n"
    (repository.folder / "commit").write_text(text)
    made = repository.git("hash-object", "-t", "commit", "-w", "--literally", "commit")
    repository.git("update-ref", "HEAD", made)
    assert dated(memory, "a.md") == 0
    assert memory.status().undated == ""


# ------------------------------------------------------------------------------------- what it costs


def test_unchanged_head_runs_no_git(memory: Memory, repository: Repository, write: Write, monkeypatch: Patch) -> None:
    """Nor does an edit: what HEAD has is known, whatever the files do."""
    write("a.md", "The heron nests.\n")
    repository.commit(SPRING)
    memory.sync()
    forget_git(monkeypatch)
    write("a.md", "The heron sleeps.\n")
    assert dated(memory, "a.md") == 0
    write("a.md", "The heron nests.\n")
    assert dated(memory, "a.md") == SPRING
    assert memory.search("heron").warnings == ()


@only_sqlite
def test_new_head_parses_and_embeds_nothing(
    memory: Memory, repository: Repository, write: Write, embedder: FakeEmbedder
) -> None:
    """Only the dates change: every chunk keeps its row."""
    write("a.md", "The heron nests.\n")
    repository.commit(SPRING)
    memory.sync()
    rows = "SELECT group_concat(id || ':' || passage || ':' || hex(words)) FROM chunk"
    before, embedder.seen = value(database(memory), rows), []
    repository.git("commit", "-q", "--amend", "--no-edit", at=SUMMER)
    report = memory.sync()
    assert (report.changed, report.vectors_computed, embedder.seen) == (0, 0, [])
    assert value(database(memory), rows) == before
    assert dated(memory, "a.md") == SUMMER


def test_next_commit_reads_only_what_is_new(memory: Memory, repository: Repository, write: Write) -> None:
    """The whole history is not gone through again: here it could not be, as its beginning is lost meanwhile."""
    write("a.md", "The heron nests.\n")
    repository.commit(SPRING)
    write("b.md", "The heron sleeps.\n")
    repository.commit(SUMMER)
    memory.sync()
    first = repository.git("rev-parse", "HEAD~1")
    (repository.folder / ".git/objects" / first[:2] / first[2:]).unlink()
    repository.commit(AUTUMN)
    assert [dated(memory, path) for path in ("a.md", "b.md")] == [SPRING, SUMMER]
    assert memory.status().dated_by == repository.git("rev-parse", "HEAD")


def test_same_head_from_another_folder_is_another_history(
    memory: Memory, repository: Repository, write: Write, root: Path
) -> None:
    """The paths in its tree are others then."""
    write("a.md", "The heron nests.\n")
    repository.commit(SPRING)
    assert dated(memory, "a.md") == SPRING
    (root / ".git").rename(root.parent / ".git")
    assert dated(memory, "a.md") == 0


# ------------------------------------------------------------------------------------- where it fails


def test_without_git_mtimes_count_and_status_says_so(
    memory: Memory, repository: Repository, write: Write, monkeypatch: Patch
) -> None:
    """Until a sync can ask it."""
    write("a.md", "The heron nests.\n")
    repository.commit(SPRING)
    with monkeypatch.context() as without:
        forget_git(without)
        memory.sync()
        assert dated(memory, "a.md") == 0
        assert memory.status().undated == "git is not installed"
    assert dated(memory, "a.md") == 0
    memory.sync()
    assert dated(memory, "a.md") == SPRING
    assert memory.status().undated == ""


def test_git_that_hangs_is_given_up(
    make_memory: MakeMemory, repository: Repository, write: Write, root: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    """A search takes no longer than its deadline over it, and a later one does not try again."""
    memory = make_memory(deadline=8.0)
    write("a.md", "The heron nests.\n")
    repository.commit(SPRING)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").write_text(f"#!/bin/sh\necho x >> {tmp_path}/asked\nexec sleep 60\n")
    (tmp_path / "bin/git").chmod(0o755)
    with monkeypatch.context() as hanging:
        hanging.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
        assert [hit.path for hit in memory.search("heron").hits] == ["a.md"]
        assert "git took over" in memory.status().undated
        memory.search("heron")
        assert (tmp_path / "asked").read_text() == "x\n"
    memory.sync()
    assert dated(memory, "a.md") == SPRING


@pytest.mark.slow
def test_commit_message_larger_than_gits_memory_dates_nothing(
    memory: Memory, repository: Repository, write: Write, tmp_path: Path, monkeypatch: Patch
) -> None:
    """A few packed bytes can hold it; git reads the message of every commit, wanted or not."""
    monkeypatch.setattr("memsync.notes.git.MAX_GIT_MEMORY", 40_000_000)
    write("a.md", "The heron nests.\n")
    repository.commit(SPRING)
    (tmp_path / "message").write_text("x" * 80_000_000)
    assert dated(memory, "a.md") == SPRING
    repository.git("commit", "-q", "--amend", "--cleanup=verbatim", "-F", str(tmp_path / "message"), at=SUMMER)
    assert dated(memory, "a.md") == 0
    assert memory.status().undated == "git ls-tree failed"
    repository.git("commit", "-q", "--amend", "-m", "short", at=AUTUMN)
    assert dated(memory, "a.md") == AUTUMN


def test_damaged_repository_dates_nothing(memory: Memory, repository: Repository, write: Write) -> None:
    """HEAD may name what is not there; the notes are found all the same."""
    write("a.md", "The heron nests.\n")
    repository.commit(SPRING)
    shutil.rmtree(repository.folder / ".git/objects")
    (repository.folder / ".git/objects").mkdir()
    assert dated(memory, "a.md") == 0
    assert memory.status().undated == "git ls-tree failed"
    assert memory.verify() is None


def test_repository_that_goes_takes_its_dates_along(memory: Memory, repository: Repository, write: Write) -> None:
    """The index is a function of what is there now."""
    write("a.md", "The heron nests.\n")
    repository.commit(SPRING)
    assert dated(memory, "a.md") == SPRING
    shutil.rmtree(repository.folder / ".git")
    assert dated(memory, "a.md") == 0
    assert (memory.status().dated_by, memory.status().dated_notes) == ("", 0)


def test_search_without_time_says_that_dates_are_old(
    repository: Repository, write: Write, make_memory: MakeMemory, root: Path
) -> None:
    """It reads no history, and the next sync does."""
    write("a.md", "The heron nests.\n")
    repository.commit(SPRING)
    memory = make_memory(deadline=0.0)
    memory.sync()
    repository.git("commit", "-q", "--amend", "--no-edit", at=SUMMER)
    warning = "Dates are those of an earlier commit. Run memsync sync."
    assert warning in memory.search("heron").warnings
    memory.sync()
    assert warning not in memory.search("heron").warnings
    assert dated(memory, "a.md") == SUMMER


# ------------------------------------------------------------------------------------- what goes by it


def test_filters_and_hits_have_the_commits_date(memory: Memory, repository: Repository, write: Write) -> None:
    """In both retrievers, and in a query of filters alone."""
    write("a.md", "The heron nests.\n")
    repository.commit(SPRING)
    write("b.md", "The heron sleeps.\n")
    memory.sync()
    assert next(hit.changed for hit in memory.search("heron").hits if hit.path == "a.md") == local(SPRING)
    for mode in ("keyword", "vector"):
        assert [hit.path for hit in memory.search(f"heron before:{local(SPRING)[:10]}", mode=mode).hits] == ["a.md"]
        assert [hit.path for hit in memory.search("heron after:2024", mode=mode).hits] == ["b.md"]
    assert [hit.path for hit in memory.search(f"after:{local(SPRING)[:10]}").hits] == ["b.md", "a.md"]


def test_stale_goes_by_commits_and_prune_waits_for_the_arrival(
    memory: Memory, repository: Repository, write: Write, root: Path
) -> None:
    """What was cloned today is not due to leave today, however old; what expires says when itself."""
    write("a.md", "---\ntier: task\n---\nThe heron nests.\n")
    write("b.md", "---\nexpires: 30d\n---\nThe heron sleeps.\n")
    repository.commit(SPRING)
    os.utime(root / "a.md", (clock.seconds(), clock.seconds()))
    assert [use.path for use in memory.stale(days=90).notes] == ["a.md", "b.md"]
    assert memory.stale(days=90).notes[0].last_active == local(SPRING)[:10]
    assert [one.path for one in memory.prune().due] == ["b.md"]
    os.utime(root / "a.md", (SUMMER, SUMMER))
    due = {one.path: one.last_active for one in memory.prune().due}
    assert due == {"a.md": local(SUMMER)[:10], "b.md": local(SPRING)[:10]}


def test_recency_goes_by_commits(root: Path, repository: Repository, write: Write, make_memory: MakeMemory) -> None:
    """Of two equal notes the one that was changed later comes first."""
    write("a.md", "The heron nests.\n")
    repository.commit(SPRING)
    write("b.md", "The heron nests.\n")
    repository.commit(AUTUMN)
    memory = make_memory()
    assert [(hit.path, hit.also) for hit in memory.search("heron").hits] == [("b.md", ("a.md:1",))]


# ------------------------------------------------------------------------------------------- the daemon


def test_daemon_notices_a_new_head(served: Served, root: Path) -> None:
    """Nothing that it watches has changed: not by itself only, but for a search that takes its word, too."""
    repository = Repository(root)
    repository.git("init", "-q")
    repository.commit(SPRING)
    with served.connect() as client:
        found = client.search('"ketch"', fresh="bounded")
        assert [(hit.path, hit.changed) for hit in found.hits] == [("boats.md", local(SPRING))]
        repository.git("commit", "-q", "--amend", "--no-edit", at=SUMMER)
        wait_until(lambda: client.search('"ketch"', fresh="none").hits[0].changed == local(SUMMER), "the keeper's look")
        assert client.status().dated_by == repository.git("rev-parse", "HEAD")


# ------------------------------------------------------------------------------------------ convergence


@pytest.mark.parametrize("seed", sampled(range(12), 3))
def test_index_after_random_commits_equals_a_fresh_one(
    seed: int, memory: Memory, repository: Repository, root: Path, tmp_path: Path
) -> None:
    """Edits, commits, checkouts, merges, amends, resets, renames, with a search or a sync now and then."""
    chance = random.Random(seed)
    now = SPRING
    repository.commit(now)
    for _ in range(40):
        now += chance.randrange(-5, 100)
        path = root / chance.choice(["a.md", "b.md", "deep/c.md"])
        action = chance.choice(
            ["write", "write", "commit", "commit", "amend", "branch", "merge", "rename", "reset", "look"]
        )
        if action == "write":
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"The heron {chance.choice(['nests', 'sleeps', 'fishes'])}.\n")
        elif action == "commit":
            repository.commit(now)
        elif action == "amend":
            repository.git("commit", "-q", "--amend", "--no-edit", "--allow-empty", at=now)
        elif action == "branch":
            branch = chance.choice(["main", "x", "y"])
            there = branch in repository.git("branch", "--format=%(refname:short)").split()
            repository.git("checkout", "-qf" if there else "-qb", branch, check=False)
        elif action == "merge":
            repository.git("merge", "-q", "--no-edit", chance.choice(["main", "x", "y"]), at=now, check=False)
        elif action == "rename" and path.exists():
            path.rename(root / "renamed.md")
        elif action == "reset":
            repository.git("reset", "-q", "--hard", chance.choice(["HEAD", "HEAD~1"]), check=False)
        elif chance.random() < 0.5:
            memory.sync()
        else:
            memory.search("heron")
    memory.sync()
    assert memory.status().undated == ""
    assert without_words(dump(memory)) == without_words(fresh_dump(root, tmp_path / "fresh"))
    assert memory.verify() is None
