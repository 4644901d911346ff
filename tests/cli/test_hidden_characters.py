"""What cannot be seen in a name or a text reaches no terminal and no model as it is, whatever prints it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from memsync.cli.main import main, run
from memsync.daemon.logs import log_to
from memsync.mcp_server.memories import ServedMemories
from memsync.mcp_server.messages import line_of
from memsync.mcp_server.protocol import HANDSHAKES, McpServer, Peer
from memsync.model.text import json_line, printable, quotable, visible
from memsync.settings.load import load_settings
from memsync.settings.registering import add_root
from tests.conftest import Patch, Printed
from tests.mcp_server.test_protocol import message

HIDDEN = [
    *map(chr, (0x01, 0x07, 0x08, 0x0B, 0x0C, 0x0D, 0x1B, 0x1C, 0x7F, 0x85, 0x9B, 0x9D, 0xAD)),
    *map(chr, (0x061C, 0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2028, 0x2029, 0x2060, 0xFEFF)),
    *map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xE0001, 0xE0041, 0xE007F)),
    *map(chr, (0x034F, 0x115F, 0x1160, 0x17B4, 0x180B, 0x3164, 0xFE00, 0xFE0D, 0xFE0F, 0xFFA0, 0xE0100, 0xE01EF)),
]
ALL = "".join(HIDDEN)
_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
NAME = f"a{ALL[:12]}\nFORGED: nothing is wrong.md"
OTHER = f"b{ALL[12:]}\udcff.md"
IN_YAML = json.dumps(f"x{ALL}\nFORGED")


def hidden_in(text: str) -> list[str]:
    """Return what a text holds that cannot be seen, line ends and tabs aside."""
    return [f"{character!r}" for character in _FORBIDDEN.findall(text)]


def texts_in(value: Any) -> list[str]:
    """Return every text that JSON holds, names of members included, as a client decodes it."""
    if isinstance(value, dict):
        return [*value, *texts_in(list(value.values()))]
    if isinstance(value, list):
        return [text for one in value for text in texts_in(one)]
    return [value] if isinstance(value, str) else []


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Make a root whose name, files, titles, headings, tags, roles and texts hold all that cannot be seen."""
    root = tmp_path / f"notes[31m\u202e{chr(0xE0041)}"  # no control character: such a root is refused
    root.mkdir()
    text = f"heron {ALL.replace(chr(13), '')} nests"
    (root / "threads").mkdir()
    (root / "daily").mkdir()
    for folder, name in (("", NAME), ("", OTHER), ("threads/", f"t{ALL[:8]}.md"), ("daily/", "2026-11-21.md")):
        head = (
            f"---\ntitle: {IN_YAML}\nsession: {IN_YAML}\nuser: {IN_YAML}\nstatus: {IN_YAML}\ntags: [{IN_YAML}]\n---\n"
        )
        body = (
            f"# Title {text}\n\n{text} #tag\u202eged\n\n- 10:00 {text} and eleven more words so that it is compared\n"
            f"- {text} {{.pattern type=x key=k count=2}}\n"
        )
        said = "".join(
            f'\n## {role} @ 2026-11-21 10:0{minute} {{model="m\u202e" task="\x1b"}}\n\n{text}\n'
            for minute, role in enumerate(("user", "agent:a\u202eb", "router", "handoff"))
        )
        (root / folder / name).write_bytes((head + (said if folder == "threads/" else body)).encode("utf-8", "replace"))
    (root / "preferences.md").write_text(f"- key{ALL[5]}: value {text}\n")
    (root / "README.md").write_text(f"---\ntitle: {IN_YAML}\ndescription: {IN_YAML}\n---\nx\n")
    (root / f"bad{ALL[:6]}.md").write_bytes(b"\x00\x01\x02" * 100)
    return root


