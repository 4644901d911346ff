"""Finds keys, tokens and passwords in text, by the rules of Kingfisher and by memsync's own (secrets.yaml).

The time is linear in the size of a text. Kingfisher can also ask issuers whether a secret is valid; memsync never does,
so nothing leaves the machine.
"""

from __future__ import annotations

import os
import re
import threading
from binascii import a2b_base64
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from memsync.errors import MemsyncError, NoteError
from memsync.notes.decode import decode
from memsync.system.user_folders import cache_folder, digest_of

if TYPE_CHECKING:
    from kingfisher_sdk import Scanner

_OWN_RULES = Path(__file__).with_name("secrets.yaml")
_SLOW_RULES = Path(__file__).with_name("slow_secrets.yaml")
_OWN = "memsync."
_PASSWORDS = ("memsync.password", "memsync.login")
_LOOSE_RULE = "memsync.token-like"
"""This rule would take what wrapped lines begin with for a part of a secret."""
_AROUND_KIND = re.compile(r"^\w+\.(?:secrets/)?|\.\d+$")
_SUSPECT = re.compile(
    r"-----BEGIN|://[^\s/]{1,300}@|\$\w{1,20}\$|\{[A-Z0-9-]{3,12}\}|WIFI:|:(?:\d{2,5}|\*):\S+:\S+:|\\u[0-9a-f]{4}\\"
    r"|(?=[A-Za-z0-9_+/.%=-]{16})(?:[A-Za-z0-9+/]{20}|[\w+/-]{24}|(?=\D{0,15}\d)(?=[0-9_+/.%=-]{0,15}[A-Za-z]))"
    r"|\s-[pPawuUcAXkK][\s\S]{0,4}\S{4}"
)
_SUSPECT_VALUE = re.compile(
    r"[A-Za-z][!-/:-@_]{0,2}[0-9]|[0-9][!-/:-@_]{0,2}[A-Za-z]|[A-Za-z]{3}[!-/:-@_][A-Za-z]{3}|[:=,(]\s{0,3}\\*[\"']"
)
_SUSPECT_NAME = re.compile(
    r"pass|pwd|pw\b|secret|token|key|cred|bearer|basic|auth|login|user|net use|identified|kennwort|wort\b|contrase"
    r"|clave|mdp|senha|wachtwoord|has\u0142o|l\u00f6senord|\u043f\u0430\u0440\u043e\u043b\u044c|\u5bc6|\u30d1\u30b9|\ube44\ubc00|adgang|salasana|heslo|parola"
    r"|\u015fifre|zugang|psk|_pat|echo|printf|env|code"
)
"""A short text has no secret without a match of `_SUSPECT`, or one of each of the other two.

Few lines of ordinary notes match, so they load no scanner.
"""
_PLACEHOLDER = re.compile(
    r"\[{4}|\[secret|example|change[-_ ]?me|placeholder|dummy|redacted|test[-_]only|x{4}|\*{3}|\.{3}|…|[-_]here$"
    r"|(?:^|[-_])your[-_]|^my[-_]?(?:secret|password|token|api|key)|(?:insert|replace|put|add|enter)[-_](?:your|me|here|with|this)"
    r"|^(?:<|\$\{|\$\(|\$\w+$|\{\{|%[({]|%\w+%$)|^(?:(?:the|a|my|some|super|secure|secret|strong|new|old|wrong|fake|bad|test|user|db)[-_]?){0,3}"
    r"(?:password|passwd|pass|pwd|pw|secret|token|user(?:name)?|key|string|value|required|none|null|true|false|test)[-_]?\d{0,3}$",
    re.IGNORECASE,
)
"""A find that matches this is no secret."""
_NEXT = re.compile(r"&[\w.-]+=.*", re.DOTALL)
_END = " \t\n.,;:?)»“”」。，、"
"""What a rule for named values takes too much: the next parameter of a URL, and the end of a sentence."""
_WIDTHLESS = "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff"
_COLOURS = (r"\x1b\[[0-9;?]{0,20}[A-Za-z]", r"\\\\{0,7}(?:x1b|u001[bB]|033|e)\[[0-9;?]{0,20}[A-Za-z]")
_SIGNS = r"\\\\{0,7}(?:u(?P<point>[0-9a-fA-F]{4})|(?P<letter>[nrtbf])|(?P<sign>[\"'/&]))"
_AT_WRAP = (
    r"(?<=[^\n\\]{59}[\w+/=.%%~-]%s)[ \t>+|]{0,12}(?=[\w+/=.%%~-])"
    r"(?!-\s|[A-Z]?[a-z]{1,20}(?:[\s,.;:!?)\\\"]|$)|[\w.-]{1,60}[ \t]{0,3}[:=][ \t]{0,3}[^\s=])"
)
_ENDS = [end + _AT_WRAP % end for end in (r"\n", r"\r\n", r"\\n", r"\\\\n", r"\\r\\n")]
_WRAPS = (*_ENDS[:2], rf"\\(?:\r?\n|\\\\\\{{0,7}}n|{'|'.join(end[2:] for end in _ENDS[2:])})")
_HIDDEN_WRAP = rf"[{_WIDTHLESS}](?<=[\w-]{{8}}[{_WIDTHLESS}])(?=[\w-]{{8}})"
_ESCAPES = (*_COLOURS, _SIGNS, r"\[secret: [\w.-]{1,60}, [0-9a-f]{8}\]")
_ESCAPED, _DECODED, _JOINED = (
    re.compile("|".join(parts)) for parts in (_ESCAPES[1:3], _ESCAPES, (*_WRAPS, _HIDDEN_WRAP, *_ESCAPES))
)
_JOINS = [re.compile(pattern) for pattern in (_HIDDEN_WRAP, *_WRAPS, *_COLOURS)]
"""Each but the first, which few texts need, begins with one letter: Python finds one much faster than several."""
_IN_WORDS = re.sub(rb"[^A-Za-z0-9\n_-]", b" ", bytes(range(256)))
_IN_RUNS = re.sub(rb"[^ ]", b"x", re.sub(rb"[^A-Za-z0-9+/_-]", b" ", bytes(range(256))))
_RUN = b"x" * 16
_BINARY = re.compile(r"[^\s\x1b\x20-\U0010ffff]|[\x7f-\x9f]")
_MIXED = re.compile(
    r"\A(?=[^0-9]*[0-9])(?=[\W\d_]*[^\W\d_])|[A-Za-z]{3}[!#$%^&*+?~]+[A-Za-z]{3}|[A-Za-z]={1,2}$"
    r"|(?:(?:\A|[a-z])[A-Z][a-z]?[A-Z][A-Za-z]*){2}"
)
_WORDS = re.compile(r"[A-Za-z]{3,20}(?:[!#$%^&*+?~@._-][A-Za-z]{3,20}){2,8}[!?]?|[A-Za-z]{3,20}@[A-Za-z]{3,20}[!?]?")
_NAME = re.compile(r"[a-z+]+://|(?:sha\d+|toolu|msg|req|call|resp|rs|chatcmpl|run|thread|asst|file)[-_]")
_IN_URL = re.compile(r"://[^/:]{0,300}:([^/]{1,300})@")
_REST, _LONG = re.compile(rb"(?:[A-Za-z0-9_+/=-]|\.(?=[A-Za-z0-9_-]))*"), 100
_KEY = re.compile(
    rb"(?:[\s>+|]{0,20}[A-Za-z0-9+/=]{16,80})*"
    rb"(?:(?:[\s>+|]{0,20}[A-Za-z0-9+/=]{1,80})?[\s>+|]{0,20}-----END [A-Za-z0-9 ]{1,40}-----)?"
)
"""The lines of a private key after the first, with which its rule would take five times as long to compile."""
_OPENS = (b"(", b"[", b"{", b">")
_SHORT, _NEAR = 10_000, 300
"""A shorter text loads no scanner without need. Around a wrap, so many characters are searched a second time."""
_PASSES = 8
_loaded: list[Scanner] = []
_loading = threading.Lock()
_Find = tuple[int, int, str]
"""Start, end and rule of what may be a secret."""
_Span = tuple[int, int]


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
    if len(text) < _SHORT and not _is_suspect(text):
        return []
    blanked = text
    for sign in f"\r{_WIDTHLESS}":
        blanked = blanked.replace(sign, " ")
    escapes = _DECODED if "\x1b" in text or "[secret: " in text else _ESCAPED
    spans = _found_in(blanked, escapes, [(0, len(text))])
    spans += _found_in(text, _JOINED, _around(text, _JOINS[blanked == text :]), _LOOSE_RULE)
    return [
        Secret(start, end, _AROUND_KIND.sub("", rule), digest_of(text[start:end].encode("utf-8", "replace"))[:8])
        for start, end, rule in _apart(spans)
    ]


