"""Settings: found, layered, checked, and traced to where they came from."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from memsync.errors import ConfigError, RootError
from memsync.settings.config_file import set_in_user_file
from memsync.settings.load import load_settings
from memsync.settings.paths import is_inside
from memsync.settings.settings_list import SETTINGS
from memsync.system.user_folders import config_folder
from memsync.wiring import make_index
from tests.conftest import PROJECT, Patch


def config(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.toml"
    path.write_text(text)
    return path


@pytest.mark.smoke
def test_environment_wins_over_file_and_file_over_default(tmp_path: Path) -> None:
    """Three layers, and each value knows its own."""
    path = config(tmp_path, '[memsync]\nroot = "."\n[search]\nlimit = 5\nmin_score = 0.5\n')
    settings = load_settings(config=path, environ={"MEMSYNC_SEARCH_LIMIT": "7"})
    assert (settings["search.limit"], settings["search.min_score"], settings["search.mode"]) == (7, 0.5, "hybrid")
    assert settings.sources["search.limit"] == "MEMSYNC_SEARCH_LIMIT"
    assert settings.sources["search.min_score"] == str(path)
    assert settings.sources["search.mode"] == "default"


def test_nearest_config_with_a_memsync_table_upwards_is_used(tmp_path: Path) -> None:
    """Another program's config.toml on the way is passed over."""
    config(tmp_path, '[memsync]\nroot = "notes"\n')
    config(tmp_path / "a", "[server]\nport = 1\n")
    (tmp_path / "notes").mkdir()
    inner = tmp_path / "a" / "b"
    inner.mkdir()
    assert load_settings(environ={}, cwd=inner).root == tmp_path / "notes"


def test_memsync_config_variable_names_the_file(tmp_path: Path) -> None:
    """MEMSYNC_CONFIG stands in for --config."""
    path = config(tmp_path / "elsewhere", '[memsync]\nroot = "."\n')
    assert load_settings(environ={"MEMSYNC_CONFIG": str(path)}, cwd=tmp_path).root == path.parent


def test_users_own_config_is_the_last_resort(tmp_path: Path, monkeypatch: Patch) -> None:
    """Without any config upwards, the one in the user's config folder counts."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    (tmp_path / "notes").mkdir()
    config(tmp_path / "own" / "memsync", f'[memsync]\nroot = "{tmp_path}/notes"\n')
    assert load_settings(environ={}, cwd=tmp_path).root == tmp_path / "notes"


def test_users_own_config_holds_for_every_root_except_what_is_about_one(tmp_path: Path, monkeypatch: Patch) -> None:
    """Its root and its index's name are those of one memory; its other settings hold everywhere, under a found file."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    config(
        tmp_path / "own" / "memsync",
        f'[memsync]\nroot = "{tmp_path}/mine"\n[index]\nname = "mine"\n'
        '[search]\nlimit = 3\nmin_score = 0.5\n[kinds]\n"/journal/" = "daily"\n',
    )
    (tmp_path / "mine").mkdir()
    path = config(tmp_path / "other", '[memsync]\nroot = "."\n[search]\nlimit = 5\n')
    mine = load_settings(environ={}, cwd=tmp_path)
    assert (mine.root_name, mine["index.name"]) == (f"{tmp_path}/mine", "mine")
    other = load_settings(environ={}, cwd=tmp_path / "other")
    assert (other.root, other["search.limit"], other["search.min_score"]) == (path.parent, 5, 0.5)
    assert other.kinds["/journal/"] == "daily"
    assert other["index.name"] == ""
    for environ in ({}, {"MEMSYNC_ROOT": str(tmp_path / "mine")}):
        named = load_settings(root=None if environ else tmp_path / "mine", environ=environ, cwd=tmp_path / "other")
        assert named["index.name"] == "mine"


def test_root_in_the_environment_takes_its_own_config_only(tmp_path: Path) -> None:
    """As with --root: a config file of another memory, found from here, has no say."""
    config(tmp_path / "one", '[memsync]\nroot = "."\n[search]\nlimit = 3\n')
    config(tmp_path / "two", '[memsync]\nroot = "."\n[search]\nlimit = 4\n')
    found = load_settings(environ={"MEMSYNC_ROOT": str(tmp_path / "two")}, cwd=tmp_path / "one")
    assert (found.root, found["search.limit"]) == (tmp_path / "two", 4)


