"""All settings with defaults. The environment overrides config.toml, which overrides the user's own file.

A setting `table.key` is `key` under `[table]` in config.toml and `MEMSYNC_TABLE_KEY` in the environment
(`memsync.root` is `MEMSYNC_ROOT`). An unknown name or a wrong type is an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from os.path import realpath
from typing import TYPE_CHECKING, Any, NamedTuple

from memsync.errors import ConfigError
from memsync.model.vocabulary import Kind, Mode, Tier
from memsync.settings.config_file import NAME as CONFIG_NAME
from memsync.settings.config_file import ConfigFile, found_above, nearest, parse_config, users_own, without_our_table
from memsync.settings.paths import expanded, keep_dir, resolve_index_dir, resolve_root, root_of
from memsync.system.user_folders import FOLDER_VARIABLES, config_folder

if TYPE_CHECKING:
    from pathlib import Path

BUILT_IN_MODEL = "minilm"
RERANK_MODEL = "Xenova/ms-marco-MiniLM-L-6-v2"
OF_ONE_ROOT = ("memsync.root", "index.dir")
"""Settings in the user's own config file that apply to one memory root; all others there apply to every root."""


_AnyPath = str | os.PathLike[str]


class Setting(NamedTuple):
    """One setting: its name, default, a one-line explanation, and which values it accepts.

    A number must be within `bounds`, a text one of `choices`. A tuple, because every command creates all settings and
    tuples are fast.
    """

    name: str
    default: Any
    explanation: str
    bounds: tuple[float, float] | None = None
    choices: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "MEMSYNC_" + self.name.removeprefix("memsync.").replace(".", "_").upper()


