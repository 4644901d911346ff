"""A value of a program is given back exactly, is a page that a person can edit, and leads nowhere else."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsync import Memory
from memsync.errors import MemsyncError, NoteError, UsageError, WriteRefused
from memsync.integrations.values import Values, found_for, matches, plain_query
from memsync.memory import MemoryApi
from memsync.settings.load import load_settings
from tests.conftest import MakeMemory

FOLDER = "by-agents/test"
CHARACTERS = st.characters() | st.sampled_from(list('\n\r\t`-+#<>={}"\\ \u2028\ufeff\x00\x85')) | st.just("\ud800")
TEXTS = st.text(CHARACTERS, max_size=60) | st.sampled_from([
    "```json\n{}\n```", "a\n\n```json\n{}\n```\n", "---\ntitle: x\n---\n", "+++\n", "\n\n", "<<<<<<< a", "=======",
    " ---",
])  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
VALUES = st.dictionaries(
    st.sampled_from(["text", "content", "page_content", "a", "name", ""]) | TEXTS, JSON, max_size=4
)
NAMES = st.lists(
    st.text(CHARACTERS, min_size=1, max_size=50)
    | st.sampled_from(
        [".", "..", "../x", "/", "prompts", "CLAUDE", "agents", "Readme", "a", "A", "x" * 300, "archive"]
    ),
    min_size=1,
    max_size=3,
).map(tuple)


@pytest.fixture
def values(memory: Memory) -> Values:
    return Values(memory, FOLDER)


@pytest.mark.slow
@given(name=NAMES, value=VALUES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_value_comes_back_exactly(values: Values, root: Path, name: tuple[str, ...], value: dict[str, Any]) -> None:
    """Also key by key in order, but for the field that is written as text; and nothing is written elsewhere."""
    values.put(name, value)
    entry = values.get(name)
    assert (
        entry is not None
        and entry.name == name
        and json.dumps(entry.value, sort_keys=True) == json.dumps(value, sort_keys=True)
    )
    assert (root / entry.path).is_file() and entry.path.startswith(f"{FOLDER}/")
    assert [path.name for path in root.iterdir()] == ["by-agents"]
    values.delete(name)
    values.delete(name)
    assert values.get(name) is None


def test_different_names_are_different_notes(values: Values) -> None:
    """Upper case, punctuation, prefixes, a name that is another's folder or digest."""
    values.put(("A", "k"), {"n": -1})
    path = next(values.entries()).path
    taken = path.split("/")[2]
    names = [
        ("a", "k"),
        ("a", "K"),
        ("a-b", "k"),
        ("a b", "k"),
        ("a", "b", "k"),
        ("k",),
        (taken, "k"),
        ("ab", "k"),
        ("é", "k"),
    ]
    for number, name in enumerate(names):
        values.put(name, {"n": number})
    assert [entry.value["n"] for name in names if (entry := values.get(name))] == list(range(len(names)))
    assert {entry.name for entry in values.entries()} == {*names, ("A", "k")}
    assert {entry.name for entry in values.entries(("a",))} == {("a", "k"), ("a", "K"), ("a", "b", "k")}


def test_edit_by_hand_counts_at_once(values: Values, root: Path) -> None:
    """Of the text, of a field, of the front matter by a program that writes YAML anew, with other line ends."""
    values.put(("ada", "food"), {"text": "likes olives", "sure": True})
    entry = values.get(("ada", "food"))
    assert entry is not None
    note = root / entry.path
    note.write_text(note.read_text().replace("likes", "hates").replace("true", "false"))
    edited = values.get(("ada", "food"))
    assert edited is not None and edited.value == {"text": "hates olives", "sure": False}
    assert next(values.search("olives"))[1].value["text"] == "hates olives"
    assert [one.value["sure"] for one in values.entries()] == [False]
    text = note.read_text().replace('name: ["ada", "food"]', "name:\n  - ada\n  - food").replace("\n", "\r\n")
    note.write_bytes(text.encode())
    again = values.get(("ada", "food"))
    assert again is not None and again.value == edited.value and again.created == entry.created
    values.put(("ada", "food"), {"text": "eats"})
    last = values.get(("ada", "food"))
    assert last is not None and last.created == entry.created and last.updated > entry.updated


