"""How many planted secrets memsync finds, and how often ordinary text looks like one to it.

A seeded generator makes up secrets (data/secrets.txt) and plants them in sentences, code, commands, settings and
transcripts. The rules were not tuned on the kinds and forms that `is_held_out` draws. The false alarms are those in the
notes of the data folder.
"""

from __future__ import annotations

import base64
import json
import random
import re
import string
import time
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.figures import Row
from memsync.notes.secrets import redacted, secrets_in

SEED = 39
COUNT = 2_000
HELD_OUT = 6
"""One of so many kinds, and of so many forms, is held out."""
SUFFIXES = {".md", ".txt", ".json", ".jsonl"}
BASE62 = string.ascii_letters + string.digits
LETTERS = {
    "w": BASE62,
    "u": BASE62 + "-_",
    "b": BASE62 + "+/",
    "d": string.digits,
    "h": "0123456789abcdef",
    "H": "0123456789ABCDEF",
    "U": string.ascii_uppercase + string.digits,
    "l": string.ascii_lowercase + string.digits,
    "A": string.ascii_uppercase + "234567",
    "q": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
}
WORDS = (
    "heron",
    "crane",
    "pond",
    "Winter",
    "Sommer",
    "reed",
    "Berlin",
    "coffee",
    "Dragon",
    "velvet",
    "otter",
    "harbor",
    "tiger",
    "rocket",
    "Amigo",
    "soleil",
)
MARKS = str.maketrans("⏎␍␛␀", "\n\r\x1b\u200b")
_VALUE = re.compile("‹(.+?)›")


class Planted(NamedTuple):
    """A text with one secret. `kind` and `form` say what was planted where."""

    kind: str
    form: str
    text: str
    secret: str
    is_held_out: bool


def planted(count: int = COUNT, seed: int = SEED) -> Iterator[Planted]:
    """Yield secrets in texts. Half are recognizable by their own form, half by the text around them."""
    chance, parts = random.Random(seed), _parts()
    for number in range(count):
        kind, line = chance.choice(parts["tokens" if number % 2 else "lines"])
        place, form = chance.choice(parts["places"]) if number % 2 else ("", "◊")
        wrapping, around = chance.choice(parts["wrappings"])
        how, encode = chance.choice(ENCODINGS)
        before, _, rest = _filled(line if "«" in line else f"«{line}»", chance).partition("«")
        secret, _, after = rest.partition("»")
        form_before, form_after = form.split("◊")
        text = around.replace("◊", f"{form_before}{before}\0{secret}\0{after}{form_after}")
        text, secret = encode(text, chance)
        is_new = is_held_out(kind) or is_held_out(place)
        yield Planted(kind, " / ".join(filter(None, (place, wrapping, how))), text, secret, is_new)


def is_held_out(name: str) -> bool:
    """Tell whether a kind or form is one of those on which the rules were not tuned."""
    return bool(name) and zlib.crc32(name.encode()) % HELD_OUT == 3


def _parts() -> dict[str, list[tuple[str, str]]]:
    """Return name and template of each line of the data, by section."""
    parts: dict[str, list[tuple[str, str]]] = {}
    text = (Path(__file__).parent / "data" / "secrets.txt").read_text("utf-8")
    section = ""
    for line in text.split("\n"):
        name, is_template, template = line.partition(" | ")
        if is_template:
            parts[section].append((name, template.translate(MARKS)))
        elif line.startswith("["):
            section = line.strip("[]")
            parts[section] = []
    return parts


