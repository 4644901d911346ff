"""The commands that set memsync up: `init`, `config`, `trust`, `doctor` and `completion`."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import click

from memsync.cli.common import answering, load
from memsync.cli.output import DOORS, NO_EXIT_CODE, CommandAnswer, say_as_it_is
from memsync.errors import ConfigError, MemsyncError, UsageError
from memsync.model.text import count, json_line

SECTION = "Set up"


@click.command()
@click.argument("directory", default=".", metavar="[DIR]")
@click.option("--from", "address", default="", metavar="ADDRESS", help="Copy a shared memory to DIR, and share it.")
@answering
def init(context: click.Context, directory: str, address: str) -> CommandAnswer:
    """Make DIR a memory root: templates, .gitignore, .gitattributes and config.toml.

    Never overwrites a file; in a folder that has notes already it adds only what is missing. With --from, DIR gets the
    notes that another machine shares (memsync share), and is shared, too.
    """
    root = context.obj.root
    if context.obj.config or root:
        raise UsageError("init takes neither --root nor --config", hint=f"Write: memsync init {root or 'DIR'}")
    from memsync.features.scaffold import create_root
    from memsync.notes.files import NoteFiles
    from memsync.notes.languages import advice_on_model
    from memsync.settings.config_file import without_our_table
    from memsync.settings.load import default_of

    place = Path(directory).expanduser()
    if address:
        from memsync.features.sharing.beginning import copy_shared

        copy_shared(address, place)
    scaffold = create_root(place)
    lines = [f"created  {name}" for name in scaffold.created]
    lines += [f"kept     {name}" for name in scaffold.kept]
    if scaffold.logs:
        lines.append(f"logs     {scaffold.logs}/, where Obsidian keeps daily notes ([kinds] in the config file)")
    if scaffold.notes:
        lines.append(f"{count(scaffold.notes, 'note was', 'notes were')} here already and not touched")
    files = NoteFiles(scaffold.root)
    lines += filter(None, [advice_on_model(files, files.scan().files, default_of("embedder.model"))])
    if without_our_table(str(scaffold.root)):
        lines.append("config.toml belongs to another program: memsync knows this folder by its identity")
    first = "" if scaffold.root == Path.cwd() else f"cd {shlex.quote(str(scaffold.root))} && "
    lines += ["", f'Next: {first}memsync sync && memsync search "something you know is in your notes"', *DOORS[1:]]
    return CommandAnswer({"root": str(scaffold.root), "created": scaffold.created, "kept": scaffold.kept}, lines)


@click.group()
def config() -> None:
    """Look at the settings."""


@config.command()
@answering
def show(context: click.Context) -> CommandAnswer:
    """Print every setting, its value and its source."""
    from memsync.settings.settings_list import DSN

    settings = load(context)
    values = {**settings.values, "memsync.root": str(settings.root)}
    values[DSN] = HIDDEN if values[DSN] else ""
    width = max(map(len, values))
    lines = [f"{name:<{width}}  {_as_json(value)}  ({settings.sources[name]})" for name, value in values.items()]
    globs = {"kinds": settings.kinds, "tiers": settings.tiers}
    lines += [f"{table}.{_as_json(glob)} = {value}" for table in globs for glob, value in globs[table].items()]
    described = {name: {"value": value, "source": settings.sources[name]} for name, value in values.items()}
    return CommandAnswer({"settings": described, **globs}, lines)


HIDDEN = "(hidden)"
"""Printed instead of a connection string, which may have a password."""


def _as_json(value: object) -> str:
    return json_line(json.dumps(value, ensure_ascii=False))


@click.command()
@click.argument("file", default="", metavar="[FILE]")
@click.option("--revoke", is_flag=True, help="Stop trusting FILE.")
@click.option("--list", "is_list", is_flag=True, help="Print the files that are trusted.")
@answering
def trust(context: click.Context, file: str, revoke: bool, is_list: bool) -> CommandAnswer:
    """Let a config file that came with your notes decide every setting that it has now.

    If one of the settings that need trust changes, or another is added, memsync asks again.

    FILE is by default the config file that memsync finds in this folder or above it. Read it first: it can send your
    notes to another model, put the index elsewhere, or commit to git. The command prints what FILE may decide now.
    """
    from memsync.settings import config_trust as trusting

    if is_list:
        if file or revoke:
            raise UsageError("--list takes neither a file nor --revoke", hint="Write: memsync trust --list")
        paths = trusting.trusted_paths()
        return CommandAnswer({"trusted": paths}, paths)
    path = os.path.abspath(os.path.expanduser(file)) if file else _path_found(context)
    if revoke:
        was_trusted = trusting.revoke(path)
        outcome = "is not trusted any more" if was_trusted else "was not trusted"
        return CommandAnswer({"path": path, "revoked": was_trusted}, [f"{path} {outcome}"])
    settings = _trust(path)
    lines = [f"  {name} = {json.dumps(value, ensure_ascii=False)}" for name, value in settings.items()]
    lines = lines or ["  It sets nothing that needs trust."]
    return CommandAnswer({"path": path, "settings": settings}, [f"trusted  {path}", *lines])


def _path_found(context: click.Context) -> str:
    from memsync.settings.load import find_config

    config_file = find_config(context.obj.config, context.obj.root)
    if config_file is None:
        raise ConfigError("no config file was found here or above", hint="Name it: memsync trust FILE")
    return config_file.path


def _trust(path: str) -> dict[str, object]:
    """Trust a config file and return the settings that need the trust. Raises ConfigError."""
    from memsync.settings import config_trust as trusting
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
@answering
def doctor(context: click.Context) -> CommandAnswer:
    """Check this machine (check: the notes; index verify: the index): all that memsync needs, and what to do.

    Exits with 1 if there is a fault.
    """
    from memsync.doctor import Check, check_all

    try:
        checks = check_all(load(context))
    except MemsyncError as error:
        checks = [Check("settings", False, error.message, error.hint)]
    is_healthy = all(check.ok for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{'ok   ' if check.ok else 'FAULT'} {check.name:<12} {check.finding}")
        lines += [f"{'':18} {line}" for line in check.advice.splitlines()]
    lines += ["", *DOORS] * is_healthy
    return CommandAnswer({"healthy": is_healthy, "checks": checks}, lines, code=0 if is_healthy else NO_EXIT_CODE)


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that lets SHELL (bash, zsh or fish) complete commands and options.

    \b
    eval "$(memsync completion bash)"          # in ~/.bashrc
    eval "$(memsync completion zsh)"           # in ~/.zshrc, after compinit
    memsync completion fish > ~/.config/fish/completions/memsync.fish
    """
    from click.shell_completion import get_completion_class

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    say_as_it_is(completion_class(context.find_root().command, {}, "memsync", "_MEMSYNC_COMPLETE").source())
