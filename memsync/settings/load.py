"""All settings with defaults. The environment overrides config.toml, which overrides the user's own file.

A setting `table.key` is `key` under `[table]` in config.toml and `MEMSYNC_TABLE_KEY` in the environment
(`memsync.root` is `MEMSYNC_ROOT`). An unknown name or a wrong type is an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os.path import realpath
from typing import TYPE_CHECKING, Any, NamedTuple

from memsync.errors import ConfigError, NoMemoryRoot, RootError
from memsync.model.text import did_you_mean, quoted
from memsync.settings import config_file, paths
from memsync.settings.config_file import NAME as CONFIG_NAME
from memsync.settings.config_file import ConfigFile, found_above, nearest, parse_config, users_own, without_our_table
from memsync.settings.paths import current_folder, expanded, index_dir, is_inside, keep_dir, resolve_root, root_of
from memsync.settings.setting import checked, from_text
from memsync.settings.settings_list import DSN, EXCLUDED, GLOB_TABLES, NOT_SHARED, ROOTS_NAME, SETTINGS, UNITED
from memsync.system.user_folders import STARTED, Stamp, config_folder, stamp_of

if TYPE_CHECKING:
    from pathlib import Path

    from memsync.settings.roots import RegisteredRoot

_AnyPath = str | os.PathLike[str]

DEFAULT_ROOT = "memsync roots default"
_BY_NAME = {setting.name: setting for setting in SETTINGS}
_OF_ONE_ROOT_VARIABLES = ("MEMSYNC_CONFIG", *(_BY_NAME[name].variable for name in NOT_SHARED))
"""Environment variables that apply to one memory root."""


class _Given(NamedTuple):
    """A value, its source (`path:line`, a variable or an option), and the folder of its file if it is from a file."""

    value: Any
    source: str
    folder: str = ""


_DEFAULTS = {setting.name: _Given(setting.default, "default") for setting in SETTINGS}


class Settings:
    """The resolved settings. `values` has every name of SETTINGS; `sources` tells where each value came from.

    `root_name` and `index_name` are `root` and `index_dir` as text, so that a command that only asks the daemon need
    not import pathlib.
    """

    def __init__(
        self,
        root_name: str,
        values: Mapping[str, Any],
        kinds: Mapping[str, str],
        tiers: Mapping[str, str],
        sources: Mapping[str, str],
        options: Sequence[str] = (),
        warnings: Sequence[str] = (),
    ) -> None:
        """Global `options` yield the same settings in any folder with the same environment.

        `warnings` are about config files that were ignored.
        """
        self.root_name = root_name
        self.index_name = index_dir(root_name)
        self.values = values
        self.kinds = kinds
        self.tiers = tiers
        self.sources = sources
        self.options = options
        self.warnings = warnings
        self.only: Sequence[str] = ()
        """If not empty, only files that match a pattern are notes, and memsync writes none: another program does."""
        self.owner = ""  # the name of that program, as the memory is registered
        self.stamps: Mapping[str, Stamp] = {}
        self.asks_trust = False
        """Whether a config file sets what it may only set because the user trusts it."""
        self.load_again: Callable[[], Settings] = lambda: self

    def require_current(self) -> None:
        """Raise ConfigError if the config files give other settings now; they are read only if one has changed."""
        stamps = {path: stamp_of(path) for path in self.stamps}
        if stamps == self.stamps:
            return
        if self.load_again().decisive() != self.decisive():
            raise ConfigError(
                f"the settings of {self.root_name} have changed since this process read them",
                hint="Run it again, or memsync daemon restart.",
            )
        self.stamps = stamps

    def decisive(self) -> list[Any]:
        """Return all settings except those under [daemon] and [cli], as JSON values."""
        values = {name: value for name, value in self.values.items() if not name.startswith(("daemon.", "cli."))}
        return [self.root_name, values, list(self.kinds.items()), list(self.tiers.items()), [*self.only, self.owner]]

    @property
    def of_files(self) -> tuple[Sequence[str], Sequence[str]]:
        """Which files are notes: what to leave out, and suffixes besides those of Markdown."""
        return self["files.exclude"], self["files.suffixes"]

    @property
    def is_default_root(self) -> bool:
        """True if only `memsync roots default` names the memory root: the current folder belongs to none."""
        return self.sources["memsync.root"] == DEFAULT_ROOT

    @property
    def root(self) -> Path:
        """The memory root."""
        from pathlib import Path

        return Path(self.root_name)

    @property
    def index_dir(self) -> Path:
        """The folder of the index, the log and the locks."""
        from pathlib import Path

        return Path(self.index_name)

    @property
    def keep_dir(self) -> Path:
        """The folder for data that outlives the index: the writers' lock and the journal of appends."""
        from pathlib import Path

        return Path(keep_dir(self.root_name))

    def __getitem__(self, name: str) -> Any:
        """Return one value by its name, for example `search.limit`."""
        return self.values[name]


