"""A memory root that was moved keeps its index, its journal and its counts; nothing else is ever taken for it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from memsync.edit.journal import Journal
from memsync.errors import IndexBusy
from memsync.index.sqlite.index import SqliteIndex
from memsync.memory import Memory, Parts, Through, open_memory
from memsync.ports import Embedder
from memsync.settings.load import load_settings
from memsync.settings.paths import folder_identity, index_dir, keep_dir
from memsync.sync import moved_root
from memsync.system.state_file import state_of_root, state_of_user
from memsync.system.user_folders import STATE, state_folder, user_folder
from memsync.wiring import recognise_root
from tests.conftest import FakeEmbedder
from tests.support.daemon_process import Cli, until
from tests.support.stand_ins import beforehand

NOTES = 6
RECOGNISED = "Recognised the moved memory root; index kept (was {})"
Open = Callable[[Path], Memory]


@pytest.fixture
def opened(embedder: FakeEmbedder) -> Open:
    """Open a root as commands do, with the fake embedder and without the user's cache, which would hide a new index."""

    def make(root: Path) -> Memory:
        settings = load_settings(root=root, environ={}, cwd=root)

        def fake(model: str) -> Embedder:
            return embedder

        return open_memory(settings, Through.HERE, parts=Parts(fake, cache=lambda: None))

    return make


@pytest.fixture
def notes(root: Path) -> Path:
    """Make a root of six notes."""
    for number in range(NOTES):
        (root / f"n{number}.md").write_text(f"The heron of note {number} nests in alder {number * 7}.\n")
    return root


@pytest.fixture
def indexed(notes: Path, opened: Open) -> Path:
    with opened(notes) as memory:
        memory.sync()
        memory.log("kept in the journal")
        memory.search("heron")
        memory.sync()
    return notes


def moved(root: Path, name: str) -> Path:
    target = root.with_name(name)
    root.rename(target)
    return target


def synced(opened: Open, root: Path) -> tuple[int, int]:
    """Sync; return how many notes were added and how many were there already."""
    with opened(root) as memory:
        report = memory.sync()
    assert report.failed == ()
    return report.added, report.unchanged


def states(root: Path) -> tuple[bool, bool]:
    """Tell whether there is an index and whether there is a journal of a root's path."""
    return Path(index_dir(str(root)), "index.db").exists(), Path(keep_dir(str(root)), STATE).exists()


def said(root: Path, environ: dict[str, str] | None = None) -> list[str]:
    """Return what recognising a root says."""
    found: list[str] = []
    recognise_root(load_settings(root=root, environ=environ or {}, cwd=root), found.append)
    return found


# ------------------------------------------------------------------------------------------ recognised


def test_a_link_that_is_left_at_the_old_path_hides_no_move(indexed: Path, opened: Open) -> None:
    """Roots go by their real paths: asked by either name, everything is there."""
    new = moved(indexed, "renamed")
    indexed.symlink_to(new)
    assert synced(opened, indexed) == (0, NOTES + 1)
    assert (states(indexed), states(new)) == ((False, False), (True, True))
    assert synced(opened, new) == (0, NOTES + 1)


def test_a_root_whose_place_another_takes_keeps_its_state(indexed: Path, opened: Open) -> None:
    """A rotation: notes becomes notes.old, and another root takes its place and is used first."""
    other = indexed.with_name("other")
    other.mkdir()
    (other / "b.md").write_text("The bittern booms.\n")
    with opened(other) as memory:
        memory.sync()
        memory.log("of the other one")
        memory.sync()
    old = moved(indexed, "notes.old")
    other.rename(indexed)
    assert synced(opened, indexed) == (0, 2)
    assert synced(opened, old) == (0, NOTES + 1)
    assert (states(indexed), states(old)) == ((True, True), (True, True))
    for root, text in ((indexed, "of the other one"), (old, "kept in the journal")):
        entries = [one.text for one in Journal(state_of_root(keep_dir(str(root)))).since(0.0)]
        assert len(entries) == 1
        assert text in entries[0]


