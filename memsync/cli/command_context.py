"""`memsync context`: the operation, also with hits of registered memories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from memsync.cli.build import command_of
from memsync.cli.covered import in_question, roots_options
from memsync.features.context.compose import context as operation

if TYPE_CHECKING:
    from memsync.registered import Memories


def _covered(command: click.Context, given: dict[str, Any]) -> Memories | None:
    """Return the registered memories that the hits come from; take `root:` filters out of the query."""
    words, roots, is_all = given["query"], given.pop("roots"), given.pop("all_roots")
    memories, query = in_question(command, roots, " ".join(words), is_all=is_all, needs_own=True)
    if memories is not None:
        given["query"] = (query,) if query.strip() else ()
    return memories


context = command_of(operation, operation.commands[0], _covered, without=("found",), options=roots_options)
