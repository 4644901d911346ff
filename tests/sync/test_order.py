"""Which passages get their vectors first, and what is said about how long it takes."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from memsync.cli.common import progress_on_stderr
from memsync.errors import EmbedderError
from memsync.index.reading import SqlReader
from memsync.memory import Memory
from memsync.model.text import duration
from memsync.model.vocabulary import NotePath
from memsync.notes.parse import NoteReader
from memsync.ports import no_progress
from memsync.sync import embedding
from memsync.sync.syncer import EMBED_ON_SEARCH, sync_lock
from tests.conftest import FakeEmbedder, MakeMemory, Patch, Write
from tests.support.backends import only_sqlite
from tests.support.index_checks import dump
from tests.support.stand_ins import beforehand

SENTENCE = "the heron nests in an old alder by the pond and returns to it late each year when the ice has gone"


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: Patch) -> None:
    monkeypatch.setattr(embedding, "BATCH_PASSAGES", 2)
    monkeypatch.setattr(embedding, "MAX_BATCH_PASSAGES", 2)
    monkeypatch.setattr(embedding, "BATCH_SECONDS", 1e9)  # a slow machine gets no smaller batches
    monkeypatch.setattr(embedding, "RATE_PASSAGES", 4)


def note_of(name: str, sections: int = 3) -> str:
    """Return a note whose first section is too short to tell anything, and whose others do."""
    parts = [f"## Part {number}\n\n{name} part {number}: {SENTENCE}." for number in range(1, sections)]
    return f"# {name}\n\n{name} begins.\n\n" + "\n\n".join(parts) + "\n"


def test_pinned_important_retrieved_and_new_notes_come_first(
    memory: Memory, write: Write, embedder: FakeEmbedder
) -> None:
    """In this order, otherwise by path. Each note has one passage before any has its second; shared text comes once."""
    embedder.fail = EmbedderError("down")
    heads = {"pinned": "pinned: true", "important": "importance: 0.9"}
    changed = {"new": 7, "same": 7}
    for name in ("old", "same", "new", "asked", "asked often", "important", "pinned"):
        path = write(f"{name}.md", f"---\n{heads.get(name, 'x: 1')}\n---\n{note_of(name)}\n## Shared\n\nBy all.\n")
        os.utime(path, (1, changed.get(name, 5)))
    memory.sync()
    retrievals = {NotePath("asked.md"): 1, NotePath("asked often.md"): 9}
    with memory.index.reading() as reader:
        space = embedder.space
        order = reader.pending_passages(space, reader.waiting(space, retrievals))
    expected = ["pinned.md", "important.md", "asked often.md", "asked.md", "new.md", "same.md", "old.md"]
    paths = [passage.path for passage in order]
    assert paths[:7] == expected
    assert paths[7:9] + paths[10:] == [path for path in expected for _ in range(2)]  # order[9] is the shared one


def test_telling_passage_is_the_first_that_says_enough(memory: Memory, write: Write, embedder: FakeEmbedder) -> None:
    """A title alone tells nothing; a note of short passages only has its first one embedded first."""
    write("long.md", note_of("Long"))
    write("short.md", "# Short\n\nOne.\n\n## Two\n\nThree.\n")
    for number, name in enumerate(("short.md", "long.md")):
        os.utime(memory.files.root / name, (number + 1, number + 1))
    memory.sync()
    assert [text.splitlines()[-1].split(":")[0] for text in embedder.seen[:2]] == ["Long part 1", "One."]
    assert [text.splitlines()[0] for text in embedder.seen[2:]] == ["# Long", "## Part 2", "## Two"]


def test_what_searches_retrieved_is_embedded_first(memory: Memory, write: Write, embedder: FakeEmbedder) -> None:
    """When all is embedded anew, by another model for example."""
    for name in ("a", "b", "c", "d"):
        os.utime(write(f"{name}.md", note_of(name, 12)), (1, 1))
    memory.sync()
    assert memory.search('"c begins"', mode="keyword").hits[0].path == "c.md"
    embedder.seen.clear()
    memory.rebuild(drop_vectors=True)
    assert embedder.seen[0].splitlines()[-1].startswith("c part 1")


def test_order_leaves_no_trace_in_the_index(write: Write, make_memory: MakeMemory, monkeypatch: Patch) -> None:
    """The finished index is the same whatever was embedded first."""
    for name in ("a", "b", "c"):
        write(f"{name}.md", note_of(name))
    memory = make_memory()
    memory.sync()
    before = dump(memory)
    real = SqlReader.waiting
    monkeypatch.setattr(SqlReader, "waiting", lambda *given: real(*given)[::-1])
    memory.rebuild(drop_vectors=True)
    assert dump(memory) == before


@pytest.fixture
def saving_meanwhile(memory: Memory, write: Write, embedder: FakeEmbedder, monkeypatch: Patch) -> FakeEmbedder:
    """Save and index another note when eight passages are embedded; what waits is then sorted again."""
    monkeypatch.setattr(embedding, "ORDER_SECONDS", 0.0)
    monkeypatch.setattr(embedding, "ORDER_REST", 0)
    real = embedder.embed_passages

    def embed(texts: Sequence[str], pause: Callable[[], None] = lambda: None) -> list[Any]:
        if len(embedder.seen) == 8:
            write("e.md", "The curlew came.\n")
            memory.syncer.refresh()
        return real(texts, pause)

    monkeypatch.setattr(embedder, "embed_passages", embed)
    return embedder


def test_passage_that_the_model_refuses_holds_up_no_other(
    memory: Memory, write: Write, saving_meanwhile: FakeEmbedder, monkeypatch: Patch
) -> None:
    """It is tried once a run, also when what waits is put into order again; all others have their vectors."""
    for name in ("a", "b", "c", "d"):
        write(f"{name}.md", note_of(name))
    real = saving_meanwhile._vector
    monkeypatch.setattr(saving_meanwhile, "_vector", lambda text: real(text) * ("a part" not in text))
    report = memory.sync()
    assert (report.vectors_pending, len(report.failed)) == (2, 1)
    assert len(saving_meanwhile.seen) == len(set(saving_meanwhile.seen)) == 13


def test_note_saved_meanwhile_need_not_wait_for_the_rest(
    memory: Memory, write: Write, saving_meanwhile: FakeEmbedder
) -> None:
    """What an edit adds while thousands of passages wait is found by meaning within seconds."""
    for name in ("a", "b", "c", "d"):
        os.utime(write(f"{name}.md", note_of(name, 6)), (1, 1))
    report = memory.sync()
    assert report.vectors_pending == 0
    assert "The curlew came." in saving_meanwhile.seen[8:12]


@only_sqlite
def test_text_of_a_first_sync_is_read_once(memory: Memory, write: Write, monkeypatch: Patch) -> None:
    """It waits in the index for the model. A database that others read has no such texts: they come from the files."""
    for name in ("a", "b", "c"):
        write(f"{name}.md", note_of(name, 9))
    read: list[NotePath] = []
    beforehand(monkeypatch, NoteReader, "read", lambda _, path, *__: read.append(path))
    assert memory.sync().vectors_pending == 0
    assert sorted(read) == ["a.md", "b.md", "c.md"]


def test_note_is_read_once_for_all_that_waits_of_it(
    memory: Memory, make_memory: MakeMemory, write: Write, embedder: FakeEmbedder, monkeypatch: Patch
) -> None:
    """For another model's vectors texts come from the files: one time for the telling passages, one for the rest."""
    for name in ("a", "b", "c"):
        write(f"{name}.md", note_of(name, 9))
    memory.sync()
    read: list[NotePath] = []
    beforehand(monkeypatch, NoteReader, "read", lambda _, path, *__: read.append(path))
    assert make_memory(FakeEmbedder("other"), old=embedder).sync().vectors_computed == 27
    assert len(read) <= 6