class _Files(NamedTuple):
    """The config files in use: the user's own and, overriding it, the one that was named or found."""

    own: ConfigFile | None
    over: ConfigFile | None
    is_named: bool
    warnings: Sequence[str]


def load_settings(
    *,
    config: _AnyPath | None = None,
    root: _AnyPath | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: _AnyPath | None = None,
) -> Settings:
    """Resolve all settings, from five sources; each overrides those before it.

    1. the defaults in SETTINGS;
    2. the user's own config file, unless a file is named;
    3. the file that `config`, otherwise MEMSYNC_CONFIG names; otherwise the nearest config file of a memory root in
       `cwd` or above, unless nearer is a folder that `memsync init` made a root beside another program's config.toml;
    4. the environment;
    5. `root`, which names the memory root: a folder or a registered memory; otherwise the default memory counts.

    Of `privacy.local_only` the lists are united instead, also those of the user's own file and of every config file of
    the memory root that is not used otherwise. `files.exclude` of the user's own file counts after a found one's.

    If `root` or MEMSYNC_ROOT names the memory root, the search for a config file starts there, and the file must belong
    to that root. A file that was found automatically may only set what memsync.settings.config_trust allows.

    Raises ConfigError with file and line for an invalid setting, RootError for a missing root.
    """
    environ = os.environ if environ is None else environ
    named_root, how = _named_root(root, environ), "--root"
    if not named_root and not config and not environ.get("MEMSYNC_CONFIG"):
        named_root, how = paths.made_by_init(os.path.abspath(cwd or current_folder())), "memsync init"
        root = named_root or None
    folder = os.path.abspath(named_root or cwd or current_folder())
    stamps = config_file.stamps_of(config or environ.get("MEMSYNC_CONFIG") or "", folder)  # before the files are read
    roots = os.path.join(config_folder(), ROOTS_NAME)
    stamps[roots] = stamp_of(roots)
    files = _find_files(config, named_root, folder, environ)
    in_own_file = _in_own_file(files, named_root)
    in_file = _in_file(files.over) if files.over is not None else {}
    in_options = {"memsync.root": _Given(named_root, how)} if root is not None else {}
    given = _over(in_own_file, in_file) | _in_environment(environ) | in_options
    _check_secret(files, given)
    not_overridden = {name: setting for name, setting in given.items() if setting is in_file.get(name)}
    asks_trust = _check_trust(files, not_overridden, in_own_file)
    if "memsync.root" not in given:
        return _of_default_root(files)
    settings = _resolved(files, given, environ, is_root_named=root is not None)
    if stamps[roots]:
        _read_in_place(settings, is_strict=bool(named_root) and files.over is None)
    settings.stamps = config_file.stamps_of("", settings.root_name) | stamps
    settings.asks_trust = asks_trust
    settings.load_again = partial(load_settings, config=config, root=root, environ=environ, cwd=folder)
    return settings


def _read_in_place(settings: Settings, *, is_strict: bool) -> None:
    """Read from the user's list of memories whether the files belong to another program.

    An error in that list ends only commands on a folder that may be such a one: it was named, and has no config.toml.
    """
    from memsync.settings.roots import read_in_place  # here, because few users have such a memory

    try:
        settings.only, settings.owner = read_in_place(settings.root_name)
    except ConfigError:
        if is_strict:
            raise


def _over(in_own_file: dict[str, _Given], in_file: dict[str, _Given]) -> dict[str, _Given]:
    """Return the settings of the user's own file, overridden by those of another one except for EXCLUDED."""
    given = in_own_file | in_file
    if EXCLUDED in in_own_file and EXCLUDED in in_file:  # the user's last, so that no pattern with ! undoes one of them
        patterns = [*in_file[EXCLUDED].value, *in_own_file[EXCLUDED].value]
        given[EXCLUDED] = in_file[EXCLUDED]._replace(value=patterns)
    return given


