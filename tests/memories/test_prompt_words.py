"""What of a prompt is looked up: telling words, or names of what was pasted; nothing of talk and slash commands."""

from __future__ import annotations

import pytest

from memsync.memories.prompt_words import PromptWords

TRACE = """Traceback (most recent call last):
  File "/srv/app/main.py", line 41, in <module>
    run_orders(queue)
app.errors.OrderMissingError: no order 4711
"""
LOG = "2026-05-20T10:01:22Z INFO  server started\n2026-05-20T10:01:29Z ERROR upstream said 502 to parse_row"


@pytest.mark.parametrize(
    "prompt",
    ["continue", "yes", "ok, go ahead!", "/compact", "/model opus", "make it shorter", "weiter bitte", "",
     "kannst du das bitte nochmal machen?", "TypeError: x is undefined\n    at <anonymous>:1:2", "~~~\nx = 1\n~~~"],
)  # fmt: skip
def test_talk_and_commands_look_up_nothing(prompt: str) -> None:
    """Neither does pasted text without a name of its own."""
    assert PromptWords.of(prompt) == PromptWords()


@pytest.mark.parametrize(
    ("prompt", "telling", "names", "is_task"),
    [
        ("fix the failing test", set(), set(), True),
        ("write the menu for Saturday", {"menu", "saturda"}, set(), True),
        ("did we ship the herons?", {"heron"}, set(), False),
        ("new apartment", {"apartment", "new"}, set(), False),
        (TRACE, set(), {"run_orders", "OrderMissingError"}, False),
        (f"why do the herons fail?\n{LOG}", {"heron"}, {"parse_row"}, False),
        ("/srv/heron/x is empty", {"heron", "srv"}, set(), True),
    ],
)
def test_words_and_names(prompt: str, telling: set[str], names: set[str], is_task: bool) -> None:
    """Words of any work do not tell, and the prose of what was pasted is not looked up."""
    words = PromptWords.of(prompt)
    assert ({*words.telling}, {*words.names}, words.is_task) == (telling, names, is_task)
    assert "upstream" not in words.text and "recent" not in words.text


def test_of_a_long_prompt_both_ends_are_looked_up() -> None:
    """The middle of it is rarely what is meant."""
    text = PromptWords.of(f"herons {'and storks ' * 5_000} in alders").text
    assert text.startswith("herons") and text.endswith("alders") and len(text) < 1_100
