"""Bytes of a file -> its note and chunks, under one set of settings."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from memsync.model.note import Chunk, Note
from memsync.model.vocabulary import NotePath
from memsync.notes.chunk import ChunkLimits, CountTokens, chunk_note
from memsync.notes.parse import parse_note
from memsync.notes.rules import PathRules

PARSER_VERSION = 9
"""Raised whenever equal bytes give another note or other chunks; every note is then read again."""


@dataclass(frozen=True)
class NoteReader:
    """Everything that decides what a file's bytes become. `parsed_by` names it: equal names, equal results."""

    count_tokens: CountTokens
    rules: PathRules
    limits: ChunkLimits
    max_structured_bytes: int
    parsed_by: str = field(init=False)

    def __post_init__(self) -> None:
        """Derive `parsed_by` from the parser's version and the settings."""
        settings = (
            list(self.rules.kinds.items()),
            list(self.rules.tiers.items()),
            self.limits,
            self.max_structured_bytes,
        )
        digest = hashlib.sha256(repr(settings).encode()).hexdigest()[:12]
        object.__setattr__(self, "parsed_by", f"{PARSER_VERSION}:{digest}")

    def read(
        self, path: NotePath, content: bytes, pause: Callable[[], None] = lambda: None
    ) -> tuple[Note, list[Chunk]]:
        """Parse and chunk one file. Raises BinaryFileError for what is no text, and nothing else.

        `pause` is called before each step: it may wait, or raise to end the work.
        """
        note = parse_note(path, content, self.rules, self.max_structured_bytes, pause)
        return note, chunk_note(note, self.count_tokens, self.limits, pause)
