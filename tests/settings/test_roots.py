"""The list of registered memories: only its user changes it, and whatever is in the file is checked."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memsync.errors import ConfigError, RootError, UsageError
from memsync.memories.several import unreachable
from memsync.settings.load import load_settings, settings_of_root
from memsync.settings.registering import add_root
from memsync.settings.roots import RegisteredRoot, chosen_roots, registered_roots, remove_root, roots_path


def memory_root(folder: Path) -> Path:
    """Make a memory root as `memsync init` does, at the least."""
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("[memsync]\n")
    return folder


def save(text: str | bytes) -> Path:
    """Write the list by hand."""
    path = Path(roots_path())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(0o600)
    return path


def test_memories_are_listed_in_the_order_in_which_they_were_added(tmp_path: Path) -> None:
    """The paths are absolute and without links, and only the user may read the list."""
    for name in ("work", "a-home", "b_3"):
        memory_root(tmp_path / name)
        add_root(name, str(tmp_path / name / ".." / name))
    assert [root.name for root in registered_roots().values()] == ["work", "a-home", "b_3"]
    assert registered_roots()["work"].path == str(tmp_path / "work")
    assert stat.S_IMODE(Path(roots_path()).stat().st_mode) == 0o600
    assert remove_root("a-home").path == str(tmp_path / "a-home")
    assert list(registered_roots()) == ["work", "b_3"]
    assert [path.name for path in Path(roots_path()).parent.iterdir()] == ["roots.toml"]


@pytest.mark.parametrize("name", ['quote " and \\', "Ümlaut €", "[x] = 1 # y", "\u202egnp", "'"])
def test_any_name_of_a_folder_is_read_as_it_was_written(tmp_path: Path, name: str) -> None:
    """A folder's name cannot end the text that it is in."""
    memory_root(tmp_path / name)
    add_root("odd", str(tmp_path / name))
    assert registered_roots() == {"odd": RegisteredRoot("odd", str(tmp_path / name))}


@pytest.mark.parametrize("name", ["", "Work", "a b", "a:b", "a/b", "..", "x" * 65, "ä", "a\n", "*", '"'])
def test_a_name_has_few_characters(tmp_path: Path, name: str) -> None:
    """So that `NAME:path` can be told from a path, and no name needs quotes."""
    memory_root(tmp_path / "work")
    with pytest.raises(UsageError, match="not a name") as caught:
        add_root(name, str(tmp_path / "work"))
    assert "lower-case letters" in caught.value.hint
    assert registered_roots() == {}


def test_a_name_or_a_folder_that_is_taken_is_refused(tmp_path: Path) -> None:
    """The error names the command that frees it."""
    memory_root(tmp_path / "work")
    memory_root(tmp_path / "home")
    add_root("work", str(tmp_path / "work"))
    with pytest.raises(UsageError, match="work is registered already") as caught:
        add_root("work", str(tmp_path / "home"))
    assert "memsync roots remove work" in caught.value.hint
    with pytest.raises(UsageError, match="registered already, as work"):
        add_root("job", str(tmp_path / "work"))
    assert list(registered_roots()) == ["work"]


