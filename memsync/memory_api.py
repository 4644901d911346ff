"""What front ends ask of a memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol, Self

from memsync.calls import Calls
from memsync.model import Excerpt, Filters, Fresh, Mode, Query, SearchResult, Status, SyncReport
from memsync.ports import Progress


class MemoryApi(Calls, Protocol):
    """What the CLI and other front ends ask, whether the answer comes from this process or a daemon."""

    def search(
        self,
        query: str | Query,
        *,
        limit: int | None = None,
        mode: Mode | str | None = None,
        filters: Filters | None = None,
        filter_pairs: Sequence[tuple[str, str]] = (),
        tokens: int | None = None,
        min_score: float | None = None,
        rerank: bool = False,
        fresh: Fresh | str = "strict",
        generation: int = 0,
    ) -> SearchResult:
        """Answer a question; what the answer lacks is said in its freshness and warnings."""
        ...

    def get(self, location: str) -> Excerpt:
        """Return the lines that `PATH`, `PATH:LINE`, `PATH:LINE:COUNT` or `PATH#heading` names."""
        ...

    def sync(
        self,
        *,
        progress: Progress | None = None,
        wait_seconds: float = 600.0,
        on_wait: Callable[[str], None] = lambda holder: None,
        accept_root: bool = False,
    ) -> SyncReport:
        """Make the index equal to the files."""
        ...

    def status(self) -> Status:
        """Return what the index holds and how current it is."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...

    def __enter__(self) -> Self:
        """Return itself."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        ...
