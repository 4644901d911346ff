"""Make commands of operations: arguments, options, defaults and help come from the declaration."""

from __future__ import annotations

import io
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, get_origin

import click
from click.shell_completion import CompletionItem

from memsync.cli.arguments import FREE_TEXT
from memsync.cli.chosen_memories import covered, roots_options
from memsync.cli.common import here, json_option, long_output, opened, opened_here, progress_on_stderr, say_waiting
from memsync.cli.output import KEPT, NotServed, say_json
from memsync.cli.render import document, exit_code, remarks, render
from memsync.errors import MemsyncError, Unrelated, UsageError
from memsync.model.text import count, printable
from memsync.operation import AT, Command, Operation, Parameter, RunsOperations, Several

_LAST_LINE_END = re.compile(r"(?:\r\n|\n|\r)\Z")
_EDIT = "edit"
MAX_TEXT_CHARS = 64_000_000
"""Maximum length of a text on standard input; a larger note is not indexed."""
MAX_SERVED_CHARS = 100_000
"""Longer texts are written by this process. JSON takes up to six bytes a character, and a request a million bytes."""


def command_of(operation: Operation[Any, Any], offered: Command) -> click.Command:
    """Return the click command that runs an operation, on the current memory or on registered ones that it names."""

    def callback(
        context: click.Context, /, as_json: bool, roots: tuple[str, ...] = (), all_roots: bool = False, **given: Any
    ) -> None:
        shown = offered
        if offered.first:
            number, is_all = given.pop("first"), given.pop("is_all")
            shown = replace(offered, first=sys.maxsize if is_all else number)
        memories = None
        if operation.several:
            words = given[operation.several]
            text = words if isinstance(words, str) else " ".join(words)
            memories, named = covered(context, operation, {operation.several: text}, roots, is_all=all_roots)
            if not isinstance(words, str):
                given["query"] = (named["query"],) if named["query"].strip() else ()
        arguments = {**arguments_of(context, operation, given, is_here=memories is None), **offered.fixed}
        is_here = offered.runs_here or operation.is_local or _is_long(arguments)
        with memories or (opened_here if is_here else opened)(context) as memory:
            try:
                result = run_on(memory, operation, arguments)
            except Unrelated as error:
                result = run_on(memory, operation, {**arguments, "was": _confirmed(error)})
        show(context, result, operation, shown, as_json=as_json)

    takes_text = operation.text is not None and operation.writes
    command = json_option(click.pass_context(callback))
    if operation.several is Several.QUERY:
        command = roots_options(command)
    if offered.first:
        number, what = click.IntRange(min=1), "Items of a list to print; JSON has all."
        command = click.option("--all", "is_all", is_flag=True, help="Print every item.")(command)
        command = click.option("-n", "first", type=number, default=offered.first, show_default=True, help=what)(command)
    return click.command(
        name=offered.path.rpartition(" ")[2],
        help=help_of(operation, offered),
        context_settings=FREE_TEXT if takes_text else {},
    )(with_parameters(operation, command, without=tuple(offered.fixed)))


def commands_in(module: ModuleType, first_word: str = "") -> dict[str, click.Command]:
    """Return a module's commands by their path (one word or two): those of its operations, and those written by hand.

    With a word, only those whose path begins with it.
    """
    members = [member for member in vars(module).values() if isinstance(member, (Operation, click.Command))]
    inner = {command for group in members if isinstance(group, click.Group) for command in group.commands.values()}
    by_hand = {
        str(member.name): member for member in members if isinstance(member, click.Command) and member not in inner
    }
    offered = {
        command.path: (operation, command)
        for operation in members
        if isinstance(operation, Operation) and operation.function.__module__ == module.__name__
        for command in operation.commands
    }
    paths = [path for path in (*offered, *by_hand) if first_word in ("", path.partition(" ")[0])]
    return {path: by_hand[path] if path in by_hand else command_of(*offered[path]) for path in paths}


