"""Several processes and machines at one memory in PostgreSQL: killed, at once, with a lock, with another claim."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from memsync.errors import IndexBusy, IndexFailure, IndexReadOnly, MemsyncError
from memsync.index.postgres import connections
from memsync.index.postgres.connections import Connections
from memsync.index.postgres.index import PostgresIndex
from memsync.index.postgres.writer import PostgresWriter
from memsync.settings.load import Settings
from memsync.workspace import POOL_THREADS
from tests.conftest import FakeEmbedder, Patch, Write
from tests.support.daemon_process import until
from tests.support.postgres_memory import Open, assert_converges, new_dump, refused
from tests.support.postgres_server import execute, own_database
from tests.support.sampling import fewer
from tests.support.sync_process import release, waiting

LOCK = "SELECT FROM memsync.memory WHERE name = 'fault' FOR UPDATE"


@pytest.fixture
def dsn() -> Iterator[str]:
    with own_database("writers") as found:
        yield found


@pytest.mark.slow
def test_killed_at_any_moment_of_a_sync(
    dsn: str, open_memory: Open, settings: Settings, tmp_path: Path, root: Path, write: Write
) -> None:
    """Kill -9 at random moments, of a first sync and of later ones: the next sync converges."""
    memory = open_memory(dsn)
    seconds = 0.0
    for turn in range(fewer(5, 2)):
        for number in range(60):
            write(f"n{number:02}.md", f"# Note {number}\n\nThe heron of turn {turn} nests in {number}.\n")
        (root / f"n{turn:02}.md").unlink()
        with waiting(settings, dsn) as process:
            began = time.perf_counter()
            release(process)
            if turn == 0:
                assert process.wait(180) == 0
                seconds = time.perf_counter() - began
                execute(dsn, "DELETE FROM memory")
                continue
            time.sleep(random.random() * seconds)
        assert_converges(memory, new_dump(settings, tmp_path / f"new {turn}"))


def test_two_processes_sync_at_once(
    dsn: str, open_memory: Open, settings: Settings, tmp_path: Path, write: Write
) -> None:
    """Both end well, and the index is that of the notes."""
    for number in range(40):
        write(f"n{number:02}.md", f"# Note {number}\n\nThe heron nests in {number}.\n")
    with waiting(settings, dsn) as one, waiting(settings, dsn) as other:
        release(one)
        release(other)
        assert (one.wait(180), other.wait(180)) == (0, 0)
    assert_converges(open_memory(dsn), new_dump(settings, tmp_path / "new"))


def test_another_machine_is_refused_until_it_takes_over(
    dsn: str, open_memory: Open, settings: Settings, tmp_path: Path, write: Write
) -> None:
    """The error says who writes the memory; after `take_over` the first machine is the one that is refused."""
    here = open_memory(dsn)
    here.sync()
    there = open_memory(dsn, machine="there", folder=tmp_path / "there")
    for work in (there.sync, there.rebuild, there.verify):
        with refused(dsn, IndexFailure, "'fault' on .* is written by somebody@here", "--take-over"):
            work()
    assert isinstance(there.index, PostgresIndex)
    assert isinstance(here.index, PostgresIndex)
    with refused(dsn, IndexFailure, "is written by somebody@here", "--take-over"):
        there.index.claim(take_over=False)
    assert there.index.claim(take_over=True) == "somebody@here"
    assert there.index.claim(take_over=True) == ""
    write("new.md", "The tern dives.\n")
    assert_converges(there, new_dump(settings, tmp_path / "new"))
    for refusal in (here.sync, here.rebuild, lambda: here.search("heron")):
        with refused(dsn, IndexFailure, "is written by somebody@there", "--take-over"):
            refusal()
    assert here.index.claim(take_over=True) == "somebody@there"
    assert_converges(here, new_dump(settings, tmp_path / "newer"))


# ------------------------------------------------------------------------------------------------ waiting


def test_connections_are_used_again_and_closed_with_the_index(dsn: str, monkeypatch: Patch) -> None:
    """As many as there are transactions at a time; a few are kept, and none after `close`, whoever used it."""
    monkeypatch.setattr(connections, "MAX_IDLE", 2)
    pool = Connections(dsn)
    kept = set[int]()
    for _ in range(2):
        with ExitStack() as stack:
            used = {stack.enter_context(pool.reading()).info.backend_pid for _ in range(4)}
        assert len(used) == 4
        assert kept <= used
        kept = {connection.info.backend_pid for connection in pool._idle}
        assert len(kept) == 2
    with pool.reading(), pytest.raises(MemsyncError), pool.reading() as connection:
        connection.execute("SELECT 1/0")
    assert pool._idle == []  # pgvector may have been moved: each new connection looks where it is
    with pool.writing():
        pool.close()
    ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'memsync' AND datname = current_database()"
    until(lambda: execute(dsn, ours) == [(0,)], "all connections are closed")
    with pytest.raises(IndexFailure, match="index is closed"), pool.reading():
        pass


def test_many_searches_do_not_wait_for_each_other(dsn: str, open_memory: Open, monkeypatch: Patch) -> None:
    """Each holds a connection while other threads, fewer than there are searches, look up the vectors."""
    memory = open_memory(dsn)
    memory.sync()
    crowded = threading.Barrier(POOL_THREADS)
    embed = FakeEmbedder.embed_query

    def embed_late(self: FakeEmbedder, text: str) -> object:
        crowded.wait(60)
        return embed(self, text)

    monkeypatch.setattr(FakeEmbedder, "embed_query", embed_late)
    with ThreadPoolExecutor(24) as threads:
        results = list(threads.map(lambda _: memory.search("heron", limit=1), range(48)))
    assert {hit.path for result in results for hit in result.hits} == {"birds.md"}


def test_note_without_words_is_counted(dsn: str, open_memory: Open, write: Write) -> None:
    """A sync that changes no word leaves an index that `verify` finds sound."""
    memory = open_memory(dsn)
    memory.sync()
    write("—.md", "!!!\n")
    memory.sync()
    memory.index.check()
    write("—.md", "!!!\n\n???\n")
    memory.sync()
    assert memory.verify() is None


def test_wrong_count_of_a_word_is_repaired(dsn: str, open_memory: Open) -> None:
    """`verify` also compares the counts by which searches weigh words."""
    memory = open_memory(dsn)
    memory.sync()
    execute(dsn, "UPDATE vocabulary SET rows = 7 WHERE word = 'heron'")
    difference = memory.verify()
    assert difference is not None and difference.mended
    assert memory.verify() is None


def test_rebuild_of_another_machine_is_not_discarded(dsn: str, open_memory: Open, settings: Settings) -> None:
    """A machine that lost the memory in mid-rebuild leaves the new writer's rebuild alone."""
    memory = open_memory(dsn)
    memory.sync()
    lost = memory.index.beside()
    execute(dsn, "DELETE FROM memory WHERE name LIKE '%(being rebuilt)'")
    execute(dsn, "INSERT INTO memory (name, writer) SELECT name || ' (being rebuilt)', 'another' FROM memory")
    lost.discard()
    assert execute(dsn, "SELECT count(*) FROM memory WHERE writer = 'another'") == [(1,)]


