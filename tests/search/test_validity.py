"""What no longer holds is found after what replaces it, says so, and is left out where it would mislead."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memsync.memory import Memory
from memsync.search import validity
from tests.conftest import Write

TODAY = "2026-11-25"


@pytest.fixture(autouse=True)
def _today(set_day: Callable[[str], None]) -> None:
    set_day(TODAY)


def found(memory: Memory, query: str, limit: int = 10) -> list[tuple[str, str]]:
    """Return citation and validity of each hit, best first."""
    hits = memory.search(query, limit=limit, min_score=0, mode="keyword").hits
    return [(hit.citation, hit.validity) for hit in hits]


def test_what_is_superseded_comes_after_its_successor_and_says_so(memory: Memory, write: Write) -> None:
    """By a citation, the name of a note or the time of an entry; the older one would be first by its words."""
    write("MEMORY.md", "- The heron nests in the old alder at the pond\n- The crane nests on the raft\n")
    write("new.md", "- The heron nests in the oak {supersedes=MEMORY.md:1}\n")
    write("daily/2026-10-03.md", "- 10:05 The stork is fed by Kim at the pond\n- 11:00 The stork sleeps\n")
    write("daily/2026-10-09.md", '- 12:00 The stork is fed by Noor {supersedes="2026-10-03 10:05"}\n')
    write("rules/old.md", "# Feeding\n\nFeed the gull bread at noon.\n")
    write("rules/new.md", "---\nsupersedes: '[[Feeding]]'\n---\nFeed the gull fish.\n")
    assert found(memory, "the heron nests in the old alder at the pond", 2) == [
        ("new.md:1", ""),
        ("MEMORY.md:1", "superseded by new.md:1"),
    ]
    assert found(memory, "the stork is fed by Kim at the pond", 2) == [
        ("daily/2026-10-09.md:1", ""),
        ("daily/2026-10-03.md:1", "superseded by daily/2026-10-09.md:1"),
    ]
    first, second = found(memory, "feed the gull bread at noon", 2)
    assert first == ("rules/new.md:4", "")
    assert second[1] == "superseded by rules/new.md"
    assert dict(found(memory, "crane raft"))["MEMORY.md:2"] == ""


def test_superseded_line_is_found_after_lines_have_moved(memory: Memory, write: Write) -> None:
    """Memsync writes a digest of the old text beside its line."""
    write("MEMORY.md", "- The heron nests in the alder\n")
    memory.sync()
    written = memory.remember("the heron nests in the oak", note="new.md", supersedes="MEMORY.md:1", was="alder")
    undo = "To take it back, delete the new line: memsync open new.md:5"
    assert written.warnings == ("superseded: MEMORY.md:1  - The heron nests in the alder", undo)
    write("MEMORY.md", "- A new line\n- Another heron\n- The heron nests in the alder\n")
    assert dict(found(memory, "heron alder"))["MEMORY.md:3"] == f"superseded by new.md:3-{written.line}"
    assert dict(found(memory, "another heron"))["MEMORY.md:2"] == ""


def test_days_say_when_a_line_holds(memory: Memory, write: Write) -> None:
    """The last day counts, and so does the first; a note's front matter holds for all of it."""
    write("a.md", "- Heron token blue {valid_until=2026-11-24}\n- Heron token red {valid-until=2026-11-25}\n")
    write("b.md", "- Heron token green {valid_from=2026-11-26}\n- Heron token pink {valid_from=2026-11-25}\n")
    write("c.md", "---\nvalid_until: 2026-10\n---\nHeron token grey\n")
    assert dict(found(memory, "heron token")) == {
        "a.md:1": "valid until 2026-11-24", "a.md:2": "",
        "b.md:1": "valid from 2026-11-26", "b.md:2": "", "c.md:4": "valid until 2026-10",
    }  # fmt: skip
    assert {place for place, _ in found(memory, "heron token valid:2026-10-15")} == {"a.md:1-2", "c.md:4"}


def test_filters_leave_what_holds_or_what_does_not(memory: Memory, write: Write) -> None:
    """With words and without; what was true on a day counts what was superseded later."""
    write("daily/2026-10-03.md", "- 10:05 The heron is fed by Kim\n- 10:06 ~~The heron is ill~~\n")
    write("daily/2026-10-09.md", '- 12:00 The heron is fed by Noor {supersedes="2026-10-03 10:05"}\n')
    write("x.md", "# Status\n\nSuperseded by daily/2026-10-09.md\n\n# Heron\n\nIt is fed.\n")
    for i in range(250):
        write(f"n{i}.md", "The heron flies.\n")
    memory.sync()
    for query in ("heron is:superseded", "is:superseded"):
        places = {place for place, _ in found(memory, query, 50)}
        assert {"daily/2026-10-03.md:1", "daily/2026-10-03.md:2"} <= places
        assert {place.partition(":")[0] for place in places} == {"daily/2026-10-03.md", "x.md"}
    assert "" in {reason for _, reason in found(memory, "heron fed is:current", 50)}
    assert {reason for _, reason in found(memory, "heron fed is:current", 50)} == {""}
    assert ("daily/2026-10-03.md:1", "") in found(memory, "heron fed by valid:2026-10-05")
    assert "daily/2026-10-03.md:1" not in dict(found(memory, "heron fed by valid:2026-10-10"))


