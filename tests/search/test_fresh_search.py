"""How fresh an answer is: strict, bounded or none, a generation to wait for, and one scan for all who ask at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from memsync.memory import Memory
from memsync.model.answer import SearchResult
from memsync.model.vocabulary import NotePath
from memsync.notes.files import FileScan, NoteFiles
from memsync.search import fresh_search
from memsync.search.fresh_search import FreshSearch
from memsync.sync.indexer import TextReport
from tests.conftest import FakeEmbedder, MakeMemory, Patch, Write
from tests.search.test_still_indexing import Backlog
from tests.support.backends import only_sqlite
from tests.support.daemon_fixtures import PATIENCE_SECONDS, Served, wait_until

Search = Callable[..., SearchResult]


class Scans:
    """Counts comparisons of everything, and holds them at their end as long as `goes_on` is not set."""

    def __init__(self, monkeypatch: Patch) -> None:
        self.begun = 0
        self.goes_on = threading.Event()
        self.goes_on.set()
        scan = NoteFiles.scan

        def counted(files: NoteFiles, places: Any = None, known: Any = None) -> FileScan:
            if places is not None:
                return scan(files, places)
            self.begun += 1
            found = scan(files, None, known)
            assert self.goes_on.wait(PATIENCE_SECONDS)
            return found

        monkeypatch.setattr(NoteFiles, "scan", counted)


class Queue:
    """A lock that tells how many wait for it."""

    def __init__(self) -> None:
        self.waiting = 0
        self._guard = threading.Lock()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._guard:
            self.waiting += 1
        self._lock.acquire()
        with self._guard:
            self.waiting -= 1

    def __exit__(self, *error: object) -> None:
        self._lock.release()


@pytest.fixture
def scans(monkeypatch: Patch) -> Scans:
    return Scans(monkeypatch)


@pytest.fixture(params=["in process", "beside a daemon", "through its socket"])
def search(request: pytest.FixtureRequest, write: Write) -> Search:
    """Search in each of the three ways there are; the index is equal to the files before."""
    if request.param == "in process":
        memory: Memory = request.getfixturevalue("memory")
        write("birds.md", "The heron nests in the alder.\n")
        memory.sync()
        return memory.search
    found: Served = request.getfixturevalue("served")
    if request.param == "beside a daemon":
        found.memory.sync()
        return found.memory.search
    remote = found.connect()
    request.addfinalizer(remote.close)
    found.memory.sync()
    return remote.search


def paths(result: SearchResult) -> list[str]:
    """Return the notes of an answer."""
    return [hit.path for hit in result.hits]


@only_sqlite
def test_strict_finds_what_was_saved_before(search: Search, write: Write) -> None:
    """A new note, then a changed one; it is what a search is without further wishes."""
    write("new.md", "The bittern booms.\n")
    assert paths(search('"bittern"')) == ["new.md"]
    write("new.md", "The bittern is silent, the crane is not.\n")
    found = search('"crane"', fresh="strict")
    assert (paths(found), found.freshness.pending_text, found.freshness.stale) == (["new.md"], 0, False)


@only_sqlite
def test_none_answers_from_what_is_there_without_looking(search: Search, write: Write, scans: Scans) -> None:
    """What was saved since is not in the answer, and the time of the last comparison says so."""
    before = search("heron", fresh="none").freshness
    write("new.md", "The bittern booms.\n")
    found = search('"bittern"', fresh="none")
    assert (paths(found), scans.begun) == ([], 0)
    assert found.freshness.scanned_at == before.scanned_at


@only_sqlite
def test_none_never_quotes_what_a_file_no_longer_says(search: Search, write: Write) -> None:
    """Stale is not false: a hit is checked against its file whatever freshness was asked for."""
    write("birds.md", "Nothing is left of it.\n")
    assert "birds.md" not in paths(search('"heron"', fresh="none"))


def test_bounded_in_process_takes_a_comparison_that_is_recent(
    memory: Memory, write: Write, scans: Scans, monkeypatch: Patch
) -> None:
    """Within BOUND_SECONDS nothing is compared again; after it everything is."""
    write("a.md", "The heron nests.\n")
    monkeypatch.setattr(fresh_search, "BOUND_SECONDS", 3600.0)
    assert paths(memory.search('"heron"', fresh="bounded")) == ["a.md"]  # there was no comparison yet
    write("new.md", "The bittern booms.\n")
    assert (paths(memory.search('"bittern"', fresh="bounded")), scans.begun) == ([], 1)
    monkeypatch.setattr(fresh_search, "BOUND_SECONDS", 0.0)
    assert (paths(memory.search('"bittern"', fresh="bounded")), scans.begun) == (["new.md"], 2)


@pytest.mark.parametrize("remote", [False, True])
def test_bounded_with_a_live_watcher_has_what_was_reported(
    remote: bool, served: Served, write: Write, scans: Scans
) -> None:
    """Reports are indexed before the answer, settled or not, and nothing is compared for it."""
    with served.connect() as client:
        ask = client.search if remote else served.memory.search
        write("new.md", "The bittern booms.\n")
        served.watcher.on_path("new.md")
        found = ask('"bittern"', fresh="bounded")
    assert (paths(found), scans.begun) == (["new.md"], 0)


def test_bounded_with_a_faulty_watcher_does_not_take_its_word(served: Served, write: Write, monkeypatch: Patch) -> None:
    """A watcher whose reports get lost cannot say that nothing has changed."""
    served.engine.health.fault("watcher", "reports were lost")
    monkeypatch.setattr(fresh_search, "BOUND_SECONDS", 0.0)
    write("new.md", "The bittern booms.\n")
    found = served.memory.search('"bittern"', fresh="bounded")
    assert (paths(found), found.freshness.watcher) == (["new.md"], "degraded")
    assert any("degraded: reports were lost" in warning for warning in found.warnings)


def test_generation_is_waited_for(make_memory: MakeMemory, write: Write, monkeypatch: Patch) -> None:
    """A search that another process's write is announced to begins, waits, and finds it."""
    searching, syncing = make_memory(), make_memory()
    write("a.md", "The heron nests.\n")
    wanted = searching.sync().generation + 1
    monkeypatch.setattr(searching.fresh_search, "_deadline", PATIENCE_SECONDS)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(searching.search, '"bittern"', mode="keyword", fresh="none", generation=wanted)
        wait_until(lambda: searching.syncer.gate._searches > 0, "the search has begun")
        assert not answer.done()
        write("new.md", "The bittern booms.\n")
        syncing.sync()
        found = answer.result(PATIENCE_SECONDS)
    assert (paths(found), found.warnings) == (["new.md"], ())
    assert found.freshness.generation >= wanted


