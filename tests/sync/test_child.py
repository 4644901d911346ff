"""An object in a process of its own: its answers and errors come across, and its end leaves nobody waiting."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from memsync.errors import UsageError
from memsync.system import child as child_module
from memsync.system.child import Child, ChildFailed


class Desk:
    """What the process of these tests runs."""

    size = 7

    def doubled(self, text: str) -> str:
        return text * 2

    def fail(self) -> None:
        raise UsageError("no", hint="Say yes.")

    def raise_another(self) -> None:
        raise KeyError("x")

    def folder(self) -> tuple[str, list[str]]:
        return os.getcwd(), sys.path

    def write_half_an_answer(self) -> None:
        os.write(int(sys.argv[2]), pickle.dumps((0, "heron" * 99, None))[:50])
        os._exit(3)


@pytest.fixture
def desk() -> Iterator[Child]:
    child = Child("desk", Desk)
    yield child
    child.end()


def test_answers_attributes_and_errors_come_across(desk: Child) -> None:
    """An error of memsync as it was raised; of any other only its name, since its module may not be loaded here."""
    assert desk.ask("doubled", "heron " * 100_000).result(60) == "heron " * 200_000
    assert desk.ask("size").result(60) == 7
    with pytest.raises(UsageError, match="no") as raised:
        desk.ask("fail").result(60)
    assert raised.value.hint == "Say yes."
    with pytest.raises(ChildFailed, match="KeyError"):
        desk.ask("raise_another").result(60)
    assert desk.waiting == 0


def test_half_an_answer_is_the_end(desk: Child) -> None:
    """What waits raises an error, and so does all that is asked later."""
    with pytest.raises(ChildFailed, match="ended"):
        desk.ask("write_half_an_answer").result(60)
    with pytest.raises(ChildFailed, match="ended"):
        desk.ask("size").result(60)


def test_process_that_reads_nothing_is_killed(desk: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender does not wait for it without end."""
    monkeypatch.setattr(child_module, "SEND_SECONDS", 1)
    stopped = Child("stopped", Desk)
    os.kill(stopped.process.pid, signal.SIGSTOP)
    with pytest.raises(ChildFailed, match="signal 9"):
        stopped.ask("doubled", "heron" * 10_000_000).result(60)


def test_module_of_the_current_folder_is_never_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even if PYTHONPATH or a relative entry of the module path leads there."""
    (tmp_path / "pickle.py").write_text("raise SystemExit")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(sys, "path", ["", ".", *sys.path])
    child = Child("elsewhere", Desk)
    folder, paths = child.ask("folder").result(60)
    child.end()
    assert folder == str(tmp_path)
    assert not {"", ".", str(tmp_path)} & set(paths)


def test_thread_or_process_that_cannot_be_started_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a limit on processes Python refuses a thread with RuntimeError; no process is left."""
    with monkeypatch.context() as patch, pytest.raises(ChildFailed, match="cannot be started"):
        patch.setattr(sys, "executable", "/nowhere/python")
        Child("desk", Desk)

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch, pytest.raises(ChildFailed, match="new thread"):
        patch.setattr(threading.Thread, "start", refused)
        Child("desk", Desk)
