"""An operation: one thing that a memory can do, declared once as a typed function.

    @operation(Command("note rename"), writes=True)
    def rename_note(
        memory: Workspace,
        path: Annotated[str, Meta(description="The note."), Cli(names="note")],
        to: Annotated[str, Meta(description="Its new path.")],
        *,
        force: Annotated[bool, Meta(description="Write even if an editor has it open.")] = False,
    ) -> Written:
        \"\"\"Move a note to another path.\"\"\"

The methods of Memory and RemoteMemory, the daemon's methods, the commands, the MCP tools, the JSON Schemas and the
tables in the docs are all made of these declarations. A function's first parameter is the memory root it works on.
Types, defaults, bounds and help texts come from its other parameters, and the help of its command from its docstring.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import NoneType, SimpleNamespace
from typing import (
    Annotated,
    Any,
    Concatenate,
    Generic,
    NamedTuple,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import msgspec
from msgspec import Meta

from memsync.errors import UsageError
from memsync.ports import Progress

P = ParamSpec("P")
R = TypeVar("R")
W = TypeVar("W", contravariant=True)

OPERATIONS: dict[str, Operation[Any, Any]] = {}
"""Every operation that has been declared so far, by name."""


@dataclass(frozen=True, slots=True)
class Cli:
    """How the command line takes a parameter, where that does not follow from its type.

    `flags` replace `--name`; a single short one (`-n`) is added to it. `names` tells what a path names (`note`,
    `location` or `folder`), so that it may be written relative to the current folder. `is_text` marks free text: all
    arguments that are left, or standard input with `reads_input`. With `is_editable`, `--edit` opens an editor for it.
    """

    flags: tuple[str, ...] = ()
    metavar: str = ""
    names: str = ""
    is_text: bool = False
    reads_input: bool = False
    is_editable: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """A command that runs an operation: `thread archive` is `set_thread_status` with a fixed status.

    `fixed` are arguments that the command gives itself. `help` replaces the operation's own first paragraph, `notes`
    stand after it, `examples` at the end, a line each. `columns` name the attributes that a table of messages shows.
    With `runs_here` it works in its own process even if a daemon runs. `prints` names the one attribute of the result
    that is printed.
    """

    path: str
    help: str = ""
    notes: str = ""
    examples: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    runs_here: bool = False
    prints: str = ""
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tool:
    """An MCP tool that runs an operation, with the text that tells a model when to use it.

    `parameters` are those that a model may set; each text in `help` replaces a parameter's own. With `bounds` a model
    may ask for less than others.
    """

    name: str
    title: str
    text: str
    parameters: tuple[str, ...] = ()
    help: Mapping[str, str] = field(default_factory=dict)
    is_idempotent: bool = True


class Parameter(NamedTuple):
    """One parameter of an operation.

    `type` is without `Annotated`; `default` is `inspect.Parameter.empty` if needed.
    """

    name: str
    type: Any
    default: Any
    is_positional: bool
    meta: Meta
    cli: Cli

    @property
    def is_needed(self) -> bool:
        """True when it cannot be left out."""
        return self.default is inspect.Parameter.empty

    @property
    def is_callback(self) -> bool:
        """True when it is called while the operation works: callbacks do not travel as values."""
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
    def annotated(self) -> Any:
        """The type with its bounds, without `| None`."""
        return Annotated[self.value_type, self.meta]

    @property
    def choices(self) -> tuple[str, ...]:
        """The texts that it may be; empty where any will do."""
        return tuple((self.meta.extra_json_schema or {}).get("enum", ()))

    @property
    def wanted(self) -> str:
        """What a value must be, as an error says it."""
        if self.choices:
            *first, last = filter(None, self.choices)
            return f"{', '.join(first)} or {last}"
        kind, low, high = self.value_type, self.meta.ge, self.meta.le
        if kind in (int, float):
            name = "a whole number" if kind is int else "a number"
            from_low = f" from {low:,}" if low is not None else ""
            return name + from_low + (f" to {high:,}" if high is not None else "")
        if kind is bool:
            return "true or false"
        if kind is str:
            return "text"
        return "an object" if get_origin(kind) is not tuple else "a list of texts"


class Runs(Protocol):
    """A memory: it runs operations here or through a daemon."""

    def run(self, operation: Operation[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run an operation and return its result. Raises MemsyncError."""
        ...