def _of_default_root(files: _Files) -> Settings:
    """Return the settings of the default one of the registered memories. Raises ConfigError if there is none."""
    from memsync.settings.roots import default_root  # here, because hardly any command needs it

    default = default_root() if files.over is None else None
    if default is None:
        raise _no_root(files)
    settings = settings_of(default)
    settings.sources = {**settings.sources, "memsync.root": DEFAULT_ROOT}
    return settings


def _resolved(files: _Files, given: dict[str, _Given], environ: Mapping[str, str], *, is_root_named: bool) -> Settings:
    """Return the settings with all defaults, and with absolute folders."""
    resolved = _DEFAULTS | given
    values = {name: setting.value for name, setting in resolved.items()}
    sources = {name: setting.source for name, setting in resolved.items()}
    named = resolved["memsync.root"]
    values["memsync.root"] = root = resolve_root(*named._replace(folder=named.folder or current_folder()))
    values[UNITED], sources[UNITED] = _united(files, root, environ)
    options = _same_anywhere(files, root, is_root_named=is_root_named, root_source=sources["memsync.root"])
    tables = {name: _globs(name, files) for name in GLOB_TABLES}
    warnings = [*files.warnings, *_unknown_variables(environ)]
    return Settings(root, values, tables["kinds"], tables["tiers"], sources, options, warnings)


def _same_anywhere(files: _Files, root: str, *, is_root_named: bool, root_source: str) -> list[str]:
    """Return the global options that yield the same settings in any folder."""
    options = ["--config", files.over.path] if files.over is not None and files.is_named else []
    if not options or is_root_named or root_source == "MEMSYNC_ROOT":
        options += ["--root", root]
    return options


def _no_root(files: _Files) -> ConfigError:
    if files.over is not None:
        hint = "Set root under [memsync] in it, or name a folder with --root."
        return ConfigError(f"{files.over.path} does not set a memory root", hint=hint)
    other = without_our_table(current_folder())
    reason = f"{other} has no [memsync] table" if other else "no config.toml in this folder or above"
    here = "Run memsync init, or name a folder with --root, or a file with --config."
    from memsync.settings.roots import registered_roots

    registered = ", ".join(registered_roots())
    anywhere = "To search your memories from any folder, register them: memsync roots add NAME PATH"
    if registered:
        anywhere = f"Or name a registered memory ({registered}) with --root, or with: memsync roots default NAME"
    return NoMemoryRoot(f"no memory root: {reason}", hint="\n".join([*files.warnings, here, anywhere]))


def settings_of_root(root: _AnyPath) -> tuple[Settings, bool]:
    """Return the settings of another memory root than the current one, and whether it has a config file.

    Environment variables that belong to the current root do not count. Raises ConfigError, RootError.
    """
    environ = {name: value for name, value in os.environ.items() if name not in _OF_ONE_ROOT_VARIABLES}
    settings = load_settings(root=root, environ=environ)
    return settings, _find_files(None, settings.root_name, None, environ).over is not None


def settings_of(root: RegisteredRoot) -> Settings:
    """Return the settings of a registered folder. Raises ConfigError, RootError."""
    if not os.path.isdir(root.path):
        reason = "is not a folder" if os.path.exists(root.path) else "does not exist"
        hint = f"Bring it back or mount it; or take it off the list with: memsync roots remove {root.name}"
        raise RootError(f"the memory root {root.path} {reason}", hint=hint)
    return settings_of_root(root.path)[0]


def default_of(name: str) -> Any:
    """Return a setting for work on several memory roots: from the environment or the user's own config file.

    Raises ConfigError.
    """
    own = users_own([])
    given = (_in_file(own) if own is not None else {}) | _in_environment(os.environ)
    return given.get(name, _DEFAULTS[name]).value


def with_changes(settings: Settings, changes: Mapping[str, str], where: str) -> Settings:
    """Return settings with some values replaced, each given as text; error messages begin with `where`.

    Raises ConfigError for an unknown name or an invalid value.
    """
    from copy import copy

    values = {}
    for name, text in changes.items():
        if name not in _BY_NAME:
            raise ConfigError(f"{where}: unknown setting {name}", hint=nearest(name, tuple(_BY_NAME)))
        values[name] = checked(_BY_NAME[name], from_text(_BY_NAME[name], text), where)
    changed = copy(settings)
    changed.values = {**settings.values, **values}
    changed.sources = {**settings.sources, **dict.fromkeys(values, where)}
    return changed


