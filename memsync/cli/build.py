"""Commands made of operations: arguments, options, defaults and help come from the declaration."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, get_origin

import click

from memsync import features
from memsync.cli.arguments import FREE_TEXT
from memsync.cli.common import (
    here,
    json_option,
    long_output,
    opened,
    opened_here,
    progress_on_stderr,
    waiting_on_stderr,
)
from memsync.cli.here import without_place
from memsync.cli.output import KEPT, NotServed, say_json
from memsync.cli.render import document, exit_code, remarks, render
from memsync.errors import MemsyncError, NoSuchNote, UsageError
from memsync.operation import OPERATIONS, Command, Operation, Parameter
from memsync.ports import no_progress

if TYPE_CHECKING:
    from memsync.memory import MemoryApi

_LAST_LINE_END = re.compile(r"(?:\r\n|\n|\r)\Z")
_EDIT = "edit"


def command_of(operation: Operation[Any, Any], offered: Command) -> click.Command:
    """Return the click command that runs an operation."""

    def callback(context: click.Context, /, as_json: bool, **given: Any) -> None:
        arguments = {**arguments_of(context, operation, given), **offered.fixed}
        try:
            result = run(context, operation, arguments, offered)
        except NoSuchNote as error:
            raise _as_typed(error, operation, given) from error
        finish(result, operation, offered, as_json=as_json)

    return click.command(
        name=offered.path.rpartition(" ")[2], help=help_of(operation, offered), context_settings=_settings(operation)
    )(with_parameters(operation, json_option(click.pass_context(callback)), without=offered.fixed))


def offered(first_word: str = "") -> dict[str, tuple[Operation[Any, Any], Command]]:
    """Return what every command that is made of an operation offers, by its path: one word or two.

    Features that have no command with this first word need not be among them.
    """
    features.load(first_word)
    return {one.path: (operation, one) for operation in OPERATIONS.values() for one in operation.commands}


def run(context: click.Context, operation: Operation[Any, Any], arguments: dict[str, Any], offered: Command) -> Any:
    """Run an operation, with progress on stderr if it reports any, and return its result."""
    is_here = offered.runs_here or operation.is_local
    with (opened_here if is_here else opened)(context) as memory:
        return run_on(memory, operation, arguments)


def run_on(memory: MemoryApi, operation: Operation[Any, Any], arguments: dict[str, Any]) -> Any:
    """Run an operation on a memory that is open, with progress on stderr if it reports any."""
    if "on_wait" in operation.parameters:
        arguments["on_wait"] = waiting_on_stderr()
    if "progress" not in operation.parameters:
        return memory.run(operation, **arguments)
    with progress_on_stderr() as progress:
        return memory.run(operation, progress=progress or no_progress, **arguments)


def finish(result: Any, operation: Operation[Any, Any], offered: Command, *, as_json: bool) -> None:
    """Print a result, and what it lacks on stderr; exit with the code that the result stands for."""
    with long_output(click.get_current_context()):
        if as_json:
            say_json(document(result, operation))
        else:
            render(result, operation, offered)
    remarks(result)
    if code := exit_code(result, operation):
        sys.exit(code)


def help_of(operation: Operation[Any, Any], offered: Command) -> str:
    """Return a command's help: what it does, notes, and examples, a line each."""
    text = operation.text
    order = f"Options must come before {_metavar(text)}." if text is not None and operation.writes else ""
    examples = "\b\n" + "\n".join(offered.examples) if offered.examples else ""
    return "\n\n".join(filter(None, (offered.help or operation.summary, offered.notes, order, examples)))


def with_parameters(
    operation: Operation[Any, Any], callback: Callable[..., None], *, without: Iterable[str] = ()
) -> Callable[..., None]:
    """Return a callback with the arguments and options of an operation, in their order."""
    for parameter in reversed([one for one in operation.values.values() if one.name not in without]):
        if parameter.cli.is_editable:
            callback = click.option(f"--{_EDIT}", is_flag=True, help="Write the text in $EDITOR.")(callback)
        callback = (_argument if parameter.is_positional else option)(parameter)(callback)
    return callback


