"""The commands that set memsync up: `init`, `config`, `trust`, `doctor` and `completion`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from memsync.cli.common import json_option, load
from memsync.cli.output import NO_EXIT_CODE, say, say_answer, say_as_it_is, say_json
from memsync.errors import ConfigError, MemsyncError, UsageError
from memsync.model.text import count, json_line, printable


@click.command()
@click.argument("directory", default=".", metavar="[DIR]")
@json_option
@click.pass_context
def init(context: click.Context, directory: str, as_json: bool) -> None:
    """Make DIR a memory root: templates, .gitignore, .gitattributes and config.toml.

    If DIR has another program's config.toml, the settings go into memsync.toml.

    Never overwrites a file; in a folder that has notes already it adds only what is missing.
    """
    root = context.obj.root
    if context.obj.config or root:
        raise UsageError("init takes neither --root nor --config", hint=f"Write: memsync init {root or 'DIR'}")
    from memsync.features.scaffold import create_root
    from memsync.settings.config_file import OWN_NAME

    scaffold = create_root(Path(directory).expanduser())
    if as_json:
        say_json({"root": str(scaffold.root), "created": list(scaffold.created), "kept": list(scaffold.kept)})
        return
    for name in scaffold.created:
        reason = "  (config.toml here belongs to another program)" if name == OWN_NAME else ""
        say(f"created  {printable(name)}{reason}")
    for name in scaffold.kept:
        say(f"kept     {printable(name)}")
    if scaffold.logs:
        say(f"logs     {printable(scaffold.logs)}/, where Obsidian keeps daily notes ([kinds] in the config file)")
    if scaffold.notes:
        say(f"{count(scaffold.notes, 'note was', 'notes were')} here already and not touched")
    here = "" if scaffold.root == Path.cwd() else f"cd {printable(str(scaffold.root))} && "
    say(f'\nNext: {here}memsync sync && memsync search "something you know is in your notes"')


@click.group()
def config() -> None:
    """Look at the settings."""


@config.command()
@json_option
@click.pass_context
def show(context: click.Context, as_json: bool) -> None:
    """Print every setting, its value and its source."""
    from memsync.settings.load import DSN

    settings = load(context)
    values = {**settings.values, "memsync.root": str(settings.root), "index.dir": str(settings.index_dir)}
    values[DSN] = HIDDEN if values[DSN] else ""
    if as_json:
        described = {name: {"value": value, "source": settings.sources[name]} for name, value in values.items()}
        say_json({"settings": described, "kinds": dict(settings.kinds), "tiers": dict(settings.tiers)})
        return
    width = max(map(len, values))
    for name, value in values.items():
        say(f"{name:<{width}}  {_as_json(value)}  ({printable(settings.sources[name])})")
    for table, globs in (("kinds", settings.kinds), ("tiers", settings.tiers)):
        for glob, value in globs.items():
            say(f"{table}.{_as_json(glob)} = {value}")


HIDDEN = "(hidden)"
"""Printed instead of a connection string, which may have a password."""


def _as_json(value: object) -> str:
    return json_line(json.dumps(value, ensure_ascii=False))


@click.command()
@click.argument("file", default="", metavar="[FILE]")
@click.option("--revoke", is_flag=True, help="Stop trusting FILE.")
@click.option("--list", "is_list", is_flag=True, help="Print the files that are trusted.")
@json_option
@click.pass_context
def trust(context: click.Context, file: str, revoke: bool, is_list: bool, as_json: bool) -> None:
    """Let a config file that came with your notes decide every setting that it has now.

    If one of the settings that need trust changes, or another is added, memsync asks again.

    FILE is by default the config file that memsync finds in this folder or above it. Read it first: it can send your
    notes to another model, put the index elsewhere, or commit to git. The command prints what FILE may decide now.
    """
    from memsync.settings import trust as trusting

    if is_list:
        if file or revoke:
            raise UsageError("--list takes neither a file nor --revoke", hint="Write: memsync trust --list")
        paths = trusting.trusted_paths()
        say_answer({"trusted": paths}, map(printable, paths), as_json=as_json)
        return
    path = os.path.abspath(os.path.expanduser(file)) if file else _path_found(context)
    if revoke:
        was_trusted = trusting.revoke(path)
        outcome = "is not trusted any more" if was_trusted else "was not trusted"
        say_answer({"path": path, "revoked": was_trusted}, [f"{printable(path)} {outcome}"], as_json=as_json)
        return
    settings = _trust(path)
    lines = [f"  {name} = {printable(json.dumps(value, ensure_ascii=False))}" for name, value in settings.items()]
    lines = lines or ["  It sets nothing that needs trust."]
    say_answer({"path": path, "settings": settings}, [f"trusted  {printable(path)}", *lines], as_json=as_json)


def _path_found(context: click.Context) -> str:
    from memsync.settings.load import find_config

    config_file = find_config(context.obj.config, context.obj.root)
    if config_file is None:
        raise ConfigError("no config file was found here or above", hint="Name it: memsync trust FILE")
    return config_file.path


def _trust(path: str) -> dict[str, object]:
    """Trust a config file and return the settings that need the trust. Raises ConfigError."""
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
    trusting.trust(file, settings)
    return settings


@click.command()
@json_option
@click.pass_context
def doctor(context: click.Context, as_json: bool) -> None:
    """Check everything memsync depends on, and say what to do about each fault. Exits with 1 if there is one."""
    from memsync.doctor import Check, check_all

    try:
        checks = check_all(load(context))
    except MemsyncError as error:
        checks = [Check("settings", False, error.message, error.hint)]
    is_healthy = all(check.ok for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{'ok   ' if check.ok else 'FAULT'} {check.name:<12} {printable(check.finding)}")
        lines += [f"{'':18} {printable(line)}" for line in check.advice.splitlines()]
    say_answer({"healthy": is_healthy, "checks": checks}, lines, as_json=as_json)
    if not is_healthy:
        sys.exit(NO_EXIT_CODE)


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Print a script that lets SHELL (bash, zsh or fish) complete commands and options.

    \b
    eval "$(memsync completion bash)"          # in ~/.bashrc
    eval "$(memsync completion zsh)"           # in ~/.zshrc, after compinit
    memsync completion fish > ~/.config/fish/completions/memsync.fish
    """
    from click.shell_completion import get_completion_class

    from memsync.cli.main import cli

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    say_as_it_is(completion_class(cli, {}, "memsync", "_MEMSYNC_COMPLETE").source())
