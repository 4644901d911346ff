"""The memories that an MCP server offers, and which of them a call is for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from memsync.errors import MemsyncError
from memsync.memories.opener import Opener, Openers
from memsync.memories.several import Memories, covered
from memsync.operation import Operation
from memsync.settings.roots import chosen_roots, registered_roots

if TYPE_CHECKING:
    from memsync.memory import MemoryApi


class ServedMemories:
    """What an MCP server offers: `own`, if it has one, and registered ones unless it `is_alone`."""

    def __init__(self, own: Opener | None, *, is_alone: bool = False) -> None:
        self.own = own
        self.is_alone = is_alone
        self._openers = Openers()

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
        roots, given = ({}, dict(arguments)) if self.is_alone else covered(operation, arguments, names)
        if self.own is None or roots:
            yield Memories(roots or chosen_roots(), own=self.own, openers=self._openers), given
            return
        with self.own.memory() as memory:
            yield memory, given

    def close(self) -> None:
        """Close every memory in this process."""
        if self.own is not None:
            self.own.close()
        self._openers.close()
