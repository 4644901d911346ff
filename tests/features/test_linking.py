"""`memsync links`, the filters `links:` and `linked-from:`, and `memsync get` with a link."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memsync.errors import MemsyncError, NoSuchNote, NoteError, UsageError
from memsync.memory import Memory, MemoryApi
from memsync.model.upkeep import LinkPlace
from tests.conftest import MakeMemory, Write
from tests.support.daemon_process import Cli


def places(found: tuple[LinkPlace, ...]) -> list[tuple[str, int, str, str]]:
    return sorted((place.path, place.line, place.target, place.note) for place in found)


def paths(memory: MemoryApi, query: str) -> set[str]:
    return {hit.path for hit in memory.search(query, mode="keyword").hits}


@pytest.fixture
def linked(write: Write) -> None:
    """Make notes that link to each other in each form."""
    write("projects/store.md", "---\naliases: [The Store]\nup: '[[index]]'\n---\n# Store\n\nA bittern in [[eggs]].\n")
    write("eggs.md", "# Eggs\n\nA bittern. [t](projects/store.md#store) [[projects/store]]\n\n[[nowhere]] [[eggs]]\n")
    write("index.md", "# Index\n\nA bittern.\n\n[[The Store]] ![[pic.png]] [t](https://example.org) `[[eggs]]`\n")
    write("alone.md", "# Alone\n\nA bittern.\n")
    write("pic.png", b"\x89PNG")


# ------------------------------------------------------------------------------------------------------- links


@pytest.mark.usefixtures("linked")
def test_links_of_a_note_are_those_out_of_it_into_it_and_dead_ones(own: MemoryApi) -> None:
    """Each with its line; external links, code and links of a note to itself from elsewhere are none of these."""
    found = own.links("eggs.md")
    assert places(found.out) == [
        ("eggs.md", 3, "projects/store", "projects/store.md"),
        ("eggs.md", 3, "projects/store.md", "projects/store.md"),
        ("eggs.md", 5, "eggs", "eggs.md"),
    ]
    assert places(found.into) == [("projects/store.md", 7, "eggs", "eggs.md")]
    assert places(found.unresolved) == [("eggs.md", 5, "nowhere", "")]
    assert {place.target: place.anchor for place in found.out}["projects/store.md"] == "store"


@pytest.mark.usefixtures("linked")
def test_front_matter_titles_and_attachments_count(own: MemoryApi) -> None:
    """A link in front matter has its line, too; a file that is no note is a target."""
    found = own.links("index.md")
    assert places(found.out) == [
        ("index.md", 5, "The Store", "projects/store.md"),
        ("index.md", 5, "pic.png", "pic.png"),
    ]
    assert places(found.into) == [("projects/store.md", 3, "index", "index.md")]


@pytest.mark.usefixtures("linked")
@pytest.mark.parametrize("name", ["projects/store.md", "projects/store", "Store", "the store", "projects/store.md:3"])
def test_note_is_named_by_path_title_or_alias(own: MemoryApi, name: str) -> None:
    """As for get; a name that no note has is an error."""
    assert own.links(name).path == "projects/store.md"
    with pytest.raises(NoSuchNote):
        own.links("nothing")


def test_title_that_two_notes_have_names_neither(own: MemoryApi, write: Write) -> None:
    """Otherwise the link would mean another note as soon as one of them is moved."""
    write("a.md", "# Ada\n")
    write("b.md", "# Ada\n")
    write("n.md", "[[Ada]]\n")
    assert [place.target for place in own.links("n.md").unresolved] == ["Ada"]


def test_links_are_those_of_the_files_as_they_are_now(own: MemoryApi, write: Write, root: Path) -> None:
    """A link that was just written counts, one that was just deleted does not."""
    write("a.md", "[[b]]\n")
    write("b.md", "")
    assert [place.path for place in own.links("b.md").into] == ["a.md"]
    write("a.md", "No more.\n")
    write("c.md", "[[b]]\n")
    assert [place.path for place in own.links("b.md").into] == ["c.md"]
    (root / "b.md").unlink()
    assert [place.target for place in own.links("c.md").unresolved] == ["b"]


def test_similar_notes_are_those_that_are_not_linked(memory: Memory, write: Write) -> None:
    """In either direction, the most similar first; the note itself is not among them."""
    write("a.md", "heron bittern tern alder pond\n\n[[linked]]\n")
    write("linked.md", "heron bittern tern alder pond\n")
    write("linking.md", "heron bittern tern alder pond [[a]]\n")
    write("twin.md", "heron bittern tern alder pond\n")
    write("near.md", "heron bittern tern alder boat harbour\n")
    memory.sync()
    similar = memory.links("a.md").similar
    assert similar[0].path == "twin.md"
    assert not {"a.md", "linked.md", "linking.md"} & {note.path for note in similar}
    assert [note.score for note in similar] == sorted((note.score for note in similar), reverse=True)


def test_note_without_vectors_has_no_similar_ones(make_memory: MakeMemory, write: Write) -> None:
    """An empty note, or one not embedded yet, is no error."""
    write("a.md", "")
    write("b.md", "heron\n")
    assert make_memory().links("a.md").similar == ()


@pytest.mark.usefixtures("linked")
def test_command_lists_links_and_json_is_one_document(cli: Cli) -> None:
    """Each row says its kind; a note without links is no error."""
    done = cli("links", "eggs.md")
    assert done.returncode == 0
    rows = [line.split()[:2] for line in done.stdout.splitlines()]
    assert rows[:5] == [
        ["out", "eggs.md:3"], ["out", "eggs.md:3"], ["out", "eggs.md:5"],
        ["in", "projects/store.md:7"], ["dead", "eggs.md:5"],
    ]  # fmt: skip
    assert json.loads(cli("links", "eggs.md", "--json").stdout)["path"] == "eggs.md"
    assert cli("links", "alone.md").returncode == 0
    assert cli("links", "nothing.md").returncode != 0


# ----------------------------------------------------------------------------------------------------- filters


@pytest.mark.usefixtures("linked")
def test_filter_links_keeps_notes_that_link_to_a_note(own: MemoryApi) -> None:
    """Its name is a path, a name or an alias; several mean any of them."""
    assert paths(own, "bittern") >= {"projects/store.md", "eggs.md", "index.md", "alone.md"}
    for name in ("projects/store.md", "projects/store", "./projects/store.md", "store", '"The Store"'):
        assert paths(own, f"bittern links:{name}") == {"eggs.md", "index.md"}
    assert paths(own, "bittern links:eggs links:index") == {"projects/store.md"}
    assert paths(own, "bittern links:alone") == set()


@pytest.mark.usefixtures("linked")
def test_filter_linked_from_keeps_notes_that_a_note_links_to(own: MemoryApi) -> None:
    """Both filters together must both match."""
    assert paths(own, "bittern linked-from:eggs.md") == {"projects/store.md"}
    assert paths(own, "bittern linked-from:projects/store.md") == {"eggs.md", "index.md"}
    assert paths(own, "bittern linked-from:projects/store.md links:store") == {"eggs.md", "index.md"}
    assert paths(own, "bittern linked-from:index links:index") == {"projects/store.md"}
    assert paths(own, "bittern linked-from:alone") == set()


@pytest.mark.usefixtures("linked")
def test_filter_with_a_name_that_no_note_has_is_an_error(own: MemoryApi) -> None:
    """An empty answer would say that no note links to it."""
    for query in ("bittern links:nothing", "bittern linked-from:nothing.md"):
        with pytest.raises(UsageError, match="no note is called"):
            own.search(query, mode="keyword")


def test_link_of_a_note_to_itself_matches_no_filter(own: MemoryApi, write: Write) -> None:
    """A table of contents would make each note one that links to itself."""
    write("a.md", "# A bittern\n\n[[a]] [t](#a-bittern)\n")
    assert paths(own, "bittern links:a") == set()
    assert paths(own, "bittern linked-from:a") == set()


# --------------------------------------------------------------------------------------------------------- get

PARTS = """# Note

