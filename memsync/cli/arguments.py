"""Put a command's arguments in order before click reads them: options first, then `--`, then the rest.

click takes an option at any position, even out of a text that only mentions it. In memsync, nothing after the first
word of free text is an option. Everywhere else an argument that looks like an option must be one. Global options may
also come among a command's own options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from memsync.cli.typed_line import GLOBAL_OPTIONS, looks_like_option
from memsync.errors import UsageError
from memsync.model.text import did_you_mean

FREE_TEXT = {"allow_interspersed_args": False}
"""The context settings of a command whose last argument is free text: its options come before the first word."""


class Arranged:
    """The arguments of a command and of its subcommands, in order. Raises UsageError for unknown options.

    The values of global options are apart, under click's names. `in_text` holds the words of the text that would be
    options if they came before it.
    """

    def __init__(self, command: click.Command, name: str, arguments: Sequence[str], context: click.Context) -> None:
        self.arguments: list[str] = []
        self.global_options: dict[str, str] = {}
        self.in_text: list[str] = []
        self._rest = list(arguments)
        self._arrange(command, name, context)

    def _arrange(self, command: click.Command, name: str, context: click.Context) -> None:
        options = _options(command, context)
        positional = [parameter for parameter in command.params if isinstance(parameter, click.Argument)]
        takes_words = any(parameter.nargs == -1 for parameter in positional)
        is_text = takes_words and command.context_settings == FREE_TEXT
        words: list[str] = []
        while self._rest:
            argument = self._rest.pop(0)
            if argument == "--":
                words += self._rest
                break
            if looks_like_option(argument):
                if _flag(argument) not in (*options, *GLOBAL_OPTIONS):
                    raise unknown_option(name, argument, (*options, *GLOBAL_OPTIONS), takes_words=takes_words)
                self._take_option(name, argument, options)
            elif isinstance(command, click.Group):
                subcommand = command.get_command(context, argument)
                if subcommand is None:
                    near = did_you_mean(argument, command.list_commands(context), f"See: memsync {name} --help")
                    raise UsageError(f"No such command '{name} {argument}'", hint=near)
                self.arguments.append(argument)
                self._arrange(subcommand, f"{name} {argument}", context)
                return
            else:
                words.append(argument)
                if is_text and len(words) == len(positional):
                    self.in_text = [word for word in self._rest if _flag(word) in (*options, *GLOBAL_OPTIONS)]
                    words += self._rest
                    break
        if not isinstance(command, click.Group):
            self.arguments += ["--", *words]

    def _take_option(self, name: str, argument: str, options: Mapping[str, click.Option]) -> None:
        """Put an option in order, with its value, which may be the next argument."""
        flag = _flag(argument)
        is_own = flag in options  # a command may have an option of the same name: `forget --root NAME`
        values = []
        if argument == flag and not (is_own and options[flag].is_flag):
            if not self._rest:
                raise UsageError(f"{flag} needs a value", hint=f"See: memsync {name} --help")
            values = [self._rest.pop(0)]
        if is_own:
            self.arguments += [argument, *values]
        else:
            self.global_options[GLOBAL_OPTIONS[flag]] = values[0] if values else argument.partition("=")[2]


def _options(command: click.Command, context: click.Context) -> dict[str, click.Option]:
    """Return the options of a command, `--help` included, by each of their flags."""
    parameters = command.get_params(click.Context(command, parent=context))
    options = (parameter for parameter in parameters if isinstance(parameter, click.Option))
    return {flag: option for option in options for flag in (*option.opts, *option.secondary_opts)}


def _flag(argument: str) -> str:
    """Return the option that an argument names, without a value that is attached to it (`--limit=3`, `-n3`)."""
    return argument.partition("=")[0] if argument.startswith("--") else argument[:2]


def unknown_option(name: str, argument: str, known: Sequence[str], *, takes_words: bool) -> UsageError:
    """Return the error for an argument of the command `name` that looks like an option but is not a known one."""
    import difflib

    option = argument.partition("=")[0]
    aliases = _aliases(known)
    close = difflib.get_close_matches(option, (*known, *aliases), n=3)
    close.sort(key=lambda flag: (flag != option, sorted(flag) != sorted(option)))  # swapped letters come first
    close = [aliases.get(flag, flag) for flag in close]
    hints = [f"Did you mean {close[0]}?" if close else f"See: memsync {name} --help"]
    if takes_words:
        text = f"'\"{option}\"'" if name == "search" else f"-- {option}"  # after --, a search would leave the word out
        hints.append(f"To use it as text: memsync {name} {text}")
    return UsageError(f"{name} has no option {option}", hint="\n".join(hints))


def _aliases(known: Sequence[str]) -> dict[str, str]:
    """Return other programs' names for filters, as options, and the filters; empty if the command has no filters."""
    from memsync.model.filters import FILTER_ALIASES

    if not all(f"--{name}" in known for name in set(FILTER_ALIASES.values())):
        return {}
    return {f"--{alias}": f"--{name}" for alias, name in FILTER_ALIASES.items() if f"--{alias}" not in known}
