"""Which memories a command covers: the current one, or registered ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memsync.cli.common import load
from memsync.cli.entry import may_name_roots
from memsync.cli.output import KEPT, NotServed
from memsync.errors import NoMemoryRoot, UsageError
from memsync.settings.roots import is_root_name

if TYPE_CHECKING:
    from memsync.registered import Memories

F = TypeVar("F", bound=Callable[..., None])


def roots_options(command: F) -> F:
    """Add the options that name registered memories; `in_question` reads them."""
    command = click.option("--all-roots", is_flag=True, help="Search all registered memories (memsync roots list).")(
        command
    )
    return click.option(
        "--roots", multiple=True, metavar="NAMES", help="Search these registered memories: names, with commas between."
    )(command)


def in_question(
    context: click.Context, roots: tuple[str, ...], query: str, *, is_all: bool, needs_own: bool = False
) -> tuple[Memories | None, str]:
    """Return the registered memories that a question is for, and its text without `root:` filters.

    None means the current memory. Outside a memory root it is for all registered memories. With `needs_own` they also
    get the current memory, if there is one. Raises UsageError, ConfigError.
    """
    names = [name.strip() for value in roots for name in value.split(",")]
    if roots and is_all:
        raise UsageError("--roots and --all-roots cannot be used together", hint="Use one of them.")
    if not all(map(is_root_name, names)):
        raise UsageError("--roots needs names of registered memories", hint="Example: --roots work,home")
    if not (names or is_all or "root:" in query) and _is_in_root(context):
        return None, query
    if KEPT.get():  # a daemon serves one memory
        raise NotServed
    from memsync.registered import ALL_ROOTS, Memories, MemoryOpener, roots_in
    from memsync.settings.roots import chosen_roots, registered_roots

    chosen, rest = roots_in([*names, *[ALL_ROOTS] * is_all], query)
    is_in_root = (needs_own or not chosen) and _is_in_root(context)
    if not chosen and is_in_root:  # "root:" was only text
        return None, query
    if not chosen and not registered_roots():
        load(context)  # raises the error that says what a memory root is
    has_own = needs_own and (is_in_root or _has_root(context))
    own = MemoryOpener(lambda: load(context)) if has_own else None
    return Memories(chosen or chosen_roots(), own=own), rest


def in_location(context: click.Context, given: dict[str, Any]) -> Memories | None:
    """Return the registered memory that a location `NAME:PATH…` names; None for a location in the current memory.

    Outside of a memory root they are all registered memories, which refuse a location that names none of them.
    """
    location: str = given["location"]
    is_in_root = _has_root(context)
    if is_in_root and not (may_name_roots("get", location) and is_root_name(location.partition(":")[0])):
        return None
    if KEPT.get():
        raise NotServed
    from memsync.registered import Memories, root_of
    from memsync.settings.roots import registered_roots

    roots = root_of(location) if is_in_root else registered_roots()
    return Memories(roots) if roots else None


def _is_in_root(context: click.Context) -> bool:
    """Tell whether an option, a setting or a config file names a memory root."""
    return _has_root(context) and not load(context).is_default_root


def _has_root(context: click.Context) -> bool:
    """Tell whether there is a current memory: that of `_is_in_root`, or the default one."""
    try:
        load(context)
    except NoMemoryRoot:
        return False
    return True