def test_only_a_memory_root_can_be_registered(tmp_path: Path) -> None:
    """A folder with a config.toml of memsync's, or with an index; the error says how to make one."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(RootError, match="not a memory root") as caught:
        add_root("folder", str(tmp_path / "folder"))
    assert caught.value.hint == f"Make it one: memsync init {tmp_path / 'folder'}"
    with pytest.raises(RootError, match="does not exist"):
        add_root("gone", str(tmp_path / "gone"))
    load_settings(root=tmp_path / "folder").index_dir.mkdir(parents=True)
    assert add_root("folder", str(tmp_path / "folder")).path == str(tmp_path / "folder")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[roots.work]\npath = 3\n", "path must be text"),
        ("[roots.work]\n", "path must be an absolute path"),
        ('[roots.work]\npath = "notes"\n', "path must be an absolute path"),
        ('[roots.work]\npath = "/a\\u0000b"\n', "is not a path"),
        ('[roots.work]\npath = "/a"\nread_only = true\n', r"\[roots.work\]: unknown key 'read_only'"),
        ('[roots."a:b"]\npath = "/a"\n', "'a:b' is not a name"),
        ('[roots."../x"]\npath = "/a"\n', "is not a name"),
        ('[roots]\nwork = "/a"\n', "must be a table"),
        ("roots = 3\n", "must be a table"),
        ('[memsync]\nroot = "/a"\n', "unknown table or key 'memsync'"),
        ("[roots.work\n", "not valid TOML"),
        ('[roots.work]\npath = "/a"\n[roots.work]\npath = "/b"\n', "not valid TOML"),
        (b"\xff\xfe", "not valid TOML"),
        ("x = " + "[" * 100_000, "not valid TOML"),
        ("#" * 1_000_001, "too large"),
    ],
)
def test_a_list_that_is_wrong_is_a_config_error(text: str | bytes, reason: str) -> None:
    """It names the file and the entry, and nothing is registered or changed."""
    path = save(text)
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=reason) as caught:
        registered_roots()
    assert str(path) in caught.value.message and caught.value.hint
    with pytest.raises(ConfigError):
        remove_root("work")
    assert path.read_bytes() == before


def test_a_list_that_others_can_change_is_refused() -> None:
    """It decides which folders are read."""
    save('[roots.work]\npath = "/a"\n').chmod(0o666)
    with pytest.raises(ConfigError, match="every user can change it"):
        registered_roots()


def test_nothing_in_a_memory_root_registers_memories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A roots.toml there is a file like any other, and its config.toml has no such table."""
    root = memory_root(tmp_path / "clone")
    (root / "roots.toml").write_text('[roots.evil]\npath = "/etc"\n')
    monkeypatch.chdir(root)
    assert registered_roots() == {}
    (root / "config.toml").write_text('[memsync]\n[roots.evil]\npath = "/etc"\n')
    with pytest.raises(ConfigError, match="unknown table"):
        load_settings(root=root)


def test_many_at_once_lose_no_entry(tmp_path: Path) -> None:
    """Each change is made under a lock, from the list as it is then."""
    names = [f"memory-{number}" for number in range(12)]
    for name in names:
        memory_root(tmp_path / name)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda name: add_root(name, str(tmp_path / name)), names))
    assert sorted(registered_roots()) == sorted(names)


def test_a_list_that_is_a_link_stays_one(tmp_path: Path) -> None:
    """Some keep their settings in a repository, and link them."""
    memory_root(tmp_path / "work")
    (tmp_path / "dotfiles").mkdir()
    Path(roots_path()).parent.mkdir(parents=True)
    Path(roots_path()).symlink_to(tmp_path / "dotfiles" / "roots.toml")
    add_root("work", str(tmp_path / "work"))
    assert Path(roots_path()).is_symlink() and "[roots.work]" in (tmp_path / "dotfiles" / "roots.toml").read_text()


def test_an_unknown_name_is_told_with_the_nearest(tmp_path: Path) -> None:
    """Without any registered memory, the error says how to register one."""
    with pytest.raises(ConfigError, match="no memory is registered") as none:
        chosen_roots()
    assert "memsync roots add" in none.value.hint
    save('[roots.work]\npath = "/a"\n[roots.home]\npath = "/b"\n')
    assert list(chosen_roots(("home", "work", "home"))) == ["work", "home"]
    with pytest.raises(UsageError) as caught:
        chosen_roots(("wrok",))
    assert caught.value.hint == "Did you mean work?"


def test_a_memory_that_cannot_be_reached_says_why(tmp_path: Path) -> None:
    """Its folder is gone, or its config.toml is wrong."""
    root = memory_root(tmp_path / "work")
    roots = {"work": RegisteredRoot("work", str(root)), "gone": RegisteredRoot("gone", str(tmp_path / "gone"))}
    assert unreachable(roots)["work"] == ""
    (root / "config.toml").write_text("[memsync]\nrot = 1\n")
    faults = unreachable(roots)
    assert 'unknown setting "memsync.rot"' in faults["work"] and "does not exist" in faults["gone"]


def test_another_memory_has_not_the_settings_of_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that name the current root, its config file or its index's name are not about the others."""
    root = memory_root(tmp_path / "work")
    other = memory_root(tmp_path / "other")
    monkeypatch.setenv("MEMSYNC_ROOT", str(other))
    monkeypatch.setenv("MEMSYNC_CONFIG", str(other / "config.toml"))
    monkeypatch.setenv("MEMSYNC_INDEX_NAME", "other")
    monkeypatch.setenv("MEMSYNC_SEARCH_LIMIT", "3")
    settings, has_config = settings_of_root(root)
    assert (settings.root, has_config, settings["search.limit"]) == (root, True, 3)
    assert settings["index.name"] == ""
