"""The daemon's socket: where it is, who can reach it, and what it takes the place of."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from memsync.client.connection import end
from memsync.daemon.methods import pool_of
from memsync.daemon.server import bound
from memsync.errors import DaemonError, DaemonUnavailable
from memsync.memory import RemoteMemory
from memsync.system.user_folders import MAX_SOCKET_PATH_BYTES, socket_path
from tests.support.daemon_fixtures import Served


@pytest.fixture
def path(short_runtime_folder: Path) -> Path:
    """Where a socket may be made; its folder is not there yet."""
    return short_runtime_folder / "index" / "daemon.sock"


@pytest.fixture
def long_index(short_runtime_folder: Path) -> str:
    """Name an index whose folder is too long for a socket."""
    return str(short_runtime_folder / ("x" * 100))


def mode(path: Path) -> int:
    """Return a file's permissions."""
    return stat.S_IMODE(path.lstat().st_mode)


def test_socket_is_the_owners_alone_in_a_folder_of_the_owners(path: Path) -> None:
    """0600 in 0700, whatever the umask allows."""
    before = os.umask(0)
    try:
        with closing(bound(str(path))):
            assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    finally:
        os.umask(before)


def test_served_socket_is_the_owners_alone(served: Served) -> None:
    """The same of the one that answers."""
    assert (mode(Path(served.path)), mode(Path(served.path).parent)) == (0o600, 0o700)


def test_nobody_can_connect_before_the_daemon_listens(path: Path) -> None:
    """Its mode is set while nobody could have been let in."""
    with closing(bound(str(path))), socket.socket(socket.AF_UNIX) as client, pytest.raises(ConnectionRefusedError):
        client.connect(str(path))


def test_dead_socket_is_replaced(path: Path) -> None:
    """What a killed daemon left behind is in nobody's way."""
    with closing(bound(str(path))):
        pass
    assert path.exists()
    with closing(bound(str(path))) as second, socket.socket(socket.AF_UNIX) as client:
        second.listen()
        client.connect(str(path))


@pytest.mark.parametrize("kind", ["file", "folder", "link", "fifo"])
def test_what_is_no_socket_is_not_replaced(kind: str, path: Path, tmp_path: Path) -> None:
    """A file in the way stays, and is named."""
    path.parent.mkdir(mode=0o700)
    target = tmp_path / "target"
    target.write_text("kept")
    make: dict[str, Callable[[], object]] = {
        "file": lambda: path.write_text("kept"),
        "folder": path.mkdir,
        "link": lambda: path.symlink_to(target),
        "fifo": lambda: os.mkfifo(path),
    }
    make[kind]()
    before = path.lstat().st_ino
    with pytest.raises(DaemonError, match=r"daemon\.sock is in the way"):
        bound(str(path))
    assert path.lstat().st_ino == before
    assert target.read_text() == "kept"


@pytest.mark.parametrize("writable", [0o770, 0o707, 0o777])
def test_socket_is_made_in_no_folder_that_others_can_write(writable: int, path: Path) -> None:
    """Somebody else could put their own socket there."""
    path.parent.mkdir()
    path.parent.chmod(writable)
    with pytest.raises(DaemonUnavailable, match="only you can write"):
        bound(str(path))
    assert not path.exists()


def test_socket_lies_in_the_folder_of_the_index_when_its_path_is_short(short_runtime_folder: Path) -> None:
    """The usual place."""
    assert socket_path("/var/index") == "/var/index/daemon.sock"


def test_socket_with_too_long_a_path_lies_in_the_runtime_folder(long_index: str, short_runtime_folder: Path) -> None:
    """Short enough for every system, another one for each index, the same one each time."""
    path = socket_path(long_index)
    assert Path(path).parent == short_runtime_folder / "memsync"
    assert len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES
    assert path == socket_path(long_index) != socket_path(long_index + "y")
    with closing(bound(path)):
        assert (mode(Path(path)), mode(Path(path).parent)) == (0o600, 0o700)


@pytest.mark.parametrize("runtime", ["", "/run/" + "long" * 30])
def test_without_a_short_runtime_folder_of_the_session_it_is_one_in_tmp(
    runtime: str, long_index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It carries the user's number, so that no two users share it."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    assert Path(socket_path(long_index)).parent == Path(f"/tmp/memsync-{os.getuid()}")


def test_path_is_measured_in_bytes(short_runtime_folder: Path) -> None:
    """A name of few characters may be long all the same."""
    assert socket_path("/" + "漢" * 40).startswith(str(short_runtime_folder))


@pytest.mark.parametrize("fault", ["of another user", "writable by others", "a link", "a file"])
def test_client_talks_to_nobody_in_a_runtime_folder_that_another_may_have_made(
    fault: str, long_index: str, short_runtime_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In /tmp anybody can make a folder of that name first, and listen there."""
    path = socket_path(long_index)
    folder = Path(path).parent
    listening = bound(path)
    listening.listen()
    if fault == "of another user":
        monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    elif fault == "writable by others":
        folder.chmod(0o777)
    else:
        folder.rename(short_runtime_folder / "elsewhere")
        if fault == "a link":
            folder.symlink_to(short_runtime_folder / "elsewhere")
        else:
            folder.touch()
    with closing(listening), pytest.raises(DaemonUnavailable, match="only you can write"):
        RemoteMemory(path, "")


def test_client_believes_no_process_of_another_user(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several users may write a shared index folder, and any of them can listen there."""
    with closing(bound(str(path))) as listening:
        listening.listen()
        monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
        for talk in (lambda: RemoteMemory(str(path), ""), lambda: end(str(path))):
            with pytest.raises(DaemonUnavailable, match="another user's"):
                talk()
        connection, _ = listening.accept()
        assert connection.recv(1) == b"", "nothing of a request was sent"
        connection.close()


def test_missing_socket_and_dead_socket_both_mean_that_no_daemon_runs(path: Path, long_index: str) -> None:
    """In either place; the hint says how to start one."""
    with closing(bound(str(path))):
        pass
    for place in (str(path), str(path) + "x", socket_path(long_index)):
        with pytest.raises(DaemonUnavailable, match="no daemon is running") as raised:
            RemoteMemory(place, "")
        assert raised.value.hint == "Start one with: memsync daemon start"


def test_what_may_take_long_delays_neither_searches_nor_greetings() -> None:
    """A model that reranks may not answer for seconds; a generation may not come for minutes."""
    searches = [pool_of("search", params) for params in ({"query": "x"}, {"rerank": True}, {"generation": 3})]
    assert searches == ["quick", "long", "long"]
    others = [pool_of(method, {}) for method in ("sync", "wait", "command", "status", "hello", "shutdown")]
    assert others == ["long", "long", "quick", "quick", "greeting", "greeting"]
