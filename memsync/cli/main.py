"""The `memsync` command. Each subcommand's module is loaded when it is called, so that starting costs little."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memsync import __version__
from memsync.cli.arguments import Arranged
from memsync.cli.common import Invocation
from memsync.cli.output import COLOUR, DOORS, KEPT, CapturedOutput, NotServed, after_failed_output, remark, report, say
from memsync.cli.table import COMMANDS, SERVED
from memsync.cli.typed_line import GLOBAL_OPTIONS, INTERRUPTED, INTERRUPTED_EXIT_CODE, served_path, split_global_options
from memsync.errors import MemsyncError, UsageError
from memsync.model.text import did_you_mean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from memsync.memory import Memory

GROUPS = {
    "history": "Print how notes have changed.",
    "proposals": "Show what the curator proposes, and accept or reject it line by line.",
    "note": "Make and list notes.",
    "thread": "Write and show conversations, each in a note of threads/.",
    "pref": "Show and set preferences: the `- key: value` lines of preferences.md.",
    "pattern": "Show and record learned patterns: list items with `{.pattern …}`, counted each time they are observed.",
}
_NOTES = {
    "init": "Make a memory root, or adopt a folder of notes.",
    "sync": "Bring the index up to date.",
    "search": "Find what the notes say, by meaning and by word.",
    "open": "Open a hit of the last search in your editor.",
    "get": "Print the lines that a citation names.",
    "log": "Append an entry to today's log.",
    "remember": "Add a line to long-term memory (log: to today's log).",
    "note": "Make and list notes.",
    "links": "Print the links in a note and to it.",
    "mv": "Move a note, and repair the links to it.",
    "check": "Find faults in the notes (index verify: in the index).",
    "web": "Open the memory in your browser.",
    "status": "Print what the index holds now (stats: its use).",
}
_AGENTS = {
    "agents": "Connect coding agents with memsync.",
    "thread": "Write, show, import and export conversations.",
    "curate": "Propose changes to long-term memory.",
}
FIRST = {**_NOTES, **_AGENTS}
"""What `memsync --help` shows: what a person needs first."""
RENAMED = {
    **{word: f"history {word}" for word in ("blame", "diff", "digest")},
    **{word: f"thread {word}" for word in ("costs", "runs", "routes", "sessions", "export", "import")},
    **{word: f"index {word}" for word in ("rebuild", "verify", "vectors")},
    **{word: f"daemon {word}" for word in ("start", "stop", "restart", "logs", "watch", "service")},
    "handoff": "thread handoffs",
}
"""Names that commands had before they were in groups, and their names now."""
ALIASES = {"conflicts": "contradictions"}
"""Names that still work."""
_ALL = "memsync.all_commands"


class Words(click.Group):
    """The commands that begin with one word. The word alone may be a command, too: `history NOTE`."""

    own: click.Command | None = None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands; with `own` also its options, and files."""
        from click.shell_completion import CompletionItem

        if self.own is not None and incomplete.startswith("-"):
            return self.own.shell_complete(ctx, incomplete)
        files = [CompletionItem(incomplete, type="file")] * (self.own is not None)
        return [*files, *super().shell_complete(ctx, incomplete)]


class Commands(click.Group):
    """All commands, each made at its first use: those written by hand, and one for each that an operation offers."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (because click fixes the name)
        """Return the first word of each, in the order of the sections."""
        return [word for words in COMMANDS.values() for word in words]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 (because click fixes the name)
        """Return one command, or a group of those that begin with its name."""
        from memsync.cli.build import commands_in

        modules = next((words[cmd_name] for words in COMMANDS.values() if cmd_name in words), ())
        commands: dict[str, click.Command] = {}
        for module in modules:
            commands |= commands_in(importlib.import_module(f"memsync.{module}"), cmd_name)
        members = {path.partition(" ")[2]: command for path, command in commands.items() if path != cmd_name}
        own = commands.get(cmd_name)
        if not members:
            return own
        if isinstance(own, click.Group):
            own.commands.update(members)
            return own
        group = Words(cmd_name, members, help=GROUPS[cmd_name])
        if own is not None:
            group.own = own
            about = (f"memsync {cmd_name} {word}: {one.get_short_help_str(200)}" for word, one in members.items())
            own.epilog = "\n\n".join(about)
        return group

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the commands that a person needs first; after `help --all`, all commands by task."""
        if not ctx.meta.get(_ALL):
            notes, agents, code = DOORS
            for door, commands in ((notes, _NOTES), (agents, _AGENTS)):
                formatter.write(f"{'' if commands is _AGENTS else chr(10)}{door}\n")
                formatter.indent()
                formatter.write_dl([(f"{name:<8}", text) for name, text in commands.items()])
                formatter.dedent()
            formatter.write(f"{code}\nAll commands and options: memsync help --all. One: memsync help search.\n")
            return
        for title, words in COMMANDS.items():
            rows = [row for word in words for row in _rows(word, self.get_command(ctx, word))]
            columns = formatter.width - 6 - max(len(path) for path, _ in rows)
            with formatter.section(title):
                formatter.write_dl([(path, FIRST.get(path) or one.get_short_help_str(columns)) for path, one in rows])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print what the options do after `help --all` only, so that the first screen is short."""
        if ctx.meta.get(_ALL):
            super().format_options(ctx, formatter)
        else:
            self.format_commands(ctx, formatter)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, and put its arguments in order. Raises UsageError for an unknown command or option."""
        if args[0] == "help" and not ctx.resilient_parsing:
            if args[1:] in ([], ["help"], ["all"], ["--all"]):
                ctx.meta[_ALL] = args[-1].endswith("all")
                say(ctx.get_help())
                ctx.exit()
            args = [*args[1:], "--help"]
        args = [ALIASES.get(args[0], args[0]), *args[1:]]
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-") and not ctx.resilient_parsing:
            near = did_you_mean(args[0], names, "See: memsync help --all")
            hint = f"It is called: memsync {RENAMED[args[0]]}" if args[0] in RENAMED else near
            raise UsageError(f"No such command {args[0]!r}", hint=hint)
        name, command, rest = super().resolve_command(ctx, args)
        if isinstance(command, Words) and command.own:
            first = split_global_options(rest)[1][:1]
            if not (first[0] in command.commands if first else ctx.resilient_parsing):
                command = command.own
        if name is None or command is None or ctx.resilient_parsing:  # a shell completes a line
            return name, command, rest
        in_order = Arranged(command, name, rest, ctx)
        ctx.params.update(in_order.global_options)
        if in_order.in_text:
            remark(f"{in_order.in_text[0]} is part of the text: options must come before it")
        return name, command, in_order.arguments