def test_text_of_a_paragraph_is_superseded_alone_and_found_again(memory: Memory, write: Write) -> None:
    """The other paragraphs of the passage hold; so it counts as current, and names the line."""
    boat = "# Boat\n\nThe mast is made of pine.\n\nThe keel weighs two tons.\n"
    write("boat.md", boat)
    memory.sync()
    memory.remember("the mast is made of carbon", supersedes="boat.md:3", was="pine")
    assert dict(found(memory, "keel tons"))["boat.md:1-5"] == "line 3: superseded by MEMORY.md:5"
    write("boat.md", "# Boat\n\nNew.\n" + boat.removeprefix("# Boat\n") + "\nThe sail is white.\n")
    (reason,) = [why for place, why in found(memory, "mast pine") if place.startswith("boat.md")]
    assert reason == "line 5: superseded by MEMORY.md:5"
    assert "two tons" in memory.context("keel tons").text


def test_nobody_can_write_what_a_text_itself_says(memory: Memory, write: Write) -> None:
    """Attributes of these names are the owner's own; a status is that of a decision record only."""
    write("a.md", '- I lived on a heron boat {past=2019}\n- The heron {superseded-note=""}\n')
    write("MEMORY.md", "- Status: obsolete heron laptops were recycled\n- The heron sings\n- Status: deprecated\n")
    write("threads/t.md", "## user @ 2026-10-01 10:00\n\nStatus: deprecated\n\nThe heron flag.\n")
    assert {why for _, why in found(memory, "heron")} == {""}


def test_many_struck_entries_hide_none_that_holds(memory: Memory, write: Write) -> None:
    write("daily/2026-10-01.md", "".join(f"- ~~The heron lantern number {n} is lit.~~\n" for n in range(400)))
    write("a.md", "A heron has a lantern.\n")
    memory.sync()
    assert found(memory, "heron lantern lit number is:current") == [("a.md:1", "")]


def test_circle_of_dated_notes_is_broken_by_date(memory: Memory, write: Write) -> None:
    write("a.md", "---\ndate: 2026-06-01\nsupersedes: b.md\n---\nThe heron is at the pond.\n")
    write("b.md", "---\ndate: 2026-01-01\nsupersedes: a.md\n---\nThe heron is at the lake.\n")
    assert dict(found(memory, "where is the heron")) == {"a.md:5": "", "b.md:5": "superseded by a.md"}


def test_name_with_a_comma_and_a_list_of_names(memory: Memory, write: Write) -> None:
    write("Berlin, Mitte.md", "The heron sits in Berlin.\n")
    write("b.md", "The heron sits in Bonn.\n")
    write("c.md", '- The heron flew {supersedes="Berlin, Mitte.md:1"}\n- It sat {supersedes="b.md:1, gone.md:1"}\n')
    reasons = dict(found(memory, "the heron sits"))
    assert (reasons["Berlin, Mitte.md:1"], reasons["b.md:1"]) == ("superseded by c.md:1", "superseded by c.md:2")


def test_circle_is_broken_by_date(memory: Memory, write: Write) -> None:
    """Of notes that supersede each other, the newest holds."""
    write("daily/2026-10-01.md", '- 10:00 The heron is at the pond {supersedes="2026-10-02 10:00"}\n')
    write("daily/2026-10-02.md", '- 10:00 The heron is at the lake {supersedes="2026-10-01 10:00"}\n')
    assert dict(found(memory, "where is the heron")) == {
        "daily/2026-10-01.md:1": "superseded by daily/2026-10-02.md:1",
        "daily/2026-10-02.md:1": "",
    }


def test_many_marks_are_read_in_linear_time(memory: Memory, write: Write) -> None:
    """A chain, a circle, and many marks in one note; no recursion ends a search."""
    lines = [f'- 10:{n % 60:02d} The heron is at pond {n} {{supersedes="a.md:{n}"}}' for n in range(1, 3_000)]
    write("a.md", "- The heron is at pond 0\n" + "\n".join(lines) + "\n")
    write("b.md", "---\nsupersedes: [c]\n---\nA crane.\n")
    write("c.md", "---\nsupersedes: [b, b, '[[b]]']\n---\nA crane, too.\n")
    memory.sync()
    reasons = dict(found(memory, "heron pond", 100))
    assert sum(reason.startswith("superseded by a.md") for reason in reasons.values()) > 50
    assert dict(found(memory, "crane"))["b.md:4"] == "superseded by c.md"
    assert dict(found(memory, "crane"))["c.md:4"] == ""


