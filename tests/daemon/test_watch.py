"""The real observer on a real folder: every kind of change is hinted, and what makes hints get lost is noticed."""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memsync.daemon.watch import Watcher
from tests.conftest import Patch
from tests.support.daemon_process import until

if sys.platform == "linux":
    from watchdog.observers import inotify_c
else:
    pytest.skip("needs Linux: these tests reach into inotify", allow_module_level=True)

# watchdog warns about folders created while it lists their parent, which these tests do.
pytestmark = pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning")
Change = Callable[[Path, Path], object]


class Reports:
    """What a watcher said."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.lost: list[str] = []

    def cover(self, path: str) -> bool:
        """Tell whether a report names a path, or a folder that it lies in."""
        return any(path == found or found == "" or path.startswith(found + "/") for found in list(self.paths))


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
def watcher(root: Path, reports: Reports) -> Iterator[Watcher]:
    found = Watcher(root, reports.paths.append, reports.lost.append)
    yield found
    found.stop()


def held() -> tuple[int, set[str]]:
    """Return how many descriptors this process has, and its threads."""
    return len(os.listdir("/proc/self/fd")), {thread.name for thread in threading.enumerate()}


@contextmanager
def no_watches(monkeypatch: Patch, matching: Callable[[bytes], bool]) -> Iterator[None]:
    """Let the system refuse watches on some paths, as when fs.inotify.max_user_watches is reached."""
    real = inotify_c.inotify_add_watch

    def refuse(descriptor: int, path: bytes, mask: int) -> inotify_c.WatchDescriptor:
        if not matching(path):
            return real(descriptor, path, mask)
        ctypes.set_errno(errno.ENOSPC)
        return inotify_c.WatchDescriptor(-1)

    with monkeypatch.context() as patch:
        patch.setattr(inotify_c, "inotify_add_watch", refuse)
        yield


def move_in(root: Path, outside: Path) -> None:
    (outside / "in").mkdir(parents=True)
    (outside / "in" / "n.md").write_text("x")
    (outside / "in").rename(root / "in")


def make_deep(root: Path, outside: Path) -> None:
    (root / "x" / "y" / "z").mkdir(parents=True)
    (root / "x" / "y" / "z" / "n.md").write_text("x")


CHANGES: dict[str, tuple[Change, list[str]]] = {
    "create": (lambda root, outside: (root / "new.md").touch(), ["new.md"]),
    "write": (lambda root, outside: (root / "a.md").write_text("y"), ["a.md"]),
    "write beneath": (lambda root, outside: (root / "deep/er/b.md").write_text("y"), ["deep/er/b.md"]),
    "rename": (lambda root, outside: (root / "a.md").rename(root / "c.md"), ["a.md", "c.md"]),
    "delete": (lambda root, outside: (root / "a.md").unlink(), ["a.md"]),
    "chmod": (lambda root, outside: (root / "a.md").chmod(0o600), ["a.md"]),
    "touch": (lambda root, outside: os.utime(root / "a.md", (1, 1)), ["a.md"]),
    "mkdir -p and a file at once": (make_deep, ["x/y/z/n.md"]),
    "folder moved": (lambda root, outside: (root / "deep").rename(root / "d"), ["deep/er/b.md", "d/er/b.md"]),
    "folder moved out": (lambda root, outside: (root / "deep").rename(outside), ["deep/er/b.md"]),
    "folder moved in": (move_in, ["in/n.md"]),
    "folder removed": (lambda root, outside: shutil.rmtree(root / "deep"), ["deep/er/b.md"]),
    "folder made unreadable": (lambda root, outside: (root / "deep").chmod(0o000), ["deep/er/b.md"]),
    "ignore file": (lambda root, outside: (root / "deep/.gitignore").write_text("*"), ["deep/er/b.md"]),
    "ignore file at the top": (lambda root, outside: (root / ".gitignore").write_text("*"), ["a.md", "deep/er/b.md"]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_kind_of_change_is_hinted(
    name: str, root: Path, tmp_path: Path, watcher: Watcher, reports: Reports
) -> None:
    """By the path itself or that of a folder above it."""
    (root / "deep" / "er").mkdir(parents=True)
    (root / "a.md").write_text("x")
    (root / "deep" / "er" / "b.md").write_text("x")
    watcher.start()
    change, expected = CHANGES[name]
    change(root, tmp_path / "outside")
    for path in expected:
        until(lambda: reports.cover(path), f"{path} is hinted: {reports.paths}")  # noqa: B023 (because it is called at once)
    assert watcher.fault() == ""
    assert reports.lost == []


def test_hidden_files_and_folders_are_not_hinted(root: Path, watcher: Watcher, reports: Reports) -> None:
    """No note can be there, and git alone would make thousands of reports."""
    (root / ".git" / "objects").mkdir(parents=True)
    (root / "sub").mkdir()
    watcher.start()
    for name in (".git/index", ".git/objects/x.md", ".hidden.md", "sub/.a.md.swp", "sub/.obsidian"):
        (root / name).write_text("x")
    (root / "end.md").write_text("x")
    until(lambda: "end.md" in reports.paths, "the last change is hinted")
    assert [path for path in reports.paths if "." in path.removesuffix(".md")] == []


@contextmanager
def blocked_reader(monkeypatch: Patch) -> Iterator[None]:
    """Keep the thread that takes reports from the kernel from doing so."""
    go_on = threading.Event()
    real = inotify_c.InotifyFD.read_events

    def wait_and_read(self: inotify_c.InotifyFD) -> list[inotify_c.InotifyEvent]:
        go_on.wait()
        return real(self)

    with monkeypatch.context() as patch:
        patch.setattr(inotify_c.InotifyFD, "read_events", wait_and_read)
        try:
            yield
        finally:
            go_on.set()


def fill_queue(root: Path, limit: int) -> None:
    """Make more reports than fit; equal ones in a row would be counted once."""
    files = [root / "one.md", root / "two.md"]
    for file in files:
        file.touch()
    for number in range(limit // 2 + 10):
        for file in files:
            os.utime(file, (number, number))


def test_whatever_watchdog_warns_of_is_a_loss_while_it_watches(watcher: Watcher, reports: Reports) -> None:
    """It has no other way to say that something went wrong."""
    watcher.start()
    logger = logging.getLogger("watchdog.observers.inotify_c")
    logger.warning("Inotify queue overflowed; filesystem events were lost")
    logger.error("something else")
    assert reports.lost == ["the queue of reports overflowed", "watchdog reported a fault"]
    watcher.stop()
    logger.addHandler(logging.NullHandler())
    logger.warning("Inotify queue overflowed; filesystem events were lost")
    assert len(reports.lost) == 2


def test_a_start_that_is_refused_leaves_nothing_open(root: Path, watcher: Watcher, monkeypatch: Patch) -> None:
    """It is tried again every few seconds: what it left open would add up until the daemon has no descriptors left."""
    before = held()
    with no_watches(monkeypatch, lambda path: True):
        for _ in range(5):
            with pytest.raises(OSError, match="watch limit reached"):
                watcher.start()
    assert held() == before
    watcher.start()
    assert watcher.fault() == ""


# One of watchdog's threads dies of the fault that this test is about.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_watchdog_losing_count_of_moved_folders_is_noticed_and_leaves_nothing_behind(
    root: Path, tmp_path: Path, watcher: Watcher, reports: Reports
) -> None:
    """A folder moved out, another moved to its name, both removed: watchdog's reading thread dies of a KeyError."""
    before = held()
    (root / "deep").mkdir()
    (root / "other").mkdir()
    watcher.start()
    (root / "deep").rename(tmp_path / "out")
    until(lambda: reports.cover("deep"), "moved out")
    (root / "other").rename(root / "deep")
    until(lambda: "other" in reports.paths, "moved to the same name")
    (root / "deep").rmdir()
    (tmp_path / "out").rmdir()
    until(lambda: watcher.fault() == "the thread that watches the memory root has died", "the death is noticed")
    watcher.stop()
    assert held() == before
    watcher.start()
    (root / "n.md").write_text("x")
    until(lambda: "n.md" in reports.paths, "it watches again")
