"""Finds keys, tokens and passwords in text, by the rules of Kingfisher and four of memsync's own (secrets.yaml).

Kingfisher's regular expressions take linear time. It can also ask issuers whether a secret is valid; memsync never
does, so nothing leaves the machine.
"""

from __future__ import annotations

import base64
import os
import re
from bisect import bisect_right
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
_NOT_JOINED = re.compile(r"memsync\.token-like")
_NOT_IN_PATHS = re.compile(r"memsync\.(?!token)|memsync\.token-like")
"""Rules that would take letters before a secret for a part of it."""
_AROUND_KIND = re.compile(r"^\w+\.(?:secrets/)?|\.\d+$")
_SUSPECT = re.compile(
    r"-----BEGIN|://[^\s/]{1,300}@|\$\w{1,20}\$|\{[A-Z0-9-]{3,12}\}|WIFI:|:(?:\d{2,5}|\*):\S+:\S+:|[A-Za-z0-9+/]{20}|[\w+/-]{24}"
    r"|(?=[A-Za-z_+/.%=-]{0,15}[0-9])(?=[0-9_+/.%=-]{0,15}[A-Za-z])[A-Za-z0-9_+/.%=-]{16}"
    r"|\s-(?:p|P|a|w|u|U|c|A|X)[\s\S]{0,4}\S{4}|\bpass:|\bnet use\b|\bidentified\b|\\u[0-9a-f]{4}\\"
    r"|(?i:pass|pwd|\bpw\b|secret|token|key|cred|bearer|basic|auth|login|\buser|kennwort|wort\b|contrase|clave|\bmdp\b|senha|wachtwoord"
    r"|has\u0142o|l\u00f6senord|\u043f\u0430\u0440\u043e\u043b\u044c|\u5bc6|\u30d1\u30b9|\ube44\ubc00|adgang|salasana|heslo|parola|\u015fifre|zugang|psk|echo|printf|env|code"
    r")[\s\S]{0,80}?(?:[A-Za-z][!-/:-@_]{0,2}[0-9]|[0-9][!-/:-@_]{0,2}[A-Za-z]|[A-Za-z]{3}[!-/:-@_][A-Za-z]{3}|[:=,(]\s{0,3}\\*[\"'])"
)
"""A short text without a match has no secret. Few lines of ordinary notes match, so they load no scanner."""
_PLACEHOLDER = re.compile(
    r"\[{4}|\[secret"
    r"|example|change[-_ ]?me|placeholder|dummy|redacted|test[-_]only|x{4}|\*{3}|\.{3}|…|(?:^|[-_])your[-_]"
    r"|[-_]here$"
    r"|^my[-_]?(?:secret|password|token|api|key)|(?:insert|replace|put|add|enter)[-_](?:your|me|here|with|this)"
    r"|^(?:<|\$\{|\$\(|\$\w+$|\{\{|%[({]|%\w+%$)|^(?:(?:(?:the|a|my|some|super|secure|secret|strong|new|old|wrong|fake|bad|test|user|db)[-_]?){0,3}"
    r"(?:password|passwd|pass|pwd|pw|secret|token|user(?:name)?|key|string|value|required|none|null|true|false|test)[-_]?\d{0,3})$",
    re.IGNORECASE,
)
"""A find that matches this is no secret."""
_NEXT = re.compile(r"&[\w.-]+=.*", re.DOTALL)
_END = " \t\n.,;:?)»“”」。，、"
"""What a rule for named values takes too much: the next parameter of a URL, and the end of a sentence."""
_WIDTHLESS = "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff"
_ESCAPE = (
    r"\x1b\[[0-9;?]*[A-Za-z]|\\\\{0,7}(?:(?:x1b|u001[bB]|033|e)\[[0-9;?]*[A-Za-z]|u(?P<point>[0-9a-fA-F]{4})|(?P<letter>[nrtbf])"
    r"|(?P<sign>[\"'/&]))|\[secret: [\w.-]{1,60}, [0-9a-f]{8}\]"
)
_AT_WRAP = (
    r"(?<=[^%s]{59}[\w+/=.%%~-]%s)[ \t>+|]{0,12}(?=[\w+/=.%%~-])"
    r"(?!-\s|[A-Z]?[a-z]{1,20}(?:[\s,.;:!?)\\\"]|$)|[\w.-]{1,60}[ \t]{0,3}[:=][ \t]{0,3}[^\s=])"
)
_ENDS = ((r"\n", r"\n"), (r"\n", r"\r\n"), (r"\n\\", r"\\n"), (r"\n\\", r"\\\\n"), (r"\n\\", r"\\r\\n"))
_WRAPS = "|".join((
    r"\\\n|\\\r\n|\\\\\\\\{0,7}n",
    *(end + _AT_WRAP % (other, end) for other, end in _ENDS),
    *(rf"{sign}(?<=[\w-]{{8}}{sign})(?=[\w-]{{8}})" for sign in _WIDTHLESS),
))  # fmt: skip
_DECODED, _JOINED = re.compile(_ESCAPE), re.compile(f"{_WRAPS}|{_ESCAPE}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_IN_TOKENS, _IN_WORDS = (
    bytes(byte if (chr(byte).isalnum() and byte < 128) or chr(byte) in signs else 32 for byte in range(256))
    for signs in ("\n-_.+/=~%$:@", "\n-_")
)
_BINARY = re.compile(r"[^\s\x1b\x20-\U0010ffff]|[\x7f-\x9f]")
_MIXED = re.compile(r"\A(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])|[A-Za-z]{3}[!#$%^*+?~]+[A-Za-z]{3}|[A-Za-z]={1,2}$")
_NAME = re.compile(r"[a-z+]+://|(?:sha\d+|toolu|msg|req|call|resp|rs|chatcmpl|run|thread|asst|file)[-_]")
_IN_URL = re.compile(r"://[^/:]{0,300}:([^/]{1,300})@")
_NEVER = re.compile(r"(?!)")
_SHORT = 10_000
_PIECE, _OVERLAP = 16_000, 8_000
"""memsync's own rules read a text in pieces of so many bytes: their time can grow with the square of a text's size."""
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


