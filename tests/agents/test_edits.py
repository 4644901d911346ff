"""Entries that come into settings files and go out again, with every other byte kept."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from memsync.agents.edits import NotEditable, added, parsed, removed

JSON_FILE, TOML_FILE = "settings.json", "config.toml"
HOOK = {"hooks": [{"type": "command", "timeout": 5, "command": "/opt/memsync hook prompt --agent x"}]}
ENTRIES: dict[str, Any] = {"hooks": {"Prompt": [HOOK]}, "servers": {"memsync": {"command": "memsync"}}, "version": 1}
TOML: dict[str, Any] = {"servers": {"memsync": {"command": "m", "args": ["mcp"]}}}
EDITED = "were edited, so memsync cannot remove them"

TEXTS = [
    "", "\ufeff", "//c\n", "{}", '{"a": 1 //c\n}', '{"a": [1,], }\n', '{"a":{}, //c,\n"hooks":{}}',
    '{"a\\\\":"//",\r\n\t"é":"/*"}',
    '{"hooks": {"Prompt": [{"hooks": []}, /*c*/ ], "x": "qu\\"o,}"}}', '{"servers": {"x": {} } , "version": 2, }',
    '\ufeff//c\r\n{ /*c*/ "hooks" /*c*/ : //c\r\n { "Prompt" : [ ] , } } //c', '{"hooks": 1, "hooks": {}}',
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_entries_come_with_all_else_kept(text: str) -> None:
    """Every byte of the file is still there, in its order, and it says what it said and the entries."""
    before, after = parsed(JSON_FILE, text), added(JSON_FILE, text, ENTRIES)
    value, rest = parsed(JSON_FILE, after), iter(after)
    assert all(letter in rest for letter in text)
    assert value["hooks"]["Prompt"][0] == HOOK and value["servers"]["memsync"] == {"command": "memsync"}
    assert value == {"version": 1, **before, **{key: value[key] for key in ("hooks", "servers")}}


@pytest.mark.parametrize(
    ("text", "entries", "after"),
    [
        ('{\r\n\t"a": {\r\n\t\t"b": 1 // x\r\n\t}\r\n}', {"a": {"memsync": {"d": 2}}},
         '{\r\n\t"a": {\r\n\t\t"memsync": {\r\n\t\t\t"d": 2\r\n\t\t},\r\n\t\t"b": 1 // x\r\n\t}\r\n}'),
        ("{ // x\n}", {"a": 1}, '{\n  "a": 1\n // x\n}'),
        ('{"a": [1]}', {"a": [2]}, '{"a": [\n  2,\n  1]}'),
        ("", {"a": 1}, '{\n  "a": 1\n}\n'),
        ("// x", {"a": 1}, '// x\n{\n  "a": 1\n}\n'),
    ],
)  # fmt: skip
def test_indentation_and_line_ends_follow_the_file(text: str, entries: dict[str, Any], after: str) -> None:
    """Tabs, CRLF and a missing last newline stay, and new lines have them, too."""
    assert added(JSON_FILE, text, entries) == after


@pytest.mark.parametrize("before", ['{ // mine\n\t"gh": {}, "hooks": {} }\n', '{ /* b */ "servers": {}\n}', "{}", None])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", '{ "x": [],'), ("", "// y\n{"), ('"servers": {', '"servers": {\n"y": {}, // y'),
        ('"Prompt": [', '"Prompt": [{"hooks": []}, '), ('"timeout": 5', '"timeout":  5'),
    ],
)  # fmt: skip
def test_entries_are_cut_out_of_a_text_that_was_edited(old: str, new: str, before: str | None) -> None:
    """What the user wrote stays, in its order, and no comma is left after the last value: some agents read none."""
    edited = added(JSON_FILE, before or "", ENTRIES).replace(old or "{", new, 1)
    left = removed(JSON_FILE, edited, ENTRIES, before)
    rest = iter(left)
    assert "memsync" not in left and all(letter in rest for letter in re.sub(r"[\s{},:5]|\"(timeout|Prompt).", "", new))
    assert [*re.findall("//.*", left)] == re.findall("//.*", edited) and not re.search(r",\s*(//.*\s*)?[]}]", left)
    kept = {"gh", "hooks", "servers", "version"} & parsed(JSON_FILE, before or "{}").keys()
    assert kept <= parsed(JSON_FILE, left).keys() and removed(JSON_FILE, left, ENTRIES, before) == left


@pytest.mark.parametrize("before", ["{}", '{"x": [1e-5], "hooks": {"Prompt": [{"hooks": []}]}, "version": 1}', None])
@pytest.mark.parametrize("style", [{"indent": 2}, {"indent": "\t"}, {}, {"separators": (",", ":")}])
def test_entries_are_cut_out_of_a_file_that_the_agent_wrote_anew(before: str | None, style: dict[str, Any]) -> None:
    """In any style and order; what the user added beside memsync's entries stays."""
    value = parsed(JSON_FILE, added(JSON_FILE, before or "{}", ENTRIES))
    value["hooks"]["Prompt"].append({"hooks": [{"command": "mine"}]})
    value["servers"] = value.pop("servers")
    edited = json.dumps({"new": "é", **value}, ensure_ascii=False, **style) + "\n"
    expected = {"version": 1, "new": "é", **parsed(JSON_FILE, before or "{}")}
    expected["hooks"] = {"Prompt": value["hooks"]["Prompt"][1:]}
    back = removed(JSON_FILE, edited, ENTRIES, before)
    assert json.loads(back) == expected and len(back.splitlines()) == len(json.dumps(expected, **style).splitlines())