def test_moved_root_keeps_its_whole_state(indexed: Path, opened: Open, embedder: FakeEmbedder) -> None:
    """Index, journal, counts and known ends of notes have the new name, and nothing is left under the old one."""
    seen = len(embedder.seen)
    before = sorted(path.name for path in Path(keep_dir(str(indexed))).rglob("*"))
    new = moved(indexed, "renamed")
    assert synced(opened, new) == (0, NOTES + 1)
    assert len(embedder.seen) == seen
    assert (states(indexed), states(new)) == ((False, False), (True, True))
    assert not Path(keep_dir(str(indexed))).exists()
    assert not Path(index_dir(str(indexed))).exists()
    assert sorted(path.name for path in Path(keep_dir(str(new))).rglob("*")) == before
    with opened(new) as memory:
        assert memory.stats().searches == 1
        assert memory.verify() is None
        (log,) = (new / "daily").iterdir()
        log.write_text("an editor's old buffer\n")
        assert ["kept in the journal" in one.text for one in memory.overwritten()] == [True]


def test_root_is_recognised_wherever_it_goes_and_when_it_comes_back(indexed: Path, opened: Open) -> None:
    """By another name, in another folder, and at its first path again."""
    inner = indexed.with_name("inner")
    inner.mkdir()
    second = moved(indexed, "second")
    assert said(second) == [RECOGNISED.format(indexed)]
    third = second.rename(inner / "third")
    assert said(third) == [RECOGNISED.format(second)]
    outer = inner.rename(inner.with_name("outer")) / "third"
    assert said(outer) == [RECOGNISED.format(third)]
    back = outer.rename(indexed)
    assert said(back) == [RECOGNISED.format(outer)]
    assert synced(opened, back) == (0, NOTES + 1)
    assert states(back) == (True, True)


def test_commands_recognise_the_root_before_they_do_anything(cli: Cli, notes: Path) -> None:
    """On stderr, once, whichever command is the first; what was appended before is in the journal."""
    cli("sync")
    cli("log", "one")
    cli.root = moved(notes, "renamed")
    first = cli("log", "two")
    assert first.stderr.count(RECOGNISED.format(notes)) == 1
    assert first.returncode == 0
    second = cli("sync", "--json")
    assert "Recognised" not in second.stderr
    assert json.loads(second.stdout)["added"] == 0
    assert len(Journal(state_of_root(Path(keep_dir(str(cli.root))))).since(0.0)) == 2
    assert json.loads(cli("recover", "--json").stdout)["overwritten"] == []


def test_daemon_of_the_old_path_is_stopped(cli: Cli, notes: Path) -> None:
    """It serves a folder that is gone, and would make an index for it again."""
    process = cli.start()
    cli("sync")
    old, cli.root = cli.root, moved(notes, "renamed")
    done = cli("search", "heron")
    assert RECOGNISED.format(old) in done.stderr
    assert "run: memsync daemon start" in done.stderr
    assert done.returncode == 0
    until(lambda: not Path(f"/proc/{process}").exists() or is_zombie(process), "the daemon has ended")
    assert states(old)[0] is False
    assert cli.start() != process
    assert states(old)[0] is False
    assert json.loads(cli("status", "--json").stdout)["notes"] == NOTES


def is_zombie(process: int) -> bool:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_start_in_a_moved_root_serves_the_old_index(cli: Cli, notes: Path) -> None:
    """The daemon's lock and log are not made before the old folder has its place."""
    cli("sync")
    cli.root = moved(notes, "renamed")
    cli.start()
    status = json.loads(cli("status", "--json").stdout)
    assert (status["notes"], status["daemon"] is not None) == (NOTES, True)
    assert Path(index_dir(str(notes))).exists() is False


# -------------------------------------------------------------------------------------- not taken for it


def test_copy_beside_its_original_gets_an_index_of_its_own(indexed: Path, opened: Open) -> None:
    """And the original keeps what it has."""
    copy = Path(shutil.copytree(indexed, indexed.with_name("copy")))
    assert said(copy) == []
    assert synced(opened, copy) == (NOTES + 1, 0)
    assert synced(opened, indexed) == (0, NOTES + 1)
    assert states(indexed) == (True, True)


def recorded() -> list[Path]:
    """Return the paths that are written down."""
    return [Path(os.fsdecode(path)) for (path,) in state_of_user().rows("SELECT path FROM place")]


def remember(folder: Path, as_path: Path) -> None:
    """Write down a path for the identity of a folder, as if a root of that path had had it."""
    status = folder.stat()
    place = f"{status.st_dev}:{status.st_ino}"
    state_of_user().write("REPLACE INTO place VALUES (?, ?)", (place, os.fsencode(as_path)))


def reuse_identity(old: Path, new: Path) -> None:
    """Make it look as if the folder at `new` had got the inode of the root that was at `old`."""
    remember(new, old)
    with closing(apsw.Connection(str(Path(index_dir(str(old)), "index.db")))) as connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'root'", (folder_identity(str(new)),))