def test_sync_says_how_much_there_is_and_how_long_it_takes(memory: Memory, write: Write, monkeypatch: Patch) -> None:
    """Once: before it begins when the speed is known, else as soon as it was measured; status says it, too."""
    monkeypatch.setattr(embedding, "WORTH_ANNOUNCING_SECONDS", 0.0)
    said: list[tuple[str, int, int]] = []

    def progress(what: str, done: int, total: int) -> None:
        said.append((what, done, total))

    write("a.md", note_of("a", 9))
    memory.sync(progress=progress)
    computing = [one for one in said if one[0] == "computing vectors"]
    announced = [one for one in said if not one[2]]
    assert [one[0].split(", about ")[0] for one in announced] == ["5 passages to embed"]
    assert said.index(announced[0]) > said.index(computing[1])
    assert computing[-1] == ("computing vectors", 9, 9)
    assert memory.status().pending_seconds == 0.0
    with memory.index.writing() as writer:
        writer.set_meta(embedding.RATES, json.dumps({memory.models.configured().space.name: 0.1}))
    write("b.md", note_of("b", 23))
    memory.syncer.refresh()
    assert memory.status().pending_seconds == 230.0
    said.clear()
    memory.sync(progress=progress)
    assert next(one for one in said if one[0] != "reading notes") == (
        "23 passages to embed, about 3 min 50 s; searches work meanwhile",
        0,
        0,
    )


def test_search_during_a_sync_of_another_process_names_it(memory: Memory, write: Write) -> None:
    """The user need not run what runs already."""
    for number in range(EMBED_ON_SEARCH + 1):
        write(f"{number}.md", f"Heron {number}.\n")
    assert any(text.endswith("run memsync sync") for text in memory.search("heron").warnings)
    with sync_lock(memory.settings.index_dir, 0.0):
        warnings = memory.search("heron").warnings
    assert f"process {os.getpid()} is syncing this memory root, and goes on" in warnings[0]
    assert "run memsync sync" not in " ".join(warnings).lower()


def test_announcement_is_a_line_above_the_bar(monkeypatch: Patch) -> None:
    """On a terminal; what is not a terminal gets nothing."""
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress_on_stderr() as show:
        show("5 passages to embed, about 9 s", 0, 0)
        show("computing vectors", 1, 5)
    shown = re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    assert "5 passages to embed, about 9 s" in [line.strip() for line in re.split("[\r\n]+", shown)]
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress_on_stderr() as show:
        assert show is no_progress


def test_short_work_is_not_announced(memory: Memory, write: Write) -> None:
    """A bar is enough for a second's work."""
    write("a.md", note_of("a", 9))
    said: list[int] = []
    memory.sync(progress=lambda what, done, total: said.append(total))
    assert said
    assert 0 not in said


def test_length_of_time_is_said_in_two_units_at_most() -> None:
    """Seconds up to an hour; never none."""
    spoken = [duration(seconds) for seconds in (0.2, 40, 59.6, 220, 3_599, 3_600, 7_530)]
    assert spoken == ["1 s", "40 s", "1 min", "3 min 40 s", "59 min 59 s", "1 h", "2 h 5 min"]