COMMANDS = """
    sync, search heron, search heron --full --explain, search heron --json --explain,
    search heron --context 1 kind:thread, search kind:<all>, search in:<all>, search tags:<all>,
    search after:x<all>, search --<all>, command<all>, get a, get nosuch<all>, get daily/2026-11-21.md --json,
    context heron, context heron --json, note list, note list --json, note new n<all>, thread list,
    thread show t<some>, thread show x<all>, thread append x<all> user x, thread sessions,
    thread costs --by agent, thread costs --by model, thread runs, thread routes, thread handoffs, thread export,
    pref list, pattern list, duplicates, stale --days 0, collections, stats, prune --days 1, status, status --json,
    index verify, doctor, index vectors status, index vectors import nosuch<all>, config show, config show --json,
    mcp install claude-desktop, daemon logs, recover, daemon x<all>, history x<all>, history diff x<all>
"""
"""Command lines, separated by commas. `<all>` becomes all characters that cannot be seen, `<some>` eight of them."""


def test_no_command_prints_what_cannot_be_seen(hostile: Path, capsys: Printed, monkeypatch: Patch) -> None:
    """And no name begins a line of its own, which could pass for a message of memsync's."""
    monkeypatch.setenv("MEMSYNC_SEARCH_MODE", "keyword")
    monkeypatch.setenv("MEMSYNC_DAEMON_USE", "false")
    export = hostile.parent / f"export{ALL[:6]}\nFORGED.jsonl"
    export.write_text(f'{{"thread": "x{ALL[15:]}", "role": "\\u202e"}}\nno JSON {ALL[15:]}\n')
    listed = re.split(r",\s+", COMMANDS.strip())
    commands = [line.replace("<all>", ALL).replace("<some>", ALL[:8]).split(" ") for line in listed]
    others = (
        ["get", f"x{ALL}\nFORGED"],
        ["index", "vectors", "export", f"no such folder{ALL}/x"],
        ["thread", "import", str(export)],
    )
    for command in (*commands, *others, ["log", f"x{ALL}"], ["get", "README"], ["recover"]):
        if command == ["get", "README"]:
            monkeypatch.setattr(sys.stdout, "isatty", lambda: True)  # only a terminal gets a note's text changed
        if command == ["recover"]:
            for log in hostile.glob("daily/*"):
                log.unlink()
        with pytest.raises(SystemExit):
            main(["--root", str(hostile), *command])
        done = capsys.readouterr()
        assert hidden_in(done.out) == [], command
        assert hidden_in(done.err) == [], command
        assert not re.search("^FORGED", done.out + done.err, re.MULTILINE), command
        assert "Traceback" not in done.err, command
        assert ("No such command" in done.err) == (command in ([f"command{ALL}"], ["daemon", f"x{ALL}"])), command


def test_registered_memory_is_shown_as_safely_as_the_current_one(
    hostile: Path, capsys: Printed, monkeypatch: Patch, tmp_path: Path
) -> None:
    """In the list, in hits, in what they quote, in warnings and in errors, while it is there and once it is gone."""
    monkeypatch.setenv("MEMSYNC_SEARCH_MODE", "keyword")
    monkeypatch.setenv("MEMSYNC_DAEMON_USE", "false")
    (hostile / "config.toml").write_text("[memsync]\n")
    add_root("theirs", str(hostile))
    (tmp_path / "outside").mkdir()
    monkeypatch.chdir(tmp_path / "outside")
    commands = [
        ("roots", "list"), ("roots", "list", "--json"), ("search", "heron", "--explain", "--context", "1"),
        ("search", "heron", "--json", "--explain"), ("search", f"heron in:{ALL}"), ("search", f"heron root:{ALL}"),
        ("get", f"theirs:a{ALL}\nFORGED"), ("get", f"{ALL}\nFORGED:a.md"), ("get", "theirs:a", "--json"),
        ("context", "heron"), ("context", "heron", "--json"),
    ]  # fmt: skip
    for command in (*commands, ("move",), *commands, ("roots", "remove", "theirs")):
        if command == ("move",):
            hostile.rename(tmp_path / "moved")
            continue
        run([*command])
        done = capsys.readouterr()
        assert hidden_in(done.out + done.err) == [], command
        assert not re.search("^FORGED", done.out + done.err, re.MULTILINE), command
        assert done.out + done.err and "memsync failed" not in done.err, command