class Operation(Generic[P, R]):
    """A declared operation. As an attribute of a memory's class it is a typed method.

    `function` does the work, given a Workspace and the arguments. `writes` says that notes or the index may change, so
    that it is not simply repeated after a fault; `is_slow` that it may take minutes; `is_local` that no daemon offers
    it.
    """

    def __init__(
        self,
        function: Callable[Concatenate[Any, P], R],
        commands: tuple[Command, ...],
        tool: Tool | None,
        *,
        writes: bool,
        is_slow: bool,
        is_local: bool,
    ) -> None:
        self.function = function
        self.name = function.__name__
        self.__doc__ = function.__doc__
        self.commands = commands
        self.tool = tool
        self.writes = writes
        self.is_slow = is_slow
        self.is_local = is_local

    @overload
    def __get__(self, memory: None, owner: type) -> Self: ...

    @overload
    def __get__(self, memory: Runs, owner: type) -> Callable[P, R]: ...

    def __get__(self, memory: Runs | None, owner: type) -> Self | Callable[P, R]:
        if memory is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> R:
            return memory.run(self, *args, **kwargs)

        method.__name__, method.__doc__ = self.name, self.__doc__
        return method

    def __call__(self, memory: Runs, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run it on a memory, as `Memory.search(memory, …)` does; also one that is not a method of Memory."""
        return memory.run(self, *args, **kwargs)

    # -------------------------------------------------------------------------------------- declaration

    @cached_property
    def _hints(self) -> Mapping[str, Any]:
        """The types of its parameters and of its result. That of the memory is only known to a type checker."""
        memory = next(iter(inspect.signature(self.function).parameters))
        annotations = {name: hint for name, hint in self.function.__annotations__.items() if name != memory}
        described = SimpleNamespace(__annotations__=annotations)
        return get_type_hints(described, self.function.__globals__, include_extras=True)

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """Its parameters by name, in order, without the memory that it works on."""
        declared = list(inspect.signature(self.function).parameters.values())[1:]
        return {one.name: _parameter(one, self._hints[one.name]) for one in declared}

    @cached_property
    def values(self) -> Mapping[str, Parameter]:
        """The parameters that are values: all but callbacks."""
        return {name: one for name, one in self.parameters.items() if not one.is_callback}

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
        return next((one for one in self.values.values() if one.cli.is_text), None)

    # ---------------------------------------------------------------------------------------- arguments

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name, without those that are left out. Raises TypeError, UsageError."""
        bound = inspect.signature(self.function).bind(None, *args, **kwargs).arguments
        arguments = dict(list(bound.items())[1:])
        for name, value in arguments.items():
            self._check(self.parameters[name], value)
        return arguments

    def arguments_from(
        self, values: Mapping[str, Any], *, called: str = "", allowed: tuple[str, ...] | None = None
    ) -> dict[str, Any]:
        """Return the arguments that a JSON object gives. Raises UsageError for a wrong name, type or number.

        `null` is as if left out; half a surrogate pair in a text, which is no text, is replaced. `called` is what
        errors call the operation, `allowed` are the parameters that may be set.
        """
        called, allowed = called or self.name, tuple(self.values) if allowed is None else allowed
        known = f"Its parameters are: {', '.join(allowed) or 'none'}."
        given = {name: _sound(value) for name, value in values.items() if value is not None}
        unknown = sorted(given.keys() - set(allowed))
        if unknown:
            names = ", ".join(name[:100] for name in unknown[:10])
            raise UsageError(f"{called} has no parameter {names}", hint=known)
        missing = [name for name, one in self.values.items() if one.is_needed and name not in given]
        if missing:
            raise UsageError(f"{called} needs {missing[0]}", hint=known)
        return {name: self._converted(self.values[name], value) for name, value in given.items()}

    def _converted(self, parameter: Parameter, value: Any) -> Any:
        """Return a JSON value as a parameter's type has it."""
        try:
            if parameter.value_type is float and type(value) is int:
                value = float(value)
            found = msgspec.convert(value, parameter.annotated)
        except (msgspec.ValidationError, OverflowError):
            raise _wrong(parameter) from None
        self._check(parameter, found)
        return found

    def _check(self, parameter: Parameter, value: Any) -> None:
        """Refuse a number out of bounds, a text that is not among the choices, and one in place of a list of texts."""
        low, high = parameter.meta.ge, parameter.meta.le
        if isinstance(value, str) and parameter.choices:
            is_outside = value not in parameter.choices
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            is_outside = (low is not None and not value >= low) or (high is not None and not value <= high)
        else:
            is_outside = isinstance(value, str) and get_origin(parameter.value_type) is tuple
        if is_outside:
            raise _wrong(parameter)


class Lazy(Generic[P, R]):
    """An operation as an attribute of a memory's class, whose module is loaded at its first use."""

    def __init__(self, load: Callable[[], Operation[P, R]]) -> None:
        self._load = load

    @overload
    def __get__(self, memory: None, owner: type) -> Operation[P, R]: ...

    @overload
    def __get__(self, memory: Runs, owner: type) -> Callable[P, R]: ...

    def __get__(self, memory: Runs | None, owner: type) -> Operation[P, R] | Callable[P, R]:
        operation = self._load()
        return operation if memory is None else operation.__get__(memory, owner)


def lazily(load: Callable[[], Operation[P, R]]) -> Lazy[P, R]:
    """Return the operation that `load` returns, as an attribute of a class."""
    return Lazy(load)


def operation(
    *commands: Command,
    tool: Tool | None = None,
    writes: bool = False,
    is_slow: bool = False,
    is_local: bool = False,
) -> Callable[[Callable[Concatenate[W, P], R]], Operation[P, R]]:
    """Declare the decorated function as an operation: offered as `commands` and as an MCP `tool`, or neither."""

    def declare(function: Callable[Concatenate[W, P], R]) -> Operation[P, R]:
        declared: Operation[P, R] = Operation(
            function, commands, tool, writes=writes, is_slow=is_slow, is_local=is_local
        )
        OPERATIONS[declared.name] = declared
        return declared

    return declare


def one_of(choices: Iterable[str], description: str) -> Meta:
    """Return what describes a parameter whose text must be one of `choices`."""
    return Meta(description=description, extra_json_schema={"enum": [str(choice) for choice in choices]})


def tools() -> Iterator[Operation[Any, Any]]:
    """Yield the operations that are offered as MCP tools."""
    return (one for one in OPERATIONS.values() if one.tool is not None)


def _parameter(declared: inspect.Parameter, hint: Any) -> Parameter:
    kind, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    return Parameter(
        declared.name,
        kind,
        declared.default,
        declared.kind is not inspect.Parameter.KEYWORD_ONLY,
        next((extra for extra in extras if isinstance(extra, Meta)), Meta()),
        next((extra for extra in extras if isinstance(extra, Cli)), Cli()),
    )


def _wrong(parameter: Parameter) -> UsageError:
    return UsageError(f"{parameter.name} must be {parameter.wanted}", hint=parameter.help or "See docs/operations.md.")


def _sound(value: Any) -> Any:
    """Return a JSON value in which no text holds half a surrogate pair."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_sound(item) for item in value]
    if isinstance(value, dict):
        return {_sound(name): _sound(item) for name, item in value.items()}
    return value
