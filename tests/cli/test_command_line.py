"""What the command line understands: options, free text, paths and folders as people type them, where a log goes."""

from __future__ import annotations

import ast
import itertools
import json
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

import memsync.cli
from memsync.cli.entry import answer_plainly
from memsync.cli.output import say_pending
from memsync.edit import append
from memsync.errors import MemsyncError
from memsync.system import clock
from tests.conftest import Patch, Printed, Run, Write
from tests.support.daemon_process import Cli

TODAY = clock.today()


# ------------------------------------------------------------------------------------------ options


@pytest.mark.smoke
def test_after_the_first_word_of_free_text_nothing_is_an_option(run: Run, root: Path) -> None:
    """A text about options is stored as it was given, and a word that is one elsewhere is pointed out."""
    for text, arguments in {
        "use --json everywhere": ("use", "--json", "everywhere"),
        "a -- b --tag c": ("a", "--", "b", "--tag", "c"),
        "see --help": ("see", "--help"),
        "--json is text": ("--", "--json", "is", "text"),
        "-5 degrees": ("--", "-5", "degrees"),
        "one --unknown": ("one", "--unknown"),
    }.items():
        done = run("log", "--day", "2026-11-20", "--json", *arguments)
        path = json.loads(done.out)["path"]
        assert (root / path).read_text().endswith(f"{text}\n"), arguments
    assert "--json is part of the text" in run("log", "use", "--json").err
    assert run("log", "plain", "words").err == ""


@pytest.mark.parametrize(
    ("before", "path", "stored"),
    [
        (("remember",), "MEMORY.md", "- a --tier b\n"),
        (("pattern", "observe"), "MEMORY.md", "- a --tier b {.pattern"),
        (("pref", "set", "key"), "preferences.md", "- key: a --tier b\n"),
        (("note", "new", "x"), "x.md", "a --tier b\n"),
        (("thread", "new"), "threads/a-tier-b.md", "title: a --tier b\n"),
    ],
)
def test_every_command_that_takes_free_text_keeps_it(
    run: Run, root: Path, before: tuple[str, ...], path: str, stored: str
) -> None:
    """Whatever the text mentions."""
    assert run(*before, "a", "--tier", "b").code == 0
    assert stored in (root / path).read_text()


def test_options_may_stand_between_the_arguments_before_the_text(run: Run, root: Path) -> None:
    """The text of a message begins behind the thread and the role."""
    run("thread", "new", "--user", "ada", "The", "store")
    assert run("thread", "append", "the-store", "user", "--model", "m", "what", "--is", "--cost").code == 0
    text = (root / "threads/the-store.md").read_text()
    assert "{model=m}\n\nwhat --is --cost\n" in text


def test_search_takes_its_options_anywhere(run: Run, write: Write) -> None:
    """Behind the words, too; text that only begins with a hyphen is text."""
    write("a.md", "heron\n")
    for arguments in (("heron", "--json"), ("--json", "heron"), ("heron", "-n1", "--json"), ("- heron", "--json")):
        assert len(json.loads(run("search", *arguments).out)["hits"]) == 1, arguments
    assert run("search", "heron", "--", "-alder").code == 0
    assert run("search", "heron", "--", "--json").out.startswith("a.md")


def test_root_and_config_are_accepted_after_the_command(run: Run, root: Path, write: Write) -> None:
    """Wherever the command's own options are; in a text they are text."""
    write("a.md", "heron\n")
    for arguments in (
        ("search", "heron", "--root", str(root)),
        ("search", f"--root={root}", "heron"),
        ("get", "a.md", "--root", str(root)),
        ("note", "--root", str(root), "list"),
        ("note", "list", "--root", str(root)),
    ):
        assert run(*arguments, with_root=False).out.partition("  ")[0] in ("a.md", "a.md:1", "heron\n"), arguments
    run("log", "--root", str(root), "--day", "2026-11-20", "pass", "--root", "x", with_root=False)
    assert (root / "daily/2026-11-20.md").read_text().endswith("- pass --root x\n")


def test_everything_is_printed_by_the_functions_that_keep_terminals_safe() -> None:
    """No module of the command line calls click.echo or print."""
    modules = sorted(Path(memsync.cli.__file__).parent.glob("*.py"))
    assert len(modules) > 15
    for module in modules:
        calls = [node.func for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Call)]
        called = {ast.unparse(function) for function in calls}
        assert called.isdisjoint({"click.echo", "click.secho", "echo", "secho", "print"}), module.name