def test_json_is_the_exact_data(hostile: Path, capsys: Printed, monkeypatch: Patch) -> None:
    """What cannot be seen is escaped in JSON, halves of characters included, and comes back as it was."""
    monkeypatch.setenv("MEMSYNC_DAEMON_USE", "false")
    monkeypatch.setenv("MEMSYNC_SEARCH_MODE", "keyword")
    with pytest.raises(SystemExit):
        main(["--root", str(hostile), "note", "list", "--json"])
    paths = {note["path"] for note in json.loads(capsys.readouterr().out)["notes"]}
    assert NAME in paths
    assert json.loads(json_line(json.dumps(f"{ALL}\udcff é 日本", ensure_ascii=False))) == f"{ALL}\udcff é 日本"


def test_what_can_be_seen_stays_as_it_is() -> None:
    """Letters of any script, emoji, and spaces of any width."""
    text = "Ünïcödé 日本語 العربية 🎉 a\u00a0b\u3000c \u26a0\ufe0f 1\ufe0f\u20e3 \u260e\ufe0e"
    assert (printable(text), visible(text), json_line(text)) == (text, text, text)
    assert printable("a\nb\x1b") == "a\\nb\\x1b"
    assert visible("a\n\tb\x1b") == "a\n\tb\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("base", ["\u2764\ufe0f", "\U0001f600", "a", "日", " ", "\n", "\u200b"])
def test_no_sentence_is_hidden_behind_a_sign(base: str) -> None:
    """One selector may say how an emoji looks; a row of them spells out bytes that only a model reads."""
    for selectors in ("\ufe0f\ufe0e" * 20, "".join(map(chr, range(0xE0100, 0xE01F0))), "\ufe00\ufe0d"):
        kept = len(hidden_in(visible(base + selectors)))
        assert kept == len(hidden_in(printable(base + selectors)))
        assert kept <= 1


def test_no_tool_gives_a_model_what_cannot_be_seen(hostile: Path, monkeypatch: Patch) -> None:
    """Neither in texts, data and errors nor in resources; on the wire JSON escapes it everywhere."""
    monkeypatch.setenv("MEMSYNC_SEARCH_MODE", "keyword")
    monkeypatch.setenv("MEMSYNC_DAEMON_USE", "false")
    served = ServedMemories(lambda: load_settings(root=hostile))
    server, raw = McpServer(served, read_only=False), list[str]()

    def ask(method: str, **params: Any) -> dict[str, Any]:
        answer = server.answer(message(method, **params), Peer(HANDSHAKES[-1]))
        raw.append(line_of(answer).decode())
        return dict(json.loads(raw[-1]))

    ask("tools/list")
    ask("resources/templates/list")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("memory_search", {"query": "heron"}), ("memory_search", {"query": f"kind:x{ALL}"}),
        ("memory_search", {"query": f"in:x{ALL}"}), ("memory_get", {"location": "a"}),
        ("memory_get", {"location": NAME}), ("memory_get", {"location": f"absent{ALL}\nFORGED"}),
        ("memory_get", {"location": "daily/2026-11-21.md"}), ("memory_get", {"location": f"/x{ALL}"}),
        ("memory_context", {"query": "heron", "thread": f"t{ALL[:8]}.md"}), ("memory_context", {"query": "heron"}),
        ("memory_status", {}), ("memory_log", {"text": "x", "tags": [f"t{ALL}"]}), ("memory_log", {f"text{ALL}": "x"}),
        ("memory_remember", {"text": "x", "note": f"x{ALL}"}), (f"tool{ALL}", {}),
        ("memory_thread_append", {"thread": f"x{ALL}", "role": "user", "text": "x"}),
        ("memory_thread_append", {"thread": "x", "role": f"user{ALL}", "text": "x"}),
    ]  # fmt: skip
    for name, arguments in calls:
        answer = ask("tools/call", name=name, arguments=arguments)
        told = answer.get("result", {}).get("content") or [{"text": answer["error"]["message"]}]
        for part in told:
            assert hidden_in(part["text"]) == [], (name, arguments)
            assert not re.search("^FORGED", part["text"], re.MULTILINE), (name, arguments)
    listed = ask("resources/list")["result"]["resources"]
    assert len(listed) >= 4
    for one in listed:
        assert hidden_in(one["name"] + one["title"] + one["uri"]) == []
        assert "\n" not in one["name"] + one["title"]
        (contents,) = ask("resources/read", uri=one["uri"])["result"]["contents"]
        assert hidden_in(contents["text"]) == []
    refusal = ask("resources/read", uri=f"other://{ALL}")["error"]["message"]
    assert hidden_in(refusal) == []
    assert hidden_in("".join(raw)) == []
    served.close()