def run_on(memory: RunsOperations, operation: Operation[Any, Any], arguments: dict[str, Any]) -> Any:
    """Run an operation on an open memory, with progress on stderr; return the result."""
    if KEPT.get() and (revision := arguments.get(AT)):
        from memsync.past import past_of
        from memsync.workspace import Workspace

        if isinstance(memory, Workspace) and not past_of(memory).is_ready(revision):
            raise NotServed  # the client shows the progress
    if "on_wait" in operation.parameters:
        arguments["on_wait"] = say_waiting
    if "progress" not in operation.parameters:
        return memory.run(operation, **arguments)
    with progress_on_stderr() as progress:
        return memory.run(operation, progress=progress, **arguments)


def _confirmed(error: Unrelated) -> str:
    """Return words of the line that a text replaces, if the user says at a terminal that it is meant.

    Raises the error otherwise.
    """
    if (kept := KEPT.get()) and kept.is_terminal:
        raise NotServed
    question = f"memsync: {printable(error.message)}\nReplace it?"
    if not (sys.stdin.isatty() and sys.stderr.isatty() and click.confirm(question, err=True)):
        raise error
    return shlex.split(error.hint)[-1]


def show(
    context: click.Context, result: Any, operation: Operation[Any, Any], offered: Command, *, as_json: bool
) -> None:
    """Print the result of an operation, and remarks on it; exit with 1 if it names failures or says no."""
    with long_output(context):
        if as_json:
            say_json(document(result, operation))
        else:
            render(result, operation, offered)
    remarks(result)
    if code := exit_code(result, operation):
        sys.exit(code)


def help_of(operation: Operation[Any, Any], offered: Command) -> str:
    """Return a command's help: a summary, notes, and examples, one per line."""
    text = operation.text
    order = f"Options must come before {_metavar(text)}." if text is not None and operation.writes else ""
    examples = "\b\n" + "\n".join(offered.examples) if offered.examples else ""
    return "\n\n".join(filter(None, (offered.help or operation.summary, offered.notes, order, examples)))


def with_parameters(
    operation: Operation[Any, Any], callback: Callable[..., None], *, without: Iterable[str] = ()
) -> Callable[..., None]:
    """Return a callback with the arguments and options of an operation, in their order."""
    for parameter in reversed(list(operation.values.values())):
        if parameter.name in without or parameter.cli.is_hidden:
            continue
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
    default = parameter.default
    is_shown = bool(default) and "[default:" not in parameter.help
    bounds = f" [{parameter.bounds}]" if parameter.bounds else ""
    if isinstance(default, str):
        default = str(default)  # click prints the name of an enum's member
    return click.option(
        *flags,
        parameter.name,
        type=_click_type(parameter),
        metavar=cli.metavar or ("VALUE" if parameter.is_list else None),
        multiple=get_origin(kind) is not None,
        help=parameter.help + bounds,
        default=default if is_shown else None,
        show_default=is_shown,
        shell_complete=_completion(parameter),
    )


def _argument(parameter: Parameter) -> Callable[[Callable[..., None]], Callable[..., None]]:
    cli, name = parameter.cli, _metavar(parameter)
    is_optional = not parameter.is_needed or cli.reads_input
    metavar = f"[{name}]" if is_optional else name
    if cli.is_text or parameter.is_list:
        shown = f"{metavar}..."
        return click.argument(parameter.name, nargs=-1, required=not is_optional, metavar=shown, type=click.UNPROCESSED)
    return click.argument(
        parameter.name,
        type=_click_type(parameter),
        required=not is_optional,
        metavar=metavar,
        shell_complete=_completion(parameter),
    )


def _metavar(parameter: Parameter) -> str:
    return parameter.cli.metavar or parameter.name.upper()


def _click_type(parameter: Parameter) -> Any:
    kind = parameter.value_type
    if parameter.choices:
        return click.Choice([choice for choice in parameter.choices if choice])
    if parameter.is_list and parameter.item_type is int:
        return click.INT
    return _Number(parameter) if kind in (int, float) else click.STRING


