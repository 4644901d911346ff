"""The command line as a process sees it: output, exit codes, one JSON document, nothing on stdout but the answer."""

from __future__ import annotations

import json
import os
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import jsonschema
import pytest

from memsync.errors import NoSuchNote
from memsync.memory import Memory
from memsync.settings.load import load_settings
from tests.conftest import PROJECT, Write
from tests.support.daemon_process import Cli

RESULTS = json.loads((PROJECT / "docs" / "results.schema.json").read_text())
SCHEMA = {**RESULTS["properties"]["search"], "$defs": RESULTS["$defs"]}


@pytest.fixture
def run(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run memsync on the root; words alone."""
    monkeypatch.setenv("MEMSYNC_SEARCH_MODE", "keyword")
    return cli


def test_search_prints_citation_heading_and_snippet(run: Cli, write: Write) -> None:
    """The first thing on a hit's line is path:line, which editors can open."""
    write("birds.md", "# Birds\n\n## Alder\n\nThe heron nests here.\n")
    done = run("search", "heron")
    assert done.returncode == 0
    assert done.stdout.startswith("birds.md:3-5  Birds › Alder · ")
    assert "  The heron nests here." in done.stdout
    assert "\x1b" not in done.stdout


def test_json_is_one_document_that_fits_the_schema(run: Cli, write: Write) -> None:
    """`--json` prints exactly one JSON document, also with --explain."""
    write("threads/t.md", "---\nsession: s1\n---\n## user @ 2026-11-21 10:02\n\nWhere is the #heron?\n")
    for arguments in (["--json"], ["--json", "--explain"], ["--json", "nosuchword"]):
        done = run("search", "heron", *arguments)
        document = json.loads(done.stdout)
        jsonschema.validate(document, SCHEMA)
    hit = json.loads(run("search", "heron", "--json").stdout)["hits"][0]
    about = [hit[name] for name in ("role", "date", "tags", "citation")]
    assert about == ["user", "2026-11-21T10:02", ["heron"], "threads/t.md:6"]
    start, end = hit["highlights"][0]
    assert hit["snippet"][start:end] == "heron"


def test_no_match_exits_with_one_and_tells_freshness(run: Cli, write: Write) -> None:
    """As grep does; an empty answer says that the files were really looked at."""
    write("a.md", "text\n")
    done = run("search", "absent")
    assert (done.returncode, done.stdout) == (1, "")
    assert "nothing found; the files were searched as they are now" in done.stderr
    assert "nothing found; files were not looked at" in run("search", "absent", "--fresh", "none").stderr
    document = json.loads(run("search", "absent", "--json").stdout)
    assert document["hits"] == []
    assert document["freshness"]["stale"] is False


@pytest.mark.parametrize("arguments", [[], ["note"], ["thread"]])
def test_a_command_without_its_subcommand_prints_its_help_in_lines(
    cli: Cli, tmp_path: Path, arguments: list[str]
) -> None:
    """The first thing that a newcomer types is answered with the help, on stderr because nothing was done."""
    asked, helped = (cli(*arguments, *more, cwd=tmp_path) for more in ([], ["--help"]))
    assert (asked.returncode, asked.stdout) == (2, "")
    assert asked.stderr == helped.stdout


@pytest.mark.parametrize("arguments", [["config", "show"], ["search", "word"], ["--help"]])
def test_a_reader_that_has_gone_is_no_failure(root: Path, write: Write, arguments: list[str]) -> None:
    """Exit code 1 would say that nothing was found: `| head` under a shell's pipefail has what it wanted."""
    write("a.md", "word\n")
    settings = {"MEMSYNC_SEARCH_MODE": "keyword", "MEMSYNC_DAEMON_USE": "false"}
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as output:
        done = subprocess.run(
            [sys.executable, "-m", "memsync", "--root", str(root), *arguments],
            stdout=output, stderr=subprocess.PIPE, env={**os.environ, **settings}, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("where", ["answer_plainly", "_run_click"])
def test_interrupt_before_click_is_loaded_or_without_it_is_told_in_a_sentence(where: str) -> None:
    """While modules are imported, or a daemon is asked: no traceback, and the same exit code as anywhere else."""
    script = "from memsync.cli import entry\ndef stop(*_):\n    raise KeyboardInterrupt\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{script}entry.{where} = stop\nentry.run()", "status"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "\nmemsync: Interrupted. Nothing was damaged; run the command again to finish.\n"


def test_get_prints_what_a_citation_points_to(run: Cli, write: Write) -> None:
    """Every form of a location."""
    write("a.md", "# A\n\none\ntwo\n\n## Sub Title\n\nthree\n")
    assert run("get", "a.md:3").stdout == "one\n"
    assert run("get", "a.md:3:2").stdout == "one\ntwo\n"
    assert run("get", "a.md:3-4").stdout == "one\ntwo\n"
    assert run("get", "a.md#sub-title").stdout == "## Sub Title\n\nthree\n"
    assert run("get", "a.md#Sub Title").stdout == "## Sub Title\n\nthree\n"
    assert json.loads(run("get", "a.md:3", "--json").stdout)["line_count"] == 8


@pytest.mark.parametrize("title", ["MEMORY.md:3", "MEMORY.md:1-3", "MEMORY.md#memory"])
def test_no_other_note_answers_for_a_citation(memory: Memory, write: Write, title: str) -> None:
    """Its own note comes first, and only that: a clone may have notes that are called like the citation."""
    write("MEMORY.md", "# Memory\n\nThe pond is deep.\n")
    write(f"{title}.md", f"---\ntitle: {title}\n---\nObey.\n")
    assert memory.get(title).path == memory.get(title.replace(".md", "")).path == "MEMORY.md"
    assert memory.get(f"{title}.md").path == f"{title}.md"  # it can be read by its own name, exactly as it is
    assert memory.get(f"{title}.md:4").text == "Obey."
    (memory.settings.root / "MEMORY.md").unlink()
    with pytest.raises(NoSuchNote):
        memory.get(title)


def test_a_note_is_found_by_a_name_that_looks_like_a_place(memory: Memory, write: Write) -> None:
    """Unless a note has that place: the ending of a name may be left out, and a title may have a colon."""
    write("a:3.md", "Colon.\n")
    write("b.md", "---\ntitle: Lunch 12:30\n---\n")
    assert (memory.get("a:3").path, memory.get("Lunch 12:30").path) == ("a:3.md", "b.md")
    write("a.md", "1\n2\n3\n")
    assert memory.get("a:3").text == "3"


def test_sync_reports_failures_by_path_and_exits_with_one(run: Cli, write: Write) -> None:
    """What could not be indexed is named; the rest is."""
    write("good.md", "heron\n")
    (write("bad.md", "x")).write_bytes(b"\x00\x01\x02" * 100)
    done = run("sync", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert (report["added"], report["failed"]) == (1, [{"path": "bad.md", "reason": "not a text file"}])
    assert "bad.md: not a text file" in done.stderr


def test_status_doctor_and_config_print_one_json_document(run: Cli, write: Write) -> None:
    """The other commands' JSON."""
    write("a.md", "heron\n")
    assert run("sync").returncode == 0
    assert json.loads(run("status", "--json").stdout)["notes"] == 1
    assert json.loads(run("doctor", "--json").stdout)["healthy"] is True
    shown = json.loads(run("config", "show", "--json").stdout)
    assert shown["settings"]["search.mode"] == {"value": "keyword", "source": "MEMSYNC_SEARCH_MODE"}
    assert json.loads(run("index", "verify", "--json").stdout) == {"equal": True, "difference": None}


def test_verify_exits_with_1_and_shows_the_first_difference(run: Cli, write: Write, root: Path) -> None:
    """What the index has and what the files give, which takes its place: then it exits with 0."""
    write("a.md", "The heron nests.\n")
    assert run("sync").returncode == 0

    def change_title() -> None:
        with closing(sqlite3.connect(load_settings(root=root).index_dir / "index.db")) as database:
            database.execute("UPDATE note SET title = 'Egret'")
            database.commit()

    change_title()
    told = run("index", "verify")
    assert told.returncode == 1
    assert "Egret" in next(line for line in told.stdout.splitlines() if "indexed:" in line)
    assert "Egret" not in next(line for line in told.stdout.splitlines() if "rebuilt:" in line)
    assert told.stdout.endswith("replaced by the one built from the files. Run: memsync sync\n")
    assert run("index", "verify").returncode == 0
    change_title()
    found = run("index", "verify", "--json")
    assert found.returncode == 1
    assert json.loads(found.stdout)["equal"] is False
    assert "Egret" in json.loads(found.stdout)["difference"]["indexed"]
    assert json.loads(found.stdout)["difference"]["mended"] is True
    assert run("index", "verify").returncode == 0


def test_help_keeps_each_example_on_its_line(cli: Cli) -> None:
    """Paragraphs are re-flowed unless click is told not to."""
    for command in (["history"], ["search"], ["get"]):
        lines = cli(*command, "--help").stdout.splitlines()
        assert "\\b" not in "".join(lines)
        assert any(line.strip().startswith("memsync ") and line.count("memsync") == 1 for line in lines)


def test_filters_survive_the_shells_quotes(run: Cli, write: Write) -> None:
    """A filter's quoted value, a whole query in quotes that begins with a filter, and the words after `all:`."""
    write("daily/2026-11-20.md", "- 09:00 heron, half price\n")
    write("daily/2009-01-01.md", "- 09:00 price, price, price\n")
    for arguments in (
        ["kind:daily heron"],
        ["heron", "after:10 years ago"],
        ['after:"10 years ago" heron'],
        ["after:10 years ago"],
        ["all:half price"],
    ):
        assert run("search", *arguments).stdout.startswith("daily/2026-11-20.md:1"), arguments


def test_a_full_stdout_is_an_error_of_its_own(run: Cli, root: Path, write: Write) -> None:
    """The answer could not be written: neither success nor "no"."""
    write("a.md", "heron\n")
    command = f"{shlex.quote(sys.executable)} -m memsync --root '{root}' get a.md > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 9
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_hits_as_lines_for_other_programs(cli: Cli, root: Path, write: Write) -> None:
    """`--format grep` prints one line a hit: a path that opens from the current folder, and the line that matches."""
    write("sub/a.md", "# Pond\n\nNothing here.\nThe heron\x1b nests.\n")
    write("b.md", "---\nphone: 079 555\n---\nThe heron left.\n")
    there = cli("--root", str(root), "search", "heron nests", "--mode", "keyword", "--format", "grep", cwd=root)
    assert there.stdout.splitlines() == ["sub/a.md:4:The heron\\x1b nests.", "b.md:4:The heron left."]
    inside = cli("--root", str(root), "search", "heron", "--mode", "keyword", "--format=grep", cwd=root / "sub")
    assert sorted(inside.stdout.splitlines()) == sorted(
        ["a.md:4:The heron\\x1b nests.", f"{root}/b.md:4:The heron left."]
    )
    field = cli("--root", str(root), "search", "555", "--mode", "keyword", "--format", "grep", cwd=root)
    assert field.stdout == "b.md:2:phone: 079 555\n"
    write("c.md", "# Backup\n\nThis is about the backup.\n\nrestic backup --exclude-caches /home\n")
    words = ("restic backup exclude caches", "-n1", "--mode=keyword", "--format=grep")
    typed = cli("--root", str(root), "search", *words, cwd=root)
    assert typed.stdout == "c.md:5:restic backup --exclude-caches /home\n"
    nothing = cli("--root", str(root), "search", "all:zebra", "--format", "grep", cwd=root)
    assert (nothing.returncode, nothing.stdout) == (1, "") and "nothing found" in nothing.stderr


def test_equal_passages_are_printed_with_all_places(cli: Cli, write: Write) -> None:
    """And a list by date has no score."""
    write("a.md", "The heron nests.\n")
    write("b.md", "The heron nests.\n")
    found = cli("search", "heron nests", "--mode", "keyword").stdout.splitlines()
    assert (found[0][:6], found[1]) == ("a.md:1", "  also: b.md:1")
    assert all(not line.endswith(("0.00", "1.00")) for line in cli("search", "kind:note").stdout.splitlines())
