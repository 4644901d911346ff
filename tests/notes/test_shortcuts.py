"""What is told without markdown-it or the tokenizer is what they would tell."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it.common.normalize_url import normalizeLink, validateLink
from tokenizers import Tokenizer

from memsync.embed import minilm
from memsync.notes import blocks, inline
from memsync.notes.blocks import thread_parser
from memsync.notes.chunk import passage_text

ATOMS = [
    "[a b](https://x.example/p)", "[T](http://a.b/c#d)", "[L](notes/x.md)", "[P](https://a.b/%20x?q=1&r=2)",
    "[](u)", "[C](https://a.b/(c))", '[Q](https://a.b "t")', "[H](https://B.example)", "[r]",
    "[r]: http://x.y\n", "[[w|l]]", "[^1]", "^[n](u)", "![i](https://a.b/i)", "[", "]", "(", ")", "](", "!",
    "`", "\\", "<b>", "<", "https://a.b/c", "#tag", " #tag", "(#t)", "# ", "*", "**", "_", "~~~\n", "```\n",
    "&amp;", "& ", "\n", "\n\n", "- ", "  - ", "    - ", "\t- ", "* ", "+ ", "1. ", "10) ", "> ", "| ",
    "|-|-|\n", "---\n", "===\n", "text", " word. ", "é", "用", "{#i k=v}", "12:30 ", "- [a]: u\n",
    "- [x](https://a.b/c) y\n", "  - [x](https://a.b/c) y\n", "- plain item\n", "- - -\n", "-\n", "- a | b\n",
    "- [^n]: f\n",
]  # fmt: skip
MARKDOWN = st.lists(st.sampled_from(ATOMS), max_size=40).map("".join)
LINKS = (
    "- [Heron](https://heron.example/a)\n  - [Alder](alder.md#x) - C# & it nests\n- [Reed](r.md)\nlazy\n- [End](e)\n"
)


def parsed(text: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the tokens of a text's blocks, and what else there is to know."""
    tokens: list[Any] = []
    env: dict[str, Any] = {}
    state = blocks._BoundedState(text, thread_parser(), env, tokens)
    try:
        thread_parser().block.tokenize(state, state.line, state.lineMax)
    except IndexError:  # of markdown-it's
        tokens.append("failed")
    return tokens, env


@given(MARKDOWN)
@example(LINKS)
def test_plain_links_are_those_of_a_full_parse(text: str) -> None:
    """Targets, anchors, labels, lines, tags and what was too involved are the same."""
    tokens, env = parsed(text)
    found = [token for token in tokens if token != "failed"]
    quickly = inline.find_inline(thread_parser(), found, dict(env))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inline, "_plain_links", lambda paragraph: None)
        assert inline.find_inline(thread_parser(), found, dict(env)) == quickly


def test_plain_links_are_told_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above would also pass if the shortcut were never taken."""
    tokens, env = parsed(LINKS)
    monkeypatch.setattr(inline, "parse_inline", None)
    assert len(inline.find_inline(thread_parser(), tokens, env).links) == 4


@given(st.from_regex(re.compile(inline._PLAIN_LINK.pattern.replace("*+", "*")), fullmatch=True))
def test_target_of_a_plain_link_is_written_as_markdown_it_would(link: str) -> None:
    """It encodes nothing of it, and takes it for no danger."""
    match = inline._PLAIN_LINK.fullmatch(link)
    assert match is not None
    assert normalizeLink(match[2]) == match[2]
    assert validateLink(match[2])


WORDS = [
    "heron",
    "Heron's",
    "naïve",
    "用SQLite",
    "[MASK]",
    "[CLS",
    "x" * 120,
    "a_b",
    "e\u0301",
    "\u200b",
    "\u00a0",
    "\x01",
    "ﬁ",
    "3.14",
]
TEXT = st.lists(st.one_of(st.sampled_from([*WORDS, " ", "\n", "\t", "\x0b", "\u2028"]), st.text(max_size=8))).map(
    "".join
)


@pytest.fixture(scope="module")
def counted() -> Callable[[list[str]], list[int]]:
    """Return the tokenizer's own counts."""
    tokenizer = Tokenizer.from_str(minilm._read_file(minilm.TOKENIZER).decode())
    tokenizer.no_truncation()
    return lambda texts: [len(tokenizer.encode(text, add_special_tokens=False)) for text in texts]


@given(texts=st.lists(TEXT, max_size=4))
def test_word_pieces_are_the_tokenizers(counted: Callable[[list[str]], list[int]], texts: list[str]) -> None:
    """A text costs what its words cost, also those that were counted before; twice, because counts are kept."""
    counter = minilm.WordPieceCounter()
    assert counter.count(texts) == counted(texts)
    assert counter.count(texts[::-1]) == counted(texts[::-1])


def test_counts_are_kept_of_a_bounded_number_of_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many words a vault has, memory does not grow with them; long ones are not kept at all."""
    monkeypatch.setattr(minilm, "MAX_WORDS", 10)
    counter = minilm.WordPieceCounter()
    for start in range(0, 60, 6):
        numbers = " ".join(str(number) for number in range(start, start + 6))
        assert counter.count([numbers, "y" * 50])[0] == 6
        assert len(counter._known) <= 10
        assert all(len(word) <= minilm.MAX_WORD_CHARS for word in counter._known)


@given(st.lists(st.sampled_from([*ATOMS, "\n \n", "http://x.y/z", "[d]: u t\n"]), max_size=20).map("".join))
def test_passage_is_free_of_targets_and_blank_lines(text: str) -> None:
    """However little there is to take away."""
    passage = passage_text(text)
    assert passage == passage.strip()
    assert not re.search(r"\n\s*\n", passage) or passage == text.strip()