Opening.

## Open questions

Which?
Where?

### Later

Then.

## Closed

- one
- two ^second
- three

> a quote

^quoted

Two lines
of text. ^text

```
# Not a heading ^no
```
"""


@pytest.mark.parametrize(
    ("link", "first", "last"),
    [
        ("[[note]]", 1, 29),
        ("[[note|shown]]", 1, 29),
        ("[[note.md#Closed]]", 14, 29),
        ("[[NOTE#open questions]]", 5, 12),
        ("[[note#Note#Open questions]]", 5, 12),
        ("[[note#Open questions#Later|x]]", 10, 12),
        ("[[p/note#Later]]", 10, 12),
        ("[[note#^second]]", 17, 17),
        ("[[note#^SECOND]]", 17, 17),
        ("[[note#^text]]", 24, 25),
        ("[[note#^quoted]]", 20, 20),
        ("p/note.md#open-questions", 5, 12),
        ("p/note.md#^second", 17, 17),
        ("[[ note # Closed ]]", 14, 29),
    ],
)
def test_get_prints_what_a_link_names(own: MemoryApi, write: Write, link: str, first: int, last: int) -> None:
    """A heading with its subsections, or a block; the label does not count."""
    write("p/note.md", PARTS)
    found = own.get(link)
    assert (found.path, found.start_line, found.end_line) == ("p/note.md", first, last)


@pytest.mark.parametrize(
    ("link", "error"),
    [
        ("[[note#Nothing]]", "has no heading 'Nothing'"),
        ("[[note#Closed#Later]]", "has no heading"),
        ("[[note#^nothing]]", r"has no block \^nothing"),
        ("[[note#^no]]", r"has no block \^no"),
        ("[[note#Not a heading ^no]]", "has no heading"),
        ("[[nothing]]", "nothing.* does not exist"),
        ("[[../note]]", "not a path in the memory root"),
        ("[[]]", ""),
    ],
)
def test_get_says_what_a_link_does_not_find(memory: Memory, write: Write, link: str, error: str) -> None:
    """Code has no headings and no blocks, and a subheading is under its heading."""
    write("p/note.md", PARTS)
    with pytest.raises(MemsyncError, match=error or "."):
        memory.get(link)


def test_subheading_is_that_of_the_named_heading(own: MemoryApi, write: Write) -> None:
    """The same heading may be under several others."""
    write("n.md", "# A\n\n## Details\n\none\n\n# B\n\n## Details\n\ntwo\n")
    assert own.get("[[n#B#Details]]").text == "## Details\n\ntwo"
    assert own.get("n.md#B#Details").text == "## Details\n\ntwo"


def test_link_with_a_path_names_the_note_at_the_end_of_a_path(own: MemoryApi, write: Write) -> None:
    """As in a note; the shortest one if it names several."""
    write("a/b/note.md", "one\n")
    write("c/d/e/note.md", "two\n")
    assert own.get("[[note]]").path == "a/b/note.md"
    assert own.get("[[e/note]]").path == "c/d/e/note.md"


def test_close_heading_is_named(memory: Memory, write: Write) -> None:
    """The hint has the heading that was probably meant."""
    write("n.md", "# Open questions\n")
    with pytest.raises(NoteError) as raised:
        memory.get("[[n#Open question]]")
    assert raised.value.hint == "Did you mean #Open questions?"