def _is_suspect(text: str) -> bool:
    return bool(_SUSPECT.search(text) or (_SUSPECT_VALUE.search(text) and _SUSPECT_NAME.search(text.lower())))


def _around(text: str, patterns: list[re.Pattern[str]]) -> list[_Span]:
    """Return what is near matches in a text, as spans in order that neither overlap nor touch."""
    spans: list[_Span] = []
    for start, end in sorted(match.span() for pattern in patterns for match in pattern.finditer(text)):
        begin = max(start - _NEAR, 0)
        spans.append((spans.pop()[0] if spans and begin <= spans[-1][1] else begin, end + _NEAR))
    return spans


def _found_in(text: str, pattern: re.Pattern[str], windows: list[_Span], but: str = "") -> list[_Find]:
    """Return the finds in windows of a text, decoded by `pattern`; not of rule `but`."""
    form = "\n".join(pattern.sub(_decoded, text[start:end]) for start, end in windows)
    finds = _found(form, but) if form else []
    return _placed(finds, _parts(text, pattern, windows)) if finds else []


def _placed(finds: list[_Find], parts: Iterable[tuple[int, _Span]]) -> list[_Find]:
    """Return finds in another form of a text with their places in the text; a decoded part of the form counts whole.

    `parts` has the length of each part of the form, and its span in the text.
    """
    places = sorted({place for start, end, _ in finds for place in (start, end - 1)}, reverse=True)
    spans, begin = {}, 0
    for length, (first, last) in parts:
        while places and places[-1] < begin + length:
            place = places.pop()
            at = first + place - begin
            spans[place] = (at, at + 1) if length == last - first else (first, last)
        if not places:
            break
        begin += length
    return [(spans[start][0], spans[end - 1][1], rule) for start, end, rule in finds]


