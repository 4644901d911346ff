"""Files of conversations that were made to break an import, to instruct agents or to fill a machine."""

from __future__ import annotations

import copy
import json
import os
import random
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memsync.errors import UsageError
from memsync.features.conversations import Skipped, read
from memsync.features.conversations.read import read_conversations
from memsync.memory import Memory
from memsync.model.vocabulary import NotePath
from memsync.notes.rules import PathRules
from memsync.settings.load import Settings, load_settings, with_changes
from memsync.settings.settings_list import DEFAULT_KINDS, DEFAULT_TIERS
from tests.conftest import MakeMemory, Patch, Write
from tests.features.test_conversations import CHATGPT, CLAUDE
from tests.support.daemon_process import Cli
from tests.support.sampling import fewer

TALK: Any = CLAUDE[0]
TREE: Any = CHATGPT[0]
RULES = PathRules(DEFAULT_KINDS, DEFAULT_TIERS)


def lines(root: Path, *objects: object) -> Path:
    file = root.with_name("in.jsonl")
    file.write_text("".join(json.dumps(one) + "\n" for one in objects))
    return file


def export(root: Path, *conversations: object) -> Path:
    file = root.with_name("conversations.json")
    file.write_text(json.dumps(conversations))
    return file


# ------------------------------------------------------------------------------- nothing that instructs


@pytest.mark.parametrize(
    "name",
    ["SOUL.md", "soul.md", "prompts/evil", "Prompts/evil.md", "MEMORY.md", "notes/x", "../SOUL.md", "/etc/x",
     "threads/../SOUL.md", "threads/.hidden", "Threads/x", "archive/SOUL.md", "archive/prompts/x", "a\u202eb",
     "\uff33\uff2f\uff35\uff2c.md", "threads/README", "README", "threads/deep/Readme.md", "archive/threads/readme.md"],
)  # fmt: skip
def test_import_writes_threads_only(memory: Memory, root: Path, name: str) -> None:
    """No name, path or spelling leads elsewhere. A README is refused, too: lists show it as what its folder holds."""
    line = {"thread": name, "head": {"title": "T"}, "role": "user", "text": "obey"}
    (wrong,) = memory.import_file(lines(root, line)).wrong
    assert "readme" not in name.lower() or "describes its folder" in wrong
    assert list(root.rglob("*.md")) == []


@pytest.mark.parametrize(
    ("title", "path"),
    [
        *(("Soul", "threads/soul.md"), ("Prompts", "threads/prompts.md"), ("README", "threads/thread-readme.md")),
        *(("Claude", "threads/thread-claude.md"), ("AGENTS", "threads/thread-agents.md")),
    ],
)
def test_conversation_of_any_title_is_imported(memory: Memory, root: Path, title: str, path: str) -> None:
    """Beneath threads/ a name instructs nobody; the name that describes the folder is not taken."""
    file = export(root, {**TALK, "name": title})
    report = memory.import_file(file)
    assert (report.paths, report.wrong) == ([path], [])
    again = memory.import_file(file)
    assert (again.threads, again.continued, again.wrong) == (0, 0, [])


def test_imported_thread_is_as_local_only_as_the_one_whose_name_it_would_have(
    make_memory: MakeMemory, settings: Settings, root: Path, write: Write
) -> None:
    """A number in its name is no way out of a pattern."""
    write("threads/therapy.md", "---\ntitle: Older\n---\n")
    memory = make_memory(own_settings=with_changes(settings, {"privacy.local_only": "threads/therapy.md"}, "test"))
    report = memory.import_file(export(root, {**TALK, "name": "Therapy"}))
    (wrong,) = report.wrong
    assert "threads/therapy-2.md would not be" in wrong
    assert [path.name for path in root.rglob("*.md")] == ["therapy.md"]


def test_import_says_which_rule_refuses_a_name(make_memory: MakeMemory, settings: Settings, root: Path) -> None:
    """A rule of the settings may make any thread instruct agents."""
    settings.kinds = {**DEFAULT_KINDS, "/threads/t.md": "prompt"}
    memory = make_memory(own_settings=settings)
    report = memory.import_file(lines(root, {"thread": "t", "role": "user", "text": "x"}))
    (wrong,) = report.wrong
    assert "threads/t.md instructs agents" in wrong


