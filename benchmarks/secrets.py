"""How many planted secrets memsync finds, and how often ordinary text looks like one to it.

The secrets are made up by a seeded generator, each as its issuer writes it, with its checksum where it has one. Each
kind is planted in sentences, code, JSON and settings. The false alarms are those in the notes of the data folder.
"""

from __future__ import annotations

import base64
import json
import random
import re
import string
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.figures import Row
from memsync.notes.secrets import redacted, secrets_in

SEED = 25
OF_EACH_FORM = 3
SUFFIXES = {".md", ".txt", ".json", ".jsonl"}
BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
URL_SAFE = BASE62 + "-_"
HEX = "0123456789abcdef"
FORMS = (
    "Dana wrote that the {name} is {secret} and that it works until Friday.",
    '    client = connect({name}="{secret}", timeout=30)',
    '{{"host": "db.internal", "{name}": "{secret}", "retries": 3}}',
    "export {upper}={secret}",
)
IN_URL = (
    "The staging copy answers at {secret} since noon.",
    '    client = connect("{secret}", timeout=30)',
    '{{"url": "{secret}", "retries": 3}}',
    "DATABASE_URL={secret}",
)


def _made(chance: random.Random) -> dict[str, tuple[str, Callable[[], str]]]:
    """Return for each kind the name that its variables usually have, and what makes one."""

    def some(length: int, letters: str = BASE62) -> str:
        return "".join(chance.choices(letters, k=length))

    def summed(prefix: str) -> str:
        body, rest, end = some(30), 0, ""
        rest = zlib.crc32(body.encode())
        while rest or len(end) < 6:
            rest, digit = divmod(rest, 62)
            end = BASE62[digit] + end
        return prefix + body + end

    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    def jwt() -> str:
        return (
            f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part({'sub': some(10), 'iat': 1791000000})}.{some(43, URL_SAFE)}"
        )

    def password() -> str:
        return some(10) + chance.choice("!#%+*?") + some(3)

    def key_block() -> str:
        lines = "\n".join(some(64, BASE62 + "+/") for _ in range(12))
        return f"-----BEGIN RSA PRIVATE KEY-----\n{lines}\n-----END RSA PRIVATE KEY-----"

    digits = string.digits
    return {
        "AWS key id": ("aws_access_key_id", lambda: "AKIA" + some(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")),
        "AWS secret key": ("aws_secret_access_key", lambda: some(40, BASE62 + "+/")),
        "GitHub": ("github_token", lambda: summed("ghp_")),
        "GitHub, fine-grained": ("github_token", lambda: f"github_pat_11{some(20).upper()}_{some(59)}"),
        "GitLab": ("gitlab_token", lambda: "glpat-" + some(20, URL_SAFE)),
        "Slack": ("slack_token", lambda: f"xoxb-{some(12, digits)}-{some(13, digits)}-{some(24)}"),
        "Stripe": ("stripe_key", lambda: "sk_live_" + some(24)),
        "OpenAI": ("openai_api_key", lambda: f"sk-proj-{some(74, URL_SAFE)}T3BlbkFJ{some(74, URL_SAFE)}"),
        "Anthropic": ("anthropic_api_key", lambda: f"sk-ant-api03-{some(93, URL_SAFE)}AA"),
        "Google": ("google_api_key", lambda: "AIza" + some(35, URL_SAFE)),
        "Hugging Face": ("hf_token", lambda: "hf_" + some(34)),
        "SendGrid": ("sendgrid_api_key", lambda: f"SG.{some(22, URL_SAFE)}.{some(43, URL_SAFE)}"),
        "npm": ("npm_token", lambda: summed("npm_")),
        "PyPI": ("pypi_token", lambda: "pypi-AgEIcHlwaS5vcmc" + some(155, URL_SAFE)),
        "JWT": ("session_token", jwt),
        "bearer": ("authorization", lambda: f"Bearer {some(40)}"),
        "private key": ("private_key", key_block),
        "URL with a password": ("", lambda: f"https://dana:{some(16)}@git.northfield.io/team/repo.git"),
        "PostgreSQL": ("", lambda: f"postgresql://app:{some(14)}@db.internal:5432/orders"),
        "MongoDB": ("", lambda: f"mongodb+srv://app:{some(14)}@cluster0.ab1cd.mongodb.net/orders"),
        "Redis": ("", lambda: f"redis://:{some(20)}@cache.internal:6379/0"),
        "Azure storage": ("", lambda: f"AccountName=orders;AccountKey={some(86, BASE62 + '+/')}=="),
        "Slack webhook": ("", lambda: f"https://hooks.slack.com/services/T{some(10).upper()}/B{some(10).upper()}/{some(24)}"),
        "password": ("password", password),
        "hex": ("api_secret", lambda: some(40, HEX)),
        "base64": ("auth_token", lambda: some(44, BASE62 + "+/")),
    }  # fmt: skip


def planted() -> Iterator[tuple[str, str, str]]:
    """Yield the kind, a text with one secret, and the secret; always the same ones."""
    chance = random.Random(SEED)
    for kind, (name, make) in _made(chance).items():
        for _ in range(OF_EACH_FORM):
            for form in FORMS if name else IN_URL:
                secret = make()
                in_json = secret.replace("\n", "\\n") if form.startswith("{{") else secret
                yield kind, form.format(name=name, upper=name.upper(), secret=in_json), in_json


def found_and_false(data: Path, _: Path) -> list[Row]:
    """Redact the planted secrets, and count what looks like a secret in the texts of the data folder."""
    missed = Counter(kind for kind, text, secret in planted() if _kept(secret) in redacted(text)[0])
    count = sum(1 for _ in planted())
    texts = [path.read_text("utf-8", "replace") for path in sorted(data.rglob("*")) if path.suffix in SUFFIXES]
    began = time.perf_counter()
    alarms = Counter(secret.kind for text in texts for secret in secrets_in(text))
    seconds = time.perf_counter() - began
    lines, characters = sum(text.count("\n") for text in texts), sum(map(len, texts))
    return [
        Row(
            f"secrets: share of {count} planted ones that are found; missed: {_listed(missed)}",
            1 - missed.total() / count,
        ),
        Row(f"secrets: found in 1,000 of {lines:,} lines; {_listed(alarms)}", 1000 * alarms.total() / lines),
        Row("secrets: millions of characters a second", characters / seconds / 1e6),
    ]


def _kept(secret: str) -> str:
    """Return the part of a planted text that may not be left over: of a URL its password, of a key block a line."""
    if "BEGIN" in secret:
        return secret.replace("\\n", "\n").split("\n")[3]
    password = re.search(r"(?<=:)[^:@/]+(?=@)|(?<=Bearer )\S+|(?<=AccountKey=).+|(?<=B)/\w+$", secret)
    return password.group() if password else secret


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in counts.most_common()) or "none"
