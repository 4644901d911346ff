"""A process that parses notes for another one (see sync/workers.py): bytes in, rows out, on its standard streams.

The first message is what the notes are to be read by; each other one is a note's path and bytes.
"""

from __future__ import annotations

import gc
import os
import pickle
import queue
import signal
import sys
import threading
from typing import BinaryIO

from memsync.notes.decode import BinaryFileError
from memsync.notes.parse import NoteReader
from memsync.notes.rules import PathRules
from memsync.sync.workers import receive, send
from memsync.wiring import make_token_counter, note_preparer

NICENESS = 5
"""Searches and embedding come first."""
GARBAGE_OBJECTS = 200_000
"""Objects between two searches for cycles: parsing makes many objects, and hardly any cycles."""


def main() -> None:
    """Answer until the input ends, which it does when the other process does, however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the other process to act on
    os.nice(NICENESS)
    gc.set_threshold(GARBAGE_OBJECTS)
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between the answers
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(sys.stdin.buffer, messages), daemon=True).start()
    reader = _reader(messages.get())
    prepare = note_preparer()
    while True:
        path, content = pickle.loads(messages.get())  # noqa: S301 (because this same program has made it)
        try:
            note, chunks = reader.read(path, content)
            answer: dict[str, object] = {"note": prepare(note, chunks)}
        except BinaryFileError as error:
            answer = {"binary": str(error)}
        except Exception:  # noqa: BLE001 (because the other process tries it too, and tells what is wrong)
            answer = {}
        send(output, pickle.dumps(answer, pickle.HIGHEST_PROTOCOL))


def _receive(pipe: BinaryIO, messages: queue.SimpleQueue[bytes]) -> None:
    """Take messages until there are no more, and end the process then, even in the midst of a note."""
    while (message := receive(pipe)) is not None:
        messages.put(message)
    os._exit(0)


def _reader(setup: bytes) -> NoteReader:
    kinds, tiers, limits, max_structured_bytes, parsed_by = pickle.loads(setup)  # noqa: S301 (because: as above)
    reader = NoteReader(make_token_counter().count, PathRules(kinds, tiers), limits, max_structured_bytes)
    if reader.parsed_by != parsed_by:  # another memsync's parser
        os._exit(1)
    return reader
