"""Conversations in and out: as they were, once, whatever of them cannot be used."""

from __future__ import annotations

import json
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsync.errors import FilesystemError, NoteError, UsageError
from memsync.memory import Memory
from tests.conftest import PROJECT, Write
from tests.support.daemon_process import Cli
from tests.support.sampling import fewer

NO_THREAD = "not a message of a thread: Object missing required field `thread`"
PAGE = (PROJECT / "docs" / "agents.md").read_text()
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60).map(
    lambda text: text.replace("\r\n", "\n").replace("\r", "\n")
)
TURN = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system", "agent:finder"])},
    optional={
        "time": st.sampled_from(
            ["2026-11-21", "2026-11-21 10:02", "2026-11-21T10:02:33+01:00", "2026-11-21T10:02:00Z"]
        ),
        "text": st.one_of(
            TEXT.filter(bool), st.sampled_from(["# a\n\n```\n# b", "x\n---\n", "\n\n<!-- a", "a\r\nb\r\n"])
        ),
        "attributes": st.dictionaries(st.sampled_from(["model", "id2", "class"]), TEXT, min_size=1).filter(
            lambda pairs: pairs.get("class", "a") == " ".join(pairs.get("class", "a").split()) != ""
        ),
    },
)
HEAD = st.dictionaries(
    st.sampled_from(["title", "session", "tags", "summary"]),
    st.one_of(TEXT.filter(bool), st.integers(0, 9), st.booleans(), st.lists(st.sampled_from(["a", "b"]), min_size=1)),
).map(lambda head: {key: value for key, value in head.items() if key == "tags" or not isinstance(value, list)})


def lines_of(memory: Memory, *threads: str) -> list[Any]:
    return [json.loads(line) for line in memory.export_lines(threads)]


def file_of(root: Path, lines: list[Any]) -> Path:
    path = root.with_name("in.jsonl")
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def contents(root: Path) -> dict[str, tuple[bytes, int]]:
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in root.rglob("*.md")}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=fewer(40, 8), deadline=None)
@given(head=HEAD, turns=st.lists(TURN, min_size=1, max_size=5), number=st.integers(0, 10**9))
def test_what_is_imported_is_exported_as_it_was(
    memory: Memory, root: Path, head: dict[str, Any], turns: list[dict[str, Any]], number: int
) -> None:
    """Line by line; and importing it again changes nothing."""
    name = f"t{number}"
    (root / f"threads/{name}.md").unlink(missing_ok=True)
    lines = [{"thread": name, **turn} for turn in turns]
    if head:
        lines[0] = {"thread": name, "head": head, **turns[0]}
    file = file_of(root, lines)
    report = memory.import_file(file)
    assert (report.wrong, report.threads, report.messages) == ([], 1, len(turns))
    assert lines_of(memory, name) == lines
    before = contents(root)
    again = memory.import_file(file)
    assert (again.threads, again.continued, again.messages, again.known) == (0, 0, 0, len(turns))
    assert contents(root) == before


