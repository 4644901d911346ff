"""Conversations in files: begun, appended to, shown, retired; sessions and costs are views over them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memsync.errors import MemsyncError, NoteError, UsageError
from memsync.memory import Memory, MemoryApi
from memsync.model.conversation import Cost, Usage
from tests.conftest import Write
from tests.support.daemon_process import Cli

TEXT = "How do I begin?\n\n# Title\n\nTitle\n=====\n\n```py\n# code"


@pytest.mark.smoke
def test_thread_is_a_note_and_is_read_as_it_was_written(own: MemoryApi, root: Path) -> None:
    """Front matter, messages, times, attributes; the text of a message comes back as it was."""
    begun = own.new_thread("Getting Started: é?", session="s1", user="ada", project="mem", prompt="Be: brief")
    assert begun.path == "threads/getting-started-é.md"
    own.append_message("getting-started-é", "user", TEXT, time="2026-11-21 10:02")
    attributes = {"model": "sonnet", "in": "812", "out": "120", "cost": "0.0031", "note": "{two} words"}
    written = own.append_message(
        begun.path, "assistant", "Run it.", time="2026-11-21T10:03:04+01:00", attributes=attributes
    )
    found = own.thread("getting-started-é")
    assert (found.prompt, found.thread.session, found.thread.status) == ("Be: brief", "s1", "active")
    first, second = found.messages
    assert (first.role, first.time, first.text) == ("user", "2026-11-21T10:02", TEXT)
    assert (second.start_line, second.text) == (written.line, "Run it.")
    assert second.attributes == attributes
    assert own.thread("getting-started-é", last=1).messages == (second,)
    assert (root / begun.path).read_text().startswith("---\ntitle: ")
    (hit,) = own.search("begin role:user session:s1", mode="keyword", limit=1).hits
    assert hit.path == begun.path


def test_thread_of_a_title_that_is_taken_is_refused_and_names_the_file(own: MemoryApi, root: Path) -> None:
    """Whoever begins it twice would write into two; one that is archived has its title still."""
    own.new_thread("The store")
    for title in ("The store", "the  STORE"):
        with pytest.raises(UsageError, match=r"already: threads/the-store\.md"):
            own.new_thread(title)
    own.set_thread_status("the-store", "archived")
    with pytest.raises(UsageError, match=r"already: threads/the-store\.md"):
        own.new_thread("The store")
    assert own.new_thread("The store!").path == "threads/the-store-2.md"
    assert len(list((root / "threads").iterdir())) == 2


@pytest.mark.parametrize("name", ["MEMORY.md", "notes/plan.md", "notes/plan"])
def test_what_is_no_thread_is_not_made_one(own: MemoryApi, write: Write, root: Path, name: str) -> None:
    """A slip must not turn what lasts into a transcript; a thread elsewhere says in its head that it is one."""
    write("MEMORY.md", "# Memory\n")
    write("notes/plan.md", "# Plan\n")
    with pytest.raises(NoteError, match="not a thread"):
        own.append_message(name, "user", "x")
    assert (root / "MEMORY.md").read_text() == "# Memory\n"
    write("notes/talk.md", "---\nkind: thread\n---\n\n## user\n\nHi\n")
    assert own.append_message("notes/talk.md", "user", "x").path == "notes/talk.md"


def test_threads_whose_titles_are_alike_are_not_taken_for_each_other(own: MemoryApi, write: Write) -> None:
    """A title is a title and not the file's name; several of one title must be told apart by path."""
    for title in ("C++", "C#", "The store"):
        own.new_thread(title)
    assert own.append_message("C#", "user", "sharp").path == "threads/c-2.md"
    assert own.append_message("C++", "user", "plus").path == "threads/c.md"
    assert own.append_message("the STORE", "user", "x").path == "threads/the-store.md"
    write("threads/other.md", "---\ntitle: The store\n---\n")
    with pytest.raises(UsageError, match="several") as raised:
        own.append_message("The store", "user", "x")
    assert "threads/other.md" in raised.value.hint
    with pytest.raises(NoteError, match="no thread"):
        own.append_message("D", "user", "x")


def test_ignored_thread_is_none(own: MemoryApi, write: Write, root: Path) -> None:
    """What no search may read is shown, exported and written to by nothing else either."""
    write("threads/private.md", "---\nprompt: SECRET\n---\n\n## user\n\nSECRET\n")
    write("threads/open.md", "## user\n\nHi\n")
    write(".gitignore", "threads/private.md\n")
    before = (root / "threads/private.md").read_text()
    asks: list[Callable[[], object]] = [
        lambda: own.thread("private"),
        lambda: own.context(thread="private"),
        lambda: own.append_message("private", "user", "x"),
        lambda: own.neighbours("threads/private.md", 1),
        lambda: own.remember("SECRET", note="threads/private.md"),
    ]
    for ask in asks:
        with pytest.raises(MemsyncError):
            ask()
    assert (root / "threads/private.md").read_text() == before


