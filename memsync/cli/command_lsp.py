"""`memsync lsp`: the language server, as click describes it; entry.py runs it without click."""

from __future__ import annotations

import click

SECTION = "Set up"


@click.command()
@click.option("--stdio", is_flag=True, hidden=True, help="Some editors add this; it is the default.")
@click.pass_context
def lsp(context: click.Context, stdio: bool) -> None:  # noqa: ARG001 (because it says nothing new)
    """Serve a text editor by the Language Server Protocol, on standard input and output.

    The editor gets completion, definitions, references, hover, diagnostics, symbols, renaming and code actions for the
    notes of this memory, or of the memory that the editor's folder is in, and of the registered memories. The daemon
    answers if one serves the memory. docs/editors.md shows the settings of editors.

    \b
    memsync lsp
    memsync --root ~/notes lsp
    """
    from memsync.cli.serve_lsp import run

    context.exit(run(context.obj.config, context.obj.root))