def test_options_of_settings_give_the_same_settings_anywhere(tmp_path: Path) -> None:
    """What a service or an MCP client is started with, from another folder."""
    path = config(tmp_path, '[memsync]\nroot = "notes/inner"\n[search]\nlimit = 3\n')
    (tmp_path / "notes" / "inner").mkdir(parents=True)
    config(tmp_path / "notes", '[memsync]\nroot = "."\n[search]\nlimit = 4\n')
    found = load_settings(environ={}, cwd=tmp_path)
    assert list(found.options) == ["--root", str(tmp_path / "notes" / "inner")]
    again = load_settings(root=found.options[1], environ={}, cwd="/")
    assert (again["search.limit"], again.root) == (3, found.root)
    assert list(load_settings(config=path, environ={}).options) == ["--config", str(path)]
    assert list(load_settings(environ={"MEMSYNC_CONFIG": str(path)}, cwd="/").options) == ["--config", str(path)]


def test_no_config_at_all_says_what_to_do(tmp_path: Path) -> None:
    """A newcomer without a root is told about init."""
    with pytest.raises(ConfigError, match="no memory root") as caught:
        load_settings(environ={}, cwd=tmp_path)
    assert "memsync init" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ('[memsync]\nroot = "."\n[search]\nlimt = 3\n', 'unknown setting "search.limt"', "limit"),
        ('[memsync]\nroot = "."\n\n[serach]\nlimit = 3\n', 'unknown table "serach"', "search"),
        ('[memsync]\nroot = "."\n[search]\nlimit = "3"\n', "must be a whole number", ""),
        ('[memsync]\nroot = "."\n[search]\nlimit = true\n', "must be a whole number", ""),
        ('[memsync]\nroot = "."\n[search]\nlimit = 0\n', "from 1 to 1000", ""),
        ('[memsync]\nroot = "."\n[search]\nmode = "magic"\n', "hybrid, keyword or vector", ""),
        ('[memsync]\nroot = "."\n[files]\nexclude = [1]\n', "a list of texts", ""),
        ('[memsync]\nroot = "."\n[kinds]\n"/x/" = "diary"\n', '"diary" is not one of kinds', "daily"),
    ],
)
def test_wrong_settings_are_refused_with_their_file(tmp_path: Path, text: str, message: str, hint: str) -> None:
    """Nothing is guessed: the message names the file, the hint the nearest valid name."""
    path = config(tmp_path, text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_settings(config=path, environ={})
    assert str(path) in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("root", "message", "hint"),
    [("no where", "does not exist", "Mount it"), ("config.toml", "is not a folder", "correct that file")],
)
def test_root_that_is_no_folder_is_named_with_its_file(tmp_path: Path, root: str, message: str, hint: str) -> None:
    """It may be on a disk that is not there just now, so making a new one is not the only advice."""
    path = config(tmp_path, f'[memsync]\nroot = "{root}"\n')
    with pytest.raises(RootError, match=message) as caught:
        load_settings(config=path, environ={})
    assert str(path) in caught.value.message
    assert hint in caught.value.hint


def test_broken_toml_names_the_line(tmp_path: Path) -> None:
    """The parser's own position is passed on."""
    with pytest.raises(ConfigError, match="line 2"):
        load_settings(config=config(tmp_path, "[memsync]\nroot = \n"), environ={})


def test_unknown_variables_are_warned_of_and_ill_typed_ones_refused(tmp_path: Path) -> None:
    """A typo in the environment must not be silent either; but the variable may be another program's."""
    path = config(tmp_path, '[memsync]\nroot = "."\n')
    settings = load_settings(config=path, environ={"MEMSYNC_SERCH_LIMIT": "3"})
    (warning,) = settings.warnings
    assert warning.startswith("MEMSYNC_SERCH_LIMIT is ignored: it is not a setting.")
    assert "Did you mean MEMSYNC_SEARCH_LIMIT?" in warning
    assert settings["search.limit"] == 10
    with pytest.raises(ConfigError, match='a whole number, not "many"'):
        load_settings(config=path, environ={"MEMSYNC_SEARCH_LIMIT": "many"})


