"""Which memories a command covers: the current one, or registered ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memsync.cli.common import load
from memsync.cli.output import KEPT, NotServed
from memsync.cli.typed_line import may_name_roots
from memsync.errors import NoMemoryRoot, UsageError
from memsync.operation import Several
from memsync.settings.roots import is_root_name

if TYPE_CHECKING:
    from memsync.memories.several import Memories
    from memsync.operation import Operation

F = TypeVar("F", bound=Callable[..., None])


def roots_options(command: F) -> F:
    """Add the options that name registered memories; `covered` reads them."""
    command = click.option("--all-roots", is_flag=True, help="Search all registered memories (memsync roots list).")(
        command
    )
    return click.option(
        "--roots", multiple=True, metavar="NAMES", help="Search these registered memories: names, with commas between."
    )(command)


def covered(
    context: click.Context,
    operation: Operation[Any, Any],
    arguments: dict[str, Any],
    roots: tuple[str, ...] = (),
    *,
    is_all: bool = False,
) -> tuple[Memories | None, dict[str, Any]]:
    """Return the registered memories that a command is for, and its arguments for them.

    None means the current memory. Outside of every memory root it is for all registered memories, if there are any. A
    context also gets the current memory, if there is one. Raises UsageError, ConfigError.
    """
    names = [name.strip() for value in roots for name in value.split(",")]
    if roots and is_all:
        raise UsageError("--roots and --all-roots cannot be used together", hint="Use one of them.")
    if not all(map(is_root_name, names)):
        raise UsageError("--roots needs names of registered memories", hint="Example: --roots work,home")
    # A query outside of every folder with a root is for all memories, the default root among them.
    is_here = is_in_root(context) if operation.several is Several.QUERY else _has_root(context)
    text = arguments.get(operation.several, "")
    if is_here and not (names or is_all or may_name_roots(operation.several, text)):
        return None, arguments
    if KEPT.get():  # a daemon serves one memory
        raise NotServed
    from memsync.memories import several
    from memsync.memories.reopening import Opener
    from memsync.settings.roots import registered_roots

    chosen, given = several.covered(operation, arguments, [*names, *[several.ALL_ROOTS] * is_all])
    if not chosen and (is_here or not registered_roots()):  # only text looked like a name
        return None, arguments
    needs_own = operation.name == "context" and _has_root(context)
    opener = Opener((lambda: load(context)) if needs_own else None)
    return several.Memories(chosen or registered_roots(), opener=opener), given


def is_in_root(context: click.Context) -> bool:
    """Tell whether an option, a setting or a config file names a memory root."""
    return _has_root(context) and not load(context).is_default_root


def _has_root(context: click.Context) -> bool:
    """Tell whether there is a current memory: that of `is_in_root`, or the default one."""
    try:
        load(context)
    except NoMemoryRoot:
        return False
    return True
