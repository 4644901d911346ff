"""Each feature once with a client that checks every answer against the protocol, and in a real Neovim."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as lsp

from tests.conftest import Patch, Write
from tests.lsp.test_answers import HOME, STORE
from tests.support.daemon_process import Cli

BESIDE = Path(__file__).parent


def command(root: Path) -> list[str]:
    return [sys.executable, "-P", "-m", "memsync", "--root", str(root), "lsp"]


@pytest.fixture
def notes(write: Write, root: Path, cli: Cli, monkeypatch: Patch) -> Path:
    """Write notes that link to each other; words alone, so that no test loads a model."""
    monkeypatch.setenv("MEMSYNC_SEARCH_MODE", "keyword")
    write("decisions/store.md", STORE)
    write("home.md", HOME)
    return root


def converse(root: Path, name: str, talk: Callable[[Any], Awaitable[None]]) -> int:
    """Let a client with the capabilities of an editor talk to a server; return the server's exit code."""
    from pytest_lsp import client_capabilities, make_test_lsp_client

    async def run() -> int:
        client = make_test_lsp_client()
        await client.start_io(*command(root), env=dict(os.environ))
        folder = lsp.WorkspaceFolder(root.as_uri(), "notes")
        params = lsp.InitializeParams(client_capabilities(name), root_uri=folder.uri, workspace_folders=[folder])
        started = await client.initialize_session(params)
        assert started.server_info is not None and started.server_info.name == "memsync"
        async with asyncio.timeout(120):
            await talk(client)
            await client.shutdown_session()
        assert client._server is not None
        code = client._server.returncode
        assert client.error is None and not [one for one in client.log_messages if one.type == lsp.MessageType.Error]
        return -1 if code is None else code

    return asyncio.run(run())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "with_daemon"), [("visual_studio_code", False), ("neovim", True), ("emacs", False)], ids=str
)
def test_a_client_that_knows_the_protocol(
    notes: Path, cli: Cli, short_runtime_folder: Path, name: str, with_daemon: bool
) -> None:
    """Each answer is one that the protocol allows; the server ends when it is told to."""
    if with_daemon:
        cli.start()
    uri = (notes / "home.md").as_uri()
    document = lsp.TextDocumentIdentifier(uri)

    def place(text: str, line: int) -> lsp.Position:
        return lsp.Position(line, HOME.split("\n")[line].index(text) + 3)

    async def talk(client: Any) -> None:
        client.text_document_did_open(lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(uri, "markdown", 1, HOME)))
        await client.wait_for_notification("textDocument/publishDiagnostics")
        assert [one.message for one in client.diagnostics[uri]] == ["[[nowhere]] leads nowhere"]
        link: dict[str, Any] = {"text_document": document, "position": place("[[store", 2)}
        found = await client.text_document_definition_async(lsp.DefinitionParams(**link))
        assert found.uri.endswith("/store.md") and found.range.start.line == 6
        context = lsp.ReferenceContext(include_declaration=True)
        places = await client.text_document_references_async(lsp.ReferenceParams(context=context, **link))
        assert [one.range.start.line for one in places] == [2]
        hover = await client.text_document_hover_async(lsp.HoverParams(**link))
        assert "SQLite" in hover.contents.value
        symbols = await client.text_document_document_symbol_async(lsp.DocumentSymbolParams(document))
        assert [one.name for one in symbols] == ["Home"]
        hits = await client.workspace_symbol_async(lsp.WorkspaceSymbolParams("SQLite"))
        assert [one.container_name for one in hits] == ["decisions/store.md:7-9"]
        await change(client)
        actions = await client.text_document_code_action_async(
            lsp.CodeActionParams(
                document, lsp.Range(place("[[nowhere", 4), place("[[nowhere", 4)), lsp.CodeActionContext([])
            )
        )
        assert [one.title for one in actions][-1] == "Mark as superseded"
        asked = lsp.PrepareRenameParams(**link)
        assert (await client.text_document_prepare_rename_async(asked)).placeholder == "decisions/store.md"
        client.text_document_did_open(lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(uri, "markdown", 3, HOME)))
        await client.text_document_rename_async(lsp.RenameParams(new_name="shop", **link))
        assert any("memsync mv --undo" in message.message for message in client.messages)

    async def change(client: Any) -> None:
        versioned = lsp.VersionedTextDocumentIdentifier(2, uri)
        end = lsp.Position(HOME.count("\n"), 0)
        change = lsp.TextDocumentContentChangePartial(lsp.Range(end, end), "ü😀 [[sto")
        client.text_document_did_change(lsp.DidChangeTextDocumentParams(versioned, [change]))
        start, at = (len(text.encode("utf-16-le")) // 2 for text in ("ü😀 [[", "ü😀 [[sto"))
        position = lsp.Position(end.line, at)
        offered = await client.text_document_completion_async(lsp.CompletionParams(document, position))
        assert [item.text_edit.new_text for item in offered.items] == ["store]]"]
        assert offered.items[0].text_edit.range.start.character == start

    assert converse(notes, name, talk) == 0
    assert "[[shop#Decision]]" in (notes / "home.md").read_text()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvim") is None, reason="needs Neovim: apt-get install neovim")
def test_neovim(notes: Path, tmp_path: Path) -> None:
    """Debian's, without a screen: it applies the edits itself, and shows what the server finds."""
    out = tmp_path / "out.json"
    environ = {**os.environ, "SERVER": json.dumps(command(notes)), "OUT": str(out), "ROOT": str(notes)}
    call = ["nvim", "--headless", "--clean", "-S", str(BESIDE / "editor.lua")]
    done = subprocess.run(call, env=environ, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert out.exists(), done.stdout + done.stderr
    got = json.loads(out.read_text())
    assert "failed" not in got, got
    assert got["diagnostics"] == ["[[nowhere]] leads nowhere"]
    assert got["definition"]["uri"].endswith("/store.md") and got["jumped_to"] == 7
    assert [one["range"]["start"] for one in got["references"]] == [{"line": 2, "character": 4}]
    assert "SQLite" in got["hover"]["contents"]["value"]
    assert [one["name"] for one in got["symbols"]] == ["Home"]
    assert [one["containerName"] for one in got["found"]] == ["decisions/store.md:7-9"]
    assert got["completed"] == "grün 😀 [[store]]"
    assert got["action"] == "Make the note nowhere.md" and (notes / "nowhere.md").read_text().strip() == "# Nowhere"
    assert (notes / "decisions/shop.md").exists() and "[[shop#Decision]]" in (notes / "home.md").read_text()


def framed(message: object) -> bytes:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def test_a_process_goes_on_after_every_message(notes: Path) -> None:
    """Standard output has nothing but the protocol, and the server ends when it is told to, or with its input."""
    started = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}}
    ended = {"jsonrpc": "2.0", "id": 2, "method": "shutdown"}
    long = b"Content-Length: 20000000\r\n\r\n" + b" " * 20_000_000
    odd = b"Content-Length: x\r\nNo: header\r\n\r\n"
    sent = [framed(b"{"), framed(b"[]"), framed(b"\xff"), long, odd, b"Content-Length: 0\r\n\r\n", framed(started)]
    sent += [framed(ended), framed({"jsonrpc": "2.0", "method": "exit"}), framed(started)]
    done = subprocess.run(command(notes), input=b"".join(sent), capture_output=True, timeout=60, check=False)
    answers = list[Any]()
    rest = done.stdout
    while rest:
        header, _, rest = rest.partition(b"\r\n\r\n")
        length = int(header.removeprefix(b"Content-Length: "))
        answers.append(json.loads(rest[:length]))
        rest = rest[length:]
    assert [one["id"] for one in answers if "result" in one] == [1, 2]
    assert {one["error"]["code"] for one in answers if "error" in one} == {-32700}
    assert (done.returncode, done.stderr) == (0, b"")
    alone = subprocess.run(command(notes), input=framed(started), capture_output=True, timeout=60, check=False)
    assert (alone.returncode, alone.stdout.count(b"Content-Length")) == (1, 1)


def test_the_command_is_described(cli: Cli) -> None:
    """Without starting a server; some editors add `--stdio`."""
    assert "Language Server Protocol" in cli("lsp", "--help").stdout
    done = subprocess.run([*command(cli.root), "--stdio"], input=b"", capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