def find_config(config: _AnyPath | None = None, root: _AnyPath | None = None) -> ConfigFile | None:
    """Return the file that would override the user's own in `load_settings`, even if it is invalid or not trusted."""
    return _find_files(config, _named_root(root, os.environ), None, os.environ).over


def settings_to_trust(file: ConfigFile) -> dict[str, Any]:
    """Return the settings in a file that need the user's trust. Raises ConfigError for invalid settings."""
    in_file = _in_file(file)
    if DSN in in_file and in_file[DSN].value:
        raise _misplaced_secret(in_file[DSN].source, "because memsync finds this file by itself")
    own = users_own([])
    return {name: in_file[name].value for name in _risky(file, in_file, _in_file(own) if own is not None else {})}


def _named_root(root: _AnyPath | None, environ: Mapping[str, str]) -> str:
    """Return the memory root that `root` (a folder or a registered name), otherwise MEMSYNC_ROOT names; or nothing."""
    if root is not None:
        name = os.fspath(root)
        if "/" not in name:
            from memsync.settings.roots import named_folder

            name = named_folder(name)
        return os.path.abspath(expanded(name, "--root"))
    return expanded(environ.get("MEMSYNC_ROOT", ""), "MEMSYNC_ROOT")


def _find_files(config: _AnyPath | None, named_root: str, cwd: _AnyPath | None, environ: Mapping[str, str]) -> _Files:
    """Return the config files in use."""
    named_config = os.fspath(config or environ.get("MEMSYNC_CONFIG") or "")
    if named_config:
        return _Files(None, parse_config(expanded(named_config, "--config")), True, ())
    ignored = list[str]()
    own = users_own(ignored)
    for file in found_above(os.path.abspath(named_root or cwd or current_folder()), ignored):
        is_of_root = not named_root or realpath(root_of(file)) == realpath(named_root)
        if is_of_root and (own is None or file.path != own.path):
            return _Files(own, file, False, ignored)
    return _Files(own, None, False, ignored)


def _united(files: _Files, root: str, environ: Mapping[str, str]) -> tuple[list[str], str]:
    """Return all values of the setting UNITED for a memory root, each once, and their sources.

    Reads the user's own file even if another file is named with --config, or another user can change it: a privacy
    pattern must never get lost. Raises ConfigError for an invalid file.
    """
    own_path = os.path.join(config_folder(), CONFIG_NAME)
    own = files.own or (parse_config(own_path) if os.path.isfile(own_path) else None)
    used = [file for file in (own, files.over) if file is not None]
    of_root = [
        file
        for file in found_above(root, [], {file.path: file for file in used})
        if file not in used and realpath(root_of(file)) == root
    ]
    tables = (*(_in_file(file) for file in (*used, *of_root)), _in_environment(environ))
    lists = [table[UNITED] for table in tables if UNITED in table]
    patterns = dict.fromkeys(pattern for given in lists for pattern in given.value)
    return list(patterns), ", ".join(dict.fromkeys(given.source for given in lists)) or "default"


def _in_own_file(files: _Files, named_root: str) -> dict[str, _Given]:
    """Return the settings in the user's own file that apply to this memory root."""
    if files.own is None:
        return {}
    is_its_root = files.over is None and (not named_root or realpath(named_root) == realpath(root_of(files.own)))
    return {name: given for name, given in _in_file(files.own).items() if is_its_root or name not in NOT_SHARED}


def _in_file(file: ConfigFile) -> dict[str, _Given]:
    """Return the settings in a config file, in its order. Raises ConfigError."""
    folder = os.path.dirname(file.path)
    settings = {}
    for name, value in file.settings(tuple(_BY_NAME), tuple(GLOB_TABLES)):
        settings[name] = _Given(checked(_BY_NAME[name], value, file.path), file.path, folder)
    return settings