def test_reused_inode_with_other_notes_is_another_root(indexed: Path, opened: Open, tmp_path: Path) -> None:
    """Inodes are given again; a note with the stamp and content that was indexed is not."""
    other = tmp_path / "other"
    shutil.copytree(indexed, other)
    shutil.rmtree(indexed)
    reuse_identity(indexed, other)
    assert said(other) == []
    assert states(indexed) == (True, True)
    assert synced(opened, other) == (NOTES + 1, 0)


def test_links_to_the_notes_of_another_root_prove_nothing(indexed: Path, tmp_path: Path) -> None:
    """A folder of links has the stamps of what they lead to; it is opened without following them."""
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    there = moved(indexed, "really-there")
    for path in there.rglob("*.md"):
        (stranger / path.relative_to(there)).parent.mkdir(exist_ok=True)
    shutil.rmtree(stranger / "daily")
    (stranger / "daily").symlink_to(there / "daily")
    for number in range(NOTES):
        (stranger / f"n{number}.md").symlink_to(there / f"n{number}.md")
    reuse_identity(indexed, stranger)
    assert said(stranger) == []
    assert states(indexed) == (True, True)


def test_index_of_another_folder_is_not_taken_even_if_notes_are_equal(indexed: Path, tmp_path: Path) -> None:
    """A subfolder that was moved keeps the stamps of its notes; the index must be of the root's own identity."""
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    (indexed / "daily").rename(stranger / "daily")
    remember(stranger, indexed)
    moved(indexed, "gone")
    assert said(stranger) == []
    assert states(indexed) == (True, True)
    reuse_identity(indexed, stranger)
    assert said(stranger) == [RECOGNISED.format(indexed)], "the identity alone made the difference"


def test_folder_that_two_paths_lead_to_has_not_moved(indexed: Path, tmp_path: Path) -> None:
    """As after a bind mount; the first path goes on, and what is written down stays."""
    other = tmp_path / "other"
    other.symlink_to(indexed)
    assert moved_root.recognise(str(other), "index.db", SqliteIndex) is None
    assert states(indexed) == (True, True)
    assert recorded() == [indexed]


def test_stamps_without_the_content_prove_nothing(indexed: Path) -> None:
    """A disk can be made on which sizes, times and inodes are any."""
    with closing(apsw.Connection(str(Path(index_dir(str(indexed)), "index.db")))) as connection:
        connection.execute("UPDATE note SET digest = zeroblob(32)")
    new = moved(indexed, "renamed")
    assert said(new) == []
    assert states(indexed) == (True, True)


@pytest.mark.parametrize("mode", [0o602, 0o666])
def test_record_that_others_can_write_is_not_believed(indexed: Path, mode: int) -> None:
    """The index is filled again at the new path."""
    state_of_user().path.chmod(mode)
    new = moved(indexed, "renamed")
    assert said(new) == []
    assert states(indexed) == (True, True)


def test_nothing_in_the_notes_decides(indexed: Path, opened: Open, tmp_path: Path) -> None:
    """A clone that brings a state folder of its own, records included, is a new root."""
    gone = moved(indexed, "gone")
    clone = tmp_path / "clone"
    shutil.copytree(state_folder(), clone / "memsync")
    shutil.copytree(gone, clone, dirs_exist_ok=True)
    (clone / "config.toml").write_text('[memsync]\nroot = "."\n')
    assert said(clone) == []
    assert states(indexed) == (True, True)


# ------------------------------------------------------------------------------- interrupted, disturbed