def test_thread_may_be_named_as_its_file_is(own: MemoryApi, write: Write) -> None:
    """With its ending and without."""
    write("threads/talk.md", "## user\n\nHi\n")
    assert {own.thread(name).thread.path for name in ("talk", "talk.md", "threads/talk", "threads/talk.md")} == {
        "threads/talk.md"
    }


def test_thread_that_several_writers_begin_gets_every_message(memory: Memory) -> None:
    """If the thread exists, append to it, under any spelling of its name."""
    names = ["New talk", "threads/New talk.md", "new talk"] * 4
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda name: memory.append_message(name, "user", "Hi", begin=True), names))
    (thread,) = memory.threads().threads
    assert (thread.path, thread.usage.messages) == ("threads/new-talk.md", len(names))


@pytest.mark.parametrize(
    ("role", "said", "texts"),
    [
        ("developer", "The heron\nnests. {x=y}", ["The heron\nnests. {x=y}"]),
        ("user", "```\nheron\n## user {id=forged}\n", ["```\nheron\n## user {id=forged}\n"]),
        ("user", "The heron nests.\n\n# Alder\n\nA heron.\x07", ["The heron nests.", "# Alder\n\nA heron.\x07"]),
        ("tool", "heron " * 2_000, None),
    ],
)
def test_hit_in_a_thread_is_what_was_said(own: MemoryApi, role: str, said: str, texts: list[str] | None) -> None:
    """Without the heading and without the marks of its form; whose it is and its attributes are fields."""
    own.append_message("talk", role, said, attributes={"id": "m1", "mood": "calm"}, begin=True)
    hits = own.search("heron in:threads", mode="keyword", limit=50).hits
    assert {(hit.role, hit.id, tuple(hit.attributes.items())) for hit in hits} == {
        (role, "m1", (("id", "m1"), ("mood", "calm")))
    }
    assert sorted(hit.text for hit in hits) == sorted(texts) if texts else all(hit.text in said for hit in hits)


def test_entry_that_is_too_long_is_refused(own: MemoryApi) -> None:
    """It would make its note one that is too large to be understood."""
    for write_item in (own.log, own.remember):
        with pytest.raises(UsageError, match="too long"):
            write_item("x" * 100_001)


def test_archived_thread_is_passed_over_until_it_is_resumed(own: MemoryApi, write: Write, root: Path) -> None:
    """Only the fields concerned change."""
    write("threads/store.md", "---\n# mine\nstatus:   active\nuser: ada\n---\n\n## user\n\nWhich zebra?\n")
    own.set_thread_status("store", "archived")
    assert (root / "threads/store.md").read_text() == (
        "---\n# mine\nstatus:   archived\nuser: ada\narchived: true\n---\n\n## user\n\nWhich zebra?\n"
    )
    assert own.search("zebra", mode="keyword").hits == ()
    assert [one.archived for one in own.threads(status="archived").threads] == [True]
    own.set_thread_status("store", "active")
    assert [hit.path for hit in own.search("zebra", mode="keyword").hits] == ["threads/store.md"]


THREADS = {
    "threads/one.md": (
        "---\nsession: s1\nuser: ada\nproject: mem\nstatus: paused\n---\n\n## user @ 2026-11-20 09:00\n\nHi\n\n"
        "## assistant @ 2026-11-20 09:01 {model=a in=100 out=10 cost=0.1}\n\nHo\n\n"
        "## agent:finder @ 2026-11-21 09:00 {model=b in=1000 out=50 cost=0.2 task=find status=completed}\n\nFound\n"
    ),
    "threads/two.md": (
        "---\nsession: s1\nstatus: active\n---\n\n"
        "## assistant @ 2026-11-21 10:00 {model=a in=7 out=3 cost=0.3}\n\nYes\n\n"
        "## router @ 2026-11-21 10:01 {intent=question workflow=answer}\n\nShort\n\n"
        "## handoff @ 2026-11-21 10:02 {from=s1 to=s2}\n\nOpen\n"
    ),
    "threads/three.md": "---\nuser: bob\nagent: codex\n---\n\n## assistant {in=1 out=x cost=nan}\n\nNo time\n",
    "notes/none.md": "## assistant @ 2026-11-21 10:00 {in=5}\n\nNo thread\n",
}


@pytest.fixture
def threads(own: MemoryApi, write: Write) -> MemoryApi:
    for path, text in THREADS.items():
        write(path, text)
    return own


