"""AsyncMemory: a memory whose methods are coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, Self

from memsync.memory import AnyPath, Memory, RemoteMemory

THREADS = 4


class AsyncMemory:
    """A memory with the methods of Memory as coroutines; each runs in one of a few threads.

    A coroutine that is cancelled is not waited for, but what it has begun is done to its end, and never half.

    async with await AsyncMemory.open("notes") as memory:
        print((await memory.search("which store did we choose")).hits[0].citation)
    """

    def __init__(self, memory: Memory | RemoteMemory) -> None:
        """Take a memory, which `aclose` closes."""
        self.memory = memory
        self._pool = ThreadPoolExecutor(THREADS, "memsync")

    @classmethod
    async def open(cls, root: AnyPath | None = None, *, config: AnyPath | None = None) -> Self:
        """Open a memory in this process, see Memory.open."""
        return cls(await asyncio.to_thread(Memory.open, root, config=config))

    @classmethod
    async def connect(cls, root: AnyPath | None = None, *, config: AnyPath | None = None) -> Self:
        """Connect to the daemon of a memory, see Memory.connect."""
        return cls(await asyncio.to_thread(Memory.connect, root, config=config))

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self.memory, name)
        if not callable(method):
            raise AttributeError(f"{name} is no method of a memory")

        def call(*args: Any, **kwargs: Any) -> Awaitable[Any]:
            run = partial(copy_context().run, method, *args, **kwargs)  # whether it writes for an agent is in there
            return asyncio.get_running_loop().run_in_executor(self._pool, run)

        return call

    async def aclose(self) -> None:
        """Finish what has begun, and close the memory."""
        await asyncio.to_thread(self._pool.shutdown)
        await asyncio.to_thread(self.memory.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.aclose()