AUTOSTART = ("terminal", "always", "never")
SETTINGS = (
    Setting("memsync.root", ".", "Folder of the notes, relative to this file."),
    Setting("files.exclude", [], "Files that are not notes: patterns as in .gitignore, in addition to those there."),
    Setting(
        "files.max_structured_bytes",
        2_000_000,
        "Size in bytes above which a file is not parsed as Markdown but split into plain paragraphs.",
        (1, 64_000_000),
    ),
    Setting("chunks.max_tokens", 254, "Maximum tokens in a chunk; the built-in model reads 254.", (32, 254)),
    Setting("chunks.small_tokens", 120, "Maximum tokens for a list item as a separate entry.", (0, 254)),
    Setting("chunks.run_tokens", 400, "Reference notes: a list with more tokens is searched by item.", (0, 1_000_000)),
    Setting(
        "chunks.window_entries", 5, "Lines in a window of a conversation, which is also found as a whole.", (2, 20)
    ),
    Setting("chunks.window_stride", 2, "Average number of lines from the start of one window to the next.", (1, 20)),
    Setting(
        "embedder.model", BUILT_IN_MODEL, "minilm (built in), multilingual, a fastembed model's name, or openai:MODEL."
    ),
    Setting("embedder.threads", 0, "Texts to embed in parallel; 0: one per processor.", (0, 256)),
    Setting("index.backend", "sqlite", "What keeps the index: sqlite."),
    Setting("index.dir", "", "Folder of the index; empty: the platform's state folder."),
    Setting(
        "index.vector_cache_mb", 512, "Maximum MB of the vector cache of all memory roots; 0: none.", (0, 1_000_000)
    ),
    Setting(
        "index.processes", 0, "Processes to parse many notes; 0: one per processor, up to 4; 1: no extra.", (0, 64)
    ),
    Setting("search.limit", 10, "Hits that a search returns.", (1, 1000)),
    Setting("search.mode", "hybrid", "hybrid, keyword or vector.", choices=tuple(Mode)),
    Setting("search.keyword_weight", 0.2, "Weight of the keyword score against the semantic score.", (0, 1)),
    Setting("search.memory_keyword_weight", 0.35, "The same for logs, threads, MEMORY.md and preferences.", (0, 1)),
    Setting(
        "search.min_score", 0.05, "If the best score is lower, show only hits with all the question's words.", (0, 1)
    ),
    Setting("search.candidates", 200, "Candidate chunks from each retriever.", (10, 2000)),
    Setting("search.recency", 0.01, "Maximum recency bonus in the score.", (0, 0.5)),
    Setting("search.recency_days", 90, "Half-life of the recency bonus, in days.", (1, 100_000)),
    Setting("search.importance", 0.02, "Maximum effect of `importance` on the score.", (0, 0.5)),
    Setting("search.pinned", 0.01, "Bonus in the score for `pinned: true`.", (0, 0.5)),
    Setting(
        "search.deadline_ms",
        2_000,
        "Milliseconds that a search may spend on indexing changed files, and in a daemon on reranking (2 s at least).",
        (0, 600_000),
    ),
    Setting(
        "search.bound_ms", 5_000, "--fresh bounded: maximum age in ms of the last file comparison.", (0, 3_600_000)
    ),
    Setting("search.rerank_model", RERANK_MODEL, "Cross-encoder for --rerank: a model name that fastembed knows."),
    Setting("search.rerank_weight", 0.5, "Weight of the reranker's score against the first score.", (0, 0.9)),
    Setting("context.budget", 4_000, "Default budget of a context, in tokens.", (1, 1_000_000)),
    Setting("context.soul", 0.15, "Share of the budget for SOUL.md.", (0, 1)),
    Setting("context.prompts", 0.15, "Share for prompts/ and the thread's own prompt.", (0, 1)),
    Setting("context.memory", 0.2, "Share for pinned notes and MEMORY.md.", (0, 1)),
    Setting("context.messages", 0.2, "Share for the thread's last messages.", (0, 1)),
    Setting("context.logs", 0.1, "Share for today's and yesterday's logs; hits get the rest.", (0, 1)),
    Setting("prune.task_days", 30, "Days without a change after which `prune` archives a task note.", (1, 100_000)),
    Setting("usage.count", True, "Count searches and the notes that they retrieve, for `stale` and `stats`."),
    Setting("usage.queries", False, "Store the text of questions too; by default only their number is stored."),
    Setting("git.commit", False, "Commit each note that memsync writes (except imports) to git, and nothing else."),
    Setting("daemon.use", True, "Use the daemon if one serves this root with the same settings."),
    Setting(
        "daemon.autostart",
        "terminal",
        "When a command starts the daemon: terminal (if a person typed the command), always or never.",
        choices=AUTOSTART,
    ),
    Setting("daemon.idle_exit_minutes", 120, "Minutes without a request after which such a daemon ends.", (1, 100_000)),
    Setting("daemon.settle_ms", 30, "Milliseconds without a change before the daemon reads a file.", (0, 5_000)),
    Setting("daemon.longest_settle_ms", 1_000, "Maximum wait in ms for a file that keeps changing.", (0, 60_000)),
    Setting("daemon.rescan_seconds", 30, "Seconds between full comparisons, besides reported changes.", (1, 60)),
    Setting("daemon.poll_seconds", 2, "The same without reported changes (network file systems).", (1, 60)),
    Setting("daemon.idle_unload_minutes", 15, "Minutes without use until the daemon unloads the model.", (0, 100_000)),
    Setting(
        "cli.open_with",
        "",
        "Where terminal links lead: vscode, cursor, zed, idea, sublime, a URL with {path} and {line}; empty: the file.",
    ),
    Setting("cli.pager", True, "Show output that is longer than the terminal in $PAGER, or in less."),
)

_BY_NAME = {setting.name: setting for setting in SETTINGS}
_DEFAULTS = {setting.name: setting.default for setting in SETTINGS}

