"""The `memsync` command. Each subcommand's module is loaded when it is called, so that starting costs little."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import click

from memsync import __version__
from memsync.cli.arguments import arranged
from memsync.cli.entry import INTERRUPTED, INTERRUPTED_EXIT_CODE, after_failed_output
from memsync.errors import MemsyncError, UsageError

COMMANDS = {
    "init": "memsync.cli.init:init",
    "search": "memsync.cli.search:search",
    "get": "memsync.cli.get:get",
    "context": "memsync.cli.context:context",
    "log": "memsync.cli.writing:log",
    "remember": "memsync.cli.writing:remember",
    "note": "memsync.cli.writing:note",
    "thread": "memsync.cli.threads:thread",
    "sessions": "memsync.cli.threads:sessions",
    "costs": "memsync.cli.threads:costs",
    "agents": "memsync.cli.threads:agents",
    "routes": "memsync.cli.threads:routes",
    "handoff": "memsync.cli.threads:handoff",
    "import": "memsync.cli.conversations:import_",
    "export": "memsync.cli.conversations:export",
    "pref": "memsync.cli.preferences:pref",
    "pattern": "memsync.cli.preferences:pattern",
    "recover": "memsync.cli.writing:recover",
    "prune": "memsync.cli.upkeep:prune",
    "duplicates": "memsync.cli.upkeep:duplicates",
    "stale": "memsync.cli.upkeep:stale",
    "collections": "memsync.cli.upkeep:collections",
    "stats": "memsync.cli.upkeep:stats",
    "eval": "memsync.cli.evaluation:eval_",
    "mcp": "memsync.cli.mcp:mcp",
    "sync": "memsync.cli.sync:sync",
    "rebuild": "memsync.cli.sync:rebuild",
    "verify": "memsync.cli.sync:verify",
    "vectors": "memsync.cli.vectors:vectors",
    "status": "memsync.cli.status:status",
    "doctor": "memsync.cli.status:doctor",
    "config": "memsync.cli.config:config",
    "trust": "memsync.cli.trust:trust",
    "start": "memsync.cli.daemon:start",
    "stop": "memsync.cli.daemon:stop",
    "restart": "memsync.cli.daemon:restart",
    "watch": "memsync.cli.daemon:watch",
    "logs": "memsync.cli.daemon:logs",
    "service": "memsync.cli.service:service",
}


class LazyGroup(click.Group):
    """A group that imports a subcommand only when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (because click fixes the name)
        """Return the names in the order in which a newcomer needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 (because: as above)
        """Import and return one command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, and put its arguments in order. Raises UsageError for an option that it does not have."""
        if args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            import difflib

            close = difflib.get_close_matches(args[0], COMMANDS, n=1)
            raise UsageError(
                f"No such command {args[0]!r}", hint=f"Did you mean {close[0]}?" if close else "See: memsync --help"
            )
        name, command, rest = super().resolve_command(ctx, args)
        if name is None or command is None or ctx.resilient_parsing:  # that is a shell which completes a line
            return name, command, rest
        found = arranged(command, name, rest, ctx)
        given = {"config_path": found.config, "root": found.root}
        ctx.params.update((key, value) for key, value in given.items() if value is not None)
        if found.in_text:
            from memsync.cli.text import say

            say(f"memsync: {found.in_text[0]} is part of the text: options must come before it", err=True)
        return name, command, found.arguments


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="memsync")
@click.option("--config", "config_path", metavar="FILE", help="Use this config.toml.")
@click.option("--root", metavar="DIR", help="Use this memory root, whatever config.toml says.")
@click.pass_context
def cli(context: click.Context, config_path: str | None, root: str | None) -> None:
    """Search your Markdown memory by meaning and by word; every answer names path and line.

    \b
    memsync init ~/notes                  make a memory root, or adopt a folder of notes
    memsync sync                          bring the index up to date
    memsync start                         keep it so in the background
    memsync search which store did we choose
    memsync get daily/2026-11-21.md:12:5  print what a hit points to
    memsync log chose SQLite for the store
    """
    context.obj = (config_path, root)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with the code of errors.py: every failure has one sentence and a hint on stderr."""
    output = sys.stdout
    try:
        code = cli.main(
            args=list(arguments) if arguments is not None else None, prog_name="memsync", standalone_mode=False
        )
        sys.stdout.flush()
    except SystemExit as stop:
        # click turns a reader that has gone (`| head`) into exit code 1, which is an answer here. It wraps stdout then.
        code = stop.code if sys.stdout is output else 0
    except click.exceptions.NoArgsIsHelpError as error:  # the message is the help, with the lines as they must be
        from memsync.cli.text import say

        say(error.format_message(), err=True)
        code = error.exit_code
    except click.UsageError as error:
        report(_in_own_words(error))
        code = error.exit_code
    except click.ClickException as error:
        report(MemsyncError(error.format_message()))
        code = MemsyncError.exit_code  # click's own is 1, which says that the answer is no
    except MemsyncError as error:
        report(error)
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        report(MemsyncError(INTERRUPTED))
        code = INTERRUPTED_EXIT_CODE
    except OSError as error:
        code = after_failed_output(error)
    sys.exit(code if isinstance(code, int) else 0)


def _in_own_words(error: click.UsageError) -> UsageError:
    """Return what click has against a command line as memsync says it: the fault, then what to do."""
    path = error.ctx.command_path if error.ctx is not None else "memsync"
    return UsageError(error.format_message().rstrip("."), hint=f"See: {path} --help")


def report(error: MemsyncError) -> None:
    """Print an error and what to do about it on stderr."""
    from memsync.cli.text import printable, say

    say(f"memsync: {printable(error.message)}", err=True)
    for line in error.hint.splitlines():
        say(f"  {printable(line)}", err=True)
