"""What a config file may decide: everything if the user named or trusted it, nothing that leads anywhere otherwise."""

from __future__ import annotations

import errno
import grp
import hashlib
import json
import os
import pwd
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from memsync import Memory
from memsync.edit.note_paths import folder_of
from memsync.errors import ConfigError, FilesystemError, WriteRefused
from memsync.model.vocabulary import NotePath
from memsync.settings.config_file import parse_config
from memsync.settings.config_trust import HARMLESS, trust
from memsync.settings.load import Settings, load_settings
from memsync.settings.settings_list import DSN, SETTINGS
from memsync.system.state_file import state_of_user
from memsync.system.user_folders import STATE, config_folder, own_folder, user_folder
from tests.conftest import Patch
from tests.support.daemon_process import Cli

VALUES = {
    "files.suffixes": '[".env"]', "index.backend": '"other"', "index.name": '"other"', "index.store_text": "true",
    "embedder.model": '"openai:text-embedding-3-small"',
    "search.rerank_model": '"BAAI/bge-reranker-v2-m3"', "search.min_score": "1.0", "usage.queries": "true",
    "git.commit": "true", "curator.command": '["claude", "-p"]', "curator.judge": '["claude", "-p"]',
    "curator.nightly": "true", "daemon.autostart": '"always"', "agents.roots": '["all"]', "agents.off": '["/"]',
    "agents.notes": '["claude", "-p"]', "agents.notes_remote": "true", "agents.notes_sessions": "9999",
    "agents.notes_tokens": "999999999", "agents.keep_raw": "true", "cli.open_with": '"evil://{path}"',
}  # fmt: skip
LEADS_SOMEWHERE = {name: "[{}]\n{} = {}\n".format(*name.split("."), value) for name, value in VALUES.items()}


def config(folder: Path, text: str = "", root: str = ".") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.toml"
    path.write_text(f'[memsync]\nroot = "{root}"\n{text}')
    return path


def found(folder: Path) -> Settings:
    return load_settings(environ={}, cwd=folder)


def test_every_setting_is_harmless_or_known_to_lead_somewhere() -> None:
    """A new setting needs trust until somebody has thought about it."""
    assert {setting.name for setting in SETTINGS} - HARMLESS == {*LEADS_SOMEWHERE, "memsync.root", DSN}
    assert {setting.name for setting in SETTINGS} > HARMLESS


def test_connection_string_comes_from_the_user_alone(tmp_path: Path) -> None:
    """Neither a found file, trusted or not, nor a named one in the memory root may have it: both can be in a clone."""
    secret = "[index]\ndsn = 'postgresql://me:secret@db/memories'\n"
    path = config(tmp_path / "clone", secret)
    for named, reason in (({}, "found this file by itself"), ({"config": path}, f"in the memory root {path.parent}")):
        with pytest.raises(ConfigError, match=rf"index\.dsn may not be set here, because .*{reason}") as caught:
            load_settings(**named, environ={}, cwd=path.parent)
        assert "secret" not in str(caught.value)
    trust(parse_config(str(path)), {DSN: "postgresql://me:secret@db/memories"})
    with pytest.raises(ConfigError, match=r"index\.dsn may not be set"):
        found(path.parent)
    path.write_text("")
    assert load_settings(root=path.parent, environ={"MEMSYNC_INDEX_DSN": "postgresql://x"})[DSN] == "postgresql://x"
    config(tmp_path / "config" / "memsync", secret, root=str(path.parent))
    assert found(path.parent)[DSN] == "postgresql://me:secret@db/memories"


def test_named_file_outside_of_the_memory_root_may_have_the_connection_string(tmp_path: Path) -> None:
    """It must name the root: a file without one stands for its own folder, which is then the root it comes with."""
    notes = tmp_path / "notes"
    notes.mkdir()
    secret = "[index]\ndsn = 'postgresql://me:secret@db/memories'\n"
    path = config(tmp_path / "elsewhere", secret, root=str(notes))
    assert load_settings(config=path, environ={})[DSN] == "postgresql://me:secret@db/memories"
    path.write_text(secret)
    with pytest.raises(ConfigError, match=f"(?m)in the memory root {path.parent}$") as caught:
        load_settings(config=path, root=notes, environ={})
    assert "root under [memsync]" in caught.value.hint