def _completion(parameter: Parameter) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]] | None:
    """Return what tells a shell to complete paths."""
    kind = {"note": "file", "location": "file", "folder": "dir"}.get(parameter.cli.names)
    return (lambda _context, _parameter, typed: [CompletionItem(typed, type=kind)]) if kind else None


if TYPE_CHECKING:
    _AnyType = click.ParamType[Any]
else:
    _AnyType = click.ParamType  # it is generic since click 8.3


class _Number(_AnyType):
    """A number within the bounds of a parameter. The error has the words that Python, the daemon and MCP use, too."""

    name = "number"

    def __init__(self, parameter: Parameter) -> None:
        self._parameter = parameter

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert an argument to a number. Fail if it is not one, or out of bounds."""
        try:
            number = self._parameter.value_type(value)
        except ValueError:
            number = None
        if number is None or not self._parameter.allows(number):
            self.fail(f"{value!r} is not {self._parameter.wanted}", param, ctx)
        return number


# ----------------------------------------------------------------------------------------------- arguments


def arguments_of(
    context: click.Context, operation: Operation[Any, Any], given: Mapping[str, Any], *, is_here: bool = True
) -> dict[str, Any]:
    """Return the arguments of an operation that a command line gives, without those that it leaves out.

    Paths are converted if the operation runs on the current memory (`is_here`).
    """
    arguments: dict[str, Any] = {}
    needs_text = not any(given.get(name) for name, other in operation.values.items() if other.cli.needs_no_text)
    for name, parameter in operation.values.items():
        value = given.get(name)
        if parameter.cli.is_text:
            words, edit = value or (), bool(given.get(_EDIT))
            if parameter.cli.reads_input or edit or (parameter.cli.is_editable and words == ("-",)):
                value = text_of(words, edit=edit) if needs_text or words else ""
            else:
                value = " ".join(words) if words else None
        elif not parameter.is_list and get_origin(parameter.value_type) is not None:
            value = dict(map(pair, value or ()))
        if value is None or value is False or value in ((), {}):  # 0 is a value
            continue
        if is_here and parameter.cli.names and value:  # paths, which become relative to the memory root
            convert = getattr(here(context), parameter.cli.names)
            value = tuple(map(convert, value)) if isinstance(value, tuple) else convert(value)
        if operation.writes and isinstance(value, str):
            _check_encoding(value, _metavar(parameter))
        arguments[name] = value
    return arguments


def _is_long(arguments: Mapping[str, Any]) -> bool:
    """Return whether a text may be too long for a request to the daemon."""
    return any(isinstance(value, str) and len(value) > MAX_SERVED_CHARS for value in arguments.values())


def _check_encoding(text: str, name: str) -> None:
    """Raise UsageError if the bytes of a text were not in the terminal's encoding: it would be written with gaps."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        wrong = text[error.start].encode("utf-8", "surrogateescape").hex()
        raise UsageError(
            f"{name} is not UTF-8 text: the byte 0x{wrong} after {count(error.start, 'character')}",
            hint="Convert it first, for example: iconv -f latin1 -t utf-8",
        ) from None


def pair(text: str) -> tuple[str, str]:
    """Return the name and the value of NAME=VALUE. Raises UsageError."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"{text!r} is not NAME=VALUE", hint="Write an equals sign between name and value.")
    return name.strip(), value


def text_of(words: tuple[str, ...], *, edit: bool = False) -> str:
    """Return the text that arguments, an editor or standard input give.

    The shell and the editor add a line end (LF, CRLF or CR); it is removed. Raises UsageError if there is no text, and
    MemsyncError if the editor fails.
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
    if isinstance(sys.stdin, io.TextIOWrapper):  # keep the line ends, and other bytes than text for `_check_encoding`
        sys.stdin.reconfigure(newline="", errors="surrogateescape")
    text = sys.stdin.read(MAX_TEXT_CHARS + 1)
    if len(text) > MAX_TEXT_CHARS:
        raise UsageError(
            f"the text is longer than {MAX_TEXT_CHARS:,} characters", hint="Save it as a note in the memory root."
        )
    return _LAST_LINE_END.sub("", text)