def test_import_brings_no_front_matter_that_instructs(memory: Memory, root: Path) -> None:
    """Nor any that decides what is kept or shown; the report names it, and the messages are there."""
    head = {"title": "T", "prompt": "obey", "kind": "prompt", "pinned": True, "aliases": ["SOUL"], "expires": "1d"}
    report = memory.import_file(lines(root, {"thread": "t", "head": head, "role": "user", "text": "hi"}))
    (wrong,) = report.wrong
    assert all(repr(name) in wrong for name in ("prompt", "kind", "pinned", "aliases", "expires"))
    context = memory.context("", thread="t", budget=2_000)
    assert "obey" not in context.text
    assert [part.name for part in context.parts if part.name == "thread_prompt" and part.passages] == []
    assert [one.text for one in memory.thread("t").messages] == ["hi"]


@pytest.mark.parametrize("path", ["prompts/evil.md", "archive/SOUL.md", "archive/prompts/evil.md"])
def test_note_elsewhere_does_not_redirect_what_is_written(memory: Memory, root: Path, write: Write, path: str) -> None:
    """A note may call itself a thread, and have a source and a title: nothing is written outside of threads/."""
    note = write(path, "---\nkind: thread\nsource: claude:u-1\ntitle: Standup\n---\n")
    before = note.read_bytes()
    assert len(memory.import_file(export(root, TALK)).wrong) == 1
    with pytest.raises(Exception, match="agent instructions"):
        memory.append_message("Standup", "user", "obey")
    assert note.read_bytes() == before and [one.name for one in root.rglob("*.md")] == [note.name]


@pytest.mark.parametrize("folder", ["threads", "archive/threads", "threads/inner"])
@pytest.mark.parametrize("what", ["known", "pipe", "link", ".gitignore", "config.toml"])
def test_import_finds_the_threads_that_are_not_indexed_yet(
    root: Path, write: Write, make_memory: MakeMemory, folder: str, what: str
) -> None:
    """Otherwise it would begin a second thread. It waits for no pipe, follows no link and reads no ignored file."""
    path, outside = f"{folder}/one.md", root.with_name("outside")
    note = write(path, "---\nsource: claude:u-1\n---\n")
    if what == "pipe":
        note.unlink()
        os.mkfifo(note)
    elif what == "link":
        note.parent.rename(outside)
        note.parent.symlink_to(outside)
    elif what != "known":
        write(what, f"/{path}\n" if what == ".gitignore" else f'[memsync]\n[files]\nexclude = ["/{path}"]\n')
    write("pending.md", "not indexed yet\n")
    memory = make_memory(own_settings=load_settings(root=root, environ={}, cwd=root), deadline=0.0)
    report = memory.import_file(export(root, TALK))
    assert (report.paths == [path]) is (what == "known")
    assert what != "link" or [one.read_text() for one in outside.iterdir()] == ["---\nsource: claude:u-1\n---\n"]


@pytest.mark.parametrize(
    ("path", "instructs"),
    [
        ("SOUL.md", True), ("soul.md", True), ("archive/SOUL.md", True), ("\u017foul.md", True),
        ("\uff33\uff2f\uff35\uff2c.md", True),
        ("prompts/a.md", True), ("prompts/sub/a.md", True), ("PROMPTS./a.md", True), ("prompts /a.md", True),
        ("pro\u200bmpts/a.md", True), ("threads/a.md", False), ("threads/Soul.md", False),
        ("threads/prompts.md", False), ("threads/prompts/a.md", False), ("notes/soulful.md", False),
        ("MEMORY.md", False),
        ("CLAUDE.md", True), ("notes/deep/Agents.md", True), ("archive/archive/notes/GEMINI.md", True),
        ("CLAUDE.local.md", True), ("AGENTS.override.md", True), ("skills/pdf/SKILL.md", True),
        ("threads/claude.md", True), ("copilot-instructions.md", True), ("x/style.instructions.md", True),
        ("\uff23\uff2c\uff21\uff35\uff24\uff25.md", True), ("CLA\u00adUDE.md", True), ("CLAUDE.md.", True),
        ("CRUSH.local.md", True), ("opencode.md", True), ("OpenCode.local.md", True), ("x/replit.md", True),
        ("codex.md", True), ("HEARTBEAT.md", True), ("a/app.knowledge.md", True), ("notes/knowledge-base.md", False),
        (".cursor/rules/x.md", True), ("a/.claude/commands/x.md", True), ("\uff0egithub/x.md", True),
        ("notes/claude-monet.md", False), ("notes/agents-of-change.md", False), ("skills/pdf.md", False),
    ],
)  # fmt: skip
def test_what_instructs_is_told_by_any_spelling_of_its_place(path: str, instructs: bool) -> None:
    """As file systems without case, of other normal forms, or that drop dots and spaces would read it."""
    assert RULES.instructs(NotePath(path)) is instructs
    assert (
        PathRules({**DEFAULT_KINDS, "SOUL.md": "note", "prompts/*.md": "note"}, {}).instructs(NotePath(path))
        is instructs
    )