DEFAULT_KINDS: Mapping[str, str] = {
    "/SOUL.md": "soul",
    "/MEMORY.md": "memory",
    "/daily/": "daily",
    "/threads/": "thread",
    "/prompts/": "prompt",
}
DEFAULT_TIERS: Mapping[str, str] = {
    "/SOUL.md": "personal",
    "/MEMORY.md": "personal",
    "/preferences.md": "personal",
    "/prompts/": "personal",
    "/daily/": "task",
    "/threads/": "task",
}
GLOB_TABLES: Mapping[str, tuple[Mapping[str, str], tuple[str, ...], str]] = {
    "kinds": (DEFAULT_KINDS, tuple(Kind), "The kind of a note by its path: pattern = kind; the last match wins."),
    "tiers": (DEFAULT_TIERS, tuple(Tier), "How long a note matters, by its path: pattern = tier; the last match wins."),
}


class Settings:
    """The resolved settings. `values` has every name of SETTINGS; `sources` tells where each value came from.

    `root_name` and `index_name` are `root` and `index_dir` as text, so that a command that only asks the daemon need
    not import pathlib.
    """

    def __init__(
        self,
        root_name: str,
        index_name: str,
        values: Mapping[str, Any],
        kinds: Mapping[str, str],
        tiers: Mapping[str, str],
        sources: Mapping[str, str],
        options: Sequence[str] = (),
        warnings: Sequence[str] = (),
    ) -> None:
        """`options`: the global options that yield the same settings in any folder with the same environment.

        `warnings`: sentences about config files that were found but ignored.
        """
        self.root_name = root_name
        self.index_name = index_name
        self.values = values
        self.kinds = kinds
        self.tiers = tiers
        self.sources = sources
        self.options = options
        self.warnings = warnings

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
    """Resolve all settings.

    `config`, otherwise MEMSYNC_CONFIG, names the only file to read. Without them the nearest config file of a memory
    root in `cwd` or above overrides the user's own file. `root` names the memory root; the search for a config file
    then starts there, and the file must belong to that root. A file that was found automatically may only set what
    memsync.settings.trust allows.

    Raises ConfigError with file and line for an invalid setting, RootError for a missing root.
    """
    environ = os.environ if environ is None else environ
    files, named_root = _files(config, root, cwd, environ)
    values, sources = _values(files, environ, named_root, is_option=root is not None)
    if "memsync.root" not in sources:
        raise _no_root(files)
    tables = {name: _globs(name, files, sources) for name in GLOB_TABLES}
    paths = {name: (values[name], sources.get(name, ""), _base(files, sources.get(name, ""))) for name in OF_ONE_ROOT}
    values["memsync.root"] = resolved_root = resolve_root(*paths["memsync.root"])
    index_dir = resolve_index_dir(*paths["index.dir"], resolved_root)
    sources = {name: sources.get(name, "default") for name in values}
    options = ["--config", files.over.path] if files.over is not None and files.is_named else []
    if not options or root is not None or sources["memsync.root"] == "MEMSYNC_ROOT":
        options += ["--root", resolved_root]
    warnings = [*files.warnings, *_unknown_variables(environ)]
    return Settings(resolved_root, index_dir, values, tables["kinds"], tables["tiers"], sources, options, warnings)


def _no_root(files: _Files) -> ConfigError:
    if files.over is not None:
        hint = "Set root under [memsync] in it, or name a folder with --root."
        return ConfigError(f"{files.over.path} does not set a memory root", hint=hint)
    other = without_our_table(os.getcwd())
    reason = f"{other} has no [memsync] table" if other else "no config.toml or memsync.toml in this folder or above"
    return ConfigError(
        f"no memory root: {reason}",
        hint="\n".join([*files.warnings, "Run memsync init, or name a folder with --root, or a file with --config."]),
    )


def with_changes(settings: Settings, changes: Mapping[str, str], where: str) -> Settings:
    """Return settings with some values replaced, each given as text; error messages begin with `where`.

    Raises ConfigError for an unknown name or an invalid value.
    """
    from copy import copy

    values = {}
    for name, text in changes.items():
        if name not in _BY_NAME:
            raise ConfigError(f"{where}: unknown setting {name}", hint=nearest(name, tuple(_BY_NAME)))
        values[name] = _checked(_BY_NAME[name], _from_text(_BY_NAME[name], text), where)
    changed = copy(settings)
    changed.values = {**settings.values, **values}
    changed.sources = {**settings.sources, **dict.fromkeys(values, where)}
    return changed


