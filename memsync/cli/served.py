"""A command that the daemon runs for a client, so that the client need not load what the daemon has."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import TYPE_CHECKING, Any

from memsync.cli.common import Invocation
from memsync.cli.output import KEPT, Kept, NotServed

if TYPE_CHECKING:
    from memsync.memory import Memory


def run_command(memory: Memory, params: Mapping[str, Any]) -> dict[str, Any]:
    """Run the command line `params["arguments"]` and return what it prints, and its exit code.

    An empty result declines: nothing has been done, and the client runs the command itself.
    """
    from memsync.cli.main import run

    kept = Kept(
        StringIO(),
        StringIO(),
        bool(params.get("is_terminal")),
        bool(params.get("has_colour")),
        int(params.get("width", 0)),
    )
    mark = KEPT.set(kept)
    try:
        invocation = Invocation(
            memory=memory, folder=str(params.get("folder", "")), open_with=str(params.get("open_with", ""))
        )
        code = run(list(params["arguments"]), invocation)
    except NotServed:
        return {}
    finally:
        KEPT.reset(mark)
    return {"out": kept.out.getvalue(), "err": kept.err.getvalue(), "code": code}