def test_lock_of_another_writer(
    dsn: str, open_memory: Open, monkeypatch: Patch, settings: Settings, tmp_path: Path, write: Write
) -> None:
    """A sync gives up after a while; a search answers without the changes; a server's own limits say so."""
    begin = connections._WRITE.replace(f"lock_timeout = {connections.LOCK_TIMEOUT_MS}", "lock_timeout = 100")
    monkeypatch.setattr(connections, "_WRITE", begin)
    memory = open_memory(dsn)
    memory.sync()
    impatient = make_conninfo(dsn, options="-c statement_timeout=50")
    write("new.md", "The tern dives.\n")
    with psycopg.connect(dsn) as other:
        other.execute(LOCK)
        with refused(dsn, IndexBusy, "another process writes", "Try again"):
            memory.sync()
        with refused(impatient, IndexBusy, "cancelled a statement", "statement_timeout"):
            open_memory(impatient).sync()
        result = memory.search("heron", limit=1)
        assert [hit.path for hit in result.hits] == ["birds.md"]
        assert any("another process writes" in warning for warning in result.warnings)
    assert_converges(memory, new_dump(settings, tmp_path / "new"))


def test_transaction_that_idles_too_long_for_the_server(dsn: str, open_memory: Open) -> None:
    """The error names the setting; the connection is not used again."""
    hasty = make_conninfo(dsn, options="-c idle_in_transaction_session_timeout=2000")
    open_memory(dsn).sync()
    memory = open_memory(hasty)
    ours = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'memsync' AND state LIKE 'idle in %'"
    ended = refused(hasty, IndexFailure, "ended the connection", "idle_in_transaction_session_timeout")
    with ended, memory.index.writing() as writer:
        while execute(dsn, ours):
            pass
        writer.set_meta("x", "y")
    with memory.index.reading() as reader:
        assert reader.stamps()


def test_commit_that_the_server_turns_into_a_rollback(dsn: str, open_memory: Open) -> None:
    """Nobody believes that it was stored."""
    memory = open_memory(dsn)
    memory.sync()
    with refused(dsn, IndexFailure, "has not done COMMIT", "Try again"), memory.index.writing() as writer:
        writer.set_meta("x", "y")
        with pytest.raises(psycopg.errors.UndefinedTable):
            writer.value("SELECT 1 FROM nowhere")  # type: ignore[attr-defined]
        writer.finish = lambda: None  # type: ignore[attr-defined]
    with memory.index.reading() as reader:
        assert reader.meta("x") == ""


def fail_with(writer: PostgresWriter, state: str) -> None:
    """Let the server raise an error."""
    writer.value(f"DO $$ BEGIN RAISE EXCEPTION 'it does not work' USING ERRCODE = '{state}'; END $$")


@pytest.mark.parametrize("fault", ["standby", "full disk"])
def test_index_that_cannot_be_written_still_answers(
    fault: str, dsn: str, open_memory: Open, write: Write, monkeypatch: Patch
) -> None:
    """A search gives what is indexed, with a warning; a sync says what to do."""
    open_memory(dsn).sync()
    if fault == "standby":
        database = make_conninfo(dsn, options="-c default_transaction_read_only=on")
        match, hint = "accepts no writes", "primary server"
    else:
        monkeypatch.setattr(PostgresWriter, "finish", lambda writer: fail_with(writer, "53100"))
        database, match, hint = dsn, "no space left", "Free space"
    memory = open_memory(database)
    write("new.md", "The tern dives.\n")
    with refused(database, IndexReadOnly, match, hint):
        memory.sync()
    result = memory.search("heron", limit=1)
    assert [hit.path for hit in result.hits] == ["birds.md"]
    assert any(match in warning for warning in result.warnings)
    assert any("till indexing" in warning for warning in result.warnings)