def _parts(text: str, pattern: re.Pattern[str], windows: list[_Span]) -> Iterator[tuple[int, _Span]]:
    """Yield the length of each piece of another form of a text, and its span in the text."""
    for begin, stop in windows:
        window, last = text[begin:stop], 0
        for match in [*pattern.finditer(window), None]:
            start, end = match.span() if match else (len(window), len(window))
            yield start - last, (begin + last, begin + start)
            yield len(_decoded(match)) if match else 1, (begin + start, begin + end)
            last = end


def _decoded(match: re.Match[str]) -> str:
    """Return what an escape means: for a colour a blank, or nothing if lines are joined."""
    if match.lastgroup == "point":
        letter = chr(int(match["point"], 16))
        return letter if letter.isprintable() else " "
    if match.lastgroup:
        return {"n": "\n"}.get(match["letter"], " ") if match["letter"] else match["sign"]
    if match[0][0] == "[":  # no rule may match what replaced a secret
        return "[" * len(match[0])
    return "" if match.re is _JOINED else " "


def _found(text: str, but: str) -> list[_Find]:
    """Return each find in a text, and of the characters that encode one; not of rule `but`."""
    content = text.encode("utf-8", "replace")
    finds, counted, characters = [], 0, 0
    for start, end, rule in sorted([*_scanned(content, but), *_found_in_base64(content)]):
        characters += len(content[counted:start].decode("utf-8", "ignore"))
        counted = start
        finds.append((characters, characters + len(content[start:end].decode("utf-8", "ignore")), rule))
    return finds


def _found_in_base64(content: bytes) -> list[_Find]:
    """Return the places of bytes that encode a text with a secret."""
    mask, end, parts, spans = content.translate(_IN_RUNS), 0, [], []
    while (start := mask.find(_RUN, end)) >= 0:
        end = mask.find(b" ", start)
        end = len(mask) if end < 0 else end
        padding = b"==" if content[end : end + 1] == b"=" else b""
        if text := _from_base64(content[start : end if padding else end - (end - start) % 4] + padding):
            parts.append(text)
            spans.append((len(text), (start, end)))
    return _placed(list(_scanned(b"".join(parts), "")), spans) if parts else []


