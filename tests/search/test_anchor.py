"""Hits are anchored in the files as they are at the answer: moved text where it is now, gone text not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import pytest

from memsync.memory import Memory
from memsync.model.answer import Hit
from memsync.sync.indexer import TextReport
from tests.conftest import Write

FILLER = "\n\n".join(f"Paragraph {number} is about boats and their ropes only." * 6 for number in range(12))


@pytest.fixture
def frozen(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Memory]:
    """Index what is there, and let no search compare the files any more: what follows happens behind its back."""

    def freeze() -> Memory:
        memory.sync()
        monkeypatch.setattr(memory.syncer, "refresh", lambda *_, **__: TextReport())
        return memory

    return freeze


def shown(hits: Iterable[Hit]) -> list[tuple[str, str]]:
    return [(hit.citation, hit.text) for hit in hits]


def test_a_repeated_paragraph_that_moved_is_cited_at_the_nearest_place(
    frozen: Callable[[], Memory], write: Write
) -> None:
    """The text is there twice: the hit is the one next to where it was, whether the copy is before or after it."""
    heron = "## Sight\n\nThe heron nests in the alder."
    path = write("a.md", f"{FILLER}\n\n{heron}\n")
    was = FILLER.count("\n") + 3
    memory = frozen()
    path.write_text(f"{heron}\n\n# Rest\n\n{FILLER}\n\n# New\n\n{heron}\n")
    assert shown(memory.search("heron alder", mode="keyword").hits) == [(f"a.md:{was + 8}-{was + 10}", heron)]
    path.write_text(f"{FILLER}\n\n{heron}\n\n# Rest\n\n{FILLER}\n\n{heron}\n")
    assert shown(memory.search("heron alder", mode="keyword").hits) == [(f"a.md:{was}-{was + 2}", heron)]


def test_an_edit_of_the_same_size_with_its_time_put_back_is_noticed(frozen: Callable[[], Memory], write: Write) -> None:
    """Size, mtime and inode are as indexed; the ctime is not, and the text is not what was found."""
    path = write("a.md", "The heron nests.\n")
    memory = frozen()
    before = path.stat()
    with path.open("r+") as file:
        file.write("The egret nests.\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == (before.st_size, before.st_mtime_ns, before.st_ino)
    assert memory.search("heron", mode="keyword").hits == ()


def test_gone_text_leaves_its_place_among_the_hits_to_the_next(frozen: Callable[[], Memory], write: Write) -> None:
    """Asked for two, two are given as long as there are two."""
    best = [write(f"a{number}.md", f"Heron heron heron nests{number}.\n") for number in range(3)]
    write("b.md", "The heron nests somewhere in the alder by the pond.\n")
    write("c.md", "The heron nests somewhere in the alder by the pond or elsewhere.\n")
    memory = frozen()
    assert [hit.path for hit in memory.search("heron", limit=2, mode="keyword").hits] == ["a0.md", "a1.md"]
    best[0].write_text("Nothing of it.\n")
    best[1].unlink()
    assert [hit.path for hit in memory.search("heron", limit=2, mode="keyword").hits] == ["a2.md", "b.md"]
    best[2].unlink()
    assert [hit.path for hit in memory.search("heron", limit=2, mode="keyword").hits] == ["b.md", "c.md"]


def test_no_place_is_shown_twice(frozen: Callable[[], Memory], write: Write) -> None:
    """Of two equal paragraphs one is deleted: both are found where the other is, which is shown once."""
    heron = "The heron nests in the alder."
    path = write("a.md", f"## One\n\n{heron}\n\n# Rest\n\n{FILLER}\n\n## One\n\n{heron}\n")
    memory = frozen()
    (hit,) = memory.search("heron alder", mode="keyword").hits
    assert len(hit.also) == 1
    path.write_text(f"{FILLER}\n\n## One\n\n{heron}\n")
    first = FILLER.count("\n") + 3
    assert [hit.citation for hit in memory.search("heron alder", mode="keyword").hits] == [f"a.md:{first}-{first + 2}"]


def test_pieces_of_one_line_are_places_of_their_own(memory: Memory, write: Write) -> None:
    """A line too long for a chunk is cut into pieces, each quoted by itself."""
    write("a.md", "heron " + "boats and ropes " * 300 + "heron\n")
    hits = memory.search("heron", mode="keyword").hits
    assert {hit.citation for hit in hits} == {"a.md:1"}
    assert sorted(hit.text.count("heron") for hit in hits) == [1, 1]
    assert len({hit.text for hit in hits}) == 2


def test_a_file_that_became_shorter_shows_nothing_beyond_its_end(frozen: Callable[[], Memory], write: Write) -> None:
    """Nor does one that is no text any more."""
    path = write("a.md", f"{FILLER}\n\nThe heron.\n")
    memory = frozen()
    path.write_text("Short.\n")
    assert memory.search("heron", mode="keyword").hits == ()
    path.write_bytes(b"\0\1\2heron" * 50)
    assert memory.search("heron", mode="keyword").hits == ()


def test_a_span_of_several_entries_is_quoted_whole(memory: Memory, write: Write) -> None:
    """From the first line of its first entry to the last of its last, while the file is as indexed."""
    lines = [f"- {8 + n // 6:02d}:{n % 6}0 Something else, number {n}, with boats and ropes." for n in range(40)]
    lines[10] = "- 09:40 The heron nests in the alder."
    lines[11] = "- 09:50 The heron nests in the alder."
    write("daily/2026-11-20.md", "\n".join(lines) + "\n")
    best = memory.search("heron nests alder", mode="keyword").hits[0]
    assert (best.start_line, best.end_line) == (11, 12)
    assert best.text == "\n".join(lines[best.start_line - 1 : best.end_line])