# ---------------------------------------------------------------------------------- malformed conversations


def chatgpt(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(TREE), **changes}


def with_message(**changes: Any) -> dict[str, Any]:
    one = chatgpt()
    one["mapping"]["d"]["message"].update(changes)
    return one


def with_node(**changes: Any) -> dict[str, Any]:
    one = chatgpt()
    one["mapping"]["d"].update(changes)
    return one


def claude(**changes: Any) -> dict[str, Any]:
    one: dict[str, Any] = copy.deepcopy(TALK)
    one["chat_messages"][1].update(changes)
    return one


MALFORMED = {
    "author a string": with_message(author="user"),
    "a role that is a number": with_message(author={"role": 7}),
    "parts nested": with_message(content={"content_type": "text", "parts": [["a"], [["b"]]]}),
    "two equal ids": with_message(id="m-1"),
    "time as words": with_message(create_time="noon"),
    "time an object": with_message(create_time={}),
    "time not a number": with_message(create_time=float("nan")),
    "a parent that is not there": with_node(parent="zz"),
    "a circle": with_node(parent="d"),
    "a node that is text": {**chatgpt(), "mapping": {"a": "x"}},
    "mapping a list": chatgpt(mapping=[]),
    "no id": chatgpt(conversation_id=None),
    **{f"the id {name!r}"[:30]: {**TALK, "uuid": name} for name in ("", " ", "a\nb", 7, "x" * 201)},
    "sender unknown": claude(sender="robot"),
    "content a number": claude(content=3),
    "attachments an object": claude(attachments={"a": 1}),
    "nothing known": {"something": "else"},
    "a list": [[]],
}


@pytest.mark.parametrize("what", MALFORMED)
def test_malformed_conversation_is_skipped_and_named(memory: Memory, root: Path, what: str) -> None:
    """With its position and the reason; those before and after it are imported."""
    after = {**copy.deepcopy(TALK), "uuid": "u-2", "name": "After"}
    report = memory.import_file(export(root, TALK, MALFORMED[what], after))
    assert [one.partition(":")[0] for one in report.wrong] == ["conversation 2"]
    assert len(report.wrong[0]) > len("conversation 2: ")
    assert report.threads == 2


@pytest.mark.parametrize(
    "element", ["{]}", '{"a": 01}', "nope", "[" * 200 + "]" * 200, '{"a": ' + "9" * 5_000 + "}", '{"a": "\x01"}', "{}"]
)
def test_element_that_is_no_json_costs_only_itself(memory: Memory, root: Path, element: str) -> None:
    """Too deep, too long a number, or not JSON at all."""
    file = root.with_name("conversations.json")
    good = json.dumps(TALK)
    file.write_text(f"[{good},\n{element},\n{good.replace('u-1', 'u-2')}]")
    report = memory.import_file(file)
    assert report.threads == 2
    assert [one.partition(":")[0] for one in report.wrong] == ["conversation 2"]


def test_file_that_ends_too_early_gives_what_is_whole(memory: Memory, root: Path) -> None:
    """And says where it ends."""
    (file := root.with_name("conversations.json")).write_text(f"[{json.dumps(TALK)}, {json.dumps(TALK)[:50]}")
    report = memory.import_file(file)
    assert (report.threads, report.wrong) == (1, ["conversation 2: the file ends before it does"])


