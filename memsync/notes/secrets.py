"""Finds keys, tokens and passwords in text, by the rules of Kingfisher and four of memsync's own (secrets.yaml).

Kingfisher's regular expressions take linear time. It can also ask issuers whether a secret is valid; memsync never
does, so nothing leaves the machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from memsync.errors import MemsyncError, NoteError
from memsync.notes.decode import decode
from memsync.system.user_folders import cache_folder, digest_of

if TYPE_CHECKING:
    from kingfisher_sdk import Scanner

_OWN_RULES = Path(__file__).with_name("secrets.yaml")
_OWN = "memsync."
_AROUND_KIND = re.compile(r"^\w+\.(?:secrets/)?|\.\d+$")
_SUSPECT = re.compile(
    r"-----BEGIN|AKIA|ASIA|://[^\s/@]{0,128}:[^\s@]{1,256}@|[A-Za-z0-9]{24}"
    r"|(?=[A-Za-z_-]{0,15}[0-9])(?=[0-9_-]{0,15}[A-Za-z])[A-Za-z0-9_-]{16}"
    r"|(?i:pass|pwd|secret|token|key|cred|bearer|basic|auth|curl).{0,60}?(?=\S{0,80}[0-9])(?=\S{0,80}[A-Za-z])\S{6}"
)
"""A short text without a match does not load the scanner. It has no secret, because a secret counts only if this
matches between the beginning of its line and the character after it. Few lines of ordinary notes match."""
_BEFORE = 400
_SHORT = 10_000
_PASSES = 8
_loaded: list[Scanner] = []


class Secret(NamedTuple):
    """A secret in a text, from `start` to before `end`; `digest` is the first 8 digits of its SHA-256."""

    start: int
    end: int
    kind: str
    digest: str

    def __str__(self) -> str:
        return f"[secret: {self.kind}, {self.digest}]"


def secrets_in(text: str) -> list[Secret]:
    """Return the secrets of a text, in order; none overlap.

    The first text that may contain a secret loads the scanner, which takes half a second.
    """
    if not _loaded and len(text) < _SHORT and not _SUSPECT.search(text):
        return []
    content = text.encode("utf-8", "replace")
    found = [finding for finding in _scanner().scan(content) if finding.visible]
    secrets: list[Secret] = []
    counted = characters = 0
    for start_byte, end_byte, rule in _apart(
        (place["start_offset"], place["end_offset"], finding.rule_id)
        for finding in found
        if (place := finding.location)
    ):
        start = characters + len(content[counted:start_byte].decode("utf-8", "ignore"))
        characters = start + len(content[start_byte:end_byte].decode("utf-8", "ignore"))
        counted = end_byte
        line = max(text.rfind("\n", 0, start) + 1, start - _BEFORE)
        if _SUSPECT.search(text[line : characters + 1]):
            digest = digest_of(content[start_byte:end_byte])[:8]
            secrets.append(Secret(start, characters, _AROUND_KIND.sub("", rule), digest))
    return secrets


def load() -> None:
    """Load the scanner, so that no text waits for it: 4 s if its rules were never compiled. Raises MemsyncError."""
    _scanner()


def redacted(text: str) -> tuple[str, int]:
    """Return a text with `[secret: kind, digest]` in place of each secret, and the number of secrets.

    The returned text contains no secret.
    """
    count = 0
    for _ in range(_PASSES):  # because other rules may match text next to a replaced secret
        secrets = secrets_in(text)
        if not secrets:
            break
        count += len(secrets)
        ends = [0, *(secret.end for secret in secrets)]
        kept = [text[end : secret.start] for end, secret in zip(ends, secrets, strict=False)]
        text = "".join(f"{before}{secret}" for before, secret in zip(kept, secrets, strict=True)) + text[ends[-1] :]
    return text, count


def places(content: bytes) -> Iterator[tuple[int, str, str]]:
    """Yield (line, kind, digest) of each secret in a note; it begins on `line`. Raises NoteError for a binary file."""
    try:
        text = "\n".join(decode(content).lines)
    except ValueError as error:
        raise NoteError(str(error)) from None
    line, counted = 1, 0
    for secret in secrets_in(text):
        line += text.count("\n", counted, secret.start)
        counted = secret.start
        yield line, secret.kind, secret.digest


def _apart(found: Iterable[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Join overlapping spans of (start, end, rule), and return them in order.

    A joined span has the rule of its first span. Of spans that begin together, the longest is the first, and of equal
    spans, one of memsync's own rules is the last.
    """
    spans: list[tuple[int, int, str]] = []
    for start, end, rule in sorted(found, key=lambda span: (span[0], -span[1], span[2].startswith(_OWN), span[2])):
        if spans and start < spans[-1][1]:
            first, last, named = spans[-1]
            spans[-1] = first, max(last, end), named
        else:
            spans.append((start, end, rule))
    return spans


def _scanner() -> Scanner:
    """Return the scanner, loaded once; its compiled rules are kept in the cache. Raises MemsyncError."""
    if not _loaded:
        try:
            from kingfisher_sdk import Rules, Scanner

            rules = Rules([_OWN_RULES], confidence="low", cache_dir=os.path.join(cache_folder(), "secrets"))
            _loaded.append(Scanner(rules, base64=False))
        except (ImportError, OSError, RuntimeError, ValueError) as error:
            hint = "Install it again: pip install kingfisher-secret-scanner"
            raise MemsyncError(f"the library that finds secrets cannot be used: {error}", hint=hint) from error
    return _loaded[0]
