"""`memsync config`."""

from __future__ import annotations

import json

import click

from memsync.cli.common import json_option, load
from memsync.cli.output import json_line, printable, say, say_json


@click.group()
def config() -> None:
    """Look at the settings."""


@config.command()
@json_option
@click.pass_context
def show(context: click.Context, as_json: bool) -> None:
    """Print every setting, its value and where that came from."""
    settings = load(context)
    values = {**settings.values, "memsync.root": str(settings.root), "index.dir": str(settings.index_dir)}
    if as_json:
        found = {name: {"value": value, "source": settings.sources[name]} for name, value in values.items()}
        say_json({"settings": found, "kinds": dict(settings.kinds), "tiers": dict(settings.tiers)})
        return
    width = max(map(len, values))
    for name, value in values.items():
        shown = json_line(json.dumps(value, ensure_ascii=False))
        say(f"{name:<{width}}  {shown}  ({printable(settings.sources[name])})")
    for table, globs in (("kinds", settings.kinds), ("tiers", settings.tiers)):
        for glob, value in globs.items():
            say(f"{table}.{json_line(json.dumps(glob, ensure_ascii=False))} = {value}")
