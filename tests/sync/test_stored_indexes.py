"""The indexes in the user's state folder: which there are, and what removing one deletes and leaves."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from memsync.memory import Parts, Through, open_memory
from memsync.ports import Embedder
from memsync.settings.load import load_settings
from memsync.settings.paths import index_dir, keep_dir
from memsync.sync.stored_indexes import stored_indexes
from memsync.system.state_file import state_of_user
from tests.conftest import FakeEmbedder
from tests.support.daemon_process import Cli


@pytest.fixture
def indexed(tmp_path: Path, embedder: FakeEmbedder) -> Callable[[str], Path]:
    """Make a memory root with a note, an index and an entry in the journal."""

    def make(name: str) -> Path:
        root = tmp_path / name
        root.mkdir()
        (root / "note.md").write_text("The heron nests.\n")
        settings = load_settings(root=root, environ={}, cwd=root)

        def fake(model: str) -> Embedder:
            return embedder

        with open_memory(settings, Through.HERE, parts=Parts(fake, cache=lambda: None)) as memory:
            memory.sync()
            memory.log("an entry")
        return root

    return make


def test_list_names_each_index_also_if_another_folder_has_its_inode(indexed: Callable[[str], Path], cli: Cli) -> None:
    """A file system reuses the inode of a folder that was removed, so that is not what the path is stored by."""
    gone = indexed("gone")
    shutil.rmtree(gone)
    there = indexed("there")
    state_of_user().write("UPDATE place SET folder = '1:2'")  # as after the inode was used again
    listed = {each["root"]: each for each in json.loads(cli("index", "list", "--json").stdout)["indexes"]}
    assert {root: each["gone"] for root, each in listed.items()} == {str(gone): True, str(there): False}
    assert all(each["bytes"] > 1_000 and each["last_written"][:2] == "20" for each in listed.values())
    shown = cli("index", "list").stdout.splitlines()
    assert [" gone " in line for line in shown if line.endswith(str(gone))] == [True]


def test_remove_gone_deletes_only_the_index_and_names_what_it_leaves(indexed: Callable[[str], Path], cli: Cli) -> None:
    """The folder may come back (a disk is mounted again): then its journal is there, and the index is filled again."""
    gone, there = indexed("gone"), indexed("there")
    saved = gone.rename(gone.with_name("disk"))
    journal = list(Path(keep_dir(str(gone))).glob("state.db"))
    done = json.loads(cli("index", "remove", "--gone", "--json").stdout)
    assert [(each["root"], each["kept"]) for each in done["removed"]] == [(str(gone), keep_dir(str(gone)))]
    assert [each.root for each in stored_indexes()] == [str(there)]
    assert journal and all(path.is_file() for path in journal)
    saved.rename(gone)
    assert cli("search", "heron", "--mode", "keyword", cwd=gone, environ={"MEMSYNC_ROOT": str(gone)}).returncode == 0
    again = cli("index", "remove", "--gone")
    assert (again.returncode, again.stdout) == (0, "")


@pytest.mark.parametrize("lock", ["daemon.lock", "sync.lock"])
def test_index_in_use_is_not_removed(indexed: Callable[[str], Path], cli: Cli, lock: str) -> None:
    """A daemon or a sync would go on with deleted files."""
    root = indexed("used")
    with open(f"{index_dir(str(root))}/{lock}", "w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = cli("index", "remove", str(root))
        assert done.returncode == 7 and str(root) in done.stderr and "memsync daemon stop" in done.stderr
        assert len(stored_indexes()) == 1
    assert cli("index", "remove", str(root)).stdout == f"removed the index of {root}; {keep_dir(str(root))} stays\n"
    assert stored_indexes() == [] and (root / "note.md").is_file()


def test_only_a_folder_of_memsyncs_making_is_removed(indexed: Callable[[str], Path], cli: Cli, tmp_path: Path) -> None:
    """It has the name and the files of an index, and holds no link; an unknown folder needs its full name."""
    root = indexed("gone")
    index = Path(index_dir(str(root)))
    foreign = index.with_name("mine-" + "0" * 32)
    foreign.mkdir()
    (foreign / "letter.txt").touch()
    aside = index.with_name(f"{index.name}.before-20261121T100200-7")
    shutil.copytree(index, aside)
    shutil.rmtree(root)
    (index / "planted").symlink_to(tmp_path)
    refused = cli("index", "remove", "--gone")
    assert refused.returncode == 9 and "planted in it is a link" in refused.stderr
    (index / "planted").unlink()
    assert cli("index", "remove", "--gone").returncode == 0
    assert (foreign / "letter.txt").is_file() and aside.is_dir() and not index.exists()
    assert cli("index", "remove", str(foreign)).returncode == 2
    assert cli("index", "remove", str(aside)).returncode == 0 and not aside.exists()


@pytest.mark.parametrize("arguments", [[], [""], ["--gone", "x"], ["x"]])
def test_what_to_remove_must_be_said(cli: Cli, arguments: list[str]) -> None:
    """No default: without an argument nothing is deleted."""
    done = cli("index", "remove", *arguments)
    assert done.returncode == 2 and "memsync index list" in done.stderr
