"""Secrets are found in text and replaced by their kind and digest; ordinary text is not scanned at all."""

from __future__ import annotations

import hashlib
import re

import pytest

from benchmarks.secrets import planted
from memsync.notes import secrets
from memsync.notes.secrets import redacted, secrets_in

TOKEN = "ghp_" + "q7R2m9Kx4Lw8Zt1Vb6Nc3Yp5Hd0Jf2Sg7Ta8"
PASSWORD = "xtNmVY8omR" + "1PY8"
ASKED = 0.97


def test_planted_secrets_are_replaced_and_a_redacted_text_has_none() -> None:
    """At most 3 of 100 stay; the second time there is nothing to replace; the mark has the digest of the secret."""
    texts = [text for _, text, _ in planted()]
    results = [redacted(text) for text in texts]
    assert sum(count > 0 for _, count in results) >= ASKED * len(texts)
    assert all(redacted(text) == (text, 0) for text, _ in results)
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()[:8]
    assert redacted(f"it is {TOKEN}.\n") == (f"it is [secret: github-pat, {digest}].\n", 1)


def test_a_text_with_a_secret_is_never_held_back_from_the_scanner(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found when the scanner is loaded is found by the first text, too."""
    known = [text for _, text, _ in planted() if secrets_in(text)]
    assert len(known) >= 300
    loaded = secrets._loaded[0]
    for text in known:
        monkeypatch.setattr(secrets, "_loaded", [])
        monkeypatch.setattr(secrets, "_scanner", lambda: loaded)
        assert secrets_in(text)


@pytest.mark.parametrize("before", ["", "\ufeff", "a\0" * 99, "日本 é 🎉 ", "\ud800", '"' * 1000, "x" * 5000 + " "])
def test_positions_are_those_of_the_text(before: str) -> None:
    """A byte order mark, NUL, wide characters and lone surrogates do not shift them; nothing else is changed."""
    text = f'{before} password: "{PASSWORD}" and {TOKEN} und ü {TOKEN}\n'
    assert [text[found.start : found.end] for found in secrets_in(text)] == [PASSWORD, TOKEN, TOKEN]
    assert redacted(text)[0].startswith(f'{before} password: "[secret: ')
    assert redacted(text)[0].count("[secret: ") == 3


def test_a_key_without_its_end_is_replaced_and_a_variable_is_not() -> None:
    """A tool's output is often cut; a text that only names a variable has no secret."""
    key = next(secret for kind, _, secret in planted() if kind == "private key").partition("\n-----END")[0]
    assert re.fullmatch(r"It is \[secret: private-key, [0-9a-f]{8}\]\.", redacted(f"It is {key}.")[0])
    assert secrets_in("password = $PASSW0RD2") == []


@pytest.mark.parametrize(
    "part", ["a", '"', "password=", "https://a:", "AKIA", "-----BEGIN ", "token is 1a ", "[secret: "]
)
def test_hostile_lines_of_a_million_characters_end(part: str) -> None:
    """No regular expression takes more than linear time."""
    text = part * (1_000_000 // len(part))
    assert redacted(redacted(text)[0])[1] == 0
    secrets._SUSPECT.search(text[: secrets._SHORT])


@pytest.mark.parametrize("text", ["prefers tabs over spaces", "met Dana on 2026-11-24 at 10:02 about the key result"])
def test_ordinary_text_does_not_load_the_scanner(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading takes half a second, which a write of ordinary text must not pay."""
    monkeypatch.setattr(secrets, "_loaded", [])
    assert secrets_in(text) == []
    assert secrets._loaded == []