@pytest.mark.parametrize(
    ("edit", "before"),
    [
        (('"type": "command"', '"matcher": "x"'), "{}"),  # a hook that was edited
        (('"command": "memsync"', '"command": "memsync", "env": {}'), "{}"),  # a server that was edited
        (('"timeout": 5', '"timeout": 5 /**/'), '{"a": 1,} // mine'),  # a comment in a hook
    ],
)
def test_entries_that_were_edited_are_named_and_stay(edit: tuple[str, str], before: str) -> None:
    """The error has the lines and what was added. Once the entries are deleted by hand, there is nothing to remove."""
    after = added(JSON_FILE, before, ENTRIES)
    with pytest.raises(NotEditable, match=EDITED) as error:
        removed(JSON_FILE, after.replace(*edit, 1), ENTRIES, before)
    assert '"/opt/memsync hook prompt --agent x"' in error.value.hint and "see lines 9, 16, 17" in error.value.hint
    assert removed(JSON_FILE, before, ENTRIES, before) == before


def test_server_that_may_be_the_users_own_stays() -> None:
    """A server may be there from before memsync was connected. Claude Code has those of all projects in one file."""
    server = {"servers": {"memsync": {"command": "memsync"}}}
    befores: list[dict[str, Any]] = [
        {"projects": {"/p": {"servers": {}}}},
        {"servers": {"memsync": {"url": "x"}}},
        server,
    ]
    for before in befores:
        text = json.dumps(before)
        edited = json.dumps(dict(reversed(parsed(JSON_FILE, added(JSON_FILE, text, server)).items())))
        assert json.loads(removed(JSON_FILE, edited, server, text)) == before
    other = json.dumps({"servers": {"memsync": {"url": "x"}}})
    assert removed(JSON_FILE, other, server) == other


@pytest.mark.parametrize(
    "text", ["", "a = nan", "a = 1\r\n# end", "[servers.other]\nx = [\n[1],\n]\n", "[servers]\nmemsyncs = 1\n\n\n"]
)
@pytest.mark.parametrize("edit", ["", "[z]\nq = 1\n", "# mine\n[servers.mine]\n"])
def test_toml_table_comes_and_goes(text: str, edit: str) -> None:
    """A table at the end; what the user adds after it stays to the byte."""
    after = added(TOML_FILE, text, TOML)
    assert after.startswith(text)
    assert added(TOML_FILE, after, TOML) == after
    missing_end = ("\r\n" if "\r" in text else "\n") * (bool(text) and not text.endswith("\n"))
    for before in (text, None):
        assert removed(TOML_FILE, after + edit, TOML, before) == text + missing_end + edit


@pytest.mark.parametrize("edit", ["env = {a = 'b'}\n", "[servers.memsync.env]\na = 'b'\n"])
def test_edited_toml_table_is_not_torn(edit: str) -> None:
    """What the user added to memsync's table would otherwise become part of the one before it."""
    after = added(TOML_FILE, "a = 1\n", TOML)
    with pytest.raises(NotEditable, match=EDITED):
        removed(TOML_FILE, after + edit, TOML, "a = 1\n")


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        (JSON_FILE, '{\n"a": }', "not JSON (line 2)"), (JSON_FILE, "[1]", "not a JSON object"),
        (JSON_FILE, "{a: 1}", "not JSON"), (JSON_FILE, '{"a": [1,,]}', "not JSON"), (JSON_FILE, '{"a":,}', "not JSON"),
        (JSON_FILE, "{,}", "not JSON"), (JSON_FILE, '{"a": [ /**/ ,]}', "not JSON"),
        (JSON_FILE, '{"a":' * 100_000, "nested too deeply"), (JSON_FILE, '{"hooks": 1}', "hooks, servers, version"),
        (JSON_FILE, '{"hooks": {\n"Prompt": "x"}}', "has no place"), (JSON_FILE, '"\\' * 500_000, "not JSON"),
        (JSON_FILE, '{"a":' + "9" * 5000 + "}", "not JSON"), (JSON_FILE, "{/*" * 500_000, "not JSON"),
        (JSON_FILE, "/* open", "has no place"), (TOML_FILE, "servers = {}", "has no place"),
        (TOML_FILE, "a = 1\na = \n", "line 2"),
    ],
)  # fmt: skip
def test_file_that_is_not_understood_is_refused(file: str, text: str, words: str) -> None:
    """What cannot be read, or not be edited without a change of something else, is an error, in linear time."""
    with pytest.raises(NotEditable, match=re.escape(words)):
        added(file, text, TOML if file == TOML_FILE else ENTRIES)
