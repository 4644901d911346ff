"""Calls of tools, and notes as resources: what a server does with a memory. It is loaded at the first call."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, unquote

from memsync import features
from memsync.client.wire import INTERNAL_ERROR, INVALID_PARAMS
from memsync.errors import MemsyncError, NoSuchNote, NoteError, UsageError, own_error
from memsync.mcp_server.memories import ServedMemories
from memsync.mcp_server.messages import MARKDOWN, SCHEME, Message, Refused, text_in
from memsync.mcp_server.tools import answer, arguments_of, may_name_roots, offered, roots_of
from memsync.model.answer import Excerpt
from memsync.model.text import printable, quotable, visible
from memsync.operation import Operation, RunsOperations
from memsync.ports import for_agent

features.load()
gc.freeze()  # thousands of functions and classes, and none of them is garbage
gc.enable()

RESOURCES_A_PAGE = 500
MAX_ERROR_CHARS = 4_000


def call_tool(memories: ServedMemories, params: Message, client: str, *, read_only: bool) -> Message:
    """Call a tool for the program `client`, and return its result. Raises Refused if there is no such tool."""
    name, arguments = text_in(params, "name"), params.get("arguments")
    tools = offered(read_only=read_only, has_own=memories.has_own)
    if name not in tools:
        known = f"there is no tool {name[:100]!r}; the tools are {', '.join(tools)}"
        raise Refused(INVALID_PARAMS, printable(known))
    if arguments is not None and not isinstance(arguments, dict):
        raise Refused(INVALID_PARAMS, "arguments must be an object")
    tool, given = tools[name], dict(arguments or {})
    try:
        names = () if memories.is_alone else roots_of(tool, given)
        given = arguments_of(tool, given, memories.names() if may_name_roots(tool) else ())
        result = _ask(memories, tool, given, names, answer, client)
    except Exception as error:  # noqa: BLE001 (because one bad call must not end the conversation)
        return _failed(own_error(error, hint="Try another way, and report this to the user.").sentences())
    texts = filter(None, (result.text, "\n".join(result.remarks)))
    return {"content": [{"type": "text", "text": visible(text)} for text in texts], "isError": False}


def _failed(text: str) -> Message:
    return {"content": [{"type": "text", "text": quotable(printable(text[:MAX_ERROR_CHARS]))}], "isError": True}


def list_resources(memories: ServedMemories, params: Message) -> Message:
    """Return a page of the notes. Raises Refused."""
    if not memories.has_own:  # a list of all notes of all memories would be of no use: search finds them
        return {"resources": []}
    cursor = params.get("cursor")
    after = unquote(text_in(params, "cursor"), errors="surrogateescape") if cursor is not None else ""
    try:
        listed = _ask(memories, features.listing.notes, {})
    except MemsyncError as error:
        raise Refused(INTERNAL_ERROR, printable(error.sentences())) from error
    notes = [note for note in listed.notes if note.path > after]
    page = notes[:RESOURCES_A_PAGE]
    resources = [
        {
            "uri": uri_of(note.path),
            "name": printable(note.path),
            "title": printable(note.title),
            "description": f"{note.kind}, {note.tier}, last active {note.last_active}",
            "mimeType": MARKDOWN,
        }
        for note in page
    ]
    return {"resources": resources, **({"nextCursor": _encoded(page[-1].path)} if len(notes) > len(page) else {})}


def read_resource(memories: ServedMemories, params: Message) -> Message:
    """Return a note's text as its file is now; empty if the note does not exist. Raises Refused."""
    uri = text_in(params, "uri")
    try:
        text = _text_of(memories, path_of(uri))
    except (NoteError, UsageError) as error:
        raise Refused(INVALID_PARAMS, printable(error.sentences())) from error
    except MemsyncError as error:
        raise Refused(INTERNAL_ERROR, printable(error.sentences())) from error
    return {"contents": [{"uri": uri, "mimeType": MARKDOWN, "text": quotable(text)}]}


def _text_of(memories: ServedMemories, path: str) -> str:
    try:
        excerpt: Excerpt = _ask(memories, features.search.get, {"location": path})
    except NoSuchNote:
        return ""
    return excerpt.text


def _run_on(memory: RunsOperations, operation: Operation[Any, Any], arguments: Mapping[str, Any]) -> Any:
    return memory.run(operation, **arguments)


def _ask(
    memories: ServedMemories,
    operation: Operation[Any, Any],
    arguments: Mapping[str, Any],
    names: tuple[str, ...] = (),
    run: Callable[[RunsOperations, Operation[Any, Any], Mapping[str, Any]], Any] = _run_on,
    agent: str = "",
) -> Any:
    """Run an operation for an agent on the memories that it is for; `names` are of registered ones."""
    with memories.memory_for(operation, arguments, names) as (memory, given), for_agent(agent):
        return run(memory, operation, given)


def uri_of(path: str) -> str:
    """Return the URI of a note as a resource."""
    return SCHEME + _encoded(path)


def _encoded(path: str) -> str:
    return quote(path.encode("utf-8", "surrogateescape"), safe="/")


def path_of(uri: str) -> str:
    """Return the path of a note from its URI. Raises Refused for a URI that does not begin with SCHEME."""
    if not uri.startswith(SCHEME):
        raise Refused(INVALID_PARAMS, printable(f"{uri[:200]!r} does not have the form {SCHEME}PATH"))
    return unquote(uri.removeprefix(SCHEME).lstrip("/"), errors="surrogateescape")
