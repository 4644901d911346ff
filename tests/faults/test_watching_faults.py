"""A daemon that cannot rely on reports finds out, says so in status and in searches, compares instead, and heals.

The real observer and index. How often the daemon looks after itself is shortened; how it does so is not touched.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memsync.daemon.engine import Engine
from memsync.daemon.keeper import Keeper
from memsync.daemon.watch import Watcher
from memsync.errors import RootError
from memsync.model.vocabulary import WatcherState
from memsync.notes.files import FileSystem, file_system_of
from memsync.settings.load import load_settings
from memsync.system import clock
from tests.support.daemon_process import until
from tests.support.fake_daemon import connect

if sys.platform != "linux":
    pytest.skip("needs Linux: these tests reach into inotify", allow_module_level=True)

from watchdog.observers import inotify_c

from tests.conftest import Patch, Write
from tests.daemon.test_watch import blocked_reader, fill_queue, no_watches

# watchdog warns about folders created while it lists their parent, which these tests do.
pytestmark = pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning")
Start = Callable[..., Engine]


@pytest.fixture
def start(root: Path, monkeypatch: Patch) -> Iterator[Start]:
    """Start an engine on the root, which compares everything every so many seconds."""
    for name, seconds in (("TICK_SECONDS", 0.1), ("REPORT_SECONDS", 0.3), ("ROOT_RETRY_SECONDS", 0.2)):
        monkeypatch.setattr(f"memsync.daemon.keeper.{name}", seconds)
    engines: list[Engine] = []

    def begin(rescan_seconds: float = 60.0, hears: bool = True) -> Engine:
        monkeypatch.setattr("memsync.daemon.keeper.RESCAN_SECONDS", rescan_seconds)
        settings = load_settings(root=root, environ={}, cwd=root)
        engine = Engine(
            connect(settings),
            lambda on_path, on_lost: Watcher(root, on_path if hears else lambda path: None, on_lost),
            "socket",
        )
        engines.append(engine)
        engine.start()
        until(lambda: engine.memory.syncer.scanned_at and state(engine) is not WatcherState.DEGRADED, "it has begun")
        return engine

    yield begin
    for engine in engines:
        assert engine.stop()


def state(engine: Engine) -> WatcherState:
    return engine.keeper.watching()[0]


def reason(engine: Engine) -> str:
    return engine.keeper.watching()[1]


def finds(engine: Engine, word: str) -> bool:
    """Tell whether the daemon has indexed a word by itself: the search looks at no file."""
    return bool(engine.memory.search(word, mode="keyword", fresh="none").hits)


def assert_told(engine: Engine, what: str) -> None:
    """Check that status and every search tell of degraded watching and of why."""
    about = engine.memory.status().daemon
    assert about is not None
    assert (about.watcher, what in about.reason) == (WatcherState.DEGRADED, True), about
    assert any(what in error for error in about.errors)
    result = engine.memory.search("heron", mode="keyword")
    assert (result.freshness.watcher, what in result.freshness.reason) == (WatcherState.DEGRADED, True)
    assert any("watching is degraded" in warning and what in warning for warning in result.warnings)


def test_what_is_saved_is_found_by_reports_alone(start: Start, write: Write) -> None:
    """No comparison of everything is due for a minute."""
    engine = start()
    assert (state(engine), reason(engine)) == (WatcherState.LIVE, "")
    write("deep/er/a.md", "The heron nests.\n")
    until(lambda: finds(engine, "heron"), "the new note")
    (engine.memory.settings.root / "deep").rename(engine.memory.settings.root / "moved")
    until(lambda: [hit.path for hit in engine.memory.search("heron", fresh="none").hits] == ["moved/er/a.md"], "moved")
    write("moved/er/a.md", "The eel swims.\n")
    until(lambda: finds(engine, "eel") and not finds(engine, "heron"), "the change")
    (engine.memory.settings.root / "moved" / "er" / "a.md").unlink()
    until(lambda: not finds(engine, "eel"), "the deletion")
    assert engine.memory.search("eel", mode="keyword").freshness.watcher is WatcherState.LIVE


def test_what_an_overflowing_queue_swallowed_is_found(
    start: Start, write: Write, root: Path, monkeypatch: Patch
) -> None:
    """Everything is compared at once, long before that is due."""
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 200_000:
        pytest.skip(f"needs a shorter queue than {limit}; run: sysctl fs.inotify.max_queued_events=16384")
    with blocked_reader(monkeypatch):
        engine = start()
        fill_queue(root, limit)
        write("late/a.md", "The heron nests.\n")
    until(lambda: finds(engine, "heron"), "what was not reported")
    until(lambda: state(engine) is WatcherState.LIVE, "it is live again")
    write("late/b.md", "The eel swims.\n")
    until(lambda: finds(engine, "eel"), "a change in the folder whose making was not reported")


def test_without_watches_left_it_compares_and_heals(start: Start, write: Write, root: Path, monkeypatch: Patch) -> None:
    """No error comes from anywhere: only that a folder has no watch gives it away."""
    (root / "one").mkdir()
    engine = start(rescan_seconds=1)
    with no_watches(monkeypatch, lambda path: path.endswith(b"two")):
        write("two/a.md", "The heron nests.\n")
        until(lambda: state(engine) is WatcherState.DEGRADED, "it notices")
        assert_told(engine, "1 folder is not watched")
        write("two/b.md", "The eel swims.\n")
        until(lambda: finds(engine, "eel"), "what nobody reports")
    until(lambda: state(engine) is WatcherState.LIVE, "it is live again")
    assert engine.memory.status().daemon is not None
    assert not engine.health.faults()


def test_a_root_that_cannot_be_watched_at_all_is_compared(
    start: Start, write: Write, root: Path, monkeypatch: Patch
) -> None:
    """As on a machine where other programs have taken all watches."""
    engine = start(rescan_seconds=1)
    with no_watches(monkeypatch, lambda path: True):
        kill_observer(engine.keeper)
        until(lambda: "watch limit reached" in reason(engine), "it notices")
        assert_told(engine, "the memory root cannot be watched: inotify watch limit reached")
        write("a.md", "The heron nests.\n")
        until(lambda: finds(engine, "heron"), "what nobody reports")
    until(lambda: state(engine) is WatcherState.LIVE, "it is live again")


def kill_observer(keeper: Keeper) -> None:
    """End the threads of the observer as a fault of theirs would."""
    observer = watcher_of(keeper)._observer
    assert observer is not None
    for emitter in observer.emitters:
        emitter.stop()


def watcher_of(keeper: Keeper) -> Watcher:
    assert isinstance(keeper._watcher, Watcher)
    return keeper._watcher


def test_a_watch_that_is_gone_is_noticed(start: Start, write: Write, root: Path) -> None:
    """Removed behind watchdog's back."""
    write("deep/a.md", "The heron nests.\n")
    engine = start(rescan_seconds=1)
    watcher = watcher_of(engine.keeper)
    inode = (root / "deep").stat().st_ino
    until(lambda: watcher.unwatched([inode]) == 0, "the folder is watched")
    reader = getattr(watcher._observer, "_inotify_fd")  # noqa: B009 (because watchdog has no public name for it)
    (number,) = [wd for wd, watch in reader._watch_for_wd.items() if watch._initial_creation_path.endswith(b"deep")]
    inotify_c.inotify_rm_watch(reader._inotify_fd, number)
    assert watcher.unwatched([inode]) == 1
    until(lambda: watcher.unwatched([inode]) == 0, "it is watched again")
    until(lambda: state(engine) is WatcherState.LIVE, "it is live again")