def test_root_that_is_no_path_is_refused(tmp_path: Path) -> None:
    """An unknown user's home, a NUL: messages, not tracebacks."""
    for root in ("~nosuchuser/x", "a\\u0000b"):
        with pytest.raises(ConfigError):
            load_settings(config=config(tmp_path, f'[memsync]\nroot = "{root}"\n'), environ={})


def test_opening_a_root_ignores_a_config_that_names_another(tmp_path: Path) -> None:
    """`--root` and Memory.open take a folder's own config only."""
    config(tmp_path, '[memsync]\nroot = "one"\n[search]\nlimit = 3\n')
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    assert load_settings(root=tmp_path / "one", environ={})["search.limit"] == 3
    assert load_settings(root=tmp_path / "two", environ={})["search.limit"] == 10


def test_project_config_shows_every_setting_with_its_default() -> None:
    """The config.toml at the top of the project is the reference; it may not drift."""
    text = (PROJECT / "config.toml").read_text()
    tables: dict[str, str] = dict.fromkeys(("kinds", "tiers"), "")
    table = ""
    for line in text.splitlines():
        if line.startswith("["):
            table = line.strip("[]")
        elif "=" in line and table not in tables:
            key = line.lstrip("# ").split("=")[0].strip()
            tables[f"{table}.{key}"] = line
    import tomllib

    for setting in SETTINGS:
        assert setting.name in tables, setting.name
        if setting.name == "memsync.root":
            continue
        written = tables[setting.name].lstrip("# ").split("=", 1)[1]
        assert tomllib.loads(f"x ={written}")["x"] == setting.default, setting.name
        assert setting.explanation in text, setting.name


@pytest.mark.parametrize(
    ("variable", "text", "value"),
    [
        ("MEMSYNC_SEARCH_LIMIT", "", 10),
        ("MEMSYNC_GIT_COMMIT", "", False),
        ("MEMSYNC_USAGE_COUNT", "", True),
        ("MEMSYNC_USAGE_COUNT", "0", False),
        ("MEMSYNC_USAGE_COUNT", "FALSE", False),
        ("MEMSYNC_GIT_COMMIT", "1", True),
        ("MEMSYNC_GIT_COMMIT", "True", True),
        ("MEMSYNC_SEARCH_MIN_SCORE", "0", 0.0),
        ("MEMSYNC_SEARCH_MIN_SCORE", "1", 1.0),
        ("MEMSYNC_FILES_EXCLUDE", "", []),
        ("MEMSYNC_FILES_EXCLUDE", "a/, b.md,,", ["a/", "b.md"]),
    ],
)
def test_empty_variables_are_as_unset_and_zero_is_a_value(
    tmp_path: Path, variable: str, text: str, value: object
) -> None:
    """`MEMSYNC_X= memsync` means the default; 0 means nought, or off, and not the default."""
    settings = load_settings(root=tmp_path, environ={variable: text})
    name = next(setting.name for setting in SETTINGS if setting.variable == variable)
    assert (settings[name], type(settings[name])) == (value, type(value))
    assert settings.sources[name] == (variable if text else "default")


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("MEMSYNC_SEARCH_LIMIT", "0"), ("MEMSYNC_PRUNE_TASK_DAYS", "0"),
        ("MEMSYNC_USAGE_COUNT", "no"), ("MEMSYNC_SEARCH_MIN_SCORE", "1.01"),
        ("MEMSYNC_SEARCH_MIN_SCORE", "-0.01"), ("MEMSYNC_SEARCH_MIN_SCORE", "nan"),
        ("MEMSYNC_SEARCH_LIMIT", "1.0"), ("MEMSYNC_SEARCH_LIMIT", " "),
    ],
)  # fmt: skip
def test_values_beyond_their_bounds_are_refused_by_variable(tmp_path: Path, variable: str, text: str) -> None:
    """With the variable's name, and the value as it was written."""
    with pytest.raises(ConfigError, match=variable):
        load_settings(root=tmp_path, environ={variable: text})


def test_empty_memsync_config_and_root_are_as_unset(tmp_path: Path) -> None:
    """The file that is found upwards counts then."""
    config(tmp_path, '[memsync]\nroot = "."\n[search]\nlimit = 3\n')
    settings = load_settings(environ={"MEMSYNC_CONFIG": "", "MEMSYNC_ROOT": ""}, cwd=tmp_path)
    assert (settings["search.limit"], settings.root) == (3, tmp_path)


