"""`memsync pref` and `memsync pattern`."""

from __future__ import annotations

import sys

import click

from memsync.cli.arguments import FREE_TEXT
from memsync.cli.common import json_option, opened
from memsync.cli.text import printable, say, say_json
from memsync.cli.writing import say_written

_USER = click.option("--user", default="", metavar="NAME", help="User (default: everyone).")
NOT_SET_EXIT_CODE = 1


@click.group()
def pref() -> None:
    """Preferences: the `- key: value` lines of preferences.md."""


@pref.command("list")
@_USER
@json_option
@click.pass_context
def list_(context: click.Context, user: str, as_json: bool) -> None:
    """Print every preference."""
    with opened(context) as memory:
        found = memory.preferences(user=user)
    if as_json:
        say_json({"preferences": found})
        return
    for one in found:
        say(printable(f"{one.key}: {one.value}"))


@pref.command()
@click.argument("key")
@_USER
@json_option
@click.pass_context
def get(context: click.Context, key: str, user: str, as_json: bool) -> None:
    """Print the value of KEY; exits with 1 when it is not set."""
    with opened(context) as memory:
        found = next((one for one in memory.preferences(user=user) if one.key == key), None)
    if as_json:
        say_json({"preference": found})
    elif found is not None:
        say(printable(found.value))
    if found is None:
        sys.exit(NOT_SET_EXIT_CODE)


@pref.command("set", context_settings=FREE_TEXT)
@click.argument("key")
@click.argument("value", nargs=-1, required=True)
@_USER
@json_option
@click.pass_context
def set_(context: click.Context, key: str, value: tuple[str, ...], user: str, as_json: bool) -> None:
    """Set KEY to VALUE and print its path:line. Options must come before VALUE."""
    with opened(context) as memory:
        written = memory.set_preference(key, " ".join(value), user=user)
    say_written(written, as_json=as_json)


@click.group()
def pattern() -> None:
    """Learned patterns: list items with `{.pattern …}`, counted up each time they are observed."""


@pattern.command("list")
@json_option
@click.pass_context
def list_patterns(context: click.Context, as_json: bool) -> None:
    """Print every pattern, the surest first."""
    with opened(context) as memory:
        found = memory.patterns()
    if as_json:
        say_json({"patterns": found})
        return
    for one in found:
        about = " ".join(filter(None, (f"{one.confidence:.2f}", f"{one.count}x", one.type, one.key)))
        say(f"{printable(one.path)}:{one.line}  {printable(one.text)}  ({printable(about)})")


@pattern.command(context_settings=FREE_TEXT)
@click.argument("text", nargs=-1, required=True)
@click.option("--type", "pattern_type", default="", help="What sort of pattern it is: style, habit, …")
@click.option("--key", default="", help="What it is about; equal keys are one pattern.")
@click.option("--confidence", type=click.FloatRange(0, 1), default=0.0, help="How sure it is; else it grows by itself.")
@json_option
@click.pass_context
def observe(
    context: click.Context, text: tuple[str, ...], pattern_type: str, key: str, confidence: float, as_json: bool
) -> None:
    """Note that TEXT was observed, once more if it was before, and print its path:line.

    Options must come before TEXT.
    """
    with opened(context) as memory:
        written = memory.observe(" ".join(text), pattern_type=pattern_type, key=key, confidence=confidence)
    say_written(written, as_json=as_json)