def _rows(path: str, command: click.Command | None) -> Iterator[tuple[str, click.Command]]:
    """Yield a command and all that are in it, by their paths."""
    assert command is not None
    yield path, getattr(command, "own", None) or command
    for name, member in sorted(getattr(command, "commands", {}).items()):
        yield from _rows(f"{path} {name}", member)


def _commit() -> str:
    """Return the commit from which memsync was built, or that of the checkout it runs from; empty if unknown."""
    from memsync.notes.git_files import commit_in, head_state

    package = Path(__file__).parents[1]
    try:
        return (package / "commit.txt").read_text().strip()
    except OSError:
        return commit_in(head_state(package.parent).name)[:12]


def _show_version(context: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    """Print the version and exit. click's own option for it loads the locale, which takes as long as this module."""
    if is_wanted and not context.resilient_parsing:
        say(f"memsync, version {__version__}{f', commit {commit}' if (commit := _commit()) else ''}")
        context.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@click.option("--config", "config_path", metavar="FILE", help="Use this config.toml.")
@click.option("--root", metavar="DIR|NAME", help="Use this folder, or a registered memory.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colour the output.")
@click.pass_context
def cli(context: click.Context, config_path: str | None, root: str | None, color: str) -> None:
    """Search your Markdown memory by meaning and by word."""
    if context.obj is None:
        context.obj = Invocation()
    context.obj = context.obj._replace(config=config_path, root=root)
    COLOUR.set(color)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with a code of errors.py; a failure prints one sentence and a hint on stderr."""
    output = sys.stdout
    try:
        code = run(list(arguments) if arguments is not None else sys.argv[1:])
        sys.stdout.flush()
    except OSError as error:
        code = after_failed_output(error)
    # If a reader has gone (`| head`), click wraps stdout and exits with 1, which means "no" here.
    sys.exit(code if sys.stdout is output else 0)


def run(arguments: list[str], invocation: Invocation | None = None) -> int:
    """Run a command line and return its exit code; print errors on stderr. Raises OSError if it cannot print."""
    try:
        if not arguments and "_MEMSYNC_COMPLETE" not in os.environ and _says_status():
            return 0
        cli.main(arguments, prog_name="memsync", standalone_mode=False, obj=invocation)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:  # the message is the help, with the lines as they must be
        say(error.format_message(), err=True)
        return error.exit_code
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx is not None else "memsync"
        message, hint = error.format_message(), f"See: {path} --help"
        if isinstance(error, click.NoSuchOption) and path == "memsync":
            hint = f"Only {', '.join(GLOBAL_OPTIONS)} may come before the command. {hint}"
            if error.option_name == "--json":  # click suggests --version
                message = error.message
        report(UsageError(message.rstrip("."), hint=hint))
        return error.exit_code
    except click.ClickException as error:
        report(MemsyncError(error.format_message()))
        return MemsyncError.exit_code  # click's own code is 1, which would mean "no"
    except MemsyncError as error:
        report(error)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        report(MemsyncError(INTERRUPTED))
        return INTERRUPTED_EXIT_CODE
    return 0


def _says_status() -> bool:
    """Print the state of the memory root that the current folder belongs to; return False if it belongs to none."""
    from memsync.cli.chosen_memories import is_in_root
    from memsync.cli.common import opened
    from memsync.cli.render import say_briefly

    with click.Context(cli, info_name="memsync", obj=Invocation()) as context:
        if not is_in_root(context):
            return False
        with opened(context) as memory:
            say_briefly(memory.status())
    return True


def run_command(
    memory: Memory, command: Sequence[str], folder: str = "", open_with: str = "", **terminal: Any
) -> dict[str, Any]:
    """Run the command line `command` in the daemon, for a client in `folder` that need not load click.

    `terminal` has fields of Kept.

    Return what it prints, and its exit code. An empty result declines: nothing was done, and the client runs the
    command itself. Declines all but short commands on this memory.
    """
    out, err = StringIO(), StringIO()
    options, arguments = split_global_options(command)
    if options or not served_path(arguments, SERVED):
        return {}
    mark = KEPT.set(CapturedOutput(out, err, **terminal))
    try:
        code = run(arguments, Invocation(memory=memory, folder=folder, open_with=open_with))
    except NotServed:
        return {}
    finally:
        KEPT.reset(mark)
    return {"out": out.getvalue(), "err": err.getvalue(), "code": code}