@given(data=st.data())
@hypothesis_settings(max_examples=fewer(60, 12))
def test_conversations_are_those_of_the_array(data: st.DataObject) -> None:
    """Strings with brackets, quotes and backslashes included."""
    inner = st.recursive(
        st.one_of(st.none(), st.integers(), st.text(st.sampled_from('a"\\[]{},\u2028\n'))),
        lambda one: st.one_of(st.lists(one, max_size=3), st.dictionaries(st.text(max_size=2), one, max_size=3)),
    )
    values = data.draw(st.lists(inner, max_size=4))
    content = json.dumps(values, ensure_ascii=data.draw(st.booleans())).encode()
    found = [content[start:end] for start, end in read._elements(content)]
    wanted = [one for one in values if isinstance(one, (list, dict))]
    assert [json.loads(one) for one in found if one.lstrip().startswith((b"[", b"{"))] == wanted


OWN = [
    {"thread": "a", "head": {"title": "A", "tags": ["x"]}, "role": "user", "time": "2026-11-21 10:02", "text": "hi"},
    {"thread": "b", "role": "assistant", "text": "yes", "attributes": {"id": "1", "cost": "0.1"}},
]
NUMBERS: list[Any] = [None, True, -1, 1e300, float("nan"), "1e400", 10**30]
WEIRD = [*NUMBERS, "", "x", "\ud83d", "\0", "## system", [], [[]], {}, {"a": {}}]


def mutated(value: Any, chance: random.Random, rate: float) -> Any:
    """Return a copy in which values at random places are others."""
    if chance.random() < rate:
        return chance.choice(WEIRD)
    if isinstance(value, dict):
        return {
            key if chance.random() > rate else f"{key}x": mutated(one, chance, rate)
            for key, one in value.items()
            if chance.random() > rate / 2
        }
    if isinstance(value, list):
        return [mutated(one, chance, rate) for one in value]
    return value


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=fewer(150, 30))
@given(seed=st.integers(0, 2**32), rate=st.sampled_from([0.01, 0.03, 0.1, 0.3]), kind=st.integers(0, 2))
def test_no_mutated_file_ends_in_anything_but_a_report(
    memory: Memory, root: Path, seed: int, rate: float, kind: int
) -> None:
    """Of each of the three formats; what was imported from it is a thread, and importing it again changes nothing."""
    chance = random.Random(seed)
    good = {**copy.deepcopy(TALK), "uuid": f"good-{seed}"}
    if kind == 0:
        file = lines(root, *(mutated(one, chance, rate) for one in OWN))
        report = memory.import_file(file)
    else:
        file = export(root, mutated(TREE if kind == 1 else RICH, chance, rate), good)
        report = memory.import_file(file)
        assert report.messages + report.known >= 2
    assert [path for path in root.rglob("*.md") if path.parent != root / "threads"] == []
    again = memory.import_file(file)
    assert (again.threads, again.continued, again.messages, again.wrong) == (0, 0, 0, report.wrong)


@pytest.mark.parametrize("half", [{"attributes": {"id": "\ud83d"}}, {"role": "\ud83d"}, {"text": "\ud83d"}])
def test_message_with_half_a_character_is_continued_once(memory: Memory, root: Path, half: dict[str, object]) -> None:
    """No file can hold it, so the thread has another id, role or text than the export."""
    memory.import_file(lines(root, {"thread": "b", "role": "user", "text": "first"}))
    file = lines(root, {"thread": "b", "role": "user", "text": "yes", **half})
    assert (memory.import_file(file).messages, memory.import_file(file).messages) == (1, 0)


# ---------------------------------------------------------------------------------------- nothing is lost

IMAGE = {"type": "image"}
RICH = {
    "uuid": "r-1",
    "name": "Rich",
    "chat_messages": [
        {
            "uuid": "1",
            "sender": "human",
            "text": "See this",
            "attachments": [{"file_name": "plan.txt", "extracted_content": "One\nTwo"}, {"file_name": "x.bin"}],
            "files": [{"file_name": "photo.png"}, {"file_name": "data.csv"}],
            "files_v2": [{"file_name": "photo.png"}],
        },
        {
            "uuid": "2",
            "sender": "assistant",
            "content": [
                {"type": "thinking", "thinking": "It is a plan."},
                {"type": "text", "text": "I look it up."},
                {"type": "tool_use", "name": "web_search", "input": {"query": "herons", "n": 3}},
                {"type": "tool_result", "name": "web_search", "content": [{"type": "text", "text": "Alder."}, IMAGE]},
                {"type": "text", "text": "In the alder."},
            ],
        },
    ],
}