def deciding_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that affect settings or the location of memsync's own files."""
    names = (name for name in environ if name.startswith("MEMSYNC_") or name in FOLDER_VARIABLES)
    return {name: environ[name] for name in sorted(names)}


def find_config(config: _AnyPath | None = None, root: _AnyPath | None = None) -> ConfigFile | None:
    """Return the file that would override the user's own in `load_settings`, even if it is invalid or not trusted."""
    return _files(config, root, None, os.environ)[0].over


def settings_to_trust(file: ConfigFile) -> dict[str, Any]:
    """Return the settings in a file that need the user's trust. Raises ConfigError for invalid settings."""
    from memsync.settings.trust import risky_settings

    values = _settings_in(file)
    own = users_own([])
    without_file = {**_DEFAULTS, **(_settings_in(own) if own is not None else {})}
    return {name: values[name] for name in risky_settings(file, values, without_file)}


def _files(
    config: _AnyPath | None, root: _AnyPath | None, cwd: _AnyPath | None, environ: Mapping[str, str]
) -> tuple[_Files, str]:
    """Return the config files in use, and the memory root from `--root` or MEMSYNC_ROOT (empty if neither is set)."""
    if root is not None:
        named_root = os.path.abspath(expanded(os.fspath(root), "--root"))
    else:
        named_root = expanded(environ.get("MEMSYNC_ROOT", ""), "MEMSYNC_ROOT")
    named_config = os.fspath(config or environ.get("MEMSYNC_CONFIG") or "")
    if named_config:
        return _Files(None, parse_config(expanded(named_config, "--config")), True, ()), named_root
    ignored = list[str]()
    own = users_own(ignored)
    for file in found_above(os.path.abspath(named_root or cwd or os.getcwd()), ignored):
        is_of_root = not named_root or realpath(root_of(file)) == realpath(named_root)
        if is_of_root and (own is None or file.path != own.path):
            return _Files(own, file, False, ignored), named_root
    return _Files(own, None, False, ignored), named_root