def test_a_number_and_its_noun_come_from_one_helper() -> None:
    """Otherwise a message says "1 passages"; a limit, which is a constant or was exceeded, is never 1."""
    nouns = "changes|characters|days|entries|files|folders|hits|lines|messages|notes|others|passages|questions|texts"
    follows = re.compile(rf" (?:[a-z-]+ )?(?:{nouns}|threads|tokens|vectors|warnings|words)\b")
    for module in sorted(Path(memsync.cli.__file__).parent.parent.rglob("*.py")):
        for node in ast.walk(ast.parse(module.read_text())):
            for value, after in itertools.pairwise(node.values if isinstance(node, ast.JoinedStr) else ()):
                if isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant):
                    name = ast.unparse(value.value)
                    is_limit = name.isupper() or name in ("len(text)", "len(known.stamps)", "folder")
                    assert is_limit or not follows.match(str(after.value)), f"{module}: {name}"


def test_what_an_answer_lacks_is_told_in_the_words_of_a_search(capsys: Printed) -> None:
    """On stderr, and only if anything is missing."""
    for pending, said in ((0, ""), (1, "1 file is not searched yet.\n"), (2, "2 files are not searched yet.\n")):
        say_pending(pending)
        assert capsys.readouterr() == ("", said and f"memsync: Still indexing: {said}")


def test_old_name_of_a_command_works(run: Run, write: Write) -> None:
    """Scripts go on."""
    write("a.md", "The office is in Hamburg.\n")
    assert run("conflicts", "--json").out == run("contradictions", "--json").out


@pytest.mark.parametrize(
    "arguments", [("search", "heron"), ("note", "new", "./x"), ("get", "a.md"), ("search", "in:.")]
)
def test_settings_are_warned_about_once(run: Run, write: Write, arguments: tuple[str, ...]) -> None:
    """However often a command needs them."""
    write("a.md", "heron\n")
    write("config.toml", '[memsync]\nroot = "."\n').chmod(0o646)
    assert run(*arguments).err.count("is ignored") == 1


@pytest.mark.parametrize(
    ("message", "hint", "said"),
    [
        ("it is damaged", "Run: memsync index rebuild", "it is damaged. Run: memsync index rebuild"),
        ('Unknown filter "x:".', "Did you mean y?", 'Unknown filter "x:". Did you mean y?'),
        ("it is damaged", "See: memsync --help\nOr ask.", "it is damaged. See: memsync --help. Or ask."),
        ("it is damaged", "", "it is damaged"),
        ("is it?", "", "is it?"),
    ],
)
def test_an_error_on_one_line_is_sentences_with_one_stop_each(message: str, hint: str, said: str) -> None:
    """A command at the end stays as it is to be copied."""
    assert MemsyncError(message, hint=hint).sentences() == said


# -------------------------------------------------------------------------------------------- paths


@pytest.fixture
def vault(root: Path, write: Write) -> Path:
    write("top.md", "---\ntitle: Top Note\n---\ntop\n")
    write("projects/store.md", "---\ntitle: The Store\naliases: [shop, Laden]\n---\nstore\n\n## Why\n\nbecause\n")
    write("projects/sub/deep.md", "deep\n")
    write("projects/top.md", "another\n")
    write("twin-a.md", "---\ntitle: Twin\n---\na\n")
    write("twin-b.md", "---\nalias: twin\n---\nb\n")
    write("archive/old.md", "---\ntitle: Old\narchived: true\n---\nold\n")
    write("archive/store.md", "---\ntitle: The Store\n---\nold store\n")
    write(".hidden.md", "secret\n")
    write("ignored/x.md", "secret\n")
    write(".gitignore", "ignored/\n")
    return root


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ("top.md:4", "top"),
        ("top:4", "top"),
        ("./top.md:1", "another"),
        ("../top.md:4", "top"),
        ("store:5", "store"),
        ("store.md#why", "## Why\n\nbecause"),
        ("../projects/sub/../store.md:5", "store"),
        ("ROOT/projects/sub/deep.md:1:1", "deep"),
        ("LINK/projects/sub/deep.md", "deep"),
        ("The Store:5", "store"),
        ("laden:5", "store"),
        ("Old:5", "old"),
    ],
)
def test_a_note_is_named_as_people_name_it(run: Run, vault: Path, monkeypatch: Patch, location: str, text: str) -> None:
    """As search prints it; from the current folder, absolute, without .md, by a title or an alias; with lines each."""
    link = vault.parent / "link"
    link.symlink_to(vault)
    monkeypatch.chdir(vault / "projects")
    named = location.replace("ROOT", str(vault)).replace("LINK", str(link))
    assert run("get", named)[:2] == (0, f"{text}\n")


