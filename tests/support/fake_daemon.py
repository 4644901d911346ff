"""The daemon as it is, with the tests' quick embedder for a model: `python -m tests.support.fake_daemon ROOT`.

Process, watcher, socket, lock and index are the real ones. FAKE_EMBED_SECONDS is how long a text takes to embed;
FAKE_EMBED_FAILS makes the model fail on every text and quote it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from memsync.daemon import logs, process
from memsync.errors import EmbedderError, MemsyncError
from memsync.index.sqlite.index import SqliteIndex
from memsync.memory import Memory
from memsync.settings.load import Settings, load_settings
from memsync.wiring import make_vector_cache
from tests.conftest import COUNTER, FakeEmbedder


class SlowEmbedder(FakeEmbedder):
    """Takes its time as a model does, so that it is interrupted now and then."""

    def embed_passages(self, texts: Sequence[str], pause: Callable[[], None] = lambda: None) -> list[Any]:
        for text in texts:
            pause()
            time.sleep(float(os.environ.get("FAKE_EMBED_SECONDS", "0")))
            if "FAKE_EMBED_FAILS" in os.environ:
                raise ValueError(f"cannot embed {text}") if "unexpected" in text else EmbedderError("no model today")
        return super().embed_passages(texts)


def connect(settings: Settings, *_: object, parts: object = None) -> Memory:
    """Return the memory of these settings with the quick embedder instead of that of `parts`."""
    embedder = SlowEmbedder()
    index = SqliteIndex(settings.index_dir / "index.db")
    return Memory(settings, index, COUNTER, lambda: embedder, lambda space: embedder, cache=make_vector_cache())


def main() -> None:
    """Serve one root until told to stop."""
    root = Path(sys.argv[1])
    with mock.patch.object(process, "open_memory", connect):
        try:
            settings = load_settings(root=root)
            logs.log_to(logs.file_handler(settings))
            process.serve(settings)
        except MemsyncError as error:
            sys.exit(f"{error.message} {error.hint}")


if __name__ == "__main__":
    main()
