"""Exact text for programs: what is written comes back to the letter, and no edit of a person is lost."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from memsync import AsyncMemory, Memory, NewMessage
from memsync.edit.note_end import read_end
from memsync.edit.note_paths import thread_of_id
from memsync.errors import MemsyncError, NoSuchNote, NoteChanged, NoteError, NoThread, UsageError, WriteRefused
from memsync.memory import MemoryApi
from memsync.model.vocabulary import NotePath
from memsync.notes.files import NoteFiles
from memsync.settings.load import Settings, with_changes
from tests.conftest import MakeMemory, Patch, Write

ODD = [
    "", " ", "\n", "a\r\nb\r\n", "```\n## user\n```", "## user @ 2026-01-01\n\nno", "---\nid: x\n---", "\x00\x1b[31m",
    "é\u202e", "{a=b}", '{"a": "</memsync-recall>"}', "<<<<<<< a\n=======\n>>>>>>> b", "x" * 7_000, "- a\n- b\n\n\n",
    "Title\n=====",
]  # fmt: skip


def texts(memory: MemoryApi, thread: str) -> list[str]:
    return [message.text for message in memory.read_thread(thread)]


@pytest.mark.parametrize(
    "text", ["", "a", "a\n", "a\r\nb", "\ufeffa\n", "---\nx: 1\n---\n\n# é\n", "\n\n", "x" * 300_000]
)
def test_note_has_exactly_the_text_that_was_written(own: MemoryApi, root: Path, text: str) -> None:
    own.write_note("by-agents/a/one.md", text)
    assert own.read_note("by-agents/a/one.md") == text == (root / "by-agents/a/one.md").read_bytes().decode()
    own.write_note("by-agents/a/one.md", f"{text}more", expected=text)
    assert own.read_note("by-agents/a/one.md") == f"{text}more"
    own.delete_note("by-agents/a/one.md", expected=f"{text}more")
    with pytest.raises(NoSuchNote):
        own.read_note("by-agents/a/one.md")


def test_note_that_somebody_has_changed_is_not_written(own: MemoryApi, write: Write, root: Path) -> None:
    write("a.md", "mine\n")
    for expected in (None, "", "mine", "mine\r\n"):
        with pytest.raises(NoteChanged):
            own.write_note("a.md", "yours\n", expected=expected)
    with pytest.raises(NoteChanged):
        own.delete_note("a.md", expected="other")
    assert (root / "a.md").read_text() == "mine\n"
    with pytest.raises(NoSuchNote):
        own.write_note("b.md", "x", expected="y")
    with pytest.raises(NoSuchNote):
        own.delete_note("b.md")


def test_note_that_is_deleted_while_it_is_read_is_missing(memory: Memory, write: Write, monkeypatch: Patch) -> None:
    """And no reason is made up, such as .gitignore."""
    path, holds = write("a.md", "mine\n"), NoteFiles.holds

    def delete_first(files: NoteFiles, note: NotePath) -> bool:
        path.unlink()
        return holds(files, note)

    monkeypatch.setattr(NoteFiles, "holds", delete_first)
    with pytest.raises(NoSuchNote):
        memory.read_note("a.md")


def test_deleted_note_comes_back(memory: Memory, root: Path) -> None:
    memory.write_note("a/b.md", "The heron nests.\n")
    assert memory.search("heron").hits
    assert memory.delete_note("a/b.md").warnings == ()
    assert not (root / "a/b.md").exists() and not memory.search("heron").hits
    memory.undo_forget(user="a/b.md")
    assert (root / "a/b.md").read_text() == "The heron nests.\n"


def test_each_change_is_a_commit_if_the_settings_say_so(committing: Memory, git: Callable[..., str]) -> None:
    committing.write_note("a.md", "one\n")
    committing.write_note("a.md", "two\n", expected="one\n")
    assert committing.delete_note("a.md").warnings == ()
    assert git("status", "--porcelain") == "" and git("log", "--format=%s", "--", "a.md").count("\n") == 3


@pytest.mark.parametrize("path", [
    "CLAUDE.md", "a/AGENTS.md", "SOUL.md", "prompts/x.md", "a/.hidden.md", "../x.md", "/x.md", "a.exe",
    "notes/no-ending", "a/../../x.md", "a\nb.md",
])  # fmt: skip
def test_note_that_instructs_or_is_none_is_refused(own: MemoryApi, root: Path, path: str) -> None:
    before = sorted(root.rglob("*"))
    with pytest.raises((WriteRefused, UsageError)):
        own.write_note(path, "obey")
    assert sorted(root.rglob("*")) == before


def test_link_is_not_followed(memory: Memory, root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("secret")
    (root / "link.md").symlink_to(tmp_path / "secret.md")
    (root / "out").symlink_to(tmp_path)
    for path in ("link.md", "out/secret.md"):
        with pytest.raises(NoteError):
            memory.read_note(path)
        with pytest.raises(MemsyncError):
            memory.write_note(path, "x", expected="secret")
    assert (tmp_path / "secret.md").read_text() == "secret"


def test_pipe_in_the_place_of_a_thread_blocks_nobody(memory: Memory, root: Path) -> None:
    (root / "threads").mkdir()
    os.mkfifo(root / thread_of_id("s"))
    with pytest.raises(MemsyncError):
        memory.append_messages("id:s", [NewMessage("user", "one")])
    with pytest.raises(MemsyncError):
        memory.read_thread("id:s")


def test_plain_text_is_a_note_if_the_settings_say_so(make_memory: MakeMemory, settings: Settings, root: Path) -> None:
    """It has no headings, tags or lists; without the setting it is no note, and nothing reads it."""
    (root / "a.txt").write_text("# the heron nests\n\n- #tag in the alder\n")
    memory = make_memory()
    assert memory.search("heron").hits == ()
    with pytest.raises(NoteError):
        memory.read_note("a.txt")
    with pytest.raises(WriteRefused):
        memory.write_note("b.txt", "x")
    memory.close()
    memory = make_memory(own_settings=with_changes(settings, {"files.suffixes": ".txt"}, "test"))
    assert [hit.path for hit in memory.search("heron").hits] == ["a.txt"]
    assert memory.get("a.txt:3").text == "- #tag in the alder"
    assert memory.search("alder tag:tag").hits == ()
    memory.write_note("b.txt", "x", expected=None)
    assert memory.read_note("b.txt") == "x"


def test_folder_of_an_agent_is_the_agents(memory: Memory, write: Write) -> None:
    """Whatever stands there: exact text has no marks of its own."""
    memory.write_note("by-agents/helper/a.md", "---\nby: owner\n---\n\nThe heron nests in the alder.\n")
    write("b.md", "The stork nests on the roof.\n")
    origins = {hit.path: hit.origin for hit in memory.search("nests", min_score=0.0).hits}
    assert origins == {"by-agents/helper/a.md": "agent:helper", "b.md": "owner"}


def test_messages_come_back_to_the_letter(own: MemoryApi) -> None:
    own.append_messages("id:ABC", [NewMessage("user", text) for text in ODD])
    assert texts(own, "id:ABC") == ODD
    own.append_messages("id:ABC", [NewMessage("tool", text, attributes={"kind": "x y"}) for text in ODD], index=False)
    assert texts(own, "id:ABC") == ODD * 2
    assert own.read_thread("id:ABC", last=1)[0].attributes == {"kind": "x y"}
    own.truncate_thread("id:ABC", len(ODD))
    assert texts(own, "id:ABC") == ODD
    assert [one.text for one in own.truncate_thread("id:ABC", -1)] == ODD[-1:]
    assert texts(own, "id:ABC") == ODD[:-1]
    own.truncate_thread("id:ABC", 0)
    assert texts(own, "id:ABC") == []
    own.append_messages("id:ABC", [NewMessage("user", "again")])
    assert texts(own, "id:ABC") == ["again"]


def test_ids_are_exact(own: MemoryApi) -> None:
    ids = ["ABC", "abc", "a b|c", "a|b c", "../x", "é", "e\u0301", "", " ", "x" * 5_000, "\ud800", "CLAUDE"]
    assert len({thread_of_id(one).casefold() for one in ids}) == len(ids)
    for one in ("ABC", "abc", "a b|c", "a|b c", "../x", "CLAUDE"):
        own.append_messages(f"id:{one}", [NewMessage("user", one)], index=False)
    assert [texts(own, f"id:{one}") for one in ("ABC", "abc", "a b|c", "a|b c", "../x")] == [
        ["ABC"], ["abc"], ["a b|c"], ["a|b c"], ["../x"],
    ]  # fmt: skip
    with pytest.raises(NoThread):
        own.read_thread("id:other")


def test_edit_by_hand_is_seen(own: MemoryApi, root: Path) -> None:
    own.append_messages("id:s", [NewMessage("user", "The heron nests."), NewMessage("assistant", "Yes.")])
    path = root / own.read_thread("id:s")[0].path
    path.write_text(path.read_text().replace("heron", "stork"))
    assert texts(own, "id:s") == ["The stork nests.", "Yes."]


def begin_append(memory: Memory, path: Path, text: str, lacks: int) -> None:
    """Leave what a process leaves that is killed before it has written the last bytes of an append."""
    note, before, status = NotePath(f"threads/{path.name}"), path.read_bytes(), path.stat()
    memory.append_messages("id:s", [NewMessage("user", text)], index=False)
    path.write_bytes(path.read_bytes()[:-lacks])
    memory.writer.ends.put(note, status, read_end(note, before))


@pytest.mark.parametrize("lacks", [1, 40, 320])
def test_half_a_message_is_none(memory: Memory, root: Path, lacks: int) -> None:
    """A process that is killed while it writes leaves one, or a piece of its heading."""
    memory.append_messages("id:s", [NewMessage("user", "one"), NewMessage("user", "two")], index=False)
    path = root / memory.read_thread("id:s")[0].path
    begin_append(memory, path, "three " * 50 + ".", lacks)
    assert texts(memory, "id:s") == (["one", "two"] if lacks > 1 else ["one", "two", "three " * 50 + "."])
    memory.append_messages("id:s", [NewMessage("user", "four")], index=False)
    assert texts(memory, "id:s")[:2] == ["one", "two"] and texts(memory, "id:s")[-1] == "four"


@pytest.mark.parametrize("edited", ["four", "fou", "for you", "five", "four, and more"])
def test_last_message_without_a_line_end_is_an_edit(memory: Memory, root: Path, edited: str) -> None:
    """Some editors leave none; what a person has written stays."""
    memory.append_messages("id:s", [NewMessage("user", "one")], index=False)
    memory.append_messages("id:s", [NewMessage("user", "four")], index=False)
    path = root / memory.read_thread("id:s")[0].path
    path.write_text(path.read_text().replace("four\n", edited))
    assert texts(memory, "id:s") == ["one", edited]
    memory.append_messages("id:s", [NewMessage("user", "six")], index=False)
    assert texts(memory, "id:s") == ["one", edited, "six"]


def test_shortened_last_message_stays(memory: Memory, root: Path) -> None:
    """Also if the note has become longer elsewhere, or was moved, and its editor leaves no line end."""
    for text in ("one", "last message of all"):
        memory.append_messages("id:s", [NewMessage("user", text)], index=False)
    path = root / memory.read_thread("id:s")[0].path
    path.write_text(path.read_text().replace("one\n", f"one{'!' * 99}\n").replace(" of all\n", ""))
    assert texts(memory, "id:s") == [f"one{'!' * 99}", "last message"]
    memory.sync()
    memory.move(f"threads/{path.name}", "threads/boat.md")
    path = root / "threads" / "boat.md"
    path.write_text(path.read_text().removesuffix(" message"))
    assert [one.text for one in memory.truncate_thread("id:s", -1)] == ["last"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("lacks", range(1, 70, 3))
def test_half_an_append_is_none_wherever_it_ends(memory: Memory, root: Path, end: str, lacks: int) -> None:
    """In the text, in the heading; with any line ends, and a heading that stands there already."""
    memory.append_messages("id:s", [NewMessage("user", "first", "2026-11-21 10:02")], index=False)
    path = root / memory.read_thread("id:s")[0].path
    path.write_bytes(path.read_bytes().replace(b"\n", end.encode()))
    before, status = path.read_bytes(), path.stat()
    memory.append_messages("id:s", [NewMessage("user", "u1\n\nu2", "2026-11-21 10:02")], index=False)
    whole = path.read_bytes()
    path.write_bytes(whole[: max(len(whole) - lacks, len(before))].rstrip(b"\n"))
    memory.writer.ends.put(NotePath(f"threads/{path.name}"), status, read_end("s.md", before))
    second = ["u1\n\nu2"] if lacks <= len(end) else []
    assert path.read_bytes().startswith(before.rstrip())
    assert texts(memory, "id:s") == ["first", *second]
    memory.append_messages("id:s", [NewMessage("user", "next")], index=False)
    assert texts(memory, "id:s") in (["first", *second, "next"], ["first", "u1\n\nu2", "next"])


def test_sections_of_people_stay_in_a_thread_that_is_cut(memory: Memory, root: Path) -> None:
    """They are no messages."""
    memory.append_messages("id:s", [NewMessage("user", one) for one in ("one", "two")], index=False)
    path = root / memory.read_thread("id:s")[0].path
    path.write_text(path.read_text().replace("one\n", "one\n\n## Ada decides\n\nThe red one.\n") + "\n## Later\n")
    assert [one.text for one in memory.truncate_thread("id:s", 0)] == ["one", "two"]
    assert [line for line in path.read_text().split("\n") if line][-3:] == [
        "## Ada decides",
        "The red one.",
        "## Later",
    ]


def test_thread_of_a_program_is_found_where_it_was_moved_to(memory: Memory, root: Path) -> None:
    """By a person, or into the archive; a program without an id has a thread, too."""
    for own in ("s", ""):
        memory.append_messages(f"id:{own}", [NewMessage("user", "one")])
    (path,) = {one.path for one in memory.read_thread("id:s")}
    memory.move(path, "archive/threads/boat.md")
    assert texts(memory, "id:s") == texts(memory, "id:") == ["one"]
    memory.append_messages("id:s", [NewMessage("user", "two")], index=False)
    assert texts(memory, "threads/boat") == texts(memory, "id:s") == ["one", "two"]
    memory.delete_note("id:s")
    for missing in (memory.read_thread, lambda thread: memory.truncate_thread(thread, 0)):
        with pytest.raises(NoThread):
            missing("id:s")


def test_what_no_note_can_hold_is_refused(memory: Memory) -> None:
    """Otherwise the messages before it could not be read any more."""
    memory.append_messages("id:s", [NewMessage("user", "one")], index=False)
    memory.write_note("a.md", "a\n", index=False)
    text = "\n" * 1_000_001 + "x"
    with pytest.raises(WriteRefused, match="too large"):
        memory.append_messages("id:s", [NewMessage("user", text)], index=False)
    for path, expected in (("a.md", "a\n"), ("b.md", None)):
        with pytest.raises(WriteRefused, match="too large"):
            memory.write_note(path, text, expected=expected)
    assert texts(memory, "id:s") == ["one"] and memory.read_note("a.md") == "a\n"


def test_half_a_message_is_not_taken_for_the_last(memory: Memory, root: Path) -> None:
    """What a killed process has begun is gone after a truncation, in the file and from what an append restores."""
    memory.append_messages("id:s", [NewMessage("user", "one")], index=False)
    begin_append(memory, root / memory.read_thread("id:s")[0].path, "two " * 50, 40)
    assert [one.text for one in memory.truncate_thread("id:s", -1, index=False)] == ["one"]
    memory.append_messages("id:s", [NewMessage("user", "three")], index=False)
    assert texts(memory, "id:s") == ["three"]


def test_random_operations_are_those_on_a_list(memory: Memory) -> None:
    draw, kept = random.Random(7), dict[str, list[str]]()
    for number in range(250):
        thread = f"id:{draw.choice('abA')}"
        own = kept.setdefault(thread, [])
        if not own or draw.random() < 0.6:
            added = [f"{number} {draw.choice(ODD[:12])}" for _ in range(draw.randint(1, 3))]
            memory.append_messages(thread, [NewMessage("user", one) for one in added], index=False)
            own += added
        elif draw.random() < 0.8:
            memory.truncate_thread(thread, -1, index=False)
            own.pop()
        else:
            keep = draw.randint(0, len(own))
            memory.truncate_thread(thread, keep, index=False)
            del own[keep:]
        assert texts(memory, thread) == own


def test_call_that_is_cancelled_comes_before_the_next(memory: Memory) -> None:
    """Whether it had begun or not, nothing is out of order."""

    async def run() -> None:
        shared = AsyncMemory(memory)
        for number in range(20):
            said = [NewMessage("user", f"{number}")]
            first = asyncio.ensure_future(shared.append_messages("id:s", said, index=False))
            await asyncio.sleep(0.0005 * (number % 4))
            first.cancel()
            with suppress(asyncio.CancelledError):
                await first
            await shared.append_messages("id:s", [NewMessage("user", f"{number}.5")], index=False)
        await shared.aclose()

    with Memory.open(memory.settings.root) as again:
        asyncio.run(run())
        kept = texts(again, "id:s")
    assert kept == sorted(kept, key=float) and len([one for one in kept if one.endswith(".5")]) == 20


def _append(root: str, who: int, count: int) -> None:
    with Memory.open(root) as memory, ThreadPoolExecutor(4) as pool:

        def one(number: int) -> None:
            memory.append_messages("id:all", [NewMessage("user", f"{who} {number}")], index=False)

        list(pool.map(one, range(count)))


def test_writers_in_two_processes_lose_and_mix_nothing(memory: Memory, root: Path) -> None:
    memory.close()
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_append, args=(str(root), who, 20)) for who in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    with Memory.open(root) as again:
        assert sorted(texts(again, "id:all")) == sorted(f"{who} {number}" for who in range(2) for number in range(20))


_WRITER = """
import sys
from memsync import Memory, NewMessage
memory = Memory.open(sys.argv[1])
for number in range(10_000):
    memory.append_messages("id:s", [NewMessage("user", f"{number} " + "x" * 20_000)], index=False)
    print(number, flush=True)
