"""`memsync thread`, `sessions`, `costs`, `agents`, `routes` and `handoff`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memsync.cli.arguments import FREE_TEXT
from memsync.cli.common import here, json_option, opened
from memsync.cli.text import printable, say, say_json, say_pending
from memsync.cli.writing import say_written, text_of

if TYPE_CHECKING:
    from memsync.model import Conversation, Messages, Usage, Written

_USER = click.option("--user", default="", metavar="NAME", help="Only of this user.")
_SESSION = click.option("--session", default="", metavar="NAME", help="Only of this session.")
_LIMIT = click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="How many of the newest.")
_STATUS = click.option("--status", default="", help="Only active, paused, completed or archived ones.")


@click.group()
def thread() -> None:
    """Conversations, each in a note of threads/."""


@thread.command(context_settings=FREE_TEXT)
@click.argument("title", nargs=-1, required=True)
@click.option("--session", default="", help="The session it belongs to; else it is one of its own.")
@click.option("--user", default="", help="Whose conversation it is.")
@click.option("--project", default="", help="What it is about.")
@click.option("--prompt", default="", metavar="TEXT", help="Its own system prompt.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Tag it; may be given several times.")
@json_option
@click.pass_context
def new(
    context: click.Context,
    title: tuple[str, ...],
    session: str,
    user: str,
    project: str,
    prompt: str,
    tags: tuple[str, ...],
    as_json: bool,
) -> None:
    """Begin a thread and print its path. Options must come before TITLE; a title that is taken is refused."""
    with opened(context) as memory:
        written = memory.new_thread(
            " ".join(title), session=session, user=user, project=project, prompt=prompt, tags=tags
        )
    _say_path(written, as_json=as_json)


@thread.command(context_settings=FREE_TEXT)
@click.argument("name")
@click.argument("role")
@click.argument("words", nargs=-1, metavar="[TEXT]...")
@click.option("--time", default="", help="When it was written; else now.")
@click.option("--model", default="", help="The model that wrote it.")
@click.option("--in", "tokens_in", default="", metavar="TOKENS", help="Tokens that it read.")
@click.option("--out", "tokens_out", default="", metavar="TOKENS", help="Tokens that it wrote.")
@click.option("--cost", default="", metavar="DOLLARS", help="What it cost.")
@click.option("--attr", "attributes", multiple=True, metavar="KEY=VALUE", help="Any other attribute.")
@click.option("--edit", is_flag=True, help="Write the text in $EDITOR.")
@click.option("--force", is_flag=True, help="Write even if an editor has the thread open.")
@json_option
@click.pass_context
def append(
    context: click.Context,
    name: str,
    role: str,
    words: tuple[str, ...],
    time: str,
    model: str,
    tokens_in: str,
    tokens_out: str,
    cost: str,
    attributes: tuple[str, ...],
    edit: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Append a message to the thread NAME and print its path:line. ROLE is user, assistant, system, tool, agent:NAME.

    Options must come before TEXT.

    \b
    memsync thread append getting-started user How do I begin?
    answer | memsync thread append getting-started assistant --model sonnet --in 812 --out 120 --cost 0.0031
    """
    text = text_of(words, edit=edit)
    told = {"model": model, "in": tokens_in, "out": tokens_out, "cost": cost}
    pairs = (*(f"{key}={value}" for key, value in told.items() if value), *attributes)
    with opened(context) as memory:
        written = memory.append_message(here(context).note(name), role, text, time=time, attributes=pairs, force=force)
    say_written(written, as_json=as_json)


@thread.command()
@click.argument("name")
@click.option("--last", type=click.IntRange(0), default=0, metavar="N", help="Only the last N messages.")
@json_option
@click.pass_context
def show(context: click.Context, name: str, last: int, as_json: bool) -> None:
    """Print the messages of the thread NAME, from its file as it is now."""
    with opened(context) as memory:
        found = memory.thread(here(context).note(name), last=last)
    if as_json:
        say_json(found)
    else:
        _show(found)


@thread.command("list")
@_SESSION
@_STATUS
@_USER
@json_option
@click.pass_context
def list_(context: click.Context, session: str, status: str, user: str, as_json: bool) -> None:
    """Print the threads, the last active first; archived ones only with --status archived."""
    with opened(context) as memory:
        found = memory.threads(session=session, status=status, user=user)
    if as_json:
        say_json(found)
        return
    for one in found.threads:
        if not one.archived or status:
            about = "  ".join(filter(None, (one.last_active, one.status, one.session, one.user)))
            say(f"{printable(one.path)}  {printable(one.title)}  {printable(about)}  {_used(one.usage)}")
    say_pending(found.pending_text)