@pytest.mark.parametrize("renames", [0, 1, 2])
def test_killed_between_any_two_steps_the_next_command_goes_on(
    indexed: Path, opened: Open, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    """Nothing is lost, and nothing is left under the old name."""
    before = sorted(path.name for path in Path(keep_dir(str(indexed))).rglob("*"))
    new = moved(indexed, "renamed")
    real, done = os.rename, 0

    def rename(source: str, target: str) -> None:
        nonlocal done
        if done == renames:
            raise KeyboardInterrupt
        done += 1
        real(source, target)

    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr("memsync.sync.moved_root.os.rename", rename)
        killed.setattr("memsync.sync.moved_root._remember", lambda *_: die())
        said(new)
    assert synced(opened, new) == (0, NOTES + 1)
    assert (states(indexed), states(new)) == ((False, False), (True, True))
    assert sorted(path.name for path in Path(keep_dir(str(new))).rglob("*")) == before
    assert said(new) == []


def die() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("lock", ["sync.lock", "write.lock"])
def test_locks_that_another_process_holds_are_waited_for_and_then_told(
    indexed: Path, opened: Open, monkeypatch: pytest.MonkeyPatch, lock: str
) -> None:
    """Nothing is moved under whoever works with it, and no new index is begun in the meantime."""
    monkeypatch.setattr(moved_root, "WAIT_SECONDS", 0.1)
    folder = index_dir(str(indexed)) if lock == "sync.lock" else keep_dir(str(indexed))
    new = moved(indexed, "renamed")
    with open(f"{folder}/{lock}", "r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(IndexBusy, match=str(indexed)) as caught:
            opened(new)
        assert caught.value.hint
        assert (states(indexed)[0], states(new)[0]) == (True, False)
    assert said(new) == [RECOGNISED.format(indexed)]
    assert synced(opened, new) == (0, NOTES + 1)


def test_two_at_once_take_it_over_once(indexed: Path, opened: Open) -> None:
    """Both go on with the same index; one of them says so."""
    new = moved(indexed, "renamed")
    command = [sys.executable, "-m", "memsync", "--root", str(new), "search", "--mode", "keyword", "heron"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    ends = [(*process.communicate(timeout=60), process.returncode) for process in processes]
    assert [code for _, _, code in ends] == [0] * 4, ends
    assert sum("Recognised" in err for _, err, _ in ends) == 1
    assert len({out for out, _, _ in ends}) == 1
    assert synced(opened, new) == (0, NOTES + 1)


def test_what_stands_at_the_new_place_is_kept_beside_it(indexed: Path, opened: Open) -> None:
    """The journal of a root that had that path before is nobody's, and not overwritten."""
    new = indexed.with_name("renamed")
    for folder in (Path(keep_dir(str(new))), Path(index_dir(str(new)))):
        folder.mkdir(parents=True, mode=0o700)
        (folder / "old-file").write_text("of another root")
    moved(indexed, "renamed")
    assert said(new) == [RECOGNISED.format(indexed)]
    assert states(new) == (True, True)
    aside = [path for path in Path(state_folder()).rglob("old-file") if ".before-" in path.parent.name]
    assert len(aside) == 2


def test_index_of_a_folder_that_had_the_new_path_before_gives_way(indexed: Path, opened: Open) -> None:
    """It is set aside; the root that is there now keeps its own index."""
    new = indexed.with_name("renamed")
    new.mkdir()
    (new / "other.md").write_text("The bittern booms.\n")
    assert synced(opened, new) == (1, 0)
    shutil.rmtree(new)
    moved(indexed, "renamed")
    assert said(new) == [RECOGNISED.format(indexed)]
    assert synced(opened, new) == (0, NOTES + 1)
    (aside,) = Path(state_folder()).glob("renamed-*.of-*")
    assert (aside / "index.db").exists()


def test_finding_a_root_reads_no_folder_of_others(indexed: Path, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may have tens of thousands of index folders."""
    new = moved(indexed, "renamed")
    listed: list[str] = []
    beforehand(monkeypatch, os, "scandir", lambda path=".": listed.append(os.fspath(path)))
    assert said(new) == [RECOGNISED.format(indexed)]
    state = state_folder()
    assert listed
    assert not {state, f"{state}/kept"} & set(listed)


@pytest.mark.parametrize("what", ["a link in it", "a file in its place"])
def test_paths_that_cannot_be_written_down_cost_no_command(notes: Path, opened: Open, what: str) -> None:
    """The root is not recognised when it moves, and that is all."""
    folder = Path(user_folder())
    folder.parent.mkdir(parents=True, mode=0o700)
    if what == "a link in it":
        folder.mkdir(mode=0o700)
        (folder / "link").symlink_to("/etc")
    else:
        folder.write_text("no folder")
    assert synced(opened, notes) == (NOTES, 0)
    assert synced(opened, moved(notes, "renamed")) == (NOTES, 0)


def test_known_root_costs_no_write(indexed: Path, opened: Open) -> None:
    """Only a new path is written down."""
    log = f"{state_of_user().path}-wal"
    before = os.stat(log)
    assert synced(opened, indexed) == (0, NOTES + 1)
    assert (os.stat(log).st_size, os.stat(log).st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert recorded() == [indexed]