def _values(
    files: _Files, environ: Mapping[str, str], named_root: str, *, is_option: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return (values of all settings, sources of those that are not defaults).

    `named_root` is the memory root from `--root` (`is_option`) or MEMSYNC_ROOT.
    """
    values = dict(_DEFAULTS)
    sources: dict[str, str] = {}
    if files.own is not None:
        is_its_root = files.over is None and (not named_root or realpath(named_root) == realpath(root_of(files.own)))
        for name, value in _settings_in(files.own).items():
            if is_its_root or name not in OF_ONE_ROOT:
                values[name], sources[name] = value, files.own.where(name)
    without_file = dict(values)
    if files.over is not None:
        for name, value in _settings_in(files.over).items():
            values[name], sources[name] = value, files.over.where(name)
    for setting, value in _in_environment(environ):
        values[setting.name], sources[setting.name] = value, setting.variable
    if is_option:
        values["memsync.root"], sources["memsync.root"] = named_root, "--root"
    if files.over is not None and not files.is_named:
        _check_trust(files.over, values, sources, without_file)
    return values, sources


def _settings_in(file: ConfigFile) -> dict[str, Any]:
    pairs = file.settings(tuple(_BY_NAME), tuple(GLOB_TABLES))
    return {name: _checked(_BY_NAME[name], value, file.where(name)) for name, value in pairs}


def _in_environment(environ: Mapping[str, str]) -> Iterator[tuple[Setting, Any]]:
    """Yield the settings in the environment with their values. Raises ConfigError like `_settings_in`."""
    variables = {setting.variable: setting for setting in SETTINGS}
    for variable, text in environ.items():
        if variable in variables and text != "":
            setting = variables[variable]
            yield setting, _checked(setting, _from_text(setting, text), variable)


def _unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Return a warning for each MEMSYNC_ variable that is not a setting: it may belong to another program."""
    names = {setting.variable for setting in SETTINGS} | {"MEMSYNC_CONFIG"}
    unknown = sorted(name for name in environ if name.startswith("MEMSYNC_") and name not in names)
    return [f"{name} is ignored: it is not a setting. {_similar_variable(name, names)}" for name in unknown]


def _similar_variable(name: str, names: set[str]) -> str:
    import difflib

    rests = [known.removeprefix("MEMSYNC_") for known in sorted(names)]
    close = difflib.get_close_matches(name.removeprefix("MEMSYNC_"), rests, n=1)
    return f"Did you mean MEMSYNC_{close[0]}?" if close else "memsync config show lists them."


def _check_trust(
    file: ConfigFile, values: Mapping[str, Any], sources: Mapping[str, str], without_file: Mapping[str, Any]
) -> None:
    """Raise ConfigError if a file that was found automatically sets something that needs the user's trust."""
    # Imported here, because a start without a config file does not need it.
    from memsync.settings.trust import is_trusted, risky_settings

    set_values = {name: values[name] for name, source in sources.items() if _is_from(source, file)}
    risky = risky_settings(file, set_values, without_file)
    if risky and not is_trusted(file):
        import shlex  # here, because every command reads settings at its start

        name = risky[0]
        raise ConfigError(
            f"{sources[name]}: {name} needs your trust, because memsync found this file by itself",
            hint=f"Read the file. If you trust it, run: memsync trust {shlex.quote(file.path)}\n"
            f"Or set {_BY_NAME[name].variable}, or set {name} in {os.path.join(config_folder(), CONFIG_NAME)}",
        )


def _is_from(source: str, file: ConfigFile) -> bool:
    return source == file.path or source.startswith(f"{file.path}:")


def _base(files: _Files, source: str) -> str:
    """Return the folder to which a path from `source` is relative: that of its config file, otherwise the current."""
    for file in (files.own, files.over):
        if file is not None and _is_from(source, file):
            return os.path.dirname(file.path)
    return os.getcwd()


def _checked(setting: Setting, value: Any, where: str) -> Any:
    required = type(setting.default)
    if required is float and type(value) is int:
        value = float(value)
    if type(value) is not required or (required is list and not all(isinstance(item, str) for item in value)):
        names = {str: "text", bool: "true or false", int: "a whole number", float: "a number", list: "a list of texts"}
        raise ConfigError(f"{where}: {setting.name} must be {names[required]}, not {value!r}", hint=setting.explanation)
    expected = ""
    if setting.bounds is not None and not setting.bounds[0] <= value <= setting.bounds[1]:
        expected = f"from {setting.bounds[0]:g} to {setting.bounds[1]:g}"
    elif setting.choices and value not in setting.choices:
        expected = f"{', '.join(setting.choices[:-1])} or {setting.choices[-1]}"
    if expected:
        raise ConfigError(f"{where}: {setting.name} must be {expected}, not {value!r}", hint=setting.explanation)
    return value


def _from_text(setting: Setting, text: str) -> Any:
    """Return text converted to the setting's type; unconverted if that fails, so that the type check reports it."""
    kind = type(setting.default)
    if kind is list:
        return [part.strip() for part in text.split(",") if part.strip()]
    if kind is bool:
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    try:
        return kind(text)
    except ValueError:
        return text


def _globs(table: str, files: _Files, sources: dict[str, str]) -> dict[str, str]:
    """Return a glob table: the defaults, then the lines of the config files, because the last match wins."""
    defaults, allowed, _ = GLOB_TABLES[table]
    globs = dict(defaults)
    for file in (files.own, files.over):
        for glob, value in (file.table(table) if file else {}).items():
            where = file.where(f"{table}.{glob}") if file else ""
            if value not in allowed:
                hint = f"Write one of {', '.join(allowed)}."
                raise ConfigError(f"{where}: {value!r} is not one of {table}", hint=hint)
            globs.pop(glob, None)
            globs[glob] = value
            sources[f"{table}.{glob}"] = where
    return globs
