"""The language server: what it can, which documents the editor holds, and when a note is checked.

Nothing else is loaded before the editor is answered that the server is there: people wait for their editor. pygls is
not used, because importing its types takes longer than that may take.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from memsync import __version__
from memsync.client.wire import INTERNAL_ERROR
from memsync.errors import MemsyncError, own_error
from memsync.lsp.documents import Document, path_of, quoted
from memsync.mcp_server.messages import Message, Refused, id_of, reply
from memsync.model.text import printable
from memsync.system.once import once_property

if TYPE_CHECKING:
    from memsync.lsp.memories import Memories
    from memsync.mcp_server.protocol import Peer
    from memsync.settings.load import Settings

CHECK_SECONDS = 0.1
"""How long after the last change a note is checked."""
FAILED = -32803
CAPABILITIES = {
    "textDocumentSync": {"openClose": True, "change": 2, "save": True}, "hoverProvider": True,
    "completionProvider": {"triggerCharacters": ["[", "#", "^", ":"]}, "definitionProvider": True,
    "referencesProvider": True, "documentSymbolProvider": True, "workspaceSymbolProvider": True,
    "renameProvider": {"prepareProvider": True}, "codeActionProvider": {"codeActionKinds": ["quickfix", "refactor"]},
}  # fmt: skip


class Server:
    """Answers one editor; `settings` returns those of its own memory, given the folder that the editor has open."""

    def __init__(self, send: Callable[[Message], None], settings: Callable[[str], Settings | None]) -> None:
        self.documents: dict[str, Document] = {}
        self.client: Message = {}
        self.has_ended = self.is_shut_down = False
        self._send, self._settings = send, settings
        self._folder = self._folder_uri = ""
        self._changed = threading.Condition()
        self._due: dict[str, float] = {}
        threading.Thread(target=self._work, daemon=True).start()

    @once_property
    def memories(self) -> Memories:
        """The memories whose notes the editor may hold."""
        from memsync.lsp.memories import Memories

        return Memories(partial(self._settings, self._folder), self)

    def uri_of(self, path: str) -> str:
        """Return the URI of a file as the editor names it, whose folder may be a link."""
        inside = path.removeprefix(f"{self._folder}/") if self._folder else path
        return f"{self._folder_uri}/{quoted(inside)}" if inside != path else f"file://{quoted(path)}"

    def is_quick(self, message: Any) -> bool:
        """Return whether a message is about the state of the editor, so that the next one must not overtake it.

        Any other keeps the document that it is about, which the next one may change before a thread answers.
        """
        if id_of(message) is None or message.get("method") in ("initialize", "shutdown"):
            return True
        with suppress(AttributeError, KeyError, TypeError):  # it is about none
            given = message["params"]["textDocument"]
            given["held"] = self.documents.get(given["uri"])
        return False

    def answer(self, message: Any, _: Peer) -> Message | None:
        """Return the reply to a message; None if it needs none."""
        number = id_of(message)
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            return None  # an answer, but this server asks nothing
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        return self._tried(number, partial(self._result, message["method"], params, number is None))

    def _tried(self, number: Any, act: Callable[[], Any]) -> Message | None:
        try:
            result = act()
        except MemsyncError as error:
            return self._failed(number, FAILED, error.sentences())
        except Refused as refused:
            return self._failed(number, **refused.error)
        except Exception as error:  # noqa: BLE001 (because one bad message must not end the conversation)
            return self._failed(number, INTERNAL_ERROR, own_error(error).message)
        return None if number is None else reply(number, result=result)

    def show(self, text: str, kind: int = 3) -> None:
        """Show a message to the user: 1 is an error, 3 an information."""
        self.tell("window/showMessage", {"type": kind, "message": printable(text)})

    def tell(self, method: str, params: Message) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def _failed(self, number: Any, code: int, message: str) -> Message | None:
        if number is not None:
            return reply(number, error={"code": code, "message": printable(message)})
        self.tell("window/logMessage", {"type": 1, "message": printable(message)})
        return None

    def _result(self, method: str, params: Message, is_notice: bool) -> Any:
        if method == "initialize":
            return self._initialized(params)
        if method in ("shutdown", "exit"):
            self.is_shut_down, self.has_ended = self.is_shut_down or method == "shutdown", method == "exit"
        elif method == "initialized":
            self.check_soon([""])  # names no document, but what the first answers need is loaded
        elif method.startswith("textDocument/did"):
            self._hold(method, params)
        elif not is_notice:
            from memsync.lsp.actions import answer

            return answer(self, method, params)
        return None

    def _initialized(self, params: Message) -> Message:
        folders = params.get("workspaceFolders") or [{"uri": params.get("rootUri")}]
        self._folder_uri = str(folders[0].get("uri")).rstrip("/")
        self._folder = path_of(self._folder_uri)
        self.client = params.get("capabilities") or {}
        return {"capabilities": CAPABILITIES, "serverInfo": {"name": "memsync", "version": __version__}}

    def _hold(self, method: str, params: Message) -> None:
        """Follow what the editor opens, changes, saves and closes."""
        given = params["textDocument"]
        uri, version = given["uri"], given.get("version")
        if method.endswith("didOpen"):
            self.documents[uri] = Document(uri, path_of(uri), "").changed([given], version)
            self.memories.find_own()
        elif uri in self.documents and method.endswith("didChange"):
            self.documents[uri] = self.documents[uri].changed(params["contentChanges"], version)
        elif uri in self.documents and method.endswith("didClose"):
            self._publish(self.documents.pop(uri), [])
        if uri in self.documents and method.endswith(("didOpen", "didSave")):
            self.documents[uri] = replace(self.documents[uri], saved=self.documents[uri].text)
        self.check_soon(self.documents if method.endswith("didSave") else [uri])  # others may link to what was saved

    def check_soon(self, uris: Iterable[str]) -> None:
        """Check documents, each once, when nothing has changed them for a moment."""
        with self._changed:
            self._due.update(dict.fromkeys(list(uris), time.monotonic() + CHECK_SECONDS))
            self._changed.notify()

    def _work(self) -> None:
        """Check what is due, one document after the other."""
        while True:
            with self._changed:
                while not self._due or (seconds := min(self._due.values()) - time.monotonic()) > 0:
                    self._changed.wait(seconds if self._due else None)
                uri = min(self._due, key=self._due.__getitem__)
                del self._due[uri]
            self._tried(None, partial(self._check, uri))

    def _check(self, uri: str) -> None:
        from memsync.lsp import actions as actions
        from memsync.lsp import answers

        for served in () if uri else self.memories.own:
            served.known()
        if (document := self.documents.get(uri)) is not None:
            found = answers.diagnostics(self, document)
            if self.documents.get(uri) is document:  # otherwise a later check answers
                self._publish(document, found)

    def _publish(self, document: Document, found: list[Message]) -> None:
        version = {} if document.version is None else {"version": document.version}
        params = {"uri": document.uri, "diagnostics": found, **version}
        self.tell("textDocument/publishDiagnostics", params)
