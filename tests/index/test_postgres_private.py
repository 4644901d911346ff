"""Nothing of a local-only note is in the shared database, whatever happens to the note."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from memsync.cli.render import _found_nothing
from memsync.errors import NoteError, NoThread
from memsync.index.postgres.index import Claim, PostgresIndex
from memsync.mcp_server.tools import _nothing
from memsync.memory import Memory, Parts, Through, open_memory
from memsync.model.vocabulary import NotePath
from memsync.ports import Index
from memsync.settings.load import load_settings
from tests.conftest import COUNTER, DEADLINE, FakeEmbedder, Write
from tests.support.index_checks import check_sound, dump
from tests.support.postgres_server import execute, own_database

SECRET = "zanzibar"
LONG = f"{SECRET}{'y' * 3_000}"


@pytest.fixture
def database() -> Iterator[str]:
    """Make a database of its own, so that all that it has can be searched for a word."""
    with own_database("private") as dsn:
        yield dsn


@pytest.fixture
def memory(database: str, root: Path, tmp_path: Path) -> Iterator[Memory]:
    """Open a memory whose folder private/ is local-only, and whose text the database keeps."""
    environ = {"MEMSYNC_PRIVACY_LOCAL_ONLY": "private/"}
    settings = load_settings(root=root, environ=environ, cwd=root)
    folder = tmp_path / "index"
    folder.mkdir()
    embedder = FakeEmbedder()
    index = PostgresIndex(database, "ours", folder, Claim("mine", "me"), stores_text=True)
    with Memory(settings, index, COUNTER, lambda: embedder, lambda space: embedder, deadline=DEADLINE) as opened:
        yield opened


def traces(dsn: str, word: str) -> list[str]:
    """Return the tables in which a word can be read."""
    found = []
    with psycopg.connect(dsn, autocommit=True) as connection:
        names = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'memsync'::regnamespace"
        )
        for (name,) in names.fetchall():
            statement = f"SELECT count(*) FROM memsync.{name} t WHERE lower(row_to_json(t)::text) LIKE %s"
            rows = connection.execute(statement.encode(), (f"%{word}%",))
            if rows.fetchone() != (0,):
                found.append(name)
    return found


@pytest.mark.parametrize(
    ("path", "head"),
    [("private/a.md", ""), ("a.md", "---\nlocal-only: true\n---\n"), ("a.md", "---\nlocal-only: yes\nunclosed: [\n")],
)
def test_private_note_is_not_in_the_database(
    memory: Memory, database: str, write: Write, root: Path, path: str, head: str
) -> None:
    """Neither its words, nor its name, title, links, failures or place in git's history; status says that it is not."""
    write("b.md", "The heron nests.\n")
    secret = f"{head}# {SECRET}\n\nThe {SECRET} {LONG} sleeps. [[{SECRET}]] #{SECRET}\n"
    write(path.replace("a.md", f"{SECRET}.md"), secret)
    write(f"private/{SECRET}-binary.md", b"\x00\x01\x02\xff" * 100)
    memory.sync()
    assert traces(database, SECRET) == []
    assert memory.search(SECRET, mode="keyword").hits == ()
    assert any(SECRET in failure.path for failure in memory.status().warnings)
    assert memory.sync().changed == 0
    check_sound(memory)
    assert memory.verify() is None


def test_note_that_becomes_private_leaves_no_trace_and_comes_back(
    memory: Memory, database: str, write: Write, root: Path
) -> None:
    """By its front matter and by a move, with all its vectors; when it is public again it is found."""
    text = f"# {SECRET}\n\nThe {SECRET} {LONG} sleeps.\n"
    write("b.md", "The heron nests.\n")
    note = write(f"{SECRET}.md", text)
    memory.sync()
    assert {"note", "word_row", "vocabulary"} <= set(traces(database, SECRET))
    vectors = len(dump_of_vectors(database))
    write(note.name, f"---\nlocal-only: true\n---\n{text}")
    memory.sync()
    assert traces(database, SECRET) == []
    assert len(dump_of_vectors(database)) < vectors
    write(note.name, text)
    memory.sync()
    assert memory.search(SECRET).hits[0].path == note.name
    (root / "private").mkdir()
    note.rename(root / "private" / note.name)
    memory.sync()
    assert traces(database, SECRET) == []
    (root / "private" / note.name).unlink()
    memory.sync()
    assert [path for path, _ in warnings_of(memory)] == []
    check_sound(memory)