@pytest.mark.parametrize("by_variable", [False, True])
def test_file_in_the_memory_root_in_use_has_no_connection_string_whatever_root_it_names(
    tmp_path: Path, by_variable: bool
) -> None:
    """A clone could name another folder as its root, so that its config file would seem to be outside."""
    secret = "[index]\ndsn = 'postgresql://me:secret@db/memories'\n"
    path = config(tmp_path / "clone", secret, root=str(tmp_path / "clone" / "sub"))
    environ, root = ({"MEMSYNC_ROOT": str(path.parent)}, None) if by_variable else ({}, path.parent)
    with pytest.raises(ConfigError, match=f"(?m)in the memory root {path.parent}$"):
        load_settings(config=path, root=root, environ=environ)


@pytest.mark.parametrize("name", LEADS_SOMEWHERE)
@pytest.mark.parametrize("above", [False, True])
def test_found_file_does_not_decide_what_leads_somewhere(tmp_path: Path, name: str, above: bool) -> None:
    """Whether it is in the memory root or above it; the message names the line, the hint all ways out."""
    path = config(tmp_path, LEADS_SOMEWHERE[name], root="notes" if above else ".")
    (tmp_path / "notes").mkdir()
    with pytest.raises(ConfigError, match=rf"config.toml: {name} ") as caught:
        found(tmp_path)
    assert f"memsync trust {path}" in caught.value.hint
    assert "MEMSYNC_" in caught.value.hint
    with pytest.raises(ConfigError, match=name):
        load_settings(root=tmp_path / "notes" if above else tmp_path, environ={})


@pytest.mark.parametrize("name", LEADS_SOMEWHERE)
def test_user_decides_by_command_line_environment_or_own_file(tmp_path: Path, monkeypatch: Patch, name: str) -> None:
    """Each of the three is the user's own word."""
    monkeypatch.chdir(tmp_path)
    text = LEADS_SOMEWHERE[name]
    path = config(tmp_path / "clone", text)
    default = {setting.name: setting.default for setting in SETTINGS}[name]
    assert load_settings(config=path, environ={})[name] != default
    assert load_settings(environ={"MEMSYNC_CONFIG": str(path)}, cwd="/")[name] != default
    variable = next(setting.variable for setting in SETTINGS if setting.name == name)
    assert load_settings(environ={variable: VALUES[name].strip('"')}, cwd=path.parent)[name] != default
    config(tmp_path / "config" / "memsync", text.replace("../app", "app"), root=str(path.parent))
    path.write_text('[other]\ntitle = "no memory"\n')
    assert found(tmp_path)[name] != default


def test_default_written_out_needs_no_trust(tmp_path: Path) -> None:
    """A file that says what holds anyway leads nowhere."""
    config(tmp_path, '[git]\ncommit = false\n[index]\nname = ""\n[embedder]\nmodel = "minilm"\n')
    assert found(tmp_path)["git.commit"] is False


def test_found_file_cannot_undo_what_the_user_decided(tmp_path: Path) -> None:
    """The user's own model stays; a clone that names the default again is refused, not followed."""
    config(tmp_path / "config" / "memsync", '[embedder]\nmodel = "openai:mine"\n', root=str(tmp_path / "mine"))
    config(tmp_path / "clone")
    assert found(tmp_path / "clone")["embedder.model"] == "openai:mine"
    config(tmp_path / "clone", '[embedder]\nmodel = "minilm"\n')
    with pytest.raises(ConfigError, match=r"embedder\.model"):
        found(tmp_path / "clone")