def test_example_of_the_page_is_imported_and_found(memory: Memory, root: Path) -> None:
    """As printed; what it cost is counted."""
    (example,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    file = root.with_name("example.jsonl")
    file.write_text(example)
    assert memory.import_file(file).wrong == []
    assert [line + "\n" for line in memory.export_lines()] == example.splitlines(keepends=True)
    assert memory.costs().total.tokens_in == 812


def test_import_waits_for_the_disk_at_its_end(memory: Memory, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, when all threads are written."""
    synced: list[int] = []
    monkeypatch.setattr(os, "sync", lambda: synced.append(len(list((root / "threads").glob("*.md")))))
    memory.import_file(file_of(root, [{"thread": name, "role": "user", "text": "One"} for name in "abc"]))
    assert synced == [3]


def test_longer_version_adds_what_is_new(memory: Memory, root: Path) -> None:
    """To a thread that somebody has edited meanwhile, too: by their ids, or else by what they say."""
    first = [{"thread": "t", "role": "user", "text": "One", "attributes": {"id": "1"}}]
    second = [*first, {"thread": "t", "role": "assistant", "text": "Two"}]
    memory.import_file(file_of(root, first))
    thread = root / "threads/t.md"
    thread.write_text(thread.read_text().replace("One", "One, edited"))
    report = memory.import_file(file_of(root, second))
    assert (report.continued, report.messages, report.known) == (1, 1, 1)
    assert [line["text"] for line in lines_of(memory, "t")] == ["One, edited", "Two"]
    assert memory.import_file(file_of(root, second)).messages == 0


@pytest.mark.parametrize("text", ["## user @ 2026-11-21 10:02\n\nMine.\n", "Prose of mine.\n"])
def test_import_does_not_write_to_another_thread_of_the_same_name(
    memory: Memory, root: Path, write: Write, text: str
) -> None:
    """A thread without one of the messages is the user's own: the import makes a new one, and finds it again."""
    own = write("threads/plan.md", f"---\ntitle: Plan\n---\n\n{text}")
    before = own.read_bytes()
    report = memory.import_file(
        file_of(
            root, [{"thread": "plan", "role": "user", "text": "a"}, {"thread": "plan", "role": "user", "text": "b"}]
        )
    )
    assert (report.threads, report.paths) == (1, ["threads/plan-2.md"])
    more = file_of(root, [{"thread": "plan", "role": "user", "text": letter} for letter in "abc"])
    for expected in (1, 0):
        report = memory.import_file(more)
        assert (report.threads, report.messages, report.wrong) == (0, expected, [])
    report = memory.import_file(file_of(root, [{"thread": "plan-2", "role": "user", "text": "later"}]))
    assert (report.threads, report.continued) == (0, 1)  # a part of an imported conversation continues it
    assert own.read_bytes() == before
    assert sorted(path.name for path in root.rglob("*.md")) == ["plan-2.md", "plan.md"]


def test_line_that_cannot_be_used_is_told_and_the_others_are_imported(memory: Memory, root: Path) -> None:
    """With its number, or its thread."""
    file = root.with_name("bad.jsonl")
    good = '{"thread": "good", "role": "user", "text": "Hi"}\n'
    bad = [
        "not json",
        "[1]",
        '{"role": "user"}',
        '{"thread": "a", "role": 3}',
        '{"thread": "a", "role": "user", "attributes": {"a": []}}',
    ]
    threads = [
        {"thread": "c", "role": "user", "time": "noon"},
        {"thread": "d", "role": "user", "attributes": {"closed": "x"}},
        {"thread": "../e", "role": "user"},
        {"thread": "f", "role": "user", "attributes": {"a b": "x"}},
    ]
    file.write_text("\n".join([*bad, *map(json.dumps, threads), good]))
    report = memory.import_file(file)
    assert [one.split(":")[0] for one in report.wrong] == [
        *(f"line {number}" for number in range(1, 6)), "c", "d", "../e", "f",
    ]  # fmt: skip
    assert [path.name for path in root.rglob("*.md")] == ["good.md"]


CHATGPT = [
    {
        "title": "Herons: where?",
        "conversation_id": "c-1",
        "create_time": 1763719320.5,
        "current_node": "d",
        "mapping": {
            "a": {"message": None, "parent": None, "children": ["b"]},
            "b": {
                "message": {
                    "id": "m-1",
                    "author": {"role": "user"},
                    "create_time": 1763719321.0,
                    "content": {"content_type": "text", "parts": ["Where do herons nest?", {"content_type": "image"}]},
                },
                "parent": "a",
                "children": ["c", "d"],
            },
            "c": {
                "message": {"id": "m-2", "author": {"role": "assistant"}, "content": {"parts": ["A first answer."]}},
                "parent": "b",
                "children": [],
            },
            "d": {
                "message": {
                    "id": "m-3",
                    "author": {"role": "assistant"},
                    "content": {"content_type": "text", "parts": ["In the alder."]},
                    "metadata": {"model_slug": "gpt-x"},
                },
                "parent": "b",
                "children": [],
            },
        },
    }
]
CLAUDE = [
    {
        "uuid": "u-1",
        "name": "Bitterns",
        "created_at": "2026-11-21T10:02:00.123456Z",
        "chat_messages": [
            {"uuid": "n-1", "sender": "human", "text": "Do they boom?", "created_at": "2026-11-21T10:02:01Z"},
            {"uuid": "n-2", "sender": "assistant", "text": "", "content": [{"type": "text", "text": "They do."}]},
            {"uuid": "n-3", "sender": "assistant", "text": "", "content": []},
        ],
    },
    {"something": "else"},
]


def test_exports_of_chatgpt_and_claude_are_imported_once(memory: Memory, root: Path) -> None:
    """The branch that was shown last; found again by where it is from, under whatever name."""
    chatgpt, claude = root.with_name("export.zip"), root.with_name("conversations.json")
    with zipfile.ZipFile(chatgpt, "w") as archive:
        archive.writestr("export/conversations.json", json.dumps(CHATGPT))
    claude.write_text(json.dumps(CLAUDE))
    assert memory.import_file(chatgpt).messages == 2
    assert [line["text"] for line in lines_of(memory, "herons-where")] == [
        "Where do herons nest?\n\n[image]",
        "In the alder.",
    ]
    report = memory.import_file(claude)
    assert (report.messages, report.wrong) == (2, ["conversation 2: neither a ChatGPT nor a Claude export"])
    assert memory.thread("bitterns").thread.source == "claude:u-1"
    (root / "threads/herons-where.md").rename(root / "threads/moved.md")
    assert memory.import_file(chatgpt).messages == 0
    assert {path.name for path in root.rglob("*.md")} == {"moved.md", "bitterns.md"}


@pytest.mark.parametrize(
    ("name", "content"),
    [("x.json", b"[{"), ("x.zip", b"PK no"), ("x.jsonl", b"\xff\xfe\xfa"), ("x.json", b"[" * 99_999)],
)
def test_file_that_cannot_be_read_is_a_usage_error(memory: Memory, root: Path, name: str, content: bytes) -> None:
    """With the reason."""
    file = root.with_name(name)
    file.write_bytes(content)
    with pytest.raises(UsageError):
        memory.import_file(file)


@pytest.mark.parametrize(
    ("name", "content", "wrong"),
    [
        (
            "x.jsonl",
            '{}\n{"thread": "t"}\n1\n',
            [f"line 1: {NO_THREAD}", "line 3: not a message of a thread: Expected `object`, got `int`"],
        ),
        ("x.json", "{}\n", [f"line 1: {NO_THREAD}; neither a ChatGPT nor a Claude export"]),
        ("x.json", '{"thread": "t"}\n1\n', ["line 2: not a message of a thread: Expected `object`, got `int`"]),
    ],
)
def test_line_that_is_no_message_is_named(
    memory: Memory, root: Path, name: str, content: str, wrong: list[str]
) -> None:
    """With what it should be; a .json file was probably meant to be an export."""
    file = root.with_name(name)
    file.write_text(content)
    assert memory.import_file(file).wrong == wrong


@pytest.mark.parametrize(("name", "content"), [("x.csv", "a,b\n" * 500), ("x.json", f"[{'{}, ' * 499}{{}}]")])
def test_wrong_file_is_one_error(memory: Memory, root: Path, name: str, content: str) -> None:
    """A file without any conversation was named by mistake: the first reason is enough, with the number of others."""
    file = root.with_name(name)
    file.write_text(content)
    (wrong,) = memory.import_file(file).wrong
    assert re.match(r"(?:line|conversation) 1: .*\(and 499 other parts of the file, too\)$", wrong)


def test_thread_that_is_not_there_is_not_exported(memory: Memory) -> None:
    """Rather than nothing printed."""
    with pytest.raises(NoteError, match="no thread"):
        list(memory.export_lines(["nope"]))


def test_commands(cli: Cli, root: Path) -> None:
    """Import prints what it did, export writes no file that is there."""
    file = file_of(root, [{"thread": "t", "role": "user"}, {"thread": "t", "role": "user", "time": "noon"}])
    done = cli("thread", "import", str(file))
    assert (done.returncode, done.stdout) == (
        1,
        f"{file}: 0 messages in 0 new threads and 0 continued; 0 already there\n",
    )
    assert 't: "noon" is not a time' in done.stderr
    file = file_of(root, [{"thread": "t", "role": "user", "text": "Hi"}])
    assert json.loads(cli("thread", "import", str(file), "--json").stdout)["files"][0]["messages"] == 1
    file.write_text(file.read_text().replace('"t"', '"other"'))
    said = f"{file}: 1 message in 1 new thread and 0 continued; 0 already there\n"
    assert cli("thread", "import", str(file)).stdout == said
    assert cli("thread", "export", "t").stdout == '{"thread": "t", "role": "user", "text": "Hi"}\n'
    out = root.with_name("out.jsonl")
    assert cli("thread", "export", "t", "--output", str(out)).returncode == 0
    assert cli("thread", "export", "t", "--output", str(out)).returncode == FilesystemError.exit_code