@pytest.mark.parametrize("mark", ["gone.md:3", "[[gone]]", "x.md", "../../etc/passwd:1", "MEMORY.md:99999999999", ":1"])
def test_mark_that_names_nothing_supersedes_nothing(memory: Memory, write: Write, mark: str) -> None:
    """Neither does one of the note itself."""
    write("x.md", f'- The heron nests in the oak {{supersedes="{mark}"}}\n')
    assert found(memory, "where does the heron nest") == [("x.md:1", "")]


def test_neighbours_of_which_one_does_not_hold_are_two_hits(memory: Memory, write: Write) -> None:
    write("a.md", "- The heron nests in the alder\n- ~~The heron nests in the elder~~\n")
    assert sorted(found(memory, "heron nests")) == [("a.md:1", ""), ("a.md:2", "struck through")]


def test_what_does_not_hold_is_left_out_of_a_context(memory: Memory, write: Write) -> None:
    """Of what lasts, of the logs and of the hits."""
    write("MEMORY.md", "- The heron nests in the oak {supersedes=old.md}\n- ~~The crane is ill~~\n")
    write("old.md", "The heron nests in the alder.\n")
    write(f"daily/{TODAY}.md", "- 10:00 The gull is here (no longer)\n- 10:01 The stork is here\n")
    text = memory.context("where does the heron nest", day=TODAY).text
    assert "oak" in text and "stork" in text
    assert not any(word in text for word in ("alder", "crane", "gull"))


def test_item_of_a_short_list_is_named_in_its_hit(memory: Memory, write: Write) -> None:
    """A short list of a reference note is one passage: its other items hold, so it counts as current."""
    write("birds.md", "# Birds\n\n- The heron nests in the alder\n- The crane nests on the raft\n")
    memory.sync()
    memory.remember("the heron nests in the oak", supersedes="birds.md:3", was="heron")
    (reason,) = [reason for place, reason in found(memory, "crane raft") if place.startswith("birds.md")]
    assert reason == "line 3: superseded by MEMORY.md:5"
    assert "raft" in memory.context("crane raft").text
    assert any(place.startswith("birds.md") for place, _ in found(memory, "crane is:current"))


def test_marks_are_read_once_for_each_state_of_the_index(
    memory: Memory, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search of a large memory must not read them all."""
    write("a.md", "- The heron nests {supersedes=b.md}\n")
    write("b.md", "The heron nests.\n")
    memory.sync()
    assert len(memory.search("heron", fresh="none").hits) == 2
    monkeypatch.setattr(validity.Validity, "of", lambda index: pytest.fail("read again"))
    assert len(memory.search("heron", fresh="none").hits) == 2


def test_write_checks_the_line_that_it_supersedes(memory: Memory, write: Write, root: Path) -> None:
    """An error names the nearest line that says so; nothing is written."""
    from memsync.errors import NoteError, Unrelated, UsageError

    write("MEMORY.md", "# Memory\n\n- one heron\n- two herons\n")
    before = sorted(os.listdir(root))
    for place, was, words in (
        ("MEMORY.md:3", "two", 'MEMORY.md:3 does not say "two"'), ("MEMORY.md:2", "", "MEMORY.md:2 says nothing"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=words) as refused:
            memory.log("x", supersedes=place, was=was)
        assert "MEMORY.md:" in str(refused.value.hint)
    with pytest.raises(NoteError):
        memory.remember("x", supersedes="gone.md:1")
    for options in (
        {"supersedes": "MEMORY.md", "was": "x"}, {"was": "x"}, {"supersedes": "MEMORY.md:3-4"},
        {"since": "2027-01-01", "until": "2026-01-01"},
    ):  # fmt: skip
        wrong: dict[str, Any] = options
        with pytest.raises(UsageError):
            memory.log("x", **wrong)
    with pytest.raises(UsageError, match="not a day"):
        memory.remember("x", until="soon")
    with pytest.raises(Unrelated, match="shares no word with") as unrelated:
        memory.remember("the office is in Berlin", supersedes="MEMORY.md:3")
    assert unrelated.value.hint.endswith("--was '- one heron'")
    assert sorted(os.listdir(root)) == before
    assert memory.log("three herons", supersedes="MEMORY.md:4", until="2027-01-01").warnings[0].endswith("- two herons")
    assert [(hit.text, hit.validity) for hit in memory.search("herons", limit=2).hits][1] == (
        "- two herons",
        f"superseded by daily/{TODAY}.md:3",
    )