def test_a_root_behind_a_link_is_the_folder_that_was_judged(tmp_path: Path) -> None:
    """`..` after a link leads above the link's target, not above the link, which may be outside of the clone."""
    (tmp_path / "clone" / "x" / "y").mkdir(parents=True)
    (tmp_path / "clone" / "link").symlink_to("x/y")
    config(tmp_path / "clone", root="link/..")
    assert found(tmp_path / "clone").root == tmp_path / "clone" / "x"
    config(tmp_path / "clone", root="link/../../..")
    with pytest.raises(ConfigError, match="needs your trust"):
        found(tmp_path / "clone")


@pytest.mark.parametrize("root", ["..", "../private", "{tmp}/private", "link", "inner/../../private", "~"])
def test_found_file_names_no_root_outside_its_folder(tmp_path: Path, monkeypatch: Patch, root: str) -> None:
    """Neither above nor beside it, nor through a link that came along."""
    (tmp_path / "private").mkdir()
    (tmp_path / "clone" / "inner").mkdir(parents=True)
    (tmp_path / "clone" / "link").symlink_to(tmp_path / "private")
    (tmp_path / "home").mkdir()
    path = config(tmp_path / "clone", root=root.format(tmp=tmp_path))
    with pytest.raises(ConfigError, match=r"config.toml: memsync.root "):
        found(tmp_path / "clone")
    assert load_settings(config=path, environ={}).root != tmp_path / "clone"


def test_trust_holds_for_one_file_with_these_settings(cli: Cli, tmp_path: Path) -> None:
    """Printed is what the file decides now; a changed setting or a copied file asks again; trust can be taken back."""
    path = config(tmp_path / "clone", LEADS_SOMEWHERE["git.commit"])
    assert cli("config", "show", cwd=path.parent).returncode == 3
    trusted = cli("trust", cwd=path.parent)
    assert (trusted.returncode, "git.commit = true" in trusted.stdout, str(path) in trusted.stdout) == (0, True, True)
    assert found(path.parent)["git.commit"] is True
    assert json.loads(cli("trust", "--list", "--json", cwd=path.parent).stdout) == {"trusted": [str(path)]}

    copy = config(tmp_path / "copy", LEADS_SOMEWHERE["git.commit"])
    with pytest.raises(ConfigError, match=r"git\.commit"):
        found(copy.parent)
    path.write_text(path.read_text() + LEADS_SOMEWHERE["cli.open_with"])
    with pytest.raises(ConfigError, match=r"needs your trust"):
        found(path.parent)

    cli("trust", str(path), cwd=tmp_path)
    assert found(path.parent)["git.commit"] is True
    assert "not trusted any more" in cli("trust", "--revoke", str(path), cwd=tmp_path).stdout
    with pytest.raises(ConfigError, match=r"git\.commit"):
        found(path.parent)


def test_edit_of_what_needs_no_trust_keeps_it(cli: Cli, tmp_path: Path) -> None:
    """A comment, another order, a harmless setting, a pattern more, and one risky setting less; no risky value."""
    model, exclude = '[embedder]\nmodel = "openai:x"\n', "[files]\nexclude = ['old/']\n"
    private = "[privacy]\nlocal_only = ['diary/']\n"
    path = config(tmp_path / "clone", model + exclude + private + LEADS_SOMEWHERE["git.commit"])
    assert cli("trust", str(path), cwd=tmp_path).returncode == 0
    more = private.replace("'diary/'", "'diary/', 'mail/'")
    for text in (
        f"# a comment\n{private}{model}{exclude}[search]\nlimit = 3\n[kinds]\n'/log/' = 'daily'\n",
        model + more + exclude.replace("'old/'", "'old/', 'older/'"),
    ):
        config(tmp_path / "clone", text)
        assert found(path.parent)["embedder.model"] == "openai:x"
    for text in (
        model.replace("x", "y") + exclude + private,
        model + exclude,
        model + private,
        model + private + exclude.replace("'old/'", "'old/', '!old/a.md'"),
        model + exclude + private + LEADS_SOMEWHERE["agents.keep_raw"],
    ):
        config(tmp_path / "clone", text)
        with pytest.raises(ConfigError, match="needs your trust"):
            found(path.parent)


