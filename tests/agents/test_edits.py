"""Entries that come into settings files and go out again, with every other byte kept."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memsync.agents.edits import NotEditable, added, parsed, toml_table, without

HOOK = {"hooks": [{"type": "command", "command": "/opt/memsync hook prompt --agent x"}]}
ENTRIES: dict[str, Any] = {"hooks": {"Prompt": [HOOK]}, "servers": {"memsync": {"command": "memsync"}}, "version": 1}
MEMBER = ("servers", "memsync")
COMMENT = re.compile(r"//c|/\*c\*/")

SPACES = st.sampled_from(["", "", " ", "\n", "\r\n\t", "\n    ", " //c\n", "\n /*c*/ ", "//c\r\n"])
NAMES = st.sampled_from(["a", "hooks", "Prompt", "servers", "// no comment", 'quo"te', "é", "a\\"])
PLAIN = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["/*", "//", ",}", '"'])


@st.composite
def rendered(draw: st.DrawFn, depth: int = 0) -> str:
    """Return a JSON value with spaces, comments and last commas at any place; an object at the outside."""
    kind = draw(st.sampled_from(["object", "list", "plain"])) if depth else "object"
    if kind == "plain" or depth > 3:
        return json.dumps(draw(PLAIN), ensure_ascii=draw(st.booleans()))
    names = draw(st.lists(NAMES, max_size=3, unique=True))
    parts = []
    for name in names:
        space = [draw(SPACES) for _ in range(4)]
        start = f"{json.dumps(name)}{space[0]}:{space[1]}" if kind == "object" else ""
        parts.append(space[2] + start + draw(rendered(depth + 1)) + space[3])
    inner = ",".join(parts) + ("," + draw(SPACES)) * (bool(parts) and draw(st.booleans())) or draw(SPACES)
    return "{" + inner + "}" if kind == "object" else f"[{inner}]"


def is_own(text: str) -> bool:
    return " hook " in text


@given(st.sampled_from(["", "\ufeff", "//c\n"]), st.just("") | rendered(), SPACES)
@example("", '{"a": 1 //c\n}', "")
@example("", '{"a": [1,], }', "\n")
@example("", '{"hooks": {"Prompt": [{"hooks": []}]}}', "")
def test_entries_come_and_go_with_all_else_kept(start: str, text: str, end: str) -> None:
    """With the entries, a file says what it said and the entries; without them, exactly what it said, comments too."""
    text = start + text + end
    before = parsed(text)
    try:
        after = added(text, ENTRIES)
    except NotEditable as error:  # hooks or servers are there, but are no objects
        assert re.search("(an object|a list) must be here", error.message)
        return
    value = parsed(after)
    assert value["hooks"]["Prompt"][0] == HOOK
    assert value["servers"]["memsync"]
    assert value["version"] == 1
    back = without(after, is_own, MEMBER, before)
    assert parsed(back) == {**before, "version": 1}
    assert COMMENT.findall(back) == COMMENT.findall(after) == COMMENT.findall(text)
    assert without(back, is_own, MEMBER, before) == back


def test_indentation_and_line_ends_follow_the_file() -> None:
    """Tabs, CRLF and a missing last newline stay, and new lines have them, too."""
    assert added('{\r\n\t"a": {\r\n\t\t"b": 1 // x\r\n\t}\r\n}', {"a": {"c": {"d": 2}}}) == (
        '{\r\n\t"a": {\r\n\t\t"c": {\r\n\t\t\t"d": 2\r\n\t\t},\r\n\t\t"b": 1 // x\r\n\t}\r\n}'
    )
    assert added("{ // x\n}", {"a": 1}) == '{ // x\n  "a": 1\n}'
    assert added('{"a": [1]}', {"a": [2]}) == '{"a": [\n  2,\n  1]}'


def test_entries_of_others_in_the_same_group_stay() -> None:
    """Somebody may have added a command of his own to memsync's group of hooks, or a key to its server."""
    text = json.dumps({"hooks": {"Prompt": [{"hooks": [*HOOK["hooks"], {"command": "mine"}]}]}, "x": []}, indent=1)
    assert parsed(without(text, is_own, (), {})) == {"hooks": {"Prompt": [{"hooks": [{"command": "mine"}]}]}, "x": []}


TOML: dict[str, Any] = {"servers": {"memsync": {"command": "m", "args": ["mcp"]}}}


@pytest.mark.parametrize(
    "text", ["", "a = 1", "a = 1\r\n# end", "[servers.other]\nx = [\n[1],\n]\n", "[servers]\nmemsyncs = 1\n\n\n"]
)
@pytest.mark.parametrize("edit", ["", "[z]\nq = 1\n", "# mine\n[servers.mine]\n"])
def test_toml_table_comes_and_goes(text: str, edit: str) -> None:
    """A table at the end; what the user adds after it stays to the byte."""
    table = toml_table(text, TOML)
    after = added(text, TOML, is_toml=True)
    assert after == text + table
    assert added(after, TOML, is_toml=True) == after
    back = without(after + edit, is_own, MEMBER, parsed(text, is_toml=True), table=table)
    missing_end = "\n" * (bool(text) and not text.endswith("\n"))
    assert back == text + missing_end + edit


@pytest.mark.parametrize("edit", ["env = {a = 'b'}\n", "[servers.memsync.env]\na = 'b'\n"])
def test_edited_toml_table_is_not_torn(edit: str) -> None:
    """What the user added to memsync's table would otherwise become part of the one before it."""
    table = toml_table("a = 1\n", TOML)
    with pytest.raises(NotEditable, match="without a change of something else"):
        without("a = 1\n" + table + edit, is_own, MEMBER, {"a": 1}, table=table)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{\n"a": }', "not JSON (line 2)"), ('{"a": 1} /* open', "not JSON"), ("[1]", "not a JSON object"),
        ("{a: 1}", "not JSON"), ('{"a":' * 100_000, "nested too deeply"),
        ('{"hooks": 1}', "line 1: an object must be here"),
        ('{"hooks": {\n"Prompt": "x"}}', "line 2: a list must be here"), ('"\\' * 500_000, "not JSON"),
        ('{"a":' + "9" * 5000 + "}", "not JSON"), ("/*" * 500_000, "not JSON"),
    ],
)  # fmt: skip
def test_file_that_is_not_understood_is_refused(text: str, words: str) -> None:
    """What cannot be read, or not be edited without a change of something else, is an error, in linear time."""
    with pytest.raises(NotEditable, match=re.escape(words)):
        added(text, ENTRIES)


def test_toml_that_cannot_take_the_table_is_refused() -> None:
    """An inline table cannot be extended elsewhere, and a parse error names its line."""
    for text, words in (("servers = {}", "not TOML"), ("a = 1\na = \n", "line 2")):
        with pytest.raises(NotEditable, match=words):
            added(text, TOML, is_toml=True)
