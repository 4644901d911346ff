"""Entries that come into settings files and go out again, with every other byte kept."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memsync.agents.edits import NotEditable, added, parsed, removed

JSON_FILE, TOML_FILE = "settings.json", "config.toml"
HOOK = {"hooks": [{"type": "command", "timeout": 5, "command": "/opt/memsync hook prompt --agent x"}]}
ENTRIES: dict[str, Any] = {"hooks": {"Prompt": [HOOK]}, "servers": {"memsync": {"command": "memsync"}}, "version": 1}
COMMENT = re.compile(r"//c,?|/\*c\*/")

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


@given(st.sampled_from(["", "\ufeff", "//c\n"]), st.just("") | rendered(), SPACES)
@example("", '{"a": 1 //c\n}', "")
@example("", '{"a": [1,], }', "\n")
@example("", '{"a":{}, //c\n"hooks":{}}', "")
@example("", '{"a":{}, //c,\n"hooks":{}}', "")
@example("", '{"hooks": {"Prompt": [{"hooks": []}]}}', "")
def test_entries_come_and_go_with_all_else_kept(start: str, text: str, end: str) -> None:
    """With the entries, a file says what it said and the entries; without them, exactly what it said, comments too."""
    text = start + text + end
    before = parsed(JSON_FILE, text)
    try:
        after = added(JSON_FILE, text, ENTRIES)
    except NotEditable as error:  # hooks or servers are there, but are no objects
        assert re.search("(an object|a list) must be here", error.message)
        return
    value = parsed(JSON_FILE, after)
    assert value["hooks"]["Prompt"][0] == HOOK
    assert value["servers"]["memsync"]
    assert value["version"] == 1
    back = removed(JSON_FILE, after, ENTRIES)
    assert filled(parsed(JSON_FILE, back)) == filled({**before, "version": before.get("version", 1)})
    assert COMMENT.findall(back) == COMMENT.findall(after) == COMMENT.findall(text)
    assert removed(JSON_FILE, back, ENTRIES) == back


def filled(value: Any) -> Any:
    """Return a value without members that are empty: memsync takes one out that it has used."""
    if isinstance(value, list):
        return [filled(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: inner for key, item in value.items() if (inner := filled(item)) not in ({}, [])}


def test_indentation_and_line_ends_follow_the_file() -> None:
    """Tabs, CRLF and a missing last newline stay, and new lines have them, too."""
    assert added(JSON_FILE, '{\r\n\t"a": {\r\n\t\t"b": 1 // x\r\n\t}\r\n}', {"a": {"c": {"d": 2}}}) == (
        '{\r\n\t"a": {\r\n\t\t"c": {\r\n\t\t\t"d": 2\r\n\t\t},\r\n\t\t"b": 1 // x\r\n\t}\r\n}'
    )
    assert added(JSON_FILE, "{ // x\n}", {"a": 1}) == '{ // x\n  "a": 1\n}'
    assert added(JSON_FILE, '{"a": [1]}', {"a": [2]}) == '{"a": [\n  2,\n  1]}'


@pytest.mark.parametrize("text", ["{}", '{"x": [], "hooks": {"Prompt": [{"hooks": []}]}, "version": 1}'])
@pytest.mark.parametrize("style", [{"indent": 2}, {"indent": 4}, {"indent": "\t"}, {}, {"separators": (",", ":")}])
def test_file_that_the_agent_wrote_anew_is_written_in_its_style(text: str, style: dict[str, Any]) -> None:
    """Then no span is there any more. What the user added stays, beside memsync's entries too."""
    after = added(JSON_FILE, text, ENTRIES)
    value = parsed(JSON_FILE, after)
    value["hooks"]["Prompt"].append({"hooks": [{"command": "mine"}]})
    value["hooks"]["Prompt"][0]["hooks"][0]["timeout"] = 60
    value["servers"] = value.pop("servers")
    edited = json.dumps({"new": "é", **value}, ensure_ascii=False, **style) + "\n"
    back = removed(JSON_FILE, edited, ENTRIES)
    expected = {
        "new": "é",
        **parsed(JSON_FILE, text),
        "hooks": {"Prompt": [*HOOK_FREE[text], {"hooks": [{"command": "mine"}]}]},
    }
    assert json.loads(back) == {**expected, "version": 1}
    in_one_line = back.replace("[ {", "[{")
    assert in_one_line == json.dumps(json.loads(back), ensure_ascii=False, **style) + "\n"


