"""`memsync completion`."""

from __future__ import annotations

import click

from memsync.cli.output import say_as_it_is

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script that lets SHELL (bash, zsh or fish) complete commands and options.

    \b
    eval "$(memsync completion bash)"          # in ~/.bashrc
    eval "$(memsync completion zsh)"           # in ~/.zshrc, after compinit
    memsync completion fish > ~/.config/fish/completions/memsync.fish
    """
    from click.shell_completion import get_completion_class

    from memsync.cli.main import cli

    made = get_completion_class(shell)
    assert made is not None
    say_as_it_is(made(cli, {}, "memsync", "_MEMSYNC_COMPLETE").source())
