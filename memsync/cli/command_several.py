"""`memsync get` and `memsync context`: their operations, also on registered memories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from memsync.cli.build import command_of
from memsync.cli.covered import in_location, in_question, roots_options
from memsync.features.context.compose import context as context_operation
from memsync.features.search import get as get_operation

if TYPE_CHECKING:
    from memsync.registered import Memories


def _in_query(context: click.Context, given: dict[str, Any]) -> Memories | None:
    """Return the registered memories that a context's hits come from; take `root:` filters out of the query."""
    words = given["query"]
    memories, query = in_question(
        context, given.pop("roots"), " ".join(words), is_all=given.pop("all_roots"), needs_own=True
    )
    if memories is not None:
        given["query"] = (query,) if query.strip() else ()
    return memories


get = command_of(get_operation, get_operation.commands[0], in_location)
context = command_of(
    context_operation, context_operation.commands[0], _in_query, without=("found",), options=roots_options
)
