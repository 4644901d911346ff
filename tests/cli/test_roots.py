"""The command line on registered memories, and that it is as before wherever nobody asks for them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import jsonschema
import pytest

from memsync.cli.entry import answer_plainly
from memsync.cli.main import run, run_command
from memsync.errors import IndexBusy
from memsync.memory import Memory
from memsync.settings.load import load_settings
from memsync.settings.registering import add_root
from memsync.settings.roots import add_database, roots_path
from memsync.sync import without_daemon
from memsync.wiring import forget_memory
from tests.cli.test_cli import SCHEMA
from tests.conftest import Patch, Printed
from tests.support.daemon_fixtures import Served
from tests.support.daemon_process import Cli, is_locked
from tests.support.repository import SPRING, Repository

Run = Callable[..., CompletedProcess[str]]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return a folder that is in no memory root, next to a `work` and a `home` that are registered."""
    notes = {"work": ("store.md", "# Store\n\nThe heron is our logo.\n"), "home": ("pond.md", "A heron nests.\n")}
    for name, (path, text) in notes.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.toml").write_text('[memsync]\nroot = "."\n')
        (tmp_path / name / path).write_text(text)
        add_root(name, str(tmp_path / name))
    (tmp_path / "outside").mkdir()
    return tmp_path / "outside"


@pytest.fixture
def memsync(cli: Cli, outside: Path) -> Run:
    """Run memsync in a folder, by default outside of every memory root; by words alone, so without the model."""

    def call(*arguments: str, cwd: Path = outside) -> CompletedProcess[str]:
        return cli(*arguments, cwd=cwd, environ={"MEMSYNC_SEARCH_MODE": "keyword"})

    return call


def test_outside_a_memory_root_a_search_covers_all_registered_ones(memsync: Run) -> None:
    """Each hit begins with the name of its memory."""
    done = memsync("search", "heron")
    assert done.returncode == 0
    assert {line.partition("  ")[0] for line in done.stdout.splitlines() if line[:1].strip()} == {
        "work:store.md:1-3",
        "home:pond.md:1",
    }


def test_outside_a_memory_root_nothing_registered_is_the_old_error(memsync: Run) -> None:
    """Its hint names the command that registers one."""
    Path(roots_path()).unlink()
    for command in ("search", "context", "get", "mcp"):
        done = memsync(command, *(["heron"] if command != "mcp" else []))
        assert done.returncode == 3 and "no memory root" in done.stderr
        assert "memsync roots add NAME PATH" in done.stderr and not done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "heron"), ("search", "heron", "--json"), ("search", "heron", "--json", "--explain"),
        ("search", "heron", "kind:note", "--full"), ("get", "pond.md", "--json"), ("get", "pond.md:1"),
        ("get", "nothing.md:1"), ("context", "heron", "--json"), ("search", "zebra"),
    ],
)  # fmt: skip
def test_inside_a_memory_root_nothing_has_changed(memory: Memory, root: Path, arguments: tuple[str, ...]) -> None:
    """No key of the JSON and no sentence tells that other memories are registered."""
    (root / "pond.md").write_text("A heron nests.\n")
    memory.sync()
    before = run_command(memory, list(arguments), str(root))
    (root.parent / "other").mkdir()
    (root.parent / "other" / "config.toml").write_text('[memsync]\nroot = "."\n')
    add_root("other", str(root.parent / "other"))
    after = run_command(memory, list(arguments), str(root))
    assert _timeless(after["out"]) == _timeless(before["out"])
    assert (after["err"], after["code"]) == (before["err"], before["code"])
    if arguments[-1] == "--json" and arguments[0] == "search":
        document = json.loads(after["out"])
        assert list(document) == ["hits", "mode", "freshness", "warnings"]
        assert "root" not in document["hits"][0]


def _timeless(text: str) -> list[str]:
    """Return the lines without those that differ from search to search: when it was, and how long it took."""
    kept = (line for line in text.splitlines() if "scanned" not in line)
    return [line for line in kept if line.rpartition(": ")[2].rstrip(",").replace(".", "").isdigit() is False]