@pytest.mark.parametrize("named", ["", "relative/state"])
def test_state_folder_that_is_no_absolute_path_is_the_usual_one(tmp_path: Path, monkeypatch: Patch, named: str) -> None:
    """As the XDG rules say: the index never lands in the folder one happens to be in."""
    monkeypatch.setenv("XDG_STATE_HOME", named)
    monkeypatch.chdir(tmp_path)
    assert load_settings(root=tmp_path, environ={}).index_dir.is_relative_to(tmp_path / "home")


def test_command_of_a_daemon_names_what_decided(tmp_path: Path) -> None:
    """The file, where one was named; the root, unless that file alone says which it is."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    path = tmp_path / "config.toml"
    path.write_text(f'[memsync]\nroot = "{tmp_path / "one"}"\n')

    def options(environ: Mapping[str, str] = MappingProxyType({}), **given: Any) -> list[str]:
        return list(load_settings(environ=environ, cwd=tmp_path, **given).options)

    one, two = ["--root", str(tmp_path / "one")], ["--root", str(tmp_path / "two")]
    named = ["--config", str(path)]
    assert options() == one
    assert options(config=path) == named
    assert options(config=path, root=tmp_path / "two") == [*named, *two]
    assert options(config=path, environ={"MEMSYNC_ROOT": str(tmp_path / "two")}) == [*named, *two]
    assert options(root=tmp_path / "two") == two


@pytest.mark.parametrize(
    ("path", "folder", "is_in_it"),
    [("/a", "/", True), ("/a", "/a", True), ("/a/b", "/a", True), ("/ab", "/a", False), ("/", "/a", False)],
)
def test_place_in_a_folder_is_told_by_whole_names(path: str, folder: str, is_in_it: bool) -> None:
    """Of the root of all folders, too."""
    assert is_inside(path, folder) is is_in_it


def test_config_file_that_names_no_root_is_named(tmp_path: Path) -> None:
    """Nobody looks for a file that was found."""
    path = config(tmp_path, "[memsync]\n[search]\nlimit = 4\n")
    with pytest.raises(ConfigError, match="does not set a memory root") as caught:
        load_settings(environ={}, cwd=tmp_path)
    assert str(path) in caught.value.message


def test_an_unknown_backend_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    """Nothing is created for it."""
    settings = load_settings(
        root=tmp_path, environ={"MEMSYNC_INDEX_BACKEND": "clay", "XDG_STATE_HOME": f"{tmp_path}/s"}
    )
    with pytest.raises(ConfigError, match=r"index\.backend is 'clay'") as error:
        make_index(settings)
    assert "sqlite" in error.value.hint
    assert not settings.index_dir.exists()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "[agents]\n{}"),
        ("# mine\n[search]\nlimit = 5\n", "# mine\n[search]\nlimit = 5\n\n[agents]\n{}"),
        ("# mine", "# mine\n\n[agents]\n{}"),
        (
            "[agents] # c\nnotes = 'off'\noff = ['/x']\n[search]\nlimit = 5\n",
            "[agents] # c\n{}off = ['/x']\n[search]\nlimit = 5\n",
        ),
        ("[agents]\nnotes = [\n'a',\n]\n", None),
        ("agents.notes = 'off'\n", None),
        ("[agents\n", None),
    ],
)
@pytest.mark.parametrize("is_link", [False, True])
def test_value_is_set_in_the_users_own_file(before: str, after: str | None, is_link: bool, tmp_path: Path) -> None:
    """Nothing else of the file changes; what cannot be changed line by line is not changed."""
    path = Path(config_folder(), "config.toml")
    path.parent.mkdir(parents=True, exist_ok=True)
    if is_link:  # to where the user keeps settings
        path.symlink_to(tmp_path / "kept.toml")
    path.write_text(before)
    values = {"notes": ["claude", "-p"], "notes_remote": True}
    with nullcontext() if after is not None else pytest.raises(ConfigError, match="cannot be changed"):
        set_in_user_file("agents", values)
    assert path.is_symlink() == is_link
    assert path.read_text() == (
        before if after is None else after.format('notes = ["claude", "-p"]\nnotes_remote = true\n')
    )
