"""`memsync init`: a new memory root, or an adopted one; nothing is ever overwritten."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from memsync import Memory
from memsync.errors import RootError, WriteRefused
from memsync.features.scaffold import create_root
from memsync.settings.load import load_settings
from memsync.system import clock
from tests.support.daemon_process import Cli


def test_new_root_has_templates_and_can_be_searched(tmp_path: Path) -> None:
    """init, sync, search: the first minute."""
    made = create_root(tmp_path / "new")
    assert {"SOUL.md", "MEMORY.md", "preferences.md", ".gitignore", ".gitattributes", "config.toml"} <= set(
        made.created
    )
    assert "daily/*.md merge=union" in (made.root / ".gitattributes").read_text()
    assert load_settings(environ={}, cwd=made.root).root == made.root
    with Memory.open(made.root) as memory:
        memory.log("The heron nests.")
        assert memory.search("heron", mode="keyword").hits[0].kind == "daily"
        assert memory.status().warnings == ()


def test_unedited_templates_are_no_hits_and_enter_no_context(tmp_path: Path) -> None:
    """What `init` wrote is found once somebody has edited it; a prompt takes effect as it is."""
    made = create_root(tmp_path / "new")
    (made.root / "heron.md").write_text("The heron made a decision about people, patterns and language.\n")
    with Memory.open(made.root) as memory:
        found = memory.search("soul name voice decisions people patterns language made with init", limit=50)
        assert {hit.path for hit in found.hits} <= {"heron.md", "prompts/assistant.md"}
        assert [part.name for part in memory.context("heron").parts] == ["prompts", "hits"]
        assert len(memory.notes().notes) == 6
        (made.root / "SOUL.md").write_text((made.root / "SOUL.md").read_text().replace("Name:", "Name: Ada"))
        assert "SOUL.md" in {hit.path for hit in memory.search("name ada", mode="keyword").hits}
        assert memory.context().parts[0].name == "soul"


def test_folder_with_notes_gets_only_what_is_missing(tmp_path: Path) -> None:
    """No template is put beside somebody's notes, and no file of theirs is touched."""
    (tmp_path / "mine.md").write_text("mine")
    (tmp_path / ".gitignore").write_text("theirs")
    made = create_root(tmp_path)
    assert (made.created, made.kept, made.notes) == ((".gitattributes", "config.toml"), (".gitignore",), 1)
    assert (tmp_path / ".gitignore").read_text() == "theirs"
    assert sorted(path.name for path in tmp_path.glob("*.md")) == ["mine.md"]


def test_init_twice_changes_nothing(tmp_path: Path) -> None:
    """The second run keeps every file."""
    first = create_root(tmp_path / "new")
    before = {path: path.read_bytes() for path in first.root.rglob("*") if path.is_file()}
    second = create_root(first.root)
    assert second.created == ()
    assert before == {path: path.read_bytes() for path in first.root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["daily", "prompts"])
def test_init_writes_no_template_behind_a_link(tmp_path: Path, name: str) -> None:
    """A clone without notes may bring folders that lead elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    root = tmp_path / "clone"
    root.mkdir()
    (root / name).symlink_to(elsewhere)
    with pytest.raises(WriteRefused, match=f"{name} is a symbolic link"):
        create_root(root)
    assert list(elsewhere.iterdir()) == []


def test_init_on_a_file_is_refused(tmp_path: Path) -> None:
    """A file is no root."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(RootError, match="is not a folder"):
        create_root(tmp_path / "file")


def test_init_of_the_home_folder_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody means to index everything they have."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for folder in (tmp_path, Path("/")):
        with pytest.raises(RootError, match="too much"):
            create_root(folder)


def test_config_of_another_program_is_left_alone_and_the_root_works(cli: Cli, root: Path, tmp_path: Path) -> None:
    """A site's config.toml stays as it is; the root is found from its folder and below, and no copy of it is one."""
    site = 'title = "A site"\n'
    (root / "content").mkdir()
    (root / "config.toml").write_text(site)
    (root / "content/heron.md").write_text("A heron.")
    assert cli("sync", cwd=root).returncode == 3
    made = cli("init", ".", cwd=root)
    assert "config.toml belongs to another program" in made.stdout
    assert "Next: memsync sync" in made.stdout and "memsync agents connect" in made.stdout
    assert cli("sync", cwd=root).returncode == 0
    assert "heron.md" in cli("search", "heron", "--mode", "keyword", cwd=root / "content").stdout
    assert (root / "config.toml").read_text() == site
    shutil.copytree(root, tmp_path / "copy")
    assert cli("sync", cwd=tmp_path / "copy").returncode == 3
    (root / "content/config.toml").write_text('[memsync]\nroot = "."\n')
    assert f'"{root}/content"' in cli("config", "show", cwd=root / "content").stdout


