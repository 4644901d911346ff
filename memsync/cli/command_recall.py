"""`memsync hook`, which agents run, and `memsync recall`, which shows what it recalled and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import click

from memsync.agents import names_beginning
from memsync.cli import hook as hook_process
from memsync.cli.common import answering
from memsync.cli.output import CommandAnswer, local_time
from memsync.errors import UsageError
from memsync.model.json import to_json
from memsync.model.text import count

if TYPE_CHECKING:
    from memsync.agents.recall_records import Recall

SECTION = "Agents"

MAX_SESSIONS = 20


@click.command()
@click.argument("event", type=click.Choice(hook_process.EVENTS))
@click.option("--agent", required=True, shell_complete=names_beginning, help="The agent that runs the hook.")
def hook(event: str, agent: str) -> None:
    """Print what an agent recalls at EVENT, in the format that it reads. Agents run this, people do not.

    Reads the agent's JSON from standard input. Always exits with 0, and prints nothing on any fault. The daemon
    answers; if it does not run, the hook starts it for the next time.
    """
    hook_process.run([event, "--agent", agent])


@click.command()
@click.argument("session", default="", metavar="[SESSION]")
@click.option("--why", is_flag=True, help="Also print what was held back, and why.")
@answering
def recall(_: click.Context, session: str, why: bool) -> CommandAnswer:
    """Print what memsync's hooks gave an agent in SESSION, prompt by prompt.

    SESSION is a session's id or its beginning (default: the last session). `recall list` prints the last sessions.

    \b
    memsync recall
    memsync recall --why 4f1c
    memsync recall list
    """
    from memsync.agents.recall_records import sessions

    if session == "list":
        found = list(islice(sessions(), MAX_SESSIONS))
        return CommandAnswer([to_json(recalls[-1]) for recalls in found], [_headline(recalls) for recalls in found])
    recalls = next((recalls for recalls in sessions() if recalls[0].session.startswith(session)), None)
    if recalls is None:
        what = f"no session begins with {session[:100]!r}" if session else "no hook has run yet"
        hint = "Connect an agent (docs/agents.md): memsync agents connect NAME. Or wait for its first prompt."
        hint = "See: memsync recall list" if session else hint
        raise UsageError(what, hint=hint)
    return CommandAnswer([to_json(recall) for recall in recalls], [_headline(recalls), *_events(recalls, why=why)])


def _headline(recalls: Sequence[Recall]) -> str:
    last = recalls[-1]
    tokens = sum(recall.tokens for recall in recalls)
    return f"{local_time(last.time)}  {last.agent}  {last.session or '-'}  {last.folder}  {count(tokens, 'token')}"


def _events(recalls: Sequence[Recall], *, why: bool) -> Iterator[str]:
    for recall in recalls:
        asked = " ".join(recall.prompt.split()) or recall.event
        yield ""
        yield f"{local_time(recall.time)}  {asked}  ({count(recall.tokens, 'token')}, {recall.milliseconds:.0f} ms)"
        if recall.reason:
            yield f"  {recall.reason}"
        for line in recall.lines:
            if why or not line.held:
                yield f"  {line.score:.2f}  {line.citation}{f'  held back: {line.held}' if line.held else ''}"