def test_rebuild_keeps_no_vector_of_a_note_that_became_private(
    memory: Memory, database: str, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the note changes after the rebuild has begun."""
    write("b.md", "The heron nests.\n")
    write("a.md", f"The {SECRET} sleeps.\n")
    memory.sync()
    assert len(dump_of_vectors(database)) == 2
    begin = memory.index.beside

    def begin_and_write() -> Index:
        other = begin()
        write("a.md", f"---\nlocal-only: true\n---\nThe {SECRET} sleeps.\n")
        return other

    monkeypatch.setattr(memory.index, "beside", begin_and_write)
    memory.rebuild()
    assert len(dump_of_vectors(database)) == 1
    assert traces(database, SECRET) == []


def test_rebuild_that_was_killed_keeps_no_text_of_a_note_that_became_private(
    memory: Memory, database: str, write: Write
) -> None:
    """The next sync, or the daemon's next work, deletes what the rebuild left."""
    text = f"The {SECRET} sleeps.\n"
    write("a.md", text)
    for work in (memory.sync, memory.syncer.embed_in_background):
        write("a.md", text)
        memory.sync()
        other = memory.index.beside()
        with other.writing() as writer:
            content, stamp = memory.files.read(NotePath("a.md"))
            writer.put_note(other.prepare(*memory.reader.read(NotePath("a.md"), content)), stamp, "")
        write("a.md", f"---\nlocal-only: true\n---\n{text}")
        memory.search(SECRET, mode="keyword")
        assert "word_row" in traces(database, SECRET)
        work()
        assert traces(database, SECRET) == []


def test_name_of_a_private_note_is_not_sent_to_the_server(
    memory: Memory, write: Write, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may log every statement with its parameters."""
    sent: list[str] = []
    execute = psycopg.Cursor.execute

    def record(cursor: Any, statement: Any, parameters: Any = None, **options: Any) -> Any:
        sent.append(repr((statement, parameters)))
        return execute(cursor, statement, parameters, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", record)
    write("b.md", "The heron nests.\n")
    write(f"private/{SECRET}-1.md", f"The {SECRET}.\n")
    memory.sync()
    note = write(f"{SECRET}-2.md", f"---\nlocal-only: true\n---\nThe {SECRET}.\n")
    memory.sync()
    note.write_text(f"---\nlocal-only: true\n---\nThe {SECRET} again.\n")
    memory.sync()
    note.unlink()
    memory.sync()
    memory.rebuild()
    memory.verify()
    memory.status()
    assert len(sent) > 50
    assert [statement for statement in sent if SECRET in statement] == []


def test_note_that_becomes_private_after_a_move_of_its_root_leaves_no_trace(
    database: str, root: Path, write: Write
) -> None:
    """The moved root keeps its memory, under its name; one whose name is set anew is renamed in the database."""
    text = f"The {SECRET} sleeps.\n"
    write("a.md", text)
    write("b.md", "The heron nests.\n")

    def synced(folder: Path, name: str = "") -> list[tuple[object, ...]]:
        environ = {"MEMSYNC_INDEX_BACKEND": "postgres", "MEMSYNC_INDEX_DSN": database, "MEMSYNC_INDEX_NAME": name}
        settings = load_settings(root=folder, environ=environ, cwd=folder)
        embedder = FakeEmbedder()
        with open_memory(settings, Through.HERE, parts=Parts(lambda model: embedder, cache=lambda: None)) as memory:
            assert memory.sync().failed == ()
            check_sound(memory)
        return execute(database, "SELECT name FROM memory")

    assert synced(root) == [(root.name,)]
    assert traces(database, SECRET)
    moved = root.with_name("elsewhere")
    root.rename(moved)
    (moved / "a.md").write_text(f"---\nlocal-only: true\n---\n{text}")
    assert synced(moved) == [(root.name,)]
    assert traces(database, SECRET) == []
    assert synced(moved, "ours") == [("ours",)]
    assert synced(moved) == [("ours",)]
    root.mkdir()
    (root / "c.md").write_text("The stork.\n")
    assert sorted(synced(root)) == sorted([("ours",), (root.name,)])


def dump_of_vectors(dsn: str) -> list[object]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return list(connection.execute("SELECT hash FROM memsync.embedding"))


def warnings_of(memory: Memory) -> list[tuple[str, str]]:
    with memory.index.reading() as reader:
        return list(reader.warnings())


def test_history_of_private_notes_stays_on_this_machine(
    memory: Memory, database: str, write: Write, root: Path
) -> None:
    """Git names every file of HEAD; public notes have their dates from it."""
    write("b.md", "The heron nests.\n")
    write(f"private/{SECRET}.md", "It sleeps.\n")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=root, check=True, capture_output=True)
    memory.sync()
    assert memory.status().dated_notes == 1
    assert any(json.loads(line)[:2] == ["history", f"private/{SECRET}.md"] for line in dump(memory))
    assert traces(database, SECRET) == []


def test_answers_say_how_many_notes_the_shared_index_does_not_have(memory: Memory, write: Write) -> None:
    """Otherwise "nothing found" and "no session" would be false; `get` reads these notes from their files."""
    write("b.md", "The heron nests.\n")
    write(f"private/{SECRET}.md", f"The {SECRET} sleeps.\n")
    write("threads/gnu.md", f"---\nlocal-only: true\n---\n## user @ 2026-11-21 10:02\n\nWhere is the {SECRET}?\n")
    report = memory.sync()
    assert (report.added, report.not_shared) == (3, 2)
    missing = "2 local-only notes are not in the shared index"
    answers: list[Any] = [
        memory.search(SECRET, mode="keyword"), memory.threads(), memory.sessions(), memory.costs(),
        memory.messages("user"), memory.notes(), memory.collections(), memory.stale(), memory.stats(),
        memory.duplicates(), memory.prune(),
    ]  # fmt: skip
    for answer in answers:
        assert [warning for warning in answer.warnings if missing in warning], type(answer)
    assert answers[0].not_shared == 2 and _nothing(answers[0]).endswith("except the local-only ones.")
    assert _found_nothing(answers[0], "strict").endswith("except the local-only ones")
    assert SECRET in memory.get(f"private/{SECRET}.md").text
    write("threads/gnu.md", "---\nlocal-only: false\n---\n## user @ 2026-11-21 10:02\n\nWhere?\n")
    assert memory.sync().not_shared == 1
    assert "1 local-only note is not" in " ".join(memory.sessions().warnings)
    write(f"private/{SECRET}.md", "")
    (memory.settings.root / "private" / f"{SECRET}.md").unlink()
    memory.sync()
    assert memory.search("heron", mode="keyword").warnings == ()


def test_thread_that_is_local_only_is_not_said_to_be_gone(memory: Memory, write: Write) -> None:
    """By its name or, because its title is nowhere but in its file, by its path."""
    write("threads/gnu.md", "---\ntitle: Zoo\nlocal-only: true\n---\n## user @ 2026-11-21 10:02\n\nWhere?\n")
    memory.sync()
    with pytest.raises(NoteError, match=r"threads/gnu\.md is local-only, and not in the shared index") as caught:
        memory.thread("gnu")
    assert caught.value.hint == "Read it with: memsync get threads/gnu.md"
    with pytest.raises(NoThread) as unknown:
        memory.thread("zoo")
    assert "does not have the titles of local-only threads" in unknown.value.hint