def test_what_claude_attached_thought_and_looked_up_is_kept(memory: Memory, root: Path) -> None:
    """As quotations below a label; what has no text is named."""
    memory.import_file(export(root, RICH))
    asked, answered = (one.text for one in memory.thread("rich").messages)
    assert asked == (
        "See this\n\n[attachment plan.txt]\n> One\n> Two\n\n[file: x.bin]\n\n[image: photo.png]\n\n[file: data.csv]"
    )
    assert answered == (
        "[thinking]\n> It is a plan.\n\nI look it up.\n\n[call of web_search]\n> query: herons\n> n: 3\n\n"
        "[result of web_search]\n> Alder.\n\n[image]\n\nIn the alder."
    )


def test_what_chatgpt_ran_thought_and_showed_is_kept(memory: Memory, root: Path) -> None:
    """Code, its output, thoughts, quotations, canvases, images and attachments."""
    contents: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"role": "user"}, {"content_type": "multimodal_text", "parts": [
            "Look", {"content_type": "image_asset_pointer", "asset_pointer": "file://a.png"},
            {"content_type": "audio_transcription", "text": "spoken"}]}),
        ({"role": "assistant"}, {"content_type": "thoughts", "thoughts": [{"summary": "Plan", "content": "Count"}]}),
        ({"role": "assistant"}, {"content_type": "code", "language": "python", "text": "print(1)"}),
        ({"role": "tool", "name": "python"}, {"content_type": "execution_output", "text": "1"}),
        ({"role": "tool"}, {"content_type": "tether_quote", "title": "Herons", "url": "https://x.y", "text": "nest"}),
        ({"role": "assistant"}, {"content_type": "something_new", "payload": 1}),
    ]  # fmt: skip
    mapping: dict[str, Any] = {}
    for number, (author, content) in enumerate(contents):
        message = {"id": f"i{number}", "author": author, "content": content}
        mapping[str(number)] = {"parent": str(number - 1) if number else None, "message": message}
    mapping["0"]["message"]["metadata"] = {"attachments": [{"name": "report.pdf", "mime_type": "application/pdf"}]}
    report = memory.import_file(
        export(root, {"id": "c", "title": "Run", "current_node": str(len(contents) - 1), "mapping": mapping})
    )
    assert report.wrong == []
    assert [one.text for one in memory.thread("run").messages] == [
        "Look\n\n[image: file://a.png]\n\n[audio transcription]\n> spoken\n\n[file: report.pdf]",
        "[thinking]\n> Plan\n> Count",
        "[code in python]\n> print(1)",
        "[execution output of python]\n> 1",
        "[tether quote]\n> Herons\n> https://x.y\n> nest",
        "[something new]",
    ]


# ----------------------------------------------------------------------------------------------- bounds


def test_archive_that_expands_too_far_is_refused(memory: Memory, root: Path) -> None:
    """Before any of it is expanded."""
    bomb = root.with_name("bomb.zip")
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", b"[" + b" " * 50_000_000 + b"]")
    assert bomb.stat().st_size < 100_000
    with pytest.raises(UsageError, match="expands from"):
        memory.import_file(bomb)


def test_only_conversations_are_read_of_an_archive(memory: Memory, root: Path) -> None:
    """An export holds other lists, which would be named as conversations that are none."""
    file = root.with_name("export.zip")
    with zipfile.ZipFile(file, "w") as archive:
        for name in ("conversations.json", "chat/conversations-2.json", "user.json", "my-conversations.json.bak"):
            archive.writestr(name, json.dumps([{**TALK, "uuid": f"u-{name}", "name": name}]))
        archive.mkdir("conversations-3.json")
    report = memory.import_file(file)
    assert (len(report.paths), report.wrong) == (2, [])