"""


@pytest.mark.slow
def test_killed_writer_keeps_what_it_acknowledged(memory: Memory, root: Path) -> None:
    memory.close()
    begun = 0
    for _ in range(6):
        with subprocess.Popen([sys.executable, "-c", _WRITER, str(root)], stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            first = writer.stdout.readline()
            time.sleep(random.uniform(0, 0.1))
            os.kill(writer.pid, signal.SIGKILL)
            said = [first, *writer.stdout.read().split("\n")]
        acknowledged = sum(bool(one.strip()) for one in said)
        with Memory.open(root) as again:
            kept = [text.split(" ")[0] for text in texts(again, "id:s")][begun:]
            assert all(len(text) > 20_000 for text in texts(again, "id:s"))
            assert kept in ([str(n) for n in range(acknowledged)], [str(n) for n in range(acknowledged + 1)])
            again.truncate_thread("id:s", begun + len(kept))
            begun += len(kept)


def test_large_item_comes_back(memory: Memory) -> None:
    item = json.dumps({"text": "## user\n```\n" * 400_000})
    memory.append_messages("id:s", [NewMessage("user", item), NewMessage("user", "{}")], index=False)
    assert texts(memory, "id:s") == [item, "{}"]


def test_store_that_is_asked_for_k_gets_k(memory: Memory) -> None:
    for number in range(30):
        memory.write_note(f"by-agents/store/{number}.md", f"The fact number {number}.\n", index=False)
    found = memory.search("quantum chromodynamics", limit=30, path=("by-agents/store/*",), all=True)
    assert len({hit.path for hit in found.hits}) == 30


def test_coroutines_do_what_methods_do(memory: Memory) -> None:
    """Many at once; one that is cancelled has done all or nothing."""

    async def run() -> None:
        shared = AsyncMemory(memory)
        await asyncio.gather(
            *(shared.append_messages("id:s", [NewMessage("user", str(n))], index=False) for n in range(20))
        )
        tasks = [
            asyncio.ensure_future(shared.append_messages("id:s", [NewMessage("user", "x"), NewMessage("user", "y")]))
            for _ in range(8)
        ]
        await asyncio.sleep(0.002)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with pytest.raises(NoThread):
            await shared.read_thread("id:none")
        assert shared.settings is memory.settings and "read_thread" in dir(shared)
        with pytest.raises(AttributeError):
            shared.missing()
        await shared.aclose()

    asyncio.run(run())
    with Memory.open(memory.settings.root) as again:
        kept = texts(again, "id:s")
    assert sorted(kept[:20], key=int) == [str(n) for n in range(20)]
    assert kept[20:] == ["x", "y"] * (len(kept[20:]) // 2)