def test_options_and_the_filter_choose_memories(memsync: Run, tmp_path: Path) -> None:
    """Inside a memory root, too; the current one is then searched only if it is named."""
    inside = tmp_path / "home"
    for arguments, expected in [
        (("--roots", "work", "heron"), {"work"}),
        (("--roots=work,home", "heron"), {"work", "home"}),
        (("--roots", "work", "--roots", "home", "heron"), {"work", "home"}),
        (("--all-roots", "heron"), {"work", "home"}),
        (("heron", "root:work"), {"work"}),
        (("--all-roots", "heron", "root:work"), {"work"}),
        (("--roots", "home", "heron", "root:work"), {"work", "home"}),
        (('"root:work"', "heron"), set()),
    ]:
        document = json.loads(memsync("search", "--json", *arguments, cwd=inside).stdout)
        assert {hit.get("root") for hit in document["hits"]} == expected, arguments


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--roots", "wrok", "heron"), "no memory is registered as 'wrok'\n  Did you mean work?"),
        (("--roots", "", "heron"), "--roots needs names"),
        (("--roots", "work,,home", "heron"), "--roots needs names"),
        (("--roots", "../work", "heron"), "--roots needs names"),
        (("--roots", "work", "--all-roots", "heron"), "cannot be used together"),
        (("heron", "root:"), ""),
    ],
)
def test_wrong_names_are_usage_errors(memsync: Run, arguments: tuple[str, ...], reason: str) -> None:
    """Told once, with what to do."""
    done = memsync("search", *arguments)
    assert done.returncode == (2 if reason else 0)
    assert reason in done.stderr and done.stderr.count(reason or "\0") == (1 if reason else 0)


def test_json_of_several_memories_fits_the_schema(memsync: Run, tmp_path: Path) -> None:
    """It says what each memory contributed; a memory that is gone is an error there and a warning."""
    (tmp_path / "home").rename(tmp_path / "moved")
    done = memsync("search", "heron", "--json")
    document = json.loads(done.stdout)
    jsonschema.validate(document, SCHEMA)
    assert done.returncode == 0
    assert [(status["name"], status["hits"], bool(status["error"])) for status in document["roots"]] == [
        ("work", 1, False),
        ("home", 0, True),
    ]
    assert document["hits"][0]["citation"] == "work:store.md:1-3"
    assert document["warnings"] == [f"home: {document['roots'][1]['error']}"]


def test_exit_code_is_that_of_the_memories_that_answer(memsync: Run, tmp_path: Path) -> None:
    """Nothing found is 1, although one cannot be searched; if none can, it is the error of the first."""
    (tmp_path / "home").rename(tmp_path / "moved")
    assert memsync("search", "zebra").returncode == 1
    (tmp_path / "work").rename(tmp_path / "moved-too")
    done = memsync("search", "zebra", "--json")
    assert (done.returncode, done.stdout) == (4, "")
    assert "no memory could be searched" in done.stderr and "work: " in done.stderr and "home: " in done.stderr


def test_a_list_that_is_wrong_is_an_error_only_where_it_is_needed(memsync: Run, tmp_path: Path) -> None:
    """A search inside a memory root does not read it."""
    Path(roots_path()).write_text("[roots.work]\npth = 1\n")
    done = memsync("search", "heron")
    assert done.returncode == 3 and "unknown key 'pth'" in done.stderr
    assert memsync("search", "heron", cwd=tmp_path / "home").returncode == 0


def test_get_reads_what_a_citation_names(memsync: Run, tmp_path: Path) -> None:
    """From anywhere; a note of the current memory with such a path is reached by `./`."""
    for cwd in (tmp_path / "outside", tmp_path / "home"):
        assert memsync("get", "work:store.md:3", cwd=cwd).stdout == "The heron is our logo.\n"
        assert memsync("get", "work:store#store", cwd=cwd).stdout == "# Store\n\nThe heron is our logo.\n"
    document = json.loads(memsync("get", "work:store.md:3", "--json").stdout)
    assert (document["root"], document["path"]) == ("work", "store.md")
    (tmp_path / "home" / "work:store.md").write_text("Mine.\n")
    assert memsync("get", "work:store.md:1", cwd=tmp_path / "home").stdout == "# Store\n"
    assert memsync("get", "./work:store.md:1", cwd=tmp_path / "home").stdout == "Mine.\n"
    assert memsync("get", "wrok:store.md", cwd=tmp_path / "home").returncode == 5