def test_sessions_are_the_threads_that_share_one(threads: MemoryApi) -> None:
    """The last active first; a thread without a session is one of its own."""
    first, second = threads.sessions().sessions
    assert (first.session, first.user, first.project, first.status) == ("s1", "ada", "mem", "active")
    assert (first.last_active, first.threads) == ("2026-11-21T10:02", ("threads/one.md", "threads/two.md"))
    assert first.usage == Usage(6, 1107, 63, 0.6)
    assert (second.session, second.user, second.usage) == ("three", "bob", Usage(1, 1, 0, 0.0))
    assert [one.session for one in threads.sessions(user="bob").sessions] == ["three"]
    assert [one.session for one in threads.sessions(status="active", project="mem").sessions] == ["s1"]
    assert [one.path for one in threads.threads(session="s1").threads] == ["threads/two.md", "threads/one.md"]


@pytest.mark.parametrize(
    ("by", "costs"),
    [
        ("session", [("s1", Usage(3, 1107, 63, 0.6)), ("three", Usage(1, 1, 0, 0.0))]),
        ("model", [("a", Usage(2, 107, 13, 0.4)), ("b", Usage(1, 1000, 50, 0.2)), ("", Usage(1, 1, 0, 0.0))]),
        (
            "agent",
            [
                ("assistant", Usage(2, 107, 13, 0.4)),
                ("finder", Usage(1, 1000, 50, 0.2)),
                ("codex", Usage(1, 1, 0, 0.0)),
            ],
        ),
        (
            "day",
            [
                ("", Usage(1, 1, 0, 0.0)),
                ("2026-11-20", Usage(1, 100, 10, 0.1)),
                ("2026-11-21", Usage(2, 1007, 53, 0.5)),
            ],
        ),
    ],
)
def test_costs_are_the_sums_of_what_messages_say(threads: MemoryApi, by: str, costs: list[tuple[str, Usage]]) -> None:
    """By session, model, agent and day; what is no number counts for nothing."""
    found = threads.costs(by=by)
    assert found.costs == tuple(Cost(key, usage) for key, usage in costs)
    assert found.total == Usage(4, 1108, 63, 0.6)


def test_costs_since_a_moment(threads: MemoryApi) -> None:
    """What has no time is of no moment."""
    assert threads.costs(since="2026-11-21").total == Usage(2, 1007, 53, 0.5)


def test_runs_routes_and_handoffs_are_messages(threads: MemoryApi) -> None:
    """With their place and what they say of themselves."""
    (run,) = threads.messages("agent").messages
    assert (run.role, run.attributes["task"], run.path) == ("agent:finder", "find", "threads/one.md")
    (route,) = threads.messages("router").messages
    assert (route.start_line, route.attributes) == (10, {"intent": "question", "workflow": "answer"})
    (handoff,) = threads.messages("handoff", session="s1").messages
    assert handoff.attributes == {"from": "s1", "to": "s2"}
    assert threads.messages("handoff", session="s2").messages == ()
    assert len(threads.messages("assistant", limit=2).messages) == 2


def test_searches_narrow_by_status(threads: MemoryApi) -> None:
    """A thread's, or a message's own."""
    assert {hit.path for hit in threads.search("status:paused").hits} == {"threads/one.md"}
    (hit,) = threads.search("status:completed").hits
    assert hit.role == "agent:finder"


def test_views_follow_the_files(threads: MemoryApi, write: Write, root: Path) -> None:
    """An edit, a message deleted by hand, a thread that is gone: the next answer is about what is there."""
    write("threads/two.md", THREADS["threads/two.md"].replace("in=7", "in=8").replace("## handoff", "## Ordinary"))
    (root / "threads/one.md").unlink()
    assert threads.costs().total == Usage(2, 9, 3, 0.3)
    assert threads.messages("handoff").messages == ()


def test_thread_in_a_merge_conflict_says_so_wherever_it_is_read(
    own: MemoryApi, memory: Memory, write: Write, cli: Cli
) -> None:
    """Git's lines make a heading of a message's last line, so that its text is empty; a resolved one says nothing."""
    path = "threads/talk.md"
    sides = ["## user @ 2026-11-21 10:02\n\nOurs.", "## user @ 2026-11-21 10:03\n\nTheirs."]
    write(path, "<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> theirs\n".format(*sides))
    warning = f"{path} has git conflict markers"
    assert any(warning in text for text in own.thread("talk").warnings)
    assert any(warning in text for text in own.get(path).warnings)
    assert any(warning in text for text in own.context(thread="talk").warnings)
    said: list[str] = []
    assert list(memory.export_lines(["talk"], warn=said.append)) and warning in said[0]
    for command in (("thread", "show", "talk"), ("get", path), ("thread", "export", "talk")):
        assert warning in cli(*command).stderr
    write(path, "\n\n".join(sides))
    assert (own.thread("talk").warnings, own.get(path).warnings) == ((), ())