def option(parameter: Parameter) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the click option that sets a parameter."""
    cli, kind = parameter.cli, parameter.value_type
    flags = list(cli.flags)
    if not any(flag.startswith("--") for flag in flags):
        flags.append(f"--{parameter.name.replace('_', '-')}")
    if kind is bool:
        return click.option(*flags, parameter.name, is_flag=True, help=parameter.help)
    is_shown = bool(parameter.default) and "[default:" not in parameter.help
    return click.option(
        *flags,
        parameter.name,
        type=_click_type(parameter),
        metavar=cli.metavar or ("VALUE" if get_origin(kind) is tuple else None),
        multiple=get_origin(kind) is not None,
        help=parameter.help,
        default=_plain(parameter.default) if is_shown else None,
        show_default=is_shown,
    )


def _plain(default: Any) -> Any:
    return str(default) if isinstance(default, str) else default  # click prints the name of an enum's member


def _argument(parameter: Parameter) -> Callable[[Callable[..., None]], Callable[..., None]]:
    cli, name = parameter.cli, _metavar(parameter)
    is_optional = not parameter.is_needed or cli.reads_input
    if cli.is_text or get_origin(parameter.value_type) is tuple:
        shown = f"[{name}]..." if is_optional else f"{name}..."
        return click.argument(parameter.name, nargs=-1, required=not is_optional, metavar=shown, type=click.UNPROCESSED)
    return click.argument(
        parameter.name, required=not is_optional, default=None, metavar=f"[{name}]" if is_optional else name
    )


def _metavar(parameter: Parameter) -> str:
    return parameter.cli.metavar or parameter.name.upper()


def _click_type(parameter: Parameter) -> Any:
    kind, meta = parameter.value_type, parameter.meta
    if parameter.choices:
        return click.Choice([choice for choice in parameter.choices if choice])
    if kind is int:
        least, most = (None if bound is None or bound >= 2**53 else int(bound) for bound in (meta.ge, meta.le))
        return click.IntRange(least, most)
    if kind is float:
        return click.FloatRange(meta.ge, meta.le)
    return click.STRING


def _settings(operation: Operation[Any, Any]) -> dict[str, Any]:
    """Return settings for click: what follows the first word of a text that is written is text, too."""
    return FREE_TEXT if operation.text is not None and operation.writes else {}


def _as_typed(error: NoSuchNote, operation: Operation[Any, Any], given: Mapping[str, Any]) -> NoSuchNote:
    """Return an error that names the note as it was typed, where its path was made of that."""
    typed = next((given[name] for name, one in operation.values.items() if one.cli.names == "location"), None)
    return NoSuchNote(f"{without_place(typed)} does not exist", hint=error.hint) if typed else error


# ----------------------------------------------------------------------------------------------- arguments


def arguments_of(context: click.Context, operation: Operation[Any, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an operation that a command line gives; what was left out is not among them."""
    arguments: dict[str, Any] = {}
    for name, parameter in operation.values.items():
        value = given.get(name)
        if parameter.cli.is_text:
            value = _text(parameter, value or (), edit=bool(given.get(_EDIT)))
        elif get_origin(parameter.value_type) is not tuple and get_origin(parameter.value_type) is not None:
            value = dict(map(_pair, value or ()))
        if value in (None, (), {}, False):
            continue
        arguments[name] = _from_root(context, parameter, value)
    return arguments


def _from_root(context: click.Context, parameter: Parameter, value: Any) -> Any:
    """Return a path, or each of several, as the memory root has it; any other value as it is."""
    if not parameter.cli.names or not value:
        return value
    convert = getattr(here(context), parameter.cli.names)
    return tuple(map(convert, value)) if isinstance(value, tuple) else convert(value)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"{text!r} is not an attribute", hint="Write it as key=value.")
    return key.strip(), value


def _text(parameter: Parameter, words: tuple[str, ...], *, edit: bool) -> str | None:
    """Return the text that arguments, an editor or standard input give; None when it may be left out and was."""
    if parameter.cli.reads_input or edit or (parameter.cli.is_editable and words == ("-",)):
        return text_of(words, edit=edit)
    return " ".join(words) if words else None


def text_of(words: tuple[str, ...], *, edit: bool = False) -> str:
    """Return the text that arguments, an editor or standard input give.

    One line end after it, of any kind (LF, CRLF or CR), is the shell's or the editor's, and not the text's.
    Raises UsageError when there is none, MemsyncError when the editor fails.
    """
    if KEPT.get() and (edit or words in ((), ("-",))):
        raise NotServed
    if edit:
        try:
            return _LAST_LINE_END.sub("", click.edit(" ".join(words)) or "")
        except click.ClickException as error:
            reason = error.format_message().rstrip(".")
            hint = "Nothing was written. Check $VISUAL and $EDITOR."
            raise MemsyncError(f"The editor failed: {reason}", hint=hint) from error
    if words and words != ("-",):
        return " ".join(words)
    if sys.stdin.isatty() and not words:
        raise UsageError("there is no text to write", hint="Give it as arguments, on standard input, or with --edit.")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(newline="")  # a text is kept as it is, line ends included
    return _LAST_LINE_END.sub("", sys.stdin.read())