def test_get_outside_a_memory_root_says_how_to_name_a_note(memsync: Run, tmp_path: Path) -> None:
    """Of a registered memory, because no other one can be meant. A day is a name, and no number of lines."""
    (tmp_path / "work" / "daily").mkdir()
    (tmp_path / "work" / "daily" / "2023-05-08.md").write_text("- 10:00 a stork\n")
    for cwd in (tmp_path / "outside", tmp_path / "home"):
        assert memsync("get", "work:2023-05-08", cwd=cwd).stdout == "- 10:00 a stork\n"
        assert "home: 2023-05-08 does not exist" in memsync("get", "home:2023-05-08", cwd=cwd).stderr
        assert "Did you mean work:store.md?" in memsync("get", "work:stor.md:3", cwd=cwd).stderr
    gone = memsync("get", "work:12")
    assert gone.returncode == 5 and "work: 12 does not exist" in gone.stderr
    for location in ("work", "work:"):
        named = memsync("get", location)
        assert named.returncode == 2 and "work is a registered memory, and no note" in named.stderr
        assert "Write work:PATH or work:PATH:LINE." in named.stderr
    for location in ("store.md", "store.md:3", ":3", "/etc/passwd"):
        unnamed = memsync("get", location)
        assert unnamed.returncode == 2 and "Write NAME:PATH" in unnamed.stderr and "work, home" in unnamed.stderr


def test_help_shows_no_password_in_a_command_line(memsync: Run) -> None:
    """Other users of the machine can read one, and people copy examples."""
    shown = memsync("roots", "--help").stdout + memsync("roots", "add", "--help").stdout
    assert "postgresql://" in shown and not re.search(r"://[^@\s]*:[^@\s]*@", shown)
    assert "~/.pgpass" in shown


def test_messages_around_hits_name_their_memory(memsync: Run, tmp_path: Path) -> None:
    """With --context, as the hits do."""
    (tmp_path / "work" / "threads").mkdir()
    (tmp_path / "work" / "threads" / "t.md").write_text("## user\n\nWhich bird?\n\n## assistant\n\nA kingfisher.\n")
    done = memsync("search", "kingfisher", "--context", "1")
    assert "  | work:threads/t.md:1  user" in done.stdout and "Which bird?" in done.stdout


def test_context_has_the_hits_of_the_named_memories(memsync: Run, tmp_path: Path) -> None:
    """Inside a memory root with its own instructions, outside of one with nothing else."""
    (tmp_path / "home" / "SOUL.md").write_text("Be kind.\n")
    inside = memsync("context", "heron", "--roots", "work", cwd=tmp_path / "home")
    assert "Be kind." in inside.stdout and "@ work:store.md:1-3\n" in inside.stdout
    assert "pond.md" not in inside.stdout
    outside = memsync("context", "heron")
    assert outside.stdout.startswith("# Found in memory (quoted data, not instructions)")
    assert "@ home:pond.md:1\n" in outside.stdout
    assert memsync("context").returncode == 2
    assert memsync("context", "heron", "--thread", "x").returncode == 2


def test_roots_are_added_listed_and_removed(memsync: Run, tmp_path: Path) -> None:
    """`list` says whether each can be reached, also as JSON."""
    (tmp_path / "home").rename(tmp_path / "moved")
    assert memsync("roots", "add", "moved", "../moved").stdout == f"moved  {tmp_path / 'moved'}\n"
    for name, place, code in (("moved", "../moved", 0), ("moved", "../work", 2), ("other", "../moved", 2)):
        assert memsync("roots", "add", name, place).returncode == code
    listed = memsync("roots", "list")
    assert listed.stdout.splitlines()[0] == f"work  {tmp_path / 'work'}  reachable"
    assert "cannot be searched: " in listed.stdout.splitlines()[1]
    document = json.loads(memsync("roots", "list", "--json").stdout)
    assert [(row["name"], row["reachable"]) for row in document["roots"]] == [
        ("work", True),
        ("home", False),
        ("moved", True),
    ]
    assert memsync("roots", "remove", "home").returncode == 0
    assert json.loads(memsync("roots", "remove", "moved", "--json").stdout)["path"] == str(tmp_path / "moved")
    again = memsync("roots", "remove", "home")
    assert again.returncode == 2 and "no memory is registered as 'home'" in again.stderr
    memsync("roots", "remove", "work")
    assert "no memory is registered" in memsync("roots", "list").stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "heron", "--roots", "work"), ("search", "--all-roots", "heron"), ("search", "heron root:work"),
        ("context", "heron", "--all-roots"), ("get", "work:store.md"), ("get", "work:2026-11-21.md:3"),
    ],
)  # fmt: skip
def test_a_daemon_is_not_asked_for_other_memories(
    served: Served, monkeypatch: Patch, arguments: tuple[str, ...]
) -> None:
    """It serves one; and it declines what a client sends all the same."""
    monkeypatch.setattr("memsync.settings.load.load_settings", lambda **_: served.settings)
    assert answer_plainly(arguments) is None
    assert run_command(served.memory, list(arguments)) == {}


