"""What an editor gets: answers about what it holds, and edits that it applies itself. The server is in this process."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memsync.lsp import answers
from memsync.lsp.documents import Document, path_of
from memsync.lsp.server import Server
from memsync.mcp_server.protocol import Peer
from memsync.memory import Memory
from memsync.settings.load import Settings, load_settings
from memsync.settings.registering import add_root
from memsync.system import clock
from tests.conftest import Patch, Write
from tests.support.daemon_process import until

CAN = {"workspace": {"workspaceEdit": {"documentChanges": True, "resourceOperations": ["create"]}}}
STORE = "---\naliases: [The Shop]\ntags: [work]\n---\n# Store\n\n## Decision\n\nSQLite, for now. ^why\n"
HOME = "# Home\n\nSee [[store#Decision]] #work/trip\n\ndecisions/store.md:9 [[nowhere]]\n"


class Editor:
    """An editor: it keeps what the server tells, and asks with places as `text|with a cursor`."""

    def __init__(
        self,
        settings: Callable[[str], Settings | None],
        client: dict[str, Any] | None = None,
        folder: str | None = None,
    ) -> None:
        self.told, self.shown = list[dict[str, Any]](), list[dict[str, Any]]()
        self.server = Server(self.told.append, settings)
        self.meanwhile: Callable[[], None] = lambda: None
        params = {"capabilities": CAN if client is None else client, "rootUri": folder}
        self.capabilities = self.request("initialize", params)["capabilities"]

    def request(self, method: str, params: dict[str, Any]) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self.server.is_quick(message)
        self.meanwhile()
        answer = self.server.answer(message, Peer())
        assert answer is not None and json.dumps(answer)
        return answer["result"] if "result" in answer else answer["error"]

    def tell(self, method: str, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        assert self.server.is_quick(message) and self.server.answer(message, Peer()) is None

    def open(self, path: Path, text: str | None = None) -> str:
        uri = path.as_uri()
        given = {"uri": uri, "languageId": "markdown", "version": 1, "text": path.read_text() if text is None else text}
        self.tell("textDocument/didOpen", textDocument=given)
        return uri

    def change(self, uri: str, text: str) -> None:
        self.tell("textDocument/didChange", textDocument={"uri": uri, "version": 2}, contentChanges=[{"text": text}])

    def at(self, method: str, uri: str, wanted: str, **params: Any) -> Any:
        """Ask about the place of `|` in a part of the text."""
        document = self.server.documents[uri]
        before, _, after = wanted.partition("|")
        offset = document.text.index(before + after) + len(before)
        line = document.text.count("\n", 0, offset)
        place = document.position(line, offset - (document.text.rfind("\n", 0, offset) + 1))
        return self.request(f"textDocument/{method}", {"textDocument": {"uri": uri}, "position": place, **params})

    def actions(self, uri: str, selected: str) -> dict[str, Any]:
        """Return the edit of each code action on a part of the text."""
        document = self.server.documents[uri]
        offset = document.text.index(selected)
        line = document.text.count("\n", 0, offset)
        start = document.position(line, offset - (document.text.rfind("\n", 0, offset) + 1))
        end = {"line": start["line"], "character": start["character"] + len(selected)}
        params = {"textDocument": {"uri": uri}, "range": {"start": start, "end": end}, "context": {"diagnostics": []}}
        return {one["title"]: one["edit"] for one in self.request("textDocument/codeAction", params)}

    def actions_or_none(self, uri: str) -> Any:
        start = {"line": 0, "character": 0}
        params = {"textDocument": {"uri": uri}, "range": {"start": start, "end": start}, "context": {"diagnostics": []}}
        return self.request("textDocument/codeAction", params)

    def diagnostics(self, uri: str) -> list[dict[str, Any]]:
        """Wait for the next diagnostics of a document, and return them."""
        found = list[Any]()

        def told() -> object:
            found[:] = [
                one["params"] for one in self.told if "diagnostics" in one["params"] and one["params"]["uri"] == uri
            ]
            return found

        until(told, "diagnostics")
        self.shown += [one for one in self.told if one["method"] == "window/showMessage"]
        self.told.clear()
        return list(found[-1]["diagnostics"])


@pytest.fixture
def editor(memory: Memory, settings: Settings, monkeypatch: Patch) -> Iterator[Editor]:
    """Open an editor in the folder of the memory; words alone, so that no test loads a model."""
    monkeypatch.setenv("MEMSYNC_SEARCH_MODE", "keyword")
    yield (found := Editor(lambda _: load_settings(root=settings.root)))
    for served in found.server.memories.own:
        served._opener.close()


@pytest.fixture
def home(editor: Editor, write: Write) -> str:
    """Open a note that links to another one; return its URI."""
    write("decisions/store.md", STORE)
    return editor.open(write("home.md", HOME))


def places(found: Any) -> list[tuple[str, int, int]]:
    """Return the file, the line from 1 and the column of locations."""
    locations = found if isinstance(found, list) else [found]
    starts = [(Path(path_of(one["uri"])).name, one["range"]["start"]) for one in locations]
    return [(name, start["line"] + 1, start["character"]) for name, start in starts]


def offered(found: Any) -> list[str]:
    return [item["textEdit"]["newText"] for item in found["items"]] if found else []


# ------------------------------------------------------------------------------------------------ completion


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("[[sto|", ["store]]"]),
        ("[[sto|]]", ["store"]),
        ("[[the sh|", ["store|The Shop]]"]),
        ("[[store#|", ["Store]]", "Decision]]"]),
        ("[[store#^w|", ["why]]"]),
        ("[[#No|", ["Notes]]"]),
        ("#wo|", ["work", "work/trip"]),
        ("tag:work/|", ["work/trip"]),
        ("in:|", ["decisions/"]),
        ("tier:p|", ["personal", "project"]),
        ("plain|", []),
    ],
)
def test_completion(editor: Editor, home: str, write: Write, typed: str, expected: list[str]) -> None:
    """Of names, titles, aliases, headings, blocks, tags and filters, in text that is not saved."""
    uri = editor.open(write("new.md", "# Notes\n"), f"# Notes\n\n{typed.replace('|', '')}\n")
    assert offered(editor.at("completion", uri, f"\n\n{typed}")) == expected


def test_completion_of_front_matter(editor: Editor, write: Write) -> None:
    """Keys, and the values that memsync knows."""
    uri = editor.open(write("new.md", ""), "---\nal\nkind: d\n---\n")
    assert offered(editor.at("completion", uri, "\nal|")) == ["aliases: "]
    assert offered(editor.at("completion", uri, "kind: d|")) == ["daily"]


def test_completion_of_a_list_in_front_matter(editor: Editor, home: str, write: Write) -> None:
    """Each item is a value of the key above it."""
    uri = editor.open(write("new.md", ""), "---\ntags:\n  - idea\n  - wo\n\nal\n---\n")
    assert offered(editor.at("completion", uri, "- wo|")) == ["work", "work/trip"]


def test_a_request_is_about_the_text_that_was_there_when_it_came(editor: Editor, home: str, write: Write) -> None:
    """Not about what the editor has sent before a thread answers."""
    uri = editor.open(write("new.md", ""), "[[sto")
    editor.meanwhile = lambda: editor.change(uri, "")
    assert offered(editor.at("completion", uri, "[[sto|")) == ["store]]"]


def test_completion_spells_a_name_that_two_notes_have_as_a_path(editor: Editor, home: str, write: Write) -> None:
    """And one that no link can contain is not offered."""
    write("other/store.md", "# Other\n")
    write("a#b.md", "# Hash\n")
    editor.server.memories.own[0].known()
    uri = editor.open(write("new.md", ""), "[[sto [[hash")
    assert sorted(offered(editor.at("completion", uri, "[[sto|"))) == ["decisions/store]]", "other/store]]"]
    assert offered(editor.at("completion", uri, "[[hash|")) == []


def test_a_new_note_is_offered_soon(editor: Editor, home: str, write: Write) -> None:
    """A completion does not wait for the names; each check reads them anew."""
    uri = editor.open(write("new.md", ""), "[[her")
    assert offered(editor.at("completion", uri, "[[her|")) == []
    write("heron.md", "# Heron\n")
    editor.change(uri, "[[hero")
    until(lambda: offered(editor.at("completion", uri, "[[hero|")) == ["heron]]"], "the note is offered")


# ---------------------------------------------------------------------------------------- where things are


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("[[st|ore", [("store.md", 7, 0)]),
        ("store.md|:9", [("store.md", 9, 0)]),
        ("# Ho|me", [("home.md", 1, 2)]),
        ("#work/tr|ip", [("home.md", 3, 23)]),
    ],
)
def test_definition(editor: Editor, home: str, place: str, expected: list[tuple[str, int, int]]) -> None:
    """Of a link with its anchor, a citation, a heading, and a tag without a note of its name."""
    assert places(editor.at("definition", home, place)) == expected


def test_definition_of_nothing(editor: Editor, home: str) -> None:
    """A dead link and plain text lead nowhere."""
    assert editor.at("definition", home, "[[no|where") is None
    assert editor.at("definition", home, "S|ee") is None


def test_references(editor: Editor, home: str, write: Write, root: Path) -> None:
    """Links to a note or a heading, places with a tag, and citations."""
    write("more.md", "[[store]] [s](decisions/store.md#decision) `[[store]]`\n")
    store = editor.open(root / "decisions/store.md")
    ask = {"context": {"includeDeclaration": True}}
    assert sorted(places(editor.at("references", store, "# St|ore", **ask))) == [
        ("home.md", 3, 4), ("more.md", 1, 0), ("more.md", 1, 10)
    ]  # fmt: skip
    assert places(editor.at("references", store, "## Dec|ision", **ask)) == [("home.md", 3, 4), ("more.md", 1, 10)]
    assert places(editor.at("references", home, "[[st|ore", **ask)) == [("home.md", 3, 4), ("more.md", 1, 10)]
    assert sorted(places(editor.at("references", home, "store.md|:9", **ask))) == [("home.md", 5, 0)]
    write("tagged.md", "```\n#work\n```\nnow #work\n")
    uri = editor.open(root / "tagged.md")
    found = sorted(places(editor.at("references", uri, "now #wo|rk", **ask)))
    assert found == [("home.md", 3, 23), ("store.md", 1, 0), ("tagged.md", 4, 4)]


def test_references_of_what_is_not_saved(editor: Editor, home: str, root: Path) -> None:
    """The lines are those that the editor shows."""
    editor.change(home, "\n\n[[store]]\n")
    store = editor.open(root / "decisions/store.md")
    assert places(editor.at("references", store, "# St|ore")) == [("home.md", 3, 0)]


def test_each_reference_on_a_line_has_its_own_column(editor: Editor, home: str, write: Write, root: Path) -> None:
    """Also two links of the same text, and one in front matter; none in code."""
    write("many.md", "---\nsupersedes: '[[store]]'\n---\n[[store]] [[store]] [[other]]\n```\n[[store]]\n```\n")
    store = editor.open(root / "decisions/store.md")
    found = places(editor.at("references", store, "# St|ore"))
    assert found == [("home.md", 3, 4), ("many.md", 2, 13), ("many.md", 4, 0), ("many.md", 4, 10)]


def test_symbols(editor: Editor, home: str, write: Write, root: Path) -> None:
    """Those of a note are its headings, those of the workspace a search."""
    store = editor.open(root / "decisions/store.md")
    (top,) = editor.request("textDocument/documentSymbol", {"textDocument": {"uri": store}})
    assert (top["name"], top["range"]["start"]["line"], [one["name"] for one in top["children"]]) == (
        "Store", 4, ["Decision"]
    )  # fmt: skip
    deep = editor.open(write("deep.md", "# A\n### B\n## C\n\ntext\n# D\n"))
    found = editor.request("textDocument/documentSymbol", {"textDocument": {"uri": deep}})
    below = [(one["name"], one["range"]["end"]["line"]) for one in found[0]["children"]]
    assert [(one["name"], one["range"]["end"]["line"]) for one in found] == [("A", 4), ("D", 5)]
    assert below == [("B", 1), ("C", 4)]
    found = editor.request("workspace/symbol", {"query": "SQLite"})
    assert [one["name"] for one in found] == ["Decision SQLite, for now."]
    assert editor.request("workspace/symbol", {"query": " "}) == []


def test_symbols_of_a_note_of_headings(editor: Editor, write: Write) -> None:
    """A test may cost 2 s of CPU: the time does not grow with the square of their number."""
    uri = editor.open(write("many.md", "# Top\n" + "## Part\n" * 8_000))
    (top,) = editor.request("textDocument/documentSymbol", {"textDocument": {"uri": uri}})
    assert len(top["children"]) == 8_000 and top["range"]["end"]["line"] == 8_000


# ------------------------------------------------------------------------------------------------ what is said


def test_hover(editor: Editor, home: str, write: Write) -> None:
    """The first lines of what is named, and what supersedes or contradicts this line."""
    assert "## Decision\n\nSQLite" in editor.at("hover", home, "[[st|ore")["contents"]["value"]
    assert editor.at("hover", home, "store.md|:9")["contents"]["value"].endswith("\n\nSQLite, for now. ^why")
    plain = editor.open(write("plain.md", "[[store]] home.md:1\n"))
    assert editor.at("hover", plain, "[[st|ore")["contents"]["value"].startswith("decisions/store.md\n\n# Store\n")
    assert "# Home" in editor.at("hover", plain, "home.md|:1")["contents"]["value"]
    write("MEMORY.md", "# Memory\n\n- the office is in Berlin\n- the boat is blue {supersedes=facts.md:3}\n")
    facts = editor.open(write("facts.md", "---\ntier: personal\n---\n- the office is in Hamburg\n- the boat is red\n"))
    found = editor.at("hover", facts, "the off|ice")["contents"]
    assert found == {"kind": "plaintext", "value": "contradicted by MEMORY.md:3: - the office is in Berlin"}
    write("MEMORY.md", "# Memory\n\n- the boat is blue {supersedes=facts.md:5}\n")
    assert editor.at("hover", facts, "the bo|at")["contents"]["value"] == "superseded by MEMORY.md:3"


def test_diagnostics_of_what_is_typed(editor: Editor, home: str, root: Path) -> None:
    """Those of `check`, a moment after the last change, and again when another note is saved."""
    found = editor.diagnostics(home)
    assert [(one["code"], one["range"]["start"]["line"], one["message"]) for one in found] == [
        ("links", 4, "[[nowhere]] leads nowhere")
    ]
    changes = [{"text": "# Home\n"}, {"text": "# Home\n\n[[store#No]] [[nowhere]]\n"}]
    editor.tell("textDocument/didChange", textDocument={"uri": home, "version": 3}, contentChanges=changes)
    found = editor.diagnostics(home)
    assert [(one["code"], one["range"]["start"]["character"], one["range"]["end"]["character"]) for one in found] == [
        ("anchors", 0, 12), ("links", 13, 24)
    ]  # fmt: skip
    (root / "nowhere.md").write_text("# Nowhere\n")
    editor.tell("textDocument/didSave", textDocument={"uri": home})
    assert [one["code"] for one in editor.diagnostics(home)] == ["anchors"]
    editor.tell("textDocument/didClose", textDocument={"uri": home})
    assert editor.diagnostics(home) == []


def test_checks_do_not_pile_up(editor: Editor, home: str, write: Write, monkeypatch: Patch) -> None:
    """One thread makes them, one after the other, and a note that changes meanwhile is checked once more."""
    uris = [editor.open(write(f"n{number}.md", "# N\n")) for number in range(30)]
    until(lambda: sum("diagnostics" in one["params"] for one in editor.told) >= 31, "diagnostics")
    checked, running, threads = list[str](), threading.Event(), threading.active_count()

    def slow(_: Server, document: Document) -> list[Any]:
        running.set()
        time.sleep(0.002 if checked else 0.3)
        checked.append(document.uri)
        return []

    monkeypatch.setattr(answers, "diagnostics", slow)
    editor.tell("textDocument/didSave", textDocument={"uri": home})
    assert running.wait(10) and threading.active_count() == threads
    for number in range(20):
        editor.change(uris[3], f"# {number}\n")
    until(lambda: len(checked) >= 31, "every check")
    time.sleep(0.3)
    assert sorted(checked) == sorted([home, *uris])


# --------------------------------------------------------------------------------------------------- renaming


def test_rename_of_a_heading_and_of_a_note(editor: Editor, home: str, root: Path) -> None:
    """A run of `mv` changes the files, and its undo is named; the editor gets no edits."""
    store = editor.open(root / "decisions/store.md")
    assert editor.at("prepareRename", store, "## Dec|ision")["placeholder"] == "Decision"
    assert editor.at("rename", store, "## Dec|ision", newName="Choice") == {"changes": {}}
    assert "[[store#Choice]]" in (root / "home.md").read_text()
    assert "## Choice" in (root / "decisions/store.md").read_text()
    shown = [one["params"]["message"] for one in editor.told if one["method"] == "window/showMessage"]
    assert shown == [
        "0 notes moved, 2 lines changed in the files. Reload the open notes decisions/store.md, home.md. "
        "To undo it: memsync mv --undo"
    ]
    assert [one["code"] for one in editor.diagnostics(home)] == ["anchors", "links"]  # all that is open is checked
    assert editor.at("rename", store, "## Dec|ision", newName="x")["message"] == (
        "decisions/store.md has changed on the disk: reload it"
    )
    editor.tell("textDocument/didClose", textDocument={"uri": store})
    home = editor.open(root / "home.md")
    assert editor.at("prepareRename", home, "[[st|ore")["placeholder"] == "decisions/store.md"
    assert editor.at("rename", home, "[[st|ore", newName="shop") == {"changes": {}}
    assert "[[shop#Choice]]" in (root / "home.md").read_text() and (root / "decisions/shop.md").exists()


def test_rename_waits_for_what_is_not_saved(editor: Editor, home: str, write: Write, root: Path) -> None:
    """Of any note of the memory, because an unsaved link is in no file yet; then nothing is changed."""
    store = editor.open(root / "decisions/store.md")
    other = editor.open(write("other.md", "# Other\n"))
    editor.change(other, "# Other\n\n[[store#Decision]]\n")
    refused = editor.at("rename", store, "## Dec|ision", newName="Choice")
    assert refused["message"] == "save all notes first, because this changes the files: other.md"
    assert "Decision" in (root / "home.md").read_text() + (root / "decisions/store.md").read_text()
    assert "no heading" in editor.at("rename", store, "SQ|Lite", newName="x")["message"]
    write("other.md", editor.server.documents[other].text)
    editor.tell("textDocument/didSave", textDocument={"uri": other})
    write("home.md", f"{HOME}more\n")  # another program: what the editor shows is old, but nothing is unsaved
    assert editor.at("rename", store, "## Dec|ision", newName="Choice") == {"changes": {}}
    assert "[[store#Choice]]" in (root / "other.md").read_text()


# --------------------------------------------------------------------------------------------- code actions


def applied(editor: Editor, edit: dict[str, Any]) -> dict[str, str]:
    """Return the text of each file after a workspace edit, as an editor makes it."""
    texts = {}
    for change in edit.get("documentChanges") or [
        {"textDocument": {"uri": uri}, "edits": edits} for uri, edits in edit["changes"].items()
    ]:
        if "textDocument" in change:
            uri = change["textDocument"]["uri"]
            path = Path(path_of(uri))
            text = path.read_bytes().decode() if path.exists() else ""
            held = editor.server.documents.get(uri) or Document(uri, str(path), text)
            changes = [{"text": one["newText"], "range": one["range"]} for one in change["edits"]]
            texts[path.name] = held.changed(changes, None).text
        else:
            assert change["kind"] == "create" and not Path(path_of(change["uri"])).exists()
    return texts


def test_code_actions(editor: Editor, home: str, root: Path) -> None:
    """The missing note, a mark, and what `log` and `remember` would write; the server itself writes nothing."""
    before = sorted(root.rglob("*"))
    assert applied(editor, editor.actions(home, "nowhere")["Make the note nowhere.md"]) == {"nowhere.md": "# Nowhere\n"}
    store = editor.open(root / "decisions/store.md")
    actions = editor.actions(store, "SQLite")
    assert list(actions) == ["Log the selection", "Remember the selection"]
    now = clock.now()
    log = applied(editor, actions["Log the selection"])
    assert [*log] == [f"{now.date()}.md"] and log[f"{now.date()}.md"].startswith(f"# {now.date()}\n\n- ")
    assert log[f"{now.date()}.md"].endswith(" SQLite\n")
    memory = "# Memory\n\n## Remembered\n\n- SQLite\n"
    assert applied(editor, actions["Remember the selection"]) == {"MEMORY.md": memory}
    assert sorted(root.rglob("*")) == before


def test_code_actions_on_notes_that_are_there(editor: Editor, write: Write) -> None:
    """An edit adds to what the editor holds, or the file, and never replaces anything."""
    write("MEMORY.md", "# Memory\r\n\r\n## Remembered\r\n\r\n- old\r\n\r\n## More\r\n\r\n- x\r\n")
    log = editor.open(write(f"daily/{clock.now().date()}.md", "# Log\n\n- plum\n"), "# Log\n\n- plum\n- 11:00 b")
    actions = editor.actions(log, "- plum")
    kept = applied(editor, actions["Remember the selection"])["MEMORY.md"]
    assert kept.replace("\r\n", "\n") == "# Memory\n\n## Remembered\n\n- old\n- plum\n\n## More\n\n- x\n"
    assert kept.count("\n") == kept.count("\r\n")
    assert applied(editor, actions["Log the selection"])[f"{clock.now().date()}.md"].startswith(
        "# Log\n\n- plum\n- 11:00 b\n- "
    )


@pytest.mark.parametrize(
    ("line", "marked"),
    [
        ("- the office is in Hamburg", "- the office is in Hamburg (superseded)"),
        ("- the office {by=codex}", "- the office (superseded) {by=codex}"),
        ("- the office (no longer true)", ""),
        ("# The office", ""),
    ],
)
def test_a_statement_is_marked_as_superseded(editor: Editor, write: Write, line: str, marked: str) -> None:
    """In words that a search understands, and only if nothing says it yet."""
    uri = editor.open(write("facts.md", f"---\nx: y\n---\n\n{line}\n"))
    edit = editor.actions(uri, "office").get("Mark as superseded")
    found = applied(editor, edit)["facts.md"] if edit else ""
    assert found == (f"---\nx: y\n---\n\n{marked}\n" if marked else "")


def test_an_editor_that_can_make_no_files_is_offered_none(write: Write, settings: Settings, memory: Memory) -> None:
    """It still gets edits of files that are there, in the older form."""
    write("MEMORY.md", "# Memory\n")
    editor = Editor(lambda _: settings, {})
    uri = editor.open(write("home.md", "see [[nowhere]]\n"))
    actions = editor.actions(uri, "nowhere")
    assert list(actions) == ["Mark as superseded", "Remember the selection"]
    assert applied(editor, actions["Remember the selection"])["MEMORY.md"].endswith("- nowhere\n")


# ------------------------------------------------------------------------------------- which memory, and harm


def test_a_file_outside_of_every_memory_gets_nothing(editor: Editor, home: str, tmp_path: Path, root: Path) -> None:
    """Nor does a file that is no note, or that a link in the memory leads to; and none is an error."""
    (tmp_path / "out.md").write_text(HOME)
    (root / "code.py").write_text(HOME)
    (root / "linked.md").symlink_to(tmp_path / "out.md")
    (root / ".git").mkdir(exist_ok=True)
    (root / ".git" / "in.md").write_text(HOME)
    for path in (tmp_path / "out.md", root / "code.py", root / "linked.md", root / ".git" / "in.md"):
        uri = editor.open(path)
        assert editor.at("definition", uri, "[[st|ore") is None and editor.actions_or_none(uri) is None
        assert editor.diagnostics(uri) == []
    untitled = {"uri": "untitled:1", "languageId": "markdown", "version": 1, "text": "[["}
    editor.tell("textDocument/didOpen", textDocument=untitled)
    assert editor.at("completion", "untitled:1", "[[|") is None


def test_folder_that_is_a_link_keeps_its_name(write: Write, settings: Settings, memory: Memory, root: Path) -> None:
    """The editor would open a second document otherwise."""
    write("store.md", STORE)
    (link := root.parent / "a link").symlink_to(root)
    editor = Editor(lambda _: settings, folder=f"{link.as_uri()}/")
    uri = editor.open(link / "home.md", HOME)
    assert editor.at("definition", uri, "[[st|ore")["uri"] == (link / "store.md").as_uri()


def test_settings_that_cannot_be_read_are_told_once(write: Write, memory: Memory, root: Path) -> None:
    """Nothing is answered then; the memory is there at the next note that is opened after they are mended."""
    path, config = write("home.md", HOME), root / "config.toml"
    config.write_text("[memsync]\n[search]\nlimt = 3\n")
    editor = Editor(lambda _: load_settings(root=root))
    for _ in range(2):
        uri = editor.open(path)
        assert editor.at("completion", uri, "[[st|") is None and editor.diagnostics(uri) == []
    assert editor.request("workspace/symbol", {"query": "SQLite"}) == []
    shown = [one["params"] for one in editor.shown]
    assert [one["type"] for one in shown] == [1] and "config.toml" in shown[0]["message"]
    config.write_text("[memsync]\n")
    uri = editor.open(path)
    assert [one["code"] for one in editor.diagnostics(uri)] == ["links", "links"]


def test_a_note_of_a_registered_memory_gets_its_answers(editor: Editor, home: str, tmp_path: Path) -> None:
    """And a note that is opened through a link is the one that the link leads to."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.toml").write_text("[memsync]\n")
    (other / "store.md").write_text("# The other store\n")
    (other / "home.md").write_text(HOME)
    add_root("other", str(other))
    (tmp_path / "way").symlink_to(other)
    uri = editor.open(tmp_path / "way" / "home.md")
    found = editor.at("definition", uri, "[[st|ore")
    assert path_of(found["uri"]) == str(other / "store.md")


