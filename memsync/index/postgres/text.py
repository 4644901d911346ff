"""Texts and patterns of a question."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import apsw

_TEXTLESS = re.compile("[\0\ud800-\udfff]")
# The positions of those of :paths that match one of :globs.
_MATCHING = """
SELECT p.key FROM json_each(:paths) p WHERE EXISTS (SELECT 1 FROM json_each(:globs) g WHERE p.value GLOB g.value)
"""


def storable(text: str) -> str:
    """Return a text without NUL and lone surrogates, which no note has and PostgreSQL does not take."""
    return _TEXTLESS.sub("\ufffd", text)


def matching(paths: Sequence[str], globs: Sequence[str]) -> list[int]:
    """Return the positions of the paths that match one of the globs; SQLite itself compares them."""
    rows = apsw.Connection(":memory:").execute(_MATCHING, {"paths": json.dumps(paths), "globs": json.dumps(globs)})
    return [key for (key,) in rows]
