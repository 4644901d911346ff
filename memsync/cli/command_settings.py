"""`memsync config` and `memsync trust`."""

from __future__ import annotations

import json
import os

import click

from memsync.cli.common import json_option, load
from memsync.cli.output import json_line, printable, say, say_json
from memsync.errors import ConfigError, UsageError


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


@click.command()
@click.argument("file", default="", metavar="[FILE]")
@click.option("--revoke", is_flag=True, help="Take the trust in FILE back.")
@click.option("--list", "is_list", is_flag=True, help="Print the files that are trusted.")
@json_option
@click.pass_context
def trust(context: click.Context, file: str, revoke: bool, is_list: bool, as_json: bool) -> None:
    """Let a config file that came with your notes decide every setting, until its content changes.

    FILE is by default the config file that memsync finds in this folder or above it. Read it first: it can send your
    notes to another model, put the index elsewhere, or commit to git. What it may decide now is printed.
    """
    from memsync.settings import trust as trusting

    if is_list:
        if file or revoke:
            raise UsageError("--list takes neither a file nor --revoke", hint="Write: memsync trust --list")
        _list(trusting.trusted_paths(), as_json=as_json)
        return
    path = os.path.abspath(os.path.expanduser(file)) if file else _found(context)
    if revoke:
        was_trusted = trusting.revoke(path)
        if as_json:
            say_json({"path": path, "revoked": was_trusted})
        else:
            say(f"{printable(path)} {'is not trusted any more' if was_trusted else 'was not trusted'}")
        return
    _trust(path, as_json=as_json)


def _found(context: click.Context) -> str:
    from memsync.settings.load import find_config

    found = find_config(context.obj.config, context.obj.root)
    if found is None:
        raise ConfigError("no config file was found here or above", hint="Name it: memsync trust FILE")
    return found.path


def _trust(path: str, *, as_json: bool) -> None:
    from memsync.settings import trust as trusting
    from memsync.settings.config_file import parse_config
    from memsync.settings.load import settings_to_trust
    from memsync.system.user_folders import other_writer

    if os.path.lexists(path) and not (os.path.isfile(path) and not os.path.islink(path)):
        raise ConfigError(f"{path} cannot be trusted: it is a link or no file", hint="Name the file itself.")
    file = parse_config(path)
    if writer := other_writer(os.stat(path), path):
        hint = "Make it your own first: chown, chmod go-w."
        raise ConfigError(f"{path} cannot be trusted: {writer} can change it", hint=hint)
    settings = settings_to_trust(file)
    trusting.trust(file)
    if as_json:
        say_json({"path": path, "settings": settings})
        return
    say(f"trusted  {printable(path)}")
    for name, value in settings.items():
        say(f"  {name} = {printable(json.dumps(value, ensure_ascii=False))}")
    if not settings:
        say("  It sets nothing that needs trust.")


def _list(paths: list[str], *, as_json: bool) -> None:
    if as_json:
        say_json({"trusted": paths})
        return
    for path in paths:
        say(printable(path))
