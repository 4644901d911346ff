"""The `memsync` command. Each subcommand's module is loaded when it is called, so that starting costs little."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import click

from memsync import __version__
from memsync.cli.entry import after_failed_output
from memsync.errors import MemsyncError

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
    "mcp": "memsync.cli.mcp:mcp",
    "sync": "memsync.cli.sync:sync",
    "rebuild": "memsync.cli.sync:rebuild",
    "verify": "memsync.cli.sync:verify",
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
INTERRUPTED_EXIT_CODE = 130
GLOBAL_OPTIONS = ("--root", "--config")


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
    try:
        code = cli.main(
            args=list(arguments) if arguments is not None else None, prog_name="memsync", standalone_mode=False
        )
        sys.stdout.flush()
    except SystemExit as stop:
        # click turns a reader that has gone (`| head`) into exit code 1, which is an answer here.
        code = 0 if type(sys.stdout).__name__ == "PacifyFlushWrapper" else stop.code
    except click.UsageError as error:
        if isinstance(error, click.NoSuchOption) and error.option_name in GLOBAL_OPTIONS:
            name = error.option_name
            click.echo(f"memsync: {name} stands before the command: memsync {name} … COMMAND", err=True)
        else:
            error.show()
        code = 2
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except MemsyncError as error:
        report(error)
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("memsync: interrupted; notes and index are whole, and what was begun can be begun again", err=True)
        code = INTERRUPTED_EXIT_CODE
    except OSError as error:
        code = after_failed_output(error)
    sys.exit(code if isinstance(code, int) else 0)


def report(error: MemsyncError) -> None:
    """Print an error and what to do about it on stderr."""
    from memsync.cli.text import printable

    click.echo(f"memsync: {printable(error.message)}", err=True)
    if error.hint:
        click.echo(f"  {printable(error.hint)}", err=True)
