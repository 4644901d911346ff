"""What `search --at`, `get`, `history`, `blame`, `diff` and `digest` print."""

from __future__ import annotations

import json
import os
import re
from datetime import datetime

import pytest

from tests.conftest import Write
from tests.support.daemon_process import Cli
from tests.support.repository import AUTUMN, SPRING, SUMMER, Repository


@pytest.fixture
def history(repository: Repository, write: Write) -> Repository:
    """Make three commits of two notes, and an edit."""
    write("birds.md", "# Birds\n\nThe heron nests.\n")
    repository.commit(SPRING)
    write("birds.md", "# Birds\n\nThe heron sleeps.\n")
    write("boats.md", "# Boats\n\n- the ketch {by=codex session=s9}\n")
    repository.commit(SUMMER)
    repository.git("rm", "-q", "boats.md")
    repository.git("commit", "-qm", "boats \x1b[31mgone", at=AUTUMN)
    write("birds.md", "# Birds\n\nThe heron sleeps.\n\nThe tern dives.\n")
    return repository


@pytest.fixture
def names(history: Repository) -> list[str]:
    """Return the names of the commits as citations have them, the last one first."""
    return [history.git("rev-parse", "--short=12", f"main~{number}") for number in range(3)]


def minute(seconds: int) -> str:
    return datetime.fromtimestamp(seconds).isoformat(" ", "minutes")


def test_search_at_a_commit_prints_citations_that_get_takes(cli: Cli, names: list[str]) -> None:
    """And the commit; each format names it, and `--json` has it."""
    found = cli("search", "--mode", "keyword", "--at", "main~2", "heron")
    assert found.returncode == 0, found.stderr
    head, *text = found.stdout.splitlines()
    assert re.sub(r" · [\d.]+$", "", head) == f"birds.md@{names[2]}:1-3  Birds"
    assert text == ["  # Birds", "  ", "  The heron nests."] or "The heron nests." in found.stdout
    assert f"as of {names[2]}, committed {minute(SPRING)}" in found.stderr
    lines = cli("search", "--mode=keyword", "--format=grep", "--at", "v1", "heron")
    assert lines.returncode == 2 and 'The nearest names: "main".' in lines.stderr
    lines = cli("search", "--mode=keyword", "--format=grep", "--at", "main~2", "heron")
    assert lines.stdout == f"birds.md@{names[2]}:3:The heron nests.\n"
    document = json.loads(cli("search", "--mode=keyword", "--json", "--at", "main~2", "heron").stdout)
    assert document["at"].startswith(names[2]) and document["hits"][0]["citation"] == f"birds.md@{names[2]}:1-3"
    nothing = cli("search", "--mode=keyword", "--at", "main~2", '"ketch"')
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert f"nothing found; the notes were searched as they were in {names[2]}" in nothing.stderr
    assert cli("get", f"birds.md@{names[2]}:3").stdout == "The heron nests.\n"
    assert cli("get", "boats.md@main").stderr == (
        f"memsync: boats.md does not exist in {names[0]}\n  Paths are relative to the memory root.\n"
    )


def test_history_prints_what_each_commit_changed(cli: Cli, names: list[str]) -> None:
    """The uncommitted change first; hostile words of a commit on one line, without control characters."""
    path = cli.root / "birds.md"
    os.utime(path, (AUTUMN + 60, AUTUMN + 60))
    assert cli("history", "birds.md").stdout == (
        f"not committed  {minute(AUTUMN + 60)}\n  birds.md\n  +\n  + The tern dives.\n\n"
        f"{names[1]}  {minute(SUMMER)}  A  x\n  birds.md@{names[1]}\n  - The heron nests.\n  + The heron sleeps.\n\n"
        f"{names[2]}  {minute(SPRING)}  A  x\n  birds.md@{names[2]}\n  + # Birds\n  +\n  + The heron nests.\n"
    )
    assert cli("history", "-n1", "birds.md:3").stdout == (
        f"{names[1]}  {minute(SUMMER)}  A  x\n  birds.md@{names[1]}:3\n  - The heron nests.\n  + The heron sleeps.\n"
    )
    assert cli("history").stdout == (
        f"{names[0]}  {minute(AUTUMN)}  A  boats \\x1b[31mgone  (1 note)\n"
        f"{names[1]}  {minute(SUMMER)}  A  x  (2 notes)\n{names[2]}  {minute(SPRING)}  A  x  (1 note)\n"
    )


def test_blame_prints_commit_day_and_origin_of_each_line(cli: Cli, names: list[str]) -> None:
    """In columns."""
    day = datetime.fromtimestamp(SUMMER).date().isoformat()
    first = f"{names[2]} {datetime.fromtimestamp(SPRING).date().isoformat()}"
    assert cli("history", "blame", "birds.md").stdout == (
        f"{first}      1  # Birds\n{first}      2\n{names[1]} {day}      3  The heron sleeps.\n"
        f"{'not committed':<23}      4\n{'not committed':<23}      5  The tern dives.\n"
    )
    assert cli("history", "blame", "boats.md@main~1:3").stdout == (
        f"{names[1]} {day} codex s9      3  - the ketch {{by=codex session=s9}}\n"
    )


def test_diff_prints_what_was_learnt_and_dropped(cli: Cli, names: list[str]) -> None:
    """By note and heading, with citations, and how much it is."""
    shown = cli("history", "diff", "main~1")
    assert shown.stdout == (
        f"birds.md › Birds\n  + The tern dives.  (birds.md:5)\n\n"
        f"boats.md › Boats\n  - the ketch {{by=codex session=s9}}  (boats.md@{names[1]}:3)\n"
    )
    assert shown.stderr == (
        f"memsync: 1 statement learnt, 1 dropped, from {names[1]} of {minute(SUMMER)} to the files as they are now\n"
    )
    document = json.loads(cli("history", "diff", "--json", "main~2", "main").stdout)
    assert [change["path"] for change in document["changes"]] == ["birds.md"]
    assert cli("history", "diff", "main~1", "main", '"ketch"').stdout.startswith("boats.md")


def test_digest_prints_markdown_alone(cli: Cli, names: list[str]) -> None:
    """So that it can be a file."""
    shown = cli("history", "digest", "--since", "main~2", "--until", "main~1")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout == (
        "# What changed since main~2\n\n2 statements learnt, 1 dropped, in 2 notes.\n"
        f"Compared: the commit {names[2]} of {minute(SPRING)[:10]} with the notes of {minute(SUMMER)[:10]}.\n\n"
        f"## birds.md\n\n### Birds\n\n- The heron sleeps.  (birds.md@{names[1]}:3)\n"
        f"- ~~The heron nests.~~  (birds.md@{names[2]}:3)\n\n"
        f"## boats.md\n\n### Boats\n\n- the ketch {{by=codex session=s9}}  (boats.md@{names[1]}:3)\n"
    )
    assert cli("history", "digest").returncode == 0
    early = cli("history", "digest", "--since", "2020-01-01")
    assert early.returncode == 0 and f"the commit {names[2]} of" in early.stdout
