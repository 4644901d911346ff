"""Secrets are found in text and replaced by their kind and digest; ordinary text is not scanned at all."""

from __future__ import annotations

import base64
import hashlib
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

from benchmarks.secrets import planted, stays
from memsync.notes import secrets
from memsync.notes.secrets import redacted, secrets_in

TOKEN = "ghp_" + "q7R2m9Kx4Lw8Zt1Vb6Nc3Yp5Hd0Jf2Sg7Ta8"
PASSWORD = "xtNmVY8omR" + "1PY8"
ASKED = 0.97


def test_planted_secrets_are_replaced_and_a_redacted_text_has_none() -> None:
    """At most 3 of 100 stay; the second time there is nothing to replace; the mark has the digest of the secret."""
    all_planted = list(planted())
    results = [redacted(one.text)[0] for one in all_planted]
    missed = [one for one, text in zip(all_planted, results, strict=True) if stays(one.secret, text)]
    assert len(missed) <= (1 - ASKED) * len(all_planted), missed[:5]
    assert all(redacted(text) == (text, 0) for text in results)
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()[:8]
    assert redacted(f"it is {TOKEN}.\n") == (f"it is [secret: github-pat, {digest}].\n", 1)


@pytest.mark.parametrize("secret", [TOKEN, "AKIA" + "QZ3XW7LMN2RT5VKP", "xoxb-123456789012-1234567890123-" + "aB3" * 8])
def test_secret_is_found_whatever_stands_beside_it(secret: str) -> None:
    """What stands there stays as it is, and so does the rest of the text. Two in one line are two secrets."""
    for beside in (
        *",.;:!?&%/|*~'\"`()[]{}<>=#@\\\r\t\u200b\u00bb\u3002\u3001",
        "**",
        "\x1b[0m",
        "\\n",
        '\\"',
        "\\u001b[1m",
        "\\\\n",
    ):
        text = f"the key {beside}{secret}{beside} and{beside}{secret}"
        pieces = re.split(r"\[secret: [a-z0-9-]+, [0-9a-f]{8}\]", redacted(text)[0])
        assert pieces == [f"the key {beside}", f"{beside} and{beside}", ""]


@pytest.mark.parametrize(
    "value",
    [
        *(
            "test-only",
            "example",
            "changeme",
            "change-me",
            "your-api-key",
            "xxxxxxxx1",
            "<token1>",
            "${DB_PASS1}",
            "********",
        ),
        *("$PASSW0RD2", "password123", "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        *("{{token1}}", "%DB_PASS1%", "YOUR_TOKEN_1", "redacted-1"),
    ],
)
def test_placeholder_is_no_secret(value: str) -> None:
    """Also where a secret would be found."""
    for form in (
        "password: {}",
        'token = "{}"',
        "https://dana:{}@git.northfield.io/x",
        "mysql -u app -p{} orders",
        "export API_KEY={}",
    ):
        assert secrets_in(form.format(value)) == []
    assert len(secrets_in(f"postgres://app:{PASSWORD}@db.example.com/{value}")) == 1


def test_secret_in_base64_or_over_several_lines_is_replaced_whole() -> None:
    """Finds that overlap are one secret."""
    coded = base64.encodebytes(f"export DB_PASSWORD={PASSWORD} and {TOKEN} {'x ' * 40}".encode()).decode()
    for text in (
        coded.strip(),
        coded.replace("\n", ""),
        f"sk-ant-api03-{TOKEN[4:] * 2}A\nbcAA",
        f"{TOKEN[:30]}\\\n{TOKEN[30:]}",
    ):
        assert re.fullmatch(r"data: \[secret: [a-z0-9-]+, [0-9a-f]{8}\]\nend", redacted(f"data: {text}\nend")[0]), text


@pytest.mark.parametrize("before", ["", "\ufeff", "a\0" * 99, "日本 é 🎉 ", "\ud800", '"' * 1000, "x" * 5000 + " "])
def test_positions_are_those_of_the_text(before: str) -> None:
    """A byte order mark, NUL, wide characters and lone surrogates do not shift them; nothing else is changed."""
    text = f'{before} password: "{PASSWORD}" and {TOKEN} und ü {TOKEN}\n'
    assert [text[found.start : found.end] for found in secrets_in(text)] == [PASSWORD, TOKEN, TOKEN]
    assert redacted(text)[0].startswith(f'{before} password: "[secret: ')
    assert redacted(text)[0].count("[secret: ") == 3


def test_a_key_without_its_end_is_replaced_and_a_variable_is_not() -> None:
    """A tool's output is often cut; a text that only names a variable has no secret."""
    key = "-----BEGIN RSA PRIVATE KEY-----" + "\nMIIEpAIBAAKCAQEAq7R2m9Kx4Lw8Zt1Vb6Nc3Yp5Hd0Jf2Sg7Ta8Wm4Xz" * 3
    assert re.fullmatch(r"It is \[secret: private-key, [0-9a-f]{8}\]\.", redacted(f"It is {key}.")[0])
    assert secrets_in("password = $PASSW0RD2") == []


HOSTILE = [
    *(
        "a",
        '"',
        "password=",
        "https://a:",
        "AKIA",
        "-----BEGIN ",
        "token is 1a ",
        "[secret: ",
        "login with password ",
        "password is ",
    ),
    *("7z -pzzzz ", "csrftoken=", "https://z:z@git.codecatalyst.aws/", "aB3dE6gH9jK2" * 7 + "\n"),
]


@pytest.mark.parametrize("part", HOSTILE)
def test_hostile_text_is_searched_to_its_end(part: str) -> None:
    """Once each rule took hours for ten megabytes of what it begins with; nothing is left after a redaction."""
    text = part * (200_000 // len(part))
    assert secrets_in(redacted(text)[0]) == []


def test_each_rule_reads_a_bounded_part_of_a_text() -> None:
    """A repetition without a limit takes time with the square of the number of matches."""
    rules = yaml.safe_load(secrets._OWN_RULES.read_text("utf-8"))["rules"]
    bare = {rule["id"]: re.sub(r"\\.|\[(?:\\.|[^\]])+\]", "", rule["pattern"]) for rule in rules}
    assert [rule for rule, pattern in bare.items() if re.search(r"[*+]|\{\d+,\}", pattern)] == []


@pytest.mark.parametrize("text", ["prefers tabs over spaces", "met Dana on 2026-11-24 at 10:02 about the key result"])
def test_ordinary_text_does_not_load_the_scanner(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading takes half a second, which a write of ordinary text must not pay."""
    monkeypatch.setattr(secrets, "_loaded", [])
    assert secrets_in(text) == []
    assert secrets._loaded == []


def test_threads_that_search_first_at_once_load_one_scanner(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon's threads do: with two pairs of scanners no later search would work."""
    monkeypatch.setattr(secrets, "_loaded", [])
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(secrets.secrets_in, [f"password = 'hunter{number}hunter'" for number in range(6)]))
    assert all(found) and len(secrets._loaded) == 2