class _Pieces(NamedTuple):
    """Where the pieces of another form of a text begin in it (`starts`, and its end), and their `spans` in the text."""

    starts: list[int]
    spans: list[tuple[int, int]]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where the form's [start:end] is in the text; a decoded piece counts whole."""

        def of(place: int) -> tuple[int, int]:
            piece = bisect_right(self.starts, place) - 1
            (first, last), begin = self.spans[piece], self.starts[piece]
            is_as_it_was = self.starts[piece + 1] - begin == last - first
            return (first + place - begin, first + place - begin + 1) if is_as_it_was else (first, last)

        return of(start)[0], of(end - 1)[1]


def secrets_in(text: str) -> list[Secret]:
    """Return the secrets of a text, in order; none overlap.

    The first text that may contain a secret loads the scanner, which takes half a second.
    """
    if len(text) < _SHORT and not _SUSPECT.search(text):
        return []
    blanked = text
    for sign in f"\r{_WIDTHLESS}":
        blanked = blanked.replace(sign, " ")
    decoded, joined = _DECODED.sub(_decoded, blanked), _JOINED.sub(_decoded, text)
    spans = _placed(_found(decoded), blanked, _DECODED)
    if joined != decoded:
        spans += _placed(_found(joined, _NOT_JOINED), text, _JOINED)
    spans += _placed(_found_in_base64(joined), text, _JOINED)
    if "\\" in text:  # which may be that of a path, and no escape
        spans += _found(text.replace("\\", " "), _NOT_IN_PATHS)
    return [
        Secret(start, end, _AROUND_KIND.sub("", rule), digest_of(text[start:end].encode("utf-8", "replace"))[:8])
        for start, end, rule in _apart(spans)
    ]


def _placed(found: Iterable[tuple[int, int, str]], text: str, pattern: re.Pattern[str]) -> list[tuple[int, int, str]]:
    """Return finds in `pattern.sub(_decoded, text)` with their places in the text."""
    finds = list(found)
    pieces = _pieces(text, pattern) if finds else _Pieces([], [])
    return [(*pieces.span(start, end), rule) for start, end, rule in finds]