@thread.command()
@click.argument("name")
@json_option
@click.pass_context
def archive(context: click.Context, name: str, as_json: bool) -> None:
    """Archive thread NAME; searches skip it unless --archived is given."""
    with opened(context) as memory:
        written = memory.set_thread_status(here(context).note(name), "archived")
    _say_path(written, as_json=as_json)


@thread.command()
@click.argument("name")
@json_option
@click.pass_context
def resume(context: click.Context, name: str, as_json: bool) -> None:
    """Reactivate thread NAME."""
    with opened(context) as memory:
        written = memory.set_thread_status(here(context).note(name), "active")
    _say_path(written, as_json=as_json)


# -------------------------------------------------------------------------------------------------- views


@click.command()
@_USER
@_STATUS
@click.option("--project", default="", help="Only of this project.")
@json_option
@click.pass_context
def sessions(context: click.Context, user: str, status: str, project: str, as_json: bool) -> None:
    """Print the sessions that threads share, the last active first."""
    with opened(context) as memory:
        found = memory.sessions(user=user, status=status, project=project)
    if as_json:
        say_json(found)
        return
    for one in found.sessions:
        about = "  ".join(filter(None, (one.last_active, one.status, one.user, one.project)))
        say(f"{printable(one.session)}  {printable(about)}  {len(one.threads)} threads, {_used(one.usage)}")
    say_pending(found.pending_text)


@click.command()
@click.option(
    "--by",
    type=click.Choice(["session", "model", "agent", "day"]),
    default="session",
    show_default=True,
    help="Per what.",
)
@click.option("--since", default="", metavar="WHEN", help='From then on: 2026-11-01, yesterday, "2 weeks ago".')
@json_option
@click.pass_context
def costs(context: click.Context, by: str, since: str, as_json: bool) -> None:
    """Print tokens and dollars, as the messages of all threads name them."""
    with opened(context) as memory:
        found = memory.costs(by=by, since=since)
    if as_json:
        say_json(found)
        return
    for one in (*found.costs, None):
        usage, key = (found.total, "total") if one is None else (one.usage, one.key or "-")
        say(f"${usage.cost:>12.4f}  {usage.tokens_in:>12,} in  {usage.tokens_out:>12,} out  {printable(key)}")
    say_pending(found.pending_text)


def _messages_command(role: str, names: tuple[str, ...], explanation: str) -> click.Command:
    """Return a command that lists the newest messages of a role with these of their attributes."""

    @click.command(help=explanation)
    @_SESSION
    @_LIMIT
    @json_option
    @click.pass_context
    def command(context: click.Context, session: str, limit: int, as_json: bool) -> None:
        with opened(context) as memory:
            found = memory.messages(role, session=session, limit=limit)
        _say_messages(found, names, as_json=as_json)

    return command


agents = _messages_command(
    "agent",
    ("task", "status", "model"),
    "Print what agents ran, the newest first: their task, how it ended, what it used.",
)
routes = _messages_command(
    "router",
    ("intent", "complexity", "workflow", "method", "confidence"),
    "Print how questions were routed, the newest first.",
)
handoff = _messages_command(
    "handoff", ("from", "to", "status"), "Print what sessions handed over to each other, the newest first."
)


def _show(found: Conversation) -> None:
    about = found.thread
    says = ", ".join((about.path, about.session, about.status or "active"))
    say(printable(f"{about.title}  ({says})"))
    for one in found.messages:
        say(f"\n{printable(one.path)}:{one.start_line}  {printable(one.role)}  {one.time}")
        say("\n".join(f"  {line}".rstrip() for line in one.text.split("\n")))


def _say_messages(found: Messages, names: tuple[str, ...], *, as_json: bool) -> None:
    if as_json:
        say_json(found)
        return
    for one in found.messages:
        says = "  ".join(f"{name}={one.attributes[name]}" for name in names if name in one.attributes)
        say(f"{printable(one.path)}:{one.start_line}  {one.time}  {printable(one.role)}  {printable(says)}")
    say_pending(found.pending_text)


def _used(usage: Usage) -> str:
    return f"{usage.messages} messages, {usage.tokens_in + usage.tokens_out:,} tokens, ${usage.cost:.4f}"


def _say_path(written: Written, *, as_json: bool) -> None:
    if as_json:
        say_written(written, as_json=True)
        return
    say(printable(written.path))
    for warning in written.warnings:
        say(f"memsync: {printable(warning)}", err=True)
