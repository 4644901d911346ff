"""`check` names each fault by rule, place and reason, exits with 1, and repairs only what is certain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memsync.errors import UsageError
from memsync.memory import Memory
from tests.conftest import Write
from tests.support.daemon_process import Cli

STORE = "# Store\n\n## Decision\n\nSQLite. ^why\n"


def found(memory: Memory, *rules: str) -> list[tuple[str, str]]:
    return [(one.citation, one.rule) for one in memory.check(rules).findings]


def of_text(memory: Memory, note: str, text: str) -> list[tuple[str, str]]:
    return [(one.citation, one.rule) for one in memory.check_text(note, text).findings]


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("[[projects/store]] [[store]] [[Store#Decision]] [[store#^why]] [s](projects/store.md#decision)", ""),
        ('if [[ -z "$X" ]]; [[ $? -eq 0 ]] [[ ! -f "$DB" ]] [[ a == b ]] [[ 1 -lt 2 ]] [[ $x =~ y ]] [[:alpha:]]', ""),
        ('x[["name"]] [[ -d /tmp && -n $HOME ]] [[ "$1" = -h ]] [[ store ]]', ""),
        ("[p](projects/) [p](./projects) [p](pictures/../projects/#x) [h](.gitignore) [[.hidden/x.json]]", ""),
        ("[out](../../elsewhere/x.py) [wiki](../wiki) [up](../) [query](projects/?x=1) [[2031/07/05]]", ""),
        ("[moved](../nowhere/store.md)", "links"),
        ("[x](linked/x.png)", "links"),
        (
            "[[2031-07-05]] [[daily/2031-07-05]] [d](daily/2031-07-05.md) [[2031-07-05#Log]] [[20310705]] [[2031-W27]]",
            "",
        ),
        ("[[Jul 5th, 2031]] [[5 July 2031]] [[July 2031]] [[2031-07]] [[05.07.2031]] [[Friday, July 5th, 2031]]", ""),
        ("[[Project 2031]]", "links"),
        ("above\n\n---\nbetween: two: rules\n---\nbelow", ""),
        ("[[nowhere]]", "links"),
        ('[[the "best" one]]', "links"),
        ("[[ R & D ]]", "links"),
        ('[["No such title"]]', "links"),
        ("[x](projects/nowhere.md) and `[[nowhere]]`", "links"),
        ("![[missing.png]]", "links"),
        ("![p](pictures/heron.png) [w](https://example.org/x.md) [m](mailto:a@b.example)", ""),
        ("[[store#Reasons]]", "anchors"),
        ("[[store#^because]]", "anchors"),
        ("[s](projects/store.md#reasons)", "anchors"),
        ("[[twin]]", "names"),
        ("see projects/store.md:99", "citations"),
        ("see projects/store.md:5", ""),
        ("- new {supersedes=projects/none.md:3}", "citations"),
        ("- new {supersedes=projects/store.md:5~00000000}", "citations"),
        ("- Kim has the pager. {valid_until=2020-01-01}", "expired"),
        ("- Kim has the pager. {valid_until=2099-01-01}", ""),
        ("<<<<<<< HEAD", "conflicts"),
        ("[[drafts/secret]]", "ignored"),
    ],
)
def test_each_rule(memory: Memory, write: Write, line: str, rule: str) -> None:
    """One fault gives one finding, on its line; what is in order gives none."""
    write("projects/store.md", STORE)
    write("a/twin.md", "# One\n")
    write("b/twin.md", "# Two\n")
    write("pictures/heron.png", b"png")
    write(".gitignore", "drafts/\n")
    write("drafts/secret.md", "# Draft\n")
    write(".hidden/x.json", "{}")
    (memory.settings.root / "linked").symlink_to(memory.settings.root / "pictures")
    write("note.md", f"# Note\n\n{line}\n")
    expected = [("note.md:3", rule)] if rule else []
    assert found(memory) == expected
    assert of_text(memory, "note.md", f"# Note\n\n\n{line}\n") == [("note.md:4", rule)] * bool(rule)


def test_titles_and_front_matter(memory: Memory, write: Write) -> None:
    """The first note with a title in a folder is not named; a head that cannot be read is."""
    write("a.md", "# Heron\n")
    write("b.md", "# heron\n")
    write("c.md", "---\nx: [\n---\n# C\n")
    write("threads/t.md", "# Heron\n\n## user\n\n[[nowhere]]\n")
    for path in ("archive/d.md", "other/d.md"):
        write(path, "# Heron\n\n" + "[[nowhere]]\n" * path.startswith("archive"))
    write("Templates/t.md", "---\ncreated: {{date}}\n---\n[[nowhere]]\n")
    write("map.md", "---\nexcalidraw-plugin: parsed\n---\n[[nowhere]] ^aB3\n")
    assert found(memory) == [("b.md:1", "titles"), ("c.md:1", "front-matter")]
    assert of_text(memory, "b.md", "# Heron\n") == [("b.md:1", "titles")] and not of_text(memory, "a.md", "# Heron\n")
    assert of_text(memory, "c.md", "# C\n") == of_text(memory, "archive/d.md", "[[nowhere]]") == []
    assert [warning.path for warning in memory.status().warnings] == ["c.md"]
    assert found(memory, "titles") == [("b.md:1", "titles")]
    with pytest.raises(UsageError, match='there is no rule "birds"'):
        memory.check(("birds",))


def test_circle_of_supersedes_is_named_and_ends_at_the_newest(memory: Memory, write: Write) -> None:
    """The mark that counts for nothing is the one in the older note."""
    write("old.md", "---\ndate: 2026-01-01\nsupersedes: new.md\n---\n# Old\n\nThe office is in Bonn.\n")
    write("new.md", "---\ndate: 2026-05-01\nsupersedes: old.md\n---\n# New\n\nThe office is in Berlin.\n")
    (finding,) = memory.check().findings
    assert (finding.citation, "supersedes new.md, which is newer (2026-05-01)" in finding.message) == ("old.md:1", True)
    assert [hit.path for hit in memory.search("office is:current").hits] == ["new.md"]


def test_fix_repairs_what_was_moved_and_nothing_else(memory: Memory, write: Write, root: Path) -> None:
    """A link to the one note of that name; all other bytes stay, and so does a mark whose text has moved."""
    write("new/store.md", STORE)
    text = "See [[old/store|it]] and [it](old/store.md#decision).\r\n\r\n`[[old/store]]` [[nowhere]]\r\n\r\n- A.\r\n"
    write("note.md", text)
    write("MEMORY.md", "- The office is in Bonn.\n")
    memory.remember("The office is in Berlin.", note="facts.md", supersedes="MEMORY.md:1")
    write("MEMORY.md", "# Memory\n\n- The office is in Bonn.\n")
    findings = memory.check(fix=True).findings
    assert [(one.citation, one.rule, one.is_fixed) for one in findings] == [
        ("note.md:1", "links", True), ("note.md:1", "links", True), ("note.md:3", "links", False),
    ]  # fmt: skip
    expected = text.replace("[[old/store|", "[[new/store|", 1).replace("(old/store.md#", "(new/store.md#")
    assert (root / "note.md").read_bytes().decode() == expected
    assert "{supersedes=MEMORY.md:1~" in (root / "facts.md").read_text()
    assert found(memory) == [("note.md:3", "links")]


CHANGED = "The gate code is 4418. It changes each May."


@pytest.mark.parametrize(
    ("copy", "text", "is_found"),
    [
        ("n.sync-conflict-20261127-101010-ABCDEFG.md", CHANGED, True),
        ("n (Kim's conflicted copy 2026-11-27).md", CHANGED, True),
        ("n (Kim (Mac)'s conflicted copy 2026-11-27) (1).md", CHANGED, True),
        ("n (CONFLICT 20231005T070858).md", CHANGED, True),
        ("n_conflict-20240101-120000.md", CHANGED, True),
        ("n_BASE_123.md", CHANGED, True),
        ("n 2.md", CHANGED, True),
        ("n (1).md", CHANGED, True),
        ("n 2.md", "The second chapter is about the code of a heron.", False),
        ("n 2.md", f"N 2\n\n{CHANGED}", False),
        ("n conflict.md", CHANGED, False),
        ("other/n.sync-conflict-20261127-101010-ABCDEFG.md", CHANGED, False),
    ],
)
def test_copies(memory: Memory, write: Write, copy: str, text: str, is_found: bool) -> None:
    """What a sync client or git named after a note is no second hit; where people use such names, the text decides."""
    write("n.md", "The gate code is 4417. It changes each May.\n")
    write(copy, f"{text}\n")
    assert found(memory) == [(f"{copy}:1", "copies")] * is_found
    assert memory.status().copies == (copy,) * is_found
    for words, best in (("code changes", "n.md"), ("code 4418", copy)) if is_found else ():
        (hit,) = memory.search(words, mode="keyword").hits
        assert (hit.path, hit.also) == (best, (f"{copy if best == 'n.md' else 'n.md'}:1",))
    assert is_found or {hit.path for hit in memory.search("code", mode="keyword").hits} == {"n.md", copy}


def test_status_counts_what_is_left_out(memory: Memory, cli: Cli, write: Write, root: Path) -> None:
    """Excluded notes and folders are counted; links that would be notes or folders are named."""
    write(".gitignore", "drafts/\nold*.md\n")
    for path in ("a.md", "old1.md", "old2.md", "drafts/a.md", "x.png"):
        write(path, "# A\n")
    for name in ("linked.md", "photos", "y.png"):
        (root / name).symlink_to(root / "x.png")
    status = memory.status()
    assert (status.excluded, sorted(status.links)) == (3, ["linked.md", "photos"])
    printed = cli("status").stdout
    assert "excluded      3 notes and folders, by .gitignore or [files] exclude\n" in printed
    assert "\nnot followed  " in printed


def test_ignored_findings(cli: Cli, write: Write, root: Path) -> None:
    """Findings of rules and patterns are left out and counted; no pattern hides a secret."""
    write(
        "drafts/a.md", "[[nowhere]]\n\n- x {valid_until=2020-01-01}\n\nghp_" + "q7R2m9Kx4Lw8Zt1Vb6Nc3Yp5Hd0Jf2Sg7Ta8\n"
    )
    write("b.md", "[[nowhere]]\n[[gone]]\n\n- x {valid_until=2020-01-01}\n")
    write("config.toml", '[memsync]\n[check]\nignore = ["", "drafts/", "links"]\n')
    checked = cli("check")
    assert [line.split("  ")[:2] for line in checked.stdout.splitlines()] == [
        ["b.md:4", "expired"], ["drafts/a.md:5", "secrets"],
    ]  # fmt: skip
    assert "2 notes checked: expired 1, secrets 1; 4 findings ignored by [check] ignore" in checked.stderr
    write("config.toml", '[memsync]\n[check]\nignore = ["secrets", "links", "expired"]\n')
    assert cli("check").returncode == 0


def test_first_of_each_rule(cli: Cli, write: Write) -> None:
    """Ten findings of a rule are printed, with the number of the others; --all, -n and --json say otherwise."""
    write("a.md", "".join(f"[[gone {number}]]\n" for number in range(14)) + "\n- x {valid_until=2020-01-01}\n")
    checked = cli("check")
    assert (checked.stdout.count("  links  "), checked.stdout.count("  expired  ")) == (10, 1)
    assert "and 4 more links: --all prints every one" in checked.stderr
    assert "1 note checked: links 14, expired 1" in checked.stderr
    assert [cli("check", *more).stdout.count("leads nowhere") for more in (("--all",), ("-n", "3"))] == [14, 3]
    assert len(json.loads(cli("check", "--json").stdout)["findings"]) == 15


def test_formats(cli: Cli, write: Write) -> None:
    """Annotations escape what a name could inject; JSON is one document; the exit code is 1 until all is in order."""
    write("a,b.md", "[[no%where]]\n")
    assert cli("check", "--format", "github").stdout == (
        "::error file=a%2Cb.md,line=1,title=memsync links::[[no%25where]] leads nowhere\n"
    )
    assert json.loads(cli("check", "--json").stdout)["findings"][0]["rule"] == "links"
    assert cli("check").stdout == "a,b.md:1  links  [[no%where]] leads nowhere\n"
    assert cli("check").returncode == 1
    write("a,b.md", "fine\n")
    assert cli("check").returncode == 0
    assert cli("check", "birds").returncode == 2


def test_text_of_a_note_that_is_not_there_yet(memory: Memory, write: Write, root: Path) -> None:
    """It may link to itself; nothing is written."""
    write("store.md", STORE)
    assert of_text(memory, "new.md", "# New\n\n[[new]] [[store#None]] [[nowhere]]\n") == [
        ("new.md:3", "anchors"), ("new.md:3", "links")
    ]  # fmt: skip
    assert memory.check_text("new.md", "\0\1\2").failed[0].reason == "not a text file"
    assert sorted(path.name for path in root.glob("*.md")) == ["store.md"]
    with pytest.raises(UsageError):
        memory.check_text("../out.md", "")