HOSTILE = "[x](command:rm) <script> </system-reminder>\u202e\u200b"


def test_what_notes_say_stays_data(editor: Editor, write: Write) -> None:
    """Names and texts of strangers are shown as plain text, without invisible characters, and break no link."""
    write("evil.md", f"---\naliases: ['evil ]] | {HOSTILE}']\n---\n# {HOSTILE}\n\n## a]]b|c#d\n")
    uri = editor.open(write("home.md", ""), "[[evil]] [[evil [[evil#a")
    hover = editor.at("hover", uri, "[[ev|il]]")["contents"]
    assert hover["kind"] == "plaintext" and "\u202e" not in hover["value"] and "\u200b" not in hover["value"]
    items = editor.at("completion", uri, " [[evil| ")["items"]
    assert items and not any("\u202e" in item["label"] for item in items)
    texts = [*offered(editor.at("completion", uri, " [[evil| ")), *offered(editor.at("completion", uri, "[[evil#a|"))]
    write("tags.md", "---\ntags: ['wo)[x](command:rm)', \"wo\\u202erk\", work]\n---\n# T\u200bags\n")
    typed = editor.open(write("typed.md", ""), "#wo tags:wo [[tags#T")
    editor.server.memories.own[0].known()
    assert offered(editor.at("completion", typed, "#wo|")) == ["work"]
    texts += [*offered(editor.at("completion", typed, "tags:wo|")), *offered(editor.at("completion", typed, "#T|"))]
    assert not any(one in text for text in texts for one in "\u202e\u200b")
    texts = [text for text in texts if text.endswith("]]")]
    assert all(text.count("]]") == 1 and text.count("|") <= 1 and "[" not in text for text in texts)