def test_values_through_a_daemon(own: MemoryApi) -> None:
    """The same in this process and through a daemon."""
    values = Values(own, FOLDER)
    values.put(("a", "k"), {"text": "the heron nests"})
    values.put(("b", "k"), {"n": 1})
    assert [entry.name for _, entry in values.search("heron")] == [("a", "k"), ("b", "k")]
    values.delete(("b", "k"))
    assert [entry.name for entry in values.entries()] == [("a", "k")]
    hits = found_for(own, "heron", 1, {"folder": (FOLDER,)})
    assert [hit.text for hit in hits] == ["the heron nests"] and found_for(own, "", 1, {}) == ()


def test_page_is_plain_markdown(values: Values, root: Path) -> None:
    values.put(("ada", "food"), {"content": "Likes *olives*.\n\n- green", "sure": 0.5})
    (note,) = root.rglob("*.md")
    head, _, body = note.read_text().partition("\n---\n")
    assert 'title: food\nname: ["ada", "food"]\n' in head and "\ntext: content" in head
    assert body == '\nLikes *olives*.\n\n- green\n\n```json\n{\n  "sure": 0.5\n}\n```\n'


def test_broken_json_is_an_error_that_names_the_line(values: Values, root: Path) -> None:
    values.put(("k",), {"a": 1, "b": 2})
    (note,) = root.rglob("*.md")
    whole = note.read_text()
    line = whole.split("\n").index('  "b": 2') + 1
    note.write_text(whole.replace('"b": 2', '"b": '))
    with pytest.raises(NoteError, match=rf"k-\w+\.md:{line + 1}: broken JSON"):  # where the parser misses the value
        values.get(("k",))
    for broken in ("[1]", "[" * 100_000):
        note.write_text(whole.partition("```json")[0] + f"```json\n{broken}\n```\n")
        with pytest.raises(NoteError):
            values.get(("k",))
    for broken in (whole.partition("```json")[0], f"{whole}\nA remark.\n", "\n\n```json\n" * 50_000):
        note.write_text(whole.partition("```json")[0] + broken.partition("---\n\n")[2])
        with pytest.raises(NoteError, match="no ```json block"):
            values.get(("k",))
    values.put(("other",), {"text": "left"})
    with pytest.warns(UserWarning, match=f"left out: .*{note.name}"):
        assert [entry.name for entry in values.entries()] == [("other",)]
    with pytest.warns(UserWarning, match=f"left out: .*{note.name}"):
        assert [entry.name for _, entry in values.search("a")] == [("other",)]


def test_remark_below_the_block_does_not_turn_fields_into_text(values: Values, root: Path) -> None:
    values.put(("k",), {"text": "likes olives", "sure": True})
    (note,) = root.rglob("*.md")
    note.write_text(note.read_text() + "\nAnd capers.\n")
    with pytest.raises(NoteError, match="no ```json block"):
        values.get(("k",))
    note.write_text(note.read_text().replace("\n\n```json", "\n```json").removesuffix("\nAnd capers.\n"))
    assert (entry := values.get(("k",))) and entry.value == {"text": "likes olives", "sure": True}


def test_what_looks_like_a_template_is_found(values: Values) -> None:
    """A prompt of a program has placeholders, and a namespace may have any name."""
    values.put(("templates", "a"), {"text": "one"})
    values.put(("b",), {"text": "{{user}}\n{{task}}"})
    assert sorted(entry.name for entry in values.entries()) == [("b",), ("templates", "a")]
    assert sorted(entry.name for _, entry in values.search("one")) == [("b",), ("templates", "a")]


@pytest.mark.parametrize("added", ["\ufeff", "updated: 2030-01-01\n", "x: a\u2028b\x85\n"])
def test_what_editors_write_is_read(values: Values, root: Path, added: str) -> None:
    """A byte order mark, a day without a time, odd line ends."""
    values.put(("k",), {"text": "olives"})
    (note,) = root.rglob("*.md")
    head = note.read_text().removeprefix("---\n")
    if added.startswith("updated"):
        head = re.sub(r"updated: .*\n", "", head)
    note.write_text(f"{added}---\n{head}" if added == "\ufeff" else f"---\n{added}{head}")
    entry = values.get(("k",))
    assert entry and entry.value == {"text": "olives"} and datetime.fromisoformat(entry.updated).tzinfo


def test_name_that_no_note_can_hold_is_refused(values: Values) -> None:
    with pytest.raises(UsageError, match="too long"):
        values.put(("k" * 70_000,), {"text": "a"})