def test_a_root_cannot_take_back_what_its_user_excludes(tmp_path: Path) -> None:
    """Its own patterns come first, so that none of them lets a file in again."""
    own = Path(config_folder(), "config.toml")
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text("[files]\nexclude = ['private/']\n")
    for given in ("[]", "['!private/']", "['build/']"):
        config(tmp_path / "clone", f"[files]\nexclude = {given}\n")
        assert found(tmp_path / "clone")["files.exclude"][-1] == "private/"


def test_trust_in_a_root_is_for_the_folder_that_it_was(cli: Cli, tmp_path: Path) -> None:
    """A link that leads elsewhere later is another root."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "clone").mkdir()
    link = tmp_path / "clone" / "notes"
    link.symlink_to(tmp_path / "one")
    path = config(tmp_path / "clone", root="notes")
    cli("trust", str(path), cwd=tmp_path)
    assert found(path.parent).root == tmp_path / "one"
    link.unlink()
    link.symlink_to(tmp_path / "two")
    with pytest.raises(ConfigError, match=r"memsync\.root needs your trust"):
        found(path.parent)


def test_trust_is_not_given_to_what_is_wrong(cli: Cli, tmp_path: Path) -> None:
    """No file, an unknown setting, a file that others may change: nothing is trusted."""
    missing = cli("trust", "nowhere.toml", cwd=tmp_path)
    assert (missing.returncode, "no such file" in missing.stderr) == (3, True)
    path = config(tmp_path / "clone", "[git]\ncomit = true\n")
    assert "Did you mean commit?" in cli("trust", str(path), cwd=tmp_path).stderr
    config(tmp_path / "clone", LEADS_SOMEWHERE["git.commit"])
    path.chmod(0o666)
    assert "every user can change it" in cli("trust", str(path), cwd=tmp_path).stderr
    assert cli("trust", "--list", cwd=tmp_path).stdout == ""


def test_damaged_record_of_trust_ends_the_command(cli: Cli, tmp_path: Path) -> None:
    """Other settings would lead to another index. Without the file, the user can trust again."""
    path = config(tmp_path / "clone", LEADS_SOMEWHERE["git.commit"])
    cli("trust", str(path), cwd=tmp_path)
    for file in Path(user_folder()).iterdir():
        file.unlink()
    Path(user_folder(), STATE).write_text("damaged " * 100)
    with pytest.raises(FilesystemError, match=f"{STATE} is damaged"):
        found(path.parent)
    state_of_user().path.unlink()
    with pytest.raises(ConfigError, match=r"git\.commit"):
        found(path.parent)
    cli("trust", str(path), cwd=tmp_path)
    assert found(path.parent)["git.commit"] is True


@pytest.mark.parametrize("how", ["everybody", "group", "owner", "link"])
def test_found_file_that_another_can_change_is_ignored_with_a_warning(cli: Cli, tmp_path: Path, how: str) -> None:
    """A shared folder above may hold one; the next file upwards counts."""
    config(tmp_path, "[search]\nlimit = 3\n", root="shared/notes")
    path = config(tmp_path / "shared", "[search]\nlimit = 4\n", root="notes")
    (tmp_path / "shared" / "notes").mkdir()
    if how == "everybody":
        path.chmod(0o646)
    elif how == "group":
        if os.geteuid() != 0:
            pytest.skip("giving a file to another group needs root")
        os.chown(path, -1, 12_345)
        path.chmod(0o664)
    elif how == "owner":
        if os.geteuid() != 0:
            pytest.skip("giving a file to another user needs root")
        os.chown(path, 12_345, -1)
    else:
        target = path.rename(tmp_path / "shared" / "real.toml")
        path.symlink_to(target)
    settings = found(tmp_path / "shared" / "notes")
    assert settings["search.limit"] == 3
    assert [str(path) in warning for warning in settings.warnings] == [True]
    shown = cli("config", "show", cwd=tmp_path / "shared" / "notes")
    assert (shown.returncode, "is ignored" in shown.stderr) == (0, True)
    with Memory.open(tmp_path / "shared" / "notes") as memory:
        assert [warning.path for warning in memory.status().warnings] == ["(settings)"]


@pytest.mark.parametrize("how", ["everybody", "owner"])
def test_own_file_that_another_can_change_is_ignored_with_a_warning(cli: Cli, tmp_path: Path, how: str) -> None:
    """It decides even what leads somewhere, whoever wrote it."""
    path = tmp_path / "config/memsync/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text("[git]\ncommit = true\n")
    shown = ("--root", str(cli.root), "config", "show")
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    assert str(path) in cli(*shown, cwd=tmp_path, environ=environ).stdout
    if how == "everybody":
        path.chmod(0o646)
    elif os.geteuid() == 0:
        os.chown(path, 12_345, -1)
    else:
        pytest.skip("giving a file to another user needs root")
    done = cli(*shown, cwd=tmp_path, environ=environ)
    assert str(path) not in done.stdout
    assert f"{path} is ignored" in done.stderr


def test_file_of_the_users_private_group_is_the_users(tmp_path: Path) -> None:
    """Many systems create files with mode 664 for a group that has one member."""
    path = config(tmp_path, "[search]\nlimit = 4\n")
    path.chmod(0o664)
    group, user = grp.getgrgid(os.getgid()), pwd.getpwuid(os.getuid())
    if group.gr_name != user.pw_name:
        pytest.skip("this user has no group of their own")
    assert found(tmp_path)["search.limit"] == 4


@pytest.mark.parametrize("kind", ["link", "hard link"])
def test_links_in_an_index_folder_lead_nowhere(cli: Cli, tmp_path: Path, kind: str) -> None:
    """As in a state folder that came with a clone: what is named like memsync's files may be a link to the user's."""
    victim = tmp_path / "victim.txt"
    victim.write_text("mine")
    cli.settings.index_dir.mkdir(parents=True, mode=0o700)
    for name in ("daemon.log", "daemon.lock", "index.db", "sync.lock"):
        file = cli.settings.index_dir / name
        file.symlink_to(victim) if kind == "link" else os.link(victim, file)
    for command in (["search", "x"], ["sync"], ["index", "rebuild"], ["daemon", "start"], ["daemon", "watch"]):
        done = cli(*command)
        assert (done.returncode != 0, "is a link" in done.stderr) == (True, True), command
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_thing_named_like_a_config_file_is_passed_over(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A FIFO would never answer."""
    config(tmp_path, root="notes")
    (tmp_path / "notes").mkdir()
    make(tmp_path / "notes" / "config.toml")
    assert found(tmp_path / "notes").root == tmp_path / "notes"


