"""How the notes that were appended to ended then, so that the next append need not read them: it costs as little then.

A small file each; whoever holds the writers' lock writes them, without waiting for the disk. What does not fit the
note's stamp, or is torn, is as if it were not there.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from memsync.edit.note_end import Tail
from memsync.model.vocabulary import NotePath

VERSION = 3
"""Raised when another end is found in equal bytes: what earlier versions kept is then not believed."""


class KnownTails:
    """The ends of notes by path and stamp, in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, path: NotePath, found: os.stat_result) -> Tail | None:
        """Return how a note ends, if nobody has changed it since it was put here."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            known = json.loads(self._place(path).read_bytes())
            if known["version"] == VERSION and known["stamp"] == _stamp(found):
                return Tail(**known["tail"])
        return None

    def put(self, path: NotePath, found: os.stat_result, tail: Tail) -> None:
        """Remember how a note ends. A full disk is no reason to complain: the note is read the next time."""
        place = self._place(path)
        content = json.dumps({"path": path, "version": VERSION, "stamp": _stamp(found), "tail": asdict(tail)})
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            place.write_text(content)

    def was_filled(self, path: NotePath) -> bool:
        """Tell whether a note had lines when it was last appended to."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            return bool(json.loads(self._place(path).read_bytes())["tail"]["lines"])
        return False

    def _place(self, path: NotePath) -> Path:
        return self._folder / f"{hashlib.sha256(path.encode()).hexdigest()[:24]}.json"


def _stamp(found: os.stat_result) -> list[int]:
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]
