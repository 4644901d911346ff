"""Items of sessions in threads: every JSON value comes back as it was, whoever writes beside, and after a kill."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsync import Memory
from memsync.errors import NoteError, UsageError
from memsync.integrations.items import items_of, message_of

TEXTS = st.text(st.characters(codec=None), max_size=40) | st.sampled_from(
    [
        "```json\n{}\n```",
        "## user\n\nno",
        "---\nid: x\n---",
        "\ud800",
        "a\r\nb",
        "\x00",
        "\u2028",
        "<<<<<<< a\n",
        " \n ",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
PLAIN = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "system", "tool", "x"]), "content": TEXTS})
ODD: list[Any] = [
    None, 0, -0.0, 1e300, 10**30, "", [], {}, {"role": "user", "content": ""}, {"content": "a", "role": "user"},
    {"role": "user", "content": "```json\n{}\n```"}, {"role": "user", "content": "## user @ 2026-01-01\n\nno"},
    {"role": "user", "content": "\ud800 half"}, {"\ud800": "\udfff"}, {"role": "tool", "content": "x"},
    {"b": 1, "a": {"d": [1, 1.0, True, None], "c": "\u2028\x00\x1b"}}, {"role": "user", "content": ["a"]},
    {"type": "function_call_output", "call_id": "c", "output": "---\n<<<<<<< a"},
]  # fmt: skip


def exactly(item: Any) -> str:
    """Return what tells items apart: order of keys and types, too."""
    return json.dumps(item)


def append(memory: Memory, items: list[Any], thread: str = "id:s") -> None:
    memory.append_messages(thread, [message_of(item) for item in items], index=False)


def read(memory: Memory, thread: str = "id:s") -> list[Any]:
    return items_of(memory.read_thread(thread))


@pytest.mark.slow
def test_every_item_comes_back_exactly(memory: Memory) -> None:
    """Halves of a surrogate pair that meet are one character in JSON, so JSON decides what an item is."""
    kept: list[Any] = []

    @given(st.lists(JSON | PLAIN, min_size=1, max_size=5))
    def check(items: list[Any]) -> None:
        meant = json.loads(json.dumps(items))
        thread = f"id:{len(kept)}"
        kept.append(items)
        append(memory, meant, thread)
        assert exactly(read(memory, thread)) == exactly(meant)

    check()


def test_odd_items_come_back_exactly(memory: Memory) -> None:
    append(memory, ODD)
    append(memory, [{"text": "x\n## user\n" * 500_000}, {"after": 1}])  # 5 MB
    *items, large, last = read(memory)
    assert exactly(items) == exactly(ODD)
    assert large == {"text": "x\n## user\n" * 500_000} and last == {"after": 1}


def test_what_a_person_would_write_is_plain(memory: Memory, root: Path) -> None:
    """Only a role and a text: then the page has no JSON, and an edit is seen by the next call."""
    append(memory, [{"role": "user", "content": "The heron nests."}, {"role": "assistant", "content": "Yes."}])
    page = root / memory.read_thread("id:s")[0].path
    assert "The heron nests." in page.read_text() and "json" not in page.read_text()
    page.write_text(page.read_text().replace("heron", "stork"))
    assert read(memory)[0] == {"role": "user", "content": "The stork nests."}


@pytest.mark.parametrize(
    "item",
    [
        {"content": "The heron nests.", "role": "user"},
        {"id": "m1", "content": [{"text": "The heron nests.", "type": "output_text"}], "role": "assistant"},
        {"type": "user", "message": {"role": "user", "content": "The heron nests."}, "uuid": "u"},
        {"type": "assistant", "message": {"content": [{"type": "text", "text": "The heron nests."}]}},
        {"role": "assistant", "type": "ai", "data": {"content": "The heron nests.", "id": "run-1"}},
    ],
)
def test_text_of_an_item_is_edited_as_text(memory: Memory, root: Path, item: Any) -> None:
    """Its other fields stand below it, without the text."""
    append(memory, [item])
    page = root / memory.read_thread("id:s")[0].path
    assert page.read_text().count("The heron nests.") == 1 and "\n\nThe heron nests.\n" in page.read_text()
    page.write_text(page.read_text().replace("The heron nests.", 'The "stork"\n\n```json\n{}\n```\n\nnests.'))
    edited = json.dumps(item).replace("The heron nests.", r"The \"stork\"\n\n```json\n{}\n```\n\nnests.")
    assert exactly(read(memory)) == f"[{edited}]"


@pytest.mark.parametrize("broken", [("```json", "```"), ('"content": ""', '"text": ""')])
def test_item_whose_block_is_gone_is_named(memory: Memory, root: Path, broken: tuple[str, str]) -> None:
    append(memory, [{"content": "The heron nests.", "n": 1}])
    page = root / memory.read_thread("id:s")[0].path
    page.write_text(page.read_text().replace(*broken))
    with pytest.raises(NoteError, match=f"{page.name}:"):
        read(memory)


def test_json_that_a_person_breaks_is_named(memory: Memory, root: Path) -> None:
    append(memory, [{"type": "a", "n": 1}, {"type": "b"}])
    message = memory.read_thread("id:s")[0]
    page = root / message.path
    page.write_text(page.read_text().replace('"n": 1', '"n": 2'))
    assert read(memory)[0] == {"type": "a", "n": 2}
    page.write_text(page.read_text().replace('"n": 2', '"n": '))
    with pytest.raises(NoteError, match=f"{message.path}:{message.start_line + 6}: broken JSON"):
        read(memory)


def test_item_that_is_no_json_is_not_written(memory: Memory, root: Path) -> None:
    for item in ({"a": {1}}, object()):
        with pytest.raises(UsageError, match="no JSON"):
            append(memory, [{"a": 1}, item])
    assert not (root / "threads").exists()


def _write(root: str, who: int, count: int) -> None:
    with Memory.open(root) as memory, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: append(memory, [{"who": who, "n": n, "x": "y" * 99}] * 2), range(count)))


@pytest.mark.slow
def test_eight_writers_in_two_processes_lose_and_mix_nothing(memory: Memory, root: Path) -> None:
    """The two items of a call stay together."""
    memory.close()
    processes = [multiprocessing.get_context("spawn").Process(target=_write, args=(str(root), n, 25)) for n in (0, 1)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    with Memory.open(root) as again:
        items = read(again)
    assert items[::2] == items[1::2]
    assert sorted((one["who"], one["n"]) for one in items[::2]) == [(who, n) for who in (0, 1) for n in range(25)]


_WRITER = """
import sys
from memsync import Memory
from memsync.integrations.items import message_of
memory = Memory.open(sys.argv[1])
for number in range(10_000):
    item = {"n": number, "text": "x" * 200_000}
    memory.append_messages("id:s", [message_of(item), message_of({"n": number})], index=False)
    print(number, flush=True)
