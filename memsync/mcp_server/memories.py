"""The memories that an MCP server offers, and which of them a call is for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from memsync.errors import MemsyncError
from memsync.settings.roots import chosen_roots, registered_roots
from memsync.system.once import once_property

if TYPE_CHECKING:
    from memsync.memories.reopening import Opener
    from memsync.memories.several import Memories
    from memsync.memory import MemoryApi
    from memsync.operation import Operation
    from memsync.settings.load import Settings


class ServedMemories:
    """What an MCP server offers: its own memory, if it has one, and registered ones unless it `is_alone`.

    `own` returns the settings of its own memory, or is that memory. The first call loads what opening it needs.
    """

    def __init__(self, own: Callable[[], Settings] | MemoryApi | None, *, is_alone: bool = False) -> None:
        self._own = own
        self.has_own = own is not None
        self.is_alone = is_alone

    def names(self) -> tuple[str, ...]:
        """Return the names of the registered memories that a call may name; none if the list is not valid."""
        if self.is_alone:
            return ()
        try:
            return tuple(registered_roots())
        except MemsyncError:  # the first call that names a memory says why
            return ()

    @contextmanager
    def memory_for(
        self, operation: Operation[Any, Any], arguments: Mapping[str, Any], names: tuple[str, ...] = ()
    ) -> Iterator[tuple[MemoryApi | Memories, dict[str, Any]]]:
        """Yield what answers an operation, and its arguments for that: the own memory, or those that the call names.

        `names` may have ALL_ROOTS. Without an own memory all registered ones answer. Raises MemsyncError.
        """
        from memsync.memories.several import Memories, covered

        roots, given = ({}, dict(arguments)) if self.is_alone else covered(operation, arguments, names)
        if roots or not self.has_own:
            yield Memories(roots or chosen_roots(), opener=self._opener), given
            return
        with self._opener.memory() as memory:
            yield memory, given

    @once_property
    def _opener(self) -> Opener:
        from memsync.memories.reopening import Opener

        return Opener(self._own)

    def close(self) -> None:
        """Close every memory in this process."""
        if "_opener" in vars(self):
            self._opener.close()