def _filled(template: str, chance: random.Random) -> str:
    """Return a template with random characters in place of each ‹value›."""

    def some(length: int, letters: str = BASE62) -> str:
        return "".join(chance.choices(letters, k=length))

    def phrase() -> str:
        words, number = chance.sample(WORDS, 3), str(chance.randint(2, 2030))
        one = f"{words[0]}{chance.choice('-_.!#')}{words[1]}{number}"
        return chance.choice(
            (
                one,
                f"{words[0].title()}{number}!",
                f"{words[0]}{number}-{words[1]}",
                "-".join(words),
                f"{words[0]}!{words[2]}",
            )
        )

    def in_base64(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    made: dict[str, Callable[[], str]] = {
        "crc": lambda: _summed(some(30)),
        "password": lambda: some(5) + chance.choice("!#%+*?^~") + some(4) + chance.choice("!$_-.=@") + some(3),
        "phrase": phrase,
        "uuid": lambda: str(uuid.UUID(int=chance.getrandbits(128), version=4)),
        "urlpass": lambda: f"{some(6)}%40{some(4)}!{some(3)}",
        "basic": lambda: in_base64(f"dana:{some(14)}"),
        "b64phrase": lambda: in_base64(phrase()),
        "b64url": lambda: in_base64(f"postgres://app:{some(14)}@db.internal:5432/orders"),
    }

    def value(match: re.Match[str]) -> str:
        name = match[1]
        return made[name]() if name in made else some(int(name[1:]), LETTERS[name[0]])

    return _VALUE.sub(value, template)


def _summed(body: str) -> str:
    """Return 30 characters with the checksum that GitHub and npm use."""
    rest, end = zlib.crc32(body.encode()), ""
    digits = string.digits + string.ascii_uppercase + string.ascii_lowercase
    while rest or len(end) < 6:
        rest, digit = divmod(rest, 62)
        end = digits[digit] + end
    return body + end


# Each encoding takes a text with the secret between two NUL characters, and returns the text and the secret.


def _plain(text: str, _: random.Random) -> tuple[str, str]:
    return text.replace("\0", ""), text.split("\0")[1]


def _in_json(text: str, _: random.Random) -> tuple[str, str]:
    before, secret, after = (json.dumps(part)[1:-1] for part in text.split("\0"))
    return f'{{"type": "user", "message": {{"content": "{before}{secret}{after}"}}}}\n', secret


def _in_json_twice(text: str, chance: random.Random) -> tuple[str, str]:
    whole, secret = _in_json(text, chance)
    return json.dumps({"output": whole}), json.dumps(secret)[1:-1]


def _wrapped(text: str, _: random.Random, width: int = 80, end: str = "\n") -> tuple[str, str]:
    def cut(line: str) -> str:
        pieces, length = [""], 0
        for letter in line:
            if length == width:
                pieces.append("")
                length = 0
            pieces[-1] += letter
            length += letter != "\0"
        return end.join(pieces)

    return _plain("\n".join(map(cut, text.split("\n"))), _)


def _continued(text: str, chance: random.Random) -> tuple[str, str]:
    return _wrapped(text, chance, 64, "\\\n")


def _base64(text: str, _: random.Random) -> tuple[str, str]:
    coded = base64.b64encode(text.replace("\0", "").encode()).decode()
    return f"{{'data': '{coded}'}}", coded


def _base64_lines(text: str, _: random.Random) -> tuple[str, str]:
    coded = base64.encodebytes(text.replace("\0", "").encode()).decode().rstrip("\n")
    return f"echo <<EOF | base64 -d\n{coded}\nEOF\n", coded


def _coloured(text: str, _: random.Random) -> tuple[str, str]:
    before, secret, after = text.split("\0")
    return f"{before}\x1b[01;31m\x1b[K{secret}\x1b[m\x1b[K{after}", secret


ENCODINGS: list[tuple[str, Callable[[str, random.Random], tuple[str, str]]]] = [
    *[("plain", _plain)] * 8,
    *[("in JSON", _in_json)] * 4,
    ("in JSON twice", _in_json_twice),
    ("wrapped", _wrapped),
    ("continued", _continued),
    ("in base64", _base64),
    ("in base64 lines", _base64_lines),
    ("found by grep", _coloured),
]


def stays(secret: str, text: str) -> bool:
    """Tell whether a text still has the secret, or a quarter of a long one."""
    size = max(min(len(secret), 8), len(secret) // 4)
    return any(secret[start : start + size] in text for start in range(len(secret) - size + 1))


def found_and_false(data: Path, _: Path) -> list[Row]:
    """Redact the planted secrets, and count what looks like a secret in the texts of the data folder."""
    all_planted = list(planted())
    missed = [one for one in all_planted if stays(one.secret, redacted(one.text)[0])]
    held_out = [one for one in all_planted if one.is_held_out]
    texts = [path.read_text("utf-8", "replace") for path in sorted(data.rglob("*")) if path.suffix in SUFFIXES]
    began = time.process_time()
    alarms = Counter(secret.kind for text in texts for secret in secrets_in(text))
    seconds = time.process_time() - began
    lines, characters = sum(text.count("\n") for text in texts), sum(map(len, texts))
    kinds = Counter(one.kind for one in missed)
    return [
        Row(f"secrets: share of {len(all_planted):,} planted ones that are found; missed: {_listed(kinds)}",
            1 - len(missed) / len(all_planted)),
        Row(f"secrets: share of the {len(held_out)} of these whose kind or form the rules were not tuned on",
            1 - sum(one.is_held_out for one in missed) / len(held_out)),
        Row(f"secrets: found in 1,000 of {lines:,} lines; {_listed(alarms)}", 1000 * alarms.total() / lines),
        Row("secrets: millions of characters a second of processor time", characters / seconds / 1e6),
    ]  # fmt: skip


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in counts.most_common()) or "none"
