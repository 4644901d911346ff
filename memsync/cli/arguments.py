"""The arguments of a command, put in order before click reads them: options first, then `--`, then the rest.

click takes an option wherever it stands, and drops it from a text that only mentions it. Here each command says whether
it takes free text: after the first word of that, nothing is an option. Everywhere else an argument that looks like an
option must be one. `--root` and `--config` are accepted wherever a command's own options are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from memsync.cli.entry import GLOBAL_OPTIONS, looks_like_option
from memsync.errors import UsageError

FREE_TEXT = {"allow_interspersed_args": False}
"""The context settings of a command whose last argument is text: its options stand before the first word."""


class Arranged:
    """Arguments in order. `in_text` are words of the text that would be options if they stood before it."""

    def __init__(self) -> None:
        self.arguments: list[str] = []
        self.config: str | None = None
        self.root: str | None = None
        self.color: str | None = None
        self.in_text: list[str] = []


def arranged(command: click.Command, name: str, arguments: Sequence[str], context: click.Context) -> Arranged:
    """Return the arguments of the command `name`, its subcommands' included. Raises UsageError for unknown options."""
    found = Arranged()
    _arrange(command, name, list(arguments), context, found)
    return found


def _arrange(command: click.Command, name: str, rest: list[str], context: click.Context, found: Arranged) -> None:
    options = _options(command, context)
    named = [one for one in command.params if isinstance(one, click.Argument)]
    takes_words = any(one.nargs == -1 for one in named)
    is_text = takes_words and command.context_settings == FREE_TEXT
    words: list[str] = []
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            words += rest
            break
        if looks_like_option(argument):
            _take_option(name, argument, rest, options, found, takes_words=takes_words)
            continue
        if isinstance(command, click.Group):
            found.arguments.append(argument)
            inner = command.get_command(context, argument)
            if inner is not None:
                _arrange(inner, f"{name} {argument}", rest, context, found)
                return
            found.arguments += rest  # click says that there is no such command
            return
        words.append(argument)
        if is_text and len(words) == len(named):
            found.in_text = [word for word in rest if _flag(word) in (*options, *GLOBAL_OPTIONS)]
            words += rest
            break
    if not isinstance(command, click.Group):
        found.arguments += ["--", *words]


def _options(command: click.Command, context: click.Context) -> dict[str, click.Option]:
    """Return the options of a command, `--help` included, by each of their flags."""
    own = click.Context(command, parent=context)
    options = (one for one in command.get_params(own) if isinstance(one, click.Option))
    return {flag: one for one in options for flag in (*one.opts, *one.secondary_opts)}


def _take_option(
    name: str,
    argument: str,
    rest: list[str],
    options: Mapping[str, click.Option],
    found: Arranged,
    *,
    takes_words: bool,
) -> None:
    """Move an option from the arguments to what was found, with its value if that is the next argument."""
    flag = _flag(argument)
    if flag not in (*options, *GLOBAL_OPTIONS):
        raise unknown_option(name, argument, (*options, *GLOBAL_OPTIONS), takes_words=takes_words)
    takes_value = flag in GLOBAL_OPTIONS or not options[flag].is_flag
    value = rest.pop(0) if takes_value and argument == flag and rest else None
    if takes_value and argument == flag and value is None:
        raise UsageError(f"{flag} needs a value", hint=f"See: memsync {name} --help")
    if flag in GLOBAL_OPTIONS:
        setattr(found, flag.removeprefix("--"), argument.partition("=")[2] if value is None else value)
    else:
        found.arguments += [argument] if value is None else [argument, value]


def _flag(argument: str) -> str:
    """Return the option that an argument names, without a value that is attached to it (`--limit=3`, `-n3`)."""
    return argument.partition("=")[0] if argument.startswith("--") else argument[:2]


def unknown_option(name: str, argument: str, known: Sequence[str], *, takes_words: bool) -> UsageError:
    """Return the error for an argument of the command `name` that looks like an option and is none of the known."""
    import difflib

    option = argument.partition("=")[0]
    meant = _meant(known)
    close = difflib.get_close_matches(option, (*known, *meant), n=3)
    close.sort(key=lambda one: (one != option, sorted(one) != sorted(option)))  # letters that changed places come first
    close = [meant.get(one, one) for one in close]
    hints = [f"Did you mean {close[0]}?" if close else f"See: memsync {name} --help"]
    if takes_words:
        hints.append(f"To use it as text, put -- before it: memsync {name} -- {option}")
    return UsageError(f"{name} has no option {option}", hint="\n".join(hints))


def _meant(known: Sequence[str]) -> dict[str, str]:
    """Return what other programs call the filters, as options, if the known options are the filters' too."""
    from memsync.model.filters import FILTER_ALIASES

    if not all(f"--{name}" in known for name in set(FILTER_ALIASES.values())):
        return {}
    return {f"--{alias}": f"--{name}" for alias, name in FILTER_ALIASES.items() if f"--{alias}" not in known}