def test_the_first_entry_has_the_time_of_day(tmp_path: Path) -> None:
    """It is no entry of the future, nor of nine o'clock."""
    before = clock.now()
    made = create_root(tmp_path / "new")
    (log,) = (made.root / "daily").iterdir()
    (time,) = re.findall(r"^- (\d\d:\d\d) This memory was made", log.read_text(), re.MULTILINE)
    assert f"{before:%Y-%m-%d %H:%M}" <= f"{log.stem} {time}" <= f"{clock.now():%Y-%m-%d %H:%M}"


def test_what_two_branches_append_is_kept_from_both(root: Path, git: Callable[..., str]) -> None:
    """Messages of a thread, items of MEMORY.md and entries of a day: a merge has no conflict and splits no message."""
    create_root(root)
    texts = {"ours": "First.\n\n- a\n- b\n\nLast of ours.", "theirs": "First.\n\n- c\n\nMore.\n\nLast of theirs."}
    with Memory.open(root) as memory:
        memory.new_thread("Talk")
        memory.append_message("talk", "user", "How do I begin?", time="2026-11-21 10:00")
        git("checkout", "-qb", "ours")
        git("add", ".")
        git("commit", "-qm", "base")
        git("branch", "theirs")
        for minute, (branch, text) in enumerate(texts.items(), 1):
            git("checkout", "-q", branch)
            memory.append_message("talk", "assistant", text, time=f"2026-11-21 10:0{minute}")
            memory.remember(f"what {branch} knows", section="Decisions")
            memory.log(f"what {branch} did", day="2026-11-21")
            git("add", ".")
            git("commit", "-qm", branch)
        git("merge", "-q", "-m", "merge", "ours")
        talk = memory.thread("talk")
        assert talk.warnings == ()
        assert sorted(message.text for message in talk.messages) == sorted(["How do I begin?", *texts.values()])
        for note, words in (("MEMORY.md", "knows"), ("daily/2026-11-21.md", "did")):
            text = memory.get(note).text
            assert all(f"what {branch} {words}" in text for branch in texts)
            assert "<<<<" not in text


def test_daily_notes_of_obsidian_are_logs(tmp_path: Path) -> None:
    """Init takes their folder from Obsidian's settings."""
    for name in ("2026-11-20 trip.md", "Notes/Days/2026/2026.11.18.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("- 10:02 saw a heron\n")
    (tmp_path / ".obsidian").mkdir()
    (tmp_path / ".obsidian" / "daily-notes.json").write_text('{"folder": "Notes/Days/", "format": "YYYY.MM.DD"}')
    made = create_root(tmp_path)
    assert made.logs == "Notes/Days" and '"/Notes/Days/" = "daily"' in (tmp_path / "config.toml").read_text()
    assert create_root(tmp_path).logs == ""
    with Memory.open(tmp_path) as memory:
        hits = memory.search("heron kind:daily", mode="keyword").hits
        assert {hit.date for hit in hits} == {"2026-11-18T10:02"}
        assert memory.log("one", day="2026-11-17").path.startswith("Notes/Days/")


WEEKDAYS = '{"folder": "Days", "format": "dddd, MMMM Do YYYY"}'
HOSTILE_FOLDERS = ("../out", "/", "a*", 'x\\" = 1', "a/../b", ".git", "!a", "a\\nb")


@pytest.mark.parametrize(
    "settings", ["[" * 5_000, "{}", WEEKDAYS, *(f'{{"folder": "{name}"}}' for name in HOSTILE_FOLDERS)]
)
def test_only_a_plain_folder_is_taken_from_a_strangers_settings(tmp_path: Path, settings: str) -> None:
    """Everything else, and names without a date, are as if Obsidian had no settings."""
    create_root(tmp_path / "plain")
    (tmp_path / "vault" / ".obsidian").mkdir(parents=True)
    (tmp_path / "vault" / ".obsidian" / "daily-notes.json").write_text(settings)
    assert create_root(tmp_path / "vault").logs == ""
    assert (tmp_path / "vault" / "config.toml").read_text() == (tmp_path / "plain" / "config.toml").read_text()
