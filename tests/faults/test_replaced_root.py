"""Another folder in the place of the memory root, or a link to one: nothing is read, written or dropped there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memsync.errors import MemsyncError, RootError, UsageError
from memsync.features.scaffold import create_root
from memsync.memories.reopening import Opener
from memsync.memories.several import Memories
from memsync.memory import Memory
from memsync.settings.load import load_settings
from memsync.settings.registering import add_root
from tests.conftest import FakeEmbedder, MakeMemory, Write


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refuses_everything(memory: Memory, folder: Path, match: str) -> None:
    """Check that searches, syncs and every kind of write raise RootError, and that no file of `folder` changes."""
    before = tree(folder)
    asks: list[Callable[[], Any]] = [
        lambda: memory.search("heron"), lambda: memory.search("heron", fresh="none"), memory.sync, memory.rebuild,
        memory.verify, lambda: memory.log("Saw a heron."), lambda: memory.remember("Saw a heron.", tier="personal"),
        lambda: memory.new_note("notes/heron"), lambda: memory.set_preference("bird", "heron"),
        lambda: memory.new_thread("heron"), memory.overwritten, lambda: memory.prune(apply=True),
    ]  # fmt: skip
    for ask in asks:
        with pytest.raises(RootError, match=match):
            ask()
    assert tree(folder) == before


@pytest.fixture
def kept(memory: Memory, root: Path) -> Memory:
    """Return a memory that `init` made, with an entry in its journal that is missing from its note."""
    create_root(root)
    note = root / memory.log("The heron nests in the alder.").path
    note.write_text("# Day\n")
    (root / "ada.md").write_text("---\nkind: thread\nuser: ada\n---\n## user\n\nHi\n")
    memory.sync()
    assert len(memory.overwritten()) == 1
    return memory


@pytest.mark.parametrize("place", ["an empty mount point", "another memory", "another memory with its notes' names"])
def test_another_folder_in_the_roots_place_is_refused_until_accepted(kept: Memory, root: Path, place: str) -> None:
    """A shared path proves nothing: every memory has a MEMORY.md, and `init` writes the same text into it."""
    notes = kept.status().notes
    away = root.rename(root.with_name("away"))
    root.mkdir()
    if place != "an empty mount point":
        create_root(root)
        (root / "notes").mkdir()
        (root / "notes" / "own.md").write_text("Another memory.\n")
    if place == "another memory with its notes' names":
        for path in away.rglob("*.md"):
            (root / path.relative_to(away)).write_text("Something else.\n")
    refuses_everything(kept, root, "not the folder that was indexed")
    assert kept.status().notes == notes, "nothing was dropped"
    shutil.rmtree(root)
    away.rename(root)
    (entry,) = kept.overwritten()
    kept.recover((entry.id,))
    assert kept.search("heron").hits


def test_an_accepted_folder_is_written_to(kept: Memory, root: Path) -> None:
    """`memsync sync --accept-root` says that the folder was meant."""
    kept.forget(user="ada", apply=True)
    kept.search("heron")
    kept.usage.flush()
    shutil.rmtree(root)  # the new folder often gets its inode
    root.mkdir()
    for ask in (kept.overwritten, lambda: kept.log("A stork."), lambda: kept.undo_forget()):
        with pytest.raises(RootError, match="not the folder"):
            ask()
    kept.sync(accept_root=True)
    assert (kept.overwritten(), kept.stats().searches) == ((), 0), "they are of the memory that was here"
    with pytest.raises(UsageError, match="nothing to undo"):
        kept.undo_forget()
    assert (root / kept.log("A stork.").path).exists()


def test_folder_of_the_same_notes_keeps_its_journal_when_it_is_accepted(kept: Memory, root: Path) -> None:
    """A backup that was put back is the same memory."""
    away = root.rename(root.with_name("away"))
    shutil.copytree(away, root)
    kept.sync(accept_root=True)
    assert len(kept.overwritten()) == 1


def test_a_memory_that_was_only_made_is_known_by_the_id_that_init_left(root: Path, make_memory: MakeMemory) -> None:
    """No index knows its notes yet: `log` must not write into the mount point all the same."""
    create_root(root)
    root.rename(root.with_name("away"))
    root.mkdir()
    with pytest.raises(RootError, match="not the folder that was indexed"):
        make_memory().log("Saw a heron.")
    assert tree(root) == {}


def test_a_write_is_refused_even_if_the_index_is_gone(kept: Memory, root: Path, make_memory: MakeMemory) -> None:
    """The id is not in the index."""
    kept.close()
    shutil.rmtree(kept.settings.index_dir)
    root.rename(root.with_name("away"))
    root.mkdir()
    with pytest.raises(RootError, match="not the folder that was indexed"):
        make_memory().log("Saw a heron.")
    assert tree(root) == {}


@pytest.mark.parametrize("with_times", [True, False])
def test_a_copy_with_the_notes_is_accepted(memory: Memory, write: Write, root: Path, with_times: bool) -> None:
    """By the times of its files, or of a clone, which has new times, by the content of several."""
    for number in range(12):
        write(f"{number}.md", f"The heron {number} nests in the alder.\n")
    memory.sync()
    away = root.rename(root.with_name("away"))
    shutil.copytree(away, root, copy_function=shutil.copy2 if with_times else shutil.copyfile)
    write("0.md", "Changed since.\n")
    assert memory.search("changed").hits
    memory.log("Saw a heron.")


def test_a_checkout_that_changes_every_note_of_the_same_folder_is_accepted(
    memory: Memory, write: Write, root: Path
) -> None:
    """It is the same folder, so its notes need not be those that were indexed."""
    write("a.md", "The heron nests in the alder.\n")
    memory.sync()
    (root / "a.md").unlink()
    write("b.md", "The stork nests on the chimney.\n")
    memory.log("Saw a stork.")
    assert memory.search("chimney").hits


@pytest.mark.parametrize("replaced", ["the root", "a folder on the way"])
def test_a_link_in_the_roots_place_is_not_followed(
    tmp_path: Path, make_memory: MakeMemory, embedder: FakeEmbedder, replaced: str
) -> None:
    """A pull may replace a folder by a link to outside. What was open, registered or opened before keeps its path."""
    root, outside = tmp_path / "clone" / "vault" / "notes", tmp_path / "outside"
    root.mkdir(parents=True)
    (root / "a.md").write_text("The heron nests in the alder.\n")
    (outside / "notes").mkdir(parents=True)
    for folder in (outside, outside / "notes"):
        (folder / "a.md").write_text("A diary about a heron.\n")
    add_root("vault", str(_with_config(root)))
    running = make_memory(embedder, own_settings=load_settings(root=root))
    running.sync()
    opener = Opener(lambda: load_settings(root=root))
    with opener.memory() as memory:
        memory.status()
    gone = root if replaced == "the root" else root.parent
    gone.rename(tmp_path / "moved away")
    gone.symlink_to(outside, target_is_directory=True)
    refuses_everything(running, outside, "a link leads")
    with pytest.raises(RootError, match="a link leads"):
        running.get("a.md")
    with pytest.raises(RootError, match="now a link leads"):
        load_settings(root=root)
    with pytest.raises(RootError), opener.memory():
        pass
    opener.close()
    with Memories.open(["vault"]) as memories, pytest.raises(MemsyncError, match="link leads"):
        memories.search("diary")


def test_a_registered_memory_that_was_never_opened_keeps_its_folder(tmp_path: Path) -> None:
    """The path in the list was without links when it was registered."""
    root, outside = _with_config(tmp_path / "notes"), _with_config(tmp_path / "outside")
    add_root("vault", str(root))
    root.rename(tmp_path / "away")
    root.symlink_to(outside)
    with Memories.open(["vault"]) as memories, pytest.raises(RootError, match="link leads"):
        memories.search("diary")


def _with_config(root: Path) -> Path:
    root.mkdir(exist_ok=True)
    (root / "config.toml").write_text('[memsync]\nroot = "."\n')
    return root