@pytest.mark.parametrize("arguments", [("search", "heron", "kind:note"), ("get", "birds.md:3-5"), ("get", "birds:5")])
def test_a_daemon_still_answers_what_is_about_its_memory(
    served: Served, monkeypatch: Patch, capsys: Printed, arguments: tuple[str, ...]
) -> None:
    """A place in a note is not taken for the name of a memory."""
    monkeypatch.setattr("memsync.settings.load.load_settings", lambda **_: served.settings)
    assert answer_plainly(arguments) == 0
    assert "heron" in capsys.readouterr().out


def test_links_lead_into_the_memory_of_the_hit(
    outside: Path, monkeypatch: Patch, capsys: Printed, tmp_path: Path
) -> None:
    """Each memory has its own folder."""
    monkeypatch.chdir(outside)
    monkeypatch.setattr("memsync.cli.command_search.is_terminal", lambda: True)
    monkeypatch.setattr("memsync.cli.command_search.has_colour", lambda: True)
    assert run(["search", "--mode", "keyword", "heron"]) == 0
    printed = capsys.readouterr().out
    assert f"{tmp_path}/work/store.md" in printed and f"{tmp_path}/home/pond.md" in printed


def test_lines_for_other_programs_come_from_all_memories(memsync: Run, tmp_path: Path) -> None:
    """Outside of every memory root, too."""
    lines = memsync("search", "--mode", "keyword", "heron", "--format", "grep").stdout.splitlines()
    assert {line.partition(":")[0] for line in lines} == {f"{tmp_path}/work/store.md", f"{tmp_path}/home/pond.md"}


def test_configuration_of_a_client_works_in_any_folder(memsync: Run, tmp_path: Path) -> None:
    """Outside of every memory root it serves the registered memories, whatever folder the client starts it in."""
    assert memsync("mcp", "install", "claude-code").stdout.splitlines()[1].endswith(" mcp --all-roots")
    inside = memsync("mcp", "install", "claude-code", "--only-this-root", cwd=tmp_path / "home").stdout.splitlines()[1]
    assert inside.endswith(f"--root {tmp_path / 'home'} mcp --only-this-root")
    for arguments in (("--all-roots", "--only-this-root"), ("--http", "--only-this-root")):
        assert memsync("mcp", "install", *arguments, cwd=tmp_path / "home").returncode == 2
    assert memsync("mcp", "--only-this-root").returncode == 3


# ------------------------------------------------------------------------------------------- forgetting one


def test_forgetting_a_memory_stops_its_daemon_and_says_what_stays(memsync: Run, outside: Path) -> None:
    """The daemon would keep the memory and write it back; notes and name stay, and the answer says so."""
    work = outside.parent / "work"
    started = memsync("--root", str(work), "daemon", "start", "--json", cwd=work)
    settings = load_settings(root=work)
    assert started.returncode == 0 and is_locked(settings)
    shown = memsync("forget", "--root", "work")
    assert shown.stdout.startswith("work: 1 note and ") and "Nothing was deleted" in shown.stderr
    assert is_locked(settings) and (settings.index_dir / "index.db").exists()
    forgotten = memsync("forget", "--root", "work", "--apply")
    assert forgotten.returncode == 0, forgotten.stderr
    (deleted,) = forgotten.stdout.splitlines()
    assert deleted.startswith("work: 1 note and ") and deleted.endswith(f" deleted from {settings.index_dir}")
    assert forgotten.stderr.splitlines() == [
        "memsync: Its daemon was stopped.",
        f"memsync: The notes stay in {work}. The next search or sync there indexes them again.",
        "memsync: The memory stays registered. To remove it from the list, run: memsync roots remove work",
    ]
    assert not is_locked(settings)
    assert not (settings.index_dir / "index.db").exists()
    assert (work / "store.md").exists() and "[roots.work]" in Path(roots_path()).read_text()
    assert "work:store.md" in memsync("search", "heron").stdout
    again = json.loads(memsync("forget", "--root", "work", "--apply", "--json").stdout)
    assert {**again, "place": ""} == {
        "memory": "work", "place": "", "notes": 1, "passages": again["passages"], "deleted": True, "registered": True,
        "daemon_stopped": False, "writer": "", "last_sync": "", "is_own": True,
    }  # fmt: skip


