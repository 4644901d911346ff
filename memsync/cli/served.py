"""A command that the daemon runs for a client, so that the client need not load what the daemon has."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import TYPE_CHECKING, Any

from memsync.cli.common import Invocation
from memsync.cli.output import KEPT, Kept

if TYPE_CHECKING:
    from memsync.memory import Memory


def run_command(memory: Memory, params: Mapping[str, Any]) -> dict[str, Any]:
    """Run the command line `params["arguments"]` and return what it prints, and its exit code.

    An empty result declines: the client runs the command itself, and prints what is wrong with it.
    """
    from memsync.cli.main import cli

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
        cli.main(list(params["arguments"]), prog_name="memsync", standalone_mode=False, obj=invocation)
        code: Any = 0
    except SystemExit as stop:
        code = stop.code
    except Exception:  # noqa: BLE001 (because the client runs the command again, and shows what is wrong)
        return {}
    finally:
        KEPT.reset(mark)
    return {"out": kept.out.getvalue(), "err": kept.err.getvalue(), "code": code if isinstance(code, int) else 0}
