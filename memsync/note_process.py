"""A process that parses notes for another one (see sync/workers.py): bytes in, rows out, on its standard streams.

The first message is the setup of the NoteReader and the function that makes a note's rows; each later one is a note's
path and bytes.
"""

from __future__ import annotations

import gc
import os
import pickle
import queue
import signal
import sys
import threading
from typing import Any, BinaryIO

from memsync.notes.decode import BinaryFileError
from memsync.notes.parse import NoteReader
from memsync.notes.rules import PathRules
from memsync.sync.workers import receive, send
from memsync.wiring import make_token_counter

NICENESS = 5
"""Searches and embedding have priority."""
GARBAGE_OBJECTS = 200_000
"""Objects between two garbage collections: parsing makes many objects, but hardly any cycles."""


def main() -> None:
    """Answer messages until the input ends, as it does when the other process ends or is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process handles Ctrl-C
    os.nice(NICENESS)
    gc.set_threshold(GARBAGE_OBJECTS)
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # the output of a library must not get between the answers
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(sys.stdin.buffer, messages), daemon=True).start()
    setup: tuple[Any, ...] = pickle.loads(messages.get())  # noqa: S301 (because the other process is memsync, too)
    globs, limits, max_structured_bytes, parsed_by, prepare = setup
    reader = NoteReader(make_token_counter().count, PathRules(*globs), limits, max_structured_bytes)
    if reader.parsed_by != parsed_by:  # the other process has another version of the parser
        os._exit(1)
    while True:
        path, content = pickle.loads(messages.get())  # noqa: S301 (because it is memsync's)
        try:
            note, chunks = reader.read(path, content)
            answer: dict[str, object] = {"note": prepare(note, chunks)}
        except BinaryFileError as error:
            answer = {"binary": str(error)}
        except Exception:  # noqa: BLE001 (because the other process then parses the note itself and reports the error)
            answer = {}
        send(output, pickle.dumps(answer, pickle.HIGHEST_PROTOCOL))


def _receive(pipe: BinaryIO, messages: queue.SimpleQueue[bytes]) -> None:
    """Queue messages until the input ends, then end the process, even while it parses a note."""
    while (message := receive(pipe)) is not None:
        messages.put(message)
    os._exit(0)
