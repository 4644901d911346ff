"""Which memories a request is for: the current one, or registered ones that it names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memsync.operation import Operation
from memsync.search.query_syntax import without_roots
from memsync.settings.roots import RegisteredRoot, chosen_roots, is_root_name, registered_roots

ALL_ROOTS = "*"


def covered(
    operation: Operation[Any, Any], arguments: Mapping[str, Any], names: Iterable[str] = ()
) -> tuple[dict[str, RegisteredRoot], dict[str, Any]]:
    """Return the registered memories that a request names, and its arguments without their names.

    There are none if it names none: neither in `names`, nor by `root:` in a query, nor at the beginning of a citation
    `NAME:PATH…`, which keeps its name. ALL_ROOTS in `names` stands for all if nothing else is named. A note of the
    current memory may begin like a citation, too: it has to be written `./NAME:PATH`. If it came first, a clone could
    answer for another memory. Raises UsageError for an unknown name, ConfigError if none is registered.
    """
    given = dict(arguments)
    text = str(given.get(operation.several, ""))
    if operation.several == "query":
        in_query, rest = without_roots(text)
        if named := (*names, *in_query):
            given["query"] = rest
            return chosen_roots(tuple(name for name in named if name != ALL_ROOTS)), given
    elif operation.several:
        name, _, place = text.partition(":")
        roots = registered_roots() if place and is_root_name(name) else {}
        if name in roots:
            return {name: roots[name]}, given
    return {}, given