def _from_base64(run: bytes) -> bytes:
    """Return the text that a run of characters encodes, and a line feed; nothing if that is no text."""
    if run == run.lower():  # a word or a path
        return b""
    try:
        decoded = a2b_base64(run.replace(b"-", b"+").replace(b"_", b"/")).replace(b"\0", b"").decode()
    except ValueError:
        return b""
    is_text = len(decoded) > 8 and (decoded.isprintable() or not _BINARY.search(decoded))
    return _DECODED.sub(_decoded, f"{decoded}\n").encode("utf-8", "replace") if is_text else b""


def _scanned(content: bytes, but: str) -> Iterator[_Find]:
    """Yield each find in a text, and in it with blanks beside words; not of rule `but`."""
    library, own = _scanners()
    finds = [
        (finding.location["start_offset"], finding.location["end_offset"], finding.rule_id, finding.confidence == "low")
        for scanner, form in ((library, content), (library, content.translate(_IN_WORDS)), (own, content))
        for finding in scanner.scan(form)
        if finding.visible and finding.rule_id != but
    ]
    reach = 0
    for start, end, rule, is_low in sorted(finds, key=_order):
        secret = content[start:end].decode("utf-8", "ignore")
        if rule.startswith(_OWN):
            secret = _NEXT.sub("", secret).rstrip(_END)
        last = start + len(secret.encode())
        begins_in_word = rule == _LOOSE_RULE and content[start - 1 : start].isalnum()
        is_call = rule in (*_PASSWORDS, "memsync.named") and content[last : last + 1] in _OPENS
        if last <= reach or not secret or begins_in_word or is_call or not _counts(secret, rule, is_low):
            continue
        is_key = rule == "memsync.private-key"
        if (is_key or last - start >= _LONG) and (rest := (_KEY if is_key else _REST).match(content, last)):
            reach = last = rest.end()
        yield start, last, rule


def _counts(secret: str, rule: str, is_low: bool) -> bool:
    """Tell whether a find is a secret, and not a placeholder or a word."""
    password = _IN_URL.search(secret)
    if is_low and rule.startswith(_OWN) and (not _MIXED.search(secret) or _NAME.match(secret)):
        return rule in _PASSWORDS and bool(_WORDS.fullmatch(secret)) and not _PLACEHOLDER.search(secret)
    return not _PLACEHOLDER.search(password[1] if password else secret)


def load() -> None:
    """Load the scanner, so that no text waits for it: 5 s if its rules were never compiled. Raises MemsyncError."""
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


def _apart(found: Iterable[_Find]) -> list[_Find]:
    """Join overlapping spans of (start, end, rule), and return them in order.

    A joined span has the rule of its first span. Of spans that begin together, the longest is the first, and of equal
    spans, one of memsync's own rules is the last.
    """
    spans: list[_Find] = []
    for start, end, rule in sorted(found, key=_order):
        if spans and start < spans[-1][1]:
            first, last, named = spans[-1]
            spans[-1] = first, max(last, end), named
        else:
            spans.append((start, end, rule))
    return spans


def _order(find: tuple[int, int, str] | tuple[int, int, str, bool]) -> tuple[int, int, bool, str]:
    """Return what sorts finds by start, then the longest first, then memsync's own rules last."""
    return find[0], -find[1], find[2].startswith(_OWN), find[2]


def _scanners() -> list[Scanner]:
    """Return Kingfisher's scanner and that of memsync's own rules; the cache keeps both. Raises MemsyncError."""
    with _loading:
        if _loaded:
            return _loaded
        try:
            from kingfisher_sdk import Rules, Scanner

            cache = os.path.join(cache_folder(), "secrets")
            rules = (
                Rules([_SLOW_RULES], confidence="low", cache_dir=cache),
                Rules([_OWN_RULES], builtins=False, confidence="low", cache_dir=cache),
            )
            _loaded.extend([Scanner(some, base64=False) for some in rules])
        except (ImportError, OSError, RuntimeError, ValueError) as error:
            hint = "Install it again: pip install kingfisher-secret-scanner"
            raise MemsyncError(f"the library that finds secrets cannot be used: {error}", hint=hint) from error
        return _loaded