@only_sqlite
def test_generation_that_is_not_reached_is_complained_of(
    search: Search, request: pytest.FixtureRequest, monkeypatch: Patch
) -> None:
    """After the deadline the answer comes all the same, and says what it may lack."""
    memory = request.getfixturevalue("served" if "served" in request.fixturenames else "memory")
    memory = getattr(memory, "memory", memory)
    monkeypatch.setattr(memory.fresh_search, "_deadline", 0.05)
    found = search('"heron"', generation=2**60)
    assert "birds.md" in paths(found)
    (complaint,) = (warning for warning in found.warnings if "generation" in warning)
    assert complaint.startswith(f"generation {2**60} is not indexed yet")


@only_sqlite
def test_generation_that_is_reached_is_not_waited_for(search: Search) -> None:
    """A writer may name a state that is long past."""
    first = search('"heron"')
    again = search('"heron"', generation=first.freshness.generation)
    assert not any("generation" in warning for warning in again.warnings)


def test_searches_that_come_during_a_scan_share_the_one_after_it(
    memory: Memory, write: Write, scans: Scans, monkeypatch: Patch
) -> None:
    """The scan under way began before they asked; one that begins after it serves them all."""
    write("a.md", "The heron nests.\n")
    memory.sync()
    before = scans.begun
    queue = Queue()
    monkeypatch.setattr(memory.syncer.scanner, "_scanning", queue)
    scans.goes_on.clear()
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(memory.search, '"heron"')
        wait_until(lambda: scans.begun == before + 1, "the first scan has begun")
        write("new.md", "The bittern booms.\n")
        others = [pool.submit(memory.search, '"bittern"') for _ in range(8)]
        wait_until(lambda: queue.waiting == 8, "all of them wait for a scan")
        scans.goes_on.set()
        assert paths(first.result(PATIENCE_SECONDS)) == ["a.md"]
        assert [paths(other.result(PATIENCE_SECONDS)) for other in others] == [["new.md"]] * 8
    assert before + 2 <= scans.begun <= before + 4  # one whose index is overtaken by a commit compares again


def test_search_never_uses_a_scan_that_began_before_it(memory: Memory, write: Write, scans: Scans) -> None:
    """One by one, each saves and then asks: each needs a scan of its own, and finds its own."""
    for number in range(5):
        write(f"{number}.md", f"The word{number} stands here.\n")
        before = scans.begun
        assert paths(memory.search(f'"word{number}"')) == [f"{number}.md"]
        assert scans.begun == before + 1


def late_deletion(memory: Memory, path: str, method: str, monkeypatch: Patch) -> list[int]:
    """Delete a note from the index as late as another thread may: when the files have just been compared, once."""
    done: list[int] = []
    compare = getattr(FreshSearch, method)

    def overtaken(answering: FreshSearch, *arguments: Any) -> TextReport:
        report: TextReport = compare(answering, *arguments)
        if not done:
            with memory.index.writing() as writer:
                writer.delete_note(NotePath(path))
            done.append(report.pending)
        return report

    monkeypatch.setattr(FreshSearch, method, overtaken)
    return done