"""


@pytest.mark.slow
def test_killed_writer_leaves_whole_items(memory: Memory, root: Path) -> None:
    """Everything that it was told is written is there, and no half of an item."""
    memory.close()
    for turn in range(5):
        with subprocess.Popen([sys.executable, "-c", _WRITER, str(root)], stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            said = [writer.stdout.readline()]
            time.sleep(random.uniform(0, 0.1))
            os.kill(writer.pid, signal.SIGKILL)
            said += writer.stdout.read().split()
        with Memory.open(root) as again:
            items = read(again)
            numbers = [one["n"] for one in items if len(one) == 2]
            assert all(len(one["text"]) == 200_000 for one in items if len(one) == 2)
            assert numbers == [*range(len(numbers))] and len(numbers) >= len(list(filter(str.strip, said))), turn
            again.truncate_thread("id:s", 0, index=False)


@pytest.mark.slow
def test_random_operations_are_those_on_a_list(memory: Memory, request: pytest.FixtureRequest) -> None:
    """With --every (`make soak`) 20,000 of them."""
    seed = random.randrange(2**32)
    draw, own = random.Random(seed), list[Any]()
    for number in range(20_000 if request.config.getoption("--every") else 400):
        action = draw.random()
        if not own or action < 0.55:
            added = [draw.choice([draw.choice(ODD), {"n": number}]) for _ in range(draw.randint(1, 3))]
            append(memory, added)
            own += added
        elif action < 0.9:
            taken = memory.truncate_thread("id:s", -1, index=False)
            assert exactly(items_of(taken)) == exactly([own.pop()]), seed
        else:
            keep = draw.randint(0, len(own))
            memory.truncate_thread("id:s", keep, index=False)
            del own[keep:]
        assert exactly(read(memory)) == exactly(own), seed
