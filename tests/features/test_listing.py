"""The names that links and tags may use, as editors ask for them."""

from __future__ import annotations

from memsync.memory import Memory
from memsync.model.upkeep import NoteNames
from memsync.model.vocabulary import NotePath
from tests.conftest import Write
from tests.support.daemon_process import until


def test_names_are_told_once(memory: Memory, write: Write) -> None:
    """Titles, aliases and tags as the files are now; to a caller who knows that state only its number."""
    write("a/store.md", "---\naliases: [The Shop]\nname: shop\ntags: [work]\n---\n# Store\n")
    write("archive/old.md", "# Old\n")
    names = memory.names()
    assert names.notes == (
        NoteNames(NotePath("a/store.md"), "Store", ("shop", "The Shop")),
        NoteNames(NotePath("archive/old.md"), "Old", (), archived=True),
    )
    assert names.tags == {"work": 1}
    until(lambda: not memory.names(known=memory.names().generation).notes, "young files are not read again")
    write("b.md", "# B\n")
    assert [note.path for note in memory.names(known=names.generation).notes] == [
        "a/store.md",
        "archive/old.md",
        "b.md",
    ]