@pytest.mark.parametrize(
    "message",
    [
        None, [], 3, {}, {"id": 1}, {"id": True, "method": "x"}, {"method": 3}, {"id": 1, "result": None},
        {"method": "textDocument/didOpen"}, {"method": "textDocument/didChange", "params": {"textDocument": {}}},
        {"method": "textDocument/didOpen", "params": {"textDocument": {"uri": [], "text": 3}}},
        {"id": 2, "method": "textDocument/hover"}, {"id": 2, "method": "textDocument/hover", "params": []},
        {"id": 2, "method": "workspace/symbol"}, {"id": 2, "method": "nothing/known"}, {"method": "$/unknown"},
    ],
)  # fmt: skip
def test_no_message_ends_the_server(editor: Editor, home: str, message: Any) -> None:
    """A wrong request gets an error, a wrong notification a line in the log."""
    answer = editor.server.answer(message, Peer())
    is_request = isinstance(message, dict) and message.get("id") == 2
    assert (answer is not None and "error" in answer) == is_request
    assert places(editor.at("definition", home, "[[st|ore")) == [("store.md", 7, 0)]


@pytest.mark.slow
def test_a_note_of_two_megabytes_does_no_harm(editor: Editor, home: str, write: Write) -> None:
    """It is not checked, and every answer comes."""
    uri = editor.open(write("big.md", "[[" * 300_000 + "\n" + "- item [[store]] #work `x`\n" * 60_000))
    assert editor.diagnostics(uri) == []
    assert places(editor.at("definition", uri, "[[sto|re]] #work `x`")) == [("store.md", 1, 0)]
    assert editor.at("completion", uri, "`x|`") is None
    assert editor.request("textDocument/documentSymbol", {"textDocument": {"uri": uri}}) == []