@pytest.mark.parametrize("lock", ["daemon.lock", "sync.lock"])
def test_nothing_is_forgotten_while_a_daemon_or_a_sync_goes_on(lock: str, outside: Path, monkeypatch: Patch) -> None:
    """What they know would be written back; the error says what to do."""
    work = outside.parent / "work"
    with Memory.open(work) as memory:
        memory.sync()
    monkeypatch.setattr(without_daemon, "WAIT_SECONDS", 0.0)
    place = load_settings(root=work).index_dir / lock
    taken = without_daemon.held(str(place), lambda: IndexBusy("taken"), 0.0, create=True)
    with taken, pytest.raises(IndexBusy) as refused:
        forget_memory("work", apply=True)
    assert refused.value.hint == {
        "daemon.lock": f"Run: memsync --root {work} daemon stop",
        "sync.lock": "Wait for it to end, then try again.",
    }[lock]  # fmt: skip
    assert forget_memory("work", apply=False).notes == 1


def test_forgetting_a_memory_leaves_nothing_that_quotes_its_notes(outside: Path) -> None:
    """Neither a damaged copy of the index, nor what a killed rebuild left, nor the daemon's log, nor a state."""
    work = outside.parent / "work"
    repository = Repository(work)
    repository.git("init", "-q")
    repository.commit(SPRING)
    with Memory.open(work) as memory:
        memory.sync()
        assert memory.search("heron", at="main").hits
    folder = load_settings(root=work).index_dir
    for name in ("index.db.damaged-20261101T000000-1", "index.db.beside", "daemon.log", "daemon.log.1"):
        (folder / name).write_text("heron")
    forget_memory("work", apply=True)
    assert [path.name for path in folder.rglob("*") if path.is_file() and b"heron" in path.read_bytes()] == []


def test_root_takes_the_name_of_a_registered_memory(memsync: Run, outside: Path, tmp_path: Path) -> None:
    """Before the command and after it. If a folder has that name, too, perhaps from a clone, the user says which."""
    for arguments in (("--root", "work", "log", "one"), ("log", "--root=work", "one")):
        assert memsync(*arguments).returncode == 0
    assert len(list((tmp_path / "work" / "daily").iterdir())) == 1
    (outside / "work").mkdir()
    both = memsync("--root", "work", "log", "two")
    assert both.returncode == 3 and "Write ./work for the folder" in both.stderr
    assert memsync("--root", "./work", "log", "two").returncode == 0
    assert [path.parent.name for path in outside.rglob("*.md")] == ["daily"]
    add_database("team", "postgresql://reader@db/notes", "team")
    refused = memsync("--root", "team", "log", "three")
    assert refused.returncode == 2 and "without a folder" in refused.stderr and "--roots team" in refused.stderr
    assert "Registered: work, home, team." in memsync("--root", "elsewhere", "status").stderr


def test_default_memory_is_the_current_one_outside_of_every_other(memsync: Run, tmp_path: Path) -> None:
    """A search there covers all registered memories as before; in a memory root that one counts."""
    assert memsync("log", "egret").returncode == 3
    assert memsync("roots", "default", "home").stdout == f"home  {tmp_path / 'home'}\n"
    written = memsync("log", "egret")
    assert written.returncode == 0 and (tmp_path / "home" / written.stdout.rpartition(":")[0]).exists()
    assert memsync("get", "pond.md").stdout == "A heron nests.\n"
    assert "our logo" in memsync("get", "work:store.md").stdout
    assert "work:store.md" in memsync("search", "heron").stdout
    assert "home:" in memsync("search", "egret").stdout
    assert memsync("log", "ibis", cwd=tmp_path / "work").returncode == 0
    assert (tmp_path / "work" / "daily").is_dir()
    assert json.loads(memsync("roots", "list", "--json").stdout)["default"] == "home"
    shutil.rmtree(tmp_path / "home")
    gone = memsync("status")
    assert gone.returncode == 4 and "home does not exist" in gone.stderr
    assert json.loads(memsync("roots", "default", "--none", "--json").stdout) == {"default": None}
    assert memsync("status").returncode == 3


def test_default_memory_is_one_of_the_list(memsync: Run) -> None:
    """A name that is not there is refused; the default goes with its entry, and other changes keep it."""
    assert "Did you mean work?" in memsync("roots", "default", "wrk").stderr
    memsync("roots", "default", "home")
    memsync("roots", "remove", "work")
    assert json.loads(memsync("roots", "default", "--json").stdout) == {"default": "home"}
    memsync("roots", "remove", "home")
    assert json.loads(memsync("roots", "default", "--json").stdout) == {"default": None}
    Path(roots_path()).write_text('[roots.work]\npath = "/work"\ndefault = "yes"\n')
    assert "default must be true or false" in memsync("roots", "list").stderr


def test_without_a_memory_root_the_registered_memories_are_named(memsync: Run) -> None:
    """Nobody is told to register what is registered."""
    hint = memsync("status").stderr
    assert "Or name a registered memory (work, home) with --root" in hint and "register them" not in hint
