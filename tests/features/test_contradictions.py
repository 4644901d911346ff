"""Pairs of statements that contradict each other: each once, with place, date and origin, until it is dismissed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memsync.errors import UsageError
from memsync.memory import MemoryApi
from tests.conftest import Write
from tests.support.daemon_process import Cli


def pairs(memory: MemoryApi) -> list[tuple[str, str]]:
    return [(one.older.citation, one.newer.citation) for one in memory.contradictions().contradictions]


def test_each_pair_is_there_once_the_older_first(own: MemoryApi, write: Write) -> None:
    """A repetition of one side is not listed again. With a third value, the key is a series."""
    write("daily/2026-10-01.md", "- 10:00 price: 10 €\n- 11:00 The heron eats 3 fish a day {by=codex}\n")
    write("daily/2026-11-01.md", "- 10:00 price: 12 €\n- 10:01 price: 12 €\n- The heron eats 4 fish a day\n")
    assert pairs(own) == [
        ("daily/2026-10-01.md:1", "daily/2026-11-01.md:2"),
        ("daily/2026-10-01.md:2", "daily/2026-11-01.md:3"),
    ]
    older = own.contradictions().contradictions[1].older
    assert (older.date, older.origin, older.text) == ("2026-10-01T11:00", "agent:codex", "The heron eats 3 fish a day")
    write("third.md", "- price: 14 €\n")
    assert pairs(own) == [("daily/2026-10-01.md:2", "daily/2026-11-01.md:3")]


def test_one_document_and_two_people_do_not_contradict_themselves(own: MemoryApi, write: Write) -> None:
    """A document compares alternatives; a memory's items are facts."""
    write("doc.md", "# A\n\n- price: 10 €\n\n# B\n\n- price: 12 €\n")
    write("preferences.md", "# Preferences\n\n## ada\n- tone: Terse\n\n## bob\n- tone: Warm\n")
    assert pairs(own) == []
    write("MEMORY.md", "- office: Berlin\n\n## Later\n\n- office: Munich\n")
    assert pairs(own) == [("MEMORY.md:1", "MEMORY.md:5")]


def test_what_does_not_hold_and_what_tools_printed_is_in_no_conflict(own: MemoryApi, write: Write) -> None:
    """Nor what is archived, in front matter, or unreadable."""
    write("MEMORY.md", "- office: Berlin\n- price: 10 €\n- ~~dog: Rex~~\n- cat: Tom\n")
    write("new.md", "---\noffice: Rome\n---\n- office: Munich {supersedes=MEMORY.md:1}\n- dog: Ben\n")
    write("threads/t.md", "## tool @ 2026-11-01 10:00\n\n- price: 12 €\n")
    write("archive/a.md", "- cat: Kit\n")
    write("binary.md", b"- cat: Kit\n\x00\x00\x00\x00" * 50)
    found = own.contradictions()
    assert found.contradictions == ()
    assert [failure.path for failure in found.failed] in (["binary.md"], [])


def test_dismissed_pair_is_not_shown_again_wherever_it_stands(own: MemoryApi, write: Write, root: Path) -> None:
    """The list is in the memory root, so that git takes it along; an unknown id is an error."""
    write("a.md", "- price: 10 €\n")
    write("b.md", "- price: 12 €\n")
    (contradiction,) = own.contradictions().contradictions
    with pytest.raises(UsageError, match="there is no contradiction"):
        own.contradictions(dismiss=("nope",))
    assert not (root / ".memsync").exists()
    assert own.contradictions(dismiss=(contradiction.id,)).contradictions == ()
    write("b.md", "Text before.\n\n- price: 12 €\n")
    assert (own.contradictions().contradictions, own.contradictions().dismissed) == ((), 1)
    own.contradictions(dismiss=(contradiction.id,))
    assert (root / ".memsync/dismissed").read_text() == f"{contradiction.id}  a.md:1  b.md:1\n"
    write("b.md", "- price: 13 €\n")
    assert len(own.contradictions().contradictions) == 1


@pytest.mark.parametrize("hostile", ["link", "folder", "garbage"])
def test_list_of_a_clone_leads_nowhere(own: MemoryApi, write: Write, root: Path, tmp_path: Path, hostile: str) -> None:
    write("a.md", "- price: 10 €\n")
    write("b.md", "- price: 12 €\n")
    (root / ".memsync").mkdir()
    (target := tmp_path / "target").write_text("mine")
    file = root / ".memsync" / "dismissed"
    if hostile == "link":
        file.symlink_to(target)
    elif hostile == "folder":
        file.mkdir()
    else:
        file.write_bytes(b"\xff" * 5_000_000)
    (contradiction,) = own.contradictions().contradictions
    try:
        own.contradictions(dismiss=(contradiction.id,))
    except Exception as error:  # noqa: BLE001 (because which one depends on the harm)
        assert "dismissed cannot be written" in str(error)
    assert target.read_text() == "mine"


def test_hit_names_what_contradicts_it(own: MemoryApi, write: Write) -> None:
    """By place, if it was found, too; not once it is superseded."""
    write("a.md", "- price: 10 €\n")
    write("b.md", "- price: 12 €\n")
    hits = {hit.path: hit.differs for hit in own.search("price", mode="keyword").hits}
    assert hits == {"a.md": ("b.md:1",), "b.md": ("a.md:1",)}
    write("c.md", "- It has another price {supersedes=a.md:1}\n")
    assert {hit.differs for hit in own.search("price", mode="keyword").hits} == {()}


def test_command_exits_with_1_for_a_conflict(cli: Cli, root: Path) -> None:
    """For CI; with --json it prints one document."""
    (root / "a.md").write_text("---\ndate: 2026-10-01\n---\n- price: 10 €\n")
    assert cli("contradictions").returncode == 0
    (root / "b.md").write_text("- price: 12 €\n")
    done = cli("contradictions")
    assert done.returncode == 1 and "  b.md:1\n" in done.stdout and "other     a.md:4 · 2026-10-01" in done.stdout
    (contradiction,) = json.loads(cli("contradictions", "--json").stdout)["contradictions"]
    assert "differs from a.md:4" in cli("search", "price", "--mode", "keyword").stdout
    assert cli("contradictions", "--dismiss", contradiction["id"]).returncode == 0


def test_records_are_none_but_one_key_may_be(own: MemoryApi, write: Write) -> None:
    """Two notes of a folder with several keys in common are two things; so are the days of a log."""
    write("notes/kim.md", "- phone: 1111\n- birthday: 3 May\n")
    write("notes/lee.md", "- phone: 2222\n- birthday: 9 June\n")
    write("daily/2026-10-01.md", "- Weight: 81.2\n- Steps walked: 7000\n## Day\n- Mood: good\n")
    write("daily/2026-10-02.md", "- Weight: 80.9\n- Steps walked: 9000\n## Day\n- Mood: bad\n")
    assert pairs(own) == []
    write("notes/lee.md", "- phone: 2222\n- birthday: 3 May\n")
    assert pairs(own) == [("notes/kim.md:1", "notes/lee.md:1")]


def test_parts_of_a_memory_are_about_their_headings(own: MemoryApi, write: Write) -> None:
    write("MEMORY.md", "# Memory\n\n## Hamburg\n\n- The rent is 900 €\n\n## Bremen\n\n- The rent is 700 €\n")
    assert pairs(own) == []
    write("MEMORY.md", "# Memory\n\n- The rent is 900 €\n\n## Later\n\n- The rent is 700 €\n")
    assert pairs(own) == [("MEMORY.md:3", "MEMORY.md:7")]