def test_state_folders_are_private_from_the_top(cli: Cli, tmp_path: Path) -> None:
    """Whoever made them, and however open they were."""
    (tmp_path / "state" / "memsync").mkdir(parents=True, mode=0o755)
    (cli.root / "a.md").write_text("alpha")
    assert cli("sync").returncode == 0
    assert cli("log", "x").returncode == 0
    folders = [path for path in (tmp_path / "state" / "memsync").rglob("*") if path.is_dir()]
    assert len(folders) >= 4
    assert {stat.S_IMODE(path.stat().st_mode) for path in (*folders, tmp_path / "state" / "memsync")} == {0o700}


def test_state_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    """What is in it cannot be believed."""
    if os.geteuid() != 0:
        pytest.skip("giving a folder to another user needs root")
    folder = tmp_path / "state" / "memsync" / "notes"
    folder.mkdir(parents=True)
    os.chown(folder, 12_345, -1)
    with pytest.raises(FilesystemError, match="belongs to another user"):
        own_folder(folder)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("planted", ["memsync", "memsync/kept", "memsync/kept/notes"])
def test_a_planted_link_as_state_folder_is_refused(tmp_path: Path, planted: str) -> None:
    """Whoever made it would choose the folder that memsync writes to; nothing there changes."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    elsewhere.chmod(0o755)  # because a umask would change the mode that mkdir gives
    link = tmp_path / "state" / planted
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere)
    with pytest.raises(FilesystemError, match="is a link"):
        own_folder(tmp_path / "state/memsync/kept/notes")
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o755
    assert list(elsewhere.iterdir()) == []


def test_names_of_state_folders_cannot_be_forged(tmp_path: Path) -> None:
    """They end in the SHA-256 of the root's path, cut to 128 bits; a root with a long name has folders, too."""
    for name in ("notes", "n" * 255, "a b"):
        (tmp_path / name).mkdir()
        settings = load_settings(root=tmp_path / name, environ={})
        digest = hashlib.sha256(os.fsencode(tmp_path / name)).hexdigest()[:32]
        expected = f"{name[:40]}-{digest}".replace(" ", "_")
        assert [os.path.basename(path) for path in (settings.index_name, settings.keep_dir)] == [expected, expected]