def test_a_dead_observer_is_started_again(start: Start, write: Write) -> None:
    """And what was saved meanwhile is found."""
    engine = start()
    before = watcher_of(engine.keeper)._observer
    kill_observer(engine.keeper)
    write("a.md", "The heron nests.\n")
    until(lambda: finds(engine, "heron"), "what was saved meanwhile")
    until(lambda: watcher_of(engine.keeper)._observer not in (before, None), "there is a new observer")
    write("b.md", "The eel swims.\n")
    until(lambda: finds(engine, "eel"), "what the new one reports")


def test_a_lost_root_is_an_error_and_never_a_deletion(start: Start, write: Write, root: Path, tmp_path: Path) -> None:
    """Renamed away, a file in its place, then put back."""
    write("a.md", "The heron nests.\n")
    engine = start()
    until(lambda: finds(engine, "heron"), "the note")
    root.rename(tmp_path / "away")
    until(lambda: "does not exist" in reason(engine), "it notices")
    root.write_text("a file")
    until(lambda: "root" in engine.health.reason("root"), "it tells of that too")
    about = engine.memory.status()
    assert about.notes == 1
    assert about.daemon is not None
    assert about.daemon.watcher is WatcherState.DEGRADED
    for fresh in ("strict", "bounded", "none"):
        with pytest.raises(RootError):
            engine.memory.search("heron", fresh=fresh)
    root.unlink()
    (tmp_path / "away").rename(root)
    until(lambda: state(engine) is WatcherState.LIVE, "it is live again")
    assert finds(engine, "heron")
    write("b.md", "The eel swims.\n")
    until(lambda: finds(engine, "eel"), "what is saved in the root that is back")


