"""New settings reach a process that runs: it sends and answers nothing by the old ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memsync.errors import ConfigError, DaemonOutdated
from memsync.memories.reopening import Opener
from memsync.settings.load import load_settings
from memsync.system.user_folders import config_folder
from tests.conftest import FakeEmbedder, MakeMemory, Write
from tests.support.daemon_fixtures import Served, wait_until
from tests.sync.test_local_only import Remote

SECRET = "zanzibar"
LOCAL_ONLY = '[memsync]\nroot = "."\n[privacy]\nlocal_only = ["plans/"]\n'


def write_settings(root: Path, place: str, text: str = LOCAL_ONLY) -> None:
    """Write a config file that counts for the root, where there was none."""
    folder = {"root": root, "above": root.parent, "own": Path(config_folder())}[place]
    folder.mkdir(parents=True, exist_ok=True)
    named = text.replace('"."', f'"{root}"') if place != "root" else text
    (folder / "config.toml").write_text(named)


@pytest.mark.parametrize("place", ["root", "above", "own"])
def test_a_memory_that_is_open_sends_nothing_that_has_become_local_only(
    make_memory: MakeMemory, write: Write, root: Path, place: str
) -> None:
    """Whichever config file has the new pattern, and even if there was none before."""
    remote = Remote()
    memory = make_memory(remote)
    write("a.md", "The heron nests in the alder.\n")
    memory.sync()
    write_settings(root, place)
    write("plans/b.md", f"The way to {SECRET}.\n")
    for ask in (memory.sync, lambda: memory.search("heron"), lambda: memory.log("Saw a heron.")):
        with pytest.raises(ConfigError, match="have changed"):
            ask()
    with pytest.raises(ConfigError, match="have changed"):
        memory.fresh_search.compare()
    remote.assert_got_no_secret()
    now = make_memory(remote, own_settings=load_settings(root=root, environ={}, cwd=root))
    assert now.sync().failed == ()
    remote.assert_got_no_secret()


def test_a_sync_that_is_at_work_ends_before_it_sends_more(make_memory: MakeMemory, write: Write, root: Path) -> None:
    """The files are compared before each batch for the server."""
    for number in range(100):
        write(f"plans/{number}.md", f"The {number}. way.\n")

    class Slow(Remote):
        def embed_passages(self, texts: Any, pause: Callable[[], None] = lambda: None) -> list[Any]:
            write_settings(root, "root")
            return super().embed_passages(texts, pause)

    remote = Slow()
    with pytest.raises(ConfigError, match="have changed"):
        make_memory(remote).sync()
    assert 0 < len(remote.got) < 100


def test_other_files_and_equal_settings_change_nothing(make_memory: MakeMemory, write: Write, root: Path) -> None:
    """A comment, a new date, or a setting of the daemon or the command line is no reason to begin again."""
    write_settings(root, "root")
    memory = make_memory(own_settings=load_settings(root=root, environ={}, cwd=root))
    write("a.md", "The heron nests in the alder.\n")
    write_settings(root, "root", f"# A comment.\n{LOCAL_ONLY}[cli]\npager = false\n")
    assert memory.search("heron").hits
    write_settings(root, "root", f'{LOCAL_ONLY}[files]\nexclude = ["a.md"]\n')
    with pytest.raises(ConfigError, match="have changed"):
        memory.search("heron")


def test_a_server_of_tools_opens_the_memory_again(write: Write, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads the settings for each call, so an excluded note is not in the next answer."""
    write("a.md", "The heron nests in the alder.\n")
    monkeypatch.setenv("MEMSYNC_SEARCH_MODE", "keyword")
    opener = Opener(lambda: load_settings(root=root))
    for text, paths in ((LOCAL_ONLY, ["a.md"]), (f'{LOCAL_ONLY}[files]\nexclude = ["a.md"]\n', [])):
        write_settings(root, "root", text)
        with opener.memory() as memory:
            assert [hit.path for hit in memory.search("heron").hits] == paths
    opener.close()


def test_a_daemon_with_old_settings_neither_indexes_nor_answers(
    served: Served, write: Write, root: Path, embedder: FakeEmbedder
) -> None:
    """The client then does the work itself; no note is indexed or embedded by the old settings."""
    with served.connect() as client:
        assert client.status().notes >= 0
        write_settings(root, "root")
        write("plans/b.md", f"The way to {SECRET}.\n")
        served.engine.keeper.notice()
        wait_until(lambda: any("have changed" in fault for fault in served.engine.health.faults()), "it notices")
        for ask in (lambda: client.search("heron"), client.notes, client.sync):
            with pytest.raises(DaemonOutdated, match="have changed") as caught:
                ask()
            assert "memsync daemon restart" in caught.value.hint
    assert not [text for text in embedder.seen if SECRET in text]