HOOK_FREE: dict[str, list[Any]] = {"{}": []}
HOOK_FREE['{"x": [], "hooks": {"Prompt": [{"hooks": []}]}, "version": 1}'] = [{"hooks": []}]


@pytest.mark.parametrize("edit", [("}", ", }"), ('"type": "command"', '"matcher": "x"')])
def test_entries_that_a_person_edited_are_not_torn(edit: tuple[str, str]) -> None:
    """Then memsync cannot tell which lines are whose."""
    after = added(JSON_FILE, '{"a": 1,} // mine', ENTRIES)
    with pytest.raises(NotEditable, match="entries were edited"):
        removed(JSON_FILE, after.replace(*edit, 1), ENTRIES)


def test_same_server_elsewhere_is_not_taken_for_the_one_that_was_added() -> None:
    """Claude Code keeps servers of each project in the same file. Nobody can tell which of two is whose."""
    server = {"servers": {"memsync": {"command": "memsync"}}}
    after = added(JSON_FILE, json.dumps({"projects": {"/p": server}}), server)
    with pytest.raises(NotEditable, match="entries were edited"):
        removed(JSON_FILE, after, server)


TOML: dict[str, Any] = {"servers": {"memsync": {"command": "m", "args": ["mcp"]}}}


@pytest.mark.parametrize(
    "text", ["", "a = 1", "a = 1\r\n# end", "[servers.other]\nx = [\n[1],\n]\n", "[servers]\nmemsyncs = 1\n\n\n"]
)
@pytest.mark.parametrize("edit", ["", "[z]\nq = 1\n", "# mine\n[servers.mine]\n"])
def test_toml_table_comes_and_goes(text: str, edit: str) -> None:
    """A table at the end; what the user adds after it stays to the byte."""
    after = added(TOML_FILE, text, TOML)
    assert after.startswith(text)
    assert added(TOML_FILE, after, TOML) == after
    missing_end = ("\r\n" if "\r" in text else "\n") * (bool(text) and not text.endswith("\n"))
    assert removed(TOML_FILE, after + edit, TOML) == text + missing_end + edit


@pytest.mark.parametrize("edit", ["env = {a = 'b'}\n", "[servers.memsync.env]\na = 'b'\n"])
def test_edited_toml_table_is_not_torn(edit: str) -> None:
    """What the user added to memsync's table would otherwise become part of the one before it."""
    after = added(TOML_FILE, "a = 1\n", TOML)
    with pytest.raises(NotEditable, match="entries were edited"):
        removed(TOML_FILE, after + edit, TOML)


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
        added(JSON_FILE, text, ENTRIES)


def test_toml_that_cannot_take_the_table_is_refused() -> None:
    """An inline table cannot be extended elsewhere, and a parse error names its line."""
    for text, words in (("servers = {}", "servers is not written as tables"), ("a = 1\na = \n", "line 2")):
        with pytest.raises(NotEditable, match=words):
            added(TOML_FILE, text, TOML)


@pytest.mark.parametrize(
    "before",
    [
        '{ "mcp": { "gh": {} }, "plugins": { "entries": {} } }\n',
        '{\n\t"mcp": { "gh": {} }, // mine\n\t"plugins": {}\n}\n',
    ],
)
def test_other_lines_keep_their_form_after_an_edit(before: str) -> None:
    """What was there before is cut around, even if it was empty or on one line."""
    entries = {"plugins": {"entries": {"memsync": {"enabled": True}}}, "mcp": {"memsync": {"command": "m"}}}
    after = added(JSON_FILE, before, entries)
    edited, wanted = (text.replace('"gh"', '"gitlab"') for text in (after, before))
    assert removed(JSON_FILE, edited, entries, before) == wanted


@pytest.mark.parametrize("text", ['{"hooks": {,}}', "{,}", '{"a": [1,,]}', '{"a":,}'])
def test_comma_without_a_value_is_no_last_comma(text: str) -> None:
    """The agent could not read the file either."""
    with pytest.raises(NotEditable, match="not JSON"):
        parsed(JSON_FILE, text)
