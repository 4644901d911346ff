"""Fold text to the form in which its words are indexed, looked up, compared and marked. Pure.

A person types `lodz` where a note has `Łódź`, so the index and the query are folded in the same way.
"""

from __future__ import annotations

import re
import unicodedata

_EMOJI = (
    "[\u231a-\u23ff\u25b6\u25c0\u25fb-\u25fe\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f3fa\U0001f400-\U0001faff]"
    "|[\u00a9\u00ae\u203c-\u3299](?=\ufe0f)"
)
_UNSEEN = "\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufe00-\ufe0f\ufeff"
WORD = re.compile(f"(?<![^\\W_])[^\\W\\d_]+(?=\\d+\\.\\d)|{_EMOJI}|(?:[^\\W_][\u0300-\u036f{_UNSEEN}]*)+")
"""A word of a text that is not folded: it may have invisible characters inside, and marks of their own on letters."""

PLAIN_WORD = re.compile(r"[^\W_]+")
"""A word of a folded text."""

# A joiner between Latin letters does nothing; in Persian a word has parts, and in an emoji it is no letter.
_INVISIBLE = re.compile(f"[{_UNSEEN}]|(?<=[A-Za-z\u00c0-\u024f])[\u200c\u200d](?=[A-Za-z\u00c0-\u024f])")
_MARKS = re.compile("(?<![\u0418\u0438])[\u0300-\u036f]")  # й is a letter of its own
_LETTERS = str.maketrans(
    dict(zip("łŁøØđĐðÐıħĦŧŦƚɨſ₀₁₂₃₄₅₆₇₈₉", "lLoOdDdDihHtTlis0123456789", strict=True))
    | {"ß": "ss", "ẞ": "SS", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "þ": "th", "Þ": "TH"}
    | {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬆ": "st"}
    | {chr(code + 0xFEE0): chr(code) for code in range(0x21, 0x7F) if chr(code).isalnum()}  # letters of full width
)
_POINT = re.compile(r"\d\.\d")
_VERSION = re.compile(r"(?<![^\W_])(?:[vV]|([^\W\d_]+))(\d+)(?=\.\d)")
_HYPHENED = re.compile(r"(?<![\w./-])([^\W\d_]+)[-\u2010\u2011]([^\W\d_]+)(?![\w/\u2010\u2011-]|\.\w)")


def folded(text: str) -> str:
    """Return a text with plain letters (`Łódź` as `Lodz`), without invisible characters.

    An emoji becomes a word. A version loses its `v`, and other letters before it become a word of their own.
    """
    if "." in text and _POINT.search(text):
        text = _VERSION.sub(r"\1 \2", text)
    if text.isascii():
        return text
    text = re.sub(_EMOJI, lambda emoji: f" emoji{ord(emoji[0]):x} ", text)
    text = unicodedata.normalize("NFD", _INVISIBLE.sub("", text).translate(_LETTERS))
    return unicodedata.normalize("NFC", _MARKS.sub("", text))


def indexed(text: str) -> str:
    """Return a text as the word index takes it: folded, then other forms of its words that may be typed.

    They are `oncall` for `on-call`, and `v18` for `v18.17.1`. They come last, so that no phrase is torn apart.
    """
    forms = [first + second for first, second in _HYPHENED.findall(text)] if "-" in text or not text.isascii() else []
    forms += [found[0] for found in _VERSION.finditer(text)] if "." in text else []
    return folded(" ".join([text, *forms]) if forms else text)