@pytest.mark.parametrize(
    ("location", "code", "said"),
    [
        ("Twin", 2, "several notes are called 'Twin'\n  Name one: twin-a.md, twin-b.md"),
        (".hidden.md", 5, "not a note"),
        ("ROOT/.hidden.md", 5, "not a note"),
        ("ignored/x", 5, "not a note"),
        ("nosuch", 5, "nosuch does not exist"),
        ("../x.md", 5, "not a path in the memory root"),
        ("/etc/passwd", 5, "'/etc/passwd' is not in the memory root"),
        ("ROOT-2/outside.md", 5, "is not in the memory root"),
    ],
)
def test_what_names_no_note_says_why(run: Run, vault: Path, location: str, code: int, said: str) -> None:
    """What is hidden stays unreadable, and whether a file outside is there does not show."""
    (vault.parent / "outside.md").write_text("outside")
    done = run("get", location.replace("ROOT", str(vault)))
    assert (done.code, done.out) == (code, "")
    assert said in done.err


@pytest.mark.parametrize(
    ("folder", "found"),
    [
        (".", {"projects/store.md", "projects/sub/deep.md", "projects/top.md"}),
        ("sub", {"projects/sub/deep.md"}),
        ("projects/sub", {"projects/sub/deep.md"}),
        ("ROOT/projects/sub/", {"projects/sub/deep.md"}),
    ],
)
def test_a_folder_is_named_as_people_name_it(
    run: Run, vault: Path, monkeypatch: Patch, folder: str, found: set[str]
) -> None:
    """In the query, as an option, and where notes are listed; from the current folder first, then from the root."""
    monkeypatch.chdir(vault / "projects")
    named = folder.replace("ROOT", str(vault))
    for arguments in (("search", f"in:{named}"), ("search", "--in", named), ("search", f'in:"{named}" kind:note')):
        hits = json.loads(run(*arguments, "--json").out)["hits"]
        assert {hit["path"] for hit in hits} == found, arguments
    listed = json.loads(run("note", "list", named, "--json").out)["notes"]
    assert {note["path"] for note in listed} == found


@pytest.mark.parametrize("folder", ["nosuch", "projects/nosuch/", "../..", "/etc", "ROOT-2", "top.md", "projects/sup"])
def test_a_folder_that_there_is_not_is_said_to_be_none(run: Run, vault: Path, folder: str) -> None:
    """Beside an empty answer."""
    for arguments in (("search", f"in:{folder}"), ("search", "--in", folder)):
        done = run(*(part.replace("ROOT", str(vault)) for part in arguments))
        assert (done.code, done.out) == (1, "")
        assert "no such folder" in done.err
    assert run("note", "list", folder.replace("ROOT", str(vault)))[:2] == (1, "")
    assert "Did you mean projects/sub?" in run("search", "in:projects/sup").err


