"""`memsync context`."""

from __future__ import annotations

import click

from memsync.cli.common import here, json_option, opened
from memsync.cli.text import printable, say, say_json, say_pending


@click.command()
@click.argument("words", nargs=-1, metavar="[QUERY]...")
@click.option("--thread", default="", metavar="NAME", help="With this thread's own prompt and its last messages.")
@click.option("--budget", type=click.IntRange(1), metavar="TOKENS", help="Word pieces. [default: context.budget, 4000]")
@click.option(
    "--day", default="", metavar="DATE", help="Include the logs of this day and the day before. [default: today]"
)
@json_option
@click.pass_context
def context(
    context: click.Context, words: tuple[str, ...], thread: str, budget: int | None, day: str, as_json: bool
) -> None:
    """Print what an agent should read before it answers QUERY, never more than the budget (docs/context.md).

    SOUL.md, active prompts, the thread's prompt; then, quoted with path and line, pinned notes and MEMORY.md, the
    thread's last messages, the logs of today and yesterday, and what is found for QUERY. What had to be left out is
    told on stderr.

    \b
    memsync context which store did we choose --budget 2000
    memsync context --thread the-store --json
    """
    with opened(context) as memory:
        found = memory.context(
            " ".join(words), thread=here(context).note(thread) if thread else "", budget=budget or 0, day=day
        )
    if as_json:
        say_json(found)
        return
    say(found.text, end="")
    say(f"memsync: {found.tokens} of {found.budget} word pieces", err=True)
    for one in found.left_out:
        about = f"{one.passages} passages, {one.tokens} word pieces"
        say(f"memsync: left out of {one.part}: {printable(one.path)}, {about}", err=True)
    for warning in found.warnings:
        say(f"memsync: {printable(warning)}", err=True)
    say_pending(found.pending_text)
