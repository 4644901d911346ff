"""What is told without markdown-it or the tokenizer is what they would tell."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
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
    """Return the tokens of a text's blocks, and the link definitions; none if it cannot be parsed."""
    tree = blocks.parse_blocks(text.split("\n"))
    return (tree.tokens, tree.env) if tree else ([], {})


@given(MARKDOWN)
@example(LINKS)
def test_paragraphs_that_are_not_parsed_have_no_links_and_no_tags(text: str) -> None:
    """Targets, anchors, labels, lines and tags are those of a full parse."""
    tokens, env = parsed(text)
    quickly = inline.find_inline(thread_parser(), tokens, dict(env))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inline, "_may_hold", lambda content, env: True)
        fully = inline.find_inline(thread_parser(), tokens, dict(env))
    assert (quickly.links, quickly.tags) == (fully.links, fully.tags)


WORDS = [
    "heron", "Heron's", "naïve", "用SQLite", "[MASK]", "[CLS", "x" * 120, "a_b", "e\u0301", "\u200b", "\u00a0", "\x01",
    "ﬁ", "3.14",
]  # fmt: skip
TEXT = st.lists(st.one_of(st.sampled_from([*WORDS, " ", "\n", "\t", "\x0b", "\u2028"]), st.text(max_size=8))).map(
    "".join
)


@pytest.fixture(scope="module")
def counted() -> Callable[[list[str]], list[int]]:
    """Return the tokenizer's own counts."""
    tokenizer = Tokenizer.from_str(minilm._read_file(minilm.TOKENIZER).decode())
    tokenizer.no_truncation()
    return lambda texts: [len(tokenizer.encode(text, add_special_tokens=False)) for text in texts]


@pytest.mark.slow
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