def test_the_whole_root_is_a_folder_from_outside(run: Run, vault: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """Where the current folder is not beneath the root, folders count from it."""
    monkeypatch.chdir(tmp_path)
    assert len(json.loads(run("search", "in:.", "--json").out)["hits"]) >= 5
    assert json.loads(run("search", "in:projects/sub", "--json").out)["hits"][0]["path"] == "projects/sub/deep.md"


def test_new_notes_and_threads_are_named_from_the_current_folder_with_a_dot(
    run: Run, vault: Path, monkeypatch: Patch
) -> None:
    """Without one they count from the root, as in every example."""
    monkeypatch.chdir(vault / "projects")
    assert run("note", "new", "./here").out == "projects/here.md:1\n"
    assert run("note", "new", "there").out == "there.md:1\n"
    assert run("note", "new", f"{vault}/projects/absolute.md").out == "projects/absolute.md:1\n"
    assert run("note", "new", f"../../{vault.name}/projects/zz").out == "projects/zz.md:1\n"
    assert run("remember", "--note", "./store.md", "x").out.startswith("projects/store.md:")


FROM_SOMEWHERE = [
    (".", "../notes/projects/store.md"),
    ("projects/sub", "../../projects/store.md"),
    ("..", "./notes/projects/store.md"),
    ("../elsewhere", "inside/store.md"),
]
"""The current folder, seen from the root, and one note as it is called from there."""


@pytest.mark.parametrize(("cwd", "path"), FROM_SOMEWHERE)
def test_a_path_from_the_current_folder_is_found_by_whatever_way_it_leads_into_the_root(
    run: Run, vault: Path, monkeypatch: Patch, cwd: str, path: str
) -> None:
    """Over the folders above the root and over a link, as the equal absolute path is."""
    (vault.parent / "elsewhere").mkdir()
    (vault.parent / "elsewhere/inside").symlink_to(vault / "projects")
    monkeypatch.chdir(vault / cwd)
    path = path.replace("notes", vault.name)
    for named in (path, str(Path.cwd() / path)):
        assert run("get", f"{named}:5")[:2] == (0, "store\n"), named
        folder = named.rpartition("/")[0]
        for arguments in (("search", f"in:{folder}"), ("search", "--in", folder)):
            hits = json.loads(run(*arguments, "--json").out)["hits"]
            assert {hit["path"].split("/")[0] for hit in hits} == {"projects"}, arguments


@pytest.mark.parametrize("cwd", [".", "projects/sub", ".."])
def test_a_path_that_leads_nowhere_is_refused_as_it_was_typed(
    run: Run, vault: Path, monkeypatch: Patch, cwd: str
) -> None:
    """No error quotes a path that memsync made of it."""
    monkeypatch.chdir(vault / cwd)
    assert "'../../../zz.md' is not a path in" in run("get", "../../../zz.md").err
    assert '"../../../zz" is not a path under' in run("note", "new", "../../../zz").err
    assert "no such folder: ../../../zz" in run("search", "in:../../../zz").err


# ---------------------------------------------------------------------------------------------- log


@pytest.mark.parametrize(
    ("kinds", "there", "path"),
    [
        ("", "", "daily/2026-11-20.md"),
        ('"/journal/" = "daily"', "", "journal/2026-11-20.md"),
        ('"/a/logs/*.md" = "daily"', "", "a/logs/2026-11-20.md"),
        ('"/journals/" = "daily"', "journals/2026_11_01.md", "journals/2026_11_20.md"),
        ('"/j/" = "daily"', "j/20261101.md", "j/20261120.md"),
        ('"/j/" = "daily"', "j/2026/11/2026-11-01.md", "j/2026/11/2026-11-20.md"),
        ('"/j/" = "daily"', "j/2026-11-01.markdown", "j/2026-11-20.markdown"),
        ('"/20*.md" = "daily"', "2026_11_01.md", "2026_11_20.md"),
        ('"/20*/**" = "daily"', "2026/2026-11-01.md", "daily/2026-11-20.md"),
        ('"/j/" = "daily"', "j/2026-13-45.md", "j/2026-11-20.md"),
    ],
)
def test_a_log_goes_where_the_memory_keeps_its_logs(
    run: Run, root: Path, write: Write, kinds: str, there: str, path: str
) -> None:
    """In the folder that [kinds] calls daily, named as the logs that are there; it is dated either way."""
    write("config.toml", f'[memsync]\nroot = "."\n[kinds]\n{kinds}\n')
    if there:
        write(there, "- x\n")
    assert run("log", "--day", "2026-11-20", "--time", "9:05", "heron").out.startswith(f"{path}:")
    hit = json.loads(run("search", "heron", "--json").out)["hits"][0]
    assert (hit["path"], hit["date"]) == (path, "2026-11-20T09:05")


def test_a_log_that_is_there_is_written_to_whatever_newer_ones_are_called(run: Run, write: Write) -> None:
    """A day has one log."""
    write("daily/2026-11-20.md", "# 2026-11-20\n")
    write("daily/2026_11_19.md", "x\n")
    write("daily/2026_11_21.md", "x\n")
    write("daily/2026-11-22.md", "x\n")
    for day, path in {
        "2026-11-20": "daily/2026-11-20.md",
        "2026-11-19": "daily/2026_11_19.md",
        "2026-11-18": "daily/2026-11-18.md",
    }.items():
        assert run("log", "--day", day, "heron").out.startswith(f"{path}:")


def test_the_day_of_a_log_is_named_as_everywhere(run: Run, root: Path) -> None:
    """And only today's log gets the time that it is."""
    yesterday = TODAY - timedelta(days=1)
    for text in ("yesterday", "1d", "1 day ago", yesterday.isoformat()):
        assert run("log", "--day", text, "heron").out.startswith(f"daily/{yesterday}.md:"), text
    assert (root / f"daily/{yesterday}.md").read_text() == f"# {yesterday}\n\n" + "- heron\n" * 4
    sunday = TODAY - timedelta(days=TODAY.isoweekday())
    named = TODAY.strftime("%A").lower()
    for text, day in {"today": TODAY, "last sunday": sunday, named: TODAY}.items():
        assert run("log", "--day", text, "--time", "9:05", "heron").out.startswith(f"daily/{day}.md:"), text


NO_DAYS = ["someday", "2026-11", "2026-11-20T10:02", "last week", "2w", "a month ago", "3 hours ago"]


@pytest.mark.parametrize("text", NO_DAYS)
def test_what_is_no_day_is_refused_where_a_day_is_asked_for(run: Run, root: Path, text: str) -> None:
    """The hint offers only what is accepted there; nothing is written."""
    for arguments in (("log", "--day", text, "heron"), ("context", "--day", text)):
        done = run(*arguments)
        hint = 'Write 2026-11-21, today, yesterday, monday, 3d, "3 days ago" or "last monday".'
        assert (done.code, done.err) == (2, f"memsync: {text!r} is not a day\n  {hint}\n")
    assert run("log", "--day", "2026-02-30", "heron").code == 2
    assert not (root / "daily").exists()


def test_an_editor_that_fails_writes_nothing_and_is_an_error(run: Run, root: Path, monkeypatch: Patch) -> None:
    """Not exit code 1, which is an answer."""
    monkeypatch.setenv("VISUAL", "false")
    done = run("log", "--edit", "heron")
    assert (done.code, done.out) == (10, "")
    assert done.err == (
        "memsync: The editor failed: false: Editing failed\n  Nothing was written. Check $VISUAL and $EDITOR.\n"
    )
    assert not (root / "daily").exists()


def test_recover_shows_the_entries_that_are_named(run: Run, root: Path, monkeypatch: Patch) -> None:
    """However old; an id that there is not is an error, and shown or dismissed is only what is meant."""
    monkeypatch.setattr(append, "UNSEEN_SECONDS", 0.0)
    assert run("recover", "nope")[:2] == (2, "")
    log = root / "daily/2026-11-20.md"
    run("log", "--day", "2026-11-20", "first")
    before = log.read_bytes()
    run("log", "--day", "2026-11-20", "heron")
    run("log", "--day", "2026-11-20", "curlew")
    log.write_bytes(before)
    lost = json.loads(run("recover", "--json").out)["overwritten"]
    ids = {one["text"]: one["id"] for one in lost}
    assert ids.keys() == {"- heron", "- curlew"}
    for arguments in ((ids["- heron"],), (ids["- heron"], "--days", "0")):
        done = run("recover", *arguments)
        assert done.code == 1
        assert [line.strip() for line in done.out.splitlines()[1:]] == ["- heron"]
    assert run("recover", ids["- heron"], "nope").err.startswith("memsync: no overwritten entry has the id nope\n")
    done = run("recover", "--apply", "--dismiss", ids["- heron"])
    assert (done.code, done.out) == (2, "")
    assert "--apply and --dismiss cannot be used together" in done.err
    assert "--dismiss requires the IDs to forget" in run("recover", "--dismiss").err
    assert log.read_bytes() == before


def test_nothing_is_logged_where_a_memory_keeps_its_instructions(run: Run, root: Path, write: Write) -> None:
    """A log must not become one."""
    write("config.toml", '[memsync]\nroot = "."\n[kinds]\n"/daily/" = "prompt"\n')
    done = run("log", "x")
    assert (done.code, done.out) == (2, "")
    assert "no folder for logs" in done.err
    assert not (root / "daily").exists()


# -------------------------------------------------------------------------------------------- notes


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("foo.txt", "Not a Markdown note: 'foo.txt'\n  Write foo.md, or foo.txt.md"),
        ("image.PNG", "Not a Markdown note"), ("folder/", "is a folder"), (".hidden", "hidden"),
        ("a/.b/c.md", "hidden"), ("..", "not a path under"), ("/etc/x", "not a path under"),
        ("a//b", "not a path under"), ("", "a note needs a name"), ("a/ ", "has no file name"),
        ("a\u202eb", "unprintable"), ("build/x", "would not be a note"), ("sub/private", "would not be a note"),
    ],
)  # fmt: skip
def test_a_note_that_no_scan_would_find_is_not_made(run: Run, root: Path, write: Write, path: str, said: str) -> None:
    """Nothing is left behind, no folder either."""
    write(".gitignore", "build/\n")
    write("sub/.gitignore", "private.md\n")
    before = sorted(root.rglob("*"))
    done = run("note", "new", path)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert sorted(root.rglob("*")) == before