def test_file_that_is_ignored_is_named_where_no_other_counts(cli: Cli, tmp_path: Path) -> None:
    """Otherwise its owner would look for a file that is there."""
    path = config(tmp_path / "lone")
    path.chmod(0o666)
    done = cli("sync", cwd=path.parent)
    assert done.returncode == 3
    assert f"{path} is ignored: every user can change it" in done.stderr


def test_refusal_says_each_way_out_on_a_line_of_its_own(cli: Cli, tmp_path: Path) -> None:
    """It is the first thing that who clones a memory may see."""
    path = config(tmp_path / "clone", LEADS_SOMEWHERE["git.commit"])
    lines = cli("sync", cwd=path.parent).stderr.splitlines()
    assert [line.split(":")[0].split(" ")[2] for line in lines[1:]] == ["Read", "Or"]
    assert "\\n" not in "".join(lines)


def test_file_system_without_access_lists_is_no_obstacle(tmp_path: Path, monkeypatch: Patch) -> None:
    """Some say so by an error; a group-writable file is then judged by its group alone."""

    def unsupported(path: str) -> list[str]:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(os, "listxattr", unsupported)
    path = config(tmp_path, "[search]\nlimit = 4\n")
    path.chmod(0o664)
    settings = load_settings(root=tmp_path, environ={}, cwd=tmp_path)
    assert settings["search.limit"] == (4 if not settings.warnings else 10)


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/null")])
def test_only_a_file_is_trusted(cli: Cli, tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A FIFO would never answer, and a link would not be used."""
    make(tmp_path / "config.toml")
    done = cli("trust", str(tmp_path / "config.toml"), cwd=tmp_path)
    assert (done.returncode, "it is a link or no file" in done.stderr) == (3, True)


@pytest.mark.parametrize(
    "pattern",
    ["/../elsewhere/", "../elsewhere/", "..", "/a/../../elsewhere/", "//elsewhere/", "/./", "/.git/", "/.git/hooks/",
     "/a\\u202eb/"],
)  # fmt: skip
def test_no_kind_leads_the_log_out_of_the_notes(cli: Cli, tmp_path: Path, pattern: str) -> None:
    """[kinds] says in which folder logs are; a found file may say so, too, but only of folders that have notes."""
    root = tmp_path / "clone/notes"
    root.mkdir(parents=True)
    (root / "config.toml").write_text(f'[memsync]\nroot = "."\n[kinds]\n"{pattern}" = "daily"\n')
    around = {path for path in tmp_path.rglob("*") if not path.is_relative_to(root)}
    logged = cli("log", "the heron nests", cwd=root, environ={"XDG_STATE_HOME": str(tmp_path / "state")})
    assert logged.stdout.startswith("daily/"), logged.stderr
    assert [path.parent.name for path in root.rglob("*.md")] == ["daily"]
    assert {path for path in (tmp_path / "clone").rglob("*") if not path.is_relative_to(root)} <= around


@pytest.mark.parametrize("path", ["../x.md", "a/../../x.md", "./x.md", "a//x.md", "/etc/x.md"])
def test_nothing_is_written_outside_of_the_root_whoever_names_it(tmp_path: Path, path: str) -> None:
    """The last look at a path is where its folder is opened."""
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    with pytest.raises(WriteRefused, match="not a path under the memory root"), folder_of(root, NotePath(path)):
        pass
