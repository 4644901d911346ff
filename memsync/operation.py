"""An operation: one thing that a memory can do, declared once as a typed function.

    @operation(Command("note rename"), writes=True)
    def rename_note(
        memory: Workspace,
        path: Annotated[str, Meta(description="The note."), Cli(names="note")],
        to: Annotated[str, Meta(description="Its new path.")],
        *,
        commit: Annotated[bool, Meta(description="Commit the change to git.")] = False,
    ) -> Written:
        \"\"\"Move a note to another path.\"\"\"

The methods of Memory and RemoteMemory, the daemon's methods, the commands, the MCP tools, the JSON Schemas and the
tables in the docs are all made of these declarations. A function's first parameter is the memory root it works on.
Types, defaults, bounds and help texts come from its other parameters, and the help of its command from its docstring.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, partial
from types import NoneType, SimpleNamespace
from typing import (
    Annotated,
    Any,
    Concatenate,
    Generic,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import msgspec
from msgspec import Meta

from memsync.errors import UsageError
from memsync.model.text import whole_characters
from memsync.ports import Progress

P = ParamSpec("P")
R = TypeVar("R")
W = TypeVar("W", contravariant=True)

AT = "at"
"""An operation that can be asked about a commit has a parameter `at: At = ""`. Memory.run reads it, and gives the
operation the memory as it was at that commit."""


class Several(StrEnum):
    """The parameter of an operation that may name registered memories; one without it works on one memory."""

    NONE = ""
    QUERY = "query"
    """With filters: `root:work`."""
    LOCATION = "location"
    """Before the path: `work:a.md`."""
    PATH = "path"


OPERATIONS: dict[str, Operation[Any, Any]] = {}
"""Every operation that has been declared so far, by name."""


@dataclass(frozen=True, slots=True)
class Cli:
    """How the command line takes a parameter, where that does not follow from its type.

    `flags` replace `--name`; a single short one (`-n`) is added to it. `names` tells what a path names (`note`,
    `location` or `folder`), so that the user may write it relative to the current folder. `is_text` marks free text:
    all remaining arguments, or standard input with `reads_input`. With `is_editable`, `--edit` opens an editor for it.
    With `is_hidden`, the command line does not take it. With `needs_no_text`, no text is read if it is given.
    """

    flags: tuple[str, ...] = ()
    metavar: str = ""
    names: str = ""
    is_text: bool = False
    reads_input: bool = False
    is_editable: bool = False
    is_hidden: bool = False
    needs_no_text: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """A command that runs an operation: `thread archive` is `set_thread_status` with a fixed status.

    With `first`, it prints so many items of a list, unless the options -n or --all say otherwise.

    `fixed` are arguments that the user cannot set. `help` replaces the first paragraph of the operation's docstring;
    `notes` follow it, then `examples`, one a line. `columns` name the attributes that a table of messages shows. With
    `runs_here` the command works in its own process even if a daemon runs. `prints` names the only attribute of the
    result to print.
    """

    path: str
    help: str = ""
    notes: str = ""
    examples: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    runs_here: bool = False
    prints: str = ""
    columns: tuple[str, ...] = ()
    first: int = 0


@dataclass(frozen=True, slots=True)
class Tool:
    """An MCP tool that runs an operation, with the text that tells a model when to use it.

    `parameters` are those that a model may set; each text in `help` replaces a parameter's own.
    """

    name: str
    title: str
    text: str
    parameters: tuple[str, ...] = ()
    help: Mapping[str, str] = field(default_factory=dict)
    is_idempotent: bool = True


class Parameter(NamedTuple):
    """One parameter of an operation.

    `type` is without `Annotated`; `default` is `inspect.Parameter.empty` if the parameter is needed.
    """

    name: str
    type: Any
    default: Any
    is_positional: bool
    meta: Meta
    cli: Cli

    @property
    def is_needed(self) -> bool:
        """True if a call must give it."""
        return self.default is inspect.Parameter.empty

    @property
    def is_callback(self) -> bool:
        """True for a function that the operation calls while it works: the daemon cannot send it as a value."""
        return get_origin(self.type) is not None and get_origin(self.type) is get_origin(Progress)

    @property
    def help(self) -> str:
        """What it sets, in a sentence."""
        return self.meta.description or ""

    @property
    def value_type(self) -> Any:
        """The type without `| None`."""
        kinds = [kind for kind in get_args(self.type) if kind is not NoneType]
        return kinds[0] if NoneType in get_args(self.type) else self.type

    @property
    def is_list(self) -> bool:
        """True for a list, which a command line or a query gives item by item."""
        return get_origin(self.value_type) in (tuple, Sequence)

    @property
    def item_type(self) -> Any:
        """The type of a list's items; of another parameter its own."""
        return get_args(self.value_type)[0] if self.is_list else self.value_type

    @property
    def annotated(self) -> Any:
        """The type with its bounds, without `| None`."""
        return Annotated[self.value_type, self.meta]

    @property
    def writes(self) -> bool:
        """True if this makes an operation write that otherwise only reads."""
        return bool((self.meta.extra or {}).get("writes"))

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed texts; empty if any text is allowed."""
        return tuple((self.meta.extra_json_schema or {}).get("enum", ()))

    @property
    def bounds(self) -> str:
        """The bounds of a number, such as `from 1 to 100`; empty if there are none."""
        low, high = self.meta.ge, self.meta.le
        from_low = "" if low is None else f"from {low:,}"
        return from_low if high is None or high >= 2**53 else f"{from_low} to {high:,}".lstrip()

    def allows(self, number: float) -> bool:
        """Tell whether a number is within the bounds; NaN is not, if there are any."""
        low, high = self.meta.ge, self.meta.le
        return (low is None or number >= low) and (high is None or number <= high)

    @property
    def wanted(self) -> str:
        """What a value must be, in the words of an error."""
        if self.choices:
            *first, last = filter(None, self.choices)
            return f"{', '.join(first)} or {last}"
        kind = self.value_type
        if kind in (int, float):
            return f"{'a whole number' if kind is int else 'a number'} {self.bounds}".rstrip()
        an_object = "an object of texts and numbers" if get_origin(kind) is Mapping else "an object"
        default = f"a list of {self.items}" if self.is_list else an_object
        return {bool: "true or false", str: "text"}.get(kind, default)

    @property
    def items(self) -> str:
        """What a list has, in a word."""
        names = {str: "texts", int: "whole numbers", float: "numbers", bool: "true or false"}
        return names.get(self.item_type, "lists" if get_origin(self.item_type) is tuple else "objects")


At = Annotated[
    str,
    Meta(description="Ask the memory as it was at this commit, tag or date: main~20, v1, 2026-11-01."),
    Cli(metavar="REV"),
]


class RunsOperations(Protocol):
    """A memory: it runs operations here or through a daemon."""

    def run(self, operation: Operation[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run an operation and return its result. Raises MemsyncError."""
        ...


