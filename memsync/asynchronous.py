"""AsyncMemory: a memory whose methods are coroutines."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Self

from memsync.memory import AnyPath, Memory, RemoteMemory

THREADS = 4


class AsyncMemory:
    """A memory with the methods of Memory as coroutines; each runs in one of a few threads.

    What a coroutine has begun when it is cancelled is done to its end first, so that the next call comes after it.

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

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "memory":  # of a copy that has no memory yet
            raise AttributeError(name)
        method = getattr(self.memory, name)
        if not callable(method):
            return method

        async def call(*args: Any, **kwargs: Any) -> Any:
            # Whether it writes for an agent is in the context.
            work = self._pool.submit(copy_context().run, method, *args, **kwargs)
            future = asyncio.wrap_future(work)
            try:
                return await asyncio.shield(future)
            except asyncio.CancelledError:
                work.cancel()
                while not future.done():  # it may be cancelled again
                    with suppress(asyncio.CancelledError):
                        await asyncio.wait([future])
                raise

        return call

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self.memory)})

    async def aclose(self) -> None:
        """Finish what has begun, and close the memory."""
        await asyncio.to_thread(self._pool.shutdown)
        await asyncio.to_thread(self.memory.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.aclose()