def _found_in_base64(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, rule) of the characters that encode a text with a secret."""
    parts, starts, spans = [], [0], []
    for run in _BASE64.finditer(text):
        if content := _from_base64(run[0]):
            parts.append(_DECODED.sub(_decoded, content) + "\n")
            starts.append(starts[-1] + len(parts[-1]))
            spans.append(run.span())
    pieces = _Pieces(starts, spans)
    for start, end, rule in _found("".join(parts)):
        yield *pieces.span(start, end), rule


def _pieces(text: str, pattern: re.Pattern[str]) -> _Pieces:
    """Return the pieces of `pattern.sub(_decoded, text)`."""
    starts, spans, last = [0], [], 0
    for match in [*pattern.finditer(text), None]:
        start, end = match.span() if match else (len(text), len(text))
        for length, span in ((start - last, (last, start)), (len(_decoded(match)) if match else 0, (start, end))):
            if length:
                starts.append(starts[-1] + length)
                spans.append(span)
        last = end
    return _Pieces(starts, spans)


def _decoded(match: re.Match[str]) -> str:
    """Return what an escape means: for a colour a blank, or nothing if lines are joined."""
    kind = match.lastgroup
    if kind == "point":
        letter = chr(int(match["point"], 16))
        return letter if letter.isprintable() else " "
    if kind == "letter":
        return "\n" if match["letter"] == "n" else " "
    if kind == "sign":
        return match["sign"]
    if match[0][0] == "[":  # no rule may match what replaced a secret
        return "[" * len(match[0])
    return " " if match.re is _DECODED else ""


def _from_base64(run: str) -> str:
    """Return the text that a run of characters encodes; empty if that is no text."""
    content = base64.b64decode(run[: len(run) // 4 * 4], b"-_" if "-" in run or "_" in run else None)
    try:
        decoded = content.replace(b"\0", b"").decode()
    except ValueError:
        return ""
    return decoded if len(decoded) > 8 and (decoded.isprintable() or not _BINARY.search(decoded)) else ""


def _found(text: str, but: re.Pattern[str] = _NEVER) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, rule) of each find in a text, and in it with blanks beside words; not of rules `but`."""
    content = text.encode("utf-8", "replace")
    tokens = content.translate(_IN_TOKENS)
    for sign in b"./:%$@":
        tokens = tokens.replace(b"%c " % sign, b"  ").replace(b" %c" % sign, b"  ").replace(b"%c\n" % sign, b" \n")
    library, own = _scanners()
    scans = [(library, content, 0), (library, tokens, 0), (library, content.translate(_IN_WORDS), 0)]
    pieces = range(0, len(content) or 1, _PIECE)
    scans += [(own, content[at : at + _PIECE + _OVERLAP] if len(pieces) > 1 else content, at) for at in pieces]
    findings = (
        (at, finding)
        for scanner, part, at in scans
        for finding in scanner.scan(part)
        if finding.visible and not but.match(finding.rule_id)
    )
    places = (
        (at + finding.location["start_offset"], at + finding.location["end_offset"], finding)
        for at, finding in findings
    )
    counted = characters = 0
    for start, end, finding in sorted(places, key=lambda place: place[:2]):
        characters += len(content[counted:start].decode("utf-8", "ignore"))
        counted = start
        secret = content[start:end].decode("utf-8", "ignore")
        if finding.rule_id.startswith(_OWN):
            secret = _NEXT.sub("", secret).rstrip(_END)
        if secret and _counts(secret, finding.confidence == "low" and finding.rule_id.startswith(_OWN)):
            yield characters, characters + len(secret), finding.rule_id


def _counts(secret: str, needs_digit: bool) -> bool:
    """Tell whether a find is a secret, and not a placeholder or a word."""
    password = _IN_URL.search(secret)
    if needs_digit and (not _MIXED.search(secret) or _NAME.match(secret)):
        return False
    return not _PLACEHOLDER.search(password[1] if password else secret)


def load() -> None:
    """Load the scanner, so that no text waits for it: 4 s if its rules were never compiled. Raises MemsyncError."""
    _scanners()


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


def _scanners() -> list[Scanner]:
    """Return Kingfisher's scanner and that of memsync's own rules; the cache keeps both. Raises MemsyncError."""
    if not _loaded:
        try:
            from kingfisher_sdk import Rules, Scanner

            cache = os.path.join(cache_folder(), "secrets")
            rules = (
                Rules(confidence="low", cache_dir=cache),
                Rules([_OWN_RULES], builtins=False, confidence="low", cache_dir=cache),
            )
            _loaded.extend(Scanner(some, base64=False) for some in rules)
        except (ImportError, OSError, RuntimeError, ValueError) as error:
            hint = "Install it again: pip install kingfisher-secret-scanner"
            raise MemsyncError(f"the library that finds secrets cannot be used: {error}", hint=hint) from error
    return _loaded