@dataclass(eq=False)
class Operation(Generic[P, R]):
    """A declared operation.

    `function` does the work, given a Workspace and the arguments. With `writes`, notes or the index may change, so that
    it is not repeated after a fault. With `is_slow` it may take minutes; with `is_quick` it delays no other request of
    a daemon. With `is_local` no daemon offers it. `several` is the parameter that may name registered memories, which
    can answer together. With `needs_no_files` also a memory of a database without its files answers.
    """

    function: Callable[Concatenate[Any, P], R]
    commands: tuple[Command, ...] = ()
    tool: Tool | None = None
    writes: bool = False
    is_slow: bool = False
    is_quick: bool = False
    is_local: bool = False
    several: Several = Several.NONE
    needs_no_files: bool = False

    def __post_init__(self) -> None:
        self.name = self.function.__name__
        self.__doc__ = self.function.__doc__

    def __call__(self, memory: RunsOperations, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run it on a memory, as `Memory.search(memory, …)` does; also one that is not a method of Memory."""
        return memory.run(self, *args, **kwargs)

    # -------------------------------------------------------------------------------------- declaration

    @cached_property
    def _hints(self) -> Mapping[str, Any]:
        """The types of its parameters and of its result, except the memory's, which only type checkers import."""
        memory = next(iter(inspect.signature(self.function).parameters))
        annotations = {name: hint for name, hint in self.function.__annotations__.items() if name != memory}
        described = SimpleNamespace(__annotations__=annotations)
        return get_type_hints(described, self.function.__globals__, include_extras=True)

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """Its parameters by name, in order, without the memory that it works on."""
        declared = list(inspect.signature(self.function).parameters.values())[1:]
        return {parameter.name: _parameter(parameter, self._hints[parameter.name]) for parameter in declared}

    @cached_property
    def values(self) -> Mapping[str, Parameter]:
        """The parameters except callbacks."""
        return {name: parameter for name, parameter in self.parameters.items() if not parameter.is_callback}

    @cached_property
    def __signature__(self) -> inspect.Signature:
        """The signature of a call, for editors, notebooks and `inspect.signature`."""
        memory, *declared = inspect.signature(self.function).parameters.values()
        typed = [parameter.replace(annotation=self.parameters[parameter.name].type) for parameter in declared]
        return inspect.Signature([memory.replace(annotation=Any), *typed], return_annotation=self.result)

    @property
    def result(self) -> Any:
        """The type of its result."""
        return self._hints["return"]

    @property
    def summary(self) -> str:
        """The first paragraph of its docstring: what it does."""
        return inspect.cleandoc(self.__doc__ or "").partition("\n\n")[0]

    @property
    def text(self) -> Parameter | None:
        """The parameter that takes free text on the command line, if there is one."""
        return next((parameter for parameter in self.values.values() if parameter.cli.is_text), None)

    def changes(self, given: Iterable[str]) -> bool:
        """Return whether a call with these parameters may change something that a person wrote."""
        return self.writes or any(self.parameters[name].writes for name in given if name in self.parameters)

    # ---------------------------------------------------------------------------------------- arguments

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name, converted as `arguments_from` does, without those that are left out.

        Raises TypeError as a call of a function does, and UsageError for a value of a wrong type or out of bounds.
        """
        bound = inspect.signature(self.function).bind(None, *args, **kwargs).arguments
        given = dict(list(bound.items())[1:])
        return {
            name: value if self.parameters[name].is_callback else self._converted(self.parameters[name], _sound(value))
            for name, value in given.items()
            if value is not None or self.parameters[name].is_needed
        }

    def arguments_from(
        self, values: Mapping[str, Any], *, called: str = "", allowed: tuple[str, ...] | None = None
    ) -> dict[str, Any]:
        """Return the arguments that a JSON object gives. Raises UsageError for a wrong name, type or number.

        `null` means left out. Half a surrogate pair in a text is replaced, because nothing can encode it. Errors name
        the operation `called` (default: its name). Only the parameters in `allowed` (default: all) may be set.
        """
        called, allowed = called or self.name, tuple(self.values) if allowed is None else allowed
        known = f"Its parameters are: {', '.join(allowed) or 'none'}."
        given = {name: _sound(value) for name, value in values.items() if value is not None}
        unknown = sorted(given.keys() - set(allowed))
        if unknown:
            names = ", ".join(name[:100] for name in unknown[:10])
            raise UsageError(f"{called} has no parameter {names}", hint=known)
        for name, parameter in self.values.items():
            if parameter.is_needed and name not in given:
                raise UsageError(f"{called} needs {name}", hint=known)
        return {name: self._converted(self.values[name], value) for name, value in given.items()}

    def _converted(self, parameter: Parameter, value: Any) -> Any:
        try:
            if parameter.value_type is float and type(value) is int:
                value = float(value)
            converted = msgspec.convert(value, parameter.annotated)
        except (msgspec.ValidationError, OverflowError):
            raise _wrong(parameter) from None
        self._check(parameter, converted)
        return converted

    def _check(self, parameter: Parameter, value: Any) -> None:
        """Refuse a number out of bounds, a text that is not a choice, and a text where a list of texts is needed."""
        if isinstance(value, str) and parameter.choices:
            is_outside = value not in parameter.choices
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            is_outside = not parameter.allows(value)
        else:
            is_outside = isinstance(value, str) and parameter.is_list
        if is_outside:
            raise _wrong(parameter)


@dataclass(frozen=True)
class Lazy(Generic[P, R]):
    """An operation as a typed method of a memory's class; its module is loaded at its first use."""

    load: Callable[[], Operation[P, R]]

    @overload
    def __get__(self, memory: None, owner: type) -> Operation[P, R]: ...

    @overload
    def __get__(self, memory: RunsOperations, owner: type) -> Callable[P, R]: ...

    def __get__(self, memory: RunsOperations | None, owner: type) -> Operation[P, R] | Callable[P, R]:
        operation = self.load()
        if memory is None:
            return operation

        def method(*args: P.args, **kwargs: P.kwargs) -> R:
            return memory.run(operation, *args, **kwargs)

        method.__name__, method.__doc__ = operation.name, operation.__doc__
        vars(method)["__wrapped__"] = partial(operation, memory)  # from which `inspect` takes the signature
        return method


def operation(
    *commands: Command,
    tool: Tool | None = None,
    writes: bool = False,
    is_slow: bool = False,
    is_quick: bool = False,
    is_local: bool = False,
    several: Several = Several.NONE,
    needs_no_files: bool = False,
) -> Callable[[Callable[Concatenate[W, P], R]], Operation[P, R]]:
    """Declare the decorated function as an operation, with its commands and its MCP tool, if any."""

    def declare(function: Callable[Concatenate[W, P], R]) -> Operation[P, R]:
        declared: Operation[P, R] = Operation(
            function, commands, tool, writes, is_slow, is_quick, is_local, several, needs_no_files
        )
        OPERATIONS[declared.name] = declared
        return declared

    return declare


def one_of(choices: Iterable[str], description: str) -> Meta:
    """Return the description of a parameter whose text must be one of `choices`."""
    return Meta(description=description, extra_json_schema={"enum": [str(choice) for choice in choices]})


def _parameter(declared: inspect.Parameter, hint: Any) -> Parameter:
    kind, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    meta = next((extra for extra in extras if isinstance(extra, Meta)), Meta())
    cli = next((extra for extra in extras if isinstance(extra, Cli)), Cli())
    is_positional = declared.kind is not inspect.Parameter.KEYWORD_ONLY
    return Parameter(declared.name, kind, declared.default, is_positional, meta, cli)


def _wrong(parameter: Parameter) -> UsageError:
    return UsageError(f"{parameter.name} must be {parameter.wanted}", hint=parameter.help or "See docs/operations.md.")


def _sound(value: Any) -> Any:
    """Return a JSON value without half a surrogate pair in any text; tuples become lists."""
    if isinstance(value, str):
        return whole_characters(value)
    if isinstance(value, (list, tuple)):
        return [_sound(item) for item in value]
    if isinstance(value, Mapping):
        return {_sound(name): _sound(item) for name, item in value.items()}
    return value
