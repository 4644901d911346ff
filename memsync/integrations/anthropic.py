"""Anthropic's memory tool over notes: `client.beta.messages.tool_runner(tools=[MemsyncMemoryTool(memory)], …)`.

`/memories/a.md` is the note by-agents/anthropic/a.md, and counts as written by the agent. Other files than Markdown
need `[files] suffixes`. Errors read as those of Anthropic's own tool, because models know these.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from functools import wraps
from itertools import islice
from typing import Any

import anyio.to_thread
from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError

from memsync.errors import MemsyncError, NoSuchNote, NoteChanged, NoteError
from memsync.integrations.values import complete
from memsync.memory import Memory, RemoteMemory

FOLDER = "by-agents/anthropic"
MAX_LINES = 999_999
MAX_NAMED = 100
_ROOT = "/memories"
_MISSING = "The path {} does not exist. Please provide a valid path."


def _told(method: Callable[..., str]) -> Callable[..., str]:
    """Return a method that raises ToolError, which the model reads, in place of MemsyncError."""

    @wraps(method)
    def told(self: MemsyncMemoryTool, *command: Any) -> str:
        try:
            return method(self, *command)
        except MemsyncError as error:
            leads_out = "symbolic link" in error.message  # models know the other words for it
            path = "".join(str(getattr(one, "path", "")) for one in command)
            text = f"Path {path} would escape {_ROOT} directory: {error.message}" if leads_out else error.sentences()
            raise ToolError(text) from error

    return told


class MemsyncMemoryTool(BetaAbstractMemoryTool):
    """The files of the memory tool as notes."""

    def __init__(self, memory: Memory | RemoteMemory, folder: str = FOLDER) -> None:
        """Take a memory, which the caller closes."""
        super().__init__()
        self._memory, self._folder = memory, folder.strip("/")

    @_told
    def view(self, command: Any) -> str:
        """Show a file with the numbers of its lines, or what is in a folder."""
        place = self._place(command.path)
        if (text := self._text(place)) is None:
            return self._listing(command.path, place)
        lines, span = text.split("\n"), [*(command.view_range or ())]
        if len(lines) > MAX_LINES:
            raise ToolError(f"File {command.path} exceeds maximum line limit of {MAX_LINES:,} lines.")
        first, last = (max(1, span[0]), span[1]) if len(span) == 2 else (1, -1)
        shown = lines[first - 1 : None if last == -1 else last]
        return f"Here's the content of {command.path} with line numbers:\n{_numbered(shown, first)}"

    @_told
    def create(self, command: Any) -> str:
        """Make a file that does not exist."""
        try:
            self._memory.write_note(self._place(command.path), command.file_text)
        except NoteChanged:
            raise ToolError(f"File {command.path} already exists") from None
        return f"File created successfully at: {command.path}"

    @_told
    def str_replace(self, command: Any) -> str:
        """Replace a text that a file has once."""
        place, text = self._file(command.path)
        old, times = command.old_str, text.count(command.old_str)
        if not times:
            raise ToolError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {command.path}.")
        if times > 1:
            starts = re.finditer(f"(?={re.escape(old)})", text)
            lines = ", ".join(str(text.count("\n", 0, match.start()) + 1) for match in islice(starts, MAX_NAMED))
            raise ToolError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. "
                "Please ensure it is unique"
            )
        changed = text.replace(old, command.new_str)
        self._memory.write_note(place, changed, expected=text)
        line = text.count("\n", 0, text.find(old))
        shown = _numbered(changed.split("\n")[max(0, line - 2) : line + 3], max(0, line - 2) + 1)
        return f"The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{shown}"

    @_told
    def insert(self, command: Any) -> str:
        """Insert lines after a line."""
        place, text = self._file(command.path)
        lines = text.removesuffix("\n").split("\n") if text else []
        if not 0 <= command.insert_line <= len(lines):
            raise ToolError(
                f"Invalid `insert_line` parameter: {command.insert_line}. "
                f"It should be within the range [0, {len(lines)}]."
            )
        lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
        changed = "\n".join(lines)
        self._memory.write_note(place, changed + "\n" * (not changed.endswith("\n")), expected=text)
        return f"The file {command.path} has been edited."

    @_told
    def delete(self, command: Any) -> str:
        """Delete a file or a folder, which `undo_forget` puts back."""
        place = self._place(command.path)
        if place == self._folder:
            raise ToolError(f"Cannot delete the {_ROOT} directory itself")
        if not (paths := self._below(place)):
            raise ToolError(f"The path {command.path} does not exist")
        for path in paths:
            self._memory.delete_note(path)
        return f"Successfully deleted {command.path}"

    @_told
    def rename(self, command: Any) -> str:
        """Rename a file or a folder. If that fails in between, one file has both names, and none is lost.

        It is no `move`, which would repair links in the notes of people, and may name a note that instructs agents.
        """
        old, new = self._place(command.old_path), self._place(command.new_path)
        if old == self._folder:
            raise ToolError(f"Cannot rename the {_ROOT} directory itself")
        if self._below(new):
            raise ToolError(f"The destination {command.new_path} already exists")
        if not (paths := self._below(old)):
            raise ToolError(f"The path {command.old_path} does not exist")
        for path in paths:
            text = self._memory.read_note(path)
            self._memory.write_note(new + path.removeprefix(old), text)
            self._memory.delete_note(path, expected=text)
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    @_told
    def clear_all_memory(self) -> str:
        """Delete all files."""
        for path in self._below(self._folder):
            self._memory.delete_note(path)
        return "All memory cleared"

    def _place(self, path: str) -> str:
        """Return the root-relative path. Raises ToolError."""
        if not f"{path}/".startswith(f"{_ROOT}/"):
            raise ToolError(f"Path must start with {_ROOT}, got: {path}")
        inner = posixpath.normpath(path[len(_ROOT) :].strip("/") or ".")
        if inner.startswith("..") or "\0" in inner:
            raise ToolError(f"Path {path} would escape {_ROOT} directory")
        return self._folder if inner == "." else f"{self._folder}/{inner}"

    def _text(self, place: str) -> str | None:
        if place == self._folder:
            return None
        try:
            return self._memory.read_note(place)
        except NoteError as error:
            if isinstance(error, NoSuchNote) or self._below(place):  # otherwise it is a file that is no note
                return None
            raise

    def _file(self, path: str) -> tuple[str, str]:
        place = self._place(path)
        if (text := self._text(place)) is not None:
            return place, text
        raise ToolError(f"The path {path} is not a file." if self._below(place) else _MISSING.format(path))

    def _below(self, place: str) -> list[str]:
        """Return the notes at a path: one, or those in a folder."""
        listed = complete(self._memory, lambda: self._memory.notes(archived=True))
        return [one.path for one in listed.notes if one.path == place or one.path.startswith(f"{place}/")]

    def _listing(self, path: str, place: str) -> str:
        below = self._below(place)
        if not below and place != self._folder:
            raise ToolError(_MISSING.format(path))
        sizes = {one[len(place) + 1 :]: len(self._memory.read_note(one).encode()) for one in below}
        rows = dict[str, int]()
        for name, size in sorted(sizes.items()):
            parts = name.split("/")
            for depth in range(1, min(len(parts), 2) + 1):
                row = "/".join(parts[:depth]) + "/" * (depth < len(parts))
                rows[row] = rows.get(row, 0) + size
        head = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
        lines = [f"{_size(sum(sizes.values()))}\t{path}", *(f"{_size(rows[row])}\t{path}/{row}" for row in rows)]
        return "\n".join([head, *lines])


class AsyncMemsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same for the asynchronous client."""

    def __init__(self, memory: Memory | RemoteMemory, folder: str = FOLDER) -> None:
        """Take a memory, which the caller closes."""
        super().__init__()
        self._tool = MemsyncMemoryTool(memory, folder)

    async def execute(self, command: Any) -> Any:
        """Run a command in a thread. Raises ToolError."""
        return await anyio.to_thread.run_sync(self._tool.execute, command)

    view = create = str_replace = insert = delete = rename = execute

    async def clear_all_memory(self) -> Any:
        """Delete all files."""
        return await anyio.to_thread.run_sync(self._tool.clear_all_memory)


def _numbered(lines: list[str], first: int) -> str:
    return "\n".join(f"{number:6d}\t{line}" for number, line in enumerate(lines, first))


def _size(size: int) -> str:
    """Return a size as Anthropic's tool writes it: 0B, 512B, 1.5K."""
    power = min(max(size.bit_length() - 1, 0) // 10, 3)
    value = size / 1024**power
    return f"{int(value)}{'BKMG'[power]}" if value == int(value) else f"{value:.1f}{'BKMG'[power]}"