def test_deletion_that_is_committed_late_takes_nothing_from_a_search_and_a_list(
    memory: Memory, write: Write, monkeypatch: Patch
) -> None:
    """A folder was away when another thread looked, and was back when this search looked: its notes are found."""
    write("a.md", "The heron nests.\n")
    memory.sync()
    done = late_deletion(memory, "a.md", "_freshen", monkeypatch)
    result = memory.search('"heron"', mode="keyword")  # a vector may be gone with its text
    assert (done, paths(result), result.freshness.pending_text, result.warnings) == ([0], ["a.md"], 0, ())
    memory.sync()
    done = late_deletion(memory, "a.md", "compare", monkeypatch)
    assert [note.path for note in memory.notes().notes] == ["a.md"]
    assert done == [0]


def test_search_ends_even_if_the_index_changes_each_time(memory: Memory, write: Write, monkeypatch: Patch) -> None:
    """It compares the files so often, and then answers from what is there."""
    write("a.md", "The heron nests.\n")
    write("b.md", "The bittern booms.\n")
    memory.sync()
    compare, compared = FreshSearch._freshen, []

    def overtaken(answering: FreshSearch, *arguments: Any) -> TextReport:
        report = compare(answering, *arguments)
        with memory.index.writing() as writer:
            writer.delete_note(NotePath("b.md"))
        compared.append(report.pending)
        return report

    monkeypatch.setattr(FreshSearch, "_freshen", overtaken)
    assert paths(memory.search('"heron"')) == ["a.md"]
    assert compared == [0] * fresh_search.MAX_COMPARISONS


def test_savers_and_searchers_at_once_each_find_what_they_saved(served: Served, write: Write) -> None:
    """Through the socket, sixteen at a time: shared or not, no scan is older than the search it answers."""
    begin = threading.Barrier(16)

    def work(number: int) -> list[bool]:
        found = []
        with served.connect() as remote:
            begin.wait(PATIENCE_SECONDS)
            for turn in range(4):
                name = f"{number}-{turn}"
                write(f"{name}.md", f"The word{number}x{turn} stands here.\n")
                found.append(paths(remote.search(f'"word{number}x{turn}"', mode="keyword")) == [f"{name}.md"])
        return found

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(work, range(16)))
    assert answers == [[True] * 4] * 16


class Slow(FakeEmbedder):
    """A model that answers a question only when it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()

    def embed_query(self, text: str) -> Any:
        assert self.let_go.wait(PATIENCE_SECONDS)
        return super().embed_query(text)


@pytest.mark.parametrize("has_daemon", [True, False])
def test_daemon_does_not_wait_for_a_model_and_a_process_of_its_own_does(
    make_memory: MakeMemory, write: Write, monkeypatch: Patch, has_daemon: bool
) -> None:
    """Nobody else waits for the one; the other would keep everybody waiting, and answers by words."""
    model = Slow()
    memory = make_memory(model)
    write("a.md", "The heron nests.\n")
    memory.sync()
    monkeypatch.setattr(memory.fresh_search, "live", Backlog() if has_daemon else None)
    monkeypatch.setattr(fresh_search, "MODEL_PATIENCE_SECONDS", 0.01)
    later = threading.Timer(0.0 if has_daemon else 0.3, model.let_go.set)
    if not has_daemon:
        later.start()
    found = memory.search("heron")
    if has_daemon:  # not before: on a loaded machine the search may begin late
        later.start()
    said = "the embedding model does not answer; searched by words alone" in found.warnings
    assert (found.mode, said) == (("keyword", True) if has_daemon else ("hybrid", False))
    later.join()


def test_the_first_search_of_a_small_memory_finds_by_meaning(memory: Memory, write: Write) -> None:
    """A search computes up to 16 missing vectors, also those of a memory that has none yet."""
    for number in range(16):
        write(f"{number}.md", f"Heron {number} nests by the pond.\n")
    found = memory.search("heron pond")
    assert (found.mode, found.freshness.pending_vectors, found.warnings) == ("hybrid", 0, ())
    assert all("vector" in hit.ranks for hit in found.hits)


def test_a_query_of_filters_alone_needs_no_vectors(memory: Memory, write: Write) -> None:
    """It lists by date, so it does not warn about vectors that are missing."""
    for number in range(40):
        write(f"{number}.md", f"Heron {number} nests by the pond.\n")
    assert memory.search("kind:note").warnings == ()
    assert any("no vectors yet" in warning for warning in memory.search("heron").warnings)