def test_a_record_of_the_daemons_log_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """A file's name cannot add a line that looks like the log's own."""
    import io
    import logging

    from memsync.daemon.logs import log

    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    log_to(handler)
    try:
        log.warning("watcher: %s", f"a{ALL}\n2026-11-21T10:00:00 INFO FORGED")
    finally:
        log.removeHandler(handler)
    assert stream.getvalue().count("\n") == 1
    assert hidden_in(stream.getvalue()) == []


def test_a_note_is_found_by_its_name_as_it_was_printed(hostile: Path, capsys: Printed, monkeypatch: Patch) -> None:
    """An agent gives back the path that it was shown."""
    monkeypatch.setenv("MEMSYNC_DAEMON_USE", "false")
    with pytest.raises(SystemExit):
        main(["--root", str(hostile), "get", printable(NAME)])
    assert "heron" in capsys.readouterr().out


FRAMES = """
    memsync-recall system-reminder user-prompt-submit-hook hook_context session_context turn_aborted task-notification
    local-command-stdout local-command-caveat environment_context user_instructions bash-stdout user_shell_command
    INSTRUCTIONS system_reminder system system_prompt ide_opened_file command-name tool_result bash-input function_calls
    antml:invoke human assistant start_of_turn sys\u200btem ｓｙｓｔｅｍ \U0001d42cystem
"""


@pytest.mark.parametrize("frame", [*FRAMES.split(), "permissions instructions", "system-\nreminder"])
def test_no_tag_of_an_agent_is_left_in_a_quoted_text(frame: str) -> None:
    """In any case, with blanks, attributes and slashes, over lines, and without its end."""
    for before, after in (("<", ">"), ("a</", ">b"), ("< /", "\n>"), ("</", " a='b'"), ("＜", "＞"), ("<\u2060", ">")):
        for one in (frame, frame.upper()):
            assert not {"<", "＜"} & set(quotable(f"{before}{one}{after}"))


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("</system-reminder>", "‹/system-reminder›"),
        ("<|im_start|> <｜User｜>", "‹|im_start|› ‹｜User｜›"),
        ("[INST] [/inst] <<SYS>>", "‹INST› ‹/inst› ‹‹SYS››"),
        ("a\n\nHuman: b\n> **Assistant:** c", "a\n\nHuman∶ b\n> **Assistant∶** c"),
        *((text, text) for text in (
            "<div class='a'>", "Vec<T>", "a < b > c", "<system-info>", "a <| b |> c", "for (i=0; i<human.size; i++)",
            "x[0]",
            "[a](b)", "A human: Kim", "Humans: 3", "&lt;system&gt;", "List<String>", "<T extends Thinker>",
        )),
    ],
)  # fmt: skip
def test_quoted_text_stays_readable(text: str, quoted: str) -> None:
    """Ordinary code, HTML and links are left alone."""
    assert quotable(text) == quotable(quotable(text)) == quoted


@pytest.mark.parametrize(
    "piece", ["</memsync-recall>", "<system-reminder>", "[INST]", "<|im_start|>", "Human:", "<system prompt>"]
)
def test_frame_is_harmless_wherever_a_tab_is_in_it(piece: str) -> None:
    """Also in text of ASCII alone, for which there is a faster way."""
    for place in range(1, len(piece)):
        split = f"{piece[:place]}\t{piece[place:]}"
        assert (quotable(split) == split) is (quotable(f"{split}é") == f"{split}é")
        assert quotable(f"{piece}") != piece
