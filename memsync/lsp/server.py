"""The language server: what it can, which documents the editor holds, and when a note is checked.

Nothing else is loaded before the editor is answered that the server is there: people wait for their editor.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from memsync import __version__
from memsync.client.wire import METHOD_NOT_FOUND
from memsync.errors import MemsyncError
from memsync.lsp.documents import CODECS, Document, path_of
from memsync.lsp.stdio import Editor, Message, Refused
from memsync.model.text import printable
from memsync.system.once import once_property

if TYPE_CHECKING:
    from memsync.lsp.memories import Memories
    from memsync.settings.load import Settings

CHECK_SECONDS = 0.1
"""How long after the last change a note is checked."""
CAPABILITIES = {
    "textDocumentSync": {"openClose": True, "change": 2, "save": True},
    "completionProvider": {"triggerCharacters": ["[", "#", "^", ":"]},
    "hoverProvider": True,
    "definitionProvider": True,
    "referencesProvider": True,
    "documentSymbolProvider": True,
    "workspaceSymbolProvider": True,
    "renameProvider": {"prepareProvider": True},
    "codeActionProvider": {"codeActionKinds": ["quickfix", "refactor"]},
}
REQUESTS = {
    "textDocument/completion": "answers.completion",
    "textDocument/hover": "answers.hover",
    "textDocument/definition": "answers.definition",
    "textDocument/references": "answers.references",
    "textDocument/documentSymbol": "answers.document_symbols",
    "workspace/symbol": "answers.workspace_symbols",
    "textDocument/prepareRename": "actions.prepare_rename",
    "textDocument/rename": "actions.rename",
    "textDocument/codeAction": "actions.code_actions",
}
"""Method -> the module and the function that answer it."""


class Server:
    """Answers one editor; `settings` returns those of its own memory, given the folder that the editor has open."""

    def __init__(self, editor: Editor, settings: Callable[[str], Settings | None]) -> None:
        self.editor = editor
        self.documents: dict[str, Document] = {}
        self.client: Message = {}
        self._settings = settings
        self._folder = ""
        self._encoding = "utf-16"
        self._timers: dict[str, threading.Timer] = {}

    def take(self, method: str, params: Message) -> Callable[[], Any] | None:
        """Read a message in the order of arrival, and return what computes its answer. Raises Refused."""
        uri = str((params.get("textDocument") or {}).get("uri", ""))
        if method == "initialize":
            return partial(dict, self._initialized(params))
        if method == "initialized":
            threading.Thread(target=self._load, daemon=True).start()
        elif method.startswith("textDocument/did"):
            self._hold(method, uri, params)
        elif method in REQUESTS:
            return partial(self._answer, REQUESTS[method], params, self.documents.get(uri))
        elif method != "shutdown":
            raise Refused(METHOD_NOT_FOUND, f"{method[:100]} is not known")
        return None

    @once_property
    def memories(self) -> Memories:
        """The memories whose notes the editor may hold. Raises ConfigError, RootError."""
        from memsync.lsp.memories import Memories

        return Memories(partial(self._settings, self._folder), self)

    def document_at(self, path: str) -> Document | None:
        """Return what the editor holds of a file."""
        return next((document for document in list(self.documents.values()) if document.path == path), None)

    @property
    def encoding(self) -> str:
        """The encoding in which the editor counts columns."""
        return self._encoding

    def _initialized(self, params: Message) -> Message:
        folders = params.get("workspaceFolders") or [{"uri": params.get("rootUri")}]
        self._folder = path_of(folders[0].get("uri"))
        self.client = params.get("capabilities") or {}
        offered = (self.client.get("general") or {}).get("positionEncodings") or ["utf-16"]
        self._encoding = next((encoding for encoding in CODECS if encoding in offered), "utf-16")
        capabilities = {**CAPABILITIES, "positionEncoding": self._encoding}
        return {"capabilities": capabilities, "serverInfo": {"name": "memsync", "version": __version__}}

    def _load(self) -> None:
        """Load what the first answers need."""
        from memsync.lsp import answers

        try:
            answers.prepare(self)
        except MemsyncError as error:
            self.editor.tell("window/showMessage", {"type": 1, "message": printable(error.sentences())})

    def _answer(self, name: str, params: Message, document: Document | None) -> Any:
        module, _, function = name.partition(".")
        return getattr(import_module(f"memsync.lsp.{module}"), function)(self, params, document)

    def _hold(self, method: str, uri: str, params: Message) -> None:
        """Follow what the editor opens, changes, saves and closes."""
        known, given = self.documents.get(uri), params["textDocument"]
        if method.endswith("didOpen"):
            self.documents[uri] = Document(uri, path_of(uri), "", self._encoding).changed([given], given.get("version"))
        elif method.endswith("didChange") and known is not None:
            self.documents[uri] = known.changed(params["contentChanges"], given.get("version"))
        elif method.endswith("didClose") and known is not None:
            del self.documents[uri]
            self._publish(known, [])
        uris = list(self.documents) if method.endswith("didSave") else [uri]  # others may link to what was saved
        for one in uris:
            if one in self._timers:
                self._timers.pop(one).cancel()
            if one in self.documents:
                timer = self._timers[one] = threading.Timer(CHECK_SECONDS, self._check, [one])
                timer.daemon = True
                timer.start()

    def _check(self, uri: str) -> None:
        from memsync.lsp import answers

        if (document := self.documents.get(uri)) is None:
            return
        try:
            found = answers.diagnostics(self, document)
        except MemsyncError as error:
            self.editor.tell("window/logMessage", {"type": 1, "message": printable(error.sentences())})
            return
        if self.documents.get(uri) is document:  # otherwise a later check answers
            self._publish(document, found)

    def _publish(self, document: Document, found: list[Message]) -> None:
        version = {} if document.version is None else {"version": document.version}
        self.editor.tell("textDocument/publishDiagnostics", {"uri": document.uri, "diagnostics": found, **version})