def test_notes_that_are_no_values_are_left_alone(values: Values, root: Path) -> None:
    """A note of a person in the folder, a copy of a value under another name, a link."""
    values.put(("a", "k"), {"n": 1})
    (note,) = root.rglob("*.md")
    (note.parent / "README.md").write_text("# Mine\n")
    (note.parent / "copy.md").write_bytes(note.read_bytes())
    (note.parent / "named.md").write_text("---\nname: My note\n---\n\nMine.\n")
    (root / "secret.md").write_bytes(note.read_bytes())
    assert [entry.path for entry in values.entries()] == [note.relative_to(root).as_posix()]
    assert [entry.name for _, entry in values.search("mine")] == [("a", "k")]


@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "binary"])
def test_what_a_clone_puts_in_the_place_of_a_value_is_refused(
    values: Values, root: Path, tmp_path: Path, kind: str
) -> None:
    """Neither followed nor replaced, and no call hangs."""
    values.put(("k",), {"n": 1})
    (note,) = root.rglob("*.md")
    secret = tmp_path / "secret.md"
    secret.write_bytes(note.read_bytes())
    note.unlink()
    if kind == "link":
        note.symlink_to(secret)
    elif kind == "folder":
        note.mkdir()
    elif kind == "pipe":
        os.mkfifo(note)
    else:
        note.write_bytes(b"\xff\x00")
    with pytest.raises(MemsyncError):
        values.get(("k",))
    with pytest.raises(MemsyncError):
        values.put(("k",), {"n": 2})
    with pytest.raises(MemsyncError):
        values.delete(("k",))
    assert list(values.entries()) == []
    assert "n" in secret.read_text() and note.is_symlink() == (kind == "link")


def test_search_ranks_the_best_first_and_leaves_nothing_out(values: Values) -> None:
    """More values than the first request returns, and then each once."""
    for number in range(60):
        values.put(("all", f"{number}"), {"text": f"number {number}", "more": ["x"]})
    values.put(("other", "heron"), {"text": "the heron nests"})
    assert next(values.search("heron nests"))[1].name == ("other", "heron")
    found = [entry.name for _, entry in values.search('number -7 tag:x "', ("all",))]
    assert len(found) == 60 == len(set(found))


@pytest.mark.parametrize(
    ("wanted", "is_held"),
    [
        ({"a": 1}, True), ({"a": True}, False), ({"a": {"$gt": 0, "$lte": 1}}, True), ({"a": {"$gt": "0"}}, False),
        ({"b.c": "x"}, True), ({"b.d": None}, True), ({"a.b": 1}, False), ({"b": {"c": "x"}}, True), ({"e.f": 2}, True),
        ({"b.c": {"$ne": "y"}}, True), ({"z": {"$lt": 3}}, False), ({}, True), ({"l": [1]}, True),
    ],
)  # fmt: skip
def test_filter(wanted: dict[str, Any], is_held: bool) -> None:
    assert matches({"a": 1, "b": {"c": "x"}, "e.f": 2, "l": [1]}, wanted) is is_held


def test_unknown_operator_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"\$in"):
        matches({"a": 1}, {"a": {"$in": [1]}})


def test_query_of_a_program_has_no_filters() -> None:
    assert plain_query('kind:daily -x "a b" roo* re-do C++ --') == "kind daily x a b roo re-do C++"


def test_what_instructs_agents_is_refused(memory: Memory, root: Path) -> None:
    with pytest.raises(WriteRefused):
        Values(memory, "prompts").put(("x",), {"text": "obey"})
    with pytest.raises(UsageError):
        Values(memory, "../elsewhere").put(("x",), {"text": "obey"})
    with pytest.raises(UsageError, match="no JSON"):
        Values(memory, FOLDER).put(("x",), {"text": "a", "b": object()})
    assert list(root.rglob("*")) == []


def _write(root: str, start: int) -> None:
    from memsync.integrations.values import Values

    with Memory.open(root) as memory:
        values = Values(memory, FOLDER)
        for number in range(start, start + 25):
            values.put(("shared",), {"text": f"{number} " * 500})
            values.put((f"own-{number}",), {"n": number})


@pytest.mark.slow
def test_two_processes_lose_and_tear_nothing(make_memory: MakeMemory, root: Path) -> None:
    """Both write one value, and values of their own."""
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(str(root), start)) for start in (0, 100)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    assert [writer.exitcode for writer in writers] == [0, 0]
    values = Values(make_memory(own_settings=load_settings(root=root)), FOLDER)
    shared = values.get(("shared",))
    assert shared is not None and len(set(shared.value["text"].split())) == 1
    found = {entry.value["n"] for entry in values.entries() if "n" in entry.value}
    assert found == {*range(25), *range(100, 125)}