def test_what_is_too_large_is_left_out(root: Path, monkeypatch: Patch) -> None:
    """A conversation or line by its bytes and the brackets in it, a file by its bytes; what is before it is read."""
    large, many = {"a": "x" * 1_000}, {"thread": "t", "head": {f"k{n}": {} for n in range(30)}, "role": "user"}
    said = [{"thread": f"t{number}", "role": "user", "text": "x" * 60} for number in range(4)]

    def left_out(file: Path, **limits: int) -> list[str]:
        for name, value in limits.items():
            monkeypatch.setattr(read, name, value)
        return [one.reason if isinstance(one, Skipped) else "whole" for one in read_conversations(file)]

    bytes_and_brackets = ["it is larger than 0 MB", "it has more than 30 objects and lists"]
    limits = {"MAX_BRACKETS": 30, "MAX_LINE_BYTES": 1_000}
    assert left_out(export(root, large, many, TALK), **limits) == [*bytes_and_brackets, "whole"]
    assert left_out(lines(root, many, said[0])) == [bytes_and_brackets[1], "whole"]
    assert left_out(lines(root, *said), MAX_LINES_BYTES=300)[0].startswith("over 0 MB: this line and all after it")
    several = left_out(export(root, TALK, TALK, TALK), MAX_CONVERSATIONS=1)
    assert several == ["whole", "this one and all after it are left out; split the file"]
    with pytest.raises(UsageError, match="larger than 0 MB"):
        left_out(export(root, TALK), MAX_ARRAY_BYTES=300)


def test_names_of_a_head_are_bounded(memory: Memory, root: Path) -> None:
    """Over all lines of a thread, too: no front matter has so many."""
    heads = [{f"k{number}": 1} for number in range(read.MAX_HEAD_NAMES + 1)]
    report = memory.import_file(
        lines(root, *({"thread": "t", "head": head, "role": "user", "text": "x"} for head in heads))
    )
    over, left_out = report.wrong
    assert over == f"line {len(heads)}: head has more than {read.MAX_HEAD_NAMES} names"
    assert left_out.startswith("t: left out of its head: 'k0', 'k1', 'k10', 'k11', 'k12' and 95 more")
    assert len(memory.thread("t").messages) == len(heads) - 1


@pytest.mark.parametrize(
    "change",
    [{"thread": "x/" * 50_000}, {"role": "r" * 100_000}, {"time": "t" * 100_000}, {"attributes": {"a" * 100_000: []}},
     {"attributes": {" " * 100_000: "x"}}, {"attributes": {"a": "x" * 100_000}}, {"head": {"k" * 100_000: 1}}],
)  # fmt: skip
def test_every_complaint_is_short(memory: Memory, root: Path, change: dict[str, object]) -> None:
    """Whatever it quotes: it goes to a terminal, or to a model."""
    report = memory.import_file(lines(root, {"thread": "t", "role": "user", "text": "x", **change}))
    (wrong,) = report.wrong
    assert len(wrong) < 1_000


@pytest.mark.parametrize("damage", ["", "{}", "null", "[", "cut", "flipped", "encrypted flag"])
def test_damaged_archive_is_no_traceback(memory: Memory, root: Path, damage: str) -> None:
    """It is named, or refused with a reason."""
    file = root.with_name("export.zip")
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        whole = json.dumps([{**TALK, "uuid": str(n)} for n in range(200)])
        archive.writestr("conversations.json", damage if damage[:1] in "{n[" else whole)
    content = bytearray(file.read_bytes())
    if damage == "cut":
        del content[len(content) // 2 :]
    elif damage == "flipped":
        content[len(content) // 3] ^= 0xFF
    elif damage == "encrypted flag":
        content[6] |= 1
        content[content.index(b"PK\x01\x02") + 8] |= 1
    file.write_bytes(content)
    try:
        wrong = memory.import_file(file).wrong
    except UsageError as error:
        wrong = [error.message]
    assert wrong


# --------------------------------------------------------------------------------- killed and run again


def conversations(count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {**copy.deepcopy(TALK), "uuid": f"k-{number}", "name": f"Talk {number}"}


@pytest.mark.slow
def test_killed_import_goes_on_when_it_is_run_again(memory: Memory, root: Path, cli: Cli) -> None:
    """Each thread is there once, and whole."""
    file = export(root, *conversations(count := fewer(3_000, 600)))
    running = cli.begin("thread", "import", str(file))
    limit = time.monotonic() + 60
    while len(list(root.rglob("*.md"))) < 50 and time.monotonic() < limit:
        time.sleep(0.005)
    running.kill()
    running.wait()
    assert len(list(root.rglob("*.md"))) < count
    memory.import_file(file)
    assert len(list(root.rglob("*.md"))) == count
    assert {one.usage.messages for one in memory.threads().threads} == {2}
    assert memory.import_file(file).known == 2 * count