def test_changes_that_nobody_reported_are_found_and_watching_begins_anew(start: Start, write: Write) -> None:
    """As of a network file system that was not known to be one."""
    engine = start(rescan_seconds=1, hears=False)
    before = watcher_of(engine.keeper)._observer
    numbers = iter(range(10_000))

    def saved_and_missed() -> bool:
        write(f"n{next(numbers)}.md", "The heron nests.\n")
        return "changes were not reported" in reason(engine)

    until(saved_and_missed, "it notices")
    assert_told(engine, "changes were not reported")
    assert finds(engine, "heron")
    until(lambda: watcher_of(engine.keeper)._observer not in (before, None), "there is a new observer")


def test_a_network_file_system_is_polled(start: Start, write: Write, monkeypatch: Patch) -> None:
    """What others write there is reported to nobody; that is no fault, and told all the same."""
    monkeypatch.setattr("memsync.daemon.keeper.file_system_of", lambda root: FileSystem("nfs4", True, False))
    engine = start(hears=False)
    assert (state(engine), reason(engine)) == (WatcherState.POLLING, "nfs4 does not report changes")
    assert watcher_of(engine.keeper)._observer is None
    write("a.md", "The heron nests.\n")
    until(lambda: finds(engine, "heron"), "what was saved")
    result = engine.memory.search("heron", mode="keyword")
    assert (result.freshness.watcher, result.freshness.reason) == (WatcherState.POLLING, reason(engine))
    assert engine.health.faults() == ()


def test_file_system_of_a_folder_is_that_of_the_nearest_mount(tmp_path: Path) -> None:
    """The last of several on one point lies on top; spaces in a mount's name are escaped."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 8:1 / / rw - ext4 /dev/a rw\n"
        "2 1 0:2 / /net rw shared:1 - nfs4 host:/x rw\n"
        "3 1 0:3 / /net/local\\040disk rw shared:2 master:1 - xfs /dev/b rw\n"
        "4 1 0:4 / /twice rw - ext4 /dev/c rw\n"
        "5 1 0:5 / /twice rw - fuse.sshfs host: rw\n"
    )
    expected = {
        "/home": ("ext4", False, True),
        "/net": ("nfs4", True, False),
        "/net/notes": ("nfs4", True, False),
        "/network": ("ext4", False, True),
        "/net/local disk/notes": ("xfs", False, True),
        "/twice/notes": ("fuse.sshfs", True, False),
    }
    for folder, (name, is_remote, is_local) in expected.items():
        assert file_system_of(Path(folder), mounts) == FileSystem(name, is_remote, is_local), folder
    assert file_system_of(Path("/home"), tmp_path / "absent") == FileSystem("", False, False)


def test_what_changed_before_the_start_is_not_taken_for_missed(start: Start, write: Write) -> None:
    """Nobody watched then: the first comparison says nothing of the watcher."""
    path = write("a.md", "The heron nests.\n")
    until(lambda: clock.file_seconds() - path.stat().st_ctime > 0.5, "the note is older than a report may take")
    engine = start()
    until(lambda: finds(engine, "heron"), "the note is indexed")
    engine.keeper.catch_up(5)
    assert engine.health.faults() == ()
    assert state(engine) is WatcherState.LIVE