def _in_environment(environ: Mapping[str, str]) -> dict[str, _Given]:
    """Return the settings in the environment. Raises ConfigError."""
    by_variable = {setting.variable: setting for setting in SETTINGS}
    settings = {}
    for variable, text in environ.items():
        if variable in by_variable and text != "":
            setting = by_variable[variable]
            settings[setting.name] = _Given(checked(setting, from_text(setting, text), variable), variable)
    return settings


def _unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Return a warning for each MEMSYNC_ variable that is not a setting: it may belong to another program."""
    names = {setting.variable for setting in SETTINGS} | {"MEMSYNC_CONFIG", "MEMSYNC_CLOCK_AHEAD", STARTED}
    unknown = sorted(name for name in environ if name.startswith("MEMSYNC_") and name not in names)
    hint = partial(did_you_mean, names=sorted(names), otherwise="memsync config show lists them.", cutoff=0.8)
    return [f"{name} is ignored: it is not a setting. {hint(name)}" for name in unknown]


def _check_trust(files: _Files, in_file: Mapping[str, _Given], in_own_file: Mapping[str, _Given]) -> bool:
    """Return whether a file that was found automatically needs the user's trust. Raises ConfigError without that.

    `in_file` has the settings of the file that nothing overrides.
    """
    if files.over is None or files.is_named:
        return False
    file = files.over
    # Imported here, because a start without a config file does not need it.
    from memsync.settings.config_trust import is_trusted

    risky = _risky(file, in_file, in_own_file)
    if risky and not is_trusted(file, {name: in_file[name].value for name in risky}):
        import shlex  # here, because every command reads settings at its start

        name = risky[0]
        raise ConfigError(
            f"{in_file[name].source}: {name} needs your trust, because memsync found this file by itself",
            hint=f"Read the file. If you trust it, run: memsync trust {shlex.quote(file.path)}\n"
            f"Or set {_BY_NAME[name].variable}, or set {name} in {os.path.join(config_folder(), CONFIG_NAME)}",
        )
    return bool(risky)


def _check_secret(files: _Files, given: Mapping[str, _Given]) -> None:
    """Raise ConfigError if a connection string comes from a file that others may have written or can read.

    That is a file that memsync found by itself, trusted or not, and any file inside the memory root: the one in use, or
    the one that the file names, by default its own folder.
    """
    if files.over is None or DSN not in given or given[DSN] != _in_file(files.over).get(DSN) or not given[DSN].value:
        return
    if not files.is_named:
        raise _misplaced_secret(given[DSN].source, "because memsync found this file by itself")
    path, own_root = realpath(files.over.path), realpath(root_of(files.over))
    root = given.get("memsync.root")
    used = realpath(os.path.join(root.folder or current_folder(), os.path.expanduser(root.value))) if root else own_root
    for folder in (used, own_root):
        if is_inside(path, folder):
            raise _misplaced_secret(given[DSN].source, f"because this file is in the memory root {folder}")


def _misplaced_secret(where: str, reason: str) -> ConfigError:
    variable, own = _BY_NAME[DSN].variable, os.path.join(config_folder(), CONFIG_NAME)
    return ConfigError(
        f"{where}: {DSN} may not be set here, {reason}",
        hint=f"Set {variable}, or set it in {own}\n"
        "A file that you name with --config may have it if it is outside of the memory root, and names the root: root"
        " under [memsync]; otherwise its own folder counts as the root.",
    )


def _risky(file: ConfigFile, in_file: Mapping[str, _Given], in_own_file: Mapping[str, _Given]) -> list[str]:
    """Return the names of the settings in a file that need trust, compared with the defaults and the user's own."""
    from memsync.settings.config_trust import risky_settings

    without_file = {**_DEFAULTS, **in_own_file}
    return risky_settings(
        file,
        {name: given.value for name, given in in_file.items()},
        {name: given.value for name, given in without_file.items()},
    )


def _globs(table: str, files: _Files) -> dict[str, str]:
    """Return a glob table: the defaults, then the lines of the config files, because the last match wins."""
    defaults, allowed, _ = GLOB_TABLES[table]
    globs = dict(defaults)
    for file in (files.own, files.over):
        for glob, value in (file.table(table) if file else {}).items():
            where = file.path if file else ""
            if value not in allowed:
                hint = f"Write one of {', '.join(allowed)}."
                raise ConfigError(f"{where}: {quoted(str(value))} is not one of {table}", hint=hint)
            globs.pop(glob, None)
            globs[glob] = value
    return globs