@pytest.mark.parametrize("path", ["v1.2", "Dr. Smith", "a/b.md", "notes.MD", "2026.11", "x.markdown"])
def test_a_name_with_a_dot_is_a_name(run: Run, path: str) -> None:
    """Only what looks like another file's ending is refused; `memsync get` finds it under the same name."""
    done = run("note", "new", path, "heron")
    assert done.code == 0
    assert "heron" in run("get", path).out


def test_upkeep_says_what_it_lacks_in_plain_words(run: Run, write: Write) -> None:
    """Nothing is counted yet, nothing is double, and --undo is alone."""
    write("a.md", "heron\n")
    assert "memsync: No retrievals were counted yet.\n" in run("stale").err
    assert "No retrievals were counted yet.\n" in run("stats").out
    assert "memsync: undo takes no other options\n" in run("prune", "--undo", "--apply").err


@pytest.mark.parametrize("arguments", [["--root"], ["--config"], ["--root", "."], ["--config", "x", "--root"]])
def test_options_without_a_command_are_an_error_and_no_traceback(cli: Cli, arguments: list[str]) -> None:
    """Whatever is missing behind them."""
    done = cli(*arguments)
    assert done.returncode in (2, 3), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "redirection", "code"),
    [
        (("search", "heron", "--mode", "keyword"), "<&-", 0),
        (("search", "heron", "--mode", "keyword"), ">&-", 0),
        (("search", "heron", "--mode", "keyword"), "2>&-", 0),
        (("log", "fed it"), "<&- 2>&-", 0),
        (("remember",), "<&-", 2),
    ],
)
def test_closed_standard_stream_is_an_empty_one(
    cli: Cli, write: Write, arguments: tuple[str, ...], redirection: str, code: int
) -> None:
    """A program may start memsync without standard input, output or errors; the exit code stays the same."""
    write("a.md", "The heron nests.\n")
    command = [sys.executable, "-P", "-m", "memsync", "--root", str(cli.root), *arguments]
    done = subprocess.run(["sh", "-c", f'"$@" {redirection}', "sh", *command], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("before", [[], ["--root", "x"], ["--config", "y", "--root", "x"]])
def test_plain_search_is_read_from_behind_the_command(monkeypatch: Patch, before: list[str]) -> None:
    """Options of memsync itself may stand before it; only commands that the daemon runs load the settings."""
    read: list[dict[str, str | None]] = []

    def load_settings(**places: str | None) -> None:
        read.append(places)
        raise MemsyncError("none")

    monkeypatch.setattr("memsync.settings.load.load_settings", load_settings)
    assert answer_plainly([*before, "search", "heron", "--limit", "1"]) is None
    assert answer_plainly([*before, "index", "verify"]) is None
    assert answer_plainly([*before, "search", "--help"]) is None
    given = dict(zip(before[::2], before[1::2], strict=True))
    assert read == [{"config": given.get("--config"), "root": given.get("--root")}]


@pytest.mark.parametrize("command", [(), ("search",), ("thread", "append"), ("roots",)])
def test_help_is_the_option_as_a_command(run: Run, command: tuple[str, ...]) -> None:
    """`memsync help thread append` prints what `memsync thread append --help` prints."""
    assert run("help", *command) == run(*command, "--help", with_root=False)
    assert run("help", *command).out.startswith(" ".join(("Usage: memsync", *command)))


def test_help_on_no_command_names_the_nearest(run: Run) -> None:
    """It is an error, as the command itself is."""
    done = run("help", "serach")
    assert (done.code, done.out) == (2, "") and "Did you mean search?" in done.err
